"""The host's own compaction: it shrinks the context and loses nothing, or it leaves the file as it was."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.compaction import KEEP_RECENT_TOKENS, MAX_SUMMARY_CHARS, compact_transcript
from openclaw_ctx.models import HEADING
from openclaw_ctx.tokens import estimate_tokens
from openclaw_ctx.transcript import Transcript, pairs_are_whole, repair_pairs
from tests.compaction.transcripts import fill, total


async def test_the_context_shrinks_and_the_record_stays(transcript):
    """A summary stands for the older part; what is kept is kept whole, and every message is still on record."""
    fill(transcript, 12)
    record, before = list(transcript.record()), total(transcript)

    result = await compact_transcript(transcript, count=estimate_tokens, token_budget=3000)

    assert (result.ok, result.compacted) == (True, True)
    made = result.result
    assert (made.tokens_before, made.tokens_after) == (before, total(transcript))
    assert total(transcript) < before
    assert list(transcript.record()) == record
    summary, *kept = transcript.history
    assert isinstance(summary, CompactionSummaryMessage)
    assert summary.summary == made.summary
    assert kept == record[-len(kept) :]
    assert kept[0].entry_id == made.first_kept_entry_id
    assert pairs_are_whole(kept)


@pytest.mark.parametrize("budget", [1000, 2000, 4000, 8000])
async def test_half_of_the_budget_stays_and_a_fifth_is_summary(transcript, budget):
    """The context afterwards is within the budget, with room for the next turn."""
    fill(transcript, 40)

    result = await compact_transcript(transcript, count=estimate_tokens, token_budget=budget)

    kept = estimate_tokens.total(transcript.history[1:])
    assert result.compacted
    assert kept <= budget // 2
    assert len(result.result.summary) <= budget // 5 * 4
    assert total(transcript) <= budget


async def test_without_a_budget_the_reference_s_defaults_hold(transcript):
    """At most 20,000 tokens stay, and the summary has at most 16,000 characters."""
    fill(transcript, 100)

    result = await compact_transcript(transcript, count=estimate_tokens, force=True)

    assert (KEEP_RECENT_TOKENS, MAX_SUMMARY_CHARS) == (20_000, 16_000)
    kept = estimate_tokens.total(transcript.history[1:])
    assert KEEP_RECENT_TOKENS * 0.9 < kept <= KEEP_RECENT_TOKENS
    assert 1000 < len(result.result.summary) <= MAX_SUMMARY_CHARS


@pytest.mark.parametrize(
    "turns,options,ok,reason",
    [
        pytest.param(0, {"force": True}, True, "no real conversation messages", id="an empty session"),
        pytest.param(2, {"token_budget": 50_000}, True, "below threshold", id="below the budget"),
        pytest.param(
            9, {"token_budget": 5000, "current_token_count": 5000}, True, "below threshold", id="as the caller measured"
        ),
        pytest.param(2, {"force": True}, True, "nothing to compact", id="everything fits into what stays"),
        pytest.param(9, {"token_budget": 60}, False, "no room for a summary", id="a budget too small for any summary"),
        pytest.param(9, {"token_budget": 3}, False, "no room for a summary", id="a budget of three tokens"),
    ],
)
async def test_what_is_not_done_leaves_the_bytes(transcript, turns, options, ok, reason):
    """Nothing to do is ``ok``; what was tried in vain is not; the file is the same either way."""
    fill(transcript, turns)
    before = transcript.path.read_bytes()

    result = await compact_transcript(transcript, count=estimate_tokens, **options)

    assert (result.ok, result.compacted) == (ok, False)
    assert reason in str(result.reason)
    assert transcript.path.read_bytes() == before


async def test_a_summary_that_is_no_smaller_is_not_written(transcript):
    """B11: what would not shrink the context is reported and not written, and the next prompt has all of it."""
    fill(transcript, 8)
    before, history = transcript.path.read_bytes(), list(transcript.history)

    def count(message: Message) -> int:
        return 10_000 if isinstance(message, CompactionSummaryMessage) else 100

    result = await compact_transcript(transcript, count=count, token_budget=2000)

    assert (result.ok, result.compacted) == (False, False)
    assert "not smaller" in str(result.reason)
    assert transcript.path.read_bytes() == before
    assert list(transcript.history) == history


async def test_force_compacts_below_the_budget(transcript):
    """A user who asks for it gets it, down to half of the budget."""
    fill(transcript, 12)
    budget = total(transcript) + 100

    calm = await compact_transcript(transcript, count=estimate_tokens, token_budget=budget)
    forced = await compact_transcript(transcript, count=estimate_tokens, token_budget=budget, force=True)

    assert (calm.compacted, forced.compacted) == (False, True)


async def test_what_the_user_wants_kept_is_quoted(transcript):
    """The focus is a line of the summary."""
    fill(transcript, 12)

    result = await compact_transcript(
        transcript, count=estimate_tokens, token_budget=3000, focus="the name of the port"
    )

    assert "Focus asked for: the name of the port" in result.result.summary


async def test_a_second_compaction_carries_the_first_one_on(transcript):
    """What the first summary said is in the second, as far as there is room, under one heading."""
    transcript.append(UserMessage(content="The server is at host.example:8443, remember that."))
    fill(transcript, 12)
    first = await compact_transcript(transcript, count=estimate_tokens, token_budget=4000)
    fill(transcript, 12)

    second = await compact_transcript(transcript, count=estimate_tokens, token_budget=4000)

    assert first.compacted
    assert second.compacted
    assert "host.example:8443" in first.result.summary
    assert "host.example:8443" in second.result.summary
    assert second.result.summary.count(HEADING) == 1
    assert [type(message) for message in transcript.history].count(CompactionSummaryMessage) == 1


async def test_a_summary_is_not_compacted_again(transcript):
    """Compacting twice in a row folds nothing but the summary, so the second does nothing."""
    fill(transcript, 12)
    await compact_transcript(transcript, count=estimate_tokens, token_budget=4000)
    before = transcript.path.read_bytes()

    again = await compact_transcript(transcript, count=estimate_tokens, token_budget=4000, force=True)

    assert again.compacted is False
    assert transcript.path.read_bytes() == before


@given(
    kinds=st.lists(st.sampled_from("uagn"), min_size=1, max_size=25),
    budget=st.integers(1, 900),
    words=st.integers(1, 60),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_the_law_of_compaction(tmp_path, kinds, budget, words):
    """It shrinks the context or changes not a byte; the record and its pairs are whole; reopened it is the same."""
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
    transcript = Transcript.open(path)
    try:
        for number, kind in enumerate(kinds):
            text = f"{kind}{number} " * words
            if kind == "u":
                transcript.append(UserMessage(content=text))
            elif kind == "a":
                transcript.append(AssistantMessage(content=text))
            elif kind == "n":
                transcript.append(CustomMessage(content=text, custom_type="note"))
            else:
                transcript.append(AssistantMessage(content=(ToolCallBlock(id=f"c{number}", name="run"),)))
                transcript.append(CustomMessage(content="meanwhile", custom_type="note"))
                transcript.append(ToolResultMessage(tool_call_id=f"c{number}", content=text))
        record, data, before = list(transcript.record()), path.read_bytes(), total(transcript)

        result = await compact_transcript(transcript, count=estimate_tokens, token_budget=budget)

        assert list(transcript.record()) == record
        assert repair_pairs(transcript.history).dropped_orphans == 0
        assert repair_pairs(transcript.history).added == 0
        if result.compacted:
            assert total(transcript) < before
            assert result.result.summary.startswith(HEADING)
            assert path.read_bytes().startswith(data)
        else:
            assert path.read_bytes() == data
        context = list(transcript.history)
    finally:
        transcript.close()
    reopened = Transcript.open(path)
    assert list(reopened.history) == context
    reopened.close()
