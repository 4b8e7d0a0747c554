"""The flush ahead of a compaction: when it is due, what the model is told, and what comes of failures."""

import asyncio
import os
from datetime import UTC, datetime

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.contract import (
    AbortSignal,
    AssistantMessage,
    EngineTool,
    SessionId,
    SessionKey,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.errors import AbortError, ContextOverflowError, RateLimitedError
from openclaw_ctx.models import FakeClock, ModelAnswer, ScriptedAnswer, ScriptedModel
from openclaw_ctx.runtime import flush as rules
from openclaw_ctx.runtime.flush import FlushPolicy, FlushResult, flush_is_due, run_flush
from openclaw_ctx.runtime.memory import MemoryFacts
from openclaw_ctx.runtime.notes import NotesMemory

NOON = datetime(2026, 3, 2, 12, 5, tzinfo=UTC)
TALK = (UserMessage(content="We deploy on Fridays."), AssistantMessage(content="Noted."), UserMessage(content="Go on."))


def due(policy=FlushPolicy(), **facts):  # noqa: B008 -- frozen
    """Return whether a flush is due where nothing has been flushed, and nothing is known but what is said."""
    known = {
        "tokens": None,
        "window": 200_000,
        "reserve_floor": 20_000,
        "transcript_bytes": 0,
        "compactions": 0,
        "flushed_at_compaction": None,
    }
    return flush_is_due(policy, **(known | facts))


def calls(*texts):
    """Return an answer that notes each text."""
    blocks = [ToolCallBlock(id=f"c{at}", name="memory_append", arguments={"text": t}) for at, t in enumerate(texts)]
    return ScriptedAnswer(tool_calls=blocks)


async def flush(model, workspace, *, memory=None, abort=None, system_prompt=None, policy=FlushPolicy(), **more):  # noqa: B008 -- frozen
    """Flush a short conversation into the notes of a workspace."""
    facts = MemoryFacts(
        session_key=SessionKey("k"),
        session_id=SessionId("s"),
        workspace_dir=workspace,
        available_tools=frozenset(),
        citations_mode=None,
    )
    notes = NotesMemory(workspace, now=lambda: NOON) if memory is None else memory
    return await run_flush(
        model, notes, facts, TALK, policy=policy, system_prompt=system_prompt, abort=abort, now=NOON, **more
    )


@attrs.frozen
class Tools:
    """A memory of whatever tools it is given; a function of them that raises is one that fails."""

    offered: object

    async def prompt_sections(self, facts):
        """Return nothing."""
        return ()

    def tools(self, facts):
        """Return what there is, or raise it."""
        if isinstance(self.offered, Exception):
            raise self.offered
        return self.offered


def noted(workspace):
    """Return what the day's file holds."""
    return (workspace / "memory" / "2026-03-02.md").read_text(encoding="utf-8")


def test_the_constants_are_the_reference_systems():
    """Each as it is written there."""
    assert FlushPolicy() == FlushPolicy(
        enabled=True, soft_threshold_tokens=4_000, force_transcript_bytes=2_097_152, prompt=None, system_prompt=None
    )
    assert (rules.FLUSH_SOFT_THRESHOLD_TOKENS, rules.FORCE_FLUSH_TRANSCRIPT_BYTES) == (4_000, 2 * 1024 * 1024)
    assert (rules.RESERVE_FLOOR, rules.SILENT_REPLY) == (20_000, "NO_REPLY")


@pytest.mark.parametrize(
    "facts,expected",
    [
        pytest.param({"tokens": 175_999}, False, id="a token short of the threshold"),
        pytest.param({"tokens": 176_000}, True, id="at the threshold"),
        pytest.param({}, False, id="nobody knows the tokens"),
        pytest.param({"transcript_bytes": 2_097_151}, False, id="a byte short of the size"),
        pytest.param({"transcript_bytes": 2_097_152}, True, id="at the size, whatever the tokens"),
        pytest.param({"tokens": 999_999, "window": 24_000}, False, id="a window that is all reserve"),
        pytest.param({"tokens": 1, "window": 24_001}, True, id="a window with a token to spare"),
        pytest.param({"tokens": 176_000, "flushed_at_compaction": 0}, False, id="flushed since the last compaction"),
        pytest.param(
            {"transcript_bytes": 2_097_152, "flushed_at_compaction": 0}, False, id="flushed, and large all the same"
        ),
        pytest.param(
            {"tokens": 176_000, "flushed_at_compaction": 0, "compactions": 1}, True, id="compacted since the last flush"
        ),
    ],
)
def test_a_flush_is_due_ahead_of_a_compaction_once(facts, expected):
    """By the tokens or by the size of the file, and not again before the next compaction."""
    assert due(**facts) is expected


def test_what_is_switched_off_is_never_due():
    """Flushes altogether, or those for the size of a file."""
    full = {"tokens": 200_000, "transcript_bytes": 1 << 30}

    assert not due(FlushPolicy(enabled=False), **full)
    assert not due(FlushPolicy(force_transcript_bytes=0), transcript_bytes=1 << 30)
    assert due(FlushPolicy(force_transcript_bytes=0), **full)


@given(
    tokens=st.integers(0, 12),
    window=st.integers(0, 12),
    reserve_floor=st.integers(0, 4),
    soft=st.integers(0, 4),
)
def test_more_tokens_never_make_a_flush_less_due(tokens, window, reserve_floor, soft):
    """Once it is due it stays due, and it is due before the reserve is touched where it is due at all."""
    policy = FlushPolicy(soft_threshold_tokens=soft, force_transcript_bytes=0)
    sizes = {"window": window, "reserve_floor": reserve_floor}

    now, later = due(policy, tokens=tokens, **sizes), due(policy, tokens=tokens + 1, **sizes)

    assert later or not now
    if window > reserve_floor + soft and tokens >= window - reserve_floor:
        assert now


async def test_the_model_notes_what_it_wants_and_no_message_is_changed(tmp_path):
    """The conversation as it was assembled, a prompt behind it, and the memory's tools alone."""
    model = ScriptedModel([calls("Deploys on Fridays."), "NO_REPLY"])

    result = await flush(model, tmp_path, system_prompt="You are a careful engineer.")

    first, second = model.requests
    assert result == FlushResult(notes=1, reason=None)
    assert noted(tmp_path) == "## 12:05:00\n\nDeploys on Fridays.\n\n"
    assert first.messages[:-1] == TALK
    assert isinstance(first.messages[-1], UserMessage)
    assert [tool["name"] for tool in first.tools] == ["memory_append"]
    assert first.system_prompt.startswith("You are a careful engineer.\n\n")
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[-1].text == "Noted in memory/2026-03-02.md."
    assert TALK[0].text == "We deploy on Fridays."


async def test_a_model_with_nothing_to_note_is_asked_once(tmp_path):
    """That is no failure, and no file is made for it."""
    model = ScriptedModel(["NO_REPLY"])

    assert await flush(model, tmp_path) == FlushResult(notes=0, reason=None)
    assert not (tmp_path / "memory").exists()


@pytest.mark.parametrize("own", [pytest.param(None, id="none"), pytest.param(" \n", id="blank")])
async def test_without_words_of_the_users_ours_are_used(tmp_path, own):
    """With every hint, how to be silent, and the time at the end."""
    model = ScriptedModel(["NO_REPLY"])

    await flush(model, tmp_path, policy=FlushPolicy(prompt=own, system_prompt=own))

    (request,) = model.requests
    prompt = request.messages[-1].text
    assert prompt.startswith(rules._PROMPT)
    assert request.system_prompt.startswith(rules._SYSTEM_PROMPT)
    for text in (prompt, request.system_prompt):
        assert all(text.count(hint) == 1 for hint in rules._SAFETY)
        assert text.count("NO_REPLY") == 1
    assert prompt.endswith("\nCurrent time: 2026-03-02 12:05+00:00 (UTC)")


async def test_words_of_the_users_get_the_hints_that_they_lack(tmp_path):
    """No prompt lifts what keeps a flush harmless, and none says anything twice."""
    hint = rules._SAFETY[0]
    model = ScriptedModel(["NO_REPLY"])

    await flush(
        model, tmp_path, policy=FlushPolicy(prompt=f"Save it. {hint} Else say NO_REPLY.", system_prompt="Save!")
    )

    (request,) = model.requests
    prompt = request.messages[-1].text
    assert prompt.startswith("Save it. ")
    assert rules._PROMPT not in prompt
    assert all(prompt.count(said) == 1 for said in (*rules._SAFETY, "NO_REPLY"))
    assert request.system_prompt.startswith("Save!\n")
    assert all(request.system_prompt.count(said) == 1 for said in (*rules._SAFETY, "NO_REPLY"))


async def test_a_clock_without_a_zone_tells_the_local_time():
    """A zone that nobody knows is not made up."""
    assert rules._prompt(FlushPolicy(), NOON.replace(tzinfo=None)).endswith("12:05 (local time)")


async def test_a_tool_that_fails_is_told_to_the_model_which_may_try_again(tmp_path):
    """As an error result; a note that comes in the end counts, and there is nothing to complain of."""
    model = ScriptedModel([calls(" "), calls("x"), "NO_REPLY"])

    result = await flush(model, tmp_path)

    told = model.requests[1].messages[-1]
    assert isinstance(told, ToolResultMessage)
    assert told.is_error
    assert told.text.startswith("ValueError: memory_append takes a note")
    assert result == FlushResult(notes=1, reason=None)


async def test_where_no_note_could_be_written_the_last_failure_is_the_reason(tmp_path):
    """A full disk does not pass for a conversation with nothing to note."""
    full = OSError(28, "No space left on device")

    def fail(_arguments):
        raise full

    memory = Tools([EngineTool(name="memory_append", description="", call=fail)])

    result = await flush(ScriptedModel([calls("x"), "NO_REPLY"]), tmp_path, memory=memory)

    assert result == FlushResult(notes=0, reason="OSError: [Errno 28] No space left on device")


async def test_the_agents_own_tools_cannot_be_called(tmp_path):
    """A model that goes on with its work is told that there is no such tool."""
    wish = ScriptedAnswer(tool_calls=[ToolCallBlock(id="c", name="bash", arguments={"command": "rm"})])
    model = ScriptedModel([wish, "NO_REPLY"])

    result = await flush(model, tmp_path)

    told = model.requests[1].messages[-1]
    assert told.is_error
    assert told.text == "There is no tool 'bash'. Tools: memory_append."
    assert result == FlushResult(notes=0, reason=told.text)


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(RateLimitedError("scripted", "m", "busy", 3.0), id="the provider is busy"),
        pytest.param(ConnectionResetError("gone"), id="the connection is"),
        pytest.param(ContextOverflowError("scripted", "m", "too long"), id="the context has burst"),
    ],
)
async def test_a_model_that_fails_raises_nothing(tmp_path, failure):
    """What was noted before stays, and the reason names the failure."""
    result = await flush(ScriptedModel([calls("x"), failure]), tmp_path)

    assert result.notes == 1
    assert result.reason.startswith(type(failure).__name__)
    assert noted(tmp_path).endswith("x\n\n")


