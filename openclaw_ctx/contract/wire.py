"""
Messages to and from the ``message`` object of a JSONL v3 line.

``message_to_wire(message_from_wire(data)) == data`` for every object that has
the fields which its role requires (a missing one comes back empty). A field of
an unexpected type is kept verbatim in ``extra`` rather than coerced, and comes
back as long as nobody has set the field; nothing here raises on foreign data.
"""

from collections.abc import Mapping
from typing import Any, get_args

import attrs

from .frozen import EMPTY, JSON, freeze, thaw
from .message import (
    AssistantMessage,
    BashExecutionMessage,
    Block,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    EntryId,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownBlock,
    UnknownMessage,
    UserMessage,
)

__all__ = ["block_from_wire", "block_to_wire", "message_from_wire", "message_to_wire"]


@attrs.frozen
class _Field:
    """One field on both sides; ``kinds`` are the types that the wire may hold to be understood."""

    name: str
    wire: str
    kinds: tuple[type, ...]


_TIMESTAMP = _Field("timestamp", "timestamp", (int, float))
_CONTENT = _Field("content", "content", (str, list))
_DETAILS = _Field("details", "details", (object,))

_MESSAGE_FIELDS: dict[type, tuple[_Field, ...]] = {
    UserMessage: (_CONTENT, _TIMESTAMP),
    SystemMessage: (_CONTENT, _TIMESTAMP),
    AssistantMessage: (
        _CONTENT,
        _Field("provider", "provider", (str,)),
        _Field("model", "model", (str,)),
        _Field("usage", "usage", (object,)),
        _Field("stop_reason", "stopReason", (str,)),
        _Field("error_message", "errorMessage", (str,)),
        _TIMESTAMP,
    ),
    ToolResultMessage: (
        _Field("tool_call_id", "toolCallId", (str,)),
        _Field("tool_name", "toolName", (str,)),
        _CONTENT,
        _DETAILS,
        _Field("is_error", "isError", (bool,)),
        _TIMESTAMP,
    ),
    CustomMessage: (
        _Field("custom_type", "customType", (str,)),
        _CONTENT,
        _Field("display", "display", (bool,)),
        _DETAILS,
        _TIMESTAMP,
    ),
    BashExecutionMessage: (
        _Field("command", "command", (str,)),
        _Field("output", "output", (str,)),
        _Field("exit_code", "exitCode", (int,)),
        _Field("exclude_from_context", "excludeFromContext", (bool,)),
        _TIMESTAMP,
    ),
    BranchSummaryMessage: (
        _Field("summary", "summary", (str,)),
        _Field("from_id", "fromId", (str,)),
        _TIMESTAMP,
    ),
    CompactionSummaryMessage: (
        _Field("summary", "summary", (str,)),
        _Field("tokens_before", "tokensBefore", (int,)),
        _TIMESTAMP,
    ),
}

_BLOCK_FIELDS: dict[type, tuple[_Field, ...]] = {
    TextBlock: (_Field("text", "text", (str,)),),
    ThinkingBlock: (
        _Field("thinking", "thinking", (str,)),
        _Field("signature", "thinkingSignature", (str,)),
    ),
    ToolCallBlock: (
        _Field("id", "id", (str,)),
        _Field("name", "name", (str,)),
        _Field("arguments", "arguments", (object,)),
    ),
    ImageBlock: (
        _Field("data", "data", (str,)),
        _Field("mime_type", "mimeType", (str,)),
    ),
}

_BLOCK_TYPES: dict[str, type[TextBlock | ThinkingBlock | ToolCallBlock | ImageBlock]] = {
    "text": TextBlock,
    "thinking": ThinkingBlock,
    "toolCall": ToolCallBlock,
    "image": ImageBlock,
}
_TYPE_OF_BLOCK = {cls: name for name, cls in _BLOCK_TYPES.items()}
_ROLES = {cls.role: cls for cls in get_args(Message) if cls is not UnknownMessage}
_BY_WIRE = {cls: {f.wire: f for f in fields} for cls, fields in (_MESSAGE_FIELDS | _BLOCK_FIELDS).items()}


def message_from_wire(data: JSON, *, entry_id: EntryId | None = None) -> Message:
    """Return the message that a v3 ``message`` object holds."""
    cls = _ROLES.get(str(data.get("role"))) if isinstance(data, Mapping) else None
    if cls is None:
        return UnknownMessage(data=data, entry_id=entry_id)
    known, extra = _split(cls, data, skip="role")
    content = known.get("content")
    if isinstance(content, list):
        known["content"] = tuple([block_from_wire(block) for block in content])
    message: Message = cls(entry_id=entry_id, extra=extra, **known)
    return message


def message_to_wire(message: Message) -> dict[str, JSON]:
    """Return the v3 ``message`` object of a message; the entry id is the line's, not the message's."""
    if isinstance(message, UnknownMessage):
        data: dict[str, JSON] = thaw(message.data)
        return data
    wire: dict[str, JSON] = {"role": message.role}
    for field in _MESSAGE_FIELDS[type(message)]:
        value = getattr(message, field.name)
        if _is_said(value, field, message.extra):
            wire[field.wire] = _content_to_wire(value) if field is _CONTENT else value
    return _filled(wire, message.extra)


def block_from_wire(data: JSON) -> Block:
    """Return the block that a v3 content item holds; an incomplete one is kept as unknown."""
    cls = _BLOCK_TYPES.get(str(data.get("type"))) if isinstance(data, Mapping) else None
    if cls is None:
        return UnknownBlock(data=data)
    known, extra = _split(cls, data, skip="type")
    try:
        block: Block = cls(extra=extra, **known)
    except TypeError:  # a required field is missing, or not of its type
        return UnknownBlock(data=data)
    return block


def block_to_wire(block: Block) -> JSON:
    """Return the v3 content item of a block."""
    if isinstance(block, UnknownBlock):
        return block.data
    wire: dict[str, JSON] = {"type": _TYPE_OF_BLOCK[type(block)]}
    for field in _BLOCK_FIELDS[type(block)]:
        value = getattr(block, field.name)
        if _is_said(value, field, block.extra):
            wire[field.wire] = value
    return _filled(wire, block.extra)


def _is_said(value: JSON, field: _Field, extra: Mapping[str, JSON]) -> bool:
    """Whether the field holds what the wire shall say; an empty one leaves that to what *extra* has kept."""
    return value is not None and not (field.wire in extra and value in ((), "", EMPTY))


def _filled(wire: dict[str, JSON], extra: Mapping[str, JSON]) -> dict[str, JSON]:
    for key, value in extra.items():
        wire.setdefault(key, value)
    return wire


def _content_to_wire(content: tuple[Block, ...]) -> JSON:
    if len(content) == 1 and isinstance(content[0], TextBlock) and content[0].bare and not content[0].extra:
        return content[0].text
    return [block_to_wire(block) for block in content]


def _split(cls: type, data: Mapping[str, JSON], *, skip: str) -> tuple[dict[str, Any], JSON]:
    fields = _BY_WIRE[cls]
    known: dict[str, Any] = {}
    extra: dict[str, JSON] = {}
    for key, value in data.items():
        if key == skip:
            continue
        field = fields.get(key)
        if field is not None and _is_kind(value, field.kinds):
            known[field.name] = value
        else:
            extra[key] = value
    return known, freeze(extra) if extra else EMPTY


def _is_kind(value: JSON, kinds: tuple[type, ...]) -> bool:
    # True is an int to Python and not to JSON.
    if type(value) is bool:
        return bool in kinds or object in kinds
    return value is not None and isinstance(value, kinds)
