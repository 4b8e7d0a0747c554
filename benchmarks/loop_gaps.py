"""How long a compaction keeps the event loop from everything else."""

import asyncio
import contextlib
import gc
import itertools
import json
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from openclaw_ctx import Host, Opening, Registry
from openclaw_ctx.models import ScriptedModel

from .history import as_langchain, conversation
from .langgraph_turns import fake_model, summarising
from .measure import NOT_INSTALLED, Row, import_peer, in_a_process
from .own_time import LINE_BYTES
from .sessions_on_disk import SessionFile, session_path

__all__ = ["compaction_gaps", "measure_ours", "measure_theirs", "watched"]

LONGEST_MS = 20.0
_TICK_SECONDS = 0.001
_IDLE_SECONDS = 0.25
_KEPT = 20  # messages, by the peer's defaults
_SUMMARIES: Final = {"model": "scripted model", "extractive": "extractive"}
_STATES: Final = ("cold", "warm")
_SUMMARY = "## Goal\n\nThey search.\n\n## Progress\n\n" + "- They found it, and went on.\n" * 40
_PEER = "LangChain SummarizationMiddleware, abefore_model"


@attrs.frozen(kw_only=True)
class _Gap:
    """The longest time that the loop let a task wait, and how long the work took that it was busy with."""

    longest_ms: float
    work_ms: float


async def compaction_gaps(folder: Path, *, messages: int, rounds: int) -> AsyncIterator[Row]:
    """Yield the longest gap of the loop while so many messages are compacted, each round in a new process."""
    ours: dict[tuple[str, str], list[_Gap]] = {}
    theirs: list[_Gap] = []
    idle: list[float] = []
    for number in range(rounds):
        for summary in _SUMMARIES:
            place = folder / f"{summary}-{number}"
            for state in _STATES:
                shape = SessionFile(messages=messages, size=messages * LINE_BYTES)
                shape.write(await session_path(place, state))
            said = in_a_process("loop_gaps", "measure_ours", str(place), summary)
            idle.append(said.pop("idle")["longest_ms"])
            for state, gap in said.items():
                ours.setdefault((summary, state), []).append(_Gap(**gap))
            shutil.rmtree(place)
        if _peer_is_installed():
            theirs.extend(_Gap(**gap) for gap in in_a_process("loop_gaps", "measure_theirs", str(messages)).values())
    work = f"longest gap of the event loop, compacting {messages:,} messages"
    for (summary, state), gaps in ours.items():
        yield Row(
            work=f"{work}, {_SUMMARIES[summary]}, {state}",
            ours_ms=max(gap.longest_ms for gap in gaps),
            peer=f"{LONGEST_MS:g} ms",
            peer_ms=LONGEST_MS,
            target=1,
            note=f"{_said_of(gaps)}; an idle loop: {max(idle):.1f} ms",
        )
    yield Row(
        work=work,
        ours_ms=max(gap.longest_ms for gaps in ours.values() for gap in gaps),
        peer=_PEER,
        peer_ms=max((gap.longest_ms for gap in theirs), default=None),
        note=_said_of(theirs) if theirs else NOT_INSTALLED,
    )


def _peer_is_installed() -> bool:
    return import_peer("langchain.agents.middleware") is not None


def _said_of(gaps: Sequence[_Gap]) -> str:
    middle = statistics.median(gap.longest_ms for gap in gaps)
    work = statistics.median(gap.work_ms for gap in gaps)
    return f"the longest of {len(gaps)} rounds, their median {middle:.1f} ms; all the work {work:.0f} ms"


# -- in the process -------------------------------------------------------------------------------


def measure_ours(folder: str, summary: str) -> None:
    """Print the gaps of the compactions of both sessions in *folder*, and of an idle loop, as JSON."""
    print(json.dumps(asyncio.run(_ours(Path(folder), summary))))


def measure_theirs(messages: str) -> None:
    """Print the gap of the peer's compaction of so many messages, as JSON."""
    print(json.dumps(asyncio.run(_theirs(int(messages)))))


async def _ours(folder: Path, summary: str) -> dict[str, Any]:
    gaps = {}
    async with _host(folder, summary) as host:
        for state in _STATES:
            session = await host.session(state)
            if state == "warm":
                await session.assemble()
                assert all(session.history)  # noqa: S101 -- every message is read

            async def compact(session: Any = session) -> None:
                made = await session.compact()
                assert made.result.compacted, made.result.reason  # noqa: S101 -- else it shows nothing

            gaps[state] = await watched(compact)
    gaps["idle"] = await watched(lambda: asyncio.sleep(_IDLE_SECONDS))
    return {name: attrs.asdict(gap) for name, gap in gaps.items()}


def _host(folder: Path, summary: str) -> Opening[Host]:
    model = ScriptedModel(itertools.repeat(_SUMMARY)) if summary == "model" else None
    return Host.open({}, state_dir=folder, registry=Registry(), engine_path=(), model=model)


async def _theirs(number: int) -> dict[str, Any]:
    model, messages = fake_model(), import_peer("langchain_core.messages")
    assert messages is not None  # noqa: S101 -- who is not installed is not asked
    said = [as_langchain(messages, it) for it in itertools.islice(conversation(), number)]
    middleware = summarising(model, trigger=("messages", _KEPT + 1))

    async def compact() -> None:
        changed = await middleware.abefore_model({"messages": said}, None)
        assert changed, "nothing was summarised"  # noqa: S101 -- else it shows nothing

    return {"first": attrs.asdict(await watched(compact))}


async def watched(work: Callable[[], Awaitable[None]]) -> _Gap:
    """Do *work* while a task asks to be woken each millisecond, and return by how much it was late at worst."""
    late = [0.0]

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(_TICK_SECONDS)
            late.append(time.perf_counter() - before - _TICK_SECONDS)

    ticking = asyncio.ensure_future(tick())
    await asyncio.sleep(5 * _TICK_SECONDS)
    # As before every sample: a collection by Python is a gap too, but belongs to whoever has filled the heap.
    gc.collect()
    await asyncio.sleep(_TICK_SECONDS)
    late[:] = [0.0]
    began = time.perf_counter()
    await work()
    seconds = time.perf_counter() - began
    await asyncio.sleep(5 * _TICK_SECONDS)  # a gap at its very end is seen when the loop wakes again
    ticking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await ticking
    return _Gap(longest_ms=max(late) * 1_000, work_ms=seconds * 1_000)
