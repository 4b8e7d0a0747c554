"""
What is copied out of folded history rather than summarised: newest turns, failures, files, the open request.

A copied line never stands at the left edge as it was written: it is quoted or
follows a label, so that no text of a conversation can open a section, end a
block or speak in another's name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from openclaw_ctx.contract import (
    JSON,
    AssistantMessage,
    BashExecutionMessage,
    Block,
    CustomMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.transcript import CUT_OFF

from .groups import atomic_groups

__all__ = [
    "FAILURES_HEADING",
    "MAX_ENTRY_CHARS",
    "MAX_FAILURE_CHARS",
    "MAX_REQUEST_CHARS",
    "MOST_FAILURES",
    "MOST_TURNS",
    "TURNS_HEADING",
    "file_operations",
    "files_text",
    "latest_unresolved_request",
    "recent_turns_text",
    "shortened_request",
    "tool_failures_text",
]

TURNS_HEADING: Final = "## Recent turns preserved verbatim"
FAILURES_HEADING: Final = "## Tool Failures"

MOST_TURNS: Final = 12
"""So many turns are copied at most; the reference system's."""

MAX_ENTRY_CHARS: Final = 600
"""How much of one message, call or result is copied; the reference system's."""

MOST_FAILURES: Final = 8
"""So many failures of tools are listed; the reference system's."""

MAX_FAILURE_CHARS: Final = 240
"""How much of one failure is listed; the reference system's."""

MAX_REQUEST_CHARS: Final = 800
"""How much of the user's latest unanswered request is kept; the reference system's."""

_CUT: Final = " [...]"
_GAP: Final = "[... messages left out ...]"
_REQUEST_CUT: Final = "\n[... latest user request truncated ...]\n"
_FACT_CHARS: Final = 40
_MAX_PATH_CHARS: Final = 1_024
# What is read of an output to tell its first words.
_READ_CHARS: Final = 4_000

_READERS: Final = frozenset({"read", "readfile", "readfiles", "readmanyfiles", "view", "viewfile", "viewimage", "open"})
_WRITERS: Final = frozenset(
    {"write", "writefile", "create", "createfile", "edit", "editfile", "multiedit", "notebookedit", "strreplace"}
    | {"insert", "replace", "applypatch", "applydiff", "patch", "deletefile", "movefile", "renamefile"}
)
# One tool for both, which says in an argument what it does.
_EDITORS: Final = frozenset({"strreplaceeditor", "strreplacebasededittool", "texteditor"})
_PATH_KEYS: Final = (
    *("path", "file_path", "filePath", "filepath", "file", "filename", "absolute_path", "target_file"),
    *("notebook_path", "source", "destination", "paths", "file_paths", "files"),
)
_PATCH_KEYS: Final = ("input", "patch", "diff")
_PATCHED: Final = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): ([^\n]++)", re.MULTILINE)
_NO_LETTERS: Final = re.compile(r"[^a-z]+")
_LOOKS_LIKE_FORM: Final = ("#", "<", ">", "`")


def recent_turns_text(messages: Sequence[Message], *, turns: int = 3, max_chars: int = 8_000) -> str:
    """
    Return the last *turns* turns, quoted, under a heading; nothing where no user spoke.

    A call and its results are there together or not at all. Where there is no
    room for all, what the users said goes first, then the newest; a line says
    where something is missing.

    Args:
        messages: Oldest first.
        turns: How many messages of users to go back, at most 12.
        max_chars: Bounds the text, heading included.
    """
    asked = [place for place, message in enumerate(messages) if isinstance(message, UserMessage)]
    turns = min(turns, MOST_TURNS, len(asked))
    if turns <= 0:
        return ""
    groups = [[messages[place] for place in group] for group in atomic_groups(messages) if group.stop > asked[-turns]]
    units = ["\n".join(entry for message in group for entry in _entries(message)) for group in groups]
    spoken = [any(isinstance(message, UserMessage) for message in group) for group in groups]
    newest_first = sorted(range(len(units)), key=lambda place: (not spoken[place], -place))
    # A gap may stand before each unit, and one at the end.
    room = max_chars - len(TURNS_HEADING) - len(_GAP) - 1
    kept: set[int] = set()
    for place in newest_first:
        cost = len(units[place]) + len(_GAP) + 2
        if units[place] and cost <= room:
            kept.add(place)
            room -= cost
    if not kept:
        return ""
    return "\n".join((TURNS_HEADING, *_with_gaps(units, kept)))


