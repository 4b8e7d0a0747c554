"""
Sessions of Claude Code: JSONL under ``~/.claude/projects``.

The lines are taken in the order of the file. Its tree of ``parentUuid`` is not
walked: results of parallel calls hang beside each other in it, and many files
hold broken chains. A prompt that was taken back is therefore still there.
"""

from collections.abc import Sequence
from pathlib import Path

import attrs

from openclaw_ctx.contract import (
    JSON,
    AssistantMessage,
    Block,
    EntryId,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownBlock,
    UserMessage,
    freeze,
)
from openclaw_ctx.errors import TranscriptFormatError

from .calls import CallLedger
from .records import Notes, Record, milliseconds, peek, read_records
from .session import ImportedSession

__all__ = ["NAME", "read", "sniff"]

NAME = "claude-code"

_STOP_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "toolUse"}


def sniff(head: bytes, path: Path) -> bool:  # noqa: ARG001 -- a name says nothing about this format
    """Tell whether a record has the marks of this format."""
    return any(_is_ours(data) for data in peek(head))


def read(path: Path) -> ImportedSession:
    """Return the main conversation of a file, or a subagent's where the file holds nothing else."""
    records, notes = read_records(path)
    if not any(_is_ours(record.data) for record in records):
        raise TranscriptFormatError(str(path), "it holds no Claude Code session.")
    spoken = [record for record in records if _speaks(record, notes)]
    aside = [record for record in spoken if record.data.get("isSidechain") is True]
    if len(aside) < len(spoken):
        spoken = [record for record in spoken if record.data.get("isSidechain") is not True]
        if aside:
            notes.add(aside[0].line, f"a subagent's line, and {len(aside) - 1} more")
    reader = _Reader(notes)
    for record in spoken:
        reader.add(record)
    return ImportedSession(
        format=NAME,
        messages=tuple(reader.messages),
        session_id=_first_text(spoken, "sessionId") or _first_text(records, "sessionId"),
        cwd=_first_text(spoken, "cwd") or _first_text(records, "cwd"),
        skipped=notes.sentences(),
    )


def _is_ours(data: dict[str, JSON]) -> bool:
    kind, message = data.get("type"), data.get("message")
    if kind in ("user", "assistant") and isinstance(message, dict):
        return isinstance(message.get("content"), str | list)
    if kind in ("file-history-snapshot", "queue-operation"):
        return True
    if kind == "summary":
        return isinstance(data.get("leafUuid"), str)
    return isinstance(data.get("isSidechain"), bool) and "parentUuid" in data


def _first_text(records: Sequence[Record], key: str) -> str | None:
    return next((value for record in records if isinstance(value := record.data.get(key), str)), None)


def _speaks(record: Record, notes: Notes) -> bool:
    kind = record.data.get("type")
    if not isinstance(kind, str):
        notes.add(record.line, "no type")
    if kind not in ("user", "assistant"):
        return False  # a change of state
    if record.data.get("isCompactSummary") is True:
        notes.add(record.line, "a recorded compaction's summary")
        return False
    message = record.data.get("message")
    if not isinstance(message, dict):
        notes.add(record.line, "its message is not an object")
        return False
    if not isinstance(message.get("content"), str | list):
        notes.add(record.line, "its message has no content")
        return False
    return True


