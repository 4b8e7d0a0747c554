r"""
JSON out of files that crashes, editors and other programs have been at.

A record ends at ``\n`` and nowhere else: U+2028 and its like are text. What
cannot be read is named with its line and passed over; nothing here raises on
the content of a file.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import msgspec

from openclaw_ctx.contract import JSON
from openclaw_ctx.errors import TranscriptFormatError
from openclaw_ctx.transcript.entry import decode_odd_json, milliseconds_of

__all__ = ["HEAD_BYTES", "Notes", "Record", "decode", "decode_cut", "load", "milliseconds", "peek", "read_records"]

HEAD_BYTES = 64 * 1024

# Freezing and thawing walk a value with Python's own stack, of which the caller may have used much.
# Recorded sessions nest about ten deep.
_MAX_DEPTH = 100

_NOT_JSON = "not JSON"
_TOO_DEEP = "nested too deep"

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r"
_PEEKED_RECORDS = 50

# A string, whole or cut at the end of the input, or a sign that shapes the document.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\],]', re.DOTALL)
_CLOSERS = {ord("{"): ord("}"), ord("["): ord("]")}


@attrs.frozen
class Record:
    """One JSON object of a file of lines; ``line`` counts from 1."""

    line: int
    data: dict[str, JSON]


class Notes:
    """What was left out or mended, told by where it stands; ``unit`` is what the numbers count."""

    def __init__(self, unit: str = "line") -> None:
        self.unit = unit
        self._notes: list[tuple[int, str]] = []

    def add(self, number: int, reason: str) -> None:
        """Note something at a place; 0 is the file as a whole."""
        self._notes.append((number, reason))

    def sentences(self) -> tuple[str, ...]:
        """Return the notes in the order of the file."""
        in_order = sorted(self._notes, key=lambda note: note[0])
        return tuple(f"{self.unit} {number}: {reason}" if number else f"file: {reason}" for number, reason in in_order)


def load(path: Path, *, limit: int = -1) -> bytes:
    """
    Return the bytes of a file, *limit* of them at most, without a byte-order mark.

    Raises:
        FileNotFoundError: There is no such file.
        TranscriptFormatError: It is a folder or a device.
    """
    path.stat()
    if not path.is_file():
        raise TranscriptFormatError(str(path), "it is a folder." if path.is_dir() else "it is not a regular file.")
    with path.open("rb") as file:
        return file.read(limit).removeprefix(_BOM)


def read_records(path: Path) -> tuple[list[Record], Notes]:
    """Return the JSON objects of a file of lines, and a note for each line that holds none."""
    records: list[Record] = []
    notes = Notes()
    lines = load(path).split(b"\n")
    for number, raw in enumerate(lines, 1):
        line = raw.strip(_BLANK + b"\0")
        nul_bytes = raw.count(b"\0") - line.count(b"\0")
        if nul_bytes:
            notes.add(number, f"{nul_bytes} NUL bytes")
        if not line:
            continue
        try:
            value, problem = decode(line)
        except ValueError as error:
            torn = number == len(lines) and str(error) == _NOT_JSON
            notes.add(number, "cut off at the end of the file" if torn else str(error))
            continue
        if problem:
            notes.add(number, problem)
        if isinstance(value, dict):
            records.append(Record(number, value))
        else:
            notes.add(number, "not a JSON object")
    return records, notes


def peek(head: bytes) -> Iterator[dict[str, JSON]]:
    """Yield the first JSON objects of a file of lines; of the last, cut line, what can be made out."""
    lines = head.removeprefix(_BOM).split(b"\n")[:_PEEKED_RECORDS]
    for line in lines:
        text = line.strip(_BLANK + b"\0")
        if not text.startswith(b"{"):
            continue
        try:
            value, _problem = decode(text)
        except ValueError:
            value, _lost = decode_cut(text) if line is lines[-1] else (None, True)
        if isinstance(value, dict):
            yield value


def decode(text: bytes) -> tuple[JSON, str | None]:
    """
    Return the value of a JSON text, and what had to be done to get it.

    msgspec reads what is well formed; the rest is read as a transcript's lines are,
    with lone surrogates, NaN, control characters and integers of any length.

    Raises:
        ValueError: There is none; the sentence says why.
    """
    problem = None
    try:
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            # The sign itself may have been in the text, so comparing is the only way to know.
            is_utf8 = text.decode(errors="replace").encode() == text
            problem = None if is_utf8 else "bytes that are not UTF-8, replaced"
            value = decode_odd_json(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:
        raise ValueError(_NOT_JSON) from None
    if text.count(b"[") + text.count(b"{") > _MAX_DEPTH and _is_deep(value):
        raise ValueError(_TOO_DEEP)
    return value, problem


def decode_cut(text: bytes) -> tuple[JSON, bool]:
    """
    Return the value of a JSON text whose end is missing, and whether anything of it was given up.

    Open arrays and objects are closed. Where that is not enough, what follows the
    last comma or opening bracket is dropped; ``None`` where nothing can be read.
    """
    open_brackets = bytearray()
    end, closers = 0, b""
    for token in _TOKEN.finditer(text):
        sign = token.group()[0]
        if sign in _CLOSERS:
            open_brackets.append(_CLOSERS[sign])
            if len(open_brackets) > _MAX_DEPTH:
                return None, True  # no session nests so deeply, and closing each would take for ever
            end, closers = token.end(), bytes(reversed(open_brackets))
        elif sign == ord(","):
            end, closers = token.start(), bytes(reversed(open_brackets))
        elif sign != ord('"') and (not open_brackets or open_brackets.pop() != sign):
            break
    for candidate, lost in ((text + bytes(reversed(open_brackets)), False), (text[:end] + closers, True)):
        try:
            return decode(candidate)[0], lost
        except ValueError:
            continue
    return None, True


def milliseconds(value: JSON) -> float | None:
    """Return a timestamp as milliseconds since the epoch: ISO 8601, unmarked is UTC; a number is one already."""
    if isinstance(value, str):
        return milliseconds_of(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return value if math.isfinite(value) else None
        except OverflowError:  # an integer beyond every float
            return None
    return None


def _is_deep(value: JSON) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            item
            for parent in level
            if isinstance(parent, dict | list)
            for item in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return False
    return True
