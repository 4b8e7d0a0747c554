"""
A summary without a model: lines copied from the conversation.

It invents nothing and understands nothing, and its first line says so. It keeps
what people miss first: what was asked, what was answered last, which files and
commands were touched, what failed, and identifiers, letter for letter.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from openclaw_ctx.contract import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

__all__ = ["HEADING", "summarize_extractively"]

HEADING: Final = "Extractive summary: lines copied from the earlier conversation; no model was asked."

# Shares of the room that each section may take; what one leaves, the next ones have.
_LATEST: Final = "## Latest request"
_SHARES: Final = (
    (_LATEST, 0.15),
    ("## Earlier summary", 0.20),
    ("## Requests", 0.25),
    ("## Identifiers", 0.10),
    ("## Files and commands", 0.15),
    ("## Failures", 0.10),
    ("## Answers", 1.0),
)
_GAP: Final = " ... "
_LINE_CHARS: Final = 240
_REQUEST_CHARS: Final = 800
_IDENTIFIER: Final = re.compile(
    r"https?://\S+"  # addresses
    r"|(?:/|\./|~/)[\w.@-]+(?:/[\w.@-]+)+"  # paths
    r"|\b[\w.-]+\.(?:py|js|ts|tsx|rs|go|c|h|cpp|java|rb|php|md|toml|json|ya?ml|sh|sql|html|css)\b"  # files
    r"|\b[\w.-]+:\d{2,5}\b"  # hosts and ports
    r"|\b[0-9a-f]{8,40}\b"  # hashes
)
_ARGUMENT_KEYS: Final = ("path", "file_path", "filename", "command", "cmd", "pattern", "query", "url")


def summarize_extractively(messages: Sequence[Message], *, max_chars: int, focus: str | None = None) -> str:
    """
    Return lines of *messages* that fit into *max_chars*; the same ones every time.

    Args:
        messages: Oldest first; an earlier summary among them is carried on.
        max_chars: Bounds the whole text.
        focus: What the user wants kept, quoted as a line of its own.
    """
    sections = _sections(messages)
    lines = [HEADING]
    if focus:
        lines.append(f"Focus asked for: {_line(focus)}")
    room = max_chars - sum(len(line) + 1 for line in lines)
    for title, share in _SHARES:
        found = sections.get(title, [])
        limit = min(room, max(int((max_chars - len(HEADING)) * share), 0)) - len(title) - 2
        if title == _LATEST:
            found = [_shortened(text, limit - 1) for text in found]  # in part rather than not at all
        kept = _fitting(found, limit)
        if kept:
            block = f"\n{title}\n" + "\n".join(kept)
            lines.append(block)
            room -= len(block) + 1
    return "\n".join(lines)[:max_chars]


def _sections(messages: Sequence[Message]) -> dict[str, list[str]]:
    """Return the candidate lines of each section, most wanted first."""
    requests = [message.text for message in messages if isinstance(message, UserMessage) and message.text.strip()]
    summaries = [m.summary for m in messages if isinstance(m, CompactionSummaryMessage | BranchSummaryMessage)]
    answers = [m.text for m in messages if isinstance(m, AssistantMessage) and m.text.strip()]
    commands, failures = _work(messages)
    return {
        _LATEST: [_shortened(requests[-1], _REQUEST_CHARS)] if requests else [],
        "## Earlier summary": [line for text in summaries for line in _without_frame(text)],
        "## Requests": [f"- {_line(text)}" for text in _both_ends(requests[:-1])],
        "## Identifiers": [f"- {name}" for name in _identifiers(requests + answers)],
        "## Files and commands": [f"- {text}" for text in _newest_once(commands)],
        "## Failures": [f"- {text}" for text in _newest_once(failures)],
        "## Answers": [f"- {_line(text)}" for text in reversed(answers)],
    }


def _work(messages: Sequence[Message]) -> tuple[list[str], list[str]]:
    commands: list[str] = []
    failures: list[str] = []
    for message in messages:
        if isinstance(message, BashExecutionMessage):
            commands.append(f"$ {_line(message.command)}")
        elif isinstance(message, ToolResultMessage) and message.is_error:
            failures.append(f"{message.tool_name or 'tool'}: {_line(message.text)}")
        elif isinstance(message, AssistantMessage):
            commands.extend(_described(block) for block in message.tool_calls)
            if message.error_message:
                failures.append(_line(message.error_message))
    return commands, failures


def _described(call: ToolCallBlock) -> str:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    shown = next((arguments[key] for key in _ARGUMENT_KEYS if isinstance(arguments.get(key), str)), "")
    return f"{call.name} {_line(shown)}".rstrip()


def _identifiers(texts: Iterable[str]) -> list[str]:
    counts: dict[str, int] = {}
    for text in texts:
        for name in _IDENTIFIER.findall(text):
            name = name.rstrip(".,;:)]}'\"`")  # noqa: PLW2901 -- the name without its sentence's end
            counts[name] = counts.get(name, 0) + 1
    return sorted(counts, key=lambda name: -counts[name])


def _without_frame(summary: str) -> list[str]:
    return [line for line in summary.splitlines() if line.strip() and line != HEADING and not line.startswith("## ")]


def _both_ends(texts: list[str]) -> list[str]:
    """Return the first, then the others from the newest back: how it began, and where it stands."""
    return texts[:1] + texts[:0:-1]


def _newest_once(lines: list[str]) -> list[str]:
    return list(dict.fromkeys(reversed(lines)))


def _fitting(lines: Iterable[str], limit: int) -> list[str]:
    """Return those of *lines* that fit, whole; one that is too long keeps no other out."""
    kept: list[str] = []
    for line in lines:
        if line and len(line) < limit:
            kept.append(line)
            limit -= len(line) + 1
    return kept


def _line(text: str) -> str:
    return _shortened(" ".join(text.split()), _LINE_CHARS)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4 - len(_GAP)
    return f"{text[:head]}{_GAP}{text[-tail:]}" if tail > 0 else text[: max(0, limit)]
