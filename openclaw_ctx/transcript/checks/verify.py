"""
Whether a session file holds what it should.

Opening a transcript mends what it finds, in memory and in silence. This reads
the file for itself, changes nothing, and says all of it.
"""

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

import attrs

from openclaw_ctx.contract import JSON, Message
from openclaw_ctx.errors import TranscriptFormatError
from openclaw_ctx.transcript.entry import milliseconds_of
from openclaw_ctx.transcript.load import VERSION
from openclaw_ctx.transcript.paths import SAFELY

from .findings import CODES, Finding, Findings
from .verify_lines import Lines
from .verify_pairs import Said, check_pairs, said_by, said_on
from .verify_tree import Tree

__all__ = ["CODES", "Finding", "Verification", "verify_file", "verify_messages"]

_BUFFER_BYTES: Final = 1 << 18
_MAX_BATCH: Final = 1 << 31
_MESSAGE, _BOUNDARY = 1, 2
# What a summary of a branch names that was left at its very beginning.
_BEGINNING: Final = "root"


@attrs.frozen(kw_only=True)
class Verification:
    """
    What a session file holds, and what is wrong with it.

    Attributes:
        session_id: Of the header; ``None`` where there is none.
        version: As opening the file takes it; the newest where there is no header.
        lines: All of them, with the header and a torn one.
        entries: Lines that are entries.
        messages: How many are on the active branch, summarised ones too.
        branches: How many entries are nobody's parent.
        compactions: How many boundaries are on the active branch.
        size: Bytes that were read.
        findings: In the order of the lines; at most 100, errors before warnings.
        unnamed: How many more there are.
    """

    path: Path
    session_id: str | None
    version: int
    lines: int
    entries: int
    messages: int
    branches: int
    compactions: int
    size: int
    findings: Sequence[Finding]
    unnamed: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is an error."""
        return not any(finding.level == "error" for finding in self.findings)


def verify_file(path: Path) -> Verification:
    """
    Read a session file from its beginning, and return what it holds and what is wrong with it.

    Takes no lock: of a session that is being written, the last line may be
    found cut off. An empty file is a session that nothing was said in yet.
    Memory: the longest line, and a few numbers and ids a line.

    Raises:
        TranscriptFormatError: It is a link or no plain file.
        OSError: The operating system refuses it.
    """
    findings = Findings()
    with _opened(path) as file:
        lines = Lines(file=file, findings=findings)
        check = _Check(findings)
        for number, data in lines:
            check.take(number, data)
    way = check.close()
    kinds = bytes(map(check.kinds.__getitem__, way))
    return Verification(
        path=path,
        session_id=check.session_id,
        version=check.version,
        lines=lines.count,
        entries=len(check.kinds),
        messages=kinds.count(_MESSAGE),
        branches=check.tree.leaves(),
        compactions=kinds.count(_BOUNDARY),
        size=lines.size,
        findings=findings.kept(),
        unnamed=findings.unnamed,
    )


def verify_messages(messages: Sequence[Message]) -> list[Finding]:
    """
    Return what is wrong with a conversation that has no file of ours: calls and results, and ids that repeat.

    A finding's line is the message's number, from 1.
    """
    findings = Findings()
    numbers: dict[str, int] = {}
    said: list[tuple[int, Said]] = []
    for number, message in enumerate(messages, 1):
        if message.entry_id is not None:
            other = numbers.setdefault(message.entry_id, number)
            if other != number:
                findings.add("id-repeated", number, other=other)
        fact = said_by(message)
        if fact is not None:
            said.append((number, fact))
    check_pairs(said, findings)
    return list(findings.kept())


def _opened(path: Path) -> IO[bytes]:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise TranscriptFormatError(str(path), "it is a symbolic link, which is never followed")
    if not stat.S_ISREG(mode):
        raise TranscriptFormatError(str(path), "it is not a plain file, which alone is ever read")
    # Whatever takes its place in this moment is neither followed nor waited for.
    return open(path, "rb", buffering=_BUFFER_BYTES, opener=lambda name, flags: os.open(name, flags | SAFELY))


class _Check:
    """
    Takes a file's lines, one after the other.

    Attributes:
        kinds: By position, whether an entry is a message, a boundary or neither.
    """

    def __init__(self, findings: Findings) -> None:
        self._add = findings.add
        self._findings = findings
        self.tree = Tree(findings=findings)
        self.kinds = bytearray()
        self.session_id: str | None = None
        self.version = VERSION
        self._said: list[Said | None] = []
        self._follows_gap = self._follows_header = self._has_lines = self._has_header = False
        self._without_id: list[int] = []
        # Positions of boundaries and of what they keep first; lines that name an entry, which may stand behind them.
        self._boundaries: list[tuple[int, int | None]] = []
        self._names: list[tuple[int, str, JSON]] = []
        # Of a rewrite: how many of its lines are to come, what its last one says of that, where it begins and ends.
        self._due, self._more, self._batch_at, self._batch_line = 0, 0, 0, 0
        self._by_type: dict[str, Callable[[int, JSON, int], None]] = {
            "message": self._take_message,
            "custom_message": self._take_other_message,
            "branch_summary": self._take_branch_summary,
            "compaction": self._take_boundary,
            "reset": self._take_boundary,
            "label": self._take_label,
        }

    def take(self, number: int, data: JSON) -> None:
        """Take the next line; ``None`` is one that nobody can read."""
        if data is None:
            self._follows_gap = not self._follows_header  # nothing follows a header
            self._due = max(0, self._due - 1)  # it may have been the rewrite's next line, and is told of itself
            return
        self._take_batch(number, data)
        stamp = data.get("timestamp")
        if stamp is not None and milliseconds_of(stamp) is None:
            self._add("timestamp-unparsable", number)
        is_header = data["type"] == "session"
        if is_header:
            self._take_header(number, data)
        else:
            self._take_entry(number, data)
        self._follows_gap, self._follows_header, self._has_lines = False, is_header, True

    def close(self) -> list[int]:
        """Check what only the whole file tells; return the active branch."""
        checked = self.version > 1
        if self._has_lines and not self._has_header:
            self._add("header-missing")
        if self._without_id and checked:
            self._add("id-missing", self._without_id[0], count=len(self._without_id))
        leaf = len(self.kinds) - 1
        if self._more:
            self._add("batch-unfinished", self._batch_line, count=self._more)
            leaf = self._batch_at - 1
        self.tree.close(self.session_id, checked=checked)
        for position, first_kept in self._boundaries:
            if first_kept is None or not (first_kept == position or self.tree.is_behind(position, first_kept)):
                self._add("boundary-unresolved", self.tree.lines[position])
        for number, code, name in self._names:
            if type(name) is not str or name not in self.tree.by_id:
                self._add(code, number)
        way = self.tree.way(leaf)
        said = ((self.tree.lines[at], fact) for at in way if (fact := self._said[at]) is not None)
        check_pairs(said, self._findings)
        return way

    def _take_header(self, number: int, data: JSON) -> None:
        session_id = data.get("id")
        if self.session_id is not None:
            self._add("header-repeated", number)
            return
        self._has_header = True
        if type(session_id) is not str or not session_id:
            self._add("header-id-missing", number)
            return
        self.session_id = session_id
        if self._has_lines:
            self._add("header-misplaced", number)
        version = data.get("version", 1)
        self.version = version if isinstance(version, int) else 1
        if type(version) is not int or version < 1:
            self._add("version-unknown", number)
        elif version != VERSION:
            self._add("version-old" if version < VERSION else "version-new", number, version=min(version, VERSION))

    def _take_entry(self, number: int, data: JSON) -> None:
        entry_id, parent_id = _text(data.get("id")), data.get("parentId")
        if not entry_id:
            self._without_id.append(number)
        elif entry_id in self.tree.by_id and self.version > 1:
            self._add("id-repeated", number, other=self.tree.lines[self.tree.by_id[entry_id]])
        if parent_id is not None and type(parent_id) is not str:
            self._add("parent-missing", number)
            parent_id = None
        position = self.tree.add(number, entry_id, parent_id, follows_gap=self._follows_gap)
        self.kinds.append(0)
        self._said.append(said_on(data))
        take = self._by_type.get(data["type"])
        if take is not None:
            take(number, data, position)

    def _take_message(self, number: int, data: JSON, position: int) -> None:
        self.kinds[position] = _MESSAGE
        message = data.get("message")
        if type(message) is not dict or type(message.get("role")) is not str:
            self._add("message-missing", number)

    def _take_other_message(self, _number: int, _data: JSON, position: int) -> None:
        self.kinds[position] = _MESSAGE

    def _take_branch_summary(self, number: int, data: JSON, position: int) -> None:
        self.kinds[position] = _MESSAGE
        if type(data.get("summary")) is not str:
            self._add("summary-missing", number)
        name = data.get("fromId")
        if name is not None and name != _BEGINNING:
            self._names.append((number, "origin-unresolved", name))

    def _take_boundary(self, number: int, data: JSON, position: int) -> None:
        self.kinds[position] = _BOUNDARY
        name, index = data.get("firstKeptEntryId"), data.get("firstKeptEntryIndex")
        if data["type"] == "compaction" and type(data.get("summary")) is not str:
            self._add("summary-missing", number)
        if name is None and type(index) is int:
            # An old version's number, which counts the header as line 0.
            self._boundaries.append((position, index - 1 if 0 < index <= position else None))
        elif name is not None or data["type"] == "compaction":
            self._boundaries.append((position, self.tree.by_id.get(name) if type(name) is str else None))

    def _take_label(self, number: int, data: JSON, _position: int) -> None:
        self._names.append((number, "label-unresolved", data.get("targetId")))

    def _take_batch(self, number: int, data: JSON) -> None:
        """Follow a rewrite, each of whose lines says how many of it follow; one that says nothing ends it."""
        more = data.get("more")
        more = min(more, _MAX_BATCH) if type(more) is int and more > 0 else 0
        if self._due and more != self._due - 1:
            self._add("batch-broken", number, count=self._due)
        if more + 1 != self._more:
            self._batch_at = len(self.kinds)
        self._due, self._more, self._batch_line = more, more, number


def _text(value: JSON) -> str | None:
    return value if type(value) is str else None
