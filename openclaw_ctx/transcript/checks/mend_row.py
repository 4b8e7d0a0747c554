"""An entry of a damaged transcript and what becomes of it, and the account of all that was done."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import attrs

from openclaw_ctx.contract import JSON, EntryId
from openclaw_ctx.transcript.entry import Entry

from .verify_pairs import Said

__all__ = ["Account", "Row"]

_MAX_NAMED: Final = 5


@attrs.define(kw_only=True, eq=False)
class Row:
    """
    An entry, and what becomes of it.

    Attributes:
        entry: Where its line is; of one that is added, ``None``.
        line: The number of its line; of one that is added, of the line that it is about.
        told_id: What its line has for an id, whatever that is.
        told_parent: What its line has for a parent; ``None`` too where that is the header.
        name: The entry that a label, a boundary or a branch's summary names, as its line has it.
        said: What pairing asks of it.
        refused: Whether other programs would refuse its line as it is.
        mended: Whether what it says has to be changed.
        id: From now on.
        parent: From now on; ``None`` for a root.
        target: What it names, where that was found.
        dropped: Whether it is left out.
        skipped: What was its parent, where that is left out.
        changes: Fields of the line that are to be others, beside those that ``mended`` is about.
    """

    entry: Entry | None = None
    line: int
    told_id: JSON = None
    told_parent: JSON = None
    name: JSON = None
    said: Said | None = None
    refused: bool = False
    mended: bool = False
    id: EntryId = EntryId("")
    parent: "Row | None" = None
    target: "Row | None" = None
    dropped: bool = False
    skipped: "Row | None" = None
    changes: dict[str, JSON] | None = None

    def change(self, field: str, value: JSON) -> None:
        """Have the line say *value*."""
        if self.changes is None:
            self.changes = {}
        self.changes[field] = value

    @property
    def is_touched(self) -> bool:
        """Whether its line is any other than it was."""
        return self.refused or self.mended or self.changes is not None


class Account:
    """What was done: by kind how often, and on which lines first."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lines: dict[str, list[int]] = {}

    def add(self, kind: str, line: int | None = None) -> None:
        """Take one thing that was done."""
        self._counts[kind] += 1
        lines = self._lines.setdefault(kind, [])
        if line is not None and len(lines) < _MAX_NAMED:
            lines.append(line)

    def phrases(self, names: Mapping[str, str]) -> tuple[str, ...]:
        """Return one phrase a kind, in the order of *names*."""
        return tuple(self._phrase(kind, name) for kind, name in names.items() if self._counts[kind])

    def _phrase(self, kind: str, name: str) -> str:
        count, lines = self._counts[kind], self._lines[kind]
        if not lines:
            return f"{name}: {count}"
        more = " and more" if len(lines) < count else ""
        return f"{name}: {count} (line{'s' if count > 1 else ''} {', '.join(map(str, lines))}{more})"
