"""A piece of work in a process of its own, which may end at any moment, and what it told until then."""

import contextlib
import gc
import io
import json
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any, Final, NoReturn

import attrs

from .points import Aim, Points, install, written_bytes

__all__ = ["Ended", "Teller", "run_in_child"]

_PATIENCE_SECONDS: Final = 120.0
_PIECE_BYTES: Final = 1 << 16

Work = Callable[["Teller"], None]


@attrs.frozen(kw_only=True)
class Ended:
    """
    What came of a process.

    Attributes:
        told: What it told, in order; each has a ``what``.
        killed: By SIGKILL, rather than at its end.
        fault: A traceback where the work raised, or why it was given up.
    """

    told: list[dict[str, Any]]
    killed: bool
    fault: str | None = None


@attrs.define(eq=False)
class Teller:
    """Tells the parent what the work is about to do and what it has done; a word is with it when this returns."""

    pipe: int
    points: Points
    _write: Callable[[int, bytes], int] = os.write
    _own: int = 0
    _base: int = 0

    def begin(self, operation: int, **facts: Any) -> None:
        """Say that an operation of this number is about to run."""
        self.points.begin(operation)
        self.say("begin", operation=operation, **facts)

    def done(self, **facts: Any) -> None:
        """Say that it has returned, and what changed the disk past the points, if anything."""
        self.points.finish()
        unseen, self.points.unseen = self.points.unseen, []
        total = written_bytes()
        past = 0 if total is None else total - self._base - self._own - self.points.counted
        if past:
            self._base += past
            unseen.append(f"{past} bytes were written past the points")
        self.say("done", operation=self.points.operation, points=len(self.points.calls), unseen=unseen, **facts)

    def say(self, what: str, **facts: Any) -> None:
        """Tell the parent anything else."""
        word = json.dumps({"what": what, **facts}).encode() + b"\n"
        while word:
            written = self._write(self.pipe, word)
            self._own += written
            word = word[written:]

    def start(self) -> None:
        """Count written bytes from here on."""
        self._base = (written_bytes() or 0) - self._own


def run_in_child(work: Work, *, aim: Aim | None = None, kill_after_seconds: float | None = None) -> Ended:
    """
    Fork, do *work* there until it is done or killed, and return what it told.

    Args:
        work: Given who tells.
        aim: Where in its work it kills itself.
        kill_after_seconds: When this process kills it.
    """
    mine, its = os.pipe()
    with warnings.catch_warnings():
        # A test before this one may have left a thread behind; the child uses nothing that a thread could hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        os.close(mine)
        _be_child(work, its, aim)
    os.close(its)
    try:
        told, fault = _listen(mine, child, kill_after_seconds)
    finally:
        os.close(mine)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    words = [json.loads(word) for word in told.split(b"\n")[:-1]]
    faults = [word["trace"] for word in words if word["what"] == "fault"]
    ended = bool(words) and words[-1]["what"] in {"end", "fault"}
    if fault is None and not ended and not os.WIFSIGNALED(status):
        fault = f"it ended with status {status} and without a word"
    return Ended(told=words, killed=not ended, fault=faults[0] if faults else fault)


def _be_child(work: Work, pipe: int, aim: Aim | None) -> NoReturn:
    try:
        gc.disable()
        sys.stdout = sys.stderr = io.StringIO()
        sys.dont_write_bytecode = True
        teller = Teller(pipe=pipe, points=Points(aim=aim))
        teller.points.last_words = lambda call, when: teller.say("kill", call=call, when=when)
        install(teller.points)
        try:
            teller.start()
            work(teller)
            teller.say("end")
        except BaseException:  # noqa: BLE001 -- what it is, the parent shall say
            teller.say("fault", trace=traceback.format_exc())
    finally:
        os._exit(0)


def _listen(pipe: int, child: int, kill_after_seconds: float | None) -> tuple[bytes, str | None]:
    """Return what the child wrote until it ended; kill it in time."""
    told = bytearray()
    end = time.monotonic() + (_PATIENCE_SECONDS if kill_after_seconds is None else kill_after_seconds)
    while True:
        left = end - time.monotonic()
        if not select.select([pipe], [], [], max(0.0, left))[0]:
            os.kill(child, signal.SIGKILL)
            if kill_after_seconds is None:
                return bytes(told), f"it was given up after {_PATIENCE_SECONDS:.0f} s"
            end = time.monotonic() + _PATIENCE_SECONDS
            continue
        piece = os.read(pipe, _PIECE_BYTES)
        if not piece:
            return bytes(told), None
        told += piece
