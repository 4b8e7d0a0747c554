"""
Quarantine records on disk: one small file for each engine and whoever barred it.

A row is believed while the process that wrote it lives. Its start time is kept
beside its pid, so that a reused pid is not believed; a row that cannot be
verified is shown as such rather than dropped. Nothing here raises: the mirror
is for people, and its failure never changes what an engine does.
"""

import json
import os
import secrets
import stat
import time
from pathlib import Path
from typing import Any, Final

import attrs

from openclaw_ctx.transcript import make_private_folder, replace_file, safe_name

__all__ = ["MirrorRow", "QuarantineMirror", "QuarantineRecord"]

MAX_ROWS: Final = 64
_MAX_ROW_BYTES: Final = 1 << 16
_START_TOLERANCE_SECONDS: Final = 1.0
# Tells this incarnation of the process from an earlier one of the same pid.
_TOKEN: Final = secrets.token_hex(16)
_YEAR_10000_MS: Final = 253_402_300_800_000
_LARGEST_PID: Final = 2**31 - 1


@attrs.frozen(kw_only=True)
class QuarantineRecord:
    """One refusal: which engine of whom, in which operation, why, when (seconds since the epoch)."""

    engine_id: str
    owner: str | None
    operation: str
    reason: str
    failed_at: float


@attrs.frozen(kw_only=True)
class MirrorRow:
    """
    A record as some process wrote it.

    Attributes:
        own: This process wrote it.
        verified: Whoever wrote it is known to live; else it may be long gone.
    """

    record: QuarantineRecord
    pid: int = attrs.field(factory=os.getpid)
    own: bool
    verified: bool


class QuarantineMirror:
    """
    A folder of rows. Made when the first row is written, never by reading or clearing.

    Each mirror writes rows of its own, so two registries of one process that
    share a folder do not lift each other's quarantines.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tag = secrets.token_hex(4)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuarantineMirror) and other.folder == self.folder

    def __hash__(self) -> int:
        return hash(self.folder)

    def write(self, record: QuarantineRecord) -> bool:
        """Write the mirror's row for the engine; return whether that worked. No more than 64 rows are kept."""
        row = {
            "engineId": record.engine_id,
            "owner": record.owner,
            "operation": record.operation,
            "reason": record.reason,
            "failedAtMs": int(record.failed_at * 1000),
            "recordedAtMs": int(time.time() * 1000),
            "processId": os.getpid(),
            "processStartTime": _start_time(os.getpid()),
            "processToken": _TOKEN,
        }
        path = self._path(record.engine_id)
        try:
            make_private_folder(self.folder)
            if not self._make_room(path):
                return False
            replace_file(path, json.dumps(row).encode())
        except OSError:
            return False
        return True

    def holds(self, record: QuarantineRecord) -> bool:
        """
        Return whether the mirror's row for the record's engine is still there; true where unknowable.

        Where the whole folder has gone nobody has lifted anything: to release removes the row alone.
        """
        try:
            self._path(record.engine_id).stat()
        except FileNotFoundError:
            return not self.folder.is_dir()
        except OSError:
            return True
        return True

    def clear(self, engine_id: str) -> None:
        """Remove the mirror's row for the engine; the rows of others stay."""
        self._remove(self._path(engine_id))

    def release(self, engine_id: str) -> list[MirrorRow]:
        """Remove every process's row for the engine, which lifts its quarantine there; return them."""
        released = []
        for path, row in self._rows():
            if row is not None and row.record.engine_id == engine_id and self._remove(path):
                released.append(row)
        return released

    def read(self) -> list[MirrorRow]:
        """Return the rows of processes that live or may live, in the order of their failures."""
        found = [row for _, row in self._rows() if row is not None]
        return sorted(found, key=lambda row: (row.record.failed_at, row.record.engine_id, row.pid))

    def _path(self, engine_id: str) -> Path:
        return self.folder / f"{safe_name(engine_id)}.{os.getpid()}.{self._tag}.json"

    def _rows(self) -> list[tuple[Path, MirrorRow | None]]:
        try:
            paths = sorted(self.folder.glob("*.json"))
        except OSError:
            return []
        return [(path, _read_row(path)) for path in paths]

    def _make_room(self, path: Path) -> bool:
        """
        Remove rows of the dead until *path* may be written; return whether it may.

        A row of the living is a quarantine that holds, and a foreign file in the
        folder is nobody's row: both stay.
        """
        rows = [(other, row) for other, row in self._rows() if other != path and _parse(other) is not None]
        excess = len(rows) + 1 - MAX_ROWS
        if excess > 0:
            gone = [other for other, row in rows if row is None]
            excess -= sum(map(self._remove, gone[:excess]))
        return excess <= 0

    @staticmethod
    def _remove(path: Path) -> bool:
        try:
            path.unlink()
        except OSError:
            return False
        return True


def _parse(path: Path) -> dict[str, Any] | None:
    try:
        # Without waiting: the opening of a FIFO waits for who writes into it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
        with open(descriptor, "rb") as file:  # noqa: PTH123 -- opened in a way of its own
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            row = json.loads(file.read(_MAX_ROW_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and "engineId" in row and "processId" in row else None


def _read_row(path: Path) -> MirrorRow | None:
    """Return a row, or ``None`` for one that is malformed or of a process that is known to be gone."""
    row = _parse(path)
    if row is None:
        return None
    texts = [row.get(key) for key in ("engineId", "operation", "reason")]
    pid = row.get("processId")
    failed_at, recorded_at = _time_of(row.get("failedAtMs")), _time_of(row.get("recordedAtMs"))
    if not all(isinstance(text, str) and text.strip() for text in texts):
        return None
    if isinstance(pid, bool) or not isinstance(pid, int) or not 0 < pid <= _LARGEST_PID:
        return None
    if failed_at is None or recorded_at is None:
        return None
    own = pid == os.getpid()
    if own and row.get("processToken") != _TOKEN:
        return None  # an earlier process had our pid
    lives = True if own else _lives(pid, row.get("processStartTime"))
    if lives is False:
        return None
    owner = row.get("owner")
    record = QuarantineRecord(
        engine_id=texts[0] or "",
        owner=owner if isinstance(owner, str) and owner.strip() else None,
        operation=texts[1] or "",
        reason=texts[2] or "",
        failed_at=failed_at / 1000,
    )
    return MirrorRow(record=record, pid=pid, own=own, verified=lives is True)


def _lives(pid: int, started: object) -> bool | None:
    """Say whether the process that wrote a row lives; ``None`` where that cannot be known."""
    # Thirty modules that only somebody with a quarantine needs.
    import psutil  # noqa: PLC0415

    if not psutil.pid_exists(pid):
        return False
    live, written = _start_time(pid), _time_of(started)
    if live is None or written is None:
        return None
    return abs(live - written) <= _START_TOLERANCE_SECONDS


def _time_of(value: object) -> float | None:
    """Return a time that a calendar knows; NaN, infinity and numbers beyond all dates are none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _YEAR_10000_MS:
        return None
    return float(value)


def _start_time(pid: int) -> float | None:
    import psutil  # noqa: PLC0415 -- as above

    try:
        return float(psutil.Process(pid).create_time())
    except (psutil.Error, OSError, OverflowError):
        return None
