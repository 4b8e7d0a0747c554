"""Every engine is told every message of the turns that ended, once and in order, whatever happened in between."""
# ruff: noqa: D102 -- what a hook does is in the contract; what an engine under test does, in its class

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    BootstrapResult,
    Compaction,
    CompactResult,
    Host,
    Registry,
    Replacement,
    SessionKey,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.host import QuarantineMirror
from openclaw_ctx.transcript import Transcript, rewrite, safe_name
from tests.assembly.recording import ByTurn, InBatches, OneByOne, Record, engine_of, open_host, take_turn

KINDS = [pytest.param(kind, id=kind.__doc__.split(".")[0].lower()) for kind in (OneByOne, InBatches, ByTurn)]


def transcript_path(state_dir: Path, key: str = "talk") -> Path:
    """Return where a session is kept."""
    return state_dir / "sessions" / f"{safe_name(SessionKey(key))}.jsonl"


def write_transcript(state_dir: Path, *texts: str) -> None:
    """Write a session as another program would, before any engine meets it."""
    transcript = Transcript.open(transcript_path(state_dir))
    for number, text in enumerate(texts):
        kind = AssistantMessage if number % 2 else UserMessage
        transcript.append(kind(content=text))
    transcript.close()


# -- one turn -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_each_message_of_a_turn_is_told_once_in_order(tmp_path, kind):
    """Whatever hook an engine takes a turn by, it gets the turn's messages and no others."""
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")
        await take_turn(talk, "three", "four", "five")

    assert record.seen == ["one", "two", "three", "four", "five"]
    assert record.reasons == ["new"]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_heartbeat_flag_reaches_every_kind_of_engine(tmp_path, kind):
    """B70: true for each message of a heartbeat turn, false again on the user's next one."""
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await take_turn(talk, "tick", "ok", is_heartbeat=True)
        await take_turn(talk, "hello", "hi")

    assert list(zip(record.seen, record.flags, strict=True)) == [
        ("tick", True),
        ("ok", True),
        ("hello", False),
        ("hi", False),
    ]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_loop_is_one_turn(tmp_path, kind):
    """B32: three rounds of tools with a prompt for each: the turn's messages, each once, at its end."""
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="do it"))
        for number in range(3):
            await talk.assemble()
            call = ToolCallBlock(id=f"c{number}", name="run")
            await talk.append(AssistantMessage(content=(TextBlock(text=f"call {number}"), call)))
            await talk.append(ToolResultMessage(tool_call_id=f"c{number}", content=f"result {number}"))
        await talk.assemble()
        await talk.append(AssistantMessage(content="done"))
        ended = await talk.end_turn()

    rounds = [text for number in range(3) for text in (f"call {number}", f"result {number}")]
    assert record.seen == ["do it", *rounds, "done"]
    assert (ended.handed_over, ended.engine, ended.substitution) == (8, "recorder", None)


class Compacting(ByTurn):
    """Folds everything before the newest message into a summary."""

    @hookimpl
    def compact(self, session_file):
        return CompactResult(ok=True, compacted=True, result=Compaction(summary="so far", first_kept_entry_id=None))


@pytest.mark.parametrize("kind", [*KINDS, pytest.param(Compacting, id="its own compaction")])
@pytest.mark.parametrize("engine", ["recorder", "legacy"], ids=["by the engine", "by legacy"])
async def test_a_turn_with_a_compaction_in_it_is_told_whole(tmp_path, kind, engine):
    """B32's kind: what a compaction folded in the middle of a turn still belongs to the turn."""
    record = Record()

    class Delegating(kind):  # type: ignore[misc, valid-type]
        @hookimpl
        async def compact(self, session_key, force):
            if kind is Compacting:
                return Compacting.compact(self, None)
            return await self.services.delegate_compaction(session_key, token_budget=2000, force=force)

    def make(context):
        built = Delegating(record)
        built.services = context.services
        return built

    async with open_host(tmp_path, engines={"recorder": make}) as host, host.session("talk") as talk:
        await take_turn(talk, "first " * 400, "answer")
        told = len(record.seen)
        await talk.append(UserMessage(content="long " * 4000))
        await talk.append(AssistantMessage(content="looking " * 400))
        if engine == "legacy":
            record.failing = {"assemble"}
            await talk.assemble()
            record.failing = set()
        compacted = await talk.compact(budget=2000)
        await talk.append(AssistantMessage(content="done"))
        if engine == "legacy":
            QuarantineMirror(tmp_path / "quarantine").release("recorder")
        await talk.end_turn()

        assert compacted.result.compacted, compacted.result.reason
        assert compacted.engine == engine
        assert len(talk.history) < 5
    assert [text.split()[0] for text in record.seen[told:]] == ["long", "looking", "done"]
    assert len(record.seen) == 5


