"""A session in forms for others: as it is, as messages, or to be read."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from openclaw_ctx.contract import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Message,
    ToolResultMessage,
    message_to_wire,
)

from .entry import encode_json
from .transcript import Transcript

__all__ = ["FORMATS", "export"]

_TICKS: Final = re.compile(r"`{3,}")
_HTML: Final = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;"})
# What would make a heading of somebody's line, or end the page's own structure.
_STRUCTURE: Final = re.compile(r"^(\s{0,3})(#{1,6}\s|=+\s*$|-+\s*$)", re.MULTILINE)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def export(transcript: Transcript, form: str) -> Iterator[bytes]:
    """
    Yield a session in a form of :data:`FORMATS`, in pieces.

    Args:
        transcript: Open, for reading or writing.
        form: ``jsonl``: its header and every line of every branch as they are;
            ``json``: the messages of the active branch, summarised ones too, as
            an array; ``markdown``: these to be read, with foreign HTML and
            control characters made harmless.
    """
    return FORMATS[form](transcript)


def _as_jsonl(transcript: Transcript) -> Iterator[bytes]:
    yield encode_json(dict(transcript.header)) + b"\n"
    for line in transcript.lines():
        yield line + b"\n"


def _as_json(transcript: Transcript) -> Iterator[bytes]:
    yield b"["
    for number, message in enumerate(transcript.record()):
        yield (b",\n" if number else b"\n") + encode_json(message_to_wire(message))
    yield b"\n]\n"


def _as_markdown(transcript: Transcript) -> Iterator[bytes]:
    title = transcript.name or str(transcript.header.get("sessionKey") or transcript.session_id)
    yield f"# {_plain(title)}\n".encode()
    for message in transcript.record():
        yield "".join(_section(message)).encode("utf-8", "replace")


def _section(message: Message) -> Iterator[str]:
    stamp = getattr(message, "timestamp", None)
    yield f"\n## {_plain(_speaker(message))}{'' if stamp is None else f' · {_time_of(stamp)}'}\n"
    if isinstance(message, BashExecutionMessage):
        yield _fenced(f"$ {message.command}\n{message.output}")
    elif isinstance(message, CompactionSummaryMessage | BranchSummaryMessage):
        yield f"\n{_plain(message.summary)}\n"
    elif isinstance(message, ToolResultMessage):
        yield _fenced(message.text)
    elif message.text:
        yield f"\n{_plain(message.text)}\n"
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            arguments = json.dumps(call.arguments, default=str, ensure_ascii=False, indent=2)
            yield f"\nCalls `{_inline(call.name)}`:\n{_fenced(arguments)}"


def _speaker(message: Message) -> str:
    if isinstance(message, ToolResultMessage):
        return f"Result of {message.tool_name or 'a tool'}{', an error' if message.is_error else ''}"
    return {
        "user": "User",
        "assistant": "Assistant",
        "system": "System",
        "compactionSummary": "Summary",
        "branchSummary": "Summary of another branch",
        "bashExecution": "Command",
    }.get(str(getattr(message, "role", "")), "Other")


def _plain(text: str) -> str:
    """Return text that is text in Markdown and HTML, whatever stands in it; code fences of its own stay."""
    escaped = _CONTROL.sub("�", text).translate(_HTML)
    return _STRUCTURE.sub(r"\1\\\2", escaped)


def _inline(text: str) -> str:
    return _CONTROL.sub("�", text).replace("`", "'").replace("\n", " ")


def _fenced(text: str) -> str:
    ticks = max((len(found) for found in _TICKS.findall(text)), default=2) + 1
    fence = "`" * ticks
    return f"\n{fence}\n{_CONTROL.sub('�', text)}\n{fence}\n"


def _time_of(milliseconds: float) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "at no time that a calendar has"


FORMATS: Final[Mapping[str, Callable[[Transcript], Iterator[bytes]]]] = {
    "json": _as_json,
    "jsonl": _as_jsonl,
    "markdown": _as_markdown,
}
"""By name, what writes a session in that form."""
