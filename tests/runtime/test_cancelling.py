"""A turn that is stopped anywhere leaves a session that goes on: whole pairs, everything said, once, and an answer."""

import asyncio
import itertools

import pytest

from openclaw_ctx import (
    AbortError,
    AbortSignal,
    AssembleResult,
    AssistantMessage,
    ContextOverflowError,
    EngineTool,
    ModelTransientError,
    ScriptedAnswer,
    ScriptedModel,
    TokenUsage,
    ToolCallBlock,
    TurnBlockedError,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.models import TextDelta, ThinkingDelta, ToolCallReady, UsageReported
from openclaw_ctx.runtime import Compacted, Compacting, ModelAsked, ModelRetried, TurnAnswered, TurnResult
from openclaw_ctx.runtime.events import MessageAppended, ToolEnded, ToolStarted
from openclaw_ctx.runtime.policy import MAX_ROUNDS
from openclaw_ctx.transcript import Transcript, pairs_are_whole
from tests.assembly.plain import fill
from tests.assembly.recording import ByTurn, InBatches, OneByOne, Record, open_host

WINDOW = 32_000
OVERFLOW = ContextOverflowError("scripted", "scripted-1", "prompt is too long", None, None)
PASSING = ModelTransientError("scripted", "scripted-1", "broke off")
EVENTS = [
    MessageAppended,
    ModelAsked,
    ThinkingDelta,
    TextDelta,
    ToolCallReady,
    UsageReported,
    ModelRetried,
    Compacting,
    Compacted,
    ToolStarted,
    ToolEnded,
    TurnAnswered,
]


async def turn_of_the_loop(seconds=0.0):
    """Let others run, as whoever really waits does."""
    await asyncio.sleep(0)


class Suspending(ScriptedModel):
    """A model that lets others run at each step of its answer, as one at the end of a wire does."""

    async def stream(self, request, *, abort=None):
        """Return the next answer as it comes."""
        async for event in super().stream(request, abort=abort):
            await turn_of_the_loop()
            yield event


def script():
    """Return answers in which everything happens: an overflow, a failure that passes, thinking, two tools, an end."""
    calls = tuple(ToolCallBlock(id=f"c{n}", name="look", arguments={"at": n}) for n in (1, 2))
    usage = TokenUsage(input=900, output=30)
    return [
        OVERFLOW,
        PASSING,
        ScriptedAnswer(thinking="Let me see.", text="I will look.", tool_calls=calls, usage=usage),
        ScriptedAnswer(text="It is quiet.", usage=usage),
    ]


async def look(arguments):
    """Look around, which takes a while."""
    await turn_of_the_loop()
    return f"quiet at {arguments['at']}"


LOOK = EngineTool(name="look", description="Looks.", parameters={}, call=look)


def host_of(folder, record, kind=ByTurn, *, model=None):
    """Return a host whose engine takes turns, and lets the host compact."""

    class Delegating(kind):
        @hookimpl
        async def compact(self, session_key, token_budget):
            return await self.services.delegate_compaction(session_key, token_budget=token_budget, force=True)

    def make(context):
        made = Delegating(record)
        made.services = context.services
        return made

    return open_host(
        folder,
        engines={"recorder": make},
        model=Suspending(script()) if model is None else model,
        summary_model=Suspending(itertools.repeat("They talked.")),
        sleep=turn_of_the_loop,
    )


async def is_whole(talk, *asked):
    """Run on, and see that everything is there: what was asked once and in order, whole pairs, and an answer."""
    model = Suspending(itertools.repeat("Here I am."))
    answer = await talk.run("Are you there?", model=model, context_window=WINDOW)
    await talk.settle()
    assert answer.text == "Here I am."
    record = talk.transcript.record()
    said = [message.text for message in record if isinstance(message, UserMessage)]
    assert said[-len(asked) - 1 :] == [*asked, "Are you there?"]
    assert pairs_are_whole((await talk.assemble()).messages)
    assert len({message.entry_id for message in record}) == len(record)
    read = Transcript.read(talk.transcript.path)
    assert [message.text for message in read.record()] == [message.text for message in record]
    read.close()


def stopping_at(kind, place, stop):
    """Return a listener that stops the turn at the so manieth event of a kind, and how often there was one."""
    seen = []

    def listen(event):
        if isinstance(event, kind):
            seen.append(event)
            if len(seen) == place:
                stop()

    return listen, seen


@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("kind", EVENTS, ids=[kind.__name__ for kind in EVENTS])
@pytest.mark.parametrize("how", ["cancelled", "aborted"])
async def test_a_turn_that_is_stopped_at_any_event_leaves_a_session_that_goes_on(tmp_path, kind, place, how):
    """By its caller's cancellation or by a signal; the engine is barred for nothing, and is told each message once."""
    record, abort = Record(), AbortSignal()
    async with host_of(tmp_path, record) as host, host.session("talk") as talk:
        await fill(talk, 40)
        await talk.end_turn()
        listen, seen = stopping_at(
            kind, place, lambda: turn.cancel() if how == "cancelled" else abort.fire("the user pressed stop")
        )
        turn = asyncio.ensure_future(
            talk.run("Look around!", tools=[LOOK], context_window=WINDOW, on_event=listen, abort=abort)
        )
        (outcome,) = await asyncio.gather(turn, return_exceptions=True)

        assert seen
        if len(seen) >= place and not isinstance(outcome, TurnResult):  # which it is where the answer was whole by then
            assert isinstance(outcome, asyncio.CancelledError if how == "cancelled" else AbortError)
        assert pairs_are_whole(tuple(talk.history))
        await is_whole(talk, "Look around!")
        on_record = [message.text for message in talk.transcript.record()]
        assert host.quarantines() == []
    assert record.seen == on_record


@pytest.mark.parametrize("kind", [OneByOne, InBatches, ByTurn])
@pytest.mark.parametrize("steps", range(0, 60, 4))
async def test_a_turn_that_is_cancelled_at_any_step_leaves_a_session_that_goes_on(tmp_path, kind, steps):
    """After so many turns of the loop, wherever that is: in the introduction, the model, a tool, the hand-over."""
    record = Record()
    async with host_of(tmp_path, record, kind) as host, host.session("talk") as talk:
        turn = asyncio.ensure_future(talk.run("Look around!", tools=[LOOK], context_window=WINDOW))
        for _ in range(steps):
            await asyncio.sleep(0)
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        asked = [message.text for message in talk.transcript.record() if isinstance(message, UserMessage)]
        assert asked in ([], ["Look around!"])

        await is_whole(talk, *asked)
        on_record = [message.text for message in talk.transcript.record()]
        assert host.quarantines() == []
    assert record.seen == on_record


async def test_who_gives_up_waiting_for_the_hand_over_leaves_it_to_end(tmp_path):
    """``settle`` that is cancelled: the engine is told the turn all the same."""
    record = Record()
    async with host_of(tmp_path, record, model=Suspending(["fine"])) as host, host.session("talk") as talk:
        await talk.run("Hello")
        waiting = asyncio.ensure_future(talk.settle())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

        await is_whole(talk, "Hello")
    assert record.seen == ["Hello", "fine", "Are you there?", "Here I am."]


async def test_an_abort_waits_for_no_engine_that_takes_its_time(tmp_path):
    """The turn ends where it is; the engine is not blamed for it, and serves the next one."""
    here, began = asyncio.get_running_loop(), asyncio.Event()
    waits = [60.0]

    class Slow(OneByOne):
        @hookimpl
        async def assemble(self, messages):
            here.call_soon_threadsafe(began.set)
            await asyncio.sleep(waits.pop() if waits else 0.0)
            return AssembleResult(messages=messages)

    record, abort = Record(), AbortSignal()
    opening = open_host(tmp_path, engines={"recorder": lambda _: Slow(record)}, model=ScriptedModel(["Here."]))
    async with opening as host, host.session("talk") as talk:
        turn = asyncio.ensure_future(talk.run("hello", abort=abort))
        await began.wait()
        abort.fire("the user pressed stop")
        with pytest.raises(AbortError, match="pressed stop"):
            await asyncio.wait_for(turn, 20)

        assert (await talk.run(None)).engine == "recorder"
        assert host.quarantines() == []
        assert [message.text for message in talk.history] == ["hello", "Here."]


async def test_a_turn_that_waits_for_another_can_be_cancelled(tmp_path):
    """It has written nothing, and the ones around it are answered."""
    async with host_of(tmp_path, Record(), model=Suspending(["1", "2"])) as host, host.session("talk") as talk:
        turns = [asyncio.ensure_future(talk.run(text)) for text in ("one", "two", "three")]
        await asyncio.sleep(0)
        turns[1].cancel()
        first, second, third = await asyncio.gather(*turns, return_exceptions=True)

        assert (first.text, third.text) == ("1", "2")
        assert isinstance(second, asyncio.CancelledError)
        await is_whole(talk, "one", "three")


async def test_turns_of_a_session_queue_and_those_of_others_do_not(tmp_path):
    """Two of one session never overlap; one of another session is answered in the middle of the first."""
    gate, arrived, running = asyncio.Event(), asyncio.Event(), []

    async def wait(arguments):
        running.append(arguments["of"])
        arrived.set()
        await gate.wait()
        return "done"

    tool = EngineTool(name="wait", description="", parameters={}, call=wait)

    def answer(request):
        last = request.messages[-1]
        if isinstance(last, UserMessage) and last.text.startswith("wait"):
            return ScriptedAnswer(tool_calls=(ToolCallBlock(id=last.text, name="wait", arguments={"of": last.text}),))
        return f"answer to {last.text}"

    async with (
        open_host(tmp_path, "legacy", model=ScriptedModel(itertools.repeat(answer))) as host,
        host.session("talk") as talk,
        host.session("other") as other,
    ):
        first = asyncio.ensure_future(talk.run("wait 1", tools=[tool]))
        await arrived.wait()
        second = asyncio.ensure_future(talk.run("wait 2", tools=[tool]))
        assert (await other.run("hello")).text == "answer to hello"
        assert (running, second.done()) == (["wait 1"], False)

        gate.set()
        await asyncio.gather(first, second)
        texts = [message.text for message in talk.transcript.record()]

    assert texts == ["wait 1", "", "done", "answer to done", "wait 2", "", "done", "answer to done"]


async def test_a_model_that_never_stops_calling_tools_is_stopped(tmp_path):
    """After 160 rounds; what was done is on record, and the session goes on."""
    calls = (
        ScriptedAnswer(tool_calls=(ToolCallBlock(id=f"c{n}", name="look", arguments={"at": n}),))
        for n in itertools.count()
    )
    async with open_host(tmp_path, "legacy", model=ScriptedModel(calls)) as host, host.session("talk") as talk:
        with pytest.raises(TurnBlockedError) as blocked:
            await talk.run("Look around!", tools=[LOOK])

        assert blocked.value.kind == "retry_limit"
        answers = [message for message in talk.history if isinstance(message, AssistantMessage)]
        assert len(answers) == MAX_ROUNDS == 160
        assert pairs_are_whole(tuple(talk.history))
        await is_whole(talk, "Look around!")
