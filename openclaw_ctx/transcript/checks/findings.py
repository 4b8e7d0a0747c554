"""
What a check of a session can find: every code, its level and its sentence, in one table.

No text of a session is ever in a finding, so that it may be logged and sent
around: lines are named by their number, and ids not at all.
"""

from typing import Final, Literal, TypeAlias

import attrs

__all__ = ["CODES", "Finding", "Findings", "Level"]

Level: TypeAlias = Literal["error", "warning"]
"""``error``: something is lost, or others read it otherwise. ``warning``: worth knowing, and nothing is lost."""

CODES: Final[dict[str, tuple[Level, str]]] = {
    # One line at a time.
    "line-unparsable": ("error", "The line is no JSON and is passed over ({size} bytes)."),
    "line-no-entry": ("error", "The line is JSON and no object with a type, and is passed over."),
    "line-fragment": ("error", "A record that was cut off after {size} bytes stands before the one on this line."),
    "line-blank": ("warning", "Empty lines: {count}, of which this is the first."),
    "nul-bytes": ("error", "NUL bytes on the line, as a power cut leaves them: {count}."),
    "not-utf8": ("error", "The line is not UTF-8, so some of its characters are lost."),
    "control-characters": ("error", "Control characters stand in the line as they are, which other programs refuse."),
    "byte-order-mark": ("error", "The line begins with a byte order mark, which other programs refuse."),
    "carriage-returns": ("warning", "Lines that end in CR LF: {count}, of which this is the first."),
    "timestamp-unparsable": ("warning", "The timestamp is no moment in ISO 8601."),
    # The end of the file.
    "tail-torn": (
        "warning",
        "The last line was cut off after {size} bytes; the next append cuts it off, after a copy.",
    ),
    "newline-missing": ("warning", "The last line lacks its newline; the next append puts it there."),
    "batch-unfinished": (
        "warning",
        "A rewrite was cut off here, with lines still to come: {count}. The next append removes it.",
    ),
    "batch-broken": ("error", "The rewrite before this line is incomplete; lines missing: {count}."),
    # The header.
    "header-missing": ("error", "The file has no session header; the next append puts one there."),
    "header-misplaced": ("error", "The session header is not on the first line; the next append puts it there."),
    "header-repeated": ("error", "The line is a second session header and is passed over."),
    "header-id-missing": ("error", "The session header has no id and is passed over."),
    "version-unknown": ("error", "The version is no whole number from 1 on; the next append writes the file anew."),
    "version-old": ("warning", "The file is of version {version}; the next append writes it anew, after a copy."),
    "version-new": ("warning", "The file is of a version that is newer than any known here."),
    # The tree.
    "id-missing": ("error", "Entries without an id: {count}, of which this is the first."),
    "id-repeated": ("error", "The entry has the id of the one on line {other}."),
    "parent-missing": ("error", "The entry's parent is no entry of this file."),
    "parent-is-header": ("warning", "The entry names the session as its parent, and counts as a root."),
    "parent-behind": ("error", "The entry's parent stands behind it, on line {other}."),
    "parent-self": ("error", "The entry is its own parent."),
    "parent-ring": ("error", "Entries in a ring, each the parent of the next: {count}, of which this is the first."),
    # What an entry says.
    "message-missing": ("error", "The entry holds no message with a role."),
    "summary-missing": ("error", "The entry's summary is no text."),
    "boundary-unresolved": ("error", "What the boundary keeps begins at no entry before it on its own branch."),
    "label-unresolved": ("warning", "The label is for no entry of this file."),
    "origin-unresolved": ("warning", "The branch that is summed up here ends at no entry of this file."),
    # Tool calls and results.
    "call-id-repeated": ("warning", "Tool calls with an id that was used before: {count}. A model is given others."),
    "call-id-unusable": (
        "warning",
        "Tool calls with an id that is empty or too long: {count}. A model is given others.",
    ),
    "call-cut-off": ("warning", "The reply was cut off, so these tool calls never ran: {count}."),
    "turn-unfinished": ("warning", "Tool calls of the last reply without a result: {count}. The turn was cut off."),
    "result-missing": ("error", "Tool calls of this reply without a result: {count}. A model is told so."),
    "result-orphaned": ("error", "The result has no tool call; no model sees it."),
    "result-duplicate": (
        "error",
        "The tool call on line {other} has a result before this one; no model sees this one.",
    ),
    "result-moved": ("warning", "Other messages stand between the result and its call on line {other}."),
}
"""Level and sentence by code. Codes are stable: programs look for them."""

MAX_KEPT: Final = 100


@attrs.frozen(kw_only=True)
class Finding:
    """
    One thing that is not as it should be.

    Attributes:
        line: Counted from 1; ``None`` where it is about the whole file. Of messages without a file: the message.
        code: One of :data:`CODES`.
        text: A sentence, which may change.
    """

    level: Level
    line: int | None
    code: str
    text: str


class Findings:
    """Takes findings and keeps the first hundred, errors before warnings, however many there are."""

    def __init__(self) -> None:
        self._kept: dict[Level, list[Finding]] = {"error": [], "warning": []}
        self._count = 0

    def add(self, code: str, line: int | None = None, **facts: int) -> None:
        """Take one; *facts* fill the gaps of its sentence."""
        level, text = CODES[code]
        self._count += 1
        if len(self._kept[level]) < MAX_KEPT:
            self._kept[level].append(Finding(level=level, line=line, code=code, text=text.format_map(facts)))

    def kept(self) -> tuple[Finding, ...]:
        """Return those that are kept, in the order of the lines; what is about the whole file first."""
        errors, warnings = self._kept["error"], self._kept["warning"]
        return tuple(sorted((errors + warnings)[:MAX_KEPT], key=lambda finding: finding.line or 0))

    @property
    def unnamed(self) -> int:
        """How many are not kept."""
        return max(0, self._count - MAX_KEPT)
