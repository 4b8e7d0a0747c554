"""What of a message is searched, and the form in which it comes back."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import attrs

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    Block,
    CustomMessage,
    EntryId,
    EstimateTokens,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    UserMessage,
    message_from_wire,
    message_to_wire,
    thaw,
)

from .rendering import CUSTOM_TYPE

__all__ = ["Document", "date_of", "documents_of", "is_searched", "message_of"]

_PICTURE: Final = "[picture]"
_NO_OUTPUT: Final = "(no output)"
# "Caroline: ..." as chats are handed to agents, where the message has no name of its own.
_SPEAKER = re.compile(r"([^\W\d_][\w.'-]*(?: [^\W\d_][\w.'-]*){0,2}): ")


@attrs.frozen(kw_only=True)
class Document:
    """
    A message, as an index takes it.

    Attributes:
        group: The entry id of the first message of its tool group, or its own.
        role: ``user``, ``assistant``, ``tool`` or ``other``.
        author: Who speaks, where the message says so.
        timestamp: Milliseconds since the epoch; 0: unknown.
        date: The day, such as ``8 May 2023``; empty: unknown.
        text: What is searched, besides author and date.
        tokens: What the message costs in a prompt.
        wire: The message as it comes back, as JSON.
    """

    entry_id: str
    group: str
    role: str
    author: str
    timestamp: float
    date: str
    text: str
    tokens: int
    wire: bytes


def documents_of(
    messages: Iterable[Message], *, count: EstimateTokens, open_group: str | None = None
) -> list[Document]:
    """
    Return what of *messages* is searched, in their order.

    Args:
        messages: With entry ids.
        count: What a message costs.
        open_group: The group that tool results at the beginning belong to.
    """
    documents = []
    group = open_group
    for message in messages:
        if not is_searched(message) or message.entry_id is None:
            continue
        if not isinstance(message, ToolResultMessage) or group is None:
            group = message.entry_id
        documents.append(_document(_as_recalled(message), group, count))
    return documents


def is_searched(message: Message) -> bool:
    """
    Return whether a message is anybody's words.

    Instructions and summaries are not: an instruction would come back as one, and
    what a summary stands for is found itself. Nor is what says nothing, which no
    provider takes, unless a call waits for it.
    """
    if isinstance(message, BashExecutionMessage):
        return not message.exclude_from_context
    if isinstance(message, CustomMessage) and message.custom_type == CUSTOM_TYPE:
        return False
    if isinstance(message, UserMessage | AssistantMessage | CustomMessage):
        return any(map(_says_something, message.content))
    return isinstance(message, ToolResultMessage)


def message_of(entry_id: EntryId, wire: bytes) -> Message:
    """Return a message that was kept."""
    message: Message = attrs.evolve(
        message_from_wire(json.loads(wire.decode("utf-8", "surrogatepass"))), entry_id=entry_id
    )
    return message


def date_of(timestamp: float | None) -> str:
    """Return the day of a timestamp in UTC, such as ``8 May 2023``; nothing where there is none."""
    if not timestamp:
        return ""
    try:
        day = datetime.fromtimestamp(timestamp / 1_000, UTC)
    except (OverflowError, OSError, ValueError):
        return ""
    return f"{day.day} {day:%B %Y}"


def _document(message: Message, group: str, count: EstimateTokens) -> Document:
    author = message.extra.get("name")
    text = _text_of(message)
    if not isinstance(author, str) or not author:
        speaker = _SPEAKER.match(text)
        author = speaker[1] if speaker and _is_name(speaker[1]) else ""
        text = text[speaker.end() :] if speaker and author else text
    return Document(
        entry_id=str(message.entry_id),
        group=group,
        role=_role_of(message),
        author=author,
        timestamp=message.timestamp if message.timestamp and math.isfinite(message.timestamp) else 0.0,
        date=date_of(message.timestamp),
        text=text,
        tokens=count(message),
        wire=json.dumps(message_to_wire(message), ensure_ascii=False).encode("utf-8", "surrogatepass"),
    )


def _is_name(words: str) -> bool:
    """Return whether every word could begin a name: none begins with a small letter."""
    return not any(word[0].islower() for word in words.split())


def _as_recalled(message: Message) -> Message:
    """Return a message without what is of no use later, or too dear: what was thought, and pictures."""
    if isinstance(message, AssistantMessage):
        return attrs.evolve(message, content=_worth_recalling(message.content), usage=None)
    if isinstance(message, ToolResultMessage):
        content = _worth_recalling(message.content) or (TextBlock(text=_NO_OUTPUT),)
        return attrs.evolve(message, content=content, details=None)
    if isinstance(message, UserMessage | CustomMessage):
        return attrs.evolve(message, content=_worth_recalling(message.content))
    return message


def _worth_recalling(content: Sequence[Block]) -> tuple[Block, ...]:
    return tuple(
        TextBlock(text=_PICTURE) if isinstance(block, ImageBlock) else block
        for block in content
        if _says_something(block)
    )


def _says_something(block: Block) -> bool:
    if isinstance(block, TextBlock):
        return bool(block.text) and not block.text.isspace()
    return not isinstance(block, ThinkingBlock)


def _text_of(message: Message) -> str:
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = (f"{call.name} {json.dumps(thaw(call.arguments), ensure_ascii=False)}" for call in message.tool_calls)
        return "\n".join((message.text, *calls))
    return message.text


def _role_of(message: Message) -> str:
    match message:
        case UserMessage():
            return "user"
        case AssistantMessage():
            return "assistant"
        case ToolResultMessage() | BashExecutionMessage():
            return "tool"
        case _:
            return "other"
