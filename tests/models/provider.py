"""
A provider on this machine: real HTTP, the wire formats of OpenAI and Anthropic, and their manners.

It refuses what the real ones refuse (dangling calls, empty texts, turns that do
not alternate), in their words, so that a request that it answers is a good one.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import attrs

__all__ = [
    "CutStream",
    "Hang",
    "Provider",
    "Reply",
    "Request",
    "Stream",
    "anthropic_error",
    "chunks",
    "completion",
    "event",
    "events",
    "message",
    "openai_error",
    "running",
    "tool_use",
    "what_anthropic_refuses",
    "what_openai_refuses",
]

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@attrs.frozen(kw_only=True)
class Request:
    """What was asked."""

    path: str
    headers: Mapping[str, str]
    body: Any


@attrs.frozen
class Reply:
    """A whole answer; ``body`` is JSON unless it is a text already."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    content_type: str = "application/json"


@attrs.frozen
class Stream:
    """Server-sent events, then a proper end."""

    lines: Sequence[str]


@attrs.frozen
class CutStream:
    """Server-sent events, then the connection breaks off."""

    lines: Sequence[str]


@attrs.frozen
class Hang:
    """Server-sent events, then nothing, with the connection open; without events not even a status."""

    lines: Sequence[str] = ()


@attrs.define
class Provider:
    """Answers requests with what it was told to, in order, if they are good."""

    url: str = ""
    replies: list[Any] = attrs.Factory(list)
    whole: Any = None
    """Answers every request that is not for a stream, where it is given."""
    requests: list[Request] = attrs.Factory(list)
    asked: asyncio.Event = attrs.Factory(asyncio.Event)
    """Set when a request has come."""
    hung_up: asyncio.Event = attrs.Factory(asyncio.Event)
    """Set when a caller that was left hanging has gone."""

    def will(self, *replies: Any) -> None:
        """Answer the next requests so."""
        self.replies.extend(replies)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close."""
        with contextlib.suppress(ConnectionError):
            request = await _read(reader)
            self.requests.append(request)
            self.asked.set()
            await self._send(self._reply(request), reader, writer)
        writer.close()

    def _reply(self, request: Request) -> Any:
        refused = _refused(request)
        if refused:
            return Reply(*refused)
        if self.whole is not None and not request.body.get("stream"):
            return self.whole
        return self.replies.pop(0)

    async def _send(self, reply: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match reply:
            case Reply():
                body = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
                payload = body.encode("utf-8")
                more = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
                head = f"HTTP/1.1 {reply.status} X\r\ncontent-type: {reply.content_type}\r\n{more}"
                writer.write(f"{head}content-length: {len(payload)}\r\nconnection: close\r\n\r\n".encode() + payload)
                await writer.drain()
            case Stream() | CutStream() | Hang():
                if reply.lines or not isinstance(reply, Hang):
                    writer.write(
                        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                        b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
                    )
                for line in reply.lines:
                    data = line.encode()
                    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                    await writer.drain()
                if isinstance(reply, Stream):
                    writer.write(b"0\r\n\r\n")
                    await writer.drain()
                elif isinstance(reply, Hang):
                    await reader.read()
                    self.hung_up.set()


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Provider]:
    """Run a provider on a port of this machine."""
    provider = Provider()
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        await provider.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    provider.url = f"http://{host}:{port}"
    try:
        yield provider
    finally:
        server.close()
        await asyncio.gather(*serving)


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    # As strict as a real one: Python's own decoder would take NaN and half surrogates.
    data = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    return Request(path=first.split()[1], headers=headers, body=data)


def _no_constant(name: str) -> None:
    """No JSON has such a constant."""
    raise AssertionError(name)


# -- OpenAI ----------------------------------------------------------------------------------------


def openai_error(message: str, *, kind: str = "invalid_request_error", code: str | None = None) -> dict[str, Any]:
    """Return an error body."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def completion(text: str | None = "Hello.", *, finish: str = "stop", **more: Any) -> dict[str, Any]:
    """Return a whole completion."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_763_681_630,
        "model": "gpt-test-2026-01-01",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, **more},
                "logprobs": None,
                "finish_reason": finish,
            }
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "total_tokens": 107,
            "prompt_tokens_details": {"cached_tokens": 60},
        },
    }


def chunks(*deltas: Mapping[str, Any], finish: str | None = "stop", usage: bool = True) -> list[str]:
    """Return the events of a stream."""
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test-2026-01-01"}
    data = [{**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if finish:
        data.append({**common, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage:
        data.append({**common, "choices": [], "usage": completion()["usage"]})
    return [f"data: {json.dumps(item)}\n\n" for item in data] + ["data: [DONE]\n\n"]


def what_openai_refuses(body: Mapping[str, Any]) -> str | None:
    """Return why OpenAI would refuse a request, in its words; ``None`` for a good one."""
    open_ids: list[str] = []
    seen: set[str] = set()
    for number, said in enumerate(body["messages"]):
        if said["role"] == "tool":
            if said["tool_call_id"] not in open_ids:
                return "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
            open_ids.remove(said["tool_call_id"])
        elif open_ids:
            break
        problem = _bad_message(said, f"messages[{number}]")
        if problem:
            return problem
        ids = [call["id"] for call in said.get("tool_calls") or ()]
        if seen & set(ids) or len(set(ids)) != len(ids):
            return f"Duplicate ids in {ids}."
        seen.update(ids)
        open_ids += ids
    if open_ids:
        return (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_ids)}"
        )
    return None


def _bad_message(said: Mapping[str, Any], where: str) -> str | None:
    content, calls = said.get("content"), said.get("tool_calls") or ()
    match said["role"]:
        case "tool" if not isinstance(content, str) or not content:
            return f"Invalid type for '{where}.content': expected a string."
        case "assistant" if content is None and not calls:
            return f"Invalid value for 'content': expected a string, got null. ({where})"
        case "user" | "system" if not content:
            return f"Invalid value for '{where}.content'."
        case "assistant" | "tool" | "user" | "system":
            pass
        case role:
            return f"Invalid value: '{role}'."
    for call in calls:
        if len(call["id"]) > 40 or not isinstance(json.loads(call["function"]["arguments"]), dict):
            return f"Invalid '{where}.tool_calls[0].id': string too long. Expected a string with maximum length 40."
    return None


# -- Anthropic -------------------------------------------------------------------------------------


def anthropic_error(kind: str, message: str) -> dict[str, Any]:
    """Return an error body."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011"}


