"""Sizes, times and tables as people read them."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from openclaw_ctx.cli.speech import say

from .screen import as_shown, cells, columns, cut, styled

__all__ = ["as_ago", "as_size", "as_time", "print_table", "relative_times", "time_in", "time_of"]

_UNITS: Final = ("B", "KB", "MB", "GB", "TB")
_THOUSAND: Final = 1000
_THREE_DIGITS: Final = 99.95
_STEPS: Final = ((60, "s"), (60, "min"), (24, "h"), (14, "d"))
_NARROWEST: Final = 10
_GAP: Final = 2


def as_size(number: int) -> str:
    """Return a number of bytes as ``1.4 MB``: three digits tell enough."""
    value, unit = float(number), 0
    while round(value) >= _THOUSAND and unit < len(_UNITS) - 1:
        value, unit = value / _THOUSAND, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 or value >= _THREE_DIGITS else f"{value:.1f} {_UNITS[unit]}"


def as_time(moment: datetime | None) -> str:
    """Return a moment with its zone, in UTC; a dash where there is none."""
    return "-" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_of(milliseconds: float) -> str:
    """Return the moment of a message, in milliseconds since the epoch, as :func:`as_time` does."""
    try:
        return as_time(datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (OverflowError, ValueError, OSError):
        return "at no time that a calendar has"


def time_in(text: object) -> str | None:
    """Return the moment that a line of a transcript names, as :func:`as_time` does; one without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        return None if moment is None else as_time(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (OverflowError, ValueError):
        return None


def as_ago(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was, as ``3 h ago``; older ones with their date, in UTC."""
    if moment is None:
        return "-"
    passed = (now - moment).total_seconds()
    for most, unit in _STEPS:
        if passed < most:
            return "now" if unit == "s" else f"{int(passed)} {unit} ago"
        passed /= most
    return as_time(moment)


def relative_times() -> bool:
    """Return whether a person looks on, who would rather read how long ago; a program gets the time itself."""
    return sys.stdout.isatty()


def print_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: frozenset[str],
    whole: frozenset[str] = frozenset(),
    widest: int = 40,
) -> None:
    """
    Print rows under their heads, the width of wide characters counted.

    On a terminal cells are cut, so that a row is a line; elsewhere they are whole.

    Args:
        heads: One for each column.
        rows: As many cells each; cleaned.
        right: Heads of columns that are aligned to the right, and never cut.
        whole: Heads of others that are never cut, though a row is longer than a line then.
        widest: Columns that a cell takes at most on a terminal, the last one's aside.
    """
    table = [list(heads), *([as_shown(cell) for cell in row] for row in rows)]
    widths = [max(map(cells, column)) for column in zip(*table, strict=True)]
    room = columns()
    if room is not None:
        widths = _fitted(widths, room, [head not in right | whole for head in heads], widest)
        table = [[cut(cell, width) for cell, width in zip(row, widths, strict=True)] for row in table]
    for number, row in enumerate(table):
        padded = (
            " " * (width - cells(cell)) + cell if head in right else cell + " " * (width - cells(cell))
            for head, cell, width in zip(heads, row, widths, strict=True)
        )
        line = (" " * _GAP).join(padded).rstrip()
        say(line if number else styled(line, bold=True))


def _fitted(widths: Sequence[int], room: int, may_shrink: Sequence[bool], widest: int) -> list[int]:
    """Return widths that fit into *room*, taken from the widest columns first; where none do, nothing is gained."""
    last = len(widths) - 1
    capped = [
        min(width, widest) if shrinks and at < last else width
        for at, (width, shrinks) in enumerate(zip(widths, may_shrink, strict=True))
    ]
    fitted = list(capped)
    for _ in range(sum(capped) + _GAP * last - room):
        at = max((at for at in range(len(fitted)) if may_shrink[at]), key=fitted.__getitem__, default=None)
        if at is None or fitted[at] <= _NARROWEST:
            return capped
        fitted[at] -= 1
    return fitted