def tool_failures_text(messages: Sequence[Message]) -> str:
    """
    Return the newest 8 failures of tools, a line each, under a heading; nothing where nothing failed.

    A call that is told of twice stands once. Status and exit code are those
    that the tool's ``details`` state.
    """
    failures: dict[str, ToolResultMessage] = {}
    for place, message in enumerate(messages):
        if isinstance(message, ToolResultMessage) and message.is_error:
            failures.setdefault(message.tool_call_id or f"\0{place}", message)
    if not failures:
        return ""
    newest = list(failures.values())[-MOST_FAILURES:]
    lines = [_cut(f"- {_failure(message)}", MAX_FAILURE_CHARS) for message in newest]
    earlier = len(failures) - len(newest)
    more = [f"- (and {earlier} earlier)"] if earlier else []
    return "\n".join((FAILURES_HEADING, *more, *lines))


def file_operations(messages: Sequence[Message]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """
    Return the paths that tools were called to read, and those they were called to write, each once.

    Told from calls, whether or not they went well; a reply that was cut off
    called nothing. A path in both lists was both. What is no path of one line
    is left out.
    """
    read: dict[str, None] = {}
    modified: dict[str, None] = {}
    for message in messages:
        if not isinstance(message, AssistantMessage) or message.stop_reason in CUT_OFF:
            continue
        for call in message.tool_calls:
            writes = _writes(call)
            if writes is not None:
                (modified if writes else read).update(dict.fromkeys(filter(_is_path, _paths(call))))
    return tuple(read), tuple(modified)


def files_text(read: Sequence[str], modified: Sequence[str]) -> str:
    """Return both lists between tags, a path a line, with a blank line before each; nothing for an empty list."""
    parts = (("read-files", read), ("modified-files", modified))
    shown = ((tag, [_as_line(name) for name in names if _is_path(name)]) for tag, names in parts)
    return "".join(f"\n\n<{tag}>\n" + "\n".join(lines) + f"\n</{tag}>" for tag, lines in shown if lines)


def latest_unresolved_request(messages: Sequence[Message]) -> str | None:
    """
    Return what the user said last, at most 800 characters, unless an answer was finished after it.

    An answer is finished if it stopped of itself and calls no tool; one that
    doesn't say why it stopped is, if it has text.
    """
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) and _is_finished(message):
            return None
        if isinstance(message, UserMessage) and message.text.strip():
            return shortened_request(message.text)
    return None


