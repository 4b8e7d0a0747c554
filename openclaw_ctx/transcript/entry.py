"""
One line of a transcript: its place in the tree, and its message when somebody asks.

Opening a long transcript decodes only the head of each line. What a line says
is read from the file at first use, so a history costs what is looked at.
"""

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from openclaw_ctx.contract import (
    JSON,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    EntryId,
    Message,
    UnknownMessage,
    message_from_wire,
)

__all__ = [
    "LINE_KEYS",
    "Entry",
    "decode_entry",
    "decode_json",
    "decode_odd_json",
    "encode_json",
    "is_record_behind",
    "message_of",
    "milliseconds_of",
    "read_entry",
    "record_starts",
]

LINE_KEYS: Final = frozenset({"type", "id", "parentId", "timestamp", "more"})
"""What every line has; all else on it belongs to its type."""

_MESSAGE_TYPES: Final = frozenset({"message", "custom_message", "branch_summary"})
_BOUNDARY_TYPES: Final = frozenset({"compaction", "reset"})
_OURS: Final = "\uffff"  # a noncharacter: these fields are the reader's, and it sets all three
# What damage leaves around a record: zeroed blocks, foreign line ends, a byte order mark.
_AROUND: Final = b"\x00\r \t\xef\xbb\xbf"


_RECORD_START: Final = b'{"type":'
_RECORD_KEYS: Final = frozenset({"parentId", "timestamp"})
_MAX_STARTS: Final = 17


class _MessageHead(msgspec.Struct, gc=False):
    exclude_from_context: bool | None = msgspec.field(default=None, name="excludeFromContext")


class Entry(msgspec.Struct, gc=False):
    """
    A line's head, where the line is, and its message once it has been read.

    The decoder makes these objects itself: one object a line is what a hundred
    thousand lines can afford. ``more`` is how many lines that were written with
    this one stand behind it.
    """

    type: str
    id: EntryId | None = None
    parent_id: EntryId | None = msgspec.field(default=None, name="parentId")
    first_kept_id: EntryId | None = msgspec.field(default=None, name="firstKeptEntryId")
    first_kept_index: int | None = msgspec.field(default=None, name="firstKeptEntryIndex")
    summary: str | None = None
    head: _MessageHead | None = msgspec.field(default=None, name="message")
    more: int = 0
    offset: int = msgspec.field(default=-1, name=_OURS + "o")
    length: int = msgspec.field(default=0, name=_OURS + "l")
    message: Any = msgspec.field(default=None, name=_OURS + "m")

    @property
    def in_context(self) -> bool:
        """Whether the model sees a message of this line (a boundary's summary aside)."""
        if self.type == "message":
            return self.head is None or not self.head.exclude_from_context
        return self.type == "custom_message" or (self.type == "branch_summary" and bool(self.summary))

    @property
    def is_boundary(self) -> bool:
        """Whether the context begins anew here."""
        return self.type in _BOUNDARY_TYPES

    @property
    def is_message(self) -> bool:
        """Whether a message of the record is on this line, seen by the model or not."""
        return self.type in _MESSAGE_TYPES


decode_entry = msgspec.json.Decoder(Entry).decode
"""Return the entry on a line that is in order; anything else raises, and :func:`read_entry` is for that."""

_decode_any = msgspec.json.Decoder().decode
_encode_any = msgspec.json.Encoder().encode


