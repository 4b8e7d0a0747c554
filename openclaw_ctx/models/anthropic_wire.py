"""Anthropic's messages: requests out of messages, answers out of JSON. Knows no network and no package."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from openclaw_ctx.contract import (
    JSON,
    AssistantMessage,
    Block,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownBlock,
    UserMessage,
    thaw,
)

from .client import ModelAnswer, ModelEvent, ModelRequest, TextDelta, ThinkingDelta, TokenUsage, ToolCallReady
from .rendering import Sendable, arguments_from, as_arguments, as_text, as_tool, fit_for_json, render

__all__ = ["MessageReader", "request_to_wire", "usage_from"]

REDACTED: Final = "[Reasoning redacted]"
"""Stands for thinking that the provider encrypted; the reference system's."""

_BEGINNING: Final = "(The conversation goes on.)"
_OWN_TYPES: Final = frozenset({"document", "search_result"})
_STOP_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
}


def request_to_wire(
    request: ModelRequest, *, model: str, provider: str, max_tokens: int, cache: bool
) -> tuple[dict[str, JSON], tuple[str, ...]]:
    """
    Return the body of ``POST /v1/messages``, and what it could not carry.

    Args:
        request: What is asked.
        model: The provider's name of the model.
        provider: Whose thinking is sent back; a stranger's signature is refused.
        max_tokens: Bounds an answer for which the request sets no bound.
        cache: Whether to mark what the provider shall keep for the next call: the
            system prompt with the tools, and all of the messages.
    """
    rendered = render(request.messages, ids="anthropic")
    writer = _Writer(provider, rendered.left_out)
    turns = writer.turns(rendered.messages)
    system: list[dict[str, JSON]] = [
        {"type": "text", "text": text} for text in (request.system_prompt, *writer.system) if text
    ]
    if cache:
        for blocks in (system, turns[-1]["content"] if turns else []):
            if blocks and "thinking" not in blocks[-1]["type"]:
                blocks[-1]["cache_control"] = {"type": "ephemeral"}
    body: dict[str, JSON] = {"model": model, "messages": turns, "max_tokens": request.max_tokens or max_tokens}
    if system:
        body["system"] = system
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    return fit_for_json(body), tuple(f"{number} {phrase}" for phrase, number in writer.left_out.items())


def _tool(tool: Mapping[str, JSON]) -> JSON:
    known = as_tool(tool)
    if known is None:
        return thaw(tool)
    name, description, schema = known
    return {"name": name, "description": description, "input_schema": schema}


class _Writer:
    """Writes turns that alternate: neighbours of one role become one, the results of tools first."""

    def __init__(self, provider: str, left_out: Counter[str]) -> None:
        self._provider = provider
        self.left_out = left_out
        self.system: list[str] = []
        self._turns: list[dict[str, Any]] = []

    def turns(self, messages: Sequence[Sendable]) -> list[dict[str, Any]]:
        for message in messages:
            match message:
                case UserMessage():
                    self._add("user", [part for block in message.content if (part := self._part(block))])
                case SystemMessage() if self._turns:
                    # Where it stood, since what it says may lean on what was before; and a changed prompt has no cache.
                    self._add("user", _texts(f"<system>\n{message.text}\n</system>" if message.text else ""))
                case SystemMessage():
                    self.system.append(message.text)
                case ToolResultMessage():
                    self._add("user", [self._result(message)])
                case AssistantMessage():
                    ours = message.provider in {None, self._provider}
                    self._add("assistant", [part for b in message.content if (part := self._answered(b, ours=ours))])
        return self._turns

    def _add(self, role: str, blocks: list[dict[str, JSON]]) -> None:
        if not blocks:
            return
        if self._turns and self._turns[-1]["role"] == role:
            self._turns[-1]["content"].extend(blocks)
            return
        if not self._turns and role == "assistant":
            self._turns.append({"role": "user", "content": _texts(_BEGINNING)})
        self._turns.append({"role": role, "content": blocks})

    def _part(self, block: Block) -> dict[str, JSON] | None:
        match block:
            case TextBlock():
                return {"type": "text", "text": block.text} if block.text.strip() else None
            case ImageBlock():
                source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
                return {"type": "image", "source": source}
            case UnknownBlock(data=Mapping() as data) if data.get("type") in _OWN_TYPES:
                return dict(data)
            case UnknownBlock():
                self.left_out["block of a type that it does not take, named in its place"] += 1
                return {"type": "text", "text": as_text(block)}
            case ThinkingBlock() | ToolCallBlock():
                self.left_out["block of an assistant in another's message"] += 1
                return None

    def _result(self, message: ToolResultMessage) -> dict[str, JSON]:
        parts = [part for block in message.content if (part := self._part(block))]
        result: dict[str, JSON] = {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id,
            "content": parts or _texts("(no output)"),
        }
        if message.is_error:
            result["is_error"] = True
        return result

    def _answered(self, block: Block, *, ours: bool) -> dict[str, JSON] | None:
        match block:
            case ToolCallBlock():
                return {"type": "tool_use", "id": block.id, "name": block.name, "input": as_arguments(block.arguments)}
            case ThinkingBlock() if not (ours and block.signature):
                self.left_out["thinking without a signature of this provider"] += 1
                return None
            case ThinkingBlock() if block.extra.get("redacted"):
                return {"type": "redacted_thinking", "data": block.signature}
            case ThinkingBlock():
                return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
            case UnknownBlock(data=Mapping() as data) if ours:
                return dict(data)  # the provider's own, such as a search that it ran
            case ImageBlock():
                self.left_out["block of an assistant that it does not take, named in its place"] += 1
                return {"type": "text", "text": as_text(block)}
            case _:
                return self._part(block)


