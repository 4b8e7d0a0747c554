"""
Short codes for why a compaction ended as it did; the reference system's.

Codes are for counting and for a user's message. Nothing is decided by them that
``ok`` and ``compacted`` tell already, since a reason is a text of anybody's.
"""

from typing import Final

__all__ = ["SKIP_CODES", "is_skip", "reason_code"]

SKIP_CODES: Final = frozenset(
    {
        "no_compactable_entries",
        "no_real_conversation_messages",
        "below_threshold",
        "already_compacted",
        "deferred_background",
    }
)
"""The codes of what is no failure: nothing needed doing, or somebody else does it."""

_PHRASES: Final = (
    ("no_compactable_entries", ("nothing to compact", "no compactable entries")),
    ("no_real_conversation_messages", ("no real conversation messages",)),
    ("unknown_model", ("unknown model",)),
    ("below_threshold", ("below threshold", "below_threshold")),
    ("already_compacted", ("already compacted",)),
    ("deferred_background", ("deferred to background",)),
    ("live_context_still_exceeds_target", ("still exceeds target",)),
    ("transcript_persistence_failed", ("transcript persistence", "persist")),
    ("guard_blocked", ("guard",)),
    ("summary_failed", ("summary", "summarization")),
    ("timeout", ("timed out", "timeout")),
    ("auth_failed", ("auth", "api key", "credential")),
    ("provider_error_4xx", ("400", "401", "403", "429")),
    ("provider_error_5xx", ("500", "502", "503", "504")),
)


def reason_code(text: str | None) -> str:
    """Return the code of a reason: of the first phrase that stands in it, in the reference system's order."""
    lowered = (text or "").casefold()
    return next((code for code, phrases in _PHRASES if any(phrase in lowered for phrase in phrases)), "unknown")


def is_skip(text: str | None) -> bool:
    """Return whether a reason is one of those that are no failure."""
    return reason_code(text) in SKIP_CODES
