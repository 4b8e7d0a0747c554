"""``openclaw-ctx sessions``: what is on disk."""

from .group import command

__all__ = ["command"]