def _texts(text: str) -> list[dict[str, JSON]]:
    return [{"type": "text", "text": text}] if text.strip() else []


@attrs.define
class _Block:
    data: dict[str, JSON]
    pieces: list[str] = attrs.Factory(list)
    signature: str = ""

    def finished(self) -> Block | None:
        """Return the block; ``None`` where it says nothing."""
        joined = "".join(self.pieces)
        match self.data.get("type"):
            case "text":
                text = str(self.data.get("text") or "") + joined
                more = {key: value for key, value in self.data.items() if key not in {"type", "text"} and value}
                return TextBlock(text=text, extra=more) if text else None
            case "thinking":
                signature = str(self.data.get("signature") or "") + self.signature
                thinking = str(self.data.get("thinking") or "") + joined
                return ThinkingBlock(thinking=thinking, signature=signature or None)
            case "redacted_thinking":
                return ThinkingBlock(thinking=REDACTED, signature=self.data.get("data"), extra={"redacted": True})
            case "tool_use":
                arguments = arguments_from(joined) if joined else self.data.get("input") or {}
                return ToolCallBlock(
                    id=str(self.data.get("id") or ""), name=str(self.data.get("name") or ""), arguments=arguments
                )
            case _:
                return UnknownBlock(data=self.data | ({"input": arguments_from(joined)} if joined else {}))


class MessageReader:
    """Puts an answer together, out of the events of a stream or of one whole message."""

    def __init__(self, *, provider: str, model: str, left_out: tuple[str, ...]) -> None:
        self._provider = provider
        self._model = model
        self._left_out = left_out
        self._open: dict[JSON, _Block] = {}
        self._content: list[Block] = []
        self._stop: str | None = None
        self._details: JSON = None
        self._usage: dict[str, JSON] = {}

    @property
    def usage(self) -> TokenUsage | None:
        """The provider's count so far."""
        return usage_from(self._usage)

    @property
    def ended(self) -> bool:
        """Whether the provider has said that this is all."""
        return self._stop is not None

    def read_whole(self, data: Mapping[str, JSON]) -> None:
        """Take a whole message."""
        self._take_message(data)
        for block in data.get("content") or ():
            self._finish(_Block(dict(block)))

    def read(self, data: Mapping[str, JSON]) -> Iterator[ModelEvent]:
        """Take an event of a stream; yield what is new in it."""
        index = data.get("index")
        match data.get("type"):
            case "message_start":
                self._take_message(data.get("message") or {})
            case "content_block_start":
                block = self._open[index] = _Block(dict(data.get("content_block") or {}))
                if block.data.get("type") == "text" and block.data.get("text"):
                    yield TextDelta(block.data["text"])
            case "content_block_delta" if index in self._open:
                yield from self._take_delta(self._open[index], data.get("delta") or {})
            case "content_block_stop" if index in self._open:
                finished = self._finish(self._open.pop(index))
                if isinstance(finished, ToolCallBlock):
                    yield ToolCallReady(finished)
            case "message_delta":
                self._take_message({**(data.get("delta") or {}), "usage": data.get("usage")})

    def rest(self) -> Iterator[ModelEvent]:
        """Yield nothing: every block of a stream says when it is whole."""
        return iter(())

    def answer(self) -> ModelAnswer:
        """Return everything that was read."""
        stop = _STOP_REASONS.get(self._stop or "end_turn", "error")
        usage = self.usage
        message = AssistantMessage(
            content=tuple(self._content),
            provider=self._provider,
            model=self._model,
            usage=None if usage is None else usage.to_wire(),
            stop_reason=stop,
            error_message=self._withheld() if stop == "error" else None,
        )
        return ModelAnswer(message=message, usage=usage, reported_usage=self._usage or None, left_out=self._left_out)

    def _withheld(self) -> str:
        details = self._details.get("explanation") if isinstance(self._details, Mapping) else None
        return f"The provider withheld the answer: {details or self._stop}"

    def _take_message(self, data: Mapping[str, JSON]) -> None:
        self._model = data.get("model") or self._model
        self._stop = data.get("stop_reason") or self._stop
        self._details = data.get("stop_details") or self._details
        # Counts add up within a message, and a later one leaves out what it has no news of.
        self._usage |= {key: value for key, value in (data.get("usage") or {}).items() if value is not None}

    def _take_delta(self, block: _Block, delta: Mapping[str, JSON]) -> Iterator[ModelEvent]:
        match delta:
            case {"type": "text_delta", "text": str(text)} if text:
                block.pieces.append(text)
                yield TextDelta(text)
            case {"type": "thinking_delta", "thinking": str(text)} if text:
                block.pieces.append(text)
                yield ThinkingDelta(text)
            case {"type": "input_json_delta", "partial_json": str(text)}:
                block.pieces.append(text)
            case {"type": "signature_delta", "signature": str(text)}:
                block.signature += text
            case {"type": "citations_delta", "citation": citation}:
                block.data["citations"] = [*(block.data.get("citations") or ()), citation]

    def _finish(self, block: _Block) -> Block | None:
        finished = block.finished()
        if finished is not None:
            self._content.append(finished)
        return finished


def usage_from(reported: Mapping[str, JSON]) -> TokenUsage | None:
    """Return a provider's ``usage`` object as a count; ``None`` where it has none."""
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counts = [value if isinstance(value := reported.get(name), int) and value > 0 else 0 for name in names]
    if not any(counts):
        return None
    return TokenUsage(input=counts[0], output=counts[1], cache_read=counts[2], cache_write=counts[3])
