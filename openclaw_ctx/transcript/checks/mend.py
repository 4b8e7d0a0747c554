"""
A repaired copy of a damaged transcript.

The file itself is never changed here. In the copy every line is an entry that
any program reads, every parent and name resolves, and calls have their results;
what was not damaged keeps its bytes. Nothing that was said is left out: of the
answers that end a session none is trimmed, unlike in the reference system.
"""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from openclaw_ctx.contract import JSON
from openclaw_ctx.errors import TranscriptFormatError
from openclaw_ctx.transcript.entry import decode_json, encode_json
from openclaw_ctx.transcript.load import VERSION, load
from openclaw_ctx.transcript.mend_lines import FAILED, mend_line, what_is_wrong
from openclaw_ctx.transcript.record_file import RecordFile, write_new_file
from openclaw_ctx.transcript.repair import CONTINUE

from .mend_row import Account, Row
from .mend_scan import Scan
from .mend_tree import mend_tree

__all__ = ["Mended", "mend_file"]

_DONE: Final = {
    "header-made": "session header made",
    "header-moved": "session header put first",
    "header-dropped": "other session headers left out",
    "version": f"version raised to {VERSION}",
    "unreadable": "lines that are no entries left out",
    "fragment": "beginnings of records that were cut off left out",
    "blank": "empty lines left out",
    "torn": "record that was cut off left out",
    "unfinished": "lines of a rewrite that was cut off left out",
    "newline": "newline put behind the last line",
    "refused": "lines that other programs refuse written anew",
    "id-given": "entries given an id",
    "id-repeated": "entries given another id, since theirs was used before",
    "parent": "entries put behind the ones before them, since their parents are none",
    "moved": "entries put before those that follow them",
    "boundary": "compactions that keep nothing, since what they kept is not before them",
    "index": "compactions that name what they keep by its id, no longer by its number",
    "label": "labels of nothing left out",
    "batch": "counts of lines to come taken off, since others come",
    "role": "messages given the role that they have since version 3",
    "message": "entries without a message set aside",
    "summary": "summaries that were no text made one",
    "orphan": "tool results without a call left out",
    "duplicate": "second results of a tool call left out",
    "result-added": "missing tool results added",
    "failed": f"empty replies that failed given the text {FAILED}",
    "continue": f"blank user messages given the text {CONTINUE}",
    "blank-block": "messages rid of blank text",
    "leaf": "entry added that keeps the conversation where it is",
}
"""Every kind of change, in the order of the account."""
_SIZE: Final = 2  # of what a file's state is told by


@attrs.frozen(kw_only=True)
class Mended:
    """
    A repaired transcript that is not written yet.

    Attributes:
        header: Its first line.
        entries: How many follow.
        done: What was changed, one phrase a kind, with the first lines by number; empty where nothing was. No
            text of the session is in it.
    """

    header: Mapping[str, JSON]
    entries: int
    done: tuple[str, ...]
    _path: Path = attrs.field(repr=False)
    _state: tuple[int, ...] = attrs.field(repr=False)
    _first: bytes = attrs.field(repr=False)
    _rows: Sequence[Row] = attrs.field(repr=False)
    _is_old: bool = attrs.field(repr=False)

    def write(self, to: Path) -> None:
        """
        Write it to *to*, a new file; memory: the longest line.

        Raises:
            FileExistsError: There is such a file, which is not touched.
            TranscriptFormatError: The damaged file has changed since it was read.
            OSError: The disk would not take it.
        """
        file = RecordFile(self._path, read_only=True)
        try:
            if _state_of(file.file) != self._state:
                raise TranscriptFormatError(str(self._path), "it was changed while it was being repaired")
            write_new_file(to, self._pieces(file))
        finally:
            file.close()

    def _pieces(self, file: RecordFile) -> Iterator[bytes]:
        """Yield the file; what stands together unchanged in the old one is copied in large pieces."""
        if self._first:
            yield self._first + b"\n"
        start = end = 0
        for row in self._rows:
            entry = row.entry
            if entry is not None and not row.is_touched:
                if entry.offset != end:
                    yield from self._copied(file, start, end)
                    start = entry.offset
                end = entry.offset + entry.length + 1
                continue
            yield from self._copied(file, start, end)
            start = end = 0
            yield self._line(row, file) + b"\n"
        yield from self._copied(file, start, end)

    def _copied(self, file: RecordFile, start: int, end: int) -> Iterator[bytes]:
        """Yield whole lines; the last one of the file may lack its newline, and gets it."""
        size = self._state[_SIZE]
        yield from file.pieces(start, min(end, size) - start)
        if end > size:
            yield b"\n"

    def _line(self, row: Row, file: RecordFile) -> bytes:
        changes = row.changes or {}
        if row.entry is None:
            named = {"type": changes["type"], "id": row.id, "parentId": None if row.parent is None else row.parent.id}
            return encode_json({**named, **changes})
        line = file.line(row.entry)
        if row.mended:
            changes = what_is_wrong(decode_json(line), is_old=self._is_old)[0] | changes
        return mend_line(line, changes, refused=row.refused)


def mend_file(path: Path, *, header: Mapping[str, JSON] | None = None) -> Mended:
    """
    Read a session file from its beginning and return what it would be without its damage.

    Memory: the longest line, and two objects a line.

    Args:
        path: The file, which is left as it is. A session that is being written is to be locked.
        header: For a file that has none; by default a new one that names no folder.

    Raises:
        TranscriptFormatError: It is a link or no plain file.
        OSError: The operating system refuses it.
    """
    file = RecordFile(path, read_only=True)
    try:
        state, account = _state_of(file.file), Account()
        loaded = load(file.file)
        scan = Scan(loaded=loaded, account=account)
        scan.read(file.file)
        made, first = scan.header(header)
        rows = mend_tree(
            scan.rows, loaded, session_id=made["id"], read=lambda entry: decode_json(file.line(entry)), account=account
        )
    finally:
        file.close()
    return Mended(
        header=made,
        entries=len(rows),
        done=account.phrases(_DONE),
        path=path,
        state=state,
        first=first if loaded.size else b"",
        rows=rows,
        is_old=scan.is_old,
    )


def _state_of(file: io.FileIO) -> tuple[int, ...]:
    state = os.fstat(file.fileno())
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns
