"""A recording whose turns are run: its replies as the model's, its results as the tools', compactions for real."""

import asyncio
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.assembly import CompactionNotice
from openclaw_ctx.config import settings_from
from openclaw_ctx.contract import (
    AssistantMessage,
    CompactResult,
    CustomMessage,
    ImageBlock,
    Message,
    SessionId,
    SessionKey,
    SystemMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.errors import ContextOverflowError, ModelRejectedError
from openclaw_ctx.models import ModelRequest
from openclaw_ctx.replay import LEAST_BUDGET, Run, Summaries, replay_session
from openclaw_ctx.replay import players as players_module
from openclaw_ctx.replay.driver import window_for
from openclaw_ctx.replay.ledger import Ledger
from openclaw_ctx.replay.recorded import NOT_RECORDED, RecordedModel, Recording
from openclaw_ctx.runtime.tools import CUT_SHORT
from openclaw_ctx.runtime.window import HARD_MIN_TOKENS, effective_reserve, prompt_budget
from openclaw_ctx.tokens import estimate_tokens
from openclaw_ctx.transcript.importers import ImportedSession

SCRIPTED, EXTRACTIVE = Summaries.scripted, Summaries.extractive


def user(text: str) -> UserMessage:
    """Return what a user says."""
    return UserMessage(content=text)


def reply(text: str = "", *calls: str, usage: object = None, stop: str | None = None) -> AssistantMessage:
    """Return a reply with calls of the tool ``look`` by these ids."""
    blocks = tuple(ToolCallBlock(id=name, name="look", arguments={"at": name}) for name in calls)
    message = AssistantMessage(content=text, usage=usage, stop_reason=stop)  # type: ignore[arg-type]  # plain JSON
    return attrs.evolve(message, content=(*message.content, *blocks) if text else blocks)


def result(call: str, text: str = "seen") -> ToolResultMessage:
    """Return what the tool gave back."""
    return ToolResultMessage(tool_call_id=call, tool_name="look", content=text)


def long_session(turns: int = 30, words: int = 150) -> list[Message]:
    """Return turns of so many words each, every other one with a call."""
    said: list[Message] = [SystemMessage(content="Be brief.")]
    for turn in range(turns):
        said.append(user(f"Question {turn}: where is file{turn}.txt?"))
        if turn % 2:
            said += [reply("Let me look.", f"c{turn}"), result(f"c{turn}", f"line {turn} " * words)]
        said.append(reply(f"It is in folder {turn}. " + "So it is. " * words))
    return said


@pytest.fixture(name="written")
def _written(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """Return where the transcript of a run's end is put."""
    written: list[Message] = []
    play = players_module.Running.play

    async def played(self: players_module.Running, messages: Sequence[Message]) -> None:
        await play(self, messages)
        written[:] = self._session.transcript.record()

    monkeypatch.setattr(players_module.Running, "play", played)
    return written


async def replayed(
    messages: Sequence[Message],
    *,
    budget: int | None = 100_000,
    summaries: Summaries | None = None,
    config: dict[str, object] | None = None,
    engine: str = "legacy",
) -> Run:
    """Return the run of *messages* through an engine."""
    replay = await replay_session(
        ImportedSession(format="made", messages=tuple(messages)),
        source="made",
        settings=settings_from(config or {}),
        engines=[engine],
        budgets=[budget],
        summaries=summaries,
    )
    return replay.runs[0]


def said(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Return who said what, without the system prompt."""
    return [(message.role, message.text) for message in messages if not isinstance(message, SystemMessage)]


# -- the recording stays what it is ----------------------------------------------------------------


@pytest.mark.parametrize("budget", [pytest.param(5_000, id="compacted-often"), pytest.param(900_000, id="wide")])
async def test_the_session_that_is_run_holds_the_recorded_messages_in_their_order(written, budget):
    """However often it is compacted: nothing is lost, doubled, or put elsewhere."""
    messages = long_session()

    run = await replayed(messages, budget=budget, summaries=EXTRACTIVE())

    assert said(written) == said(messages)
    assert run.messages == len(messages) - 1
    assert not run.given_up


async def test_the_turns_and_calls_are_those_of_a_replay_without_a_model():
    """So that the two can be held beside each other."""
    messages = [
        user("one"), user("two"), reply("", "a", "b"), result("b"), result("a"), reply("done"),
        CustomMessage(content="note"), user("three"), reply("", "c"), result("c"), user("stop"), reply("stopped"),
        reply("and more"), user("four"),
    ]  # fmt: skip

    assembled, run = await replayed(messages), await replayed(messages, summaries=EXTRACTIVE())

    assert (assembled.model, run.model) == (None, "extractive")
    assert [call.turn for call in run.calls] == [call.turn for call in assembled.calls] == [1, 1, 2, 3, 3]
    assert run.turns == assembled.turns
    assert [call.kept for call in run.calls] == [call.kept for call in assembled.calls]


async def test_results_find_their_calls_whatever_their_order(written):
    """By id, and by position where an id repeats; what stood between them comes behind them."""
    messages = [
        user("go"), reply("", "a", "b", "a"), CustomMessage(content="note"), result("b", "of b"),
        result("a", "first"), result("a", "second"), reply("done"),
    ]  # fmt: skip

    await replayed(messages, summaries=EXTRACTIVE())

    assert said(written) == [
        ("user", "go"), ("assistant", ""), ("toolResult", "first"), ("toolResult", "of b"), ("toolResult", "second"),
        ("custom", "note"), ("assistant", "done"),
    ]  # fmt: skip


async def test_results_are_recorded_whole(written):
    """A failure stays one, and pictures and details come along."""
    picture = ImageBlock(data="aGk=", mime_type="image/png")
    failed = attrs.evolve(result("a", "no such file"), is_error=True, details={"code": 2})
    shown = ToolResultMessage(tool_call_id="b", tool_name="look", content=(TextBlock(text="here"), picture))
    messages = [user("go"), reply("", "a", "b"), failed, shown, reply("done")]

    await replayed(messages, summaries=EXTRACTIVE())

    first, second = (message for message in written if isinstance(message, ToolResultMessage))
    assert (first.is_error, first.details) == (True, {"code": 2})
    assert second.content == shown.content


async def test_a_call_without_a_recorded_result_is_answered_so(written):
    """The turn ends there, as the recording does, and the next one goes on."""
    messages = [user("go"), reply("", "a"), user("never mind"), reply("fine"), user("again"), reply("", "b")]

    run = await replayed(messages, summaries=EXTRACTIVE())

    assert [text for role, text in said(written) if role == "toolResult"] == [NOT_RECORDED] * 2
    assert len(run.calls) == 3
    assert not run.given_up


async def test_what_broke_off_is_not_run_again(written):
    """A reply that was cut off asks no tool; what was recorded behind it is written as it was."""
    messages = [user("go"), reply("", "a", stop="aborted"), result("a"), reply("again"), user("so"), reply("yes")]

    run = await replayed(messages, summaries=EXTRACTIVE())

    assert said(written) == said(messages)
    assert len(run.calls) == 3


async def test_calls_that_ran_though_the_answer_had_no_more_room_keep_their_results(written):
    """As they were recorded, once; those that did not run are answered so."""
    messages = [user("go"), reply("", "a", stop="length"), result("a"), reply("and"), user("on"), reply("yes")]
    unrun = [user("go"), reply("", "b", stop="length"), user("on"), reply("yes")]

    await replayed([*messages, *unrun], summaries=EXTRACTIVE())

    recorded = said([*messages, *unrun])
    assert said(written) == [*recorded[:8], ("toolResult", CUT_SHORT), *recorded[8:]]


async def test_more_rounds_than_a_host_has_patience_for_are_no_turn_given_up(written):
    """The recording's agent had it."""
    messages: list[Message] = [user("go")]
    for number in range(170):
        messages += [reply("", f"c{number}"), result(f"c{number}", f"{number}")]
    messages.append(reply("done"))

    run = await replayed(messages, budget=None, summaries=EXTRACTIVE())

    assert len(run.calls) == 171
    assert run.turns == 1
    assert said(written) == said(messages)


async def test_what_a_provider_counted_once_does_not_fill_the_window():
    """A recorded usage is of another prompt, with tools and a system prompt that nobody recorded."""
    messages = [user("go"), reply("yes", usage={"input": 90_000, "totalTokens": 90_000}), user("so"), reply("no")]

    run = await replayed(messages, budget=8_000, summaries=EXTRACTIVE())

    assert run.compacted == ()


# -- the budget ------------------------------------------------------------------------------------


@given(budget=st.integers(1, 30_000), reserve=st.integers(0, 9_000), floor=st.integers(0, 30_000))
def test_a_window_is_as_large_as_a_prompt_of_the_budget_needs(budget, reserve, floor):
    """What a host reserves for the answer comes on top, whatever is configured."""
    compaction = {"reserveTokens": reserve, "reserveTokensFloor": floor}
    settings = settings_from({"agents": {"defaults": {"compaction": compaction}}}).settings

    window = window_for(budget, settings)

    kept = effective_reserve(window, reserve_tokens=reserve, floor=floor)
    assert prompt_budget(window, reserve=kept) == budget


def test_the_least_budget_is_what_a_host_runs_turns_in():
    """The reference system's, which refuses a smaller window."""
    assert LEAST_BUDGET == HARD_MIN_TOKENS == 4_000


@pytest.mark.parametrize("budget", [4_000, 8_000, 20_000])
async def test_no_prompt_that_is_sent_breaks_the_budget(budget):
    """It is compacted first, or the turn is given up."""
    run = await replayed(long_session(), budget=budget, summaries=EXTRACTIVE())

    assert run.compactions > 0
    assert run.over_budget_calls == 0
    assert run.peak_tokens > budget / 4


async def test_a_turn_that_cannot_fit_is_given_up_and_the_session_goes_on(written):
    """Its messages are written as recorded, it has no call, and the verdict says so."""
    messages = [user("hello"), reply("hi"), user("word " * 9_000), reply("long"), user("and now?"), reply("now")]

    run = await replayed(messages, budget=4_000, summaries=EXTRACTIVE())

    (given_up,) = run.given_up
    assert (given_up.turn, given_up.kind) == (2, "compaction_failure")
    assert [call.turn for call in run.calls] == [1, 3]
    assert said(written) == said(messages)
    assert "1 turn given up; 2 calls in 3 turns" in run.verdict


# -- compactions -----------------------------------------------------------------------------------


async def test_every_compaction_is_noted_with_what_it_came_to():
    """When, why, how much, by whom, and what still stands; the calls count the same ones."""
    run = await replayed(long_session(), budget=6_000, summaries=EXTRACTIVE())

    assert run.compactions == sum(made.compacted for made in run.compacted) > 1
    for made in run.compacted:
        assert run.calls[made.call - 1].turn == made.turn
        assert run.calls[made.call - 1].compactions >= 1
        assert made.tokens_after is not None
        assert made.tokens_after < made.tokens_before
        assert 0 < made.kept < made.messages
        assert (made.summarised_by, made.requests, made.reason) == ("extractive", 0, None)
        assert made.trigger in {"budget", "overflow"}
        assert made.seconds > 0


async def test_a_script_summarises_by_the_way_of_a_model():
    """Requests are counted, its words are in the prompt, and the same recording is summarised the same."""
    first, second = [await replayed(long_session(), budget=6_000, summaries=SCRIPTED()) for _ in range(2)]

    assert {made.summarised_by for made in first.compacted} == {"scripted"}
    assert all(made.requests >= 1 for made in first.compacted)
    timeless = [
        [attrs.evolve(made, seconds=0) for made in run.compacted] for run in (first, second)
    ]  # fmt: skip
    assert timeless[0] == timeless[1]


async def test_no_audit_keeps_a_script_from_summarising():
    """Its words are fixed, and would pass none."""
    config: dict[str, object] = {"agents": {"defaults": {"compaction": {"mode": "safeguard"}}}}

    run = await replayed(long_session(), budget=8_000, summaries=SCRIPTED(), config=config)

    assert run.compactions > 0
    assert run.failed_compactions == 0


async def test_a_compaction_of_a_replay_without_a_model_is_noted_too():
    """As it always was made, in the host's own way."""
    run = await replayed(long_session(), budget=6_000)

    assert run.compactions == len(run.compacted) > 0
    assert {(made.trigger, made.summarised_by) for made in run.compacted} == {("budget", "extractive")}


async def test_a_summariser_that_fails_is_said_and_the_recording_is_played_to_its_end(written):
    """Each failure is noted with its reason; nothing is compacted."""

    async def complete(_request: object) -> object:
        problem = "no credit"
        raise RuntimeError(problem)

    broken = Summaries(name="acme/big", complete=complete)  # type: ignore[arg-type]  # it answers nothing
    messages = long_session(turns=12)

    run = await replayed(messages, budget=4_000, summaries=broken)

    assert run.compactions == 0
    assert run.failed_compactions == len(run.compacted) > 0
    assert all("no credit" in (made.reason or "") and made.summarised_by is None for made in run.compacted)
    assert f"{run.failed_compactions} that failed" in run.verdict
    assert [role for role, _ in said(written)] == [role for role, _ in said(messages)]


def test_a_compaction_behind_a_turn_belongs_to_its_last_call(make_run):
    """An engine that compacts by itself is noticed by what the host is told."""
    ledger = Ledger(budget=8_000, summaries=EXTRACTIVE(), engine="own")
    ledger.calls.extend(make_run(calls=2).calls)
    ledger.turn = 1
    before = ledger.calls[-1].compactions
    notice = CompactionNotice(
        session_key=SessionKey("k"), session_id=SessionId("s"), session_file="f", trigger="engine",
        message_count=9, token_count=7_000,
    )  # fmt: skip

    ledger.began_behind(notice)
    ledger.ended_behind(attrs.evolve(notice, result=CompactResult(ok=True, compacted=True)), _Session())
    ledger.note_turn_end()

    (made,) = ledger.compactions
    assert (made.call, made.trigger, made.tokens_before, made.summarised_by) == (2, "engine", 7_000, "own")
    assert ledger.calls[-1].compactions == before + 1


class _Session:
    """Stands for a session without messages."""

    history: Sequence[Message] = ()


async def test_results_that_were_cut_are_still_of_the_record():
    """The host writes them anew, under other ids: what stands in the prompt is kept all the same."""
    messages: list[Message] = [user("go")]
    for number in range(6):
        messages += [reply("", f"c{number}"), result(f"c{number}", f"{number} line " * 1_875)]
    messages += [reply("done"), user("and?"), reply("so")]

    run = await replayed(messages, budget=44_000, summaries=EXTRACTIVE())

    last = run.calls[-1]
    assert run.compacted == ()
    assert last.prompt_tokens < run.calls[-2].prompt_tokens / 2
    assert (last.kept, last.left_out, last.summarised) == (15, 0, 0)


async def test_the_recorded_model_refuses_what_is_longer_than_its_limit():
    """As a provider does, with what it counted; the reply is given to a shorter request."""
    recording = Recording([reply("yes", usage={"input": 1})])
    model = RecordedModel(recording, count=estimate_tokens, limit=50)

    with pytest.raises(ContextOverflowError) as refused:
        await model.complete(ModelRequest(messages=[user("word " * 90)]))
    answer = await model.complete(ModelRequest(messages=[user("word " * 9)]))

    assert refused.value.observed_tokens == estimate_tokens(user("word " * 90))
    assert (answer.message.text, answer.message.usage) == ("yes", None)
    with pytest.raises(ModelRejectedError):
        await model.complete(ModelRequest(messages=[user("more")]))


# -- nothing reaches beyond the copy ---------------------------------------------------------------


async def test_a_replay_takes_no_notes_and_heeds_no_cap(tmp_path, monkeypatch):
    """Memory writes nothing into the workspace, and the budget is what was asked for."""
    monkeypatch.chdir(tmp_path)
    config: dict[str, object] = {
        "plugins": {"slots": {"memory": "notes"}},
        "agents": {"defaults": {"contextTokens": 5_000, "compaction": {"model": "acme/big"}}},
    }

    run = await replayed(long_session(), budget=8_000, summaries=EXTRACTIVE(), config=config)

    assert list(tmp_path.iterdir()) == []
    assert run.peak_tokens > 5_000
    assert {made.summarised_by for made in run.compacted} == {"extractive"}


async def test_a_replay_that_is_cancelled_leaves_no_folder(tmp_path, monkeypatch):
    """Wherever it is."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    replaying = asyncio.ensure_future(replayed(long_session(), budget=4_000, summaries=EXTRACTIVE()))
    while not list(tmp_path.iterdir()):  # noqa: ASYNC110 -- a folder tells nobody that it is there
        await asyncio.sleep(0)

    replaying.cancel()

    with pytest.raises(asyncio.CancelledError):
        await replaying
    assert list(tmp_path.iterdir()) == []
