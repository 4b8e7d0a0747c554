"""
Sessions that end with the process: a store without files.

For tests, and for conversations that nobody wants on a disk. It keeps every
promise that a store of files keeps, but for the one to survive the process.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from openclaw_ctx.contract import JSON, SessionId, SessionKey
from openclaw_ctx.errors import (
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
)
from openclaw_ctx.transcript.entry import encode_json, milliseconds_of
from openclaw_ctx.transcript.header import new_header
from openclaw_ctx.transcript.paths import safe_name
from openclaw_ctx.transcript.successor import Successor
from openclaw_ctx.transcript.transcript import Transcript

from .archive import archive_name
from .base import StoreBase
from .memory_record import Lines, MemoryRecord, Shelf
from .store import Archive, ArchiveReason, SessionInfo

__all__ = ["MemoryStore"]

_WHERE: Final = "memory"


class MemoryStore(StoreBase):
    """
    A :class:`~.store.SessionStore` that writes nothing anywhere, for any thread.

    A list of sessions reads them all.
    """

    def __init__(self) -> None:
        super().__init__(_WHERE)
        self._shelf = Shelf()
        self._sessions: dict[SessionKey, Lines] = {}
        self._former: dict[SessionKey, list[Lines]] = {}
        self._archives: dict[str, tuple[Archive, Lines]] = {}
        self._tokens: dict[SessionKey, int] = {}

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

    def _make(self, key: SessionKey, header: Mapping[str, JSON], lines: Iterable[bytes]) -> SessionInfo:
        ready = list(lines)
        with self._shelf.lock:
            there = self._sessions.get(key)
            if there is not None:
                _require_idle(there)
                if there.size:
                    raise SessionExistsError(key)
            made = there or self._begin(key)
            made.write(encode_json(header), ready, number=next(self._shelf.writes))
            self._tokens.pop(key, None)
            return self._info(key, made)

    def _succeed(self, transcript: Transcript, header: dict[str, JSON], plan: Successor) -> Path:
        key = SessionKey(str(transcript.key))
        lines = Lines(path=Path(f"{_WHERE}:{header['id']}.jsonl"))
        lines.write(encode_json(header), plan.lines, number=next(self._shelf.writes))
        with self._shelf.lock:
            record = MemoryRecord(self._shelf, lines, key)
            self._former.setdefault(key, []).append(self._sessions[key])
            self._put(key, lines)
        # Not under the lock: the transcript has one of its own, and whoever appends takes that one first.
        transcript.adopt(record, record.load(whole=False), renamed=plan.renamed)
        return lines.path

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
            file=lines.path.name,
            previous=lines.said_in_header().get("parentSession"),
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