async def test_the_turn_s_place_in_the_messages_is_told(tmp_path):
    """An engine that takes turns gets the context with the turn at its end, and where the turn begins."""
    places = []

    class Looking(OneByOne):
        @hookimpl
        def after_turn(self, messages, pre_prompt_message_count, session_id, session_key, session_file):
            places.append(([message.text for message in messages], pre_prompt_message_count))

    engines = {"recorder": engine_of(Looking, Record())}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")
        await take_turn(talk, "three", "four")

    assert places == [(["one", "two"], 0), (["one", "two", "three", "four"], 2)]


async def test_a_turn_of_nothing_hands_nothing_over(tmp_path):
    """Ending a turn twice tells nothing twice."""
    record = Record()
    engines = {"recorder": engine_of(ByTurn, record)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")

        again = await talk.end_turn()

    assert again.handed_over == 0
    assert record.seen == ["one", "two"]


# -- meeting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_new_session_is_met_as_new(tmp_path, kind):
    """``new``: nothing to import, no other transcript before it."""
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="hello"))
        await talk.assemble()

    assert record.meetings == [("new", None)]
    assert record.seen == [], "the running turn is not history yet"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_transcript_that_exists_is_imported(tmp_path, kind):
    """``import``: an engine that never met the session is told all of it, before the running turn."""
    write_transcript(tmp_path, "one", "two", "three", "four")
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="five"))
        await talk.assemble()
        imported = list(record.seen)
        await talk.end_turn()

    assert record.meetings == [("import", None)]
    assert imported == ["one", "two", "three", "four"]
    assert record.seen == ["one", "two", "three", "four", "five"]
    assert not any(record.flags)


@pytest.mark.parametrize("kind", [InBatches, ByTurn], ids=["batches", "turns"])
async def test_a_long_import_comes_in_slices(tmp_path, kind):
    """Each slice has a deadline of its own; together they are the whole history, in order."""
    texts = [f"message {number}" for number in range(1203)]
    write_transcript(tmp_path, *texts)
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await talk.assemble()

    assert record.seen == texts
    assert [size for operation, size in record.calls if operation == "ingest_batch"] == [500, 500, 203]


@pytest.mark.parametrize("imported", [0, 4])
async def test_an_engine_that_takes_the_history_upon_itself_gets_nothing_old(tmp_path, imported):
    """``imported_messages`` a number, 0 too: nothing old is handed over, then or at any later meeting."""
    write_transcript(tmp_path, "one", "two", "three", "four")
    record = Record(imported=imported)
    for text in ("five", "six"):
        async with (
            open_host(tmp_path, engines={"recorder": engine_of(InBatches, record)}) as host,
            host.session("talk") as talk,
        ):
            await take_turn(talk, text)

    assert record.seen == ["five", "six"]
    assert record.reasons == ["import", "resume"]


async def test_an_engine_reads_the_history_itself_through_its_services(tmp_path):
    """An engine that imports by ``services.transcript.read`` sees summarised messages too, and none twice."""
    record = Record()

    class Reading(InBatches):
        @hookimpl
        async def bootstrap(self, session_key, reason):
            self.record.meetings.append((reason, None))
            past = await self.services.transcript.read(session_key)
            self.record.note("read", past)
            return BootstrapResult(bootstrapped=True, imported_messages=len(past))

    def make(context):
        built = Reading(record)
        built.services = context.services
        return built

    write_transcript(tmp_path, "one", "two")
    async with open_host(tmp_path, engines={"recorder": make}) as host, host.session("talk") as talk:
        await talk.assemble()
        await take_turn(talk, "three")

    assert record.seen == ["one", "two", "three"]


