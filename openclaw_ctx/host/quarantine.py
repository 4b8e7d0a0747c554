"""
Which engines are barred, since when and why.

The first failure bars an engine for the process until it is registered again or
released by hand; a policy may ask for more failures, or offer probation. Each
record has a mirror on disk, so that another process can see it and lift it.
"""

import collections
import threading
import time
from collections.abc import Callable
from typing import Final

import attrs

from openclaw_ctx.log import get_logger

from .mirror import MirrorRow, QuarantineMirror, QuarantineRecord

__all__ = ["Quarantine", "QuarantinePolicy"]

_log = get_logger()

_MAX_BACKOFF: Final = 64


@attrs.frozen(kw_only=True)
class QuarantinePolicy:
    """
    When an engine is barred, and for how long.

    Attributes:
        failures: Consecutive failures of one operation that it takes. Background jobs
            are one operation, in the order in which they end; one that was cancelled
            counts neither way.
        probation_seconds: After that long the engine gets one try, and twice as
            long after each further failure; ``None``: no try.
    """

    failures: int = 1
    probation_seconds: float | None = None


@attrs.define(eq=False)
class _Standing:
    """How an engine stands with one process."""

    failures: dict[str, int] = attrs.field(factory=dict)
    record: QuarantineRecord | None = None
    rows: list[tuple[QuarantineMirror, QuarantineRecord]] = attrs.field(factory=list)
    backoff: int = 1
    retry_at: float | None = None
    trying: bool = False
    unproven: str | None = None
    """The operation that last barred the engine and has not succeeded since."""


