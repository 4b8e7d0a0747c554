"""
A session's transcript: a JSONL v3 file that only ever grows.

The tree, the order of lines and the names of fields are the reference system's,
so that its files load here and ours load there. An append is one ``write`` of
one line; once it returns, the kernel has it (``durable``: the disk has it).
"""

import contextlib
import os
import secrets
import threading
import time
import uuid
import weakref
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import attrs

from openclaw_ctx.contract import (
    JSON,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    EntryId,
    Message,
    SessionId,
    UnknownMessage,
    message_to_wire,
)
from openclaw_ctx.errors import TranscriptFormatError

from .entry import LINE_KEYS, Entry, encode_json, message_of, read_entry
from .history import History
from .load import VERSION, load
from .lock import WriterLock
from .paths import make_private_folder
from .record_file import RecordFile, write_new_file
from .tree import Branch, walk

__all__ = ["Transcript", "new_session_id"]

# What stands on a line of its own rather than in a ``message``, and the line's type.
_OWN_LINES: Final = {CustomMessage: "custom_message", BranchSummaryMessage: "branch_summary"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Transcript:
    """
    One session's record on disk, held open by its one writer.

    ``history`` is the context that a model would be sent: from the last
    compaction's summary on. ``record()`` is everything. Both are views, to be
    read in any thread; everything else is one thread's at a time.
    """

    def __init__(self, path: Path, *, lock: WriterLock | None, durable: bool, cwd: str | None) -> None:
        self.path = path
        self._lock = lock
        self._warnings: list[str] = []
        self._durable = durable
        self._cwd = cwd
        self._header: JSON = None
        self._renamed: dict[EntryId, EntryId] = {}
        self._retired: weakref.WeakSet[RecordFile] = weakref.WeakSet()
        self._writing = threading.RLock()
        self._file = RecordFile(path)
        try:
            self._load()
        except BaseException:
            self._file.close()
            raise

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
            OSError: The operating system refuses folder or file; it names the one.
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
        return self._branch.leaf_id

    @property
    def boundary_id(self) -> EntryId | None:
        """The last compaction on the active branch."""
        return self._branch.boundary.id if self._branch.boundary is not None else None

    @property
    def history(self) -> History:
        """The context: the last summary and what follows it. O(1)."""
        context = self._branch.context
        return History(context, self._file.message, 0, len(context))

    @property
    def summarised_count(self) -> int:
        """How many messages of the record the last summary stands for."""
        return self._branch.summarised

    def record(self, *, after: EntryId | None = None, limit: int | None = None) -> History:
        """Return the messages of the active branch behind *after*, summarised ones too; an unknown id: all."""
        messages = self._branch.messages
        start = self._position_after(after) if after is not None else 0
        stop = len(messages) if limit is None else min(len(messages), start + max(0, limit))
        return History(messages, self._file.message, start, stop)

    def has_entry(self, entry_id: EntryId) -> bool:
        """Return whether a line of the active branch has this id; the newest are looked at first."""
        return entry_id in self._by_id and any(entry.id == entry_id for entry in reversed(self._branch.path))

    def nearest_on_branch(self, entry_id: EntryId) -> EntryId | None:
        """Return the entry itself or its nearest ancestor whose message is on the active branch, if any."""
        messages = self._branch.messages
        # From the end: each turn asks for the entry that was told last, which stands just before it.
        if entry_id in self._by_id and any(entry.id == entry_id for entry in reversed(messages)):
            return entry_id
        active = {entry.id for entry in messages}
        return next((entry.id for entry in reversed(walk(self._entries, entry_id)) if entry.id in active), None)

    def append(self, message: Message) -> Message:
        """Write *message* behind the leaf; return it as it will be read again, with its entry id."""
        if isinstance(message, CompactionSummaryMessage):
            problem = "a compaction is appended by append_compaction, which knows what it keeps"
            raise TypeError(problem)
        kind, wire = _OWN_LINES.get(type(message)), message_to_wire(message)
        with self._writing:
            if isinstance(message, UnknownMessage):
                entry = self._append("message", {"message": wire})
                entry.message = message_of({"type": "message", "message": wire}, entry.id)
            elif kind is None or LINE_KEYS & message.extra.keys():
                entry = self._append("message", {"message": wire})
                entry.message = attrs.evolve(message, entry_id=entry.id)
            else:
                del wire["role"]
                stamp = _iso(wire.pop("timestamp", None))
                entry = self._append(kind, wire, timestamp=stamp)
                entry.message = message_of({"type": kind, "timestamp": stamp, **wire}, entry.id)
            self._branch.grow(entry)
        appended: Message = entry.message
        return appended

    def append_compaction(
        self, *, summary: str, first_kept_entry_id: EntryId | None, tokens_before: int, details: JSON = None
    ) -> EntryId:
        """Write that *summary* stands for what lies before *first_kept_entry_id*; return the entry's id."""
        with self._writing:
            entry_id = self.new_id()
            # Nothing kept is written as the boundary's own id: then the context starts at the summary.
            kept = first_kept_entry_id or entry_id
            body = {"summary": summary, "firstKeptEntryId": kept, "tokensBefore": tokens_before}
            body |= {"details": details} if details is not None else {}
            self._branch.grow(self._append("compaction", body, entry_id=entry_id))
        return entry_id

    def append_branch(
        self, parent_id: EntryId | None, lines: Sequence[dict[str, JSON]], renamed: Mapping[EntryId, EntryId]
    ) -> None:
        """
        Write *lines* behind *parent_id* and make the last one the leaf: in one write, so all or none.

        Args:
            parent_id: On the tree; ``None`` begins a new root.
            lines: Each with its ``type``, a fresh ``id`` and its ``parentId``.
            renamed: By the id of a line that is left behind, the id of the one that stands for it.
        """
        with self._writing:
            self._prepare()
            branch = self._branch_to(parent_id)
            for entry in self._write(lines):
                branch.grow(entry)
            self._branch = branch
            self._renamed.update(renamed)

    def newest_of(self, entry_id: EntryId) -> EntryId:
        """Return the entry that stands for this one since it was last written again; itself where it never was."""
        while entry_id in self._renamed:
            entry_id = self._renamed[entry_id]
        return entry_id

    def branch(self, leaf_id: EntryId | None) -> None:
        """
        Go on from another entry; ``None`` begins a new root. Nothing is written until the next append.

        Raises:
            LookupError: There is no such entry.
        """
        with self._writing:
            self._branch = self._branch_to(leaf_id)

    def refresh(self) -> None:
        """
        Take in what somebody without our lock has written; the leaf is then the file's last line.

        Raises:
            FileNotFoundError: The file was removed.
        """
        with self._writing:
            size = self._file.size_on_disk()
            if size == self._size:
                return
            if size is None or self._outdated:
                fresh = RecordFile(self.path)
                # Views that were handed out read on where their messages are; the last of them takes the file along.
                weakref.finalize(self._file, self._file.file.close)
                self._retired.add(self._file)
                self._file = fresh
            self._load()

    def rewind_steps(self, entry_id: EntryId) -> Sequence[tuple[Entry, JSON]]:
        """Return the active branch from *entry_id* to the leaf, with each line's data."""
        position = self._place_of(entry_id)
        steps = [] if position is None else self._branch.path[position:]
        return [(entry, self._file.data(entry)) for entry in steps]

    def parent_on_branch(self, entry_id: EntryId) -> EntryId | None:
        """Return what stands before an entry on the active branch; ``None`` before its root."""
        position = self._place_of(entry_id)
        return self._branch.path[position - 1].id if position else None

    def first_message_of(self, entry_ids: Collection[str]) -> EntryId | None:
        """Return the first of these that is a ``message`` line on the active branch; found from the leaf."""
        wanted = {entry_id for entry_id in entry_ids if entry_id in self._by_id}
        first: EntryId | None = None
        for entry in reversed(self._branch.path):
            if not wanted:
                break
            if entry.id in wanted:
                wanted.remove(entry.id)
                first = entry.id if entry.type == "message" else first
        return first

    def new_id(self, taken: Container[str] = ()) -> EntryId:
        """Return an id that no entry has, and that is not *taken* either."""
        candidate = EntryId(os.urandom(4).hex())
        if candidate in self._by_id or candidate in taken:
            return EntryId(str(uuid.uuid4()))
        return candidate

    def take_warnings(self) -> list[str]:
        """Return what was found wrong while reading, once."""
        found, self._warnings = self._warnings, []
        return found

    def close(self) -> None:
        """Let go of file and lock. Views that were handed out can no longer read what they have not read."""
        with self._writing:
            for file in (self._file, *self._retired):
                file.close()
            if self._lock is not None:
                self._lock.release()

    # -- reading ----------------------------------------------------------------------------------

    def _load(self) -> None:
        loaded = load(self._file.file)
        self._warnings.extend(loaded.warnings)
        self._size, self._torn, self._unfinished = loaded.size, loaded.torn, loaded.unfinished
        self._outdated = loaded.outdated
        self._keeps_lines = loaded.version > 1 and not loaded.rechained
        self._entries = loaded.entries
        self._by_id = {entry.id: entry for entry in loaded.entries}
        self._header = loaded.header or self._header or self._new_header()
        entries = loaded.entries
        path = list(entries) if loaded.is_chain else walk(entries, entries[-1].id if entries else None)
        self._branch = Branch(path, self._file.message)

    def _new_header(self) -> dict[str, JSON]:
        cwd = os.getcwd() if self._cwd is None else self._cwd  # noqa: PTH109 -- text goes into the header
        return {"type": "session", "version": VERSION, "id": new_session_id(), "timestamp": _iso(), "cwd": cwd}

    def _branch_to(self, leaf_id: EntryId | None) -> Branch:
        """Return a branch of its own that ends at an entry; what the active one shares with it is not walked again."""
        if leaf_id is None:
            return Branch([], self._file.message)
        leaf = self._by_id.get(leaf_id)
        if leaf is None:
            problem = f"{self.path}: no entry {leaf_id!r}"
            raise LookupError(problem)
        path = self._branch.path
        # A walk that a circle ended would end elsewhere, had it begun elsewhere.
        if path and path[0].parent_id not in self._by_id:
            for position in range(len(path) - 1, -1, -1):
                if path[position] is leaf:
                    return self._branch.up_to(position + 1)
        return Branch(walk(self._entries, leaf_id), self._file.message)

    def _place_of(self, entry_id: EntryId) -> int | None:
        """Return where on the active branch an entry is; from the leaf, since old ones are seldom asked for."""
        path = self._branch.path
        return next((i for i in range(len(path) - 1, -1, -1) if path[i].id == entry_id), None)

    def _position_after(self, entry_id: EntryId) -> int:
        """Return how many messages stand up to the entry; from the end, since who asks has seen most of them."""
        path, position = self._branch.path, len(self._branch.messages)
        for entry in reversed(path) if entry_id in self._by_id else ():
            if entry.id == entry_id:
                return position
            position -= entry.is_message
        return 0

    # -- writing ----------------------------------------------------------------------------------

    def _append(
        self, kind: str, body: dict[str, JSON], *, entry_id: EntryId | None = None, timestamp: str | None = None
    ) -> Entry:
        """Write one line behind the leaf; the entry on it is not on the branch yet."""
        self._prepare()
        line = {
            "type": kind,
            "id": entry_id or self.new_id(),
            "parentId": self._branch.leaf_id,
            "timestamp": timestamp or _iso(),
            **body,
        }
        return self._write([line])[0]

    def _write(self, lines: Sequence[dict[str, JSON]]) -> list[Entry]:
        """Write whole lines, all or none; return the entries on them, as they will be read again."""
        prefix = b"\n" if self._unfinished else b""
        if not self._size:
            prefix = encode_json(self._header) + b"\n"
        encoded = [encode_json(line) for line in lines]
        offset = self._size + len(prefix)
        data = prefix + b"\n".join(encoded) + b"\n"
        self._file.append(data, size=self._size)
        is_new, self._size, self._unfinished = not self._size, self._size + len(data), False
        entries = []
        for text in encoded:
            entry = read_entry(text)
            entry.offset, entry.length = offset, len(text)
            offset += len(text) + 1
            self._entries.append(entry)
            self._by_id[entry.id] = entry
            entries.append(entry)
        if self._durable:
            self._file.sync(folder_too=is_new)
        return entries

    def _prepare(self) -> None:
        """Bring the file into the state that an append needs, after a copy of what changes."""
        self.refresh()
        if self._outdated:
            self._rewrite_as_current()
        if self._torn is not None:
            torn = self._torn
            self._keep_copy("torn", torn.offset, torn.length)
            self._file.truncate(torn.offset)
            self._size, self._torn = torn.offset, None

    def _rewrite_as_current(self) -> None:
        """Write the file anew as version 3: a copy, a temporary file, a rename."""
        self._keep_copy(self._outdated, 0, self._size)
        self._header = self._header | {"version": max(VERSION, self._header.get("version") or 0)}
        moved: list[tuple[Entry, int, int]] = []
        size = 0

        def lines() -> Iterator[bytes]:
            nonlocal size
            header = encode_json(self._header) + b"\n"
            size = len(header)
            yield header
            for entry in self._entries:
                line = self._current_line(entry)
                moved.append((entry, size, len(line)))
                size += len(line) + 1
                yield line + b"\n"

        temporary = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}.tmp")
        write_new_file(temporary, lines())
        self._file.replace_by(temporary, moved)
        self._size, self._outdated, self._torn, self._unfinished = size, "", None, False

    def _current_line(self, entry: Entry) -> bytes:
        """Return an entry's line in the newest version; its own bytes where there is nothing to change."""
        line = self._file.line(entry)
        if self._keeps_lines and b'"hookMessage"' not in line:
            return line
        data = self._file.data(entry) | {"id": entry.id, "parentId": entry.parent_id}
        if entry.first_kept_id is not None:
            data["firstKeptEntryId"] = entry.first_kept_id
        data.pop("firstKeptEntryIndex", None)
        if isinstance(data.get("message"), dict) and data["message"].get("role") == "hookMessage":
            data["message"] = data["message"] | {"role": "custom"}
        return encode_json(data)

    def _keep_copy(self, why: str, offset: int, length: int) -> None:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
        copy = self.path.with_name(f"{self.path.name}.{why}-{stamp}-{secrets.token_hex(4)}")
        write_new_file(copy, self._file.pieces(offset, length))


def new_session_id() -> SessionId:
    """Return a UUID of version 7: its order is that of time."""
    stamp = (time.time_ns() // 1_000_000) & ((1 << 48) - 1)
    value = (stamp << 80) | (0x7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return SessionId(str(uuid.UUID(int=value)))


def _iso(milliseconds: float | None = None) -> str:
    """Return a moment, now by default, as lines have it; one that no calendar has is now too."""
    moment = datetime.now(UTC)
    if milliseconds is not None:
        with contextlib.suppress(OverflowError, ValueError):
            moment = _EPOCH + timedelta(milliseconds=int(milliseconds))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
