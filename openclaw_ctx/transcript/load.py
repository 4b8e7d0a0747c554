"""Reading a transcript file into entries, whatever state it was left in."""

import contextlib
import io
from itertools import islice
from typing import Final

import attrs
import msgspec

from openclaw_ctx.contract import JSON, EntryId

from .entry import Entry, decode_entry, decode_json, is_record_behind, read_entry, record_starts
from .tree import is_chain

__all__ = ["VERSION", "Loaded", "Tail", "load"]

VERSION: Final = 3
_CHUNK_BYTES: Final = 1 << 18
_MAX_WARNINGS: Final = 20


@attrs.frozen
class Tail:
    """Bytes behind the last whole line that are no record: what a crash left."""

    offset: int
    length: int


@attrs.define(kw_only=True)
class Loaded:
    """
    What a file holds.

    Attributes:
        header: The ``session`` line, wherever it is, or ``None`` where there is none.
        entries: Every other line in the order of the file, with ids.
        is_chain: Each entry follows the one before it.
        rechained: Ids or parents were given to entries, in memory only.
        size: Bytes of the file that were read.
        torn: A last line that is no record, to be cut off before the next append.
        unfinished: The last record is whole and only its newline is missing.
        whole: Every entry is here; else only those of the active branch that make up its context.
        outdated: Why the file must be written anew before an append: ``corrupt``
            (its header is not where it belongs), an old version such as ``v1``; empty: it need not.
    """

    header: JSON = None
    entries: list[Entry] = attrs.field(factory=list)
    is_chain: bool = True
    rechained: bool = False
    size: int = 0
    torn: Tail | None = None
    unfinished: bool = False
    whole: bool = True
    outdated: str = ""
    warnings: list[str] = attrs.field(factory=list)

    @property
    def version(self) -> int:
        """The version in the header; 1 where it names none, the newest where there is no header."""
        version = self.header.get("version") if self.header else VERSION
        return version if isinstance(version, int) else 1


def load(file: io.FileIO) -> Loaded:
    """
    Read *file* from its beginning. Memory: a chunk, the longest line, and an object a line.

    Nothing is changed on disk. Entries of old versions get the ids and parents
    that they would have been given; the same ones at every opening. An entry
    whose parent was on an unreadable line follows what stands before that line.
    """
    lines = _Lines()
    torn = _read(file, lines)
    lines.finish()
    loaded = Loaded(
        entries=lines.entries, size=lines.offset, torn=torn, unfinished=lines.unfinished, warnings=lines.warnings
    )
    gaps = [(lines.entries[i - 1], lines.entries[i]) for i in lines.gaps if 0 < i < len(lines.entries)]
    _take_header(file, loaded)
    loaded.is_chain = loaded.version > 1 and is_chain(loaded.entries)
    if not loaded.is_chain:
        # A later header is another session's, appended by accident; it is no entry of the tree.
        loaded.entries = [entry for entry in loaded.entries if entry.type != "session"]
        _give_ids(loaded)
        _close_gaps(loaded, gaps)
    return loaded


