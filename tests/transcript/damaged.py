"""Session files as damage leaves them, line by line, and their copies."""

import json
from collections.abc import Iterable
from typing import Any

from openclaw_ctx.transcript.checks.mend import Mended, mend_file
from openclaw_ctx.transcript.checks.verify import verify_file
from tests.transcript.sessions import as_bytes, new_file

__all__ = ["calls", "mended", "message", "result", "talk", "text"]


def message(role: str, content: Any = "words", **body: Any) -> dict[str, Any]:
    """Return the message object of a line."""
    return {"role": role, "content": content, **body}


def calls(*call_ids: str, stop: str = "toolUse") -> dict[str, Any]:
    """Return a reply that calls tools."""
    blocks = [{"type": "toolCall", "id": call_id, "name": "read", "arguments": {}} for call_id in call_ids]
    return message("assistant", blocks, stopReason=stop)


def result(call_id: str, content: Any = "out") -> dict[str, Any]:
    """Return a tool's answer."""
    return message("toolResult", content, toolCallId=call_id, toolName="read")


def text(*said: str) -> list[dict[str, str]]:
    """Return text blocks."""
    return [{"type": "text", "text": one} for one in said]


def talk(*messages: Any) -> list[dict[str, Any]]:
    """Return a line for each message, each behind the one before; a whole line's fields where it has a type."""
    lines = []
    for number, body in enumerate(messages, 1):
        of = body if "type" in body else {"type": "message", "message": body}
        parent = f"e{number - 1}" if number > 1 else None
        lines.append({"id": f"e{number}", "parentId": parent, "timestamp": "2025-11-20T23:34:00Z", **of})
    return lines


def mended(lines: Iterable[object] | bytes) -> tuple[Mended, list[dict[str, Any]]]:
    """Return what became of a file, and the lines of the copy; nobody finds fault with that."""
    with new_file(lines if isinstance(lines, bytes) else as_bytes(lines)) as path:
        before = path.read_bytes()
        copy = path.with_name("copy.jsonl")

        found = mend_file(path)
        found.write(copy)

        assert path.read_bytes() == before
        assert verify_file(copy).ok
        return found, [json.loads(one) for one in copy.read_bytes().split(b"\n")[:-1]]
