"""What has to be measured in a process of its own: the memory of an index, and the loop while one is made."""

import asyncio
import gc
import importlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from .loop_gaps import watched
from .rag_sides import BUDGET, KEY, Questions, embedded, fake_embedder, rag_host
from .recalling import tree_engine

__all__ = ["measure_gaps", "measure_memory"]

_SEARCHES = 5
_ASK_SECONDS = 0.1


def measure_memory(path: str) -> None:
    """Print the megabytes that this process has after some searches in an index, and at its peak; ``null``: unknown."""
    tree_engine("rag")
    numpy: Any = importlib.import_module("numpy")
    sqlite_index: Any = importlib.import_module("openclaw_ctx_rag.sqlite_index")
    index = sqlite_index.SqliteIndex.open(Path(path))
    questions, vector = Questions(), numpy.full(384, 384**-0.5, numpy.float32)
    for _ in range(_SEARCHES):
        index.search(next(questions), vector=vector)
    print(json.dumps({"now": _status("VmRSS"), "peak": _status("VmHWM"), "messages": len(index)}))


def _status(name: str) -> float | None:
    status = Path("/proc/self/status")
    for line in status.read_text(encoding="ascii").splitlines() if status.exists() else ():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1_024 / 1_000_000
    return None


def measure_gaps(folder: str, embedder: str, heap: str = "frozen") -> None:
    """
    Print the longest gap of the loop while the session in *folder* is indexed and embedded, and prompts are made.

    A full collection of garbage by Python stops the loop too, and takes as long as the process has objects. What
    was there before is left out of it where *heap* is ``frozen``.
    """
    print(json.dumps(asyncio.run(_gaps(Path(folder), embedder, heap))))


async def _gaps(folder: Path, embedder: str, heap: str) -> dict[str, Any]:
    if embedder != "local":
        fake_embedder()
    prompts: list[float] = []
    questions = Questions()
    next(questions)  # so that making up words is no gap
    async with rag_host(folder, embedder=embedder) as host:
        session = await host.session(KEY)

        async def work() -> None:
            asking = asyncio.ensure_future(_ask(session, questions, prompts))
            await embedded(host, session)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

        if heap == "frozen":
            gc.collect()
            gc.freeze()
        gap = await watched(work)
        idle = await watched(lambda: asyncio.sleep(0.25))
    return {"work": attrs.asdict(gap), "idle": attrs.asdict(idle), "longest_prompt_ms": max(prompts, default=None)}


async def _ask(session: Any, questions: Questions, prompts: list[float]) -> None:
    while True:
        await asyncio.sleep(_ASK_SECONDS)
        began = time.perf_counter()
        await session.assemble(budget=BUDGET, prompt=next(questions))
        prompts.append((time.perf_counter() - began) * 1_000)


def longest_of(rounds: Sequence[dict[str, Any]]) -> float:
    """Return the longest gap of all *rounds*."""
    return max(float(said["work"]["longest_ms"]) for said in rounds)
