"""A damaged transcript's lines, each looked at once: which are entries, and what is wrong on them."""

import io
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from openclaw_ctx.contract import JSON
from openclaw_ctx.transcript.entry import Entry, encode_json, is_record_behind, record_starts
from openclaw_ctx.transcript.header import new_header
from openclaw_ctx.transcript.load import VERSION, Loaded
from openclaw_ctx.transcript.mend_lines import GONE, mend_line, read_line, what_is_wrong

from .mend_row import Account, Row
from .verify_pairs import said_on

__all__ = ["Scan"]

_BUFFER_BYTES: Final = 1 << 18
_SPACE: Final = b"\r\n\t "
_NAME_KEYS: Final = {
    "label": "targetId",
    "branch_summary": "fromId",
    "compaction": "firstKeptEntryId",
    "reset": "firstKeptEntryId",
}


@attrs.define(kw_only=True)
class Scan:
    """
    What a file holds, line by line.

    Attributes:
        loaded: The file as it was opened: what is an entry was found there.
        account: Takes what is done.
        rows: Every entry in the order of the file.
    """

    loaded: Loaded
    account: Account
    rows: list[Row] = attrs.field(factory=list)
    _header: dict[str, JSON] | None = None
    # The header's line: its bytes, whether others refuse it, its number.
    _header_line: tuple[bytes, bool, int] = (b"", False, 0)
    _nameless: dict[str, JSON] | None = None

    @property
    def is_old(self) -> bool:
        """Whether the file is of a version before 3."""
        return self.loaded.version < VERSION

    def read(self, file: io.FileIO) -> None:
        """Take every line of *file*, one in memory at a time."""
        torn = self.loaded.size if self.loaded.torn is None else self.loaded.torn.offset
        waiting = iter(self.loaded.entries)
        entry = next(waiting, None)
        offset = 0
        for number, line in enumerate(_lines(file), 1):
            end = offset + len(line)
            if offset >= torn:
                self.account.add("unfinished" if _entry_on(line) else "torn", number)
            elif entry is not None and entry.offset < end:
                self._take_entry(number, line[entry.offset - offset :].rstrip(b"\n"), entry, at=entry.offset - offset)
                entry = next(waiting, None)
            else:
                self._take_other(number, line.rstrip(b"\n"))
            offset = end
        if self.loaded.unfinished:
            self.account.add("newline")

    def header(self, otherwise: Mapping[str, JSON] | None) -> tuple[dict[str, JSON], bytes]:
        """
        Return the header and its line, of the newest version that is known or a newer one.

        Args:
            otherwise: For a file that has none.
        """
        line, refused, number = self._header_line
        header = self._header
        if header is None:
            made = dict(otherwise) if otherwise else new_header(cwd="")
            if self._nameless is not None:
                made = {**self._nameless, "id": made["id"], "version": VERSION}
                made.pop("more", None)
            if self.loaded.size:
                self.account.add("header-made")
            return made, encode_json(made)
        if self.rows and self.rows[0].line < number:
            self.account.add("header-moved", number)
        version = header.get("version")
        changes: dict[str, JSON] = {}
        if type(version) is not int or version < VERSION:
            self.account.add("version", number)
            changes["version"] = VERSION
        if "more" in header:
            self.account.add("batch", number)
            changes["more"] = GONE
        said = {key: value for key, value in (header | changes).items() if value is not GONE}
        return said, mend_line(line, changes, refused=refused) if changes or refused else line

    def _take_entry(self, number: int, line: bytes, entry: Entry, *, at: int) -> None:
        if at:
            self.account.add("fragment", number)
        try:
            data, refused = read_line(line)
        except ValueError:
            self.account.add("unreadable", number)
            self.rows.append(Row(entry=entry, line=number, dropped=True))
            return
        told_id, told_parent = data.get("id"), data.get("parentId")
        row = Row(
            entry=entry,
            line=number,
            # The entry's own texts, where they are the same: one of each is enough.
            told_id=entry.id if told_id == entry.id else told_id,
            told_parent=entry.parent_id if told_parent == entry.parent_id else told_parent,
            said=said_on(data),
            refused=refused,
        )
        self.rows.append(row)
        if entry.type == "session":
            self.account.add("header-dropped", number)
            row.dropped = True
            return
        name_key = _NAME_KEYS.get(entry.type)
        row.name = None if name_key is None else data.get(name_key)
        changes, kinds = what_is_wrong(data, is_old=self.is_old)
        row.mended = bool(changes)
        for kind in (*kinds, *(("refused",) if refused else ())):
            self.account.add(kind, number)

    def _take_other(self, number: int, line: bytes) -> None:
        """Take a line without an entry of the tree: a header, or nothing."""
        if not line.strip(_SPACE):
            self.account.add("blank", number)
            return
        start, data, refused = _session_on(line)
        if data is None:
            self.account.add("unreadable", number)
            return
        if start:
            self.account.add("fragment", number)
        if self._header is None and isinstance(data.get("id"), str) and data["id"]:
            self._header, self._header_line = data, (line[start:], refused, number)
            if refused:
                self.account.add("refused", number)
            return
        self._nameless = self._nameless or data
        self.account.add("header-dropped", number)


def _lines(file: io.FileIO) -> Iterator[bytes]:
    """Yield the lines of *file* with their ends; it stays open."""
    file.seek(0)
    reader = io.BufferedReader(file, _BUFFER_BYTES)
    try:
        yield from reader
    finally:
        reader.detach()


def _entry_on(line: bytes) -> JSON:
    try:
        return read_line(line.rstrip(b"\n"))[0]
    except ValueError:
        return None


def _session_on(line: bytes) -> tuple[int, JSON, bool]:
    """Return the header on a line, behind where it begins, and whether others refuse it; it may follow a fragment."""
    for start in record_starts(line):
        try:
            data, refused = read_line(line[start:])
        except ValueError:
            continue
        is_header = data["type"] == "session" and (not start or is_record_behind(data))
        return (start, data, refused) if is_header else (0, None, False)
    return 0, None, False
