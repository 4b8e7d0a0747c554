"""What the newest tokens of a large session cost, in time and in memory, when nothing has been read yet."""

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import msgspec

import openclaw_ctx
from openclaw_ctx import Transcript
from openclaw_ctx.tokens import TokenCounter

from .history import as_message, conversation
from .measure import Row, in_turn, seconds_each
from .sessions_on_disk import SessionFile, write_transcript

__all__ = ["INSTANT_MS", "newest_of_large", "read_newest"]

ROOT = Path(__file__).resolve().parent.parent
INSTANT_MS = 50.0
BUDGET = 8_000
_TAIL_LINES = 1_000
_MEGABYTE = 1_000_000


async def newest_of_large(folder: Path, compacted: SessionFile, *, rounds: int) -> AsyncIterator[Row]:
    """Yield the rows of a file that was compacted near its end, and of the same that never was."""
    instant = f"{INSTANT_MS:g} ms"
    for how, shape, target in (
        ("compacted near its end", compacted, 1),
        # Where everything is context, everything has to be looked at once.
        ("never compacted", attrs.evolve(compacted, after_compaction=None), None),
    ):
        large = _Large(folder / "large.jsonl", shape)
        took = await in_turn(
            {"open": large.open_and_read, "read": large.read, "append": large.append_first, "peer": large.decode_all},
            rounds=rounds,
        )
        work = f"the newest {BUDGET:,} tokens of {large.megabytes:.0f} MB, {how}"
        opened, note = f"{work}, opened for it", large.memory()
        peer, peer_ms = "all lines decoded by msgspec, the last of them kept", took["peer"]
        append = f"the first append to it, {how}, once it is open"
        yield Row(work=f"{work}, once it is open", ours_ms=took["read"], peer=instant, peer_ms=INSTANT_MS, target=1)
        yield Row(work=opened, ours_ms=took["open"], peer=instant, peer_ms=INSTANT_MS, target=target, note=note)
        yield Row(work=opened, ours_ms=took["open"], peer=peer, peer_ms=peer_ms)
        yield Row(work=append, ours_ms=took["append"], peer=peer, peer_ms=peer_ms)
        large.remove()


def read_newest(transcript: Transcript) -> int:
    """Read back from the end until the tokens are enough; return how many they are."""
    count, tokens = TokenCounter(), 0
    for message in reversed(transcript.history):
        tokens += count(message)
        if tokens >= BUDGET:
            break
    return tokens


class _Large:
    """A large file, and ways to what is at its end."""

    def __init__(self, path: Path, shape: SessionFile) -> None:
        self._path = path
        self._shape = shape
        shape.write(path)
        self._size = path.stat().st_size

    @property
    def megabytes(self) -> float:
        return self._size / _MEGABYTE

    async def open_and_read(self) -> float:
        began = time.perf_counter()
        transcript = Transcript.open(self._path)
        tokens = read_newest(transcript)
        seconds = seconds_each(began)
        assert tokens >= BUDGET  # noqa: S101 -- else it would be fast for nothing
        assert len(transcript.history) == self._shape.in_context  # noqa: S101 -- the same
        transcript.close()
        return seconds

    async def read(self) -> float:
        transcript = Transcript.open(self._path)
        began = time.perf_counter()
        read_newest(transcript)
        seconds = seconds_each(began)
        transcript.close()
        return seconds

    async def append_first(self) -> float:
        message = as_message(next(conversation()))
        transcript = Transcript.open(self._path)
        began = time.perf_counter()
        transcript.append(message)
        seconds = seconds_each(began)
        transcript.close()
        os.truncate(self._path, self._size)  # every round finds the same file
        return seconds

    async def decode_all(self) -> float:
        decode = msgspec.json.Decoder().decode
        began = time.perf_counter()
        with self._path.open("rb") as file:
            tail = deque(map(decode, file), maxlen=_TAIL_LINES)
        seconds = seconds_each(began)
        assert len(tail) > 1  # noqa: S101 -- else it would be fast for nothing
        return seconds

    def memory(self) -> str:
        """Return what opening and reading adds to a process, beyond what it adds where the file is small."""
        small = self._path.with_name("small.jsonl")
        write_transcript(small, number=8)
        peak, before = _peak_megabytes(self._path), _peak_megabytes(small)
        if peak is None or before is None:
            return "memory: this system does not tell"
        bound = 3 * self._shape.longest / _MEGABYTE
        more = f"{peak - before:.1f} MB more than for a small file"
        return f"memory at its peak: {more}; 3 x the longest line is {bound:.1f} MB"

    def remove(self) -> None:
        self._path.unlink()


# Linux's own figure, since getrusage's begins with the size of the process that began this one.
_SAY_PEAK = """
import sys
from pathlib import Path
from benchmarks.newest import read_newest
from openclaw_ctx import Transcript
read_newest(Transcript.open(Path(sys.argv[1])))
status = Path("/proc/self/status")
for line in status.read_text().splitlines() if status.exists() else ():
    if line.startswith("VmHWM:"):
        print(line.split()[1])
"""


def _peak_megabytes(path: Path) -> float | None:
    """Return the most memory that a process has had which opens *path* and reads its end; ``None``: no telling."""
    places = (Path(openclaw_ctx.__file__).parent.parent, ROOT)
    ended = subprocess.run(
        [sys.executable, "-c", _SAY_PEAK, str(path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))},
        cwd=path.parent,
        check=True,
        capture_output=True,
        text=True,
    )
    return int(ended.stdout) * 1_024 / _MEGABYTE if ended.stdout.strip() else None
