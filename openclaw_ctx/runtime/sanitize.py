"""
One message as a provider takes it, whatever its neighbours.

What says nothing at all is left to the repair of pairs, which sees the neighbours.
"""

import re
from collections.abc import Mapping
from typing import Final

import attrs

from openclaw_ctx.contract import (
    AssistantMessage,
    Block,
    CustomMessage,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownBlock,
    UserMessage,
)

from .heartbeat import SILENT_REPLY
from .rules import PromptRules
from .thinking import is_thinking, is_trusted, without_signature

__all__ = ["Sanitized", "sanitize"]

MAX_NAME_CHARS: Final = 64
"""The longest name of a tool; the reference system's."""

_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME_CHARS}}}")
_WITH_CONTENT: Final = (UserMessage, ToolResultMessage, CustomMessage, SystemMessage)
_CALL_TYPES: Final = frozenset({"toolCall", "toolUse", "tool_use", "functionCall", "function_call"})


@attrs.frozen(kw_only=True)
class Sanitized:
    """
    What a message came to.

    Attributes:
        message: Itself where it needed nothing; ``None`` where nothing of it is left.
        notes: What was done, a phrase for each time.
    """

    message: Message | None
    notes: tuple[str, ...] = ()


def sanitize(
    message: Message, rules: PromptRules, *, running: bool = False, strip_signatures: bool = False
) -> Sanitized:
    """
    Return what goes into a prompt of *message*.

    The results of a call that is dropped stay: they have no call then, and the repair of pairs drops them.

    Args:
        message: Any.
        rules: What the provider takes.
        running: Whether it belongs to the turn that is running.
        strip_signatures: Whether no signature is to be believed, since the provider has refused one.
    """
    notes: list[str] = []
    if isinstance(message, AssistantMessage):
        trusted = not strip_signatures and is_trusted(message, rules, running=running)
        answered = [_answered(block, rules, trusted, notes) for block in message.content]
        if not notes:
            return Sanitized(message=message)
        blocks = tuple([block for block in answered if block is not None])
        left = attrs.evolve(message, content=blocks) if any(not is_thinking(block) for block in blocks) else None
        return Sanitized(message=left, notes=tuple(notes))
    if isinstance(message, _WITH_CONTENT) and any(type(block) is ImageBlock for block in message.content):
        blocks = tuple([_bounded(block, rules, notes) for block in message.content])
        if notes:
            return Sanitized(message=attrs.evolve(message, content=blocks), notes=tuple(notes))
    return Sanitized(message=message)


def _answered(block: Block, rules: PromptRules, trusted: bool, notes: list[str]) -> Block | None:  # noqa: FBT001 -- private, and called in one place
    match block:
        case TextBlock() if block.text.strip() == SILENT_REPLY:
            notes.append("silent reply removed")
            return None
        case ToolCallBlock():
            return _called(block, rules, notes)
        case ImageBlock():
            return _bounded(block, rules, notes)
        case UnknownBlock(data=Mapping() as data) if data.get("type") in _CALL_TYPES:
            notes.append("incomplete tool call removed")
            return None
        case _ if is_thinking(block):
            return _thought(block, rules, trusted, notes)
        case _:
            return block


def _thought(block: Block, rules: PromptRules, trusted: bool, notes: list[str]) -> Block | None:  # noqa: FBT001 -- as above
    if not rules.keep_thinking:
        notes.append("thinking removed")
        return None
    if trusted:
        return block
    plain = without_signature(block)
    if plain is not block:
        notes.append("signature of thinking removed")
    return plain


def _called(block: ToolCallBlock, rules: PromptRules, notes: list[str]) -> ToolCallBlock | None:
    # What a line has as null is kept beside the fields, since it is not of the field's type.
    if not block.id.strip() or block.arguments is None or "arguments" in block.extra:
        notes.append("incomplete tool call removed")
        return None
    name = block.name.strip()
    if not _NAME.fullmatch(name):
        notes.append("tool call removed, by a name that no tool has")
        return None
    if rules.tool_names is not None and name not in rules.tool_names:
        notes.append("tool call removed, of a tool that is not offered")
        return None
    if name == block.name:
        return block
    notes.append("name of a tool call trimmed")
    return attrs.evolve(block, name=name)


def _bounded(block: Block, rules: PromptRules, notes: list[str]) -> Block:
    if not isinstance(block, ImageBlock):
        return block
    size = _decoded_bytes(block.data)
    if size <= rules.max_image_bytes:
        return block
    notes.append("image over the limit named in its place")
    return TextBlock(text=f"[An image of {size:,} bytes is left out; at most {rules.max_image_bytes:,} can be sent.]")


def _decoded_bytes(data: str) -> int:
    """Return the bytes of a base64 text, from its length; line ends in it count as digits."""
    start = data.find(",", 0, 256) + 1 if data.startswith("data:") else 0
    return (len(data) - start) * 3 // 4 - data.count("=", max(start, len(data) - 2))