# -- switching, quarantine, restart -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_switch_to_another_engine_and_back(tmp_path, kind):
    """Decision 7, A to B to A: A is told exactly what it missed, once and in order, and so is B."""
    a, b = Record(), Record()
    engines = {"a": engine_of(kind, a), "b": engine_of(kind, b)}
    for slot, texts in [("a", ("one", "two")), ("b", ("three", "four")), ("a", ("five", "six")), ("b", ("seven",))]:
        async with open_host(tmp_path, slot, engines=engines) as host, host.session("talk") as talk:
            await take_turn(talk, *texts)

    assert a.seen == ["one", "two", "three", "four", "five", "six"]
    assert b.seen == ["one", "two", "three", "four", "five", "six", "seven"]
    assert a.reasons == ["new", "catch_up"]
    assert b.reasons == ["import", "catch_up"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_quarantine_in_the_middle_and_a_registration_after_it(tmp_path, kind):
    """Decision 7: legacy serves two turns; the engine is registered again and told both, then goes on."""
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")
        record.failing = {"assemble"}
        await take_turn(talk, "three", "four")
        await take_turn(talk, "five", "six")
        missed = list(record.seen)

        record.failing = set()
        host.register_engine("recorder", engine_of(kind, record), refresh=True)
        await take_turn(talk, "seven", "eight")

    assert missed == ["one", "two"]
    assert record.seen == ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    assert record.reasons == ["new", "catch_up"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_restart_that_missed_nothing_is_a_resume(tmp_path, kind):
    """A new host on the same state: reason ``resume``, and nothing is told again."""
    record = Record()
    for text in ("one", "two", "three"):
        async with (
            open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host,
            host.session("talk") as talk,
        ):
            await take_turn(talk, text)

    assert record.reasons == ["new", "resume", "resume"]
    assert record.seen == ["one", "two", "three"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_turn_that_a_crash_left_unfinished_is_told_at_the_next_opening(tmp_path, kind):
    """Nobody called end_turn, and the process is gone: what was appended is told when the session is opened again."""
    record = Record()
    engines = {"recorder": engine_of(kind, record)}
    async with open_host(tmp_path, engines=engines) as host:
        talk = await host.session("talk")
        await take_turn(talk, "one", "two")
        await talk.append(UserMessage(content="three"))
        await talk.assemble()
        await talk.append(AssistantMessage(content="four"))
        talk.transcript.close()  # as a crash leaves it: no end_turn, no close
        host._sessions.clear()
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "five")

    assert record.seen == ["one", "two", "three", "four", "five"]
    assert record.reasons == ["new", "catch_up"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [1, 2, 3], ids=["the first", "the second", "the third"])
async def test_an_engine_that_fails_in_a_turn_s_hand_over_is_told_the_rest_later(tmp_path, kind, stop):
    """One by one, what was taken before the failure is not told again; the rest of the turn is, once it is back."""
    record = Record()

    class Stumbling(kind):  # type: ignore[misc, valid-type]
        @hookimpl
        def ingest(self, message, is_heartbeat):
            if len(self.record.seen) + 1 == stop:
                self.record.note("stumble")
                message = "stumbled"
                raise RuntimeError(message)
            return super().ingest(message, is_heartbeat)

        if kind is not OneByOne:

            @hookimpl
            def ingest_batch(self, messages, is_heartbeat):
                message = "stumbled"
                raise RuntimeError(message)

        if kind is ByTurn:

            @hookimpl
            def after_turn(self, messages):
                message = "stumbled"
                raise RuntimeError(message)

    engines = {"recorder": engine_of(Stumbling, record)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two", "three")
        taken = list(record.seen)
        host.register_engine("recorder", engine_of(kind, record), refresh=True)
        await take_turn(talk, "four")

    assert taken == (["one", "two", "three"][: stop - 1] if kind is OneByOne else [])
    assert record.seen == ["one", "two", "three", "four"]


@pytest.mark.parametrize("kind", [OneByOne, InBatches], ids=["one by one", "in batches"])
async def test_an_import_that_breaks_off_goes_on_where_it_stopped(tmp_path, kind):
    """What was taken of a long history is not told again after the engine is back."""
    texts = [f"message {number}" for number in range(1100)]
    write_transcript(tmp_path, *texts)
    record = Record()

    class Stumbling(kind):  # type: ignore[misc, valid-type]
        @hookimpl
        def ingest(self, message, is_heartbeat):
            self._stumble()
            return super().ingest(message, is_heartbeat)

        if kind is InBatches:

            @hookimpl
            def ingest_batch(self, messages, is_heartbeat):
                self._stumble()
                return super().ingest_batch(messages, is_heartbeat)

        def _stumble(self) -> None:
            if len(self.record.seen) >= 600:
                message = "stumbled"
                raise RuntimeError(message)

    async with (
        open_host(tmp_path, engines={"recorder": engine_of(Stumbling, record)}) as host,
        host.session("talk") as talk,
    ):
        await talk.assemble()
        taken = len(record.seen)
        host.register_engine("recorder", engine_of(kind, record), refresh=True)
        await talk.assemble()

    assert taken == {OneByOne: 600, InBatches: 1000}[kind]
    assert record.seen == texts
    assert record.reasons == ["import", "catch_up"]


@pytest.mark.parametrize(
    "kind,operation",
    [
        pytest.param(OneByOne, "bootstrap", id="bootstrap, one by one"),
        pytest.param(InBatches, "bootstrap", id="bootstrap, in batches"),
        pytest.param(ByTurn, "bootstrap", id="bootstrap, by turn"),
        pytest.param(OneByOne, "ingest", id="ingest"),
        pytest.param(InBatches, "ingest_batch", id="ingest_batch"),
        pytest.param(ByTurn, "after_turn", id="after_turn"),
    ],
)
async def test_a_failure_that_bars_nobody_loses_nothing(tmp_path, kind, operation):
    """With two failures allowed the engine serves on after one; what it did not take then is told later, in order."""
    record = Record()
    plugins = {"quarantine": {"failures": 2}}
    write_transcript(tmp_path, "one", "two")
    async with (
        open_host(tmp_path, engines={"recorder": engine_of(kind, record)}, plugins=plugins) as host,
        host.session("talk") as talk,
    ):
        await talk.append(UserMessage(content="three"))
        if operation == "bootstrap":
            record.failing = {operation}
        await talk.assemble()
        record.failing = {operation} - {"bootstrap"}
        await talk.append(AssistantMessage(content="four"))
        await talk.end_turn()
        record.failing = set()
        await take_turn(talk, "five", "six")
        await take_turn(talk, "seven")

        assert host.quarantines() == []
    assert record.seen == ["one", "two", "three", "four", "five", "six", "seven"]


@pytest.mark.parametrize("operation", ["bootstrap", "ingest_batch"])
async def test_a_turn_is_not_told_before_the_history_that_it_follows(tmp_path, operation):
    """The engine meets the session at a turn's end and fails once: neither skipped nor told out of order."""
    record = Record(failing={operation})
    write_transcript(tmp_path, "one", "two")
    async with (
        open_host(
            tmp_path, engines={"recorder": engine_of(ByTurn, record)}, plugins={"quarantine": {"failures": 2}}
        ) as host,
        host.session("talk") as talk,
    ):
        await talk.append(UserMessage(content="three"))
        await talk.end_turn()
        record.failing = set()
        await take_turn(talk, "four")

        assert host.quarantines() == []
    assert record.seen == ["one", "two", "three", "four"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_meeting_that_the_caller_gave_up_is_held_again(tmp_path, kind):
    """Cancelling the first assemble while the engine meets the session loses no history: it is met again."""
    write_transcript(tmp_path, "one", "two")
    record, entered = Record(), asyncio.Event()
    here = asyncio.get_running_loop()

    class Slow(kind):  # type: ignore[misc, valid-type]
        @hookimpl
        async def bootstrap(self, reason, previous_session_id):
            if not entered.is_set():
                here.call_soon_threadsafe(entered.set)
                await asyncio.Event().wait()
            self.record.meetings.append((reason, previous_session_id))
            return BootstrapResult(bootstrapped=True)

    async with open_host(tmp_path, engines={"recorder": engine_of(Slow, record)}) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="three"))
        first = asyncio.ensure_future(talk.assemble())
        await entered.wait()
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        await talk.assemble()
        await talk.end_turn()

        assert host.quarantines() == []
    assert record.seen == ["one", "two", "three"]
    assert record.reasons == ["import"]


@pytest.mark.parametrize("kind", [InBatches, ByTurn], ids=["in batches", "by turn"])
async def test_a_turn_s_end_that_the_caller_gave_up_is_told_with_the_next(tmp_path, kind):
    """Cancelling end_turn loses nothing: the engine is told that turn's messages before the next ones."""
    record, entered = Record(), asyncio.Event()
    here = asyncio.get_running_loop()

    class Slow(kind):  # type: ignore[misc, valid-type]
        if kind is ByTurn:

            @hookimpl
            async def after_turn(self, messages, pre_prompt_message_count, is_heartbeat):
                await _hold()
                super().after_turn(messages, pre_prompt_message_count, is_heartbeat)
        else:

            @hookimpl
            async def ingest_batch(self, messages, is_heartbeat):
                await _hold()
                return super().ingest_batch(messages, is_heartbeat)

    async def _hold() -> None:
        if not entered.is_set():
            here.call_soon_threadsafe(entered.set)
            await asyncio.Event().wait()

    async with open_host(tmp_path, engines={"recorder": engine_of(Slow, record)}) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="one"))
        await talk.assemble()
        ending = asyncio.ensure_future(talk.end_turn())
        await entered.wait()
        ending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ending
        await take_turn(talk, "two")
        await take_turn(talk, "three")

        assert host.quarantines() == []
    assert record.seen == ["one", "two", "three"]