class Quarantine:
    """The process's records. Safe from any thread; never raises for the mirror's sake."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._lock = threading.RLock()
        self._clock = clock
        self._standings: dict[str, _Standing] = {}
        # Two hosts may share a folder: one row serves both, until the last of them has closed.
        self._mirrors: list[QuarantineMirror] = []
        self._attached: collections.Counter[QuarantineMirror] = collections.Counter()

    def attach(self, mirror: QuarantineMirror) -> None:
        """Write records to *mirror* too, from now on. One that is attached twice is to be detached twice."""
        with self._lock:
            self._attached[mirror] += 1
            if mirror not in self._mirrors:
                self._mirrors.append(mirror)

    def detach(self, mirror: QuarantineMirror) -> None:
        """Write nothing more to *mirror*. What is there stays, and lifting it still lifts the quarantine."""
        with self._lock:
            self._attached[mirror] -= 1
            if self._attached[mirror] <= 0:
                del self._attached[mirror]
                self._mirrors = [other for other in self._mirrors if other != mirror]

    def barred(self, engine_id: str) -> QuarantineRecord | None:
        """
        Return why the engine must not be called now, or ``None`` where it may.

        It may where probation has come and nobody has the try: :meth:`begin` takes it.
        """
        if engine_id not in self._standings:
            return None
        with self._lock:
            standing = self._standing(engine_id)
            if standing is None or standing.record is None or self._is_due(standing):
                return None
            return standing.record

    def record_of(self, engine_id: str) -> QuarantineRecord | None:
        """Return the record that stands, whether probation has come or not."""
        standing = self._standings.get(engine_id)
        return None if standing is None else standing.record

    def begin(self, engine_id: str) -> bool:
        """
        Return whether the engine may be called now; where that is its try, the caller has it.

        Whoever has it ends it by :meth:`succeeded`, :meth:`record` or :meth:`withdraw`.
        """
        if engine_id not in self._standings:
            return True
        with self._lock:
            standing = self._standing(engine_id)
            if standing is None or standing.record is None:
                return True
            due = self._is_due(standing)
            standing.trying = standing.trying or due
            return due

    def record(
        self, engine_id: str, *, owner: str, operation: str, reason: str, policy: QuarantinePolicy
    ) -> QuarantineRecord:
        """
        Note a failure; return the record that stands, which is the first one's.

        *reason* has been cleaned by whoever caught the failure. Logged once, when the engine is barred.
        """
        now = self._clock()
        with self._lock:
            standing = self._standings.setdefault(engine_id, _Standing())
            fresh = QuarantineRecord(
                engine_id=engine_id, owner=owner, operation=operation, reason=reason, failed_at=now
            )
            if standing.record is not None:
                if standing.trying:
                    standing.trying = False
                    self._put_off(standing, policy)
                return standing.record
            failures = standing.failures[operation] = standing.failures.get(operation, 0) + 1
            if failures < policy.failures:
                _log.warning(
                    "engine.failed", engine=engine_id, owner=owner, operation=operation, reason=reason,
                    failures=failures, allowed=policy.failures - 1,
                )  # fmt: skip
                return fresh
            standing.record = fresh
            self._put_off(standing, policy)
            standing.unproven = operation
            standing.rows = [(mirror, fresh) for mirror in self._mirrors if mirror.write(fresh)]
        _log.error("engine.quarantined", engine=engine_id, owner=owner, operation=operation, reason=reason)
        return fresh

    def succeeded(self, engine_id: str, operation: str) -> None:
        """
        Note a good answer: the operation's failures in a row end here, and so does a probation.

        The longer wait stays until the operation that barred the engine has succeeded:
        an engine that meets a session well and fails the turn has not proven itself.
        """
        if engine_id not in self._standings:
            return
        with self._lock:
            standing = self._standings.get(engine_id)
            if standing is None:
                return
            standing.failures.pop(operation, None)
            if standing.record is not None and standing.trying:
                _log.info("engine.restored", engine=engine_id, owner=standing.record.owner)
                standing.record = standing.retry_at = None
                standing.trying = False
                standing.failures.clear()
                self._clear_rows(engine_id, standing)
            if standing.unproven == operation:
                standing.unproven = None
                standing.backoff = 1
            self._drop_if_clean(engine_id, standing)

    def job_succeeded(self, engine_id: str, operation: str) -> None:
        """
        Note that a job behind the hooks ended well: the operation's failures in a row end here.

        A try goes on, since it is a hook's, and a job proves nothing of the hooks.
        """
        with self._lock:
            standing = self._standings.get(engine_id)
            if standing is None or standing.record is not None:
                return
            standing.failures.pop(operation, None)
            if standing.unproven == operation:
                standing.unproven = None
                standing.backoff = 1
            self._drop_if_clean(engine_id, standing)

    def withdraw(self, engine_id: str) -> None:
        """Note that a try ended without an answer, since its caller gave up; the next caller has it."""
        with self._lock:
            standing = self._standings.get(engine_id)
            if standing is not None:
                standing.trying = False

    def clear(self, engine_id: str) -> bool:
        """Forget the engine's failures, in the process and in this process's rows on disk."""
        with self._lock:
            known = engine_id in self._standings
            self._forget(engine_id)
            return known

    def records(self) -> list[QuarantineRecord]:
        """Return the process's records, oldest first."""
        with self._lock:
            standings = [self._standing(engine_id) for engine_id in list(self._standings)]
        found = [standing.record for standing in standings if standing is not None and standing.record is not None]
        return sorted(found, key=lambda record: record.failed_at)

    def rows(self) -> list[MirrorRow]:
        """Return the process's records, then those of other live processes for engines not among them."""
        own = [MirrorRow(record=record, own=True, verified=True) for record in self.records()]
        seen = {row.record.engine_id for row in own}
        others: dict[str, MirrorRow] = {}
        for row in (row for mirror in self._mirrors for row in mirror.read()):
            engine_id = row.record.engine_id
            if engine_id not in seen:
                earlier = others.get(engine_id)
                if earlier is None or row.record.failed_at < earlier.record.failed_at:
                    others[engine_id] = row
        return own + sorted(others.values(), key=lambda row: row.record.engine_id)

    def _standing(self, engine_id: str) -> _Standing | None:
        """Return how the engine stands, once a release by another process has been seen."""
        standing = self._standings.get(engine_id)
        if standing is None or standing.record is None:
            return standing
        if all(mirror.holds(record) for mirror, record in standing.rows):
            return standing
        _log.info("engine.released", engine=engine_id, owner=standing.record.owner)
        self._forget(engine_id)
        return None

    def _drop_if_clean(self, engine_id: str, standing: _Standing) -> None:
        if standing.record is None and standing.unproven is None and not standing.failures:
            del self._standings[engine_id]

    def _is_due(self, standing: _Standing) -> bool:
        return standing.retry_at is not None and not standing.trying and self._clock() >= standing.retry_at

    def _put_off(self, standing: _Standing, policy: QuarantinePolicy) -> None:
        """Set when the next try is: twice as far off as the last time, unless the engine has proven itself since."""
        if standing.unproven is not None:
            standing.backoff = min(_MAX_BACKOFF, standing.backoff * 2)
        seconds = policy.probation_seconds
        standing.retry_at = None if seconds is None else self._clock() + seconds * standing.backoff

    def _forget(self, engine_id: str) -> None:
        standing = self._standings.pop(engine_id, None)
        if standing is not None:
            self._clear_rows(engine_id, standing)

    @staticmethod
    def _clear_rows(engine_id: str, standing: _Standing) -> None:
        for mirror, _ in standing.rows:
            mirror.clear(engine_id)
        standing.rows = []
