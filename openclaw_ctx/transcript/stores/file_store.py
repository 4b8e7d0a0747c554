"""
Sessions as files of one folder.

A session's first transcript is called by its key, and its successors by time and
id; ``sessions.json`` says which one counts, and is made again of the transcripts
where it is lost. Whoever holds a transcript's lock may write, move or replace it.
"""

import contextlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final

from openclaw_ctx.contract import JSON, SessionId, SessionKey
from openclaw_ctx.errors import (
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
    TranscriptError,
)
from openclaw_ctx.log import describe_error, get_logger
from openclaw_ctx.transcript.checks.mend import Mended, mend_file
from openclaw_ctx.transcript.entry import encode_json
from openclaw_ctx.transcript.file_record import FileRecord
from openclaw_ctx.transcript.header import iso_time, new_header
from openclaw_ctx.transcript.lock import WriterLock
from openclaw_ctx.transcript.paths import make_private_folder, move_file
from openclaw_ctx.transcript.record_file import sync_folder
from openclaw_ctx.transcript.successor import Successor
from openclaw_ctx.transcript.transcript import Transcript

from .archive import archive_name, parse_archive_name
from .base import StoreBase
from .index import Entries, SessionIndex
from .store import Archive, ArchiveReason, SessionInfo, find_session
from .whereabouts import Whereabouts, first_name, names_in
from .whole_file import (
    count_file,
    describe_file,
    header_of,
    holds_something,
    pieces_of,
    write_pieces_to,
    write_whole,
)

__all__ = ["FileStore"]

_log = get_logger()

