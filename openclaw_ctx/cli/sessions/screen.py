"""What fits on a screen: columns, cuts, colours, and the signs that it can show."""

import functools
import itertools
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

from openclaw_ctx.cli.speech import say

__all__ = ["as_shown", "can_show", "cells", "columns", "cut", "dots", "print_lines", "styled", "wrapped"]

_IN_A_FILE: Final = 100
_AT_ONCE: Final = 200
# One column each, so that most text needs no tables: Latin letters, dashes, quotes, dots.
_NARROW: Final = re.compile("[ -~\xa0-\u02ff\u2010-\u2027]*")


def print_lines(lines: Iterable[str]) -> None:
    """Print clean lines, some hundred at a time: each print is flushed, and there may be a hundred thousand."""
    waiting = iter(lines)
    while some := list(itertools.islice(waiting, _AT_ONCE)):
        say("\n".join(some))


def columns() -> int | None:
    """Return how wide the terminal is; ``None`` where the output goes elsewhere, and nothing need be cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def can_show(text: str) -> bool:
    """Return whether the output's encoding has every character of *text*."""
    try:
        text.encode(_encoding())
    except UnicodeEncodeError:
        return False
    return True


def as_shown(text: str) -> str:
    """Return clean *text* with what the output cannot show written out, as the command prints it."""
    if text.isascii() or can_show(text):
        return text
    return text.encode(_encoding(), "backslashreplace").decode(_encoding())


def cells(text: str) -> int:
    """Return how many columns *text* takes; wide characters take two."""
    if text.isascii() or _NARROW.fullmatch(text):
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 -- tables of widths, which plain text does not need

    return cell_len(text)


def cut(text: str, most: int) -> str:
    """Return *text* in at most *most* columns, with dots where something is missing."""
    if cells(text) <= most:
        return text
    return f"{_beginning(text, max(0, most - len(dots()))).rstrip()}{dots()}"


def dots() -> str:
    """Return the sign that something is missing."""
    return "…" if can_show("…") else "..."


def wrapped(line: str, most: int | None = None) -> Iterator[str]:
    """Yield clean *line* in pieces of at most *most* columns, broken at spaces where it has some."""
    most = max(1, most or (columns() or _IN_A_FILE))
    while len(line) > most or cells(line) > most:
        head = _beginning(line[: most + 1], most) or line[0]
        space = len(head) if line[len(head) : len(head) + 1] == " " else head.rfind(" ")
        at = space if head[: max(space, 0)].strip() else len(head)
        yield line[:at].rstrip()
        line = line[at:].lstrip(" ")
    yield line.rstrip()


def styled(text: str, **style: Any) -> str:
    """Return *text* in click's style on a terminal that wants colours, else as it is."""
    return click.style(text, **style) if _wants_colours(sys.stdout) else text


@functools.lru_cache(maxsize=1)
def _wants_colours(stream: Any) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _encoding() -> str:
    return sys.stdout.encoding or "ascii"


def _beginning(text: str, most: int) -> str:
    """Return as many characters as fit into *most* columns."""
    if text.isascii():
        return text[:most]
    taken = 0
    for at, character in enumerate(text):
        taken += cells(character)
        if taken > most:
            return text[:at]
    return text
