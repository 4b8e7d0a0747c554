"""The command, for hands."""
