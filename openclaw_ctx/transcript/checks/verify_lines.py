"""
A session file's lines as objects, and what is wrong with the lines themselves.

What is passed over here is what opening a transcript passes over, and said.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final

import attrs
import msgspec

from openclaw_ctx.contract import JSON
from openclaw_ctx.transcript.entry import decode_json, is_record_behind, record_starts

from .findings import Findings

__all__ = ["Lines"]

_decode = msgspec.json.Decoder().decode

_SPACE: Final = b"\r\n\t "
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@attrs.define(kw_only=True)
class _Lot:
    """Lines that are told of together: a file with one of them is likely to have nothing else."""

    code: str
    count: int = 0
    first: int = 0

    def take(self, number: int) -> None:
        self.count += 1
        self.first = self.first or number


@attrs.define(kw_only=True)
class Lines:
    """
    The lines of a file, one in memory at a time.

    Attributes:
        count: How many have been read.
        size: Bytes of them.
    """

    file: Iterable[bytes]
    findings: Findings
    count: int = 0
    size: int = 0

    def __iter__(self) -> Iterator[tuple[int, JSON]]:
        """Yield number and entry of each line that is not empty; ``None`` stands for one that is passed over."""
        returns, blank = _Lot(code="carriage-returns"), _Lot(code="line-blank")
        line, data = b"\n", None
        for line in self.file:
            self.count += 1
            self.size += len(line)
            if line.endswith(b"\r\n"):
                returns.take(self.count)
            data = _strictly(line)
            if data is None and line.endswith(b"\n") and not line.strip(_SPACE):
                blank.take(self.count)
                continue
            if data is None:
                data, start = _patiently(line)
                self._tell(line, data, start)
                if start:
                    yield self.count, None
            yield self.count, data
        if data is not None and not line.endswith(b"\n"):
            self.findings.add("newline-missing", self.count)
        for lot in (returns, blank):
            if lot.count:
                self.findings.add(lot.code, lot.first, count=lot.count)

    def _tell(self, line: bytes, data: JSON, start: int) -> None:
        """Say what is wrong with a line that a strict decoder refused; *data* is the entry that was found on it."""
        found: dict[str, dict[str, int]] = {}
        if data is None and not line.endswith(b"\n"):
            found["tail-torn"] = {"size": len(line)}
        elif nuls := line.count(b"\x00"):
            found["nul-bytes"] = {"count": nuls}
        elif data is None:
            found["line-no-entry" if _is_json(line) else "line-unparsable"] = {"size": len(line.rstrip(b"\n"))}
        elif start:
            found["line-fragment"] = {"size": start}
        else:
            found = {code: {} for code in _departures(line)}
        for code, facts in found.items():
            self.findings.add(code, self.count, **facts)


def _strictly(line: bytes) -> JSON:
    """Return the entry on a line that every program reads alike; ``None`` for any other line."""
    try:
        data = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return data if _is_entry(data) else None


def _is_entry(data: JSON) -> bool:
    return type(data) is dict and type(data.get("type")) is str


def _is_json(line: bytes) -> bool:
    try:
        decode_json(line)
    except ValueError:
        return False
    return True


def _patiently(line: bytes) -> tuple[JSON, int]:
    """Return the entry on a line and where it begins; a whole record may stand behind one that was cut off."""
    for start in record_starts(line):
        try:
            data = decode_json(line[start:].rstrip(b"\n"))
        except ValueError:
            continue
        if _is_entry(data) and (not start or is_record_behind(data)):
            return data, start
    return None, 0


def _departures(line: bytes) -> Iterator[str]:
    """Yield what the JSON of other programs does not allow; NaN, which we write too, is none of it."""
    if line.startswith(_BYTE_ORDER_MARK):
        yield "byte-order-mark"
        line = line.removeprefix(_BYTE_ORDER_MARK)
    try:
        json.loads(line.decode(), parse_int=len)
    except UnicodeDecodeError:
        yield "not-utf8"
    except (ValueError, RecursionError):
        yield "control-characters"
