"""Sizes, times and tables as people read them."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.cells import cell_len, set_cell_size

from openclaw_ctx.cli.speech import say

__all__ = ["as_ago", "as_size", "as_time", "print_table", "relative_times"]

_UNITS: Final = ("B", "KB", "MB", "GB", "TB")
_THOUSAND: Final = 1000
_STEPS: Final = ((60, "s"), (60, "min"), (24, "h"), (14, "d"))


def as_size(number: int) -> str:
    """Return a number of bytes as ``1.4 MB``."""
    value, unit = float(number), 0
    while value >= _THOUSAND and unit < len(_UNITS) - 1:
        value, unit = value / _THOUSAND, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 or value >= 100 else f"{value:.1f} {_UNITS[unit]}"  # noqa: PLR2004 -- three digits tell enough


def as_time(moment: datetime | None) -> str:
    """Return a moment with its zone, in UTC; a dash where there is none."""
    return "-" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[str], widest: int = 40
) -> None:
    """
    Print rows under their heads: plain text, the width of wide characters counted.

    Args:
        heads: One for each column.
        rows: As many cells each; cleaned.
        right: Heads of columns that are aligned to the right.
        widest: Columns that a cell takes at most, the last one's aside.
    """
    last = len(heads) - 1
    cells = [[_cut(cell, widest) if at < last else cell for at, cell in enumerate(row)] for row in (heads, *rows)]
    widths = [max(cell_len(row[at]) for row in cells) for at in range(len(heads))]
    for row in cells:
        padded = (
            " " * (width - cell_len(cell)) + cell if head in right else cell + " " * (width - cell_len(cell))
            for head, cell, width in zip(heads, row, widths, strict=True)
        )
        say("  ".join(padded).rstrip())


def _cut(cell: str, widest: int) -> str:
    return cell if cell_len(cell) <= widest else set_cell_size(cell, widest - 1).rstrip() + "…"