async def test_an_answer_that_the_provider_withholds_is_a_failure(tmp_path):
    """In the provider's words, on one line; what it called is not run."""

    class Withholding(ScriptedModel):
        async def complete(self, request, *, abort=None):
            answer = await super().complete(request, abort=abort)
            return ModelAnswer(message=attrs.evolve(answer.message, stop_reason="error", error_message="refused\x1b"))

    result = await flush(Withholding([calls("x")]), tmp_path)

    assert result == FlushResult(notes=0, reason="refused\\x1b")
    assert not (tmp_path / "memory").exists()


async def test_a_model_that_never_ends_is_asked_so_often_and_no_more(tmp_path):
    """What it calls last is still noted."""
    model = ScriptedModel([calls(f"note {at}") for at in range(9)])

    result = await flush(model, tmp_path)

    assert len(model.requests) == 4
    assert result == FlushResult(notes=4, reason=None)
    assert "note 3" in noted(tmp_path)


async def test_a_workspace_that_takes_no_notes_costs_no_request(tmp_path, monkeypatch):
    """Missing or read-only: the reason says which, and nothing is raised or made."""
    model = ScriptedModel([])

    missing = await flush(model, tmp_path / "missing")
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    read_only = await flush(model, tmp_path)

    assert missing == FlushResult(notes=0, reason="the workspace is missing")
    assert read_only == FlushResult(notes=0, reason="the workspace is read-only")
    assert model.requests == []
    assert list(tmp_path.iterdir()) == []


