"""
Messages as any provider takes them: four roles, calls and results in whole pairs, ids that fit.

What the contract has beyond the four roles is said in the user's name, as the
reference system does. Nothing goes missing in silence: what cannot be sent is
replaced by a line that says so, or counted among what was left out.
"""

import collections
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from openclaw_ctx.contract import (
    JSON,
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
    ToolCallBlock,
    ToolResultMessage,
    UnknownBlock,
    UnknownMessage,
    UserMessage,
)
from openclaw_ctx.log import clean_text

from .ids import Ids, IdStyle

__all__ = [
    "Rendered",
    "Sendable",
    "arguments_from",
    "as_arguments",
    "as_text",
    "as_tool",
    "fit_for_json",
    "render",
]

Sendable: TypeAlias = UserMessage | SystemMessage | AssistantMessage | ToolResultMessage

_COMPACTED: Final = "The earlier part of this conversation was compacted. This summary stands for it:"
_LEFT: Final = "The conversation went another way for a while and came back. This summary stands for that branch:"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NO_OUTPUT: Final = "(no output)"
_ANY_OBJECT: Final[Mapping[str, JSON]] = {"type": "object", "properties": {}}


@attrs.frozen(kw_only=True)
class Rendered:
    """
    Messages of the four roles, and what they could not carry.

    Attributes:
        messages: Each call is answered directly behind its message, in its order,
            and what was said in between follows. Ids are unique and fit the provider.
        left_out: Phrases with the number of their occurrences.
    """

    messages: Sequence[Sendable]
    left_out: collections.Counter[str]


def render(messages: Iterable[Message], *, ids: IdStyle) -> Rendered:
    """Return *messages* in the four roles; the same ones every time, so that a provider's cache stays warm."""
    renderer = _Renderer(Ids(ids))
    for message in messages:
        renderer.take(message)
    renderer.close()
    return Rendered(messages=renderer.out, left_out=renderer.left_out)


class _Renderer:
    """Holds back an assistant's message until it is known which of its calls were answered."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self.out: list[Sendable] = []
        self.left_out: collections.Counter[str] = collections.Counter()
        self._open: AssistantMessage | None = None
        self._results: dict[int, ToolResultMessage] = {}
        self._between: list[Sendable] = []

    def take(self, message: Message) -> None:
        match message:
            case AssistantMessage():
                self.close()
                self._open = message
            case ToolResultMessage():
                self._answer(message)
            case _:
                said = self._said(message)
                if said is not None:
                    self._between.append(said)

    def close(self) -> None:
        """Put out what was held back: the calls, their results, and what was said meanwhile."""
        if self._open is not None:
            self._put_answer(self._open)
        self.out.extend(self._between)
        self._open, self._results, self._between = None, {}, []

    def _answer(self, result: ToolResultMessage) -> None:
        calls = self._open.tool_calls if self._open is not None else ()
        for place, call in enumerate(calls):
            if call.id == result.tool_call_id and place not in self._results:
                self._results[place] = result
                return
        # No provider takes a result without its call, and it may be the only place that says what it says.
        opening = TextBlock(text=f"[A tool result without its call: {result.tool_name or 'unknown tool'}]")
        self._between.append(UserMessage(content=(opening, *result.content)))
        self.left_out["tool result without its call, sent as text"] += 1

    def _put_answer(self, message: AssistantMessage) -> None:
        content: list[Block] = []
        results: list[ToolResultMessage] = []
        place = -1
        for block in message.content:
            if not isinstance(block, ToolCallBlock):
                content.append(block)
                continue
            place += 1
            result = self._results.get(place)
            if result is None:
                content.append(TextBlock(text=f"[The call of the tool {block.name} was not answered.]"))
                self.left_out["tool call without a result, sent as text"] += 1
                continue
            fresh = self._ids.fresh(block.id)
            content.append(attrs.evolve(block, id=fresh))
            results.append(attrs.evolve(result, tool_call_id=fresh, tool_name=result.tool_name or block.name))
        if content:
            self.out.append(attrs.evolve(message, content=tuple(content)))
        self.out.extend(results)

    def _said(self, message: Message) -> UserMessage | SystemMessage | None:
        """Return what a message of another role says; ``None`` where it says nothing."""
        match message:
            case UserMessage() | SystemMessage():
                return message if message.content else None
            case CustomMessage():
                return UserMessage(content=message.content) if message.content else None
            case BashExecutionMessage():
                return None if message.exclude_from_context else _user(_ran(message))
            case CompactionSummaryMessage():
                return _user(_summed(_COMPACTED, message.summary)) if message.summary else None
            case BranchSummaryMessage():
                return _user(_summed(_LEFT, message.summary)) if message.summary else None
            case UnknownMessage():
                role = message.data.get("role") if isinstance(message.data, Mapping) else None
                self.left_out[f"message of unknown role {clean_text(str(role), limit=40)!r}"] += 1
        return None


def _user(text: str) -> UserMessage:
    return UserMessage(content=text)


def _summed(opening: str, summary: str) -> str:
    return f"{opening}\n\n<summary>\n{summary}\n</summary>"


def _ran(message: BashExecutionMessage) -> str:
    text = f"I ran this command:\n$ {message.command}\n\n{message.output or _NO_OUTPUT}"
    return f"{text}\n\n(exit code {message.exit_code})" if message.exit_code else text


def as_text(block: UnknownBlock | ImageBlock) -> str:
    """Return the line that stands for a block that a provider cannot be sent."""
    kind: JSON = "image"
    if isinstance(block, UnknownBlock):
        kind = block.data.get("type") if isinstance(block.data, Mapping) else type(block.data).__name__
    return f"[A block of type {clean_text(str(kind), limit=40)!r} cannot be shown here.]"


def as_arguments(arguments: JSON) -> dict[str, JSON]:
    """Return a call's arguments as an object; what is none is kept under ``arguments``."""
    return dict(arguments) if isinstance(arguments, Mapping) else {"arguments": arguments}


def arguments_from(text: str) -> JSON:
    """Return the arguments that a model wrote; what is no JSON object stays text, for the tool's runner to refuse."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def as_tool(tool: Mapping[str, JSON]) -> tuple[str, str, JSON] | None:
    """Return name, description and schema of a tool; ``None`` where it is of the provider's own making."""
    function = tool.get("function") if tool.get("type") == "function" else None
    if isinstance(function, Mapping):
        tool = function
    elif isinstance(tool.get("type"), str) and tool["type"] != "function":
        return None
    schema = next((tool[key] for key in ("parameters", "input_schema", "inputSchema") if tool.get(key)), _ANY_OBJECT)
    return str(tool.get("name", "")), str(tool.get("description") or ""), schema


def fit_for_json(value: JSON) -> JSON:
    """Return a plain copy of *value* that every JSON decoder takes: no half surrogates, no ``NaN`` and no infinity."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, Mapping):
        return {fit_for_json(key): fit_for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fit_for_json(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
