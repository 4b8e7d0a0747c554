"""
Every call by which this process changes the disk, and an end at one of them.

:func:`install` takes hold of the calls in :mod:`os` and of files that are opened
for writing; it is for a process that was forked for it, since it lets go of none.
What writes past them is noticed: the kernel counts the bytes that a process
writes, and Python announces every file that it opens, moves or removes.
"""

import builtins
import io
import os
import random
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal

import attrs

__all__ = ["Aim", "Points", "install", "written_bytes"]

When = Literal["before", "middle", "after"]

# What is done by the call, and not in parts. ``fsync`` changes nothing that a SIGKILL could show, but a program that
# stops there has written and not renamed yet.
_WHOLE: Final = (
    "copy_file_range",
    "fdatasync",
    "fsync",
    "ftruncate",
    "link",
    "mkdir",
    "posix_fallocate",
    "pwritev",
    "remove",
    "rename",
    "replace",
    "rmdir",
    "sendfile",
    "symlink",
    "truncate",
    "unlink",
    "writev",
)
_IN_PARTS: Final = ("pwrite", "write")
_WRITERS: Final = frozenset({"copy_file_range", "pwrite", "pwritev", "sendfile", "write", "writev"})
_SYNCS: Final = frozenset({"fdatasync", "fsync"})
_MAKING: Final = os.O_CREAT | os.O_TRUNC
_ANNOUNCED: Final = frozenset(
    {
        "mmap.__new__",
        "os.exec",
        "os.fork",
        "os.link",
        "os.mkdir",
        "os.posix_spawn",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.symlink",
        "os.truncate",
        "sqlite3.connect",
        "subprocess.Popen",
    }
)
_IO_COUNTERS: Final = Path("/proc/self/io")
# The end is reached by a real signal, so that no ``finally`` and no exit handler runs.
_TIMES: Final[tuple[When, ...]] = ("before", "middle", "middle", "after")


@attrs.frozen(kw_only=True)
class Aim:
    """
    Where a process shall end.

    Attributes:
        operation: In which of its operations.
        point: At which call of that operation; where it has fewer, at the operation's end.
        seed: Decides whether before, in the middle of or after the call, and how much of it is written.
    """

    operation: int
    point: int
    seed: int


@attrs.define(eq=False)
class Points:
    """
    Counts the calls that change the disk, operation by operation.

    Attributes:
        aim: Where to end; ``None``: nowhere.
        calls: The names of those of the operation that runs.
        counted: Bytes that went through them.
        unseen: Changes that went past them, each with the line that did it.
        last_words: Told where and how it ends, before it does.
    """

    aim: Aim | None = None
    last_words: Callable[[str, When], None] = lambda _call, _when: None
    operation: int = -1
    calls: list[str] = attrs.field(factory=list)
    counted: int = 0
    unseen: list[str] = attrs.field(factory=list)
    _inside: int = 0

    def begin(self, operation: int) -> None:
        """Count from here on for the operation of this number."""
        self.operation, self.calls = operation, []

    def finish(self) -> None:
        """End here where the operation had fewer calls than the aim is at."""
        if self.aim is not None and self.operation == self.aim.operation and len(self.calls) <= self.aim.point:
            self._die("return", "before")

    def make(self, name: str, call: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Make a call that changes the disk, or end at it."""
        if self._inside:
            return call(*arguments, **named)
        hit = self.aim is not None and self.operation == self.aim.operation and len(self.calls) == self.aim.point
        self.calls.append(name)
        when = self._end_in(name, call, arguments) if hit else None
        self._inside += 1
        try:
            # A SIGKILL cannot tell whether the disk has what the kernel has, and waiting for it takes hours.
            result = None if name in _SYNCS else call(*arguments, **named)
        finally:
            self._inside -= 1
            if when is not None:
                self._die(name, when)
        if name in _WRITERS:
            self.counted += result
        return result

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take note of a change that went past :meth:`make`."""
        if self._inside or self.operation < 0:
            return
        if event in _ANNOUNCED or (event == "open" and isinstance(arguments[2], int) and arguments[2] & _MAKING):
            self.unseen.append(f"{event}{arguments[:2]!r} at {_place(sys._getframe(1))}")

    def _end_in(self, name: str, call: Callable[..., Any], arguments: tuple[Any, ...]) -> When:
        """End before or in the middle of a call; or return that it is to be after it."""
        assert self.aim is not None
        draw = random.Random(self.aim.seed)  # noqa: S311 -- to be drawn again
        when = draw.choice(_TIMES)
        if when == "middle" and (name not in _IN_PARTS or len(arguments[1]) < 2):
            when = draw.choice(("before", "after"))
        if when == "middle":
            data = bytes(arguments[1])
            call(arguments[0], data[: _cut(data, draw)], *arguments[2:])
        if when != "after":
            self._die(name, when)
        return when

    def _die(self, name: str, when: When) -> None:
        self.last_words(name, when)
        os.kill(os.getpid(), signal.SIGKILL)


def install(points: Points) -> None:
    """Send every call that changes the disk through *points*, for the rest of this process."""
    instead: dict[Any, Any] = {}
    for name in (*_WHOLE, *_IN_PARTS):
        if (real := getattr(os, name, None)) is not None:
            instead[real] = _sent_through(points, name, real)
    instead[os.open] = _opening(points, os.open)
    instead[io.FileIO] = _file_class(points)
    instead[io.open] = _open_function(instead[io.FileIO])
    # A module that has taken ``os.write`` under a name of its own is told, too.
    for module in [builtins, io, os, *(module for name, module in sys.modules.items() if _is_ours(name))]:
        for name, value in list(vars(module).items()):
            if callable(value) and _is_known(value, instead):
                setattr(module, name, instead[value])
    sys.addaudithook(points.watch)


def written_bytes() -> int | None:
    """Return how many bytes this process has written, as the kernel counts them; ``None`` where it doesn't say."""
    try:
        lines = _IO_COUNTERS.read_bytes().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(b"wchar:")), None)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in {"filelock", "openclaw_ctx", "pathlib", "shutil", "tempfile"}


