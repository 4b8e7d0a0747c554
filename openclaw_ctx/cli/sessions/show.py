"""``openclaw-ctx sessions show``: the end of a conversation, as a person reads it."""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, say, say_json
from openclaw_ctx.contract import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    message_to_wire,
)
from openclaw_ctx.transcript import Transcript

from .sources import Source, open_source
from .times import as_time

__all__ = ["command", "said_by"]

_WIDEST: Final = 100
_LONGEST_CALL: Final = 160
_RESULT_LINES: Final = 6
_LONGEST_TEXT: Final = 1 << 20
_COLOURS: Final = {"user": "cyan", "assistant": "green", "toolResult": "yellow", "compactionSummary": "magenta"}
_HEADS: Final = {"compactionSummary": "summary of what came before", "branchSummary": "summary of another branch"}


@click.command("show")
@click.argument("name", metavar="KEY|FILE")
@click.option("-n", "--last", type=click.IntRange(min=1), default=20, show_default=True, help="Messages to print.")
@click.option("--all", "everything", is_flag=True, help="Print all of them, summarised ones too.")
@json_option
@state_option
def command(name: str, last: int, everything: bool, as_json: bool, state_dir: Path | None) -> None:  # noqa: FBT001 -- click passes by name
    """
    Print the end of a conversation, or all of it, with tool calls and results shortened.

    \b
    Examples:
      openclaw-ctx sessions show kitchen -n 5
      openclaw-ctx sessions show rollout.jsonl --all | less

    Exit codes: 0 printed, 1 there is no such session, 2 usage, 3 a file is no
    session that is known.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    with open_source(name, state_dir) as source:
        transcript = source.transcript
        messages = transcript.record() if everything else _last(transcript, last)
        if as_json:
            said = [json.loads(json.dumps(message_to_wire(message), default=str)) for message in messages]
            say_json({**_facts(source), "messages": said})
            return
        for label, value in _facts(source).items():
            if value and label != "skipped":
                say(f"{label.replace('_', ' ')}: {value}")
        for line in source.skipped:
            say(f"skipped: {clean_text(line)}")
        for message in messages:
            for line in _printed(message):
                say(line)


def said_by(message: Message) -> str:
    """Return who speaks, in a word or a few."""
    role = str(getattr(message, "role", "unknown"))
    if isinstance(message, ToolResultMessage):
        return f"{clean_text(message.tool_name or 'tool')} result{' (error)' if message.is_error else ''}"
    return _HEADS.get(role, clean_text(role))


def _last(transcript: Transcript, count: int) -> Sequence[Message]:
    # What lies before the context is read only where the context does not suffice.
    history = transcript.history
    return history[-count:] if len(history) >= count else transcript.record()[-count:]


def _facts(source: Source) -> dict[str, Any]:
    transcript = source.transcript
    return {
        "session": clean_text(str(source.key or source.name)),
        "session_id": clean_text(transcript.session_id),
        "format": source.format,
        "name": clean_text(transcript.tally().name or "") or None,
        "begun": clean_text(str(transcript.header.get("timestamp") or "")),
        "file": clean_text(str(transcript.path if source.key else source.name)),
        "skipped": [clean_text(line) for line in source.skipped],
    }


def _printed(message: Message) -> Iterator[str]:
    stamp = getattr(message, "timestamp", None)
    at = "" if stamp is None else f"  {_time_of(stamp)}"
    colour = _COLOURS.get(str(getattr(message, "role", "")))
    yield ""
    yield _styled(f"── {said_by(message)}{at}", colour)
    lines = list(_body(message))
    if isinstance(message, ToolResultMessage | BashExecutionMessage) and len(lines) > _RESULT_LINES:
        rest = len(lines) - _RESULT_LINES
        lines = [*lines[:_RESULT_LINES], f"  … {rest:,} more lines"]
    yield from lines


def _body(message: Message) -> Iterator[str]:
    if isinstance(message, BashExecutionMessage):
        yield f"  $ {clean_text(message.command)}"
        yield from _wrapped(message.output)
        return
    if isinstance(message, CompactionSummaryMessage | BranchSummaryMessage):
        yield from _wrapped(message.summary)
        return
    yield from _wrapped(message.text)
    if isinstance(message, CustomMessage) and message.custom_type:
        yield f"  [{clean_text(message.custom_type)}]"
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            arguments = json.dumps(call.arguments, default=str, ensure_ascii=False)
            yield f"  → {clean_text(call.name)} {clean_text(arguments, limit=_LONGEST_CALL)}"
        if message.error_message:
            yield f"  ! {clean_text(message.error_message)}"


def _wrapped(text: str) -> Iterator[str]:
    import textwrap  # noqa: PLC0415 -- needed where something is printed

    width = min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns) - 2
    for line in text.split("\n"):
        cleaned = clean_text(line, limit=_LONGEST_TEXT)
        for piece in textwrap.wrap(cleaned, width, drop_whitespace=False, replace_whitespace=False) or [""]:
            yield f"  {piece}".rstrip()


def _time_of(milliseconds: float) -> str:
    try:
        return as_time(datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (OverflowError, ValueError, OSError):
        return "at no time that a calendar has"


def _styled(text: str, colour: str | None) -> str:
    return click.style(text, fg=colour, bold=True) if sys.stdout.isatty() else text
