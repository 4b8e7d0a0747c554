"""What happens at the edges of a session: budgets, closing, disks that are full, and strangers who write."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from openclaw_ctx import (
    AssistantMessage,
    Compaction,
    CompactResult,
    EngineFailedError,
    IngestBatchResult,
    Replacement,
    SessionBusyError,
    SessionClosedError,
    UserMessage,
)
from tests.assembly.plain import engine, fill, texts
from tests.assembly.recording import open_host


async def test_a_compaction_leaves_room_for_the_system_prompt(tmp_path):
    """Compact, then assemble again, ends below the budget that system prompt and messages share."""
    async with open_host(tmp_path, engines={}, slot="legacy") as host, host.session("talk") as session:
        await fill(session, turns=30)
        system_prompt = "Be careful. " * 1_500
        before = await session.assemble(budget=9_000, system_prompt=system_prompt)

        await session.compact(budget=9_000, trigger="budget")
        after = await session.assemble(budget=9_000, system_prompt=system_prompt)

    assert before.over_budget
    assert not after.over_budget


async def test_a_turn_goes_on_when_its_mark_cannot_be_written(tmp_path, monkeypatch):
    """A full disk beside the transcript costs a repeated telling at worst, never the turn."""
    told: list[str] = []

    def ingest_batch(self: Any, messages: Any) -> IngestBatchResult:
        told.extend(texts(messages))
        return IngestBatchResult(ingested_count=len(messages))

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    async with (
        open_host(tmp_path, engines={"recorder": engine(ingest_batch=ingest_batch)}) as host,
        host.session("talk") as session,
    ):
        for number in range(2):
            await session.append(UserMessage(content=f"q{number}"))
            prompt = await session.assemble()
            await session.append(AssistantMessage(content=f"a{number}"))
            await session.end_turn()

    assert prompt.engine == "recorder"
    assert told == ["q0", "a0", "q1", "a1"]
    assert not list((tmp_path / "state").rglob("*.tmp"))


async def test_a_line_that_a_stranger_wrote_into_the_turn_costs_the_engine_nothing(tmp_path):
    """What follows the mark is told, however it came there."""
    told: list[str] = []

    def ingest_batch(self: Any, messages: Any) -> IngestBatchResult:
        told.extend(texts(messages))
        return IngestBatchResult(ingested_count=len(messages))

    async with (
        open_host(tmp_path, engines={"recorder": engine(ingest_batch=ingest_batch)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="q0"))
        await session.end_turn()
        await session.append(UserMessage(content="q1"))
        line = {
            "type": "message",
            "id": "feedbeef",
            "parentId": session.transcript.leaf_id,
            "timestamp": "2026-01-01T00:00:00Z",
            "message": {"role": "user", "content": "foreign"},
        }
        with session.transcript.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        await session.append(AssistantMessage(content="a1"))

        await session.end_turn()

    assert told == ["q0", "q1", "foreign", "a1"]


async def test_entries_that_are_written_again_are_not_told_again(tmp_path):
    """A rewrite gives new ids to what follows it; the marks go with them, over a restart too."""
    told: list[str] = []

    def ingest_batch(self: Any, messages: Any) -> IngestBatchResult:
        told.extend(texts(messages))
        return IngestBatchResult(ingested_count=len(messages))

    async def maintain(self: Any, session_key: str, runtime_context: Any) -> None:
        record = await self.services.transcript.read(session_key)
        if len(record) == 4 and record[1].text == "a0":
            short = Replacement(entry_id=record[1].entry_id, message=AssistantMessage(content="(short)"))
            await runtime_context.rewrite_transcript_entries([short])

    engines = {"recorder": engine(ingest_batch=ingest_batch, maintain=maintain)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        for number in range(2):
            await session.append(UserMessage(content=f"q{number}"))
            await session.append(AssistantMessage(content=f"a{number}"))
            await session.end_turn()

        assert texts(session.transcript.record()) == ["q0", "(short)", "q1", "a1"]
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        await session.assemble()

    assert told == ["q0", "a0", "q1", "a1"]


async def test_closing_twice_leaves_the_next_opening_alone(tmp_path):
    """The first session's second close must not take the second session's place."""
    async with open_host(tmp_path, engines={}, slot="legacy") as host:
        first = await host.session("talk")
        await first.close()
        second = await host.session("talk")

        await first.close()

        await second.append(UserMessage(content="still here"))
        with pytest.raises(SessionClosedError):
            await first.append(UserMessage(content="gone"))


async def test_a_key_that_is_open_here_is_refused_at_once(tmp_path):
    """Nobody waits ten seconds for himself, and the refusal says who has it."""
    async with open_host(tmp_path, engines={}, slot="legacy") as host, host.session("talk"):
        with pytest.raises(SessionBusyError, match="this very host"):
            await host.session("talk")


async def test_closing_waits_for_the_engine_that_is_asked(tmp_path):
    """An honest engine that reads while the session closes is not barred for it."""
    asked, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def assemble(self: Any, messages: Any) -> Any:
        loop.call_soon_threadsafe(asked.set)
        await asyncio.to_thread(go_on.wait)
        return {"messages": list(messages)}

    async with open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host:
        session = await host.session("talk")
        await session.append(UserMessage(content="Hello"))
        asking = asyncio.ensure_future(session.assemble())
        await asked.wait()
        closing = asyncio.ensure_future(session.close())
        await asyncio.sleep(0)

        go_on.set()

        assert (await asking).engine == "recorder"
        await closing
        assert host.quarantines() == []


async def test_a_successor_transcript_is_refused_while_no_host_can_go_on_in_it(tmp_path):
    """Dropping it in silence would lose whatever the engine wrote there."""

    def compact(self: Any) -> CompactResult:
        made = Compaction(summary="short", session_id="another", session_file="/elsewhere.jsonl")
        return CompactResult(ok=True, compacted=True, result=made)

    async with (
        open_host(tmp_path, engines={"recorder": engine(compact=compact)}) as host,
        host.session("talk") as session,
    ):
        await fill(session)

        with pytest.raises(EngineFailedError, match="successor"):
            await session.compact()


async def test_an_engine_s_folder_is_there_and_private(tmp_path):
    """Authors need not know the mode that state has."""
    folders: list[Path] = []

    class Keeping(engine()):  # type: ignore[misc]
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            folders.append(context.state_dir)

    async with open_host(tmp_path, engines={"recorder": Keeping}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))
        await session.assemble()

    assert folders[0].stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("key", [pytest.param(5, id="a number"), pytest.param(" ", id="blank")])
async def test_what_is_no_session_key_is_refused_with_an_example(tmp_path, key):
    """Bad input is named where it comes in, not where it first hurts."""
    async with open_host(tmp_path, engines={}, slot="legacy") as host:
        with pytest.raises(ValueError, match="agent:main:main"):
            host.session(key)


async def test_what_is_no_message_is_refused_with_an_example(tmp_path):
    """The commonest mistake is a dict or a text."""
    async with open_host(tmp_path, engines={}, slot="legacy") as host, host.session("talk") as session:
        with pytest.raises(TypeError, match="UserMessage"):
            await session.append({"role": "user", "content": "Hello"})

        assert len(session.history) == 0


@pytest.mark.parametrize("budget", [0, -1, 1.5, "5", True])
async def test_what_is_no_budget_is_refused(tmp_path, budget):
    """Tokens are whole, and there is at least one."""
    async with open_host(tmp_path, engines={}, slot="legacy") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        with pytest.raises(ValueError, match="whole number of tokens"):
            await session.assemble(budget=budget)


async def test_a_host_that_closes_while_an_engine_is_built_disposes_it(tmp_path):
    """The factory may take its time; what it makes must not live on beside a closed host."""
    building, go_on, disposed = threading.Event(), threading.Event(), threading.Event()

    class Slow(engine(dispose=lambda self: disposed.set())):  # type: ignore[misc]
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            building.set()
            go_on.wait(10)

    async with open_host(tmp_path, engines={"recorder": Slow}) as host:
        session = await host.session("talk")
        await session.append(UserMessage(content="Hello"))
        asking = asyncio.ensure_future(session.assemble())
        await asyncio.to_thread(building.wait, 10)
        closing = asyncio.ensure_future(host.close())
        await asyncio.sleep(0)

        go_on.set()

        with pytest.raises(SessionClosedError):
            await asking
        await closing
    assert disposed.is_set()


async def test_a_background_job_that_is_no_coroutine_is_refused_with_an_example(tmp_path):
    """It is the engine's fault, and nothing is listed for ever."""

    def assemble(self: Any, messages: Any) -> Any:
        self.services.background("no coroutine", name="index")

    async with open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host:
        session = await host.session("talk")
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble()

        assert "takes a coroutine" in prompt.substitution
        assert host.background_jobs == ()


async def test_replacements_are_read_in_the_engine_s_lane(tmp_path):
    """A sequence of the engine's own runs its code when it is read."""
    readers: list[int] = []

    class Own(list):
        def __iter__(self):
            readers.append(threading.get_ident())
            return super().__iter__()

    async def maintain(self: Any, runtime_context: Any) -> Any:
        return await runtime_context.rewrite_transcript_entries(Own())

    async with open_host(tmp_path, engines={"recorder": engine(maintain=maintain)}) as host:
        session = await host.session("talk")
        await session.append(UserMessage(content="Hello"))
        await session.end_turn()

    assert readers
    assert threading.get_ident() not in readers
