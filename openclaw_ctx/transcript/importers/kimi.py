"""
Sessions of Kimi Code: ``wire.jsonl`` of an agent, under ``~/.kimi-code/sessions``.

A step is one model call; its parts, calls and results are lines of their own,
and what was put in while a tool ran stands behind the results. An undo is not
followed, and what a compaction folded is still there.
"""

from collections.abc import Sequence
from pathlib import Path

import attrs

from openclaw_ctx.contract import (
    JSON,
    AssistantMessage,
    Block,
    CustomMessage,
    EntryId,
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

from .blocks import arguments_of, block_of, blocks_of, readable, text_or_none
from .calls import CallLedger
from .records import Notes, Record, milliseconds, peek, read_records
from .session import ImportedSession

__all__ = ["NAME", "read", "sniff"]

NAME = "kimi"

_OURS = ("context.append_message", "context.append_loop_event")
_STOP_REASONS = {"end_turn": "stop", "max_tokens": "length", "tool_use": "toolUse"}
# Where a user's message comes from when it opens a turn; the others are the program's.
_TURNS = (None, "user", "skill_activation", "system_trigger")


def sniff(head: bytes, path: Path) -> bool:  # noqa: ARG001 -- a name says nothing about this format
    """Tell whether a record has the marks of this format."""
    return any(_is_ours(data) for data in peek(head))


def read(path: Path) -> ImportedSession:
    """Return the conversation in an agent's file, under its first system prompt."""
    records, notes = read_records(path)
    if not any(_is_ours(record.data) for record in records):
        raise TranscriptFormatError(str(path), "it holds no Kimi Code session.")
    reader = _Reader(notes)
    for record in records:
        reader.add(record)
    return ImportedSession(format=NAME, messages=reader.messages(), cwd=reader.cwd, skipped=notes.sentences())


def _is_ours(data: dict[str, JSON]) -> bool:
    if data.get("type") == "metadata":
        return isinstance(data.get("protocol_version"), str) and "created_at" in data
    return data.get("type") in _OURS and isinstance(data.get("message", data.get("event")), dict)


@attrs.define(eq=False)
class _Step:
    """A reply and the results of its calls, as far as they are read."""

    reply: AssistantMessage
    results: list[ToolResultMessage] = attrs.field(factory=list)

    def say(self, block: Block, timestamp: float | None) -> None:
        if not self.reply.content:
            self.reply = attrs.evolve(self.reply, timestamp=timestamp)
        self.reply = attrs.evolve(self.reply, content=(*self.reply.content, block))


class _Reader:
    """Collects the messages of lines that are given in order."""

    def __init__(self, notes: Notes) -> None:
        self.cwd: str | None = None
        self._notes = notes
        self._prompt: SystemMessage | None = None
        self._items: list[Message | _Step] = []
        self._steps: dict[str, _Step] = {}
        self._step_of_call: dict[str, _Step] = {}
        self._step: _Step | None = None
        self._calls = CallLedger()
        self._seen: set[str] = set()

    def messages(self) -> tuple[Message, ...]:
        """Return what was read; a model call that was never answered says nothing and is none."""
        found: list[Message] = [self._prompt] if self._prompt else []
        for item in self._items:
            if not isinstance(item, _Step):
                found.append(item)
            elif item.reply.content or item.results:
                found += [item.reply, *item.results]
        return tuple(found)

    def add(self, record: Record) -> None:
        data = record.data
        match data.get("type"):
            case "config.update" | "profile.bind":
                self._configure(record)
            case "context.append_message" if isinstance(data.get("message"), dict):
                self._add_message(record, data["message"])
            case "context.append_loop_event" if isinstance(data.get("event"), dict):
                self._add_event(record, data["event"])
            case "context.append_message" | "context.append_loop_event":
                self._notes.add(record.line, "neither a message nor an event")
            case "context.apply_compaction":
                self._notes.add(record.line, "a recorded compaction's summary")
            case "context.undo" | "context.clear":
                self._notes.add(record.line, "messages were taken back here, and are still there")
            case "llm.request" if self._step and data.get("kind") != "compaction":
                provider, model = text_or_none(data.get("provider")), text_or_none(data.get("model"))
                self._step.reply = attrs.evolve(self._step.reply, provider=provider, model=model)
            case str():
                pass  # the program's state
            case _:
                self._notes.add(record.line, "no type")

    def _configure(self, record: Record) -> None:
        self.cwd = self.cwd or text_or_none(record.data.get("cwd"))
        prompt = text_or_none(record.data.get("systemPrompt"))
        if prompt and self._prompt is None:
            self._prompt = SystemMessage(content=prompt, timestamp=milliseconds(record.data.get("time")))
        elif prompt and self._prompt and prompt != self._prompt.text:
            self._notes.add(record.line, "another system prompt")

    def _add_message(self, record: Record, message: dict[str, JSON]) -> None:
        role, content = message.get("role"), message.get("content")
        if not isinstance(content, str | list):
            self._notes.add(record.line, "its message has no content")
        elif role == "assistant":
            self._add_reply(record, message)
        elif role == "tool":
            self._add_result(record, message.get("toolCallId"), _said(content), message.get("isError"))
        elif role == "system":
            self._items.append(SystemMessage(content=_said(content), timestamp=milliseconds(record.data.get("time"))))
        elif role == "user":
            self._add_input(record, message)
        else:
            self._notes.add(record.line, "no role that a message has")

    def _add_input(self, record: Record, message: dict[str, JSON]) -> None:
        origin = message["origin"] if isinstance(message.get("origin"), dict) else {}
        kind, timestamp = origin.get("kind"), milliseconds(record.data.get("time"))
        if kind == "compaction_summary":
            self._notes.add(record.line, "a recorded compaction's summary")
        elif kind in _TURNS:
            self._calls.abandon()
            self._items.append(UserMessage(content=_said(message["content"]), timestamp=timestamp))
        else:
            custom_type = text_or_none(origin.get("variant")) or text_or_none(origin.get("name")) or readable(kind)
            said = _said(message["content"])
            self._items.append(CustomMessage(content=said, timestamp=timestamp, custom_type=custom_type))

    def _add_reply(self, record: Record, message: dict[str, JSON]) -> None:
        step = self._begin(None)
        timestamp = milliseconds(record.data.get("time"))
        said = _said(message["content"])
        for block in (TextBlock(text=said),) if isinstance(said, str) else said:
            step.say(block, timestamp)
        calls = message.get("toolCalls")
        for index, call in enumerate(calls if isinstance(calls, list) else ()):
            inner = call.get("function", call) if isinstance(call, dict) else None
            inner = inner if isinstance(inner, dict) else {}
            call_id = call.get("id") if isinstance(call, dict) else None
            block = self._call(record, call, inner.get("name"), call_id, inner.get("arguments"), index, step)
            step.say(block, timestamp)

    def _begin(self, uuid: JSON) -> _Step:
        entry_id = EntryId(uuid) if text_or_none(uuid) and uuid not in self._seen else None
        step = _Step(AssistantMessage(entry_id=entry_id))
        if isinstance(uuid, str):
            self._seen.add(uuid)
            self._steps[uuid] = step
        self._items.append(step)
        self._step = step
        return step

    def _add_event(self, record: Record, event: dict[str, JSON]) -> None:
        timestamp = milliseconds(record.data.get("time"))
        match event.get("type"):
            case "step.begin":
                self._begin(event.get("uuid"))
            case "step.end":
                self._end(event)
            case "content.part":
                part = event.get("part")
                if isinstance(part, dict | str):
                    self._step_of(event).say(_block(part), timestamp)
                else:
                    self._notes.add(record.line, "its part is neither text nor object")
            case "tool.call":
                step = self._step_of(event)
                call_id = event.get("toolCallId") or event.get("uuid")
                step.say(self._call(record, event, event.get("name"), call_id, event.get("args"), 0, step), timestamp)
            case "tool.result":
                result = event.get("result")
                content = _result_content(result)
                is_error = result.get("isError") if isinstance(result, dict) else None
                self._add_result(record, event.get("toolCallId") or event.get("parentUuid"), content, is_error)
            case _:
                self._notes.add(record.line, "an event of no known type")

    def _step_of(self, event: dict[str, JSON]) -> _Step:
        uuid = text_or_none(event.get("stepUuid"))
        return (self._steps.get(uuid) if uuid else self._step) or self._begin(uuid)

    def _end(self, event: dict[str, JSON]) -> None:
        step = self._steps.get(event["uuid"]) if isinstance(event.get("uuid"), str) else self._step
        reason = event.get("finishReason")
        if step:
            step.reply = attrs.evolve(
                step.reply,
                usage=event.get("usage"),
                stop_reason=_STOP_REASONS.get(reason, reason) if isinstance(reason, str) else None,
            )

    def _call(
        self, record: Record, call: JSON, name: JSON, call_id: JSON, arguments: JSON, index: int, step: _Step
    ) -> Block:
        if not text_or_none(name):
            self._notes.add(record.line, "a tool call without a name, kept as it is")
            return UnknownBlock(data=call)
        known = self._calls.open(call_id, name, place=f"line{record.line}-{index}")
        self._step_of_call[known] = step
        return ToolCallBlock(id=known, name=name, arguments=arguments_of(arguments))

    def _add_result(self, record: Record, call_id: JSON, content: str | Sequence[Block], is_error: JSON) -> None:
        known, name = self._calls.close(call_id, place=f"line{record.line}")
        result = ToolResultMessage(
            timestamp=milliseconds(record.data.get("time")),
            content=tuple(content) if not isinstance(content, str) else content,
            tool_call_id=known,
            tool_name=name,
            is_error=is_error if isinstance(is_error, bool) else None,
        )
        step = self._step_of_call.get(known)
        if step:
            step.results.append(result)
        else:
            self._items.append(result)


def _said(content: JSON) -> str | tuple[Block, ...]:
    if isinstance(content, list):
        return tuple(_block(part) for part in content if isinstance(part, dict | str))
    return blocks_of(content)


def _block(part: dict[str, JSON] | str) -> Block:
    match part:
        case {"type": "think", "think": str(thinking), **rest}:
            return ThinkingBlock(thinking=thinking, signature=text_or_none(rest.get("encrypted")))
        case _:
            return block_of(part)


def _result_content(result: JSON) -> str | tuple[Block, ...]:
    output = result.get("output", result.get("content")) if isinstance(result, dict) else result
    content = _said(output) if isinstance(output, list) else readable(output)
    note = text_or_none(result.get("note")) if isinstance(result, dict) else None
    if not note:
        return content
    return (*((TextBlock(text=content),) if isinstance(content, str) else content), TextBlock(text=note))
