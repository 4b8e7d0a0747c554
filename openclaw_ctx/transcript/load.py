"""Reading a transcript file into entries, whatever state it was left in."""

import io
from collections.abc import Callable
from typing import Final

import attrs

from openclaw_ctx.contract import JSON, EntryId

from .entry import Entry, decode_json, decode_lines

__all__ = ["VERSION", "Loaded", "Tail", "load"]

VERSION: Final = 3
_CHUNK_BYTES: Final = 1 << 20


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
        header: The ``session`` line, or ``None`` where the first line is no header.
        entries: Every other line in the order of the file, with ids.
        size: Bytes of the file that were read.
        torn: A last line that is no record, to be cut off before the next append.
        unfinished: The last record is whole and only its newline is missing.
    """

    header: JSON = None
    entries: list[Entry] = attrs.field(factory=list)
    size: int = 0
    torn: Tail | None = None
    unfinished: bool = False
    warnings: list[str] = attrs.field(factory=list)

    @property
    def version(self) -> int:
        """The version in the header; 1 where it names none."""
        version = self.header.get("version") if self.header else None
        return version if isinstance(version, int) else 1


def load(file: io.FileIO, *, warn: Callable[[str], None] | None = None) -> Loaded:
    """
    Read *file* from its beginning. Memory: a chunk, the longest line, and an object a line.

    Nothing is changed on disk. Entries of old versions get the ids and parents
    that they would have been given; the same ones at every opening.
    """
    loaded = Loaded()
    note = warn or loaded.warnings.append
    _read(file, loaded, note)
    first = loaded.entries[0] if loaded.entries else None
    if first is not None and first.type == "session":
        loaded.header = _header(file, first)
    if loaded.header is not None:
        del loaded.entries[0]
    elif loaded.size:
        note("line 1: no session header; the file counts as version 3 without one")
    # A later header is another session's, appended by accident; it is no entry of the tree.
    loaded.entries = [entry for entry in loaded.entries if entry.type != "session"]
    if loaded.version < 2 or any(entry.id is None for entry in loaded.entries):  # noqa: PLR2004 -- ids came with 2
        _give_ids(loaded.entries)
    return loaded


def _read(file: io.FileIO, loaded: Loaded, note: Callable[[str], None]) -> None:
    entries, rest, offset, number = loaded.entries, b"", 0, 1
    file.seek(0)
    while chunk := file.read(_CHUNK_BYTES):
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            rest += chunk
            continue
        block = rest + chunk[:cut] if rest else chunk[:cut]
        rest = chunk[cut:]
        entries.extend(decode_lines(block, offset, number, note))
        offset += len(block)
        number += block.count(b"\n")
    loaded.size = offset + len(rest)
    if rest:
        found: list[str] = []
        last = list(decode_lines(rest, offset, number, found.append))
        if last:
            entries.extend(last)
            loaded.unfinished = True
        else:
            loaded.torn = Tail(offset, len(rest))
            note(f"line {number}: cut off after {len(rest)} bytes; the next append removes it, after a copy")


def _header(file: io.FileIO, entry: Entry) -> JSON:
    file.seek(entry.offset)
    data = decode_json(file.read(entry.length))
    return data if isinstance(data, dict) and isinstance(data.get("id"), str) and data["id"] else None


def _give_ids(entries: list[Entry]) -> None:
    """Chain entries that have no ids in the order of the file, as version 2 did on opening version 1."""
    taken = {entry.id for entry in entries}
    previous: EntryId | None = None
    for index, entry in enumerate(entries, 1):
        if entry.id is None:
            entry.id = _id_for(index, taken)
            entry.parent_id = previous
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
