"""
Rollouts of Codex: JSONL under ``~/.codex/sessions``.

The response items are the conversation; the events beside them say the same
again, for people. Nothing marks where a model call ends, so one reply is all
that stands between two things that the model was given. The rollouts of before
September 2025 have the items bare, without an envelope. What was taken back or
folded by a compaction is still there.
"""

import re
from collections.abc import Iterator, Sequence
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

from .blocks import arguments_of, blocks_of, readable, text_or_none
from .calls import CallLedger
from .records import Notes, Record, milliseconds, peek, read_records
from .session import ImportedSession

__all__ = ["NAME", "read", "sniff"]

NAME = "codex"

_ITEM_LINES = ("response_item", "request_item")
_STATE_LINES = ("session_meta", "turn_context", "event_msg")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "tool_call")
_COMPACTIONS = ("compacted", "compaction", "compaction_summary", "context_compaction")

_USERS_INSTRUCTIONS = "user_instructions"

# What Codex itself puts in as the user, by the tag around it; its own source calls these no user's turn.
_FRAGMENT = re.compile(
    r"\s*(?:"
    r"<(environment_context|user_instructions|turn_aborted|user_shell_command|skill|subagent_notification)>.*</\1>"
    r"|\# AGENTS\.md instructions for .*</INSTRUCTIONS>"
    r")\s*",
    re.DOTALL,
)


def sniff(head: bytes, path: Path) -> bool:  # noqa: ARG001 -- a name says nothing about this format
    """Tell whether a record has the marks of this format."""
    return any(_is_ours(data) for data in peek(head))


def read(path: Path) -> ImportedSession:
    """Return the conversation in a rollout, under the instructions that the model had."""
    records, notes = read_records(path)
    if not any(_is_ours(record.data) for record in records):
        raise TranscriptFormatError(str(path), "it holds no Codex session.")
    about = _about(records)
    reader = _Reader(notes, provider=text_or_none(about.get("model_provider")))
    for record in records:
        reader.add(record)
    return ImportedSession(
        format=NAME,
        messages=(*_instructions(about, reader.messages), *reader.messages),
        session_id=text_or_none(about.get("id")),
        cwd=text_or_none(about.get("cwd")),
        skipped=notes.sentences(),
    )


def _is_ours(data: dict[str, JSON]) -> bool:
    kind = data.get("type")
    if kind is None:
        return data.get("record_type") == "state" or _is_bare_header(data)
    return kind in (*_ITEM_LINES, *_STATE_LINES) and isinstance(data.get("payload"), dict)


def _is_bare_header(data: dict[str, JSON]) -> bool:
    return "instructions" in data and all(isinstance(data.get(key), str) for key in ("id", "timestamp"))


def _about(records: Sequence[Record]) -> dict[str, JSON]:
    # A fork repeats the header of the session that it left, after its own.
    for record in records:
        data = record.data.get("payload") if record.data.get("type") == "session_meta" else record.data
        if data is not record.data or _is_bare_header(data):
            return data if isinstance(data, dict) else {}
    return {}


def _instructions(about: dict[str, JSON], messages: Sequence[Message]) -> Iterator[SystemMessage]:
    base = about.get("base_instructions")
    text = text_or_none(base.get("text") if isinstance(base, dict) else about.get("instructions"))
    # Older rollouts name the user's own instructions there, which are also among the messages.
    given = [m.text for m in messages if isinstance(m, CustomMessage) and m.custom_type == _USERS_INSTRUCTIONS]
    if text and not any(text.strip() in instructions for instructions in given):
        yield SystemMessage(content=text, timestamp=milliseconds(about.get("timestamp")))


