"""openclaw-ctx: a host for pluggable context engines."""
