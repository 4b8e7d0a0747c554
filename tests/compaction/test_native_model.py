"""The host's compaction with a model: what it writes, and that whatever goes wrong changes not a byte."""

import asyncio
import threading
from typing import Any

import pytest

from openclaw_ctx import (
    AbortError,
    AbortSignal,
    AssistantMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.compaction import CompactionPolicy, compact_transcript, reason_code
from openclaw_ctx.contract import CompletionResult
from openclaw_ctx.errors import ContextOverflowError, ModelAuthError, ModelTimeoutError, RateLimitedError
from openclaw_ctx.models import ScriptedModel, as_complete
from openclaw_ctx.tokens import estimate_tokens
from tests.compaction.transcripts import fill, on_disk, total

BUDGET = 3000
SLOW = RateLimitedError("acme", "m", "Too many requests, key sk-abcdefghijklmnop", 1.0)


async def at_once(_seconds: float) -> None:
    """Wait for nothing."""


async def compact(transcript: Any, script: Any, **options: Any) -> Any:
    """Compact with a scripted model; return the result and the model."""
    model = ScriptedModel(script)
    given = {"complete": as_complete(model), "token_budget": BUDGET, "sleep": at_once} | options
    return await compact_transcript(transcript, count=estimate_tokens, **given), model


async def test_the_model_s_summary_is_stored(transcript):
    """It opens the context, what is kept follows, and the record has everything."""
    fill(transcript, 12)
    record, before = list(transcript.record()), total(transcript)

    result, model = await compact(transcript, ["## Goal\nAsk."])

    assert (result.ok, result.compacted) == (True, True)
    summary, *kept = transcript.history
    assert isinstance(summary, CompactionSummaryMessage)
    assert summary.summary == result.result.summary
    assert summary.summary.startswith("## Goal\nAsk.")
    assert (result.result.tokens_before, result.result.tokens_after) == (before, total(transcript))
    assert kept[0].entry_id == result.result.first_kept_entry_id
    assert list(transcript.record()) == record
    assert len(model.requests) == 1


async def test_files_are_told_of_and_stored_from_one_compaction_to_the_next(transcript):
    """``readFiles`` and ``modifiedFiles`` stand beside the summary, in the reference system's words."""
    write = ToolCallBlock(id="w", name="write", arguments={"path": "/out.txt"})
    transcript.append(UserMessage(content="Write it."))
    transcript.append(AssistantMessage(content=(write,)))
    transcript.append(ToolResultMessage(tool_call_id="w", content="done"))
    fill(transcript, 10)
    first, _ = await compact(transcript, ["one"])
    fill(transcript, 10, words=90)
    second, _ = await compact(transcript, ["two", "two", "two"])

    assert first.result.details["modifiedFiles"] == ["/out.txt"]
    assert "/src/file_0.py" in first.result.details["readFiles"]
    assert second.result.details["modifiedFiles"] == ["/out.txt"]
    assert set(first.result.details["readFiles"]) <= set(second.result.details["readFiles"])
    assert [line["details"] for line in on_disk(transcript) if line["type"] == "compaction"] == [
        first.result.details,
        second.result.details,
    ]
    assert "/out.txt" in second.result.summary


async def test_files_are_carried_on_as_facts_and_not_by_the_model(transcript):
    """What the first summary listed is not in what the model is given, and is in the next summary."""
    write = ToolCallBlock(id="w", name="write", arguments={"path": "/only/once.txt"})
    transcript.append(UserMessage(content="Write it."))
    transcript.append(AssistantMessage(content=(write,)))
    transcript.append(ToolResultMessage(tool_call_id="w", content="done"))
    fill(transcript, 10)
    first, _ = await compact(transcript, ["one"])
    fill(transcript, 10)
    second, model = await compact(transcript, ["two"])

    assert "/only/once.txt" in first.result.summary
    assert "/only/once.txt" in second.result.summary
    assert "/only/once.txt" not in model.requests[0].messages[0].text


async def test_what_another_program_stored_beside_its_summary_is_its_own(transcript):
    """Details of a compaction that a hook made are not ours to carry on."""
    fill(transcript, 3)
    kept = transcript.history[-4].entry_id
    body = {"summary": "theirs", "firstKeptEntryId": kept, "tokensBefore": 9, "fromHook": True}
    line = {"type": "compaction", "id": "feedc0de", "parentId": transcript.leaf_id, "timestamp": "2026-01-01T00:00:00Z"}
    transcript.append_branch(transcript.leaf_id, [{**line, **body, "details": {"readFiles": ["/theirs"]}}], {})
    fill(transcript, 12)

    result, _ = await compact(transcript, ["ours"])

    assert result.compacted
    assert "/theirs" not in result.result.details["readFiles"]


async def test_an_earlier_summary_is_distilled_and_not_carried(transcript):
    """The model is given it apart from the conversation, and its answer alone is kept."""
    fill(transcript, 12)
    await compact(transcript, ["The port is 8443."])
    fill(transcript, 12)

    result, model = await compact(transcript, ["Port 8443 again.", "x", "x"])

    asked = model.requests[0].messages[0].text
    assert "<earlier-summary>\nThe port is 8443." in asked
    assert "The port is 8443." not in asked.partition("</conversation>")[0]
    assert "The port is 8443." not in result.result.summary


async def test_a_turn_that_is_cut_in_two_is_told_apart(transcript):
    """Its beginning is summarised by itself, under half of the reserve, and stands behind the history."""
    fill(transcript, 2)
    transcript.append(UserMessage(content="The long task."))
    for number in range(12):
        transcript.append(AssistantMessage(content=(ToolCallBlock(id=f"t{number}", name="run"),)))
        transcript.append(ToolResultMessage(tool_call_id=f"t{number}", content="out " * 200))

    result, model = await compact(transcript, ["the history", "the beginning"])

    history, prefix = (request.messages[0].text for request in model.requests)
    assert [request.max_tokens for request in model.requests] == [int(0.8 * 16_384), 8_192]
    assert "The long task." in prefix
    assert "The long task." not in history
    assert "## Original Request" in prefix
    assert "**Turn Context (split turn):**\n\nthe beginning" in result.result.summary
    assert '## Latest unresolved user request\n"The long task."' in result.result.summary
    assert result.result.details["latestUnresolvedUserRequest"] == "The long task."
    assert not isinstance(transcript.history[1], ToolResultMessage)


async def test_a_turn_alone_has_no_history(transcript):
    """Where nothing was before the turn, no request is spent on it."""
    transcript.append(UserMessage(content="The long task."))
    for number in range(20):
        transcript.append(AssistantMessage(content=(ToolCallBlock(id=f"t{number}", name="run"),)))
        transcript.append(ToolResultMessage(tool_call_id=f"t{number}", content="out " * 200))

    result, model = await compact(transcript, ["the beginning"])

    assert len(model.requests) == 1
    assert "No prior history." in result.result.summary


async def test_an_answer_is_bounded_by_what_the_model_can(transcript):
    """The model's own limit, where it is lower."""
    fill(transcript, 12)

    _, model = await compact(transcript, ["S"], policy=CompactionPolicy(max_output_tokens=900))

    assert model.requests[0].max_tokens == 900


async def test_what_the_user_wants_kept_is_asked_for(transcript):
    """As data, behind the instructions."""
    fill(transcript, 12)

    _, model = await compact(transcript, ["S"], focus="the name of the port")

    assert "Additional focus" in model.requests[0].messages[0].text
    assert "<focus>\nthe name of the port\n</focus>" in model.requests[0].messages[0].text


async def test_a_stored_summary_is_cut(transcript):
    """At 16,000 characters, and at a fifth of the budget; a line says that something is missing."""
    fill(transcript, 100)

    result, _ = await compact(transcript, ["word " * 4000] * 2, token_budget=None, force=True)

    assert 15_000 < len(result.result.summary) <= 16_000
    assert "[Compaction summary truncated to fit budget]" in result.result.summary


@pytest.mark.parametrize(
    "script,reason,code",
    [
        pytest.param([SLOW] * 3, "Too many requests", "provider_error_4xx", id="429 on every try"),
        pytest.param([""], "empty summary", "summary_failed", id="an empty answer"),
        pytest.param(["  \n "], "empty summary", "summary_failed", id="a blank answer"),
        pytest.param(
            ["Summary unavailable due to context limits. Older messages were truncated."],
            "in place of a summary",
            "summary_failed",
            id="a placeholder that blames limits",
        ),
        pytest.param([ModelAuthError("acme", "m", "bad key")], "bad key", "auth_failed", id="no key"),
        pytest.param([ModelTimeoutError("acme", "m", "late")], "late", "timeout", id="a timeout"),
        pytest.param([ContextOverflowError("acme", "m", "big")] * 9, "big", "unknown", id="an overflow of a chunk"),
        pytest.param([RuntimeError("\x1b[31mwhat")], "what", "unknown", id="anything else"),
        pytest.param(["word " * 9000] * 2, "not smaller", "summary_failed", id="B11: a summary of the same size"),
    ],
)
async def test_b13_a_failure_leaves_the_bytes_and_says_why(transcript, script, reason, code):
    """The context is the whole history as before, the reason is clean, and a later try may succeed."""
    fill(transcript, 4, words=300)
    before, history = transcript.path.read_bytes(), list(transcript.history)
    count = estimate_tokens
    if "not smaller" in reason:
        count = lambda m: 99_999 if isinstance(m, CompactionSummaryMessage) else estimate_tokens(m)  # noqa: E731 -- a counter in one line

    model = ScriptedModel(script)
    result = await compact_transcript(
        transcript, count=count, complete=as_complete(model), token_budget=1200, sleep=at_once
    )

    assert (result.ok, result.compacted, result.result) == (False, False, None)
    assert reason in result.reason
    assert reason_code(result.reason) == code
    assert "sk-abcdefghijklmnop" not in result.reason
    assert result.reason.isprintable()
    assert transcript.path.read_bytes() == before
    assert list(transcript.history) == history
    later, _ = await compact(transcript, ["fine", "fine", "fine"], token_budget=1200)
    assert later.compacted


async def test_an_abort_is_raised_and_leaves_the_bytes(transcript):
    """The request ends with it, and nothing is written."""
    fill(transcript, 12)
    before, signal, ended = transcript.path.read_bytes(), AbortSignal(), []
    asked = asyncio.Event()

    async def complete(_request: Any) -> CompletionResult:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)
        return CompletionResult(text="never")

    running = asyncio.ensure_future(
        compact_transcript(transcript, count=estimate_tokens, complete=complete, token_budget=BUDGET, abort=signal)
    )
    await asked.wait()
    signal.fire("the user pressed stop")
    with pytest.raises(AbortError, match="the user pressed stop"):
        await running

    assert ended == [1]
    assert transcript.path.read_bytes() == before


