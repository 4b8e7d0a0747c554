"""
A message as a section of a Markdown page, whatever it says.

Foreign text keeps its paragraphs, lists, links and code. What would reach beyond
its section, load something, or pass for the page's own headings is written out.
"""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

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
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownMessage,
)

__all__ = ["UNSEEN", "heading", "section"]

UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls, lone surrogates, and what turns the direction of text or is seen by nobody. Joiners stay, for scripts."""

_FENCE: Final = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*\Z)|~{3,})[ \t]*(?P<language>[\w+#.-]{0,20})")
_TICKS: Final = re.compile(r"`+")
_HEADING: Final = re.compile(
    r"^((?:[ \t>*+-]|\d{1,9}[.)](?=[ \t]))*+)(?=#{1,6}(?:[ \t]|$)|\[[^\]\n]*\]:)"  # and what a link may refer to
)
_UNDERLINE: Final = re.compile(r"^([ \t>]*+)(?=(?:=+|-+)[ \t]*$)")
_LIVE: Final = re.compile(r"<|!\[|&(?=#?\w{1,31};)")
_WRITTEN_OUT: Final = {"<": "&lt;", "![": "!\\[", "&": "&amp;"}
# Beside these a pair of backticks need not be what it looks like: titles of links, cells of tables, escapes.
_DOUBTFUL: Final = re.compile(r"\]\(|\]:|\\`|\|")


def heading(text: str) -> str:
    """Return foreign text as a part of a heading: one line, and nothing but text."""
    return _escaped(re.sub(r"([\\`\[\]#])", r"\\\1", _seen(" ".join(text.split()))))


def section(message: Message) -> Iterator[str]:
    """Yield the section of a message, in pieces; each begins a line and ends it."""
    at = "" if message.timestamp is None else f" · {_time_of(message.timestamp)}"
    yield f"\n## {heading(_speaker(message))}{at}\n"
    if isinstance(message, BashExecutionMessage):
        yield _fenced(f"$ {message.command}\n{message.output}")
    elif isinstance(message, CompactionSummaryMessage | BranchSummaryMessage):
        yield from _prose(message.summary)
    elif isinstance(message, UnknownMessage):
        yield _fenced(_pretty(message.data), "json")
    else:
        for block in message.content:
            yield from _block(block, verbatim=isinstance(message, ToolResultMessage))
    if isinstance(message, AssistantMessage) and message.error_message:
        yield from _prose(message.error_message)


def _speaker(message: Message) -> str:
    if isinstance(message, ToolResultMessage):
        return f"Result of {message.tool_name or 'a tool'}{', an error' if message.is_error else ''}"
    if isinstance(message, CustomMessage):
        return message.custom_type or "Other"
    return {
        "user": "User",
        "assistant": "Assistant",
        "system": "System",
        "compactionSummary": "Summary of what came before",
        "branchSummary": "Summary of another branch",
        "bashExecution": "Command",
    }.get(message.role, "Other")


def _block(block: Block, *, verbatim: bool) -> Iterator[str]:
    match block:
        case TextBlock():
            if verbatim:
                yield _fenced(block.text)
            else:
                yield from _prose(block.text)
        case ToolCallBlock():
            yield f"\nCalls {_code(block.name)}:\n"
            yield _fenced(_pretty(block.arguments), "json")
        case ThinkingBlock():
            pass  # for the model; jsonl and json have it
        case ImageBlock():
            yield f"\nA picture: {_code(block.mime_type)}\n"
        case _:
            yield _fenced(_pretty(block.data), "json")


def _prose(text: str) -> Iterator[str]:
    """Yield foreign text: its code in fences that it cannot close, the rest as Markdown that stays within."""
    for language, lines in _pieces(_seen(text).split("\n")):
        if language is not None:
            yield _fenced("\n".join(lines), language)
        elif any(line.strip() for line in lines):
            body = "\n".join(_paragraphs(lines)).strip("\n")
            yield f"\n{body}\n"


def _pieces(lines: Sequence[str]) -> Iterator[tuple[str | None, list[str]]]:
    """
    Yield a text's code blocks, each with its language, and what lies between them, with ``None``.

    A fence within a list or a quotation counts as text, and one that is never
    closed as closed at the end.
    """
    piece: list[str] = []
    fence, language = "", ""
    for line in lines:
        if fence:
            closing = line.strip()
            if len(closing) >= len(fence) and not closing.strip(fence[0]):
                yield language, piece
                piece, fence = [], ""
            else:
                piece.append(line)
        elif found := _FENCE.match(line):
            yield None, piece
            piece, fence, language = [], found["fence"], found["language"]
        else:
            piece.append(line)
    yield (language if fence else None), piece


def _paragraphs(lines: Sequence[str]) -> Iterator[str]:
    # Nothing within a line reaches over a blank one, so what is code is decided for the lines between two.
    for is_blank, group in itertools.groupby(lines, key=lambda line: not line.strip()):
        paragraph = list(group)
        spans = None if is_blank or any(map(_DOUBTFUL.search, paragraph)) else _all_spans(paragraph)
        for at, line in enumerate(paragraph):
            escaped = _escaped(line, [] if spans is None else spans[at])
            yield _UNDERLINE.sub(r"\1\\", _HEADING.sub(r"\1\\", escaped))


def _all_spans(lines: Sequence[str]) -> list[list[tuple[int, int]]] | None:
    """Return where each line has code between backticks; ``None`` where one has a backtick without its pair."""
    found = []
    for line in lines:
        spans = []
        runs = iter(_TICKS.finditer(line))
        for opening in runs:
            closing = next((run for run in runs if len(run[0]) == len(opening[0])), None)
            if closing is None:
                return None
            spans.append((opening.start(), closing.end()))
        found.append(spans)
    return found


def _escaped(line: str, code: Sequence[tuple[int, int]] = ()) -> str:
    """Return a line without HTML, entities and pictures, but for what is code."""
    parts, at = [], 0
    for start, end in (*code, (len(line), len(line))):
        parts += [_LIVE.sub(lambda found: _WRITTEN_OUT[found[0]], line[at:start]), line[start:end]]
        at = end
    return "".join(parts)


def _fenced(text: str, language: str = "") -> str:
    shown = _seen(text).strip("\n")
    fence = "`" * (max((len(run) for run in _TICKS.findall(shown)), default=0) + 1)
    fence = fence if len(fence) > 3 else "```"  # noqa: PLR2004 -- the shortest there is
    return f"\n{fence}{language}\n{shown}\n{fence}\n"


def _code(text: str) -> str:
    return f"`{_seen(' '.join(text.split())).replace('`', chr(39)) or ' '}`"


def _pretty(value: JSON) -> str:
    try:
        return json.dumps(value, default=str, ensure_ascii=False, indent=2)
    except (RecursionError, ValueError):
        return "(nested too deeply)"


def _seen(text: str) -> str:
    """Return *text* with what nobody would see written out; its lines end at LF."""
    return UNSEEN.sub(_written, text.replace("\r\n", "\n"))


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= 0xFF:  # noqa: PLR2004 -- what two hexadecimal digits hold
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 -- likewise four


def _time_of(milliseconds: float) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "at no time that a calendar has"