# -- the transcript changes between sessions ----------------------------------------------------------------------


async def test_what_was_rewritten_between_sessions_is_told_anew(tmp_path):
    """The second message is replaced behind the engine's back: it is told from there on, and not from the start."""
    record = Record()
    engines = {"recorder": engine_of(InBatches, record)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")
        await take_turn(talk, "three", "four")
    transcript = Transcript.open(transcript_path(tmp_path))
    target = transcript.record()[1].entry_id
    changed = rewrite(transcript, [Replacement(entry_id=target, message=AssistantMessage(content="two, again"))])
    transcript.close()

    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "five")

    assert changed.changed
    assert record.seen[4:] == ["two, again", "three", "four", "five"]
    assert record.reasons == ["new", "catch_up"]


async def test_a_branch_from_an_earlier_entry_is_told_from_the_fork(tmp_path):
    """The conversation went on from an earlier message: the engine is told what follows the fork, and no more."""
    record = Record()
    engines = {"recorder": engine_of(InBatches, record)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")
        await take_turn(talk, "three", "four")
    transcript = Transcript.open(transcript_path(tmp_path))
    transcript.branch(transcript.record()[1].entry_id)
    transcript.append(UserMessage(content="three, otherwise"))
    transcript.close()

    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "five")

    assert record.seen[4:] == ["three, otherwise", "five"]


