"""
A session's transcript: a tree of lines that only ever grows, as a conversation.

The tree, the order of lines and the names of fields are the reference system's,
so that its files load here and ours load there. Where the lines are is the
:class:`~.record.Record`'s to know.
"""

import os
import threading
import uuid
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from openclaw_ctx.contract import (
    JSON,
    EntryId,
    Message,
    SessionId,
    SessionKey,
)
from openclaw_ctx.errors import EntryNotFoundError

from .entry import Entry
from .file_record import FileRecord
from .header import iso_time, new_header
from .history import History
from .lines import body_of
from .load import Loaded
from .record import Record
from .told import Tally, labels_told, name_told
from .tree import Branch, instructions, walk

__all__ = ["Transcript"]


_Plan = TypeVar("_Plan")


class Transcript:
    """
    One session's record, held open by its one writer.

    ``history`` is the context that a model would be sent: from the last
    compaction's summary on. ``record()`` is everything. Both are views, to be
    read in any thread; everything else is one thread's at a time.

    A long transcript that was compacted is opened from its end: what lies before
    the context is read when somebody asks for it, once.
    """

    def __init__(
        self,
        record: Record,
        *,
        key: SessionKey | None = None,
        header: Mapping[str, JSON] | None = None,
    ) -> None:
        """
        Make a conversation of a record's lines.

        Args:
            record: The lines. Closed with the transcript.
            key: Whose they are, where a store knows.
            header: For one that is empty; see :func:`new_header`.
        """
        self.key = key
        self._record = record
        self._closing: Callable[[], None] | None = None
        self._new = header
        self._header: Mapping[str, JSON] | None = None
        self._warnings: list[str] = []
        self._entries: list[Entry] = []
        self._overtaken = False
        self._renamed: dict[EntryId, EntryId] = {}
        self._writing = threading.RLock()
        try:
            self._take(record.load(whole=False))
        except BaseException:
            record.close()
            raise

    @classmethod
    def open(
        cls, path: Path, *, durable: bool = False, timeout_seconds: float = 0.0, cwd: str | None = None
    ) -> "Transcript":
        """
        Open the file at *path* for appending; begin a session where there is none.

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
        record = FileRecord.open(path, durable=durable, timeout_seconds=timeout_seconds)
        return cls(record, header=new_header(cwd=cwd))

    @classmethod
    def read(cls, path: Path) -> "Transcript":
        """
        Open the file at *path* for reading, as it is now, whoever writes it.

        Raises:
            FileNotFoundError: There is none.
            TranscriptFormatError: The path is a symbolic link or no plain file.
        """
        return cls(FileRecord(path, read_only=True))

    @property
    def path(self) -> Path:
        """The file; a name that no file has where the store keeps no files."""
        return self._record.path

    @property
    def size(self) -> int:
        """Bytes of the record, lines of every branch."""
        return self._record.size

    @property
    def header(self) -> Mapping[str, JSON]:
        """The first line: session id, time, folder, and where it goes on from."""
        if self._header is None:
            self._header = self._new if self._new is not None else new_header()
        return self._header

    @property
    def session_id(self) -> SessionId:
        """Names this transcript, whatever file it is in."""
        return SessionId(self.header["id"])

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
        return History(context, self._record.read, 0, len(context))

    @property
    def summarised_count(self) -> int:
        """How many messages of the record the last summary stands for."""
        self._read_whole()
        return self._branch.summarised

    @property
    def name(self) -> str | None:
        """The title that the session was given last."""
        told = name_told(self._entries, self._record.data)
        if told is None:
            self._read_whole()
            told = name_told(self._entries, self._record.data)
        return told or None

    def tally(self, *, whole: bool = False) -> Tally:
        """Return counts of what has been read, which is all of it where *whole* is asked for."""
        if whole:
            self._read_whole()
        path = self._branch.path
        return Tally(
            messages=len(self._branch.messages),
            compactions=sum(entry.is_boundary for entry in path),
            name=name_told(self._entries, self._record.data),
            whole=self._whole,
            first_id=path[0].id if path else None,
            is_last=path[-1:] == self._entries[-1:],
        )

    @property
    def labels(self) -> dict[EntryId, str]:
        """The label of each entry that has one."""
        self._read_whole()
        return labels_told(self._entries, self._record.data)

    def record(self, *, after: EntryId | None = None, limit: int | None = None) -> History:
        """Return the messages of the active branch behind *after*, summarised ones too; an unknown id: all."""
        start = self._position_after(after)
        messages = self._branch.messages
        stop = len(messages) if limit is None else min(len(messages), start + max(0, limit))
        return History(messages, self._record.read, start, stop)

    def entries(self) -> Iterator[tuple[Entry, JSON]]:
        """Yield every entry of every branch in the order of the record, with all that is on its line."""
        self._read_whole()
        for entry in list(self._entries):
            yield entry, self._record.data(entry)

    def lines(self) -> Iterator[bytes]:
        """Yield every entry's line as it is, without its end."""
        self._read_whole()
        for entry in list(self._entries):
            yield self._record.line(entry)

    def active_branch(self) -> Sequence[Entry]:
        """Return the entries from the root to the leaf."""
        self._read_whole()
        return tuple(self._branch.path)

    def has_entry(self, entry_id: EntryId) -> bool:
        """Return whether a line of the active branch has this id; the newest are looked at first."""
        return self._find(entry_id) is not None

    def nearest_on_branch(self, entry_id: EntryId) -> EntryId | None:
        """Return the entry itself or its nearest ancestor whose message is on the active branch, if any."""
        found = self._find(entry_id)
        if found is not None and found.is_message:
            return entry_id
        self._read_whole()
        active = {entry.id for entry in self._branch.messages}
        return next((entry.id for entry in reversed(walk(self._entries, entry_id)) if entry.id in active), None)

    def append(self, message: Message) -> Message:
        """Write *message* behind the leaf; return it as it will be read again, with its entry id."""
        body = body_of(message)
        with self._writing:
            entry = self._append(body.type, body.data, timestamp=body.timestamp)
            entry.message = body.message(message, entry.id)
            self._branch.grow(entry)
        appended: Message = entry.message
        return appended

    def append_compaction(
        self, *, summary: str, first_kept_entry_id: EntryId | None, tokens_before: int, details: JSON = None
    ) -> EntryId:
        """Write that *summary* stands for what lies before *first_kept_entry_id*; return the entry's id."""
        with self._writing:
            self.refresh()
            if first_kept_entry_id is not None and first_kept_entry_id not in self._by_id:
                self._read_whole()  # it keeps more than the context had
            entry_id = self.new_id()
            # Nothing kept is written as the boundary's own id: then the context starts at the summary.
            kept = first_kept_entry_id or entry_id
            body = {"summary": summary, "firstKeptEntryId": kept, "tokensBefore": tokens_before}
            body |= {"details": details} if details is not None else {}
            if self._whole and instructions(self._branch.path, self._record.read):
                # Whoever reads the file from its end learns that there is more to its context.
                body["instructions"] = True
            # Not in one line: this may read anew, and then the branch is another one.
            entry = self._append("compaction", body, entry_id=entry_id)
            self._branch.grow(entry)
        return entry_id

    def append_custom(self, custom_type: str, data: JSON = None) -> EntryId:
        """Write state of somebody's own, which no model sees; return the entry's id."""
        return self._append_state("custom", {"customType": custom_type, "data": data})

    def append_label(self, target_id: EntryId, label: str | None) -> EntryId:
        """
        Name an entry, on whatever branch it is; ``None`` takes its name away. Return the new entry's id.

        Raises:
            EntryNotFoundError: There is no such entry.
        """
        if target_id not in self._by_id:
            self._read_whole()
        if target_id not in self._by_id:
            raise EntryNotFoundError(str(self.path), target_id)
        return self._append_state("label", {"targetId": target_id, **({"label": label} if label else {})})

    def append_session_info(self, *, name: str) -> EntryId:
        """Give the session a title; an empty one takes it away. Return the entry's id."""
        return self._append_state("session_info", {"name": name})

    def append_branch(
        self, parent_id: EntryId | None, lines: Sequence[dict[str, JSON]], renamed: Mapping[EntryId, EntryId]
    ) -> None:
        """
        Write *lines* behind *parent_id* and make the last one the leaf: all of them or none, whatever happens.

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
            EntryNotFoundError: There is no such entry.
        """
        with self._writing:
            self._branch = self._branch_to(leaf_id)

    def refresh(self) -> None:
        """
        Take in what somebody without our lock has written; the leaf is then the last line.

        Raises:
            FileNotFoundError: The record was removed.
        """
        with self._writing:
            loaded = self._record.refresh()
            if loaded is not None:
                self._take(loaded)
            elif self._overtaken:
                self._overtaken = False
                self._branch = self._branch_to(self._entries[-1].id)

    def rewind_steps(self, entry_id: EntryId) -> Sequence[tuple[Entry, JSON]]:
        """Return the active branch from *entry_id* to the leaf, with each line's data."""
        position = self._place_of(entry_id)
        steps = [] if position is None else self._branch.path[position:]
        return [(entry, self._record.data(entry)) for entry in steps]

    def parent_on_branch(self, entry_id: EntryId) -> EntryId | None:
        """Return what stands before an entry on the active branch; ``None`` before its root."""
        position = self._place_of(entry_id)
        if position == 0 and not self._whole:
            self._read_whole()
            position = self._place_of(entry_id)
        return self._branch.path[position - 1].id if position else None

    def first_message_of(self, entry_ids: Collection[str]) -> EntryId | None:
        """Return the first of these that is a ``message`` line on the active branch; found from the leaf."""
        wanted = set(entry_ids)
        if not wanted <= self._by_id.keys():
            self._read_whole()
            wanted = {entry_id for entry_id in wanted if entry_id in self._by_id}
        return self._branch.first_message_of(wanted)

    def new_id(self, taken: Container[str] = ()) -> EntryId:
        """Return an id that no entry has, and that is not *taken* either."""
        # Of entries that were not read nobody knows the ids: twice the digits keep them apart.
        candidate = EntryId(os.urandom(4 if self._whole else 8).hex())
        if candidate in self._by_id or candidate in taken:
            return EntryId(str(uuid.uuid4()))
        return candidate

    def take_warnings(self) -> list[str]:
        """Return what was found wrong while reading, once."""
        found, self._warnings = self._warnings, []
        return found

    def note(self) -> bytes | None:
        """Return the small value that a host keeps beside the session, or ``None``."""
        return self._record.note()

    def set_note(self, value: bytes) -> None:
        """
        Keep a small value beside the session: whole, or not at all.

        Raises:
            OSError: It could not be kept.
        """
        self._record.set_note(value)

    def adopt(self, record: Record, loaded: Loaded, *, renamed: Mapping[EntryId, EntryId]) -> None:
        """
        Go on in *record*, which holds the same conversation; views of the old one stay readable.

        The old record's lock is let go.

        Args:
            record: Of the same session, open for writing.
            loaded: What it holds.
            renamed: By the id of an entry that it lacks, the id of the one that stands for it.
        """
        with self._writing:
            old, self._record = self._record, record
            self._take(loaded)
            self._renamed.update(renamed)
            old.retire()

    def when_closed(self, tell: Callable[[], None]) -> None:
        """Have *tell* called once, right before the record is let go."""
        self._closing = tell

    def close(self) -> None:
        """Let go of the record. Views that were handed out can no longer read what they have not read."""
        with self._writing:
            closing, self._closing = self._closing, None
            try:
                if closing is not None:
                    closing()
            finally:
                self._record.close()

    def planned(self, plan: Callable[..., _Plan]) -> _Plan:
        """Return what *plan* makes of all entries and the active branch; see :mod:`~.successor`."""
        self._read_whole()
        return plan(self._entries, self._branch.path, data=self._record.data, line=self._record.line)

    # -- reading ----------------------------------------------------------------------------------

    def _take(self, loaded: Loaded) -> None:
        """Take in what a record holds; its last line is the leaf."""
        self._warnings.extend(loaded.warnings)
        self._whole = loaded.whole
        self._overtaken = False
        self._entries = entries = loaded.entries
        self._by_id = {entry.id: entry for entry in entries}
        self._header = loaded.header or self._header
        path = list(entries) if loaded.is_chain else walk(entries, entries[-1].id if entries else None)
        self._branch = Branch(path, self._record.read, is_whole=loaded.whole)

    def _read_whole(self) -> None:
        """Read what lies before the context too, where that has not been done; the leaf stays where it is."""
        if self._whole:
            return
        with self._writing:
            read = {entry.offset: entry.message for entry in self._branch.path}
            leaf_id, last = self.leaf_id, self._entries[-1]
            self._take(self._record.load(whole=True))
            # What others wrote meanwhile has been read with it, and is the leaf at the next refresh, not before.
            self._overtaken = self._entries[-1].offset != last.offset
            for entry in self._branch.path:
                entry.message = read.get(entry.offset)
            if leaf_id != self.leaf_id and leaf_id in self._by_id:
                self._branch = self._branch_to(leaf_id)

    def _find(self, entry_id: EntryId) -> Entry | None:
        """Return an entry of the active branch; the newest are looked at first."""
        if entry_id not in self._by_id:
            self._read_whole()
        if entry_id not in self._by_id:
            return None
        place = self._branch.place_of(entry_id)
        return None if place is None else self._branch.path[place]

    def _branch_to(self, leaf_id: EntryId | None) -> Branch:
        """Return a branch of its own that ends at an entry; what the active one shares with it is not walked again."""
        if leaf_id is None:
            self._read_whole()
            return Branch([], self._record.read)
        if leaf_id not in self._by_id:
            self._read_whole()
        leaf = self._by_id.get(leaf_id)
        if leaf is None:
            raise EntryNotFoundError(str(self.path), leaf_id)
        path = self._branch.path
        # A walk that a circle ended would end elsewhere, had it begun elsewhere.
        if path and path[0].parent_id not in self._by_id:
            for position in range(len(path) - 1, -1, -1):
                if path[position] is leaf:
                    return self._branch.up_to(position + 1)
                if path[position].is_boundary and not self._whole:
                    # What an earlier boundary kept lies further back than what has been read.
                    self._read_whole()
                    return self._branch_to(leaf_id)
        return Branch(walk(self._entries, leaf_id), self._record.read)

    def _place_of(self, entry_id: EntryId) -> int | None:
        """Return where on the active branch an entry is; from the leaf, since old ones are seldom asked for."""
        if entry_id not in self._by_id:
            self._read_whole()
        return self._branch.place_of(entry_id)

    def _position_after(self, entry_id: EntryId | None) -> int:
        """Return how many messages stand up to the entry; from the end, since who asks has seen most of them."""
        if entry_id is None or entry_id not in self._by_id:
            self._read_whole()
        return 0 if entry_id is None or entry_id not in self._by_id else self._branch.messages_up_to(entry_id)

    # -- writing ----------------------------------------------------------------------------------

    def _append_state(self, kind: str, body: dict[str, JSON]) -> EntryId:
        with self._writing:
            entry = self._append(kind, body)
            self._branch.grow(entry)
        return EntryId(entry.id or "")

    def _append(
        self, kind: str, body: dict[str, JSON], *, entry_id: EntryId | None = None, timestamp: str | None = None
    ) -> Entry:
        """Write one line behind the leaf; the entry on it is not on the branch yet."""
        self._prepare()
        line = {
            "type": kind,
            "id": entry_id or self.new_id(),
            "parentId": self._branch.leaf_id,
            "timestamp": timestamp or iso_time(),
            **body,
        }
        return self._write([line])[0]

    def _prepare(self) -> None:
        self.refresh()
        while not self._record.prepare(self.header, self._entries):
            self.refresh()

    def _write(self, lines: Sequence[Mapping[str, JSON]]) -> list[Entry]:
        """Write whole lines, all or none; return the entries on them, as they will be read again."""
        entries = self._record.append(self.header, lines)
        for entry in entries:
            self._entries.append(entry)
            self._by_id[entry.id] = entry
        return entries
