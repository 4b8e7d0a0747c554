"""How numbers are written for people, the same in a terminal and on a page."""

__all__ = ["count", "duration", "share", "some", "sparse"]

_HALF, _ALL = 0.5, 100
_TENTHS_FROM = 0.095
_WHOLE_FROM = 99.95
_MOST_PERCENT = 999


def count(number: float) -> str:
    """Write a whole number with thousands separators, rounding what is not whole."""
    return f"{number:,.0f}"


def duration(milliseconds: float | None) -> str:
    """Write milliseconds with the digits that tell; a dash for ``None``, which is "never ran"."""
    if milliseconds is None:
        return "-"
    if milliseconds >= _WHOLE_FROM:
        return f"{milliseconds:,.0f}"
    return f"{milliseconds:.1f}" if milliseconds >= _TENTHS_FROM else f"{milliseconds:.2f}"


def share(part: float, whole: float) -> str:
    """
    Write *part* of *whole* in per cent; a dash where there is no whole.

    Neither "0%" for something nor "100%" for less or more than all: those two
    would be read as "none" and "exactly all". Never wider than ">999%".
    """
    if not whole:
        return "-"
    percent = 100 * part / whole
    if 0 < percent < _HALF:
        return "<1%"
    if part != whole and round(percent) == _ALL:
        return "99%" if part < whole else ">100%"
    return f"{percent:.0f}%" if round(percent) <= _MOST_PERCENT else f">{_MOST_PERCENT}%"


def some(number: int, noun: str) -> str:
    """Write a number and what it counts, in the plural where it is not one."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def sparse(number: int) -> str:
    """Write a number that is mostly 0, so that the others stand out."""
    return count(number) if number else "-"