def message(*content: Mapping[str, Any], stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    """Return a whole message."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test-20260101",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 40,
            "output_tokens": 7,
            "cache_read_input_tokens": 50,
            "cache_creation_input_tokens": 10,
        },
        **more,
    }


def tool_use(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    """Return a block with a call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def events(*content: Mapping[str, Any], stop: str = "end_turn") -> list[str]:
    """Return the events of a stream that says *content*, each text and each call in two pieces."""
    start = message(stop=stop)
    start |= {"stop_reason": None, "usage": {**start["usage"], "output_tokens": 1}}
    data: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(content):
        empty, deltas = _pieces(block)
        data.append({"type": "content_block_start", "index": index, "content_block": empty})
        data += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        data.append({"type": "content_block_stop", "index": index})
    data.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": 7},
        }
    )
    data.append({"type": "message_stop"})
    return [event(item) for item in data]


def event(data: Mapping[str, Any]) -> str:
    """Return one event as it is sent."""
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n"


def _pieces(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    def halves(text: str) -> list[str]:
        return [text[: len(text) // 2], text[len(text) // 2 :]]

    match block["type"]:
        case "text":
            return {"type": "text", "text": ""}, [
                {"type": "text_delta", "text": half} for half in halves(block["text"])
            ]
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": half} for half in halves(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use" | "server_tool_use":
            halved = halves(json.dumps(block["input"]) if block["input"] else "")
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": half} for half in halved]
        case _:
            return dict(block), []


def what_anthropic_refuses(body: Mapping[str, Any]) -> str | None:
    """Return why Anthropic would refuse a request, in its words; ``None`` for a good one."""
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    previous: str | None = None
    asked: set[str] = set()
    seen: set[str] = set()
    for number, turn in enumerate(body["messages"]):
        where = f"messages.{number}"
        if turn["role"] == previous or turn["role"] not in {"user", "assistant"}:
            return f'{where}: roles must alternate between "user" and "assistant"'
        previous = turn["role"]
        if number == 0 and previous != "user":
            return 'messages: first message must use the "user" role'
        results = [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
        if set(results) != asked or len(results) != len(asked):
            return f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after"
        if any(block["type"] != "tool_result" for block in turn["content"][: len(results)]):
            return f"{where}: tool_result blocks come first"
        asked = {block["id"] for block in turn["content"] if block["type"] == "tool_use"}
        if asked & seen:
            return f"{where}: `tool_use` ids must be unique"
        seen |= asked
        for block in turn["content"]:
            problem = _bad_block(block)
            if problem:
                return f"{where}.content: {problem}"
    return "`tool_use` ids were found without `tool_result` blocks" if asked else None


def _bad_block(block: Mapping[str, Any]) -> str | None:
    match block["type"]:
        case "text" if not block["text"].strip():
            return "text content blocks must be non-empty"
        case "thinking" if not block["signature"]:
            return "Invalid `signature` in `thinking` block"
        case "tool_use" if not _ID.fullmatch(block["id"]):
            return "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        case "tool_use" if not isinstance(block["input"], dict):
            return "tool_use.input: Input should be a valid dictionary"
        case "tool_result" if not block["content"]:
            return "tool_result.content: empty"
    return None


def _refused(request: Request) -> tuple[Any, int] | None:
    if request.path.endswith("/chat/completions"):
        problem = what_openai_refuses(request.body)
        return (openai_error(problem), 400) if problem else None
    assert request.path.startswith("/v1/messages"), request.path
    assert request.headers["anthropic-version"]
    problem = what_anthropic_refuses(request.body)
    return (anthropic_error("invalid_request_error", problem), 400) if problem else None
