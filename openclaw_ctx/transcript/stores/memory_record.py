"""
The lines of a transcript that is in no file: what a record is, without a disk.

A line is kept as the bytes that a file would hold, so that what is read again is
what a file would give. An entry's ``offset`` is the number of its line.
"""

import errno
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from openclaw_ctx.contract import JSON, Message, SessionKey, UnknownMessage
from openclaw_ctx.errors import ReadOnlyTranscriptError, SessionBusyError, SessionClosedError
from openclaw_ctx.transcript.entry import Entry, decode_json, encode_json, message_of, read_entry
from openclaw_ctx.transcript.load import Loaded
from openclaw_ctx.transcript.tree import is_chain

__all__ = ["Lines", "MemoryRecord", "Shelf"]


@attrs.define(eq=False, kw_only=True)
class Lines:
    """
    The lines of one transcript, shared by whoever has it open.

    Attributes:
        path: A name that no file has.
        header: The first line; ``None`` until something is written.
        lines: Every other one. Grows only.
        size: Bytes of all of them, as they would be in a file.
        written_at: When something was written last.
        written: The number of that among all writes of the store: a clock may step back.
        writer: Who alone may write.
    """

    path: Path
    header: bytes | None = None
    lines: list[bytes] = attrs.field(factory=list)
    size: int = 0
    written_at: datetime | None = None
    written: int = -1
    writer: "MemoryRecord | None" = None

    def write(self, header: bytes, lines: Sequence[bytes], *, number: int) -> None:
        """Put *lines* behind the last one; *header* before them where there is none yet."""
        if self.header is None:
            self.header, self.size = header, len(header) + 1
        self.written_at, self.written = datetime.now(UTC), number
        self.lines.extend(lines)
        self.size += sum(map(len, lines)) + len(lines)

    def said_in_header(self) -> dict[str, JSON]:
        """Return the first line; empty where nothing was written."""
        header: dict[str, JSON] = {} if self.header is None else decode_json(self.header)
        return header


@attrs.define(eq=False, kw_only=True)
class Shelf:
    """
    What the records of one store share.

    Attributes:
        lock: Held by whoever looks at any of it, for as long as that takes.
        at: What is at each path now.
        notes: The small value beside each session.
        writes: Numbers of writes.
    """

    lock: Any = attrs.field(factory=threading.RLock)
    at: dict[Path, Lines] = attrs.field(factory=dict)
    notes: dict[SessionKey, bytes] = attrs.field(factory=dict)
    writes: Iterator[int] = attrs.field(factory=itertools.count)