async def test_an_abort_while_waiting_for_the_next_try_is_raised(transcript):
    """A wait between tries does not hold it up."""
    fill(transcript, 12)
    before, signal = transcript.path.read_bytes(), AbortSignal()

    async def sleep(_seconds: float) -> None:
        signal.fire(TimeoutError("the deadline"))
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match="the deadline"):
        await compact(transcript, [SLOW, "S"], sleep=sleep, abort=signal)

    assert transcript.path.read_bytes() == before


async def test_a_signal_that_has_fired_keeps_it_from_beginning(transcript):
    """Nobody is asked."""
    fill(transcript, 12)
    signal, model = AbortSignal(), ScriptedModel(["S"])
    signal.fire("too late")

    with pytest.raises(AbortError, match="too late"):
        await compact_transcript(transcript, count=estimate_tokens, complete=as_complete(model), abort=signal)
    assert model.requests == []


async def test_a_cancellation_passes(transcript):
    """Whoever cancels is not answered with a result."""
    fill(transcript, 12)
    before, asked = transcript.path.read_bytes(), asyncio.Event()

    async def complete(_request: Any) -> CompletionResult:
        asked.set()
        await asyncio.Event().wait()
        return CompletionResult(text="never")

    running = asyncio.ensure_future(
        compact_transcript(transcript, count=estimate_tokens, complete=complete, token_budget=BUDGET)
    )
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert transcript.path.read_bytes() == before


