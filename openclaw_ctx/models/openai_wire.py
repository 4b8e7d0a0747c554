"""Chat completions: requests out of messages, answers out of JSON. Knows no network and no package."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

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
from .ids import IdStyle
from .rendering import Sendable, arguments_from, as_arguments, as_text, as_tool, fit_for_json, render

__all__ = ["ChatReader", "Dialect", "request_to_wire", "usage_from"]

_OWN_TYPES: Final = frozenset({"image_url", "input_audio", "file", "video_url"})
_STOP_REASONS: Final = {"stop": "stop", "length": "length", "tool_calls": "toolUse", "function_call": "toolUse"}
_THOUGHTS: Final = ("reasoning_content", "reasoning")


@attrs.frozen(kw_only=True)
class Dialect:
    """
    Where servers that speak the same language differ.

    Attributes:
        ids: Which ids of tool calls it takes.
        max_tokens_field: What it calls the bound of an answer.
        thinking_field: Where it wants its thoughts back, such as
            ``reasoning_content``; ``None`` leaves them out.
    """

    ids: IdStyle = "openai"
    max_tokens_field: str = "max_tokens"
    thinking_field: str | None = None


def request_to_wire(request: ModelRequest, *, model: str, dialect: Dialect) -> tuple[dict[str, JSON], tuple[str, ...]]:
    """Return the body of ``POST /chat/completions``, and what it could not carry."""
    rendered = render(request.messages, ids=dialect.ids)
    writer = _Writer(dialect, rendered.left_out)
    messages = writer.messages(rendered.messages)
    if request.system_prompt:
        messages.insert(0, {"role": "system", "content": request.system_prompt})
    body: dict[str, JSON] = {"model": model, "messages": messages}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.max_tokens is not None:
        body[dialect.max_tokens_field] = request.max_tokens
    return fit_for_json(body), tuple(f"{number} {phrase}" for phrase, number in writer.left_out.items())


def _tool(tool: Mapping[str, JSON]) -> JSON:
    known = as_tool(tool)
    if known is None:
        return thaw(tool)
    name, description, schema = known
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


class _Writer:
    def __init__(self, dialect: Dialect, left_out: Counter[str]) -> None:
        self._dialect = dialect
        self.left_out = left_out

    def messages(self, messages: Sequence[Sendable]) -> list[JSON]:
        written: list[JSON] = []
        pictures: list[JSON] = []
        for message in messages:
            if pictures and not isinstance(message, ToolResultMessage):
                written.append({"role": "user", "content": pictures})
                pictures = []
            match message:
                case UserMessage():
                    written.extend(self._user(message))
                case SystemMessage():
                    written.extend({"role": "system", "content": message.text} for _ in "." if message.text)
                case AssistantMessage():
                    written.extend(self._assistant(message))
                case ToolResultMessage():
                    written.append(self._result(message, pictures))
        if pictures:
            written.append({"role": "user", "content": pictures})
        return written

    def _user(self, message: UserMessage) -> Iterator[JSON]:
        parts = [part for block in message.content if (part := self._part(block)) is not None]
        if len(parts) == 1 and parts[0]["type"] == "text":
            yield {"role": "user", "content": parts[0]["text"]}
        elif parts:
            yield {"role": "user", "content": parts}

    def _part(self, block: Block) -> dict[str, JSON] | None:
        match block:
            case TextBlock():
                return {"type": "text", "text": block.text} if block.text else None
            case ImageBlock():
                return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}
            case UnknownBlock(data=Mapping() as data) if data.get("type") in _OWN_TYPES:
                return dict(data)
            case UnknownBlock():
                self.left_out["block of a type that it does not take, named in its place"] += 1
                return {"type": "text", "text": as_text(block)}
            case ThinkingBlock() | ToolCallBlock():
                self.left_out["block of an assistant in another's message"] += 1
                return None

    def _assistant(self, message: AssistantMessage) -> Iterator[JSON]:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[JSON] = []
        for block in message.content:
            match block:
                case TextBlock():
                    texts.append(block.text)
                case ThinkingBlock():
                    thoughts.append(block.thinking)
                case ToolCallBlock():
                    arguments = json.dumps(fit_for_json(as_arguments(block.arguments)), ensure_ascii=False)
                    function = {"name": block.name, "arguments": arguments}
                    calls.append({"id": block.id, "type": "function", "function": function})
                case ImageBlock() | UnknownBlock():
                    texts.append(as_text(block))
                    self.left_out["block of an assistant that it does not take, named in its place"] += 1
        text = "\n".join(filter(None, texts))
        written: dict[str, JSON] = {"role": "assistant", "content": text or None}
        if calls:
            written["tool_calls"] = calls
        if thoughts and self._dialect.thinking_field:
            written[self._dialect.thinking_field] = "\n".join(thoughts)
        elif thoughts:
            self.left_out["message's thinking"] += 1
        if text or calls:
            yield written

    def _result(self, message: ToolResultMessage, pictures: list[JSON]) -> JSON:
        """Return what goes behind the call; pictures follow in the user's name, since a result here is text."""
        texts: list[str] = []
        for block in message.content:
            match block:
                case TextBlock():
                    texts.append(block.text)
                case ImageBlock():
                    texts.append("[An image: it follows.]")
                    pictures.append({"type": "text", "text": f"The image that the tool {message.tool_name} gave back:"})
                    pictures.append(self._part(block))
                case _:
                    part = self._part(block)
                    texts.append(part["text"] if part and part["type"] == "text" else json.dumps(thaw(part)))
        text = "\n".join(filter(None, texts)) or "(no output)"
        if message.is_error:
            text = f"[The tool failed.]\n{text}"
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}