async def test_a_session_key_that_goes_on_in_another_transcript_is_a_continuation(tmp_path):
    """B33's kind: the file is another one under the same key: reason ``continuation`` and the old one's id."""
    record = Record()
    engines = {"recorder": engine_of(InBatches, record)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        old = talk.session_id
        await take_turn(talk, "one", "two")
    path = transcript_path(tmp_path)
    path.rename(path.with_name(path.name + ".reset-1"))

    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "three")
        new = talk.session_id

    assert new != old
    assert record.meetings == [("new", None), ("continuation", old)]
    assert record.seen == ["one", "two", "three"]


async def test_a_record_of_the_hand_over_that_makes_no_sense_counts_as_none(tmp_path):
    """The engine is told again, by entries that it knows, rather than never."""
    record = Record()
    engines = {"recorder": engine_of(InBatches, record)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "one")
    (note,) = transcript_path(tmp_path).parent.glob("*.handover")
    note.write_bytes(b'{"engines": {"recorder": {"sess')

    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "two")

    assert record.reasons == ["new", "import"]
    assert record.seen == ["one", "one", "two"]


async def test_sessions_of_one_host_are_told_apart(tmp_path):
    """Two conversations side by side: each engine call names its session, and no message strays."""
    told: list[tuple[str, str]] = []

    class Two(OneByOne):
        @hookimpl
        def ingest(self, session_key, message, is_heartbeat):
            told.append((session_key, message.text))
            return super().ingest(message, is_heartbeat)

    async with (
        open_host(tmp_path, engines={"recorder": engine_of(Two, Record())}) as host,
        host.session("a") as a,
        host.session("b") as b,
    ):
        await asyncio.gather(take_turn(a, "a1", "a2"), take_turn(b, "b1", "b2"))
        await asyncio.gather(take_turn(b, "b3"), take_turn(a, "a3"))

    assert [text for key, text in told if key == "a"] == ["a1", "a2", "a3"]
    assert [text for key, text in told if key == "b"] == ["b1", "b2", "b3"]