class MemoryRecord:
    """A :class:`~.record.Record` on a shelf."""

    def __init__(self, shelf: Shelf, lines: Lines, key: SessionKey, *, read_only: bool = False) -> None:
        """
        Open *lines*.

        Raises:
            SessionBusyError: They are to be written, and somebody else does that.
        """
        self._shelf = shelf
        self._key = key
        self._read_only = read_only
        self._reader = _Reader(lines)
        self._retired: weakref.WeakSet[_Reader] = weakref.WeakSet()
        self._size = 0
        with shelf.lock:
            if not read_only:
                if lines.writer is not None:
                    raise SessionBusyError(str(lines.path), "another session", 0.0)
                lines.writer = self

    @property
    def path(self) -> Path:
        """A name that no file has."""
        return self._reader.path

    @property
    def read(self) -> Callable[[Entry], Message]:
        """Reads messages in the lines that were loaded last."""
        return self._reader.message

    @property
    def size(self) -> int:
        """Bytes of the lines, as a file would have them."""
        return self._reader.lines.size

    def load(self, *, whole: bool) -> Loaded:  # noqa: ARG002 -- all of it is at hand
        """Return what is there: every entry, always."""
        with self._shelf.lock:
            held = self._reader.lines
            header, lines, self._size = held.said_in_header(), held.lines[:], held.size
        entries = [_entry_on(line, number) for number, line in enumerate(lines)]
        return Loaded(header=header or None, entries=entries, is_chain=is_chain(entries), size=self._size)

    def refresh(self) -> Loaded | None:
        """Return what is at the path, where it is more, or something else."""
        with self._shelf.lock:
            now = self._shelf.at.get(self.path)
            if now is None:
                raise FileNotFoundError(errno.ENOENT, "the transcript was put aside", str(self.path))
            if not self._reader.reads(now):
                self._retired.add(self._reader)
                self._reader = _Reader(now)
            elif now.size == self._size:
                return None
            return self.load(whole=False)

    def prepare(self, header: Mapping[str, JSON], entries: Sequence[Entry]) -> bool:  # noqa: ARG002 -- nothing breaks here
        """Refuse where it was opened for reading; else an append needs nothing."""
        if self._read_only:
            raise ReadOnlyTranscriptError(str(self.path))
        return True

    def append(self, header: Mapping[str, JSON], lines: Sequence[Mapping[str, JSON]]) -> list[Entry]:
        """Keep lines behind the last one, all or none."""
        if self._read_only:
            raise ReadOnlyTranscriptError(str(self.path))
        first = encode_json(header)
        encoded = [encode_json(_unnumbered(line)) for line in lines]
        with self._shelf.lock:
            held = self._reader.lines
            entries = [_entry_on(line, number) for number, line in enumerate(encoded, len(held.lines))]
            held.write(first, encoded, number=next(self._shelf.writes))
            self._size = held.size
        return entries

    def data(self, entry: Entry) -> JSON:
        """Return all that is on the line of an entry."""
        return self._reader.data(entry)

    def line(self, entry: Entry) -> bytes:
        """Return the line of an entry."""
        return self._reader.line(entry)

    def note(self) -> bytes | None:
        """Return what is kept beside the session."""
        with self._shelf.lock:
            return self._shelf.notes.get(self._key)

    def set_note(self, value: bytes) -> None:
        """Keep *value* beside the session."""
        with self._shelf.lock:
            self._shelf.notes[self._key] = bytes(value)

    def retire(self) -> None:
        """Let somebody else write; views that were handed out read on."""
        with self._shelf.lock:
            held = self._reader.held
            if held is not None and held.writer is self:
                held.writer = None

    def close(self) -> None:
        """Let somebody else write, and read no more."""
        with self._shelf.lock:
            self.retire()
            for reader in (self._reader, *self._retired):
                reader.held = None


class _Reader:
    """
    Reads lines until it is closed.

    Attributes:
        held: The lines; ``None`` once it is closed.
    """

    def __init__(self, lines: Lines) -> None:
        self.path = lines.path
        self.held: Lines | None = lines

    @property
    def lines(self) -> Lines:
        """
        The lines.

        Raises:
            SessionClosedError: They were let go.
        """
        held = self.held
        if held is None:
            name = f"Transcript {str(self.path)!r}"
            raise SessionClosedError(name)
        return held

    def reads(self, lines: Lines) -> bool:
        """Return whether these are the lines, or they were let go, after which no others are looked for."""
        return self.held is None or self.held is lines

    def line(self, entry: Entry) -> bytes:
        """Return the line of *entry*."""
        return self.lines.lines[entry.offset]

    def data(self, entry: Entry) -> JSON:
        """Return all that is on the line of *entry*; a line that cannot be read whole says so."""
        try:
            return decode_json(self.line(entry))
        except ValueError as error:
            return {"type": entry.type, "id": entry.id, "parentId": entry.parent_id, "unreadable": str(error)}

    def message(self, entry: Entry) -> Message:
        """Return the message of *entry*, read at the first time."""
        if entry.message is None:
            try:
                entry.message = message_of(self.data(entry), entry.id)
            except RecursionError:
                entry.message = UnknownMessage(data={"type": entry.type}, entry_id=entry.id)
        message: Message = entry.message
        return message


def _entry_on(line: bytes, number: int) -> Entry:
    entry = read_entry(line)
    entry.offset, entry.length = number, len(line)
    return entry


def _unnumbered(line: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return *line* without how many were once written with it: what is kept here is never cut off."""
    return {key: value for key, value in line.items() if key != "more"} if "more" in line else line