class _Reader:
    """Collects the messages of lines that are given in order."""

    def __init__(self, notes: Notes, *, provider: str | None) -> None:
        self.messages: list[Message] = []
        self._notes = notes
        self._provider = provider
        self._model: str | None = None
        self._calls = CallLedger()
        self._seen: set[str] = set()
        self._replying = False  # the last message may go on, if it is a reply

    def add(self, record: Record) -> None:
        kind, payload = record.data.get("type"), record.data.get("payload")
        if kind in _ITEM_LINES or kind in _STATE_LINES:
            if not isinstance(payload, dict):
                self._notes.add(record.line, "its payload is not an object")
            elif kind in _ITEM_LINES:
                self._add_item(record, payload)
            elif kind == "turn_context":
                self._model = text_or_none(payload.get("model")) or self._model
                self._replying = False
            elif kind == "event_msg":
                self._add_event(payload)
        elif kind in _COMPACTIONS:
            self._fold(record)
        elif isinstance(kind, str):
            self._add_item(record, record.data)
        elif record.data.get("record_type") != "state" and not _is_bare_header(record.data):
            self._notes.add(record.line, "no type")

    def _fold(self, record: Record) -> None:
        self._notes.add(record.line, "a recorded compaction's summary")
        self._replying = False

    def _add_event(self, event: dict[str, JSON]) -> None:
        last = self.messages[-1] if self.messages else None
        if event.get("type") == "turn_aborted" and isinstance(last, AssistantMessage):
            self.messages[-1] = attrs.evolve(last, stop_reason="aborted")
            self._replying = False
        info = event.get("info")
        if event.get("type") == "token_count" and isinstance(info, dict) and info.get("last_token_usage"):
            self._count(info["last_token_usage"])

    def _count(self, usage: JSON) -> None:
        # The counts of the last model call; its results may already stand behind it. They are told again before
        # the next one.
        for index in reversed(range(len(self.messages))):
            message = self.messages[index]
            if isinstance(message, AssistantMessage):
                if message.usage is None:
                    self.messages[index] = attrs.evolve(message, usage=usage)
                    self._replying = False
                return

    def _add_item(self, record: Record, item: dict[str, JSON]) -> None:
        kind = item.get("type")
        if kind == "message":
            self._add_message(record, item)
        elif kind == "reasoning":
            self._reply(record, item, _thoughts(item))
        elif kind in _CALLS:
            self._reply(record, item, (self._call(record, item),))
        elif kind in _COMPACTIONS:
            self._fold(record)
        elif kind == "tool_result" or (isinstance(kind, str) and kind.endswith("_output")):
            self._add_result(record, item)
        elif isinstance(kind, str) and kind.endswith("_call"):
            self._reply(record, item, (UnknownBlock(data=item),))  # a tool that the provider runs
        elif kind != "ghost_snapshot":
            self._notes.add(record.line, "an item of no known type")

    def _add_message(self, record: Record, item: dict[str, JSON]) -> None:
        role, content = item.get("role"), item.get("content")
        if not isinstance(content, str | list):
            self._notes.add(record.line, "its message has no content")
            return
        said = blocks_of(content)
        timestamp = milliseconds(record.data.get("timestamp"))
        if role == "assistant":
            self._reply(record, item, (TextBlock(text=said),) if isinstance(said, str) else said)
            return
        if role in ("developer", "system"):
            self._append(SystemMessage(content=said, timestamp=timestamp), item)
        elif role != "user":
            self._notes.add(record.line, "no role that a message has")
        elif (tag := _fragment(said)) is not None:
            self._append(CustomMessage(content=said, timestamp=timestamp, custom_type=tag), item)
        else:
            self._calls.abandon()
            self._append(UserMessage(content=said, timestamp=timestamp), item)

    def _add_result(self, record: Record, item: dict[str, JSON]) -> None:
        output = next((item[key] for key in ("output", "result", "tools") if key in item), None)
        is_error = None
        if isinstance(output, dict) and isinstance(output.get("success"), bool):
            is_error, output = not output["success"], output.get("content", output)
        name = text_or_none(item.get("name"))
        call_id, known_name = self._calls.close(item.get("call_id"), place=f"line{record.line}")
        result = ToolResultMessage(
            timestamp=milliseconds(record.data.get("timestamp")),
            content=blocks_of(output) if isinstance(output, list) else readable(output),
            tool_call_id=call_id,
            tool_name=name or known_name,
            is_error=is_error,
        )
        self._append(result, item)

    def _call(self, record: Record, item: dict[str, JSON]) -> Block:
        kind, function = item["type"], item.get("function")
        name = text_or_none(item.get("name", function.get("name") if isinstance(function, dict) else None))
        arguments = arguments_of(next((item[key] for key in ("arguments", "parameters") if key in item), None))
        if kind in ("local_shell_call", "tool_search_call"):
            name = kind.removesuffix("_call")
            arguments = item.get("action", arguments)
        elif kind == "custom_tool_call":
            arguments = item.get("input", arguments)  # free text, whatever it looks like
        if name is None:
            self._notes.add(record.line, "a tool call without a name, kept as it is")
            return UnknownBlock(data=item)
        call_id = self._calls.open(item.get("call_id") or item.get("id"), name, place=f"line{record.line}")
        return ToolCallBlock(id=call_id, name=name, arguments=arguments)

    def _reply(self, record: Record, item: dict[str, JSON], blocks: Sequence[Block]) -> None:
        if not blocks:
            return  # thoughts that were neither shown nor signed
        last = self.messages[-1] if self.messages else None
        if self._replying and isinstance(last, AssistantMessage):
            self.messages[-1] = attrs.evolve(last, content=(*last.content, *blocks))
            return
        reply = AssistantMessage(
            timestamp=milliseconds(record.data.get("timestamp")),
            content=tuple(blocks),
            provider=self._provider,
            model=self._model,
        )
        self._append(reply, item)
        self._replying = True

    def _append(self, message: Message, item: dict[str, JSON]) -> None:
        item_id = text_or_none(item.get("id"))
        if item_id and item_id not in self._seen:
            self._seen.add(item_id)
            message = attrs.evolve(message, entry_id=EntryId(item_id))
        self.messages.append(message)


def _thoughts(item: dict[str, JSON]) -> Sequence[Block]:
    texts = [
        part["text"]
        for key in ("summary", "content")
        for part in (item[key] if isinstance(item.get(key), list) else ())
        if isinstance(part, dict) and text_or_none(part.get("text"))
    ]
    signature = text_or_none(item.get("encrypted_content"))
    return (ThinkingBlock(thinking="\n\n".join(texts), signature=signature),) if texts or signature else ()


def _fragment(said: str | Sequence[Block]) -> str | None:
    texts = [said] if isinstance(said, str) else [block.text if isinstance(block, TextBlock) else "" for block in said]
    found = [_FRAGMENT.fullmatch(text) for text in texts]
    if not all(found) or not found or not found[0]:
        return None
    return found[0][1] or _USERS_INSTRUCTIONS
