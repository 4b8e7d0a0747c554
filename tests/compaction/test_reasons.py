"""The codes of reasons: the reference system's, by its phrases."""

import pytest

from openclaw_ctx.compaction import SKIP_CODES, is_skip, reason_code


@pytest.mark.parametrize(
    "text,code",
    [
        (None, "unknown"),
        ("", "unknown"),
        ("the moon", "unknown"),
        ("Nothing to compact", "no_compactable_entries"),
        ("no real conversation messages", "no_real_conversation_messages"),
        ("Unknown model: x/y", "unknown_model"),
        ("below threshold", "below_threshold"),
        ("below_threshold", "below_threshold"),
        ("already under target", "below_threshold"),
        ("already compacted", "already_compacted"),
        ("deferred to background context-engine maintenance", "deferred_background"),
        ("live context still exceeds target", "live_context_still_exceeds_target"),
        ("session transcript was not persisted", "transcript_persistence_failed"),
        ("blocked by a guard", "guard_blocked"),
        ("the summary is not smaller than what it replaces", "summary_failed"),
        ("Compaction timed out", "timeout"),
        ("summarization failed: ModelTimeoutError: late", "timeout"),
        ("summarization failed: ModelAuthError: who?", "auth_failed"),
        ("HTTP 429", "provider_error_4xx"),
        ("summarization failed: RateLimitedError: slow down", "provider_error_4xx"),
        ("error 503 of the provider", "provider_error_5xx"),
        ("1500 tokens", "unknown"),
    ],
)
def test_a_reason_has_a_code(text, code):
    """One phrase decides, whatever its case."""
    assert reason_code(text) == code


def test_the_first_of_the_list_counts():
    """Where several phrases stand in a text, the reference system's order decides."""
    assert reason_code("nothing to compact: the summary timed out with 503") == "no_compactable_entries"
    assert reason_code("the summary timed out with 503") == "summary_failed"
    assert reason_code("timed out with 503") == "timeout"


def test_what_is_no_failure():
    """Five codes, and no other."""
    assert {
        "no_compactable_entries",
        "no_real_conversation_messages",
        "below_threshold",
        "already_compacted",
        "deferred_background",
    } == SKIP_CODES
    assert is_skip("below threshold")
    assert not is_skip("the summary is empty")
    assert not is_skip(None)