async def test_what_is_appended_meanwhile_stays(transcript):
    """B31: a message that comes while the model thinks is in the context afterwards."""
    fill(transcript, 12)

    def line(_request: Any) -> str:
        transcript.append(UserMessage(content="one more thing"))
        return "S"

    result, _ = await compact(transcript, [line])

    assert result.compacted
    assert transcript.history[-1].text == "one more thing"


@pytest.mark.parametrize("change", ["another compaction", "another branch", "a new root"])
async def test_b31_a_base_that_changed_is_not_compacted(transcript, change):
    """A late summary of what is no longer the context is thrown away."""
    fill(transcript, 12)

    def line(_request: Any) -> str:
        if change == "another compaction":
            kept = transcript.history[-2].entry_id
            transcript.append_compaction(summary="first come", first_kept_entry_id=kept, tokens_before=1)
        else:
            transcript.branch(transcript.history[3].entry_id if change == "another branch" else None)
            transcript.append(UserMessage(content="elsewhere"))
        return "S"

    lines: list[int] = []
    result, _ = await compact(transcript, [line])
    lines = [line["summary"] for line in on_disk(transcript) if line["type"] == "compaction"]

    assert (result.ok, result.compacted) == (False, False)
    assert "changed" in result.reason
    assert lines == (["first come"] if change == "another compaction" else [])


