"""
Sessions that end with the process: a store without files.

For tests, and for conversations that nobody wants on a disk. It keeps every
promise that a store of files keeps, but for the one to survive the process.
"""

import contextlib
import weakref
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from openclaw_ctx.contract import JSON, EntryId, SessionId, SessionKey
from openclaw_ctx.errors import (
    EntryNotFoundError,
    ReadOnlyTranscriptError,
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
)

from .archive import archive_name
from .entry import encode_json, milliseconds_of
from .header import new_header, new_session_id
from .lines import Line, encoded
from .memory_record import Lines, MemoryRecord, Shelf
from .paths import safe_name
from .store import Archive, ArchiveReason, Rotation, SessionInfo, find_session
from .transcript import Transcript

__all__ = ["MemoryStore"]

_WHERE: Final = "memory"
_OF_HEADER: Final = ("id", "timestamp", "cwd", "parentSession")


class MemoryStore:
    """
    A :class:`~.store.SessionStore` that writes nothing anywhere, for any thread.

    A list of sessions reads them all.
    """

    def __init__(self) -> None:
        self._shelf = Shelf()
        self._sessions: dict[SessionKey, Lines] = {}
        self._former: dict[SessionKey, list[Lines]] = {}
        self._archives: dict[str, tuple[Archive, Lines]] = {}
        self._tokens: dict[SessionKey, int] = {}
        self._writing: weakref.WeakSet[Transcript] = weakref.WeakSet()

    # -- one session ------------------------------------------------------------------------------

    def open(self, key: SessionKey, *, cwd: str | None = None) -> Transcript:
        """
        Open a session for writing; begin it where there is none.

        Raises:
            SessionBusyError: Somebody else writes it.
        """
        with self._shelf.lock:
            record = MemoryRecord(self._shelf, self._sessions.get(key) or self._begin(key), key)
        transcript = Transcript(record, key=key, header=new_header(cwd=cwd, key=key))
        self._writing.add(transcript)
        return transcript

    def read(self, key: SessionKey) -> Transcript:
        """
        Open a session for reading, as it is now.

        Raises:
            SessionNotFoundError: There is none.
        """
        with self._shelf.lock:
            lines = self._sessions.get(key)
            if lines is None:
                raise SessionNotFoundError(key, _WHERE, ())
            return Transcript(MemoryRecord(self._shelf, lines, key, read_only=True), key=key)

    def create(
        self, key: SessionKey, lines: Iterable[Line], *, header: Mapping[str, JSON] | None = None
    ) -> SessionInfo:
        """
        Make a session of ready lines: whole, or not at all.

        Raises:
            SessionExistsError: The key is taken.
        """
        given = {name: value for name in _OF_HEADER if (value := (header or {}).get(name)) is not None}
        return self._make(key, new_header(key=key, cwd="") | given, list(map(encoded, lines)))

    def fork(self, key: SessionKey, new_key: SessionKey, *, at: EntryId | None = None) -> SessionInfo:
        """
        Make a session of the active branch of another, up to and with the entry *at*.

        Raises:
            SessionExistsError: The new key is taken.
            SessionNotFoundError: There is no such session.
            EntryNotFoundError: It has no such entry on its active branch.
        """
        with contextlib.closing(self.read(key)) as transcript:
            if at is not None:
                if not transcript.has_entry(at):
                    raise EntryNotFoundError(str(transcript.path), at)
                transcript.branch(at)
            header = new_header(
                key=new_key, cwd=str(transcript.header.get("cwd") or ""), parent=transcript.path.name, forked_from=key
            )
            return self._make(new_key, header, transcript.plan_fork())

    def rotate(self, transcript: Transcript) -> Rotation:
        """
        Go on without what the last compaction stands for; the old transcript stays as it is.

        Raises:
            ReadOnlyTranscriptError: It is open for reading.
        """
        key = transcript.key
        if key is None:
            problem = "only a transcript that a store opened can be rotated by it"
            raise ValueError(problem)
        if transcript not in self._writing:
            raise ReadOnlyTranscriptError(str(transcript.path))
        transcript.refresh()
        plan = transcript.plan_successor()
        if isinstance(plan, str):
            return Rotation(rotated=False, reason=plan)
        session_id = new_session_id()
        header = new_header(
            session_id=session_id,
            cwd=str(transcript.header.get("cwd") or ""),
            key=key,
            parent=transcript.path.name,
            forked_from=transcript.header.get("forkedFrom"),
        )
        lines = Lines(path=Path(f"{_WHERE}:{session_id}.jsonl"))
        lines.write(encode_json(header), plan.lines, number=next(self._shelf.writes))
        with self._shelf.lock:
            record = MemoryRecord(self._shelf, lines, key)
            self._former.setdefault(key, []).append(self._sessions[key])
            self._put(key, lines)
        # Not under the lock: the transcript has one of its own, and whoever appends takes that one first.
        transcript.adopt(record, renamed=plan.renamed)
        return Rotation(
            rotated=True,
            session_id=session_id,
            path=lines.path,
            compaction_entry_id=plan.compaction_entry_id,
            leaf_id=plan.leaf_id,
            entries_written=len(plan.lines),
            entries_left=plan.left,
        )

    def note_tokens(self, key: SessionKey, context_tokens: int) -> None:
        """Remember what the last prompt of a session cost."""
        with self._shelf.lock:
            self._tokens[key] = context_tokens

    # -- all of them ------------------------------------------------------------------------------

    def sessions(self) -> Sequence[SessionInfo]:
        """Return every session that something was written to, the one written last first."""
        with self._shelf.lock:
            found = [(key, lines) for key, lines in self._sessions.items() if lines.size]
            found.sort(key=lambda item: item[1].written, reverse=True)
            return [self._info(key, lines) for key, lines in found]

    def find(self, name: str) -> SessionKey:
        """
        Return the key that a person means by a key, an id or the beginning of one, or a path's name.

        Raises:
            SessionNotFoundError: It is none, or several.
        """
        return find_session(self.sessions(), name, where=_WHERE)

    # -- what was put aside -----------------------------------------------------------------------

    def archive(self, key: SessionKey, reason: ArchiveReason) -> Archive:
        """
        Put a session's transcript aside, and those that it follows; the key is free.

        Raises:
            SessionNotFoundError: There is none.
            SessionBusyError: Somebody writes it.
        """
        with self._shelf.lock:
            lines = self._sessions.get(key)
            if lines is not None:
                _require_idle(lines)
            if lines is None or not lines.size:
                raise SessionNotFoundError(key, _WHERE, ())
            del self._sessions[key]
            self._tokens.pop(key, None)
            for old in self._former.pop(key, []):
                self._put_aside(key, old, reason)
            return self._put_aside(key, lines, reason)

    def archives(self) -> Sequence[Archive]:
        """Return what was put aside, the oldest first."""
        with self._shelf.lock:
            return [archive for archive, _ in self._archives.values()]

    def restore(self, name: str, *, key: SessionKey | None = None) -> SessionInfo:
        """
        Bring an archive back under its key, or another.

        Raises:
            SessionExistsError: The key is taken.
            SessionNotFoundError: There is no such archive.
        """
        with self._shelf.lock:
            archive, lines = self._archived(name)
            wanted = key or archive.key
            info = self._make(wanted, lines.said_in_header() | {"sessionKey": wanted}, lines.lines)
            self.remove(name)
            return info

    def remove(self, name: str) -> None:
        """
        Destroy an archive.

        Raises:
            SessionNotFoundError: There is no such archive.
        """
        with self._shelf.lock:
            self._archived(name)
            del self._archives[name]

    def close(self) -> None:
        """Do nothing: sessions end with the store."""

    # -- where things are -------------------------------------------------------------------------

    def _begin(self, key: SessionKey) -> Lines:
        return self._put(key, Lines(path=Path(f"{_WHERE}:{safe_name(key)}.jsonl")))

    def _put(self, key: SessionKey, lines: Lines) -> Lines:
        self._sessions[key] = self._shelf.at[lines.path] = lines
        return lines

    def _make(self, key: SessionKey, header: Mapping[str, JSON], lines: Sequence[bytes]) -> SessionInfo:
        with self._shelf.lock:
            there = self._sessions.get(key)
            if there is not None:
                _require_idle(there)
                if there.size:
                    raise SessionExistsError(key)
            made = there or self._begin(key)
            made.write(encode_json(header), lines, number=next(self._shelf.writes))
            self._tokens.pop(key, None)
            return self._info(key, made)

    def _put_aside(self, key: SessionKey, lines: Lines, reason: ArchiveReason) -> Archive:
        now = datetime.now(UTC)
        name = archive_name(lines.path.name, reason, now, self._archives)
        archive = Archive(
            name=name,
            key=key,
            session_id=SessionId(lines.said_in_header()["id"]),
            reason=reason,
            at=now,
            size=lines.size,
        )
        self._archives[name] = archive, lines
        del self._shelf.at[lines.path]
        return archive

    def _archived(self, name: str) -> tuple[Archive, Lines]:
        found = self._archives.get(name)
        if found is None:
            raise SessionNotFoundError(name, _WHERE, ())
        return found

    def _info(self, key: SessionKey, lines: Lines) -> SessionInfo:
        header = lines.said_in_header()
        started = milliseconds_of(header.get("timestamp"))
        with contextlib.closing(Transcript(MemoryRecord(self._shelf, lines, key, read_only=True))) as transcript:
            tally, name = transcript.tally(), transcript.name
        return SessionInfo(
            key=key,
            session_id=SessionId(header["id"]),
            path=lines.path,
            name=name,
            started_at=None if started is None else datetime.fromtimestamp(started / 1000, UTC),
            updated_at=lines.written_at,
            messages=tally.messages,
            compactions=tally.compactions,
            context_tokens=self._tokens.get(key),
            size=lines.size,
            parent=header.get("forkedFrom"),
            previous=header.get("parentSession"),
        )


def _require_idle(lines: Lines) -> None:
    if lines.writer is not None:
        raise SessionBusyError(str(lines.path), "another session", 0.0)
