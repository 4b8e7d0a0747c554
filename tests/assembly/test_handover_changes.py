"""The transcript changes between sessions, and anything happens in any order."""
# ruff: noqa: D102 -- what a hook does is in the contract; what an engine under test does, in its class

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    Host,
    Registry,
    Replacement,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.host import QuarantineMirror
from openclaw_ctx.transcript import Transcript, rewrite
from tests.assembly.recording import ByTurn, InBatches, OneByOne, Record, engine_of, open_host, take_turn
from tests.assembly.transcripts import transcript_path, write_transcript

# -- the transcript changes between sessions -----------------------------------------------------------------------


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


async def test_a_session_key_that_begins_anew_in_another_transcript_is_a_reset(tmp_path):
    """The file was put aside, and the new one goes on from none: reason ``reset`` and the old one's id."""
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
    assert record.meetings == [("new", None), ("reset", old)]
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


# -- any order of all that -----------------------------------------------------------------------------------------


class World:
    """Hosts that come and go over one state folder, and a model of what each engine must have been told."""

    def __init__(self, folder: Path, failures: int) -> None:
        self.folder = folder
        self.plugins = {"quarantine": {"failures": failures}}
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
        self.host = await open_host(self.folder, self.slot, registry=self.registry, plugins=self.plugins)
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
            case "crash":  # nobody ended the turn, and nothing was closed in order
                self.talk.transcript.close()
                self.host._sessions.clear()
                await self.close()
                await self.open()
            case "fail":
                record.failing = {"assemble"}
                await self.talk.assemble()
                record.failing = set()
            case "stumble":
                record.failing = {"bootstrap", "after_turn", "ingest_batch", "ingest"}
                await self.talk.end_turn()
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


# Those that write or end a turn more often than the others.
STEPS = (
    *("append", "append", "append", "assemble", "end", "end"),
    *("restart", "crash", "fail", "stumble", "release", "a", "b", "c"),
)


@given(
    failures=st.sampled_from([1, 3]),
    steps=st.lists(
        st.sampled_from(STEPS),
        max_size=25,
    ),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_engine_is_told_every_ended_turn_once_in_order(failures, steps):
    """Any order of appends, turns, restarts, crashes, switches, failures and releases, against the model."""

    async def live() -> None:
        with tempfile.TemporaryDirectory() as folder:
            world = World(Path(folder), failures)
            await world.open()
            try:
                for action in [*steps, "release", "append", "end"]:
                    await world.step(action)
            finally:
                await world.close()

    asyncio.run(live())
