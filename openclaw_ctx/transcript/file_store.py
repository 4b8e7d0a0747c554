"""
A session's transcript: a JSONL v3 file that only ever grows.

The tree, the order of lines and the names of fields are the reference system's,
so that its files load here and ours load there. An append is one ``write`` of
one line; once it returns, the kernel has it (``durable``: the disk has it).
"""

import io
import os
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import attrs

from openclaw_ctx.contract import (
    JSON,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    EntryId,
    Message,
    SessionId,
    message_to_wire,
)
from openclaw_ctx.errors import SessionClosedError, TranscriptFormatError

from .entry import Entry, decode_json, encode_json, message_of
from .history import History
from .load import VERSION, Loaded, load
from .lock import WriterLock
from .paths import make_private_folder

__all__ = ["Transcript", "new_session_id"]

_ID_TRIES: Final = 100


class Transcript:
    """
    One session's record on disk, held open by its one writer.

    ``history`` is the context that a model would be sent: from the last
    compaction's summary on. ``record()`` is everything. Both are views.
    """

    def __init__(self, path: Path, *, lock: WriterLock | None, durable: bool, cwd: str | None) -> None:
        self.path = path
        self._name = f"Transcript {str(path)!r}"
        self._lock = lock
        self._warnings: list[str] = []
        self._durable = durable
        self._reading = threading.Lock()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        self._file: io.FileIO | None = io.FileIO(os.open(path, flags, 0o600), "r+", closefd=True)
        self._adopt(load(self._file), cwd=cwd)

    @classmethod
    def open(
        cls, path: Path, *, durable: bool = False, timeout_seconds: float = 0.0, cwd: str | None = None
    ) -> "Transcript":
        """
        Open *path* for appending; begin a session where there is no file.

        Args:
            path: The JSONL file. Its folder is made, private, where it is missing.
            durable: Whether an append returns only when the disk has it (fdatasync).
            timeout_seconds: How long to wait for another writer.
            cwd: Recorded in the header of a new session.

        Raises:
            SessionBusyError: Another writer holds it.
            TranscriptFormatError: The path is a symbolic link or no plain file.
        """
        make_private_folder(path.parent)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise TranscriptFormatError(str(path), "it is not a plain file, and a transcript never follows links")
        lock = WriterLock(path)
        lock.acquire(timeout_seconds=timeout_seconds)
        try:
            return cls(path, lock=lock, durable=durable, cwd=cwd)
        except BaseException:
            lock.release()
            raise

    @property
    def session_id(self) -> SessionId:
        """Names this transcript, whatever file it is in."""
        return SessionId(self._header["id"])

    @property
    def leaf_id(self) -> EntryId | None:
        """The entry that the next one will follow."""
        return self._path[-1].id if self._path else None

    @property
    def boundary_id(self) -> EntryId | None:
        """The last compaction on the active branch."""
        return self._boundary.id if self._boundary is not None else None

    @property
    def history(self) -> History:
        """The context: the last summary and what follows it. O(1)."""
        return History(self._context, self._read_message, 0, len(self._context))

    @property
    def summarised_count(self) -> int:
        """How many messages of the record the last summary stands for."""
        kept = len(self._context) - (self._boundary is not None and self._boundary.type == "compaction")
        return max(0, len(self._messages) - kept)

    def record(self, *, after: EntryId | None = None, limit: int | None = None) -> History:
        """Return the messages of the active branch behind *after*, summarised ones too; an unknown id: all."""
        start = 0
        if after is not None:
            # From the end, since who asks has seen most of it.
            for position in range(len(self._messages) - 1, -1, -1):
                if self._messages[position].id == after:
                    start = position + 1
                    break
        stop = len(self._messages) if limit is None else min(len(self._messages), start + limit)
        return History(self._messages, self._read_message, start, stop)

    def has_entry(self, entry_id: EntryId) -> bool:
        """Return whether a line of the active branch has this id; the newest are looked at first."""
        return any(entry.id == entry_id for entry in reversed(self._path))

    def nearest_on_branch(self, entry_id: EntryId) -> EntryId | None:
        """Return the entry itself or its nearest ancestor whose message is on the active branch, if any."""
        if self._messages and self._messages[-1].id == entry_id:
            return entry_id
        active = {entry.id for entry in self._messages}
        seen: set[EntryId | None] = set()
        entry = self._by_id.get(entry_id)
        while entry is not None and entry.id not in seen:
            if entry.id in active:
                return entry.id
            seen.add(entry.id)
            entry = self._by_id.get(entry.parent_id)
        return None

    def append(self, message: Message) -> Message:
        """Write *message* behind the leaf; return it with its entry id."""
        if isinstance(message, CustomMessage):
            wire = message_to_wire(message)
            del wire["role"]
            wire.pop("timestamp", None)
            entry = self._append("custom_message", wire)
        elif isinstance(message, BranchSummaryMessage):
            entry = self._append("branch_summary", {"fromId": message.from_id, "summary": message.summary})
            entry.summary = message.summary
        elif isinstance(message, CompactionSummaryMessage):
            problem = "a compaction is appended by append_compaction, which knows what it keeps"
            raise TypeError(problem)
        else:
            entry = self._append("message", {"message": message_to_wire(message)})
            if isinstance(message, BashExecutionMessage):
                entry.hide(hidden=message.exclude_from_context is True)
        entry.message = attrs.evolve(message, entry_id=entry.id)
        self._grow(entry)
        appended: Message = entry.message
        return appended

    def append_compaction(
        self, *, summary: str, first_kept_entry_id: EntryId | None, tokens_before: int, details: JSON = None
    ) -> EntryId:
        """Write that *summary* stands for what lies before *first_kept_entry_id*; return the entry's id."""
        body = {"summary": summary, "tokensBefore": tokens_before}
        entry_id = self._new_id()
        # Nothing kept is written as the boundary's own id: then the context starts at the summary.
        kept = first_kept_entry_id or entry_id
        body |= {"firstKeptEntryId": kept} | ({"details": details} if details is not None else {})
        entry = self._append("compaction", body, entry_id=entry_id)
        entry.first_kept_id = kept
        entry.summary = summary
        entry.message = CompactionSummaryMessage(summary=summary, tokens_before=tokens_before, entry_id=entry_id)
        self._grow(entry)
        return entry_id

    def branch(self, leaf_id: EntryId | None) -> None:
        """Go on from another entry; ``None`` begins a new root. Nothing is written until the next append."""
        self._set_path(self._walk(leaf_id))

    def rewind_steps(self, entry_id: EntryId) -> Sequence[tuple[Entry, JSON]]:
        """Return the active branch from *entry_id* to the leaf, with each line's data."""
        position = next((i for i, entry in enumerate(self._path) if entry.id == entry_id), len(self._path))
        return [(entry, self._read_data(entry)) for entry in self._path[position:]]

    def append_raw(self, data: JSON) -> EntryId:
        """Write a line's *data* again behind the leaf under a new id; return the id."""
        body = {key: value for key, value in data.items() if key not in {"type", "id", "parentId", "timestamp"}}
        entry = self._append(data["type"], body, timestamp=data.get("timestamp"))
        kept, summary, message = body.get("firstKeptEntryId"), body.get("summary"), body.get("message")
        entry.first_kept_id = EntryId(kept) if isinstance(kept, str) else None
        entry.summary = summary if isinstance(summary, str) else None
        if entry.is_message and not (isinstance(message, dict) and message.get("excludeFromContext") is True):
            entry.message = message_of({**data, "id": entry.id}, entry.id)
        self._grow(entry)
        return EntryId(entry.id or "")

    def take_warnings(self) -> list[str]:
        """Return what was found wrong while reading, once."""
        found, self._warnings = self._warnings, []
        return found

    def close(self) -> None:
        """Let go of file and lock. Views that were handed out can no longer read what they have not read."""
        with self._reading:
            file, self._file = self._file, None
        if file is not None:
            file.close()
        if self._lock is not None:
            self._lock.release()

    # -- reading ----------------------------------------------------------------------------------

    def _adopt(self, loaded: Loaded, *, cwd: str | None = None) -> None:
        self._loaded = loaded
        self._warnings = loaded.warnings
        self._size = loaded.size
        self._entries = loaded.entries
        self._by_id = {entry.id: entry for entry in loaded.entries}
        self._header = loaded.header or {
            "type": "session",
            "version": VERSION,
            "id": new_session_id(),
            "timestamp": _now(),
            "cwd": cwd if cwd is not None else os.getcwd(),  # noqa: PTH109 -- text goes into the header
        }
        self._migrate = loaded.size > 0 and (loaded.header is None or loaded.version < VERSION)
        self._set_path(self._walk(loaded.entries[-1].id if loaded.entries else None))

    def _walk(self, leaf_id: EntryId | None) -> list[Entry]:
        """Return the branch that ends at the leaf; a broken or circular parent ends the walk."""
        if self._entries and leaf_id == self._entries[-1].id:
            parents = [None, *(entry.id for entry in self._entries[:-1])]
            if [entry.parent_id for entry in self._entries][1:] == parents[1:]:
                return list(self._entries)  # one branch is what most files hold
        path: list[Entry] = []
        seen: set[EntryId | None] = set()
        entry = self._by_id.get(leaf_id)
        while entry is not None and entry.id not in seen:
            seen.add(entry.id)
            path.append(entry)
            entry = self._by_id.get(entry.parent_id)
        path.reverse()
        return path

    def _set_path(self, path: list[Entry]) -> None:
        self._path = path
        self._messages = [entry for entry in path if entry.is_message]
        self._boundary = next((entry for entry in reversed(path) if entry.is_boundary), None)
        self._context = _context_of(path, self._boundary)

    def _grow(self, entry: Entry) -> None:
        self._path.append(entry)
        if entry.is_message:
            self._messages.append(entry)
        if entry.is_boundary:
            self._boundary = entry
            self._context = _context_of(self._path, entry)
        elif entry.in_context:
            self._context.append(entry)

    def _read_message(self, entry: Entry) -> Message:
        if entry.message is None:
            entry.message = message_of(self._read_data(entry), entry.id)
        message: Message = entry.message
        return message

    def _read_data(self, entry: Entry) -> JSON:
        # An engine may read from its own thread while the session closes: without the lock the
        # descriptor could be another file's by then.
        with self._reading:
            if self._file is None:
                raise SessionClosedError(self._name)
            data = os.pread(self._file.fileno(), entry.length, entry.offset)
        return decode_json(data)

    # -- writing ----------------------------------------------------------------------------------

    def _append(
        self, kind: str, body: dict[str, JSON], *, entry_id: EntryId | None = None, timestamp: JSON = None
    ) -> Entry:
        if self._file is None:
            raise SessionClosedError(self._name)
        self._prepare()
        parent = self._path[-1].id if self._path else None
        entry = Entry(type=kind, id=entry_id or self._new_id(), parent_id=parent)
        line = encode_json({"type": kind, "id": entry.id, "parentId": parent, "timestamp": timestamp or _now(), **body})
        prefix = b"\n" if self._loaded.unfinished else b""
        if not self._size:
            prefix = encode_json(self._header) + b"\n"
        self._write(prefix + line + b"\n")
        self._loaded.unfinished = False
        entry.offset, entry.length = self._size - len(line) - 1, len(line)
        self._entries.append(entry)
        self._by_id[entry.id] = entry
        return entry

    def _prepare(self) -> None:
        """Bring the file into the state that an append needs, after a copy of what changes."""
        file = self._open_file()
        if os.fstat(file.fileno()).st_size != self._size:
            # Somebody without our lock has written; what they wrote is part of the record.
            leaf = self._path[-1].id if self._path else None
            self._adopt(load(file))
            if leaf is not None and leaf in self._by_id and not self._path:
                self._set_path(self._walk(leaf))
        if self._migrate:
            self._rewrite_as_current()
        torn = self._loaded.torn
        if torn is not None:
            self._keep_copy("torn", os.pread(file.fileno(), torn.length, torn.offset))
            os.truncate(file.fileno(), torn.offset)
            self._size, self._loaded.torn = torn.offset, None

    def _write(self, data: bytes) -> None:
        descriptor = self._open_file().fileno()
        written = os.write(descriptor, data)
        if written != len(data):
            os.truncate(descriptor, self._size)
            message = f"{self.path}: wrote {written} of {len(data)} bytes; the disk may be full"
            raise OSError(message)
        self._size += written
        if self._durable:
            _sync(descriptor)

    def _rewrite_as_current(self) -> None:
        """Write the file anew as version 3: a copy, a temporary file, a rename."""
        self._keep_copy("corrupt" if self._loaded.header is None else f"v{self._loaded.version}")
        temporary = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}.tmp")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:  # noqa: PTH123 -- mode
            out.write(encode_json({**self._header, "version": VERSION}) + b"\n")
            for entry in self._entries:
                data = self._read_data(entry) | {"id": entry.id, "parentId": entry.parent_id}
                if entry.first_kept_id is not None:
                    data["firstKeptEntryId"] = entry.first_kept_id
                data.pop("firstKeptEntryIndex", None)
                if isinstance(data.get("message"), dict) and data["message"].get("role") == "hookMessage":
                    data["message"] = data["message"] | {"role": "custom"}
                out.write(encode_json(data) + b"\n")
            out.flush()
            _sync(out.fileno())
        temporary.replace(self.path)
        old, self._file = self._file, io.FileIO(os.open(self.path, os.O_RDWR | os.O_APPEND), "r+", closefd=True)
        if old is not None:
            old.close()
        self._adopt(load(self._file))

    def _keep_copy(self, why: str, data: bytes | None = None) -> None:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
        copy = self.path.with_name(f"{self.path.name}.{why}-{stamp}-{secrets.token_hex(4)}")
        with open(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:  # noqa: PTH123 -- mode
            out.write(self.path.read_bytes() if data is None else data)

    def _open_file(self) -> io.FileIO:
        if self._file is None:
            raise SessionClosedError(self._name)
        return self._file

    def _new_id(self) -> EntryId:
        for _ in range(_ID_TRIES):
            candidate = EntryId(secrets.token_hex(4))
            if candidate not in self._by_id:
                return candidate
        return EntryId(str(uuid.uuid4()))


def _context_of(path: list[Entry], boundary: Entry | None) -> list[Entry]:
    """Return the entries that the model sees: the boundary's summary, what it kept, and what follows."""
    if boundary is None:
        return [entry for entry in path if entry.in_context]
    at = len(path) - 1
    while path[at] is not boundary:
        at -= 1
    kept: list[Entry] = []
    for position in range(at - 1, -1, -1):
        if path[position].id == boundary.first_kept_id:
            kept = [entry for entry in path[position:at] if entry.in_context]
            break
    following = [entry for entry in path[at + 1 :] if entry.in_context]
    head = [boundary] if boundary.type == "compaction" else []
    return head + kept + following


def new_session_id() -> SessionId:
    """Return a UUID of version 7: its order is that of time."""
    stamp = (time.time_ns() // 1_000_000) & ((1 << 48) - 1)
    value = (stamp << 80) | (0x7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return SessionId(str(uuid.UUID(int=value)))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
