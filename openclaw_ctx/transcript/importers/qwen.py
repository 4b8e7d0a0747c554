"""
Sessions of Qwen Code: JSONL under ``~/.qwen/projects``.

The lines are taken in the order of the file, and one line is one model call.
Their tree of ``parentUuid`` is not walked: a prompt that was taken back is
still there.
"""

from collections.abc import Sequence
from pathlib import Path

import attrs

from openclaw_ctx.contract import (
    JSON,
    AssistantMessage,
    CustomMessage,
    EntryId,
    Message,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.errors import TranscriptFormatError

from .blocks import text_or_none
from .calls import CallLedger
from .parts import Part, answer_of, block_of_part, parts_of
from .records import Notes, Record, milliseconds, peek, read_records
from .session import ImportedSession

__all__ = ["NAME", "read", "sniff"]

NAME = "qwen"

_SPEAKERS = ("user", "assistant", "tool_result")
# What a person typed while the model worked; every other subtype of a user's line is a program's.
_TYPED = "mid_turn_user_message"


def sniff(head: bytes, path: Path) -> bool:  # noqa: ARG001 -- a name says nothing about this format
    """Tell whether a record has the marks of this format."""
    return any(_is_ours(data) for data in peek(head))


def read(path: Path) -> ImportedSession:
    """Return the conversation in a file."""
    records, notes = read_records(path)
    ours = [record for record in records if _is_ours(record.data)]
    if not ours:
        raise TranscriptFormatError(str(path), "it holds no Qwen Code session.")
    reader = _Reader(notes)
    for record in records:
        reader.add(record)
    return ImportedSession(
        format=NAME,
        messages=tuple(reader.messages),
        session_id=_first_text(ours, "sessionId"),
        cwd=_first_text(ours, "cwd"),
        skipped=notes.sentences(),
    )


def _is_ours(data: dict[str, JSON]) -> bool:
    if not {"uuid", "parentUuid", "sessionId"} <= data.keys() or "isSidechain" in data:
        return False  # the last is Claude Code's
    message = data.get("message")
    if data.get("type") == "system":
        return isinstance(data.get("subtype"), str) and "content" not in data
    return data.get("type") in _SPEAKERS and isinstance(message, dict) and isinstance(message.get("parts"), list)


def _first_text(records: Sequence[Record], key: str) -> str | None:
    return next((value for record in records if (value := text_or_none(record.data.get(key)))), None)


class _Reader:
    """Collects the messages of lines that are given in order."""

    def __init__(self, notes: Notes) -> None:
        self.messages: list[Message] = []
        self._notes = notes
        self._calls = CallLedger()
        self._seen: set[str] = set()

    def add(self, record: Record) -> None:
        kind, message = record.data.get("type"), record.data.get("message")
        if kind == "system":
            if record.data.get("subtype") == "chat_compression":
                self._notes.add(record.line, "a recorded compaction's summary")
            return  # a change of state
        if kind not in _SPEAKERS:
            self._notes.add(record.line, "no type that a message has")
            return
        if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
            self._notes.add(record.line, "its message has no parts")
            return
        parts = parts_of(message["parts"])
        if len(parts) < len(message["parts"]):
            self._notes.add(record.line, f"{len(message['parts']) - len(parts)} parts are no objects")
        if kind == "assistant":
            self._add_reply(record, parts)
        else:
            self._add_input(record, parts)

    def _add_reply(self, record: Record, parts: Sequence[Part]) -> None:
        blocks = [
            block_of_part(part, self._calls, place=f"line{record.line}-{index}") for index, part in enumerate(parts)
        ]
        reply = AssistantMessage(
            content=tuple(blocks),
            model=text_or_none(record.data.get("model")),
            usage=record.data.get("usageMetadata") or None,
        )
        self._append(reply, record)

    def _add_input(self, record: Record, parts: Sequence[Part]) -> None:
        said = [part for part in parts if not isinstance(part.get("functionResponse"), dict)]
        answers = [part["functionResponse"] for part in parts if isinstance(part.get("functionResponse"), dict)]
        for index, answer in enumerate(answers):
            # What a tool showed beside its answer is of the last one.
            beside = said if record.data["type"] == "tool_result" and index == len(answers) - 1 else ()
            self._add_result(record, answer, beside, place=f"line{record.line}-{index}")
        if answers and record.data["type"] == "tool_result":
            return
        if not said:
            if not answers:
                self._notes.add(record.line, "its message is empty")
            return
        blocks = tuple(block_of_part(part, CallLedger(), place="") for part in said)
        subtype = text_or_none(record.data.get("subtype"))
        if subtype and subtype != _TYPED:
            self._append(CustomMessage(content=blocks, custom_type=subtype), record)
        else:
            self._calls.abandon()
            self._append(UserMessage(content=blocks), record)

    def _add_result(self, record: Record, answer: Part, beside: Sequence[Part], *, place: str) -> None:
        call_id, known_name = self._calls.close(answer.get("id"), place=place)
        content, is_error = answer_of(answer, beside)
        outcome = record.data.get("toolCallResult")
        if is_error is None and isinstance(outcome, dict) and isinstance(outcome.get("status"), str):
            is_error = outcome["status"] != "success"
        result = ToolResultMessage(
            content=content,
            tool_call_id=call_id,
            tool_name=text_or_none(answer.get("name")) or known_name,
            is_error=is_error,
        )
        self._append(result, record)

    def _append(self, message: Message, record: Record) -> None:
        uuid = text_or_none(record.data.get("uuid"))
        entry_id = EntryId(uuid) if uuid and uuid not in self._seen else None
        self._seen.add(uuid or "")
        timestamp = milliseconds(record.data.get("timestamp"))
        self.messages.append(attrs.evolve(message, entry_id=entry_id, timestamp=timestamp))