class _Lines:
    """Takes the lines of a file and keeps the entries on them."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.gaps: list[int] = []  # indices of the entries behind unreadable lines
        self.offset = 0
        self.unfinished = False
        self.warnings: list[str] = []
        self._number = 1
        self._unnamed = 0

    def take(self, block: bytes) -> None:
        """
        Read *block*, which is whole lines.

        A line ends at LF alone: the other line separators of Unicode are text.
        What is no entry is passed over with a warning that names its line.
        """
        decode, keep, offset = decode_entry, self.entries.append, self.offset
        lines = block.split(b"\n")
        for line in lines:
            length = len(line)
            if length:
                try:
                    entry = decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    self._take_odd(line, offset, self._number + block.count(b"\n", 0, offset - self.offset))
                else:
                    entry.offset = offset
                    entry.length = length
                    entry.message = None
                    keep(entry)
            offset += length + 1
        self.offset += len(block)
        self._number += len(lines) - 1

    def take_last(self, line: bytes) -> Tail | None:
        """Read what stands behind the last newline; return it where it is no record."""
        entry, start, problem = _read_odd(line)
        tail = Tail(self.offset, len(line))
        self.offset += len(line)
        if entry is None:
            self._warn(
                f"line {self._number}: cut off after {len(line)} bytes; the next append removes it, after a copy"
            )
            return tail
        if problem:
            self._warn(f"line {self._number}: {problem}")
            self.gaps.append(len(self.entries))
        entry.offset, entry.length = tail.offset + start, len(line) - start
        self.entries.append(entry)
        self.unfinished = True
        return None

    def take_back(self) -> Tail | None:
        """Forget the last lines where more were to be written with them; return where they begin."""
        entries = self.entries
        if not entries or entries[-1].more <= 0:
            return None
        first = len(entries) - 1
        while first and entries[first - 1].more == entries[first].more + 1:
            first -= 1
        self._warn(f"the last {len(entries) - first} lines are part of a rewrite that was cut off; passed over")
        offset = entries[first].offset
        del entries[first:]
        self.unfinished = False
        return Tail(offset, self.offset - offset)

    def finish(self) -> None:
        """Say how many warnings were left unsaid."""
        if self._unnamed:
            self.warnings.append(f"and {self._unnamed} more lines like these")

    def _take_odd(self, line: bytes, offset: int, number: int) -> None:
        entry, start, problem = _read_odd(line)
        if problem:
            self._warn(f"line {number}: {problem}")
            self.gaps.append(len(self.entries))
        if entry is not None:
            entry.offset, entry.length = offset + start, len(line) - start
            self.entries.append(entry)

    def _warn(self, warning: str) -> None:
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(warning)
        else:
            self._unnamed += 1


def _read(file: io.FileIO, lines: _Lines) -> Tail | None:
    parts: list[bytes] = []  # of a line that is longer than a chunk
    file.seek(0)
    while chunk := file.read(_CHUNK_BYTES):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            lines.take(b"".join((*parts, chunk[:cut])))
            parts = [chunk[cut:]]
        else:
            parts.append(chunk)
    rest = b"".join(parts)
    torn = lines.take_last(rest) if rest else None
    return lines.take_back() or torn


def _read_odd(line: bytes) -> tuple[Entry | None, int, str]:
    """Return the entry on a line, where on it the entry begins, and what is wrong; no entry: passed over."""
    try:
        return read_entry(line), 0, ""
    except ValueError as error:
        if not line.strip(b"\x00\r\t "):
            return None, 0, f"{len(line)} NUL bytes, passed over" if b"\x00" in line else ""
        # A whole record may stand behind a torn one: what a program leaves that appends to a torn line.
        for start in islice(record_starts(line), 1, None):
            with contextlib.suppress(ValueError):
                if is_record_behind(decode_json(line[start:])):
                    return read_entry(line[start:]), start, f"{start} bytes of a record that was cut off, passed over"
        return None, 0, f"{error}, passed over ({len(line)} bytes)"


def _close_gaps(loaded: Loaded, gaps: list[tuple[Entry, Entry]]) -> None:
    """Let the entry behind an unreadable line that was its parent follow what stands before that line."""
    known = {entry.id for entry in loaded.entries} if gaps else set()
    for before, behind in gaps:
        if behind.parent_id is not None and behind.parent_id not in known:
            behind.parent_id = before.id
            loaded.rechained = True


def _take_header(file: io.FileIO, loaded: Loaded) -> None:
    """Find the header and say whether it is where it belongs."""
    for position, entry in enumerate(loaded.entries):
        if entry.type == "session" and (header := _header(file, entry)) is not None:
            loaded.header = header
            del loaded.entries[position]
            if position == 0:
                break
            loaded.outdated = "corrupt"
            loaded.warnings.append("the session header is not on the first line; the next append puts it there")
            break
    else:
        if loaded.size:
            loaded.outdated = "corrupt"
            loaded.warnings.append("line 1: no session header; the file counts as version 3 without one")
    if loaded.version > VERSION:
        loaded.warnings.append(f"line 1: version {loaded.version} is newer than {VERSION}, the newest that is known")
    if not loaded.outdated and loaded.version < VERSION:
        loaded.outdated = f"v{loaded.version}"


def _header(file: io.FileIO, entry: Entry) -> JSON:
    file.seek(entry.offset)
    data = decode_json(file.read(entry.length))
    return data if isinstance(data.get("id"), str) and data["id"] else None


def _give_ids(loaded: Loaded) -> None:
    """Chain entries that have no ids in the order of the file, as version 2 did on opening version 1."""
    entries = loaded.entries
    taken = {entry.id for entry in entries}
    previous: EntryId | None = None
    for index, entry in enumerate(entries, 1):
        if entry.id is None:
            entry.id = _id_for(index, taken)
            entry.parent_id = previous
            loaded.rechained = True
        previous = entry.id
    for entry in entries:
        # The old index counted the header as line 0.
        if entry.first_kept_index is not None and entry.first_kept_id is None:
            position = entry.first_kept_index - 1
            if 0 <= position < len(entries):
                entry.first_kept_id = entries[position].id


def _id_for(index: int, taken: set[EntryId | None]) -> EntryId:
    while (candidate := EntryId(f"{index:08x}")) in taken:
        index += 1 << 24
    taken.add(candidate)
    return candidate
