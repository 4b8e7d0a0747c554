"""
Timing two or more sides in turn, and the row that comes of it.

Machines drift: another program starts, a core slows down. So the sides are never
measured one after the other; each round takes a sample of every side, and what
counts is the ratio of their medians.
"""

import contextlib
import gc
import importlib
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import psutil

import openclaw_ctx

__all__ = [
    "NOT_INSTALLED",
    "Options",
    "Row",
    "Sample",
    "allowed_cores",
    "as_table",
    "conditions",
    "file_system",
    "import_peer",
    "in_a_process",
    "in_memory",
    "in_turn",
    "on_cores",
    "seconds_each",
]

NOT_INSTALLED = "not installed: pip install -r benchmarks/requirements.txt"
PEERS = (
    "aura-context-engine",
    "langchain",
    "langchain-core",
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "llama-index-core",
    "numpy",
    "onnxruntime",
    "openai-agents",
    "pluggy",
    "attrs",
    "msgspec",
)

Sample = Callable[[], Awaitable[float]]
"""Does the work once or many times, and answers the seconds that one took."""

_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})


@attrs.frozen(kw_only=True)
class Options:
    """Where stores may be written, and whether the sizes are tiny. The folder goes when the run ends."""

    folder: Path
    quick: bool = False
    cores: Collection[int] = ()
    """Those that the process may use beyond the one that it is held on; none where it is held on none."""


@attrs.frozen(kw_only=True)
class Row:
    """
    One work, done by us and by a peer.

    Attributes:
        ours_ms: Milliseconds, median; ``None`` where it could not be measured.
        peer: What we are held against.
        peer_ms: The peer's, from the same rounds; ``None`` where it is not installed.
        target: The largest ratio that will do; ``None`` for a row that only informs.
        judged: Whether the sizes are those of the target.
        note: What one has to know to read the row.
    """

    work: str
    ours_ms: float | None
    peer: str
    peer_ms: float | None
    target: float | None = None
    judged: bool = True
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Our time as a part of the peer's: below 1 we are faster."""
        return self.ours_ms / self.peer_ms if self.ours_ms is not None and self.peer_ms else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; ``None`` where nobody can tell."""
        if self.ratio is None or self.target is None or not self.judged:
            return None
        return self.ratio <= self.target

    def as_json(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return {
            "work": self.work,
            "ours_ms": self.ours_ms,
            "peer": self.peer,
            "peer_ms": self.peer_ms,
            "ratio": self.ratio,
            "target": self.target,
            "met": self.met,
            "note": self.note,
        }


async def in_turn(sides: Mapping[str, Sample], *, rounds: int) -> dict[str, float]:
    """
    Return the median milliseconds of each side.

    One sample of every side a round, after a round that only warms up, with the
    garbage collected before each; every other round goes backwards, so that no
    side always follows the same one.
    """
    samples: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for number in range(rounds + 1):
        for name in order if number % 2 else reversed(order):
            gc.collect()
            seconds = await sides[name]()
            if number:
                samples[name].append(seconds * 1_000)
    return {name: statistics.median(values) for name, values in samples.items()}


def allowed_cores() -> Collection[int]:
    """Return the cores that this process may use; none where the system does not tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()


@contextlib.contextmanager
def on_cores(cores: Collection[int]) -> Iterator[None]:
    """Keep this thread, and the threads and processes that it begins, on *cores*; without any, do nothing."""
    before = allowed_cores()
    if not cores or not before:
        yield
        return
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def seconds_each(began: float, times: int = 1) -> float:
    """Return what each of *times* took since *began*, by ``time.perf_counter``."""
    return (time.perf_counter() - began) / times


def import_peer(module: str) -> Any | None:
    """Return a peer's module, or ``None`` where it is not installed. One that is there but broken raises."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        return None


def in_a_process(module: str, function: str, *arguments: str) -> dict[str, Any]:
    """Return what a function of a module of this folder prints as JSON, in a new process."""
    script = f"import sys; from benchmarks.{module} import {function}; {function}(*sys.argv[1:])"
    places = (Path(openclaw_ctx.__file__).parent.parent, Path(__file__).resolve().parent.parent)
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    said: dict[str, Any] = json.loads(ended.stdout)
    return said


def file_system(folder: Path) -> str:
    """Return the type of the file system that *folder* is on, such as ``ext4``."""
    resolved = folder.resolve()
    mounts = [mount for mount in psutil.disk_partitions(all=True) if resolved.is_relative_to(mount.mountpoint)]
    # Of several mounts at one point, the last one is on top.
    found = max(enumerate(mounts), key=lambda it: (len(it[1].mountpoint), it[0]), default=None)
    return found[1].fstype if found is not None and found[1].fstype else "unknown"


def in_memory(folder: Path) -> bool:
    """Whether *folder* is on no disk at all, so that a store in it shows nothing."""
    return file_system(folder) in _IN_MEMORY


def conditions() -> dict[str, Any]:
    """Return what the numbers depend on."""
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
        "held_on": sorted(allowed_cores()),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "peers": {name: _version(name) for name in PEERS},
    }


def as_table(rows: Sequence[Row]) -> str:
    """Return *rows* as text in columns, each note below its row."""
    heads = ("WORK", "OURS MS", "PEER", "PEER MS", "RATIO", "TARGET", "MET")
    cells = [heads, *map(_cells, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    left = {0, 2}
    lines: list[str] = []
    for index, row in enumerate(cells):
        texts = [f"{t:<{w}}" if i in left else f"{t:>{w}}" for i, (t, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(texts).rstrip())
        if index and rows[index - 1].note:
            lines.append(f"    {rows[index - 1].note}")
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    met = {None: "-", True: "yes", False: "NO"}[row.met]
    target = "-" if row.target is None else f"<= {row.target:g}"
    return (row.work, _number(row.ours_ms), row.peer, _number(row.peer_ms), _number(row.ratio), target, met)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"  # noqa: PLR2004 -- three digits


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return NOT_INSTALLED