def read_entry(line: bytes) -> Entry:
    """
    Return the entry on a line, whatever is odd about its fields.

    Raises:
        ValueError: There is none; a sentence says why.
    """
    try:
        entry = decode_entry(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            data = decode_json(line)
        except ValueError as error:
            problem = "not JSON"
            raise ValueError(problem) from error
    else:
        entry.message = None
        return entry
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        problem = "not an entry"
        raise ValueError(problem)  # noqa: TRY004 -- what a line holds is a value
    message, index, more = data.get("message"), data.get("firstKeptEntryIndex"), data.get("more")
    hidden = isinstance(message, dict) and message.get("excludeFromContext") is True
    return Entry(
        type=data["type"],
        id=_text(data.get("id")),
        parent_id=_text(data.get("parentId")),
        first_kept_id=_text(data.get("firstKeptEntryId")),
        first_kept_index=index if type(index) is int else None,
        summary=_text(data.get("summary")),
        head=_MessageHead(exclude_from_context=True) if hidden else None,
        more=more if type(more) is int else 0,
    )


def record_starts(line: bytes) -> Iterator[int]:
    """Yield where on a line a record may begin: at its beginning, then behind what may be one that was cut off."""
    start = 0
    for _ in range(_MAX_STARTS):
        yield start
        start = line.find(_RECORD_START, start + 1)
        if start < 0:
            return


def is_record_behind(data: JSON) -> bool:
    """
    Return whether an object that stands behind a torn record is a record of its own.

    A block of the torn one's content begins as a record does, may have an id,
    and has neither of these keys.
    """
    return not _RECORD_KEYS.isdisjoint(data)


def _text(value: JSON) -> Any:
    return value if isinstance(value, str) else None


def decode_json(data: bytes) -> JSON:
    """
    Return the JSON value in *data*; lone surrogates, NaN and long integers too.

    An integer of more digits than Python reads (4300) comes back as text.

    Raises:
        ValueError: There is none.
    """
    text = data.strip(_AROUND)
    try:
        return _decode_any(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            return decode_odd_json(text)
        except RecursionError as error:
            message = "nested too deeply"
            raise ValueError(message) from error


def decode_odd_json(text: bytes) -> JSON:
    """
    Return the JSON value of a text that a strict decoder refused, read with all patience that there is.

    Raises:
        RecursionError: It nests too deeply.
        ValueError: There is none.
    """
    return json.loads(text.decode("utf-8", "replace"), strict=False, parse_int=_integer)


def _integer(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:
        return digits


def encode_json(value: JSON) -> bytes:
    """Return *value* as one line of JSON, without the line's end; what :func:`decode_json` reads comes back."""
    try:
        data = _encode_any(value)
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError):
        return _encode_odd(value)
    # msgspec writes NaN as null; a null is the only sign of it.
    try:
        odd = b"null" in data and _has_odd_number(value)
    except RecursionError:
        return data
    return _encode_odd(value) if odd else data


def _encode_odd(value: JSON) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def _has_odd_number(value: JSON) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_odd_number, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_odd_number, value))


def message_of(data: JSON, entry_id: EntryId | None) -> Message:
    """Return the message that a line stands for in the context; *data* is the whole line."""
    match data.get("type"):
        case "message":
            body = data.get("message")
            if isinstance(body, dict) and body.get("role") == "hookMessage":  # its name before version 3
                body = {**body, "role": "custom"}
            return message_from_wire(body, entry_id=entry_id)
        case "custom_message":
            return message_from_wire(_body(data, CustomMessage.role), entry_id=entry_id)
        case "branch_summary":
            return message_from_wire(_body(data, BranchSummaryMessage.role), entry_id=entry_id)
        case "compaction":
            before = data.get("tokensBefore")
            return CompactionSummaryMessage(
                summary=str(data.get("summary") or ""),
                tokens_before=before if isinstance(before, int) else None,
                timestamp=_rounded(data.get("timestamp")),
                entry_id=entry_id,
            )
        case _:
            return UnknownMessage(data=data, entry_id=entry_id)


def _body(data: dict[str, JSON], role: str) -> dict[str, JSON]:
    """Return the message object of a line that is its message; the line's time is the message's."""
    body = {key: value for key, value in data.items() if key not in LINE_KEYS} | {"role": role}
    stamp = _rounded(data.get("timestamp"))
    return body if stamp is None else body | {"timestamp": stamp}


def milliseconds_of(stamp: JSON) -> float | None:
    """Return an ISO 8601 text as milliseconds since the epoch, where unmarked is UTC; ``None`` for anything else."""
    try:
        moment = datetime.fromisoformat(stamp)
    except (TypeError, ValueError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000


def _rounded(stamp: JSON) -> int | None:
    moment = milliseconds_of(stamp)
    return None if moment is None else round(moment)
