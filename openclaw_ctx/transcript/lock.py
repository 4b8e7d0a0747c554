"""
One writer a transcript.

The lock is the operating system's, on a file beside the transcript, so it dies
with its process. A ``<transcript>.lock`` of another program (JSON with the pid
and start time of its owner) is honoured while that owner lives.
"""

import contextlib
import json
import os
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import filelock

from openclaw_ctx.contract import JSON
from openclaw_ctx.errors import SessionBusyError

__all__ = ["WriterLock"]

_POLL_SECONDS: Final = 0.05
_MOST_BYTES: Final = 1 << 16
_START_TOLERANCE_SECONDS: Final = 2.0
# A lock file that names no owner may be one that is being written; its program takes it for stale after this.
_NAMELESS_SECONDS: Final = 1800.0
# Above the first a number is a time in seconds (later than 2001), above the second in milliseconds
# (than 1973); below both it is clock ticks since the machine started, as Linux counts them.
_EPOCH_SECONDS: Final = 1e9
_EPOCH_MILLISECONDS: Final = 1e11


class WriterLock:
    """Holds the right to write one transcript; not re-entrant, not shared within a process either."""

    def __init__(self, transcript: Path) -> None:
        self._transcript = transcript
        self._foreign = transcript.with_name(transcript.name + ".lock")
        self._lock = filelock.FileLock(
            transcript.with_name(transcript.name + ".writer"), mode=0o600, thread_local=False
        )

    def acquire(self, *, timeout_seconds: float = 0.0) -> None:
        """
        Take the lock, waiting at most *timeout_seconds*.

        Raises:
            SessionBusyError: Another writer has held it for all that time.
        """
        began = time.monotonic()
        while (holder := self._try()) is not None:
            waited = time.monotonic() - began
            if waited >= timeout_seconds:
                raise SessionBusyError(str(self._transcript), holder, round(waited, 1))
            time.sleep(min(_POLL_SECONDS, timeout_seconds - waited))

    def release(self) -> None:
        """Give the lock back; the file beside the transcript stays, since removing it would race."""
        self._lock.release()

    def is_held(self) -> bool:
        """Return whether somebody has it now; no file is made to find out."""
        if not Path(self._lock.lock_file).exists():
            return _foreign_owner(self._foreign) is not None
        if self._try() is not None:
            return True
        self.release()
        return False

    def _try(self) -> str | None:
        """Take the lock and return ``None``, or return who has it."""
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            return "another session or process"
        owner = _foreign_owner(self._foreign)
        if owner is not None:
            self._lock.release()
        return owner


def _foreign_owner(path: Path) -> str | None:
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            return None  # no lock either: reading a FIFO would wait for who writes into it
        age = time.time() - state.st_mtime
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError:
        return None  # no lock
    try:
        data = json.loads(content)
        pid = int(data["pid"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return f"the owner of {path.name!r}, who is not named there," if age < _NAMELESS_SECONDS else None
    import psutil  # noqa: PLC0415 -- a foreign lock is rare, and else no opening need pay for it

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        created = process.create_time()
    except psutil.AccessDenied:
        return f"process {pid}"  # alive, and somebody else's
    except (psutil.Error, ValueError, OverflowError):
        return None  # its owner is gone
    return None if _is_another(created, data) else f"process {pid}"


def _is_another(created: float, lock: JSON) -> bool:
    """Return whether a process that began at *created* cannot have written *lock*: its pid was used again."""
    started = lock.get("starttime")
    if isinstance(started, int | float) and started > 0:
        if started <= _EPOCH_SECONDS:
            if not hasattr(os, "sysconf"):
                return False
            import psutil  # noqa: PLC0415 -- as above

            began = psutil.boot_time() + started / os.sysconf("SC_CLK_TCK")
        else:
            began = started / 1000 if started > _EPOCH_MILLISECONDS else started
        return abs(began - created) > _START_TOLERANCE_SECONDS
    with contextlib.suppress(TypeError, ValueError):
        written = datetime.fromisoformat(lock.get("createdAt"))
        written = written if written.tzinfo else written.replace(tzinfo=UTC)
        return written.timestamp() + _START_TOLERANCE_SECONDS < created
    return False
