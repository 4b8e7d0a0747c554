"""
Short codes for why a compaction ended as it did; the reference system's.

Codes are for counting and for a user's message. Nothing is decided by them that
``ok`` and ``compacted`` tell already, since a reason is a text of anybody's.
"""

import re
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

# The reference system's phrases in its order, and the names of our own errors where they say the same.
_CODES: Final = tuple(
    (code, re.compile(pattern, re.IGNORECASE))
    for code, pattern in (
        ("no_compactable_entries", r"nothing to compact"),
        ("no_real_conversation_messages", r"no real conversation messages"),
        ("unknown_model", r"unknown model"),
        ("below_threshold", r"below[ _]threshold|already under target"),
        ("already_compacted", r"already[ _]compacted"),
        ("deferred_background", r"deferred to background"),
        ("live_context_still_exceeds_target", r"still exceeds target"),
        ("transcript_persistence_failed", r"session transcript.*not persisted"),
        ("guard_blocked", r"guard"),
        ("summary_failed", r"summary"),
        ("timeout", r"timed out|timeout"),
        ("auth_failed", r"no api key found|authentication failed|ModelAuthError"),
        ("provider_error_4xx", r"\b(?:400|401|403|429)\b|RateLimitedError"),
        ("provider_error_5xx", r"\b(?:500|502|503|504)\b"),
    )
)


def reason_code(text: str | None) -> str:
    """Return the code of a reason: the first whose phrase stands in it; ``unknown`` where none does."""
    return next((code for code, pattern in _CODES if pattern.search(text or "")), "unknown")


def is_skip(text: str | None) -> bool:
    """Return whether a reason is one of those that are no failure."""
    return reason_code(text) in SKIP_CODES
