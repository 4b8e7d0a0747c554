"""Names and numbers of the contract that stand for themselves."""

__all__ = ["CONTRACT_VERSION", "LEGACY_ENGINE_ID"]

CONTRACT_VERSION = "1.0"
"""Minor: hooks and parameters were added. Major: one was removed, after two minor versions of warning."""

LEGACY_ENGINE_ID = "legacy"
"""The built-in engine that answers when no other can; core's alone."""
