"""
A long conversation that nobody had, the same one at every run.

Words are drawn from 2,000 with seed 7; a message has a gamma-distributed number
of them, 60 in the mean; the roles go round: user, assistant with a tool call,
the tool's result, assistant. Each side gets it as objects of its own.
"""

import json
import random
import string
from collections.abc import Iterator
from itertools import count, cycle
from typing import Any, Literal

import attrs

from openclaw_ctx import AssistantMessage, Message, TextBlock, ToolCallBlock, ToolResultMessage, UserMessage

__all__ = ["Said", "as_langchain", "as_message", "as_openai_item", "conversation"]

_SEED = 7
_WORDS = 2_000
_MEAN_WORDS = 60
_SHAPE = 2.0
_TOOL = "search"


@attrs.frozen(kw_only=True)
class Said:
    """One message. ``call_id``: of the call that it makes, or answers."""

    kind: Literal["user", "call", "result", "answer"]
    text: str
    call_id: str


def conversation() -> Iterator[Said]:
    """Yield the conversation from its beginning, without end."""
    chance = random.Random(_SEED)  # noqa: S311 -- the same one each time is the point
    words = ["".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 9))) for _ in range(_WORDS)]
    kinds: Iterator[Literal["user", "call", "result", "answer"]] = cycle(("user", "call", "result", "answer"))
    for number, kind in zip(count(), kinds, strict=False):
        length = max(1, round(chance.gammavariate(_SHAPE, _MEAN_WORDS / _SHAPE)))
        yield Said(kind=kind, text=" ".join(chance.choices(words, k=length)), call_id=f"call_{number // 4}")


def as_message(said: Said) -> Message:
    """Return it as ours."""
    match said.kind:
        case "user":
            return UserMessage(content=said.text)
        case "call":
            call = ToolCallBlock(id=said.call_id, name=_TOOL, arguments={"query": said.text[:40]})
            return AssistantMessage(content=(TextBlock(text=said.text), call), stop_reason="toolUse")
        case "result":
            return ToolResultMessage(content=said.text, tool_call_id=said.call_id, tool_name=_TOOL)
        case "answer":
            return AssistantMessage(content=(TextBlock(text=said.text),), stop_reason="stop")


def as_langchain(messages: Any, said: Said) -> Any:
    """Return it as LangChain's; *messages* is ``langchain_core.messages``."""
    match said.kind:
        case "user":
            return messages.HumanMessage(content=said.text)
        case "call":
            call = {"id": said.call_id, "name": _TOOL, "args": {"query": said.text[:40]}}
            return messages.AIMessage(content=said.text, tool_calls=[call])
        case "result":
            return messages.ToolMessage(content=said.text, tool_call_id=said.call_id)
        case "answer":
            return messages.AIMessage(content=said.text)


def as_openai_item(said: Said) -> dict[str, Any]:
    """Return it as an item of the Responses API, in which a call holds no text besides its arguments."""
    match said.kind:
        case "call":
            arguments = json.dumps({"query": said.text})
            return {"type": "function_call", "call_id": said.call_id, "name": _TOOL, "arguments": arguments}
        case "result":
            return {"type": "function_call_output", "call_id": said.call_id, "output": said.text}
        case role:
            return {"role": "user" if role == "user" else "assistant", "content": said.text}