async def test_what_is_appended_while_the_engine_is_built_belongs_to_the_running_turn(tmp_path):
    """A message that comes in while the engine is still being built is told with its turn, and not twice."""
    record, building, go_on = Record(), asyncio.Event(), asyncio.Event()
    here = asyncio.get_running_loop()
    write_transcript(tmp_path, "one", "two")

    async def slowly(context):
        here.call_soon_threadsafe(building.set)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(go_on.wait(), here))
        return InBatches(record)

    async with open_host(tmp_path, engines={"recorder": slowly}) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="three"))
        assembling = asyncio.ensure_future(talk.assemble())
        await building.wait()
        await talk.append(UserMessage(content="four"))
        go_on.set()
        await assembling
        await talk.end_turn()

    assert record.seen == ["one", "two", "three", "four"]


# -- any order of all that ----------------------------------------------------------------------------------------


class World:
    """Hosts that come and go over one state folder, and a model of what each engine must have been told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry = Registry()
        self.records = {"a": Record(), "b": Record(), "c": Record()}
        self.kinds: dict[str, type[OneByOne]] = {"a": OneByOne, "b": InBatches, "c": ByTurn}
        for engine_id, kind in self.kinds.items():
            self.registry.register(engine_id, engine_of(kind, self.records[engine_id]), owner="public")
        self.slot = "a"
        self.written: list[str] = []
        self.host: Host | None = None
        self.talk: Any = None

    async def open(self) -> None:
        self.host = await open_host(self.folder, self.slot, registry=self.registry)
        self.talk = await self.host.session("talk")

    async def close(self) -> None:
        if self.host is not None:
            await self.host.close()

    async def step(self, action: str) -> None:
        record = self.records[self.slot]
        match action:
            case "append":
                text = str(len(self.written))
                self.written.append(text)
                await self.talk.append(UserMessage(content=text))
            case "assemble":
                prompt = await self.talk.assemble()
                assert [message.text for message in prompt.messages] == self.written
            case "end":
                await self.talk.end_turn()
                self.check()
            case "restart":
                await self.close()
                await self.open()
            case "fail":
                record.failing = {"assemble"}
                await self.talk.assemble()
                record.failing = set()
            case "release":
                QuarantineMirror(self.folder / "quarantine").release(self.slot)
            case _:
                self.slot = action
                await self.close()
                await self.open()

    def check(self) -> None:
        """Hold the model: who answers now was told all that is written, everybody else a beginning of it."""
        for engine_id, record in self.records.items():
            assert record.seen == self.written[: len(record.seen)], engine_id
        if self.registry.quarantine.barred(self.slot) is None:
            assert self.records[self.slot].seen == self.written


@given(
    steps=st.lists(
        st.sampled_from(["append", "append", "assemble", "end", "end", "restart", "fail", "release", "a", "b", "c"]),
        max_size=25,
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_engine_is_told_every_ended_turn_once_in_order(steps):
    """Any order of appends, turns, restarts, switches, failures and releases, against the model."""

    async def live() -> None:
        with tempfile.TemporaryDirectory() as folder:
            world = World(Path(folder))
            await world.open()
            try:
                for action in [*steps, "release", "append", "end"]:
                    await world.step(action)
            finally:
                await world.close()

    asyncio.run(live())
