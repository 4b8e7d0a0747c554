"""
Sessions of Copilot CLI: ``events.jsonl`` under ``~/.copilot/session-state``.

Messages and the ends of tool runs are the conversation; the other events tell
of the program's state. What a subagent did is left out, and what a compaction
folded is still there.
"""

from collections.abc import Iterator
from pathlib import Path

import attrs

from openclaw_ctx.contract import (
    JSON,
    AssistantMessage,
    Block,
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
    UserMessage,
)
from openclaw_ctx.errors import TranscriptFormatError

from .blocks import arguments_of, readable, text_or_none
from .calls import CallLedger
from .records import Notes, Record, milliseconds, peek, read_records
from .session import ImportedSession

__all__ = ["NAME", "read", "sniff"]

NAME = "copilot"

_OURS = ("session.start", "session.resume", "user.message", "assistant.message", "tool.execution_complete")


def sniff(head: bytes, path: Path) -> bool:  # noqa: ARG001 -- a name says nothing about this format
    """Tell whether a record has the marks of this format."""
    return any(_is_ours(data) for data in peek(head))


def read(path: Path) -> ImportedSession:
    """Return the main conversation in a file of events."""
    records, notes = read_records(path)
    if not any(_is_ours(record.data) for record in records):
        raise TranscriptFormatError(str(path), "it holds no Copilot session.")
    reader = _Reader(notes)
    for record in records:
        reader.add(record)
    return ImportedSession(
        format=NAME,
        messages=tuple(reader.messages),
        session_id=reader.session_id,
        cwd=reader.cwd,
        skipped=notes.sentences(),
    )


def _is_ours(data: dict[str, JSON]) -> bool:
    return data.get("type") in _OURS and isinstance(data.get("data"), dict)


class _Reader:
    """Collects the messages of events that are given in order."""

    def __init__(self, notes: Notes) -> None:
        self.messages: list[Message] = []
        self.session_id: str | None = None
        self.cwd: str | None = None
        self._notes = notes
        self._model: str | None = None
        self._thought: str | None = None  # before the message that it belongs to
        self._calls = CallLedger()
        self._asked: set[str] = set()
        self._seen: set[str] = set()

    def add(self, record: Record) -> None:
        kind, data = record.data.get("type"), record.data.get("data")
        if not isinstance(kind, str) or not isinstance(data, dict):
            self._notes.add(record.line, "not an event: no type or no data")
            return
        if text_or_none(data.get("parentToolCallId")):
            self._notes.add(record.line, "a subagent's event")
            return
        match kind:
            case "system.message" | "system.notification" | "user.message":
                self._add_input(record, kind, data)
            case "assistant.reasoning":
                self._thought = text_or_none(data.get("content"))
            case "assistant.message":
                self._add_reply(record, data)
            case "tool.execution_complete":
                self._add_result(record, data)
            case "abort":
                self._abort()
            case _:
                self._learn(record, kind, data)

    def _learn(self, record: Record, kind: str, data: dict[str, JSON]) -> None:
        match kind:
            case "session.start" | "session.resume":
                self._start(data)
            case "session.model_change":
                self._model = text_or_none(data.get("newModel")) or self._model
            case "session.compaction_complete":
                self._notes.add(record.line, "a recorded compaction's summary")
            case "tool.execution_start" if text_or_none(data.get("toolCallId")) not in self._asked:
                self._notes.add(record.line, "a tool run that no message asked for")
            case _:
                pass  # the program's state

    def _start(self, data: dict[str, JSON]) -> None:
        context = data.get("context")
        self.session_id = self.session_id or text_or_none(data.get("sessionId"))
        self.cwd = self.cwd or (text_or_none(context.get("cwd")) if isinstance(context, dict) else None)
        self._model = text_or_none(data.get("selectedModel")) or self._model

    def _add_input(self, record: Record, kind: str, data: dict[str, JSON]) -> None:
        # The model got the transformed text; the other is what people see.
        text = text_or_none(data.get("transformedContent")) or data.get("content")
        pictures = tuple(_pictures(data.get("attachments")))
        if not isinstance(text, str):
            self._notes.add(record.line, "its message has no content")
        elif kind == "system.message":
            self._append(SystemMessage(content=text), record)
        elif kind == "system.notification":
            self._append(CustomMessage(content=text, custom_type="notification"), record)
        else:
            self._calls.abandon()
            self._append(UserMessage(content=(TextBlock(text=text), *pictures) if pictures else text), record)

    def _add_reply(self, record: Record, data: dict[str, JSON]) -> None:
        thought = text_or_none(data.get("reasoningText")) or self._thought
        signature = text_or_none(data.get("reasoningOpaque"))
        self._thought = None
        content, requests = data.get("content"), data.get("toolRequests")
        blocks: list[Block] = []
        if thought or signature:
            blocks.append(ThinkingBlock(thinking=thought or "", signature=signature))
        if text := text_or_none(content):
            blocks.append(TextBlock(text=text))
        for index, request in enumerate(requests if isinstance(requests, list) else ()):
            blocks.append(self._call(record, request, f"line{record.line}-{index}"))
        tokens = data.get("outputTokens")
        reply = AssistantMessage(
            content=tuple(blocks),
            model=text_or_none(data.get("model")) or self._model,
            usage=None if tokens is None else {"outputTokens": tokens},
        )
        self._append(reply, record)

    def _call(self, record: Record, request: JSON, place: str) -> Block:
        name = text_or_none(request.get("name")) if isinstance(request, dict) else None
        if name is None:
            self._notes.add(record.line, "a tool call without a name, kept as it is")
            return UnknownBlock(data=request)
        call_id = self._calls.open(request.get("toolCallId"), name, place=place)
        self._asked.add(call_id)
        return ToolCallBlock(
            id=call_id, name=name, arguments=arguments_of(request.get("arguments", request.get("input")))
        )

    def _add_result(self, record: Record, data: dict[str, JSON]) -> None:
        result, error, success = data.get("result"), data.get("error"), data.get("success")
        call_id, name = self._calls.close(data.get("toolCallId"), place=f"line{record.line}")
        shown = result.get("content") if isinstance(result, dict) else result
        if shown is None:
            shown = error.get("message") if isinstance(error, dict) else error
        pictures = tuple(_pictures(result.get("contents") if isinstance(result, dict) else None))
        text = readable(shown)
        message = ToolResultMessage(
            content=(TextBlock(text=text), *pictures) if pictures else text,
            tool_call_id=call_id,
            tool_name=name or text_or_none(data.get("toolName")),
            is_error=not success if isinstance(success, bool) else None,
        )
        self._append(message, record)

    def _abort(self) -> None:
        last = self.messages[-1] if self.messages else None
        if isinstance(last, AssistantMessage):
            self.messages[-1] = attrs.evolve(last, stop_reason="aborted")

    def _append(self, message: Message, record: Record) -> None:
        event_id = text_or_none(record.data.get("id"))
        entry_id = EntryId(event_id) if event_id and event_id not in self._seen else None
        self._seen.add(event_id or "")
        timestamp = milliseconds(record.data.get("timestamp"))
        self.messages.append(attrs.evolve(message, entry_id=entry_id, timestamp=timestamp))


def _pictures(parts: JSON) -> Iterator[ImageBlock]:
    for part in parts if isinstance(parts, list) else ():
        match part:
            case {"mimeType": str(mime_type), "data": str(data)} if mime_type.startswith("image/"):
                yield ImageBlock(data=data, mime_type=mime_type)