def _is_known(value: Any, instead: Mapping[Any, Any]) -> bool:
    try:
        return value in instead
    except TypeError:  # not hashable
        return False


def _sent_through(points: Points, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        return points.make(name, real, arguments, named)

    return call


def _opening(points: Points, real: Callable[..., int]) -> Callable[..., int]:
    """Return ``os.open``, which changes the disk where it makes a file or empties one."""

    def call(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if not flags & _MAKING or (flags & _MAKING == os.O_CREAT and os.path.lexists(path)):
            points._inside += 1
            try:
                return real(path, flags, *arguments, **named)
            finally:
                points._inside -= 1
        opened: int = points.make("open", real, (path, flags, *arguments), named)
        return opened

    return call


def _file_class(points: Points) -> type[io.FileIO]:
    class CountedFile(io.FileIO):
        """A file that writes by ``os.write``, where each write is counted."""

        def __init__(self, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None) -> None:  # noqa: FBT001, FBT002 -- as FileIO has it
            if isinstance(file, int) or set(mode).isdisjoint("wax"):
                super().__init__(file, mode, closefd, opener)
            else:
                points.make("open", super().__init__, (file, mode, closefd, opener), {})

        def write(self, data: Any) -> int:
            return os.write(self.fileno(), data)

        def truncate(self, size: int | None = None) -> int:
            size = self.tell() if size is None else size
            os.ftruncate(self.fileno(), size)
            return size

    return CountedFile


def _open_function(file_class: type[io.FileIO]) -> Callable[..., Any]:
    real = io.open

    def opened(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,  # noqa: FBT001, FBT002 -- as open has it
        opener: Any = None,
    ) -> Any:
        if set(mode).isdisjoint("wax+"):
            return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = file_class(file, "".join(sorted(set(mode) - set("bt"))), closefd, opener)
        if not buffering:
            return raw
        binary = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding, errors, newline)

    return opened


def _cut(data: bytes, draw: random.Random) -> int:
    """Return how much of *data* is written: often up to a line's end, or one byte less, where it hurts most."""
    ends = [found.end() for found in re.finditer(b"\n", data[:-1])]
    if ends and draw.random() < 2 / 3:
        return max(1, draw.choice(ends) - draw.randrange(2))
    return draw.choice((1, len(data) - 1, draw.randrange(1, len(data))))


def _place(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