async def test_a_model_whose_code_is_wrong_raises_nothing_either(tmp_path):
    """The turn that waits for the flush meets the bug itself, if it is one."""
    result = await flush(ScriptedModel([RuntimeError("a bug")]), tmp_path)

    assert result == FlushResult(notes=0, reason="RuntimeError: a bug")


async def test_a_memory_without_tools_costs_no_request(tmp_path):
    """There is nothing to write with."""
    model = ScriptedModel([])

    assert await flush(model, tmp_path, memory=Tools(())) == FlushResult(notes=0, reason=None)
    assert model.requests == []


async def test_the_day_stands_in_a_prompt_of_the_users(tmp_path):
    """It may name the file, as the reference system's do."""
    model = ScriptedModel(["NO_REPLY"])

    await flush(model, tmp_path, policy=FlushPolicy(prompt="Save to memory/YYYY-MM-DD.md."))

    assert model.requests[0].messages[-1].text.startswith("Save to memory/2026-03-02.md.\n")


async def test_a_memory_that_fails_raises_nothing(tmp_path):
    """It may be anybody's code."""
    result = await flush(ScriptedModel([]), tmp_path, memory=Tools(KeyError("lost")))

    assert result == FlushResult(notes=0, reason="KeyError: 'lost'")


async def test_a_signal_that_has_fired_costs_no_request(tmp_path):
    """What it was fired with is raised."""
    model, abort = ScriptedModel([]), AbortSignal()
    abort.fire("enough")

    with pytest.raises(AbortError, match="enough"):
        await flush(model, tmp_path, abort=abort)

    assert model.requests == []


