"""What makes a whole new file of a session: a rotation, and a fork."""

import contextlib
import itertools
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

from openclaw_ctx.contract import SessionKey
from openclaw_ctx.transcript import FileStore

from .measure import Row, Sample, in_turn, seconds_each
from .sessions_on_disk import SessionFile

__all__ = ["rotation_and_fork"]

_KEY = SessionKey("conversation")
_LINE_BYTES = 600


async def rotation_and_fork(folder: Path, *, messages: int, rounds: int) -> AsyncIterator[Row]:
    """Yield what a rotation and a fork take of a session of so many messages that was compacted halfway."""
    shape = SessionFile(messages=messages, size=messages * _LINE_BYTES, after_compaction=messages // 2)
    store = FileStore(folder / "forked")
    forked = _written(store, shape)
    names = map(str, itertools.count())

    async def fork() -> float:
        began = time.perf_counter()
        made = store.fork(_KEY, SessionKey(next(names)))
        seconds = seconds_each(began)
        assert made.messages == messages  # noqa: S101 -- else it would be fast for nothing
        return seconds

    async def copy() -> float:
        target = forked.with_name(f"{next(names)}.copy")
        began = time.perf_counter()
        shutil.copyfile(forked, target)
        with target.open("rb+") as file:
            os.fsync(file.fileno())
        return seconds_each(began)

    took = await in_turn({"rotate": _rotating(folder, shape), "fork": fork, "copy": copy}, rounds=rounds)
    for name in ("rotate", "fork"):
        yield Row(
            work=f"{name} a session of {messages:,} messages, compacted halfway, to the disk",
            ours_ms=took[name],
            peer="its file copied, to the disk",
            peer_ms=took["copy"],
        )


def _rotating(folder: Path, shape: SessionFile) -> Sample:
    numbers = itertools.count()

    async def sample() -> float:
        store = FileStore(folder / f"rotated-{next(numbers)}")
        _written(store, shape)
        with contextlib.closing(store.open(_KEY)) as transcript:
            began = time.perf_counter()
            rotation = store.rotate(transcript)
            seconds = seconds_each(began)
            assert rotation.rotated, rotation.reason  # noqa: S101 -- else it would be fast for nothing
        shutil.rmtree(store.folder)
        return seconds

    return sample


def _written(store: FileStore, shape: SessionFile) -> Path:
    with contextlib.closing(store.open(_KEY)) as transcript:
        path = transcript.path
    shape.write(path)
    return path
