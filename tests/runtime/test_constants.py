"""The figures of a turn, as the reference system writes them."""

import pytest

from openclaw_ctx import tokens
from openclaw_ctx.runtime import (
    flush,
    heartbeat,
    loop_guard,
    maintenance,
    policy,
    precheck,
    pruning,
    recovery,
    rules,
    truncation,
    window,
)
from openclaw_ctx.tokens import estimate


@pytest.mark.parametrize(
    "room,name,written",
    [
        (estimate, "CHARS_PER_TOKEN", 4),
        (estimate, "IMAGE_TOKENS", 2_000),
        (window, "DEFAULT_CONTEXT_WINDOW", 200_000),
        (window, "HARD_MIN_TOKENS", 4_000),
        (window, "HARD_MIN_RATIO", 0.1),
        (window, "WARN_BELOW_TOKENS", 8_000),
        (window, "WARN_BELOW_RATIO", 0.2),
        (window, "RESERVE_TOKENS", 16_384),
        (window, "RESERVE_TOKENS_FLOOR", 20_000),
        (window, "MIN_PROMPT_BUDGET_TOKENS", 8_000),
        (window, "MIN_PROMPT_BUDGET_RATIO", 0.5),
        (precheck, "CHARS_PER_TOKEN", 4),
        (precheck, "CHARS_PER_RESULT_TOKEN", 2),
        (precheck, "CHARS_PER_JSON_TOKEN", 3),
        (precheck, "TOKENS_PER_MESSAGE", 12),
        (precheck, "TOKENS_PER_BLOCK", 6),
        (precheck, "UNREADABLE_JSON_TOKENS", 256),
        (precheck, "SAFETY_MARGIN", 1.2),
        (precheck, "TRUNCATION_BUFFER_TOKENS", 512),
        (precheck, "TRUNCATION_FACTOR", 1.5),
        (recovery, "MAX_OVERFLOW_COMPACTION_ATTEMPTS", 3),
        (recovery, "MAX_TIMEOUT_COMPACTION_ATTEMPTS", 2),
        (recovery, "TIMEOUT_SHARE", 0.65),
        (loop_guard, "WATCHED_CALLS", 3),
        (loop_guard, "DETECTOR", "compaction_loop_persisted"),
        (policy, "MAX_ROUNDS", 160),
        (maintenance, "SLOW_SECONDS", 10.0),
        (flush, "FLUSH_SOFT_THRESHOLD_TOKENS", 4_000),
        (flush, "FORCE_FLUSH_TRANSCRIPT_BYTES", 2 * 1024 * 1024),
        (flush, "RESERVE_FLOOR", 20_000),
        (heartbeat, "SILENT_REPLY", "NO_REPLY"),
        (heartbeat, "HEARTBEAT_OK", "HEARTBEAT_OK"),
        (truncation, "CHARS_PER_TOKEN", 4),
        (truncation, "RESULT_SHARE", 0.3),
        (truncation, "HARD_CAPS", ((200_000, 64_000), (100_000, 32_000), (0, 16_000))),
        (truncation, "MIN_KEEP_CHARS", 2_000),
        (truncation, "TAIL_SHARE", 0.3),
        (truncation, "MAX_TAIL_CHARS", 4_000),
        (truncation, "LOOKED_AT_CHARS", 2_000),
        (truncation, "NEWLINE_SHARE", 0.2),
        (truncation, "NOTHING_TO_TRUNCATE", "no oversized or aggregate tool results"),
        (pruning, "CHARS_PER_TOKEN", 4),
        (pruning, "IMAGE_CHARS", 8_000),
        (pruning, "UNKNOWN_CHARS", 256),
        (pruning, "IMAGE_REMOVED", "[image removed during context pruning]"),
        (rules, "MAX_IMAGE_BYTES", 5 * 1024 * 1024),
    ],
)
def test_a_figure_is_the_written_one(room, name, written):
    """Whoever changes one changes what the same settings mean here and there."""
    assert getattr(room, name) == written


def test_turns_begin_with_the_written_defaults():
    """Where nothing is configured, each key has its reference's value."""
    made = policy.TurnPolicy()

    assert (made.compaction_enabled, made.mid_turn_precheck) == (True, False)
    assert (made.reserve_tokens, made.reserve_tokens_floor) == (16_384, 20_000)
    assert (made.max_transcript_bytes, made.tool_result_max_chars) == (None, None)


def test_pruning_begins_with_the_written_defaults():
    """Off; once it is on, these shares and sizes."""
    made = pruning.PruningPolicy()

    assert (made.mode, made.ttl_seconds, made.keep_last_assistants) == ("off", 5 * 60.0, 3)
    assert (made.soft_trim_ratio, made.hard_clear_ratio, made.min_prunable_tool_chars) == (0.3, 0.5, 50_000)
    assert (made.soft_trim_max_chars, made.head, made.tail) == (4_000, 1_500, 1_500)
    assert (made.hard_clear, made.placeholder) == (True, "[Old tool result content cleared]")
    assert (made.allow, made.deny) == ((), ())


def test_memory_is_flushed_by_default_where_there_is_one():
    """So many tokens ahead of a compaction, or from two mebibytes on."""
    made = flush.FlushPolicy()

    assert (made.enabled, made.soft_threshold_tokens, made.force_transcript_bytes) == (True, 4_000, 2_097_152)


@pytest.mark.parametrize(
    "tokens_of_window,written",
    [(8_000, 9_600), (50_000, 16_000), (99_999, 16_000), (100_000, 32_000), (199_999, 32_000), (200_000, 64_000)],
)
def test_a_tool_result_has_its_written_cap(tokens_of_window, written):
    """Three tenths of the window, and no more than the window's size allows."""
    assert truncation.result_cap_chars(tokens_of_window) == written


@pytest.mark.parametrize(
    "size,written",
    [(4_000, 2_000), (16_000, 8_000), (20_000, 12_000), (36_000, 20_000), (200_000, 20_000)],
)
def test_the_reserve_is_the_written_one(size, written):
    """A small window keeps half of itself or 8,000 tokens for the prompt; a large one reserves the floor."""
    assert window.effective_reserve(size) == written


@pytest.mark.parametrize(
    "size,reserve,written",
    [(4_000, 2_000, 3_999), (16_000, 16_000, 8_000), (200_000, 20_000, 180_000), (200_000, 199_000, 8_000)],
)
def test_the_budget_of_a_prompt_is_the_written_one(size, reserve, written):
    """The precheck never asks for less than 8,000 tokens, or all but one of a smaller window."""
    assert window.prompt_budget(size, reserve=reserve) == written


@pytest.mark.parametrize("tokens_now,compacts", [(183_616, False), (183_617, True)])
def test_compaction_is_due_above_the_window_without_its_reserve(tokens_now, compacts):
    """Above, and not at it."""
    assert window.should_compact(tokens_now, window=200_000, reserve=window.RESERVE_TOKENS) is compacts


def test_the_estimate_is_of_four_characters_a_token_rounded_up():
    """For plain text; what is written in other scripts weighs more."""
    assert [tokens.estimate_text("a b" + "c" * more) for more in (1, 2)] == [1, 2]