@pytest.mark.parametrize(
    "reason,raised",
    [
        pytest.param("enough", AbortError, id="a text"),
        pytest.param(RateLimitedError("p", "m", "said"), RateLimitedError, id="an error, of a model's kind even"),
    ],
)
async def test_a_signal_that_fires_while_the_model_answers_passes(tmp_path, reason, raised):
    """It does not pass for a failure of the model's."""
    clock, abort = FakeClock(), AbortSignal()
    model = ScriptedModel([ScriptedAnswer(text="NO_REPLY", delay_seconds=60)], sleep=clock.sleep)
    running = asyncio.create_task(flush(model, tmp_path, abort=abort))
    await clock.asleep()

    abort.fire(reason)

    with pytest.raises(raised):
        await running


async def hang(clock):
    """Return a memory whose tool waits by a clock."""

    async def call(_arguments):
        await clock.sleep(60)
        return "done"

    return Tools([EngineTool(name="memory_append", description="", call=call)])


async def test_a_signal_that_fires_while_a_tool_runs_passes(tmp_path):
    """A tool that hangs keeps nobody."""
    clock, abort = FakeClock(), AbortSignal()
    running = asyncio.create_task(flush(ScriptedModel([calls("x")]), tmp_path, memory=await hang(clock), abort=abort))
    await clock.asleep()

    abort.fire("enough")

    with pytest.raises(AbortError, match="enough"):
        await running
    assert clock.sleepers == 0


@pytest.mark.parametrize("where", ["model", "tool"])
async def test_cancellation_passes(tmp_path, where):
    """Wherever it comes, and nothing goes on behind it."""
    clock = FakeClock()
    line = ScriptedAnswer(text="NO_REPLY", delay_seconds=60) if where == "model" else calls("x")
    model = ScriptedModel([line], sleep=clock.sleep)
    running = asyncio.create_task(flush(model, tmp_path, memory=await hang(clock)))
    await clock.asleep()

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(model.requests) == 1
    assert clock.sleepers == 0
