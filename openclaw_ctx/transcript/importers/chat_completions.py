"""
Message lists of the OpenAI chat-completions API, and tau-bench trajectories.

A JSON file that is a list of messages or an object with one under ``messages``
or ``traj`` (tau-bench), or a file of lines with one message each.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from openclaw_ctx.contract import (
    JSON,
    AssistantMessage,
    Block,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownBlock,
    UserMessage,
    freeze,
)
from openclaw_ctx.errors import TranscriptFormatError

from .blocks import arguments_of, block_of
from .calls import CallLedger
from .document import read_document
from .records import HEAD_BYTES, Notes, load, milliseconds, peek, read_records
from .session import ImportedSession

__all__ = ["NAME", "read", "sniff"]

NAME = "chat-completions"

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_LISTS = ("traj", "messages")
# Of the Anthropic and the Responses API, whose lists look alike until a tool is called.
_OTHERS_PARTS = ("tool_use", "tool_result", "input_text", "output_text")
_STOP_REASONS = {"tool_calls": "toolUse", "function_call": "toolUse"}
_UNDERSTOOD = ("role", "content", "tool_calls", "function_call", "tool_call_id", "usage", "finish_reason", "timestamp")


def sniff(head: bytes, path: Path) -> bool:  # noqa: ARG001 -- a name says nothing about this format
    """Tell whether the file opens with a message, or with an object that holds a list of them."""
    if _is_message(next(peek(head), None)):
        return True
    opening = read_document(head)[0]
    if isinstance(opening, dict):
        if {"task_id", "reward"} <= opening.keys() and "traj" not in opening:
            return True  # tau-bench writes the task first, which may fill the head
        return any(_holds_messages(opening.get(key)) for key in _LISTS)
    return _holds_messages(opening)


def read(path: Path) -> ImportedSession:
    """Return the conversation in a file; of a list whose end is missing, the whole messages."""
    items, notes, about = _items(path)
    reader = _Reader(notes)
    for number, data in items:
        reader.add(number, data)
    if not reader.messages:
        raise TranscriptFormatError(str(path), "it holds no chat-completions messages.")
    session_id = about.get("session_id", about.get("id"))
    return ImportedSession(
        format=NAME,
        messages=tuple(reader.messages),
        session_id=session_id if isinstance(session_id, str) else None,
        skipped=notes.sentences(),
    )


def _holds_messages(value: JSON) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and _is_message(value[0])
        and not any(isinstance(item, dict) and _has_others_part(item.get("content")) for item in value)
    )


def _is_message(value: JSON) -> bool:
    # The Responses API has roles too, and says of each item what type it is.
    if not isinstance(value, dict) or value.get("role") not in _ROLES or "type" in value:
        return False
    content = value.get("content")
    if isinstance(content, list):
        return not _has_others_part(content)
    return isinstance(content, str) or "tool_calls" in value or "function_call" in value


def _has_others_part(content: JSON) -> bool:
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") in _OTHERS_PARTS for part in content
    )


def _items(path: Path) -> tuple[Iterable[tuple[int, JSON]], Notes, dict[str, JSON]]:
    text = load(path)
    lines = _is_message(next(peek(text[:HEAD_BYTES]), None))
    value, problem, lost = (None, None, False) if lines else read_document(text)
    about = value if isinstance(value, dict) else {}
    name = next((key for key in _LISTS if isinstance(about.get(key), list)), None)
    messages = about[name] if name else value
    if not isinstance(messages, list):
        records, notes = read_records(path)
        return [(record.line, record.data) for record in records], notes, {}
    notes = Notes("message")
    # What was given up belonged to the last message, unless something came after the list.
    if lost and messages and (name is None or name == next(reversed(about))):
        messages = messages[:-1]
    if problem:
        notes.add(0, problem)
    return enumerate(messages, 1), notes, about


class _Reader:
    """Collects the messages of the objects that are given in order."""

    def __init__(self, notes: Notes) -> None:
        self.messages: list[Message] = []
        self._notes = notes
        self._calls = CallLedger()

    def add(self, number: int, data: JSON) -> None:
        role = data.get("role") if isinstance(data, dict) else None
        if role not in _ROLES:
            self._notes.add(number, "no role that a message has")
            return
        content = self._content(number, data.get("content"))
        if content is None:
            self._notes.add(number, "its content is neither text nor a list")
            return
        if role == "user":
            self._calls.abandon()
        message = self._message(number, role, data, content)
        self.messages.append(attrs.evolve(message, timestamp=milliseconds(data.get("timestamp"))))

    def _message(
        self, number: int, role: str, data: dict[str, JSON], content: str | tuple[Block, ...]
    ) -> AssistantMessage | SystemMessage | ToolResultMessage | UserMessage:
        rest = {key: value for key, value in data.items() if key not in _UNDERSTOOD and value is not None}
        if role == "assistant":
            return self._reply(number, data, content, rest)
        if role in ("tool", "function"):
            name = rest.pop("name", None)
            call_id, known_name = self._calls.close(data.get("tool_call_id"), place=self._place(number))
            return ToolResultMessage(
                content=content,
                tool_call_id=call_id,
                tool_name=name if isinstance(name, str) else known_name,
                extra=freeze(rest),
            )
        return (
            UserMessage(content=content, extra=freeze(rest))
            if role == "user"
            else SystemMessage(content=content, extra=freeze(rest))
        )

    def _reply(
        self, number: int, data: dict[str, JSON], content: str | tuple[Block, ...], rest: dict[str, JSON]
    ) -> AssistantMessage:
        calls = self._tool_calls(number, data)
        thinking = rest.pop("reasoning_content", None)
        thoughts = (ThinkingBlock(thinking=thinking),) if isinstance(thinking, str) and thinking else ()
        if calls or thoughts:
            said = ((TextBlock(text=content),) if content else ()) if isinstance(content, str) else content
            content = (*thoughts, *said, *calls)
        model, finish = rest.pop("model", None), data.get("finish_reason")
        return AssistantMessage(
            content=content,
            model=model if isinstance(model, str) else None,
            usage=data.get("usage"),
            stop_reason=_STOP_REASONS.get(finish, finish) if isinstance(finish, str) else None,
            extra=freeze(rest),
        )

    def _content(self, number: int, content: JSON) -> str | tuple[Block, ...] | None:
        if isinstance(content, str):
            return content
        if content is None:
            return ()
        if not isinstance(content, list):
            return None
        parts = [part for part in content if isinstance(part, dict | str)]
        if len(parts) < len(content):
            self._notes.add(number, f"{len(content) - len(parts)} content items are no objects")
        return tuple(block_of(part) for part in parts)

    def _tool_calls(self, number: int, data: dict[str, JSON]) -> Sequence[Block]:
        calls = data.get("tool_calls")
        items = calls if isinstance(calls, list) else []
        legacy = data.get("function_call")
        if isinstance(legacy, dict):
            items = [*items, {"function": legacy}]
        return [self._tool_call(number, call, f"{self._place(number)}-{index}") for index, call in enumerate(items)]

    def _tool_call(self, number: int, call: JSON, place: str) -> Block:
        function = call.get("function", call.get("custom")) if isinstance(call, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or not isinstance(function, dict):
            self._notes.add(number, "a tool call without a name, kept as it is")
            return UnknownBlock(data=call)
        arguments = function.get("arguments", function.get("input"))
        return ToolCallBlock(
            id=self._calls.open(call.get("id"), name, place=place), name=name, arguments=arguments_of(arguments)
        )

    def _place(self, number: int) -> str:
        return f"{self._notes.unit}{number}"
