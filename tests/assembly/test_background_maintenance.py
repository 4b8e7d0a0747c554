"""Engines that tidy up behind the turns, or put a compaction off until then."""

import asyncio
import threading

import attrs
import pytest

from openclaw_ctx import (
    AbortSignal,
    CompactResult,
    EngineInfo,
    Replacement,
    RewriteResult,
    ScriptedModel,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.assembly.compactor import DEFERRED
from openclaw_ctx.runtime import Compacted
from tests.assembly.plain import bytes_of, fill
from tests.assembly.recording import ByTurn, Record, engine_of, open_host

BEHIND = EngineInfo(id="recorder", name="Recorder", turn_maintenance_mode="background")
OWNING = attrs.evolve(BEHIND, owns_compaction=True)


class Gate:
    """Holds an engine where it asks to pass; made on the host's loop, asked in the engine's lane."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[None] = asyncio.Queue()
        self._open = threading.Semaphore(0)

    async def arrival(self) -> None:
        """Return once somebody stands there who was not waited for yet."""
        await self._arrived.get()

    def release(self, number: int = 1) -> None:
        """Let so many pass."""
        self._open.release(number)

    async def passing(self) -> None:
        """Stand there until let through."""
        self._loop.call_soon_threadsafe(self._arrived.put_nowait, None)
        await asyncio.to_thread(self._open.acquire)


@attrs.define
class Diary(Record):
    """
    A record with what maintenance was told.

    Attributes:
        running: Maintenances under way.
        most: The most of them at once.
        deferred: Whether each was allowed to compact.
        steps: Of the engine and its turns, in order.
        known: The sessions that have been tidied up.
    """

    running: int = 0
    most: int = 0
    deferred: list[bool] = attrs.field(factory=list)
    steps: list[str] = attrs.field(factory=list)
    known: set[str] = attrs.field(factory=set)


def tidying(gate, info=BEHIND):
    """Return an engine that stands at *gate* in each maintenance but a session's first, which is its introduction's."""

    class Tidying(ByTurn):
        """Takes whole turns, and tidies up."""

        @hookimpl
        def assemble(self, messages):
            self.record.steps.append("assemble")
            return super().assemble(messages)

        @hookimpl
        def after_turn(self, messages, pre_prompt_message_count, is_heartbeat):
            self.record.steps.append("after_turn")
            super().after_turn(messages, pre_prompt_message_count, is_heartbeat)

        @hookimpl
        async def maintain(self, session_key, runtime_context):
            record = self.record
            record.steps.append("maintain")
            record.deferred.append(runtime_context.allow_deferred_compaction_execution)
            is_first = session_key not in record.known
            record.known.add(session_key)
            record.running += 1
            record.most = max(record.most, record.running)
            try:
                if not is_first:
                    await gate.passing()
                record.note("maintain")
            finally:
                record.running -= 1
                record.steps.append("maintained")
            return RewriteResult(changed=False)

    Tidying.info = info
    return Tidying


def maintaining_host(folder, diary, gate, script=(), *, info=BEHIND, **options):
    """Return a host with such an engine in its slot."""
    engines = {"recorder": engine_of(tidying(gate, info), diary)}
    return open_host(folder, engines=engines, model=ScriptedModel(script), **options)


async def test_the_next_turn_does_not_wait_for_maintenance_behind_it(tmp_path):
    """Many turns while one maintenance runs: one more follows, and never two at once."""
    diary, gate = Diary(), Gate()
    answers = [f"answer {number}" for number in range(6)]
    async with maintaining_host(tmp_path, diary, gate, answers) as host, host.session("talk") as talk:
        await talk.run("question 0")
        await gate.arrival()
        for number in range(1, 6):
            await talk.run(f"question {number}")
        await talk.rotate()  # there is nothing to leave behind, and it comes behind the last hand-over
        assert diary.running == 1

        gate.release(6)
        await talk.settle()

    assert len(diary.deferred) == 1 + 2
    assert diary.most == 1
    assert len(diary.seen) == 12


async def test_each_session_has_its_own_maintenance(tmp_path):
    """One that takes long holds up no other session's."""
    diary, gate = Diary(), Gate()
    async with maintaining_host(tmp_path, diary, gate, ["one", "two"]) as host:
        async with host.session("talk") as talk, host.session("other") as other:
            await asyncio.gather(talk.tools(), other.tools())
            await talk.run("1")
            await gate.arrival()
            await other.run("2")
            await gate.arrival()
            assert diary.running == 2

            gate.release(2)
            await asyncio.gather(talk.settle(), other.settle())

        assert host.quarantines() == []


async def test_closing_aborts_maintenance_and_bars_nobody(tmp_path):
    """The engine need not heed the signal for the session to close."""
    diary, gate = Diary(), Gate()
    async with maintaining_host(tmp_path, diary, gate, ["one"]) as host:
        async with host.session("talk") as talk:
            await talk.run("1")
            await gate.arrival()

        assert host.quarantines() == []
        gate.release(9)
        async with host.session("talk") as talk:
            assert (await talk.assemble()).engine == "recorder"


async def test_maintenance_that_fails_bars_its_engine_once_and_no_turn_knows(tmp_path):
    """The turn was answered; the next is answered by legacy, and nothing more is tidied up."""
    diary, gate = Diary(), Gate()
    gate.release(9)
    async with maintaining_host(tmp_path, diary, gate, ["one", "two"]) as host, host.session("talk") as talk:
        await talk.tools()
        diary.failing.add("maintain")
        first = await talk.run("1")
        await talk.settle()
        second = await talk.run("2")
        await talk.settle()

        (row,) = host.quarantines()
    assert (first.text, second.text) == ("one", "two")
    assert (first.engine, second.engine) == ("recorder", "legacy")
    assert (row.record.operation, row.record.reason) == ("maintain", "RuntimeError: maintain is broken")
    assert len(diary.deferred) == 2


async def test_maintenance_in_the_foreground_is_done_before_the_next_prompt(tmp_path):
    """``foreground`` is the default; in the background it may be under way, and the hand-over never is."""
    diary, gate = Diary(), Gate()
    gate.release(9)
    info = EngineInfo(id="recorder", name="Recorder")
    async with maintaining_host(tmp_path, diary, gate, ["1", "2"], info=info) as host, host.session("talk") as talk:
        await talk.run("one")
        await talk.run("two")
        await talk.settle()

    turn = ["assemble", "after_turn", "maintain", "maintained"]
    assert diary.steps == ["maintain", "maintained", *turn, *turn]
    assert diary.deferred == [False] * 3


async def test_maintenance_behind_a_turn_rewrites_what_the_next_one_sees(tmp_path):
    """While it runs the session takes messages; the rewrite loses none of them, and tells the engine nothing twice."""
    diary, gate = Diary(), Gate()

    class Shortening(tidying(gate)):  # type: ignore[misc] -- a base made for this test
        @hookimpl
        async def maintain(self, runtime_context):
            if self.record.steps.count("after_turn") != 1:
                return RewriteResult(changed=False)
            await gate.passing()
            made = UserMessage(content="shorter")
            return await runtime_context.rewrite_transcript_entries([Replacement(entry_id=first[0], message=made)])

    first = []
    engines = {"recorder": engine_of(Shortening, diary)}
    async with (
        open_host(tmp_path, engines=engines, model=ScriptedModel(["one", "two", "three"])) as host,
        host.session("talk") as talk,
    ):
        await talk.run("long " * 50)
        first.append(talk.history[0].entry_id)
        await gate.arrival()
        await talk.append(UserMessage(content="meanwhile"))
        gate.release()
        await talk.settle()
        await talk.run(None)
        await talk.settle()

        assert [message.text for message in talk.history] == ["shorter", "one", "meanwhile", "two"]
        assert host.quarantines() == []
    assert [text.strip()[:9] for text in diary.seen] == ["long long", "one", "meanwhile", "two"]


# -- a compaction that may wait ------------------------------------------------------------------------------------


async def test_a_compaction_ahead_of_need_is_put_off_to_maintenance_that_may_compact(tmp_path):
    """Where the engine owns compaction and tidies up behind: it is not asked now, and told then that it may."""
    diary, gate = Diary(), Gate()
    gate.release(9)
    async with maintaining_host(tmp_path, diary, gate, info=OWNING) as host, host.session("talk") as talk:
        await fill(talk)
        await talk.tools()
        before = bytes_of(talk)
        compacted = await talk.compact(budget=1_000, trigger="budget")
        await talk.settle()

        assert (compacted.result.ok, compacted.result.compacted) == (True, False)
        assert compacted.result.reason == DEFERRED == "deferred to background context-engine maintenance"
        assert bytes_of(talk) == before
    assert diary.deferred == [False, True]
    assert "compact" not in dict(diary.calls)


@pytest.mark.parametrize("trigger", ["manual", "overflow", "timeout_recovery"])
async def test_what_cannot_wait_is_not_put_off(tmp_path, trigger):
    """A user, a provider or a silent model waits for it."""
    diary, gate = Diary(), Gate()
    gate.release(9)
    async with maintaining_host(tmp_path, diary, gate, info=OWNING) as host, host.session("talk") as talk:
        await fill(talk)
        compacted = await talk.compact(budget=1_000, trigger=trigger)
        await talk.settle()

        assert compacted.result.reason == "nothing to do"
    assert "compact" in dict(diary.calls)
    assert diary.deferred == [False]


@pytest.mark.parametrize(
    "info",
    [
        pytest.param(BEHIND, id="the host owns compaction"),
        pytest.param(attrs.evolve(OWNING, turn_maintenance_mode="foreground"), id="it tidies up in the foreground"),
    ],
)
async def test_an_engine_that_does_not_do_both_is_asked_at_once(tmp_path, info):
    """Nothing is put off, and no maintenance is told that it may compact."""
    diary, gate = Diary(), Gate()
    gate.release(9)
    async with maintaining_host(tmp_path, diary, gate, ["1"], info=info) as host, host.session("talk") as talk:
        await fill(talk)
        await talk.compact(budget=1_000, trigger="budget")
        await talk.run("one")
        await talk.settle()

    assert "compact" in dict(diary.calls)
    assert not any(diary.deferred)


async def test_an_owning_engine_without_maintenance_is_asked_at_once(tmp_path):
    """There is nothing that it could be put off to."""
    record = Record()

    class Owning(ByTurn):
        info = OWNING

    async with open_host(tmp_path, engines={"recorder": engine_of(Owning, record)}) as host, host.session("t") as talk:
        await fill(talk)
        compacted = await talk.compact(budget=1_000, trigger="budget")

        assert compacted.result.reason == "nothing to do"
    assert "compact" in dict(record.calls)


async def test_permission_to_compact_is_given_once(tmp_path):
    """To the maintenance that it was put off to; the next turn's has none, and one that was running gets none later."""
    diary, gate = Diary(), Gate()
    async with (
        maintaining_host(tmp_path, diary, gate, ["1", "2"], info=OWNING) as host,
        host.session("talk") as talk,
    ):
        await fill(talk)
        await talk.run("one")
        await gate.arrival()
        await talk.compact(budget=1_000, trigger="budget")
        await talk.compact(budget=1_000, trigger="budget")
        gate.release()
        await gate.arrival()
        assert diary.deferred == [False, False, True]

        gate.release(9)
        await talk.settle()
        await talk.run("two")
        await talk.settle()

    assert diary.deferred == [False, False, True, False]


async def test_a_turn_of_an_engine_that_owns_compaction_is_sent_as_it_is(tmp_path):
    """The host compacts ahead for no such engine; a transcript that is too large on disk is put off to maintenance."""
    diary, gate = Diary(), Gate()
    gate.release(9)
    events = []
    config = {"agents": {"defaults": {"compaction": {"maxActiveTranscriptBytes": "1kb"}}}}
    async with (
        maintaining_host(tmp_path, diary, gate, ["1"], info=OWNING, config=config) as host,
        host.session("talk") as talk,
    ):
        await fill(talk)
        result = await talk.run("one", on_event=events.append)
        await talk.settle()

        assert (result.text, result.compactions) == ("1", 0)
    (put_off,) = [event for event in events if isinstance(event, Compacted)]
    assert (put_off.trigger, put_off.result.reason) == ("budget", DEFERRED)
    assert diary.deferred in (
        [False, True],
        [False, True, False],
    )  # one is both where the turn was quick
    assert "compact" not in dict(diary.calls)


async def test_an_engine_s_answer_of_not_compacted_asks_for_no_maintenance(tmp_path):
    """Only a compaction that was made is followed by one."""
    diary, gate = Diary(), Gate()
    gate.release(9)
    assert not CompactResult(ok=True, compacted=False).compacted
    async with maintaining_host(tmp_path, diary, gate, info=BEHIND) as host, host.session("talk") as talk:
        await fill(talk)
        await talk.compact(budget=1_000, abort=AbortSignal())
        await talk.settle()

    assert diary.deferred == [False]
