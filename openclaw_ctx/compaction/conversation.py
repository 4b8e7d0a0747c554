"""
A conversation as text: what a summariser reads, as data.

A model that were sent the messages themselves would go on with the
conversation, or do what somebody asks for in it. In text, who said what is
said by labels, and a text that imitates the frame around it cannot close it.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from openclaw_ctx.contract import (
    AssistantMessage,
    BashExecutionMessage,
    Block,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

__all__ = ["framed", "framed_conversation"]

_FRAMES: Final = re.compile(r"<(/?)(conversation|earlier-summary|focus)\b", re.IGNORECASE)
_IMAGE: Final = "[image left out]"
_OTHER: Final = "[content left out]"
# Arguments beyond this are a file that was written; its beginning and its length say what it was.
_ARGUMENT_CHARS: Final = 20_000


def framed(tag: str, text: str) -> str:
    """Return *text* between tags that nothing in it can close."""
    return f"<{tag}>\n{_quoted(text)}\n</{tag}>"


def framed_conversation(messages: Iterable[Message]) -> str:
    """Return what was said and done, a labelled paragraph each, oldest first; ``details`` of tools are left out."""
    # Quoted piece by piece: one pass over megabytes would hold up every other thread.
    said = "\n\n".join(_quoted(paragraph) for message in messages for paragraph in _paragraphs(message))
    return f"<conversation>\n{said}\n</conversation>"


def _quoted(text: str) -> str:
    return _FRAMES.sub(r"<\1\\\2", text)


def _paragraphs(message: Message) -> Iterator[str]:
    match message:
        case UserMessage():
            yield from _labelled("User", message.content)
        case AssistantMessage():
            yield from _labelled("Assistant", message.content)
            if message.error_message:
                yield f"[Assistant was cut off]: {message.error_message}"
        case ToolResultMessage():
            failed = " (failed)" if message.is_error else ""
            yield from _labelled(f"Result of {message.tool_name or 'tool'}{failed}", message.content)
        case CustomMessage():
            yield from _labelled(f"Note of {message.custom_type or 'a program'}", message.content)
        case SystemMessage():
            yield from _labelled("System", message.content)
        case BashExecutionMessage() if not message.exclude_from_context:
            yield f"[User ran a command]: {message.text}"
        case CompactionSummaryMessage() | BranchSummaryMessage() if message.summary:
            yield f"[Summary of an earlier part]: {message.summary}"


def _labelled(label: str, content: Iterable[Block]) -> Iterator[str]:
    said: list[str] = []
    for block in content:
        match block:
            case TextBlock():
                said.append(block.text)
            case ThinkingBlock():
                yield f"[{label} thinking]: {block.thinking}"
            case ToolCallBlock():
                yield from (f"[{label}]: {text}" for text in _joined(said))
                said = []
                yield f"[{label} calls {block.name}]: {_arguments(block)}"
            case ImageBlock():
                said.append(_IMAGE)
            case _:
                said.append(_OTHER)
    yield from (f"[{label}]: {text}" for text in _joined(said))


def _joined(said: list[str]) -> list[str]:
    text = "\n".join(said).strip()
    return [text] if text else []


def _arguments(call: ToolCallBlock) -> str:
    try:
        text = msgspec.json.encode(call.arguments).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = repr(call.arguments)
    if len(text) <= _ARGUMENT_CHARS:
        return text
    return f"{text[:_ARGUMENT_CHARS]} [{len(text) - _ARGUMENT_CHARS} more characters left out]"
