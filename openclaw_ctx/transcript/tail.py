"""
Reading a transcript from its end, as far back as its context goes.

A session that has been compacted opens in the time that its context takes,
however long it is. Whatever is unusual is left to the one that reads it all.
"""

import io
import os
from collections.abc import Iterator
from typing import Final

import msgspec

from openclaw_ctx.contract import EntryId

from .entry import Entry, decode_entry, decode_json
from .load import VERSION, Loaded

__all__ = ["load_tail"]

_BLOCK_BYTES: Final = 1 << 18
_LONGEST_HEADER: Final = 1 << 16
# What goes back further than this part of a file is as soon read from the beginning.
_SHARE: Final = 4
_BOUNDARIES: Final = (b'"compaction"', b'"reset"')
_LONGEST_MARK: Final = 16
_ODD: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def load_tail(file: io.FileIO, *, least_bytes: int) -> Loaded | None:
    """
    Return what the context needs of *file*: the end of its active branch, from the last boundary's first kept entry.

    Memory: two blocks, the longest line of that part, and an object an entry.

    Args:
        file: A transcript of version 3.
        least_bytes: A shorter file is left to :func:`~.load.load`.

    Returns:
        ``None`` where all of it must be read: it was never compacted, its context
        is a large part of it, or something in it is not in order.
    """
    size = os.fstat(file.fileno()).st_size
    if size < least_bytes:
        return None
    file.seek(0)
    first, newline, rest = file.read(_LONGEST_HEADER).partition(b"\n")
    try:
        header = decode_json(first) if newline else None
    except ValueError:
        return None
    if not isinstance(header, dict) or header.get("type") != "session" or header.get("version") != VERSION:
        return None
    if not isinstance(header.get("id"), str) or not header["id"] or _begins_with_instructions(rest):
        return None
    at_least = max(len(first) + 1, size - size // _SHARE)
    path = _context_path(file, size, at_least=at_least) if _may_hold_boundary(file, size, at_least) else None
    return None if path is None else Loaded(header=header, entries=path, size=size, whole=False)


def _begins_with_instructions(head: bytes) -> bool:
    """Return whether the first message may be a system's, which no boundary folds; *head* is cut anywhere."""
    for line in head.split(b"\n"):
        if b'"message"' in line:
            return b'"system"' in line
    return False


def _may_hold_boundary(file: io.FileIO, end: int, at_least: int) -> bool:
    """Return whether a boundary is named behind *at_least*: a search of bytes, so that most files pay little."""
    stop = end
    while stop > at_least:
        start = max(at_least, stop - _BLOCK_BYTES)
        file.seek(start)
        block = file.read(stop - start + _LONGEST_MARK)
        if any(mark in block for mark in _BOUNDARIES):
            return True
        stop = start
    return False


def _context_path(file: io.FileIO, size: int, *, at_least: int) -> list[Entry] | None:
    """Walk from the leaf to the entry that the context begins at; no further back than *at_least*."""
    path: list[Entry] = []
    wanted: EntryId | None = None
    kept: EntryId | None = None
    is_named = False
    for offset, line in _lines_backwards(file, size, at_least):
        try:
            entry = decode_entry(line)
        except _ODD:
            return None
        if entry.id is None or entry.type == "session" or (not path and entry.more):
            return None
        is_title = entry.type == "session_info"
        if path and entry.id != wanted:
            if is_title and not is_named:
                return None  # a title counts on whatever branch it was given
            continue
        is_named |= is_title
        entry.offset, entry.length, entry.message = offset, len(line), None
        path.append(entry)
        wanted = entry.parent_id
        if kept is None and entry.is_boundary:
            if b'"instructions"' in line:
                return None
            kept = entry.first_kept_id or entry.id
        if kept == entry.id:
            path.reverse()
            return path
        if wanted is None:
            break
    return None


def _lines_backwards(file: io.FileIO, end: int, at_least: int) -> Iterator[tuple[int, bytes]]:
    """Yield each line with where it begins, the last one first; nothing of a file whose last line has no end."""
    later: list[bytes] = []  # pieces of the line that is being read, the last piece first
    stop = end
    while stop > at_least:
        start = max(at_least, stop - _BLOCK_BYTES)
        file.seek(start)
        block = file.read(stop - start)
        if len(block) != stop - start or (stop == end and not block.endswith(b"\n")):
            return
        lines = block.split(b"\n")
        position = stop
        for line in reversed(lines[1:]):
            whole = b"".join((line, *reversed(later))) if later else line
            later = []
            position -= len(line)
            if whole:
                yield position, whole
            position -= 1
        later.append(lines[0])
        stop = start
