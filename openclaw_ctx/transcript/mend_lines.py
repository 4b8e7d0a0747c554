"""
One line of a damaged transcript: how it reads, and what has to be changed on it.

A line is changed field by field; what is not changed keeps its bytes.
"""

import contextlib
import json
from collections.abc import Mapping
from typing import Final

import msgspec

from openclaw_ctx.contract import JSON, AssistantMessage, ToolResultMessage, UserMessage

from .entry import decode_json, encode_json
from .repair import CONTINUE

__all__ = ["FAILED", "GONE", "SET_ASIDE", "mend_line", "read_line", "what_is_wrong"]

FAILED: Final = "[assistant turn failed before producing content]"
"""Stands for a reply that an error left empty; the reference system's."""

SET_ASIDE: Final = "openclaw-ctx.set-aside"
"""The custom type of an entry whose message is none: its data is kept, and no model sees it."""

GONE: Final = object()
"""In place of a field's value: the field is taken off the line."""

_CONTENT_ROLES: Final = frozenset({UserMessage.role, AssistantMessage.role, ToolResultMessage.role})
_SUMMARY_TYPES: Final = frozenset({"compaction", "branch_summary"})
_REFUSED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_decode = msgspec.json.Decoder().decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def read_line(line: bytes) -> tuple[JSON, bool]:
    """
    Return the entry on a line, and whether another program would refuse the line as it is.

    Raises:
        ValueError: There is no entry, or none that can be written again.
    """
    try:
        data = _decode(line)
    except _REFUSED:
        data = decode_json(line)
        try:
            encode_json(data)
        except RecursionError as error:
            message = "nested too deeply"
            raise ValueError(message) from error
        refused = not _is_plain(line)
    else:
        refused = False
    if type(data) is not dict or type(data.get("type")) is not str:
        message = "not an entry"
        raise ValueError(message)
    return data, refused


def _is_plain(line: bytes) -> bool:
    """Return whether it is JSON as others read it; NaN, lone surrogates and long numbers are."""
    try:
        json.loads(line.decode(), parse_int=len)
    except (ValueError, RecursionError):
        return False
    return True


def what_is_wrong(data: JSON, *, is_old: bool) -> tuple[dict[str, JSON], list[str]]:
    """
    Return what an entry has to say instead, by field, and the kinds of change.

    Args:
        data: The whole line.
        is_old: Whether it is of a version before 3, where a program's message had another role.
    """
    if data["type"] in _SUMMARY_TYPES and type(data.get("summary")) is not str:
        return {"summary": str(data.get("summary") or "") if data["type"] == "compaction" else ""}, ["summary"]
    if data["type"] != "message":
        return {}, []
    message = data.get("message")
    if type(message) is not dict or type(message.get("role")) is not str:
        return {"type": "custom", "customType": SET_ASIDE, "data": message, "message": GONE}, ["message"]
    changes: dict[str, JSON] = {}
    kinds: list[str] = []
    if is_old and message["role"] == "hookMessage":
        changes["role"] = "custom"
        kinds.append("role")
    if message["role"] in _CONTENT_ROLES:
        kind, content = _mended_content(message)
        if kind:
            changes["content"] = content
            kinds.append(kind)
    return {"message": message | changes} if changes else {}, kinds


def _mended_content(message: Mapping[str, JSON]) -> tuple[str, JSON]:
    """Return the kind of change and the content instead; no kind: it is well as it is."""
    content, role = message.get("content"), message["role"]
    kept = [block for block in content if not _is_blank(block)] if type(content) is list else []
    if type(content) is list:
        is_empty = not kept
    elif content is None or type(content) is str:
        is_empty = content is None or _has_no_words(content)
    else:
        return "", None  # it is nobody's to say what was meant
    if is_empty and role == UserMessage.role:
        return "continue", [_text_block(CONTINUE)] if type(content) is list else CONTINUE
    if is_empty and role == AssistantMessage.role and message.get("stopReason") == "error":
        return "failed", [_text_block(FAILED)]
    # Of an empty result or a clean stop nothing is taken: the view of it says what has to be said.
    if is_empty or type(content) is not list or len(kept) == len(content):
        return "", None
    return "blank-block", kept


def _text_block(text: str) -> dict[str, JSON]:
    return {"type": "text", "text": text}


def _is_blank(block: JSON) -> bool:
    if type(block) is not dict or block.get("type") != "text":
        return False
    text = block.get("text")
    return type(text) is str and _has_no_words(text)


def _has_no_words(text: str) -> bool:
    return not text or text.isspace()


def mend_line(line: bytes, changes: Mapping[str, JSON], *, refused: bool) -> bytes:
    """
    Return *line* with other fields in place of its own.

    Args:
        line: As it is on disk.
        changes: By field, the new value or :data:`GONE`.
        refused: Whether all of it has to be written anew.
    """
    fields: dict[str, JSON] | None = None
    if not refused:
        with contextlib.suppress(*_REFUSED):  # NaN, a lone surrogate or a long number is on it
            fields = _decode_fields(line)
    if fields is None:
        data: dict[str, JSON] = decode_json(line)
        return encode_json(_changed(data, changes))
    return _encode(_changed(fields, {key: _raw(value) for key, value in changes.items()}))


def _raw(value: JSON) -> JSON:
    return value if value is GONE else msgspec.Raw(encode_json(value))


def _changed(fields: dict[str, JSON], changes: Mapping[str, JSON]) -> dict[str, JSON]:
    return {key: value for key, value in (fields | dict(changes)).items() if value is not GONE}
