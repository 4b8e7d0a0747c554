"""The figures of compaction, as the reference system writes them: a pasted setting means here what it meant there."""

import pytest

from openclaw_ctx.compaction import (
    CompactionPolicy,
    audit,
    extracts,
    identifiers,
    native,
    planner,
    policy,
    prompts,
    safeguard,
    stages,
    summarizer,
    threads,
    writing,
)
from openclaw_ctx.compaction.reasons import SKIP_CODES, is_skip, reason_code
from openclaw_ctx.config import CompactionSettings, DeadlineSettings


@pytest.mark.parametrize(
    "room,name,written",
    [
        (policy, "KEEP_RECENT_TOKENS", 20_000),
        (policy, "MAX_SUMMARY_CHARS", 16_000),
        (writing, "SUMMARY_SHARE", 0.8),
        (writing, "PREFIX_SHARE", 0.5),
        (writing, "MOST_RECENT_TURNS", 12),
        (writing, "MOST_QUALITY_RETRIES", 3),
        (stages, "BASE_CHUNK_RATIO", 0.4),
        (stages, "MIN_CHUNK_RATIO", 0.15),
        (stages, "SAFETY_MARGIN", 1.2),
        (stages, "DEFAULT_PARTS", 2),
        (stages, "SUMMARIZATION_OVERHEAD_TOKENS", 4_096),
        (stages, "MIN_MESSAGES_TO_SPLIT", 4),
        (stages, "OVERSIZED_SHARE", 0.5),
        (summarizer, "ATTEMPTS", 3),
        (summarizer, "FIRST_DELAY_SECONDS", 0.5),
        (summarizer, "LAST_DELAY_SECONDS", 5.0),
        (summarizer, "JITTER", 0.2),
        (summarizer, "NO_HISTORY", "No prior history."),
        (threads, "SMALL", 64),
        (extracts, "MOST_TURNS", 12),
        (extracts, "MAX_ENTRY_CHARS", 600),
        (extracts, "TURNS_HEADING", "## Recent turns preserved verbatim"),
        (extracts, "MOST_FAILURES", 8),
        (extracts, "MAX_FAILURE_CHARS", 240),
        (extracts, "FAILURES_HEADING", "## Tool Failures"),
        (extracts, "MAX_REQUEST_CHARS", 800),
        (safeguard, "MAX_OPERATOR_CHARS", 4_000),
        (safeguard, "MAX_RULES_CHARS", 2_000),
        (safeguard, "PENDING_SECTION", "## Pending user asks"),
        (identifiers, "MOST_IDENTIFIERS", 12),
        (identifiers, "LOOKED_AT_MESSAGES", 10),
        (identifiers, "MIN_IDENTIFIER_CHARS", 4),
        (audit, "MOST_KEYWORDS", 12),
        (audit, "FEW_KEYWORDS", 3),
        (prompts, "MAX_FOCUS_CHARS", 800),
        (prompts, "FOCUS_LABEL", "Additional focus"),
        (planner, "NO_CONVERSATION", "no real conversation messages"),
        (planner, "NOTHING", "nothing to compact"),
        (planner, "BELOW_THRESHOLD", "below threshold"),
        (native, "PURPOSE", "context-engine.compaction"),
    ],
)
def test_a_figure_is_the_written_one(room, name, written):
    """Whoever changes one changes what the same settings mean here and there."""
    assert getattr(room, name) == written


def test_a_policy_begins_with_the_written_defaults():
    """Thresholds, shares and retries where nothing is configured."""
    made = CompactionPolicy()

    assert (made.keep_recent_tokens, made.reserve_tokens) == (20_000, 16_384)
    assert (made.max_history_share, made.recent_turns) == (0.5, 3)
    assert (made.mode, made.identifier_policy, made.quality_retries) == ("default", "strict", 1)
    assert made.context_window == 200_000


def test_a_compaction_has_three_minutes():
    """The safety timeout, where ``timeoutSeconds`` says nothing."""
    assert CompactionSettings().timeout_seconds is None
    assert DeadlineSettings().compact == 180.0


def test_the_sections_of_a_safeguarded_summary_are_the_written_ones_in_their_order():
    """Other programs read them by their headings."""
    assert safeguard.REQUIRED_SECTIONS == (
        "## Decisions",
        "## Open TODOs",
        "## Constraints/Rules",
        "## Pending user asks",
        "## Exact identifiers",
    )


def test_the_headings_of_a_summary_are_the_written_ones():
    """Whole histories and the beginnings of split turns."""
    for heading in (
        "## Goal",
        "## Constraints & Preferences",
        "## Progress",
        "### Done",
        "### In Progress",
        "### Blocked",
        "## Key Decisions",
        "## Next Steps",
        "## Critical Context",
    ):
        assert f"{heading}\n" in prompts.HISTORY_FORMAT
    for heading in ("## Original Request", "## Early Progress", "## Context for Suffix"):
        assert f"{heading}\n" in prompts.PREFIX_FORMAT


@pytest.mark.parametrize(
    "average,window,written",
    [
        pytest.param(0, 100_000, 0.4, id="nothing"),
        pytest.param(8_333, 100_000, 0.4, id="a tenth of the window and a margin"),
        pytest.param(10_000, 100_000, 0.16, id="a little more"),
        pytest.param(50_000, 100_000, 0.15, id="half of the window"),
    ],
)
def test_chunks_shrink_as_messages_grow(average, window, written):
    """From a tenth of the window on by twice the share, and never below the least ratio."""
    costs = [average] * 2 if average else []

    assert stages.adaptive_ratio(costs, window=window) == pytest.approx(written)


def test_the_codes_that_are_no_failure_are_the_written_ones():
    """Everything else is."""
    assert {
        "no_compactable_entries",
        "no_real_conversation_messages",
        "below_threshold",
        "already_compacted",
        "deferred_background",
    } == SKIP_CODES
    for reason in (planner.NO_CONVERSATION, planner.NOTHING, planner.BELOW_THRESHOLD):
        assert is_skip(reason)
    assert reason_code("") == reason_code(None) == "unknown"
