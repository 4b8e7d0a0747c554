"""
Trajectories of SWE-agent: one JSON document, ``*.traj``.

The history is what the model was given and said. Where it is missing, the
trajectory's steps tell the same without the prompts before them, unless a step
kept its query. A model that has no tools is answered by the user.
"""

from collections.abc import Sequence
from pathlib import Path

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
)
from openclaw_ctx.errors import TranscriptFormatError

from .blocks import arguments_of, blocks_of, readable, text_or_none
from .calls import CallLedger
from .document import read_document
from .records import Notes, load
from .session import ImportedSession

__all__ = ["NAME", "read", "sniff"]

NAME = "swe-agent"

_LISTS = ("history", "trajectory")
_ROLES = ("system", "user", "assistant", "tool")


def sniff(head: bytes, path: Path) -> bool:  # noqa: ARG001 -- a name says nothing about this format
    """Tell whether the file opens with an object that holds a history of agents or a list of their steps."""
    return _is_ours(read_document(head)[0])


def read(path: Path) -> ImportedSession:
    """Return the conversation in a file; of one whose end is missing, the whole messages."""
    value, problem, lost = read_document(load(path))
    notes = Notes("message")
    if not isinstance(value, dict) or not any(_items(value, name) for name in _LISTS):
        raise TranscriptFormatError(str(path), "it holds no SWE-agent trajectory.")
    if problem:
        notes.add(0, problem)
    cut = next(reversed(value)) if lost else None
    reader = _Reader(notes)
    history, steps = (_items(value, name)[: -1 if name == cut else None] for name in _LISTS)
    if history:
        for number, entry in enumerate(history, 1):
            reader.add(number, entry)
    else:
        notes.unit = "step"
        notes.add(0, "no history, so what the steps say is taken")
        for number, step in enumerate(steps, 1):
            reader.add_step(number, step)
    return ImportedSession(format=NAME, messages=tuple(reader.messages), skipped=notes.sentences())


def _is_ours(value: JSON) -> bool:
    if not isinstance(value, dict):
        return False
    step = next(iter(_items(value, "trajectory")), None)
    entry = next(iter(_items(value, "history")), None)
    return (
        (isinstance(step, dict) and {"action", "observation"} <= step.keys())
        or (isinstance(entry, dict) and {"role", "agent"} <= entry.keys())
        # A first step that fills the head may be cut before its observation.
        or ("environment" in value and isinstance(value.get("trajectory"), list))
    )


def _items(value: dict[str, JSON], name: str) -> list[JSON]:
    items = value.get(name)
    return items if isinstance(items, list) else []


class _Reader:
    """Collects the messages of entries or steps that are given in order."""

    def __init__(self, notes: Notes) -> None:
        self.messages: list[Message] = []
        self._notes = notes
        self._calls = CallLedger()

    def add(self, number: int, entry: JSON) -> None:
        role = entry.get("role") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or role not in _ROLES:
            self._notes.add(number, "no role that a message has")
        elif entry.get("is_demo") is True:
            self._notes.add(number, "a demonstration, which is of another session")
        elif role == "assistant":
            self._add_reply(number, entry)
        elif not isinstance(entry.get("content"), str | list):
            self._notes.add(number, "its content is neither text nor a list")
        elif role == "tool":
            ids = entry.get("tool_call_ids")
            self._add_result(number, ids[0] if isinstance(ids, list) and ids else None, entry["content"])
        elif role == "system":
            self.messages.append(SystemMessage(content=blocks_of(entry["content"])))
        else:
            self._calls.abandon()
            self.messages.append(UserMessage(content=blocks_of(entry["content"])))

    def add_step(self, number: int, step: JSON) -> None:
        if not isinstance(step, dict) or not isinstance(step.get("response", step.get("action")), str):
            self._notes.add(number, "neither a response nor an action")
            return
        query = step.get("query")
        if not self.messages and isinstance(query, list):
            for entry in query:
                self.add(number, entry)
        said = [text for key in ("thought", "action") if (text := text_or_none(step.get(key)))]
        self._add_reply(number, {**step, "content": text_or_none(step.get("response")) or "\n".join(said)})
        observation = text_or_none(step.get("observation"))
        if isinstance(step.get("tool_calls"), list) and step["tool_calls"]:
            self._add_result(number, None, observation)
        elif observation:
            self.messages.append(UserMessage(content=observation))

    def _add_reply(self, number: int, entry: dict[str, JSON]) -> None:
        content = entry.get("content")
        said = blocks_of(content if isinstance(content, str | list) else readable(entry.get("thought")))
        thoughts, calls = _thoughts(entry.get("thinking_blocks")), self._tool_calls(number, entry.get("tool_calls"))
        if thoughts or calls:
            said = ((TextBlock(text=said),) if said else ()) if isinstance(said, str) else said
            said = (*thoughts, *said, *calls)
        self.messages.append(AssistantMessage(content=said))

    def _tool_calls(self, number: int, calls: JSON) -> Sequence[Block]:
        items = calls if isinstance(calls, list) else []
        return [self._tool_call(number, call, f"{self._notes.unit}{number}-{n}") for n, call in enumerate(items)]

    def _tool_call(self, number: int, call: JSON, place: str) -> Block:
        function = call.get("function") if isinstance(call, dict) else None
        name = text_or_none(function.get("name")) if isinstance(function, dict) else None
        if not isinstance(function, dict) or name is None:
            self._notes.add(number, "a tool call without a name, kept as it is")
            return UnknownBlock(data=call)
        call_id = self._calls.open(call.get("id"), name, place=place)
        return ToolCallBlock(id=call_id, name=name, arguments=arguments_of(function.get("arguments")))

    def _add_result(self, number: int, call_id: JSON, content: JSON) -> None:
        known, name = self._calls.close(call_id, place=f"{self._notes.unit}{number}")
        content = blocks_of(content) if isinstance(content, list) else readable(content)
        self.messages.append(ToolResultMessage(content=content, tool_call_id=known, tool_name=name))


def _thoughts(blocks: JSON) -> Sequence[Block]:
    return [
        ThinkingBlock(thinking=block["thinking"], signature=text_or_none(block.get("signature")))
        for block in (blocks if isinstance(blocks, list) else ())
        if isinstance(block, dict) and isinstance(block.get("thinking"), str)
    ]