class _Reader:
    """Collects the messages of lines that are given in order."""

    def __init__(self, notes: Notes) -> None:
        self.messages: list[Message] = []
        self._notes = notes
        self._calls = CallLedger()
        self._seen: set[str] = set()
        self._reply_id: str | None = None  # of the reply that the last message belongs to

    def add(self, record: Record) -> None:
        message = record.data["message"]
        content = message["content"]
        blocks = content if isinstance(content, str) else self._objects(content, record.line)
        if record.data["type"] == "assistant":
            self._add_reply(record, message, blocks)
        elif not blocks:
            self._notes.add(record.line, "its message is empty")
        else:
            self._add_input(record, blocks)

    def _objects(self, content: list[JSON], line: int) -> list[dict[str, JSON]]:
        objects = [block for block in content if isinstance(block, dict)]
        if len(objects) < len(content):
            self._notes.add(line, f"{len(content) - len(objects)} content items are no objects")
        return objects

    def _add_reply(self, record: Record, message: dict[str, JSON], blocks: str | list[dict[str, JSON]]) -> None:
        reply = AssistantMessage(
            entry_id=self._entry_id(record),
            timestamp=milliseconds(record.data.get("timestamp")),
            content=blocks if isinstance(blocks, str) else tuple(self._reply_blocks(blocks, record.line)),
            model=_text(message.get("model")),
            usage=message.get("usage"),
            stop_reason=_stop_reason(message.get("stop_reason")),
        )
        if record.data.get("isApiErrorMessage") is True:
            reply = attrs.evolve(reply, stop_reason="error", error_message=reply.text)
        last = self.messages[-1] if self.messages else None
        reply_id = _text(message.get("id"))
        if isinstance(last, AssistantMessage) and reply_id and reply_id == self._reply_id:
            self.messages[-1] = _joined(last, reply)
        else:
            self.messages.append(reply)
        self._reply_id = reply_id

    def _add_input(self, record: Record, blocks: str | list[dict[str, JSON]]) -> None:
        timestamp = milliseconds(record.data.get("timestamp"))
        if isinstance(blocks, str):
            self._calls.abandon()
            self.messages.append(UserMessage(entry_id=self._entry_id(record), timestamp=timestamp, content=blocks))
            return
        # Results go first, whatever the order: nothing may stand between a call and its result.
        for index, block in enumerate(blocks):
            if block.get("type") == "tool_result":
                call_id, name = self._calls.close(block.get("tool_use_id"), place=f"line{record.line}-{index}")
                result = ToolResultMessage(
                    entry_id=self._entry_id(record),
                    timestamp=timestamp,
                    tool_call_id=call_id,
                    tool_name=name,
                    content=_result_content(block.get("content")),
                    is_error=block["is_error"] if isinstance(block.get("is_error"), bool) else None,
                )
                self.messages.append(result)
        said = tuple(_shown_block(block) for block in blocks if block.get("type") != "tool_result")
        if said:
            self._calls.abandon()
            self.messages.append(UserMessage(entry_id=self._entry_id(record), timestamp=timestamp, content=said))

    def _entry_id(self, record: Record) -> EntryId | None:
        uuid = _text(record.data.get("uuid"))
        if not uuid or uuid in self._seen:
            return None
        self._seen.add(uuid)
        return EntryId(uuid)

    def _reply_blocks(self, blocks: list[dict[str, JSON]], line: int) -> list[Block]:
        return [self._reply_block(block, f"line{line}-{index}") for index, block in enumerate(blocks)]

    def _reply_block(self, block: dict[str, JSON], place: str) -> Block:
        match block:
            case {"type": "thinking", "thinking": str(thinking), **rest}:
                return ThinkingBlock(thinking=thinking, signature=_text(rest.get("signature")))
            case {"type": "tool_use", "name": str(name), **rest}:
                call_id = self._calls.open(rest.get("id"), name, place=place)
                return ToolCallBlock(id=call_id, name=name, arguments=rest.get("input", {}))
            case _:
                return _shown_block(block)


def _joined(first: AssistantMessage, then: AssistantMessage) -> AssistantMessage:
    # Each piece repeats the counts of the reply so far, so the last ones are the reply's.
    return attrs.evolve(
        first,
        content=first.content + then.content,
        usage=then.usage if then.usage is not None else first.usage,
        stop_reason=then.stop_reason or first.stop_reason,
    )


def _shown_block(block: dict[str, JSON]) -> Block:
    match block:
        case {"type": "text", "text": str(text), **rest}:
            return TextBlock(text=text, extra=freeze(rest))
        case {"type": "image", "source": {"type": "base64", "media_type": str(mime_type), "data": str(data)}}:
            return ImageBlock(data=data, mime_type=mime_type)
        case _:
            return UnknownBlock(data=block)


def _result_content(content: JSON) -> str | tuple[Block, ...]:
    if isinstance(content, list):
        return tuple(
            _shown_block(block) if isinstance(block, dict) else TextBlock(text=block)
            for block in content
            if isinstance(block, dict | str)
        )
    return content if isinstance(content, str) else ""


def _stop_reason(value: JSON) -> str | None:
    return _STOP_REASONS.get(value, value) if isinstance(value, str) else None


def _text(value: JSON) -> str | None:
    return value if isinstance(value, str) else None
