"""What stores do alike: a store of one's own need only say how it keeps lines."""

import abc
import contextlib
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from openclaw_ctx.contract import JSON, EntryId, SessionKey
from openclaw_ctx.errors import ReadOnlyTranscriptError
from openclaw_ctx.transcript.header import new_header, new_session_id
from openclaw_ctx.transcript.lines import Line, encoded
from openclaw_ctx.transcript.successor import Successor, plan_fork, plan_successor
from openclaw_ctx.transcript.transcript import Transcript

from .store import Rotation, SessionInfo, find_session

__all__ = ["StoreBase"]

# What is kept of the header that lines come with.
_OF_HEADER: Final = ("id", "timestamp", "cwd", "parentSession")


class StoreBase(abc.ABC):
    """Part of a :class:`~.store.SessionStore`: makes, forks, rotates and finds sessions by what the rest can do."""

    def __init__(self, where: str) -> None:
        """
        Begin without any session.

        Args:
            where: Names the store in errors.
        """
        self._where = where
        self._writing: weakref.WeakSet[Transcript] = weakref.WeakSet()

    @abc.abstractmethod
    def read(self, key: SessionKey) -> Transcript:
        """Open a session for reading, as it is now."""

    @abc.abstractmethod
    def sessions(self) -> Sequence[SessionInfo]:
        """Return every session, the one written last first."""

    @abc.abstractmethod
    def _make(self, key: SessionKey, header: Mapping[str, JSON], lines: Iterable[bytes]) -> SessionInfo:
        """Make a session of encoded lines, whole or not at all; raise ``SessionExistsError`` where the key is taken."""

    @abc.abstractmethod
    def _succeed(self, transcript: Transcript, header: dict[str, JSON], plan: Successor) -> Path:
        """Write a successor, let the key mean it, and have *transcript* adopt it; or change nothing and raise."""

    def create(
        self, key: SessionKey, lines: Iterable[Line], *, header: Mapping[str, JSON] | None = None
    ) -> SessionInfo:
        """
        Make a session of ready lines: whole, or not at all.

        Raises:
            SessionExistsError: The key is taken.
        """
        given = {name: value for name in _OF_HEADER if (value := (header or {}).get(name)) is not None}
        return self._make(key, new_header(key=key, cwd="") | given, map(encoded, lines))

    def fork(self, key: SessionKey, new_key: SessionKey, *, at: EntryId | None = None) -> SessionInfo:
        """
        Make a session of a branch of another: the active one, or that which ends at the entry *at*.

        Raises:
            SessionExistsError: The new key is taken.
            SessionNotFoundError: There is no such session.
            EntryNotFoundError: It has no such entry.
        """
        with contextlib.closing(self.read(key)) as transcript:
            if at is not None:
                transcript.branch(at)
            header = new_header(
                key=new_key, cwd=str(transcript.header.get("cwd") or ""), parent=transcript.path.name, forked_from=key
            )
            return self._make(new_key, header, transcript.planned(plan_fork))

    def rotate(self, transcript: Transcript) -> Rotation:
        """
        Go on in a new transcript without what the last compaction stands for; the old one stays as it is.

        Raises:
            OSError: It could not be written; nothing has changed.
            ReadOnlyTranscriptError: It is open for reading.
        """
        if transcript.key is None:
            problem = "only a transcript that a store opened can be rotated by it"
            raise ValueError(problem)
        if transcript not in self._writing:
            raise ReadOnlyTranscriptError(str(transcript.path))
        transcript.refresh()
        plan = transcript.planned(plan_successor)
        if isinstance(plan, str):
            return Rotation(rotated=False, reason=plan)
        session_id = new_session_id()
        header = new_header(
            session_id=session_id,
            cwd=str(transcript.header.get("cwd") or ""),
            key=transcript.key,
            parent=transcript.path.name,
            forked_from=transcript.header.get("forkedFrom"),
        )
        return Rotation(
            rotated=True,
            session_id=session_id,
            path=self._succeed(transcript, header, plan),
            compaction_entry_id=plan.compaction_entry_id,
            leaf_id=plan.leaf_id,
            entries_written=len(plan.lines),
            entries_left=plan.left,
        )

    def find(self, name: str) -> SessionKey:
        """
        Return the key that a person means by a key, an id or the beginning of one, or a file's name.

        Raises:
            SessionNotFoundError: It is none, or several.
        """
        return find_session(self.sessions(), name, where=self._where)
