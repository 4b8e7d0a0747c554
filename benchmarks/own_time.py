"""The host's own time in a turn, when the model takes none."""

import contextlib
import itertools
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import attrs

from openclaw_ctx import Host, Opening, Registry, Session
from openclaw_ctx.models import ScriptedModel

from .history import conversation
from .langgraph_turns import PEER, langgraph_turns
from .measure import NOT_INSTALLED, Row, Sample, in_turn
from .sessions_on_disk import SessionFile, session_path
from .window_engine import window_host

__all__ = ["LINE_BYTES", "own_time"]

LINE_BYTES = 600
_WINDOW = 32_000
_LARGE_WINDOW = 200_000
_ALL = 100_000_000  # tokens: every message is in every prompt


@attrs.frozen(kw_only=True)
class _Way:
    """One way to run turns; *window* in tokens, *engine* empty for none."""

    size: int
    window: int = _WINDOW
    engine: bool = True
    durable: bool = False


async def own_time(folder: Path, *, short: int, middle: int, long: int, rounds: int, turns: int) -> AsyncIterator[Row]:
    """Yield what a turn takes behind *middle* messages, beside LangGraph's; and behind *long*, beside *short*."""
    ways = {
        "ours": _Way(size=middle),
        "durable": _Way(size=middle, durable=True),
        "large": _Way(size=middle, window=_LARGE_WINDOW),
        "all": _Way(size=middle, window=_ALL, engine=False),
    }
    growing = {"short": _Way(size=short), "middle": _Way(size=middle), "long": _Way(size=long)}
    with langgraph_turns(folder, middle) as theirs:
        took = await _in_turn(folder / "turns", ways, theirs, rounds=rounds, turns=turns)
    growth = await _in_turn(folder / "growing", growing, {}, rounds=rounds, turns=turns)
    note = "" if theirs else NOT_INSTALLED
    work, behind = "the host's own time in a turn", f"behind {middle:,} messages, window engine"
    peer, at_exit = took.get("peer"), f"{PEER}, durability exit"
    yield Row(work=f"{work} {behind}", ours_ms=took["ours"], peer=PEER, peer_ms=peer, target=1 / 50, note=note)
    for name, this, their, their_ms in (
        ("ours", behind, at_exit, took.get("exit")),
        ("durable", f"{behind}, each append to the disk", PEER, peer),
        ("large", f"{behind}, a model of {_LARGE_WINDOW:,} tokens", PEER, peer),
        ("all", f"behind {middle:,} messages, no engine, all of them in the prompt", PEER, peer),
    ):
        yield Row(work=f"{work} {this}", ours_ms=took[name], peer=their, peer_ms=their_ms, note=note)
    own = f"ours behind {short:,}"
    for name, size, target in (("middle", middle, None), ("long", long, 2)):
        this = f"behind {size:,} messages, window engine"
        yield Row(work=f"{work} {this}", ours_ms=growth[name], peer=own, peer_ms=growth["short"], target=target)


async def _in_turn(
    folder: Path, ways: dict[str, _Way], theirs: dict[str, Sample], *, rounds: int, turns: int
) -> dict[str, float]:
    sides: dict[str, Sample] = {}
    async with contextlib.AsyncExitStack() as stack:
        for name, way in ways.items():
            path = await session_path(folder / name, name)
            SessionFile(messages=way.size, size=way.size * LINE_BYTES).write(path)
            model = ScriptedModel(_texts())
            host = await stack.enter_async_context(_host(folder / name, way, model))
            sides[name] = _turns(await host.session(name), model, turns)
        return await in_turn(sides | theirs, rounds=rounds)


def _host(folder: Path, way: _Way, model: ScriptedModel) -> Opening[Host]:
    if way.engine:
        return window_host(folder, durable=way.durable, model=model, context_window=way.window)
    return Host.open({}, state_dir=folder, registry=Registry(), engine_path=(), model=model, context_window=way.window)


def _turns(session: Session, model: ScriptedModel, turns: int) -> Sample:
    texts = _texts()

    async def sample() -> float:
        took = []
        for text in itertools.islice(texts, turns):
            began = time.perf_counter()
            answered = await session.run(text)
            await session.settle()
            took.append(time.perf_counter() - began)
            assert not answered.compactions, answered  # noqa: S101 -- else the row would be about something else
            assert answered.substitution is None, answered.substitution  # noqa: S101 -- the same
        model.requests.clear()  # which it keeps for tests
        return statistics.median(took)

    return sample


def _texts() -> Iterator[str]:
    return (said.text for said in conversation())