@attrs.define
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = attrs.Factory(list)

    def block(self, number: int) -> ToolCallBlock:
        return ToolCallBlock(
            id=self.id or f"call_{number}", name=self.name, arguments=arguments_from("".join(self.arguments))
        )


class ChatReader:
    """Puts an answer together, out of the chunks of a stream or of one whole completion."""

    def __init__(self, *, provider: str, model: str, left_out: tuple[str, ...]) -> None:
        self._provider = provider
        self._model = model
        self._left_out = left_out
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[_Call] = []
        self._call_at: dict[JSON, _Call] = {}
        self._finish: str | None = None
        self._usage: JSON = None

    @property
    def usage(self) -> TokenUsage | None:
        """The provider's count, once it has given it."""
        return usage_from(self._usage)

    @property
    def ended(self) -> bool:
        """Whether the provider has said that this is all; some say it only by counting."""
        return self._finish is not None or (self._usage is not None and bool(self._texts or self._calls))

    def read_whole(self, data: Mapping[str, JSON]) -> None:
        """Take a whole completion, which differs from a chunk in one word."""
        for _ in self.read(data):
            pass

    def read(self, data: Mapping[str, JSON]) -> Iterator[ModelEvent]:
        """Take a chunk; yield what is new in it."""
        self._model = data.get("model") or self._model
        self._usage = data.get("usage") or self._usage
        choice = next(iter(data.get("choices") or ()), None)
        if not isinstance(choice, Mapping):
            return
        self._finish = choice.get("finish_reason") or self._finish
        said = choice.get("delta") or choice.get("message") or {}
        thought = next((said[field] for field in _THOUGHTS if isinstance(said.get(field), str)), "")
        if thought:
            self._thoughts.append(thought)
            yield ThinkingDelta(thought)
        for field in ("content", "refusal"):
            text = _text(said.get(field))
            if text:
                self._texts.append(text)
                yield TextDelta(text)
        for place, call in enumerate(said.get("tool_calls") or ()):
            self._take(call, place)

    def rest(self) -> Iterator[ModelEvent]:
        """Yield the calls, which are whole only at the end."""
        for number, call in enumerate(self._calls):
            yield ToolCallReady(call.block(number))

    def answer(self) -> ModelAnswer:
        """Return everything that was read."""
        content: list[Block] = []
        if self._thoughts:
            content.append(ThinkingBlock(thinking="".join(self._thoughts)))
        if self._texts:
            content.append(TextBlock(text="".join(self._texts)))
        content.extend(call.block(number) for number, call in enumerate(self._calls))
        stop = _STOP_REASONS.get(self._finish or "stop", "error")
        if stop == "stop" and self._calls:
            stop = "toolUse"
        usage = self.usage
        message = AssistantMessage(
            content=tuple(content),
            provider=self._provider,
            model=self._model,
            usage=None if usage is None else usage.to_wire(),
            stop_reason=stop,
            error_message=f"The provider withheld the answer: {self._finish}" if stop == "error" else None,
        )
        return ModelAnswer(message=message, usage=usage, reported_usage=self._usage, left_out=self._left_out)

    def _take(self, data: Mapping[str, JSON], place: int) -> None:
        """
        Add a piece of a call to the call that it belongs to.

        By its index; but some servers number every call 0, and give each its id.
        """
        key = data.get("index")
        key = place if key is None else key
        call = self._call_at.get(key)
        wanted = data.get("id") or ""
        if call is None or (wanted and call.id and wanted != call.id):
            call = self._call_at[key] = _Call()
            self._calls.append(call)
        function = data.get("function") or {}
        call.id = call.id or wanted
        call.name = call.name or function.get("name") or ""
        arguments = function.get("arguments")
        if arguments:
            call.arguments.append(arguments if isinstance(arguments, str) else json.dumps(arguments))


def usage_from(reported: JSON) -> TokenUsage | None:
    """Return a provider's ``usage`` object as a count; ``None`` where it has none that makes sense."""
    if not isinstance(reported, Mapping):
        return None
    details = reported.get("prompt_tokens_details") or {}
    prompt, output = _count(reported.get("prompt_tokens")), _count(reported.get("completion_tokens"))
    read = _count(details.get("cached_tokens") or reported.get("prompt_cache_hit_tokens"))
    write = _count(details.get("cache_write_tokens"))
    if not prompt and not output:
        return None
    return TokenUsage(input=max(0, prompt - read - write), output=output, cache_read=read, cache_write=write)


def _count(value: JSON) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _text(content: JSON) -> str:
    """Return an answer's text; some servers send it in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""