async def test_whoever_asks_is_told_before_and_only_then(transcript):
    """Once something is going to be folded, with the numbers that the caller measured; never where nothing is."""
    told: list[tuple[int, int]] = []
    fill(transcript, 12)

    async def before(messages: int, tokens: int) -> None:
        told.append((messages, tokens))

    await compact(transcript, [], token_budget=99_999, before=before)
    await compact(transcript, ["S"], current_token_count=7777, before=before)
    await compact(transcript, [SLOW] * 3, force=True, before=lambda *numbers: told.append(numbers))

    assert told[0] == (48, 7777)
    assert len(told) <= 2


async def test_a_large_prompt_beside_a_small_history_frees_something(transcript):
    """Where the caller measured four times as much as the messages cost, a fourth of what could stay does."""
    fill(transcript, 12)
    measured = 4 * total(transcript)

    result, _ = await compact(transcript, ["S"], token_budget=12_000, current_token_count=measured)

    assert result.compacted
    assert estimate_tokens.total(transcript.history[1:]) <= 1500


async def test_b02_a_result_without_its_call_is_not_counted(transcript):
    """What the context costs before and after is what a prompt holds of it: pairs whole."""
    transcript.append(ToolResultMessage(tool_call_id="gone", content="orphan " * 3000))
    fill(transcript, 12)
    whole = total(transcript) - estimate_tokens(transcript.history[0])

    result, _ = await compact(transcript, ["S", "T"])

    assert result.result.tokens_before == whole
    assert result.result.tokens_after == total(transcript)


async def test_b05_ids_that_were_used_again_keep_their_results(transcript):
    """Calls of one id are told to the model with their own results, and the context behind is whole."""
    for number in range(12):
        transcript.append(UserMessage(content=f"question {number}"))
        transcript.append(AssistantMessage(content=(ToolCallBlock(id="call_0", name="run"),)))
        transcript.append(ToolResultMessage(tool_call_id="call_0", content=f"result {number} " + "x " * 300))

    result, model = await compact(transcript, ["S", "T"], token_budget=1500)

    assert result.compacted
    asked = model.requests[0].messages[0].text
    assert asked.index("question 1\n") < asked.index("result 1 ") < asked.index("question 2\n")


@pytest.mark.parametrize("turns,elsewhere", [(15, False), (16, True)], ids=["60 messages", "64 messages"])
async def test_many_messages_are_counted_in_a_thread(transcript, turns, elsewhere):
    """From 64 messages on nothing is counted where other sessions run."""
    fill(transcript, turns)
    threads: set[int] = set()

    def count(message: Any) -> int:
        threads.add(threading.get_ident())
        return estimate_tokens(message)

    result = await compact_transcript(transcript, count=count, token_budget=BUDGET)

    assert result.compacted
    assert (threading.get_ident() not in threads) is elsewhere


