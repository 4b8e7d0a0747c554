"""
One line of a transcript: its place in the tree, and its message when somebody asks.

Opening a long transcript decodes only the head of each line. What a line says
is read from the file at first use, so a history costs what is looked at.
"""

import json
import math
from collections.abc import Callable, Iterator
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

__all__ = ["Entry", "decode_json", "decode_lines", "encode_json", "message_of"]

_MESSAGE_TYPES: Final = frozenset({"message", "custom_message", "branch_summary"})
_BOUNDARY_TYPES: Final = frozenset({"compaction", "reset"})
_OURS: Final = "\uffff"  # a noncharacter: no key of a transcript begins with it, so these are never decoded


class _MessageHead(msgspec.Struct, gc=False):
    role: str | None = None
    exclude_from_context: bool | None = msgspec.field(default=None, name="excludeFromContext")


class Entry(msgspec.Struct, gc=False):
    """
    A line's head, where the line is, and its message once it has been read.

    The decoder makes these objects itself: one object a line is what a hundred
    thousand lines can afford.
    """

    type: str
    id: EntryId | None = None
    parent_id: EntryId | None = msgspec.field(default=None, name="parentId")
    first_kept_id: EntryId | None = msgspec.field(default=None, name="firstKeptEntryId")
    first_kept_index: int | None = msgspec.field(default=None, name="firstKeptEntryIndex")
    summary: str | None = None
    head: _MessageHead | None = msgspec.field(default=None, name="message")
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


    def hide(self, *, hidden: bool) -> None:
        """Say whether the model is kept from this line's message."""
        self.head = _MessageHead(exclude_from_context=hidden)


_decode_entry = msgspec.json.Decoder(Entry).decode
_decode_any = msgspec.json.Decoder().decode
_encode_any = msgspec.json.Encoder().encode


def decode_lines(data: bytes, offset: int, number: int, warn: Callable[[str], None]) -> Iterator[Entry]:
    """
    Yield the entries of whole lines that begin at *offset* of the file and at line *number*.

    A line ends at LF alone: the other line separators of Unicode are text. What
    is no entry is passed over with a warning that names its line.
    """
    decode = _decode_entry
    for line in data.split(b"\n"):
        length = len(line)
        if length:
            try:
                entry = decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                found = _decode_odd_line(line, number, warn)
                if found is not None:
                    found.offset, found.length = offset, length
                    yield found
            else:
                entry.offset = offset
                entry.length = length
                yield entry
        offset += length + 1
        number += 1


def _decode_odd_line(line: bytes, number: int, warn: Callable[[str], None]) -> Entry | None:
    text = line.strip(b"\x00\r \t\xef\xbb\xbf")
    if not text:
        if b"\x00" in line:
            warn(f"line {number}: {len(line)} NUL bytes, passed over")
        return None
    try:
        data = decode_json(text)
    except ValueError:
        warn(f"line {number}: not JSON, passed over ({len(line)} bytes)")
        return None
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        warn(f"line {number}: not an entry, passed over ({len(line)} bytes)")
        return None
    entry = Entry(type=data["type"])
    for name, key in (("id", "id"), ("parent_id", "parentId"), ("first_kept_id", "firstKeptEntryId")):
        if isinstance(data.get(key), str):
            setattr(entry, name, data[key])
    if isinstance(data.get("summary"), str):
        entry.summary = data["summary"]
    message = data.get("message")
    if isinstance(message, dict):
        entry.head = _MessageHead(exclude_from_context=message.get("excludeFromContext") is True)
    return entry


def decode_json(data: bytes) -> JSON:
    """
    Return the JSON value in *data*; lone surrogates, NaN and long integers too.

    Raises:
        ValueError: There is none.
    """
    text = data.strip(b"\x00\r \t\xef\xbb\xbf")
    try:
        return _decode_any(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        try:
            return json.loads(text.decode("utf-8", "replace"))
        except RecursionError as error:
            message = "nested too deeply"
            raise ValueError(message) from error


def encode_json(value: JSON) -> bytes:
    """Return *value* as one line of JSON, without the line's end; what :func:`decode_json` reads comes back."""
    try:
        data = _encode_any(value)
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError):
        return _encode_odd(value)
    # msgspec writes NaN as null; a null is the only sign of it.
    if b"null" in data and _has_odd_number(value):
        return _encode_odd(value)
    return data


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
            return message_from_wire({**_body(data), "role": CustomMessage.role}, entry_id=entry_id)
        case "branch_summary":
            return BranchSummaryMessage(
                summary=str(data.get("summary") or ""), from_id=data.get("fromId"), entry_id=entry_id
            )
        case "compaction":
            before = data.get("tokensBefore")
            return CompactionSummaryMessage(
                summary=str(data.get("summary") or ""),
                tokens_before=before if isinstance(before, int) else None,
                entry_id=entry_id,
            )
        case _:
            return UnknownMessage(data=data, entry_id=entry_id)


def _body(data: dict[str, JSON]) -> dict[str, JSON]:
    return {key: data[key] for key in ("customType", "content", "display", "details") if key in data}