def shortened_request(request: str) -> str:
    """Return a request, stripped; head and tail of it around a marker where it is longer than 800 characters."""
    request = request.strip()
    if len(request) <= MAX_REQUEST_CHARS:
        return request
    room = MAX_REQUEST_CHARS - len(_REQUEST_CUT)
    return request[: room // 2] + _REQUEST_CUT + request[-(room - room // 2) :]


def _is_finished(answer: AssistantMessage) -> bool:
    if answer.tool_calls:
        return False
    return answer.stop_reason == "stop" or (answer.stop_reason is None and bool(answer.text.strip()))


def _with_gaps(units: Sequence[str], kept: set[int]) -> Iterator[str]:
    missing = False
    for place, unit in enumerate(units):
        if place in kept:
            if missing:
                yield _GAP
            yield unit
        missing = place not in kept and (missing or bool(unit))
    if missing:
        yield _GAP


def _entries(message: Message) -> Iterator[str]:
    match message:
        case UserMessage():
            yield from _entry("User", _said(message.content))
        case AssistantMessage():
            yield from _entry("Assistant", _said(message.content))
            for call in message.tool_calls:
                yield from _entry(f"Assistant calls {_one_line(call.name, _FACT_CHARS)}", _arguments(call.arguments))
        case ToolResultMessage():
            name = _one_line(message.tool_name or "tool", _FACT_CHARS)
            failed = " (failed)" if message.is_error else ""
            yield from _entry(f"Result of {name}{failed}", _said(message.content) or "(no output)")
        case CustomMessage():
            yield from _entry("Note", _said(message.content))
        case BashExecutionMessage() if not message.exclude_from_context:
            yield from _entry("User ran a command", message.text)


def _entry(label: str, text: str) -> Iterator[str]:
    if text:
        quoted = "\n".join(f"> {line}".rstrip() for line in _cut(text, MAX_ENTRY_CHARS).split("\n"))
        yield f"{label}:\n{quoted}"


def _said(content: Iterable[Block]) -> str:
    said: list[str] = []
    for block in content:
        match block:
            case TextBlock():
                said.append(block.text)
            case ThinkingBlock() | ToolCallBlock():
                pass
            case ImageBlock():
                said.append("[image]")
            case _:
                said.append("[content that is no text]")
    return "\n".join(said).strip()


def _arguments(arguments: JSON) -> str:
    try:
        return msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(arguments)


def _failure(message: ToolResultMessage) -> str:
    details = message.details if isinstance(message.details, Mapping) else {}
    stated = (("status", details.get("status")), ("exitCode", details.get("exitCode", details.get("exit_code"))))
    facts = [f"{key}={_one_line(str(value), _FACT_CHARS)}" for key, value in stated if isinstance(value, str | int)]
    name = _one_line(message.tool_name or "tool", _FACT_CHARS)
    stating = f" ({', '.join(facts)})" if facts else ""
    return f"{name}{stating}: {_one_line(message.text, MAX_FAILURE_CHARS) or 'failed'}"


def _one_line(text: str, room: int) -> str:
    return _cut(" ".join(text[:_READ_CHARS].split()), room)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - len(_CUT)] + _CUT


def _writes(call: ToolCallBlock) -> bool | None:
    """Tell whether a tool writes files or reads them; ``None`` where it is known for neither."""
    # The last part of names such as ``functions.read`` or ``mcp__files__write_file``.
    name = _NO_LETTERS.sub("", re.split(r"[.:/]|__", call.name)[-1].lower())
    if name in _EDITORS and isinstance(call.arguments, Mapping):
        return call.arguments.get("command") != "view"
    return True if name in _WRITERS else False if name in _READERS else None


def _paths(call: ToolCallBlock) -> Iterator[str]:
    arguments = call.arguments
    if isinstance(arguments, str):
        yield from _PATCHED.findall(arguments)
    if not isinstance(arguments, Mapping):
        return
    for key in _PATH_KEYS:
        value = arguments.get(key)
        for item in value if isinstance(value, list | tuple) else (value,):
            yield from _paths_in(item)
    for key in _PATCH_KEYS:
        patch = arguments.get(key)
        if isinstance(patch, str):
            yield from _PATCHED.findall(patch)


def _paths_in(item: JSON) -> Iterator[str]:
    if isinstance(item, Mapping):
        item = next((item[key] for key in _PATH_KEYS if isinstance(item.get(key), str)), None)
    if isinstance(item, str):
        yield item


def _is_path(name: str) -> bool:
    return bool(name.strip()) and len(name) <= _MAX_PATH_CHARS and name.isprintable()


def _as_line(name: str) -> str:
    """Return a path as a line that opens no heading, tag, quote or fence; ``./`` names the same file."""
    return f"./{name}" if name.lstrip().startswith(_LOOKS_LIKE_FORM) else name