_MOST_TRIES: Final = 20
# For what the transcripts say too, and is made right at the next look: nobody is to wait for it.
_PATIENCE_SECONDS: Final = 0.25
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class FileStore(StoreBase):
    """A :class:`~.store.SessionStore` in a folder, which is made when something is first written."""

    def __init__(self, folder: Path | str, *, durable: bool = False) -> None:
        """
        Keep sessions in *folder*.

        Args:
            folder: Private where it is made here.
            durable: Whether an append returns only when the disk has it (fdatasync).
        """
        super().__init__(str(folder))
        self.folder = Path(folder)
        self._durable = durable
        self._index = SessionIndex(self.folder)
        self._files = Whereabouts(self.folder, self._index)
        self._tokens: dict[SessionKey, int] = {}

    # -- one session ------------------------------------------------------------------------------

    def open(self, key: SessionKey, *, cwd: str | None = None) -> Transcript:
        """
        Open a session for writing; begin it where there is none.

        Raises:
            SessionBusyError: Somebody else writes it.
            TranscriptFormatError: Its path is a symbolic link or no plain file.
            OSError: The operating system refuses folder or file.
        """
        for _ in range(_MOST_TRIES):
            path = self._files.path_of(key)
            record = FileRecord.open(path, durable=self._durable, note_path=self._note_path(key))
            # Until the lock was ours somebody may have rotated the session, or put it aside.
            if self._files.path_of(key) == path and record.is_at_path():
                transcript = self._watched(Transcript(record, key=key, header=new_header(cwd=cwd, key=key)))
                self._writing.add(transcript)
                return transcript
            record.close()
        raise SessionBusyError(str(self._files.path_of(key)), "others, who move it all the time", 0.0)

    def read(self, key: SessionKey) -> Transcript:
        """
        Open a session for reading, as it is now.

        Raises:
            SessionNotFoundError: There is none.
        """
        path = self._files.path_of(key)
        try:
            return Transcript(FileRecord(path, read_only=True, note_path=self._note_path(key)), key=key)
        except FileNotFoundError:
            raise SessionNotFoundError(key, str(self.folder), ()) from None

    def note_tokens(self, key: SessionKey, context_tokens: int) -> None:
        """Remember what the last prompt of a session cost; others see it when its transcript is closed."""
        self._tokens[key] = context_tokens

    # -- all of them ------------------------------------------------------------------------------

    def sessions(self) -> Sequence[SessionInfo]:
        """Return every session, the one written last first; one that was not closed properly is read for its counts."""
        counted: Entries = {}
        infos = _newest_first(self._info(key, entry, counted) for key, entry in self._files.entries().items())
        if counted:
            self._try_update(lambda entries: self._note_counted(entries, counted))
        return infos

    def glance(self) -> Sequence[SessionInfo]:
        """
        Return every session, the one written last first, and write nothing.

        No transcript is read but for its first line, so what is counted is what
        the index says, which may be old or nothing.
        """
        return _newest_first(self._glimpse(key, entry) for key, entry in self._files.entries().items())

    def find(self, name: str) -> SessionKey:
        """
        Return the key that a person means by a key, an id or the beginning of one, or a file's name; writes nothing.

        Raises:
            SessionNotFoundError: It is none, or several.
        """
        return find_session(self.glance(), name, where=str(self.folder))

    # -- what was put aside -----------------------------------------------------------------------

    def archive(self, key: SessionKey, reason: ArchiveReason, *, size: int | None = None) -> Archive:
        """
        Put a session's transcript aside, and those that it follows; the key is free.

        Args:
            key: Whose.
            reason: Why; it is kept.
            size: Bytes that the transcript must have, so that nothing goes that was said since somebody looked.

        Raises:
            SessionNotFoundError: There is none.
            SessionBusyError: Somebody writes it, or has written it since.
        """
        with self._held(key) as path:
            if size is not None and path.stat().st_size != size:
                raise SessionBusyError(str(path), "somebody, since this was planned", 0.0)
            for file in self._files.superseded_of(key, path):
                self._put_aside(file, reason)
            # The one that counts goes last: cut off before, the session is as it was.
            name = self._put_aside(path, reason)
            self._try_update(lambda entries: entries.pop(key, None))
            self._tokens.pop(key, None)
        return self._archive(name)

    def archives(self) -> Sequence[Archive]:
        """Return what was put aside, the oldest first."""
        found = []
        for name in names_in(self.folder):
            if parse_archive_name(name) is not None:
                with contextlib.suppress(FileNotFoundError):  # it was restored, or removed, meanwhile
                    found.append(self._archive(name))
        return sorted(found, key=lambda archive: (archive.at, archive.name))

    def restore(self, name: str, *, key: SessionKey | None = None) -> SessionInfo:
        """
        Bring an archive back under its key, or another.

        Raises:
            SessionExistsError: The key is taken.
            SessionNotFoundError: There is no such archive.
        """
        source = self._archived_path(name)
        header = header_of(source)
        wanted = key or self._archive(name).key
        with self._free(wanted) as path:
            if header.get("sessionKey") not in (None, wanted):
                # Where it is, and moved then: cut off in between, there is one of it, and an archive still.
                header = header | {"sessionKey": wanted, "restoredFrom": name, "restoredKey": header["sessionKey"]}
                write_pieces_to(source, chain((encode_json(header) + b"\n",), pieces_of(source, behind_header=True)))
            move_file(source, path)
            return self._note_made(wanted, path, header)

    def repair(self, key: SessionKey) -> tuple[Mended, Archive | None]:
        """
        Put a repaired transcript in the place of a session's damaged one, which is put aside; no archive: it was whole.

        Raises:
            SessionNotFoundError: There is none.
            SessionBusyError: Somebody writes it.
            OSError: It could not be written; the session is as it was.
        """
        with self._held(key) as path:
            mended = mend_file(path, header=new_header(key=key, cwd=""))
            if not mended.done:
                return mended, None
            name = archive_name(path.name, "bak", datetime.now(UTC), names_in(self.folder))
            temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
            try:
                mended.write(temporary)
                # A copy: as a second name of the file it would grow with the session, if a kill left that as it was.
                write_pieces_to(self.folder / name, pieces_of(path))
                try:
                    move_file(temporary, path)
                except OSError:
                    (self.folder / name).unlink()
                    raise
            finally:
                temporary.unlink(missing_ok=True)
            sync_folder(self.folder)
            facts = {**describe_file(path, mended.header), **count_file(path)}
            self._try_update(lambda entries: _merge(entries, key, facts))
        return mended, self._archive(name)

    def remove(self, name: str) -> None:
        """
        Destroy an archive.

        Raises:
            SessionNotFoundError: There is no such archive.
        """
        self._archived_path(name).unlink()

    def superseded(self) -> Sequence[Path]:
        """Return transcripts that belong to a session and are not the one that counts: what rotations left behind."""
        return self._files.superseded()

    def close(self) -> None:
        """Do nothing: all that is open is the transcripts'."""

    # -- where things are -------------------------------------------------------------------------

    def _note_path(self, key: SessionKey) -> Path:
        return self.folder / f"{first_name(key)}.handover"

    def _put_aside(self, path: Path, reason: ArchiveReason) -> str:
        name = archive_name(path.name, reason, datetime.now(UTC), names_in(self.folder))
        move_file(path, self.folder / name)
        return name

    def _archived_path(self, name: str) -> Path:
        path = self.folder / name
        if parse_archive_name(name) is None or not path.is_file():
            raise SessionNotFoundError(name, str(self.folder), ())
        return path

    def _archive(self, name: str) -> Archive:
        named = parse_archive_name(name)
        if named is None:
            raise SessionNotFoundError(name, str(self.folder), ())
        path = self.folder / name
        header = header_of(path)
        stem = named.file.removesuffix(".jsonl")
        # One whose restoration under another key was cut off bears that key already.
        key = header.get("restoredKey") if header.get("restoredFrom") == name else header.get("sessionKey")
        return Archive(
            name=name,
            key=SessionKey(str(key or stem)),
            session_id=SessionId(str(header.get("id") or stem)),
            reason=named.reason,
            at=named.at,
            size=path.stat().st_size,
            file=named.file,
            previous=header.get("parentSession"),
        )

    # -- making and counting ----------------------------------------------------------------------

    @contextlib.contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        make_private_folder(self.folder)
        lock = WriterLock(path)
        lock.acquire()
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def _held(self, key: SessionKey) -> Iterator[Path]:
        """Hold the transcript of a session that is there."""
        path = self._files.path_of(key)
        with self._locked(path):
            # Until the lock was ours somebody may have moved it.
            if self._files.path_of(key) != path or not holds_something(path):
                raise SessionNotFoundError(key, str(self.folder), ())
            yield path

    @contextlib.contextmanager
    def _free(self, key: SessionKey) -> Iterator[Path]:
        """Hold the place of a new session."""
        path = self.folder / first_name(key)
        with self._locked(path):
            if holds_something(path) or holds_something(self._files.path_of(key)):
                raise SessionExistsError(key)
            self._tokens.pop(key, None)
            yield path

    def _make(self, key: SessionKey, header: Mapping[str, JSON], lines: Iterable[bytes]) -> SessionInfo:
        with self._free(key) as path:
            write_whole(path, header, lines)
            return self._note_made(key, path, header)

    def _succeed(self, transcript: Transcript, header: dict[str, JSON], plan: Successor) -> Path:
        key, session_id = SessionKey(str(transcript.key)), str(header["id"])
        path = self.folder / f"{iso_time().replace(':', '-').replace('.', '-')}_{session_id}.jsonl"
        # Ours before anybody can see it: whoever finds the successor waits for it, or is refused.
        lock = WriterLock(path)
        lock.acquire()
        record = None
        try:
            write_whole(path, header | {"parentBytes": transcript.path.stat().st_size}, plan.lines)
            record = FileRecord(path, lock=lock, durable=self._durable, note_path=self._note_path(key))
            loaded = record.load(whole=False)
            self._index.update(lambda entries: _point(entries, key, path.name, session_id))
        except BaseException:
            # Under its lock, so nobody goes on in it.
            path.unlink(missing_ok=True)
            if record is not None:
                record.close()
            lock.release()
            raise
        transcript.adopt(record, loaded, renamed=plan.renamed)
        return path

    def _note_made(self, key: SessionKey, path: Path, header: Mapping[str, JSON]) -> SessionInfo:
        entry = {**describe_file(path, header), **count_file(path)}
        self._try_update(lambda entries: entries.update({key: entry}))
        info = self._glimpse(key, entry)
        assert info is not None  # noqa: S101 -- it was written a moment ago, under its lock
        return info

    def _watched(self, transcript: Transcript) -> Transcript:
        """Have the index told when *transcript* is closed."""
        key, path = SessionKey(str(transcript.key)), transcript.path
        size, opened = path.stat().st_size, transcript.tally()
        entry = self._index.read().get(key, {})
        # What was not read is counted by whoever closed the session last.
        known = entry if opened.whole or entry.get("bytes") == size else None

        def closed() -> None:
            try:
                transcript.refresh()
            except (OSError, TranscriptError):
                return  # it was removed, or is a transcript no more
            if not holds_something(transcript.path):
                return
            now = transcript.tally()
            tokens = self._tokens.pop(key, None)
            noted = {} if tokens is None else {"contextTokens": tokens}
            facts = describe_file(transcript.path, transcript.header)
            if facts["bytes"] == entry.get("bytes") and facts["sessionFile"] == entry.get("sessionFile"):
                if noted:
                    self._try_update(lambda entries: entries.setdefault(key, {}).update(noted))
                return
            if now.whole and now.is_last:
                facts |= {"messages": now.messages, "compactionCount": now.compactions}
            elif known is not None and (transcript.path, now.first_id, now.is_last) == (path, opened.first_id, True):
                facts["messages"] = known.get("messages", 0) + now.messages - opened.messages
                facts["compactionCount"] = known.get("compactionCount", 0) + now.compactions - opened.compactions
            else:
                del facts["bytes"]  # whoever lists it counts it
            facts |= {} if now.name is None else {"name": now.name or None}
            facts |= noted
            self._try_update(lambda entries: _merge(entries, key, facts))

        transcript.when_closed(closed)
        return transcript

    def _info(self, key: str, entry: Mapping[str, JSON], counted: Entries) -> SessionInfo | None:
        """Return what a list shows of a session, ``None`` where it holds nothing; *counted* takes what was counted."""
        info = self._glimpse(key, entry)
        if info is None or (entry.get("bytes") == info.size and "messages" in entry):
            return info
        try:
            facts = {**describe_file(info.path, header_of(info.path)), **count_file(info.path)}
        except (OSError, TranscriptError):
            return info  # it is being moved, or is nothing to be read: no reason to hide the others
        counted[key] = facts
        return self._glimpse(key, {**entry, **facts})

    def _note_counted(self, entries: Entries, counted: Entries) -> None:
        """Let the index know counts of the transcripts that it means now: meanwhile it may have come to mean others."""
        for key, facts in counted.items():
            known = key in entries or (self.folder / first_name(key)).exists()
            if known and self._files.file_of(key, entries.get(key, {})).name == facts["sessionFile"]:
                _merge(entries, key, facts)

    def _glimpse(self, key: str, entry: Mapping[str, JSON]) -> SessionInfo | None:
        """Return what an entry says of a session; ``None`` where it holds nothing."""
        path = self._files.file_of(key, entry)
        try:
            state = path.stat()
        except OSError:
            return None
        if not state.st_size:
            return None
        return SessionInfo(
            key=SessionKey(key),
            session_id=SessionId(str(entry.get("sessionId") or path.stem)),
            path=path,
            name=entry.get("name"),
            started_at=_moment(entry.get("sessionStartedAt")),
            updated_at=_moment(state.st_mtime_ns // 1_000_000),
            messages=entry.get("messages", 0),
            compactions=entry.get("compactionCount", 0),
            context_tokens=self._tokens.get(SessionKey(key), entry.get("contextTokens")),
            size=state.st_size,
            parent=entry.get("forkedFromParent"),
            previous=entry.get("previousFile"),
        )

    def _try_update(self, change: Callable[[Entries], object]) -> None:
        """Update the index; what it says is in the transcripts too, so that a failure is no reason to stop."""
        try:
            self._index.update(change, wait_seconds=_PATIENCE_SECONDS)
        except (OSError, SessionBusyError) as error:
            _log.warning("index.unwritten", path=str(self.folder), reason=describe_error(error))


def _newest_first(infos: Iterable[SessionInfo | None]) -> list[SessionInfo]:
    found = [info for info in infos if info is not None]
    return sorted(found, key=lambda info: (info.updated_at or _NEVER, info.key), reverse=True)


def _moment(milliseconds: JSON) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def _merge(entries: Entries, key: str, facts: Mapping[str, JSON]) -> None:
    told = {"bytes": None, **facts}
    entry = entries.get(key, {}) | told
    entries[key] = {name: value for name, value in entry.items() if name not in told or value is not None}


def _point(entries: Entries, key: str, name: str, session_id: str) -> None:
    """Let a session's entry name another transcript."""
    entry = entries.setdefault(key, {})
    entry.update({"sessionFile": name, "sessionId": session_id})
    entry.pop("bytes", None)