async def test_what_stays_fills_the_window_and_the_oldest_goes_ahead(transcript):
    """The older half is summarised first, and its summary opens the request for the rest."""
    fill(transcript, 60)
    policy = CompactionPolicy(context_window=30_000, keep_recent_tokens=20_000, reserve_tokens=500)

    result, model = await compact(transcript, (f"S{n}" for n in range(9)), policy=policy, token_budget=None, force=True)

    first, second = (request.messages[0].text for request in model.requests[:2])
    assert result.compacted
    assert "question 0:" in first
    assert "question 0:" not in second
    assert "<earlier-summary>\nS0\n" in second


# -- safeguard -----------------------------------------------------------------------------------------------------

SECTIONS = (
    *("## Decisions\nNone.", "## Open TODOs\nNone.", "## Constraints/Rules\nNone."),
    *("## Pending user asks\nNone.", "## Exact identifiers\n"),
)
GUARDED = CompactionPolicy(mode="safeguard", identifier_policy="off", recent_turns=2, workspace_rules="Rule one.")


def sections() -> str:
    """Return a summary that has all that is asked for."""
    return "\n\n".join(SECTIONS) + " ".join(f"/src/file_{number}.py" for number in range(12))


async def test_a_safeguarded_summary_has_its_sections(transcript):
    """The audited answer, and behind it what is copied rather than summarised."""
    fill(transcript, 12)

    script = ["the beginning of a turn", sections()]
    result, model = await compact(transcript, script, policy=GUARDED, token_budget=9000, force=True)

    assert result.compacted, result.reason
    text = result.result.summary
    assert [text.index(section.split("\n")[0]) for section in SECTIONS] == sorted(
        text.index(section.split("\n")[0]) for section in SECTIONS
    )
    assert "Rule one." in text
    assert "## Goal" not in model.requests[1].messages[0].text
    assert "## Open TODOs" in model.requests[1].messages[0].text


async def test_a_summary_that_fails_its_audit_is_asked_for_again(transcript):
    """The reasons go with the second request."""
    fill(transcript, 12)

    script = ["the beginning of a turn", "no sections", sections()]
    result, model = await compact(transcript, script, policy=GUARDED, token_budget=9000, force=True)

    assert result.compacted, result.reason
    assert len(model.requests) == 3
    assert "missing_section" in model.requests[2].messages[0].text


@pytest.mark.parametrize("retries,asked", [(0, 1), (1, 2), (3, 4), (9, 4)])
async def test_an_audit_that_is_never_passed_leaves_the_bytes(transcript, retries, asked):
    """At most three retries; then history stays, and the reasons are told."""
    fill(transcript, 12)
    before = transcript.path.read_bytes()
    policy = CompactionPolicy(mode="safeguard", quality_retries=retries)

    result, model = await compact(transcript, ["no sections"] * 9, policy=policy)

    assert (result.ok, len(model.requests)) == (False, asked)
    assert "missing_section" in result.reason
    assert transcript.path.read_bytes() == before


async def test_without_the_audit_whatever_comes_is_taken(transcript):
    """``quality_retries=-1`` switches it off."""
    fill(transcript, 12)
    policy = CompactionPolicy(mode="safeguard", quality_retries=-1)

    result, _ = await compact(transcript, ["no sections"], policy=policy)

    assert result.compacted
    assert "no sections" in result.result.summary


async def test_what_holds_no_conversation_is_closed_with_what_was_known(transcript):
    """No model is asked, and the boundary keeps it from being tried again and again."""
    for number in range(40):
        transcript.append(CustomMessage(content=f"note {number} " * 50, custom_type="weather"))

    plain, _ = await compact(transcript, ["never"], token_budget=2000)
    result, model = await compact(transcript, ["never"], policy=GUARDED, token_budget=2000)

    assert (plain.ok, plain.compacted, plain.reason) == (True, False, "no real conversation messages")
    assert result.compacted, result.reason
    assert model.requests == []
    assert "## Pending user asks" in result.result.summary


async def test_a_safeguarded_summary_without_a_model_is_copied(transcript):
    """Lines of the conversation, unaudited, and what is copied in any case."""
    fill(transcript, 12)

    result = await compact_transcript(transcript, count=estimate_tokens, policy=GUARDED, token_budget=9000, force=True)

    assert result.compacted, result.reason
    assert "Rule one." in result.result.summary
