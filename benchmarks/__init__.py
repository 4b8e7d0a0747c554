"""Ours and the peers' speed, measured side by side in one run; ``python -m benchmarks --help``."""
