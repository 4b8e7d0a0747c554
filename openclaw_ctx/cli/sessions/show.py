"""``openclaw-ctx sessions show``: the end of a conversation, as a person reads it."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, say, say_json
from openclaw_ctx.contract import (
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
    message_to_wire,
)
from openclaw_ctx.transcript import Transcript
from openclaw_ctx.transcript.export import conversation, plain_json

from .screen import can_show, columns, cut, dots, print_lines, styled, wrapped
from .sources import OWN_FORMAT, Source, open_source
from .times import time_in, time_of

__all__ = ["command"]

_WIDEST: Final = 100
_LONGEST_CALL: Final = 160
_RESULT_LINES: Final = 6
_LONGEST_TEXT: Final = 1 << 20
_TAB: Final = 4
_LABELS: Final = len("session id: ")
_COLOURS: Final = {"user": "cyan", "assistant": "green", "toolResult": "yellow", "compactionSummary": "magenta"}
_HEADS: Final = {
    "bashExecution": "command",
    "branchSummary": "summary of another branch",
    "compactionSummary": "summary of what came before",
}


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
        end = None if everything else _last(transcript, last)
        messages = conversation(transcript) if end is None else end
        facts = _facts(source)
        if as_json:
            say_json({**facts, "messages": [plain_json(message_to_wire(message)) for message in messages]})
            return
        _print_facts(facts, _amount(transcript, end))
        print_lines(line for message in messages for line in _printed(message))


def _last(transcript: Transcript, count: int) -> Sequence[Message]:
    # What lies before the context is read only where the context does not suffice.
    history = transcript.history
    return history[-count:] if len(history) >= count else tuple(conversation(transcript, last=count))


def _facts(source: Source) -> dict[str, Any]:
    transcript = source.transcript
    return {
        "session": clean_text(str(source.key or source.name)),
        "session_id": clean_text(transcript.session_id),
        "format": clean_text(source.format),
        "name": clean_text(transcript.tally().name or "") or None,
        "started_at": time_in(transcript.header.get("timestamp")),
        "path": clean_text(str(transcript.path if source.key else source.name)),
        "skipped": [clean_text(line) for line in source.left_out()],
    }


def _amount(transcript: Transcript, end: Sequence[Message] | None) -> str:
    tally = transcript.tally()
    shown = None if end is None else sum(not isinstance(message, CompactionSummaryMessage) for message in end)
    if shown is None or (tally.whole and shown == tally.messages):
        return f"{tally.messages:,}"
    return f"the last {shown:,} of {tally.messages:,}" if tally.whole else f"the last {shown:,}; --all prints all"


def _print_facts(facts: dict[str, Any], amount: str) -> None:
    shown = [
        ("session", facts["session"]),
        ("name", facts["name"]),
        ("session id", facts["session_id"]),
        ("started", facts["started_at"]),
        ("file", facts["path"] if facts["path"] != facts["session"] else None),
        ("format", facts["format"] if facts["format"] != OWN_FORMAT else None),
        ("messages", amount),
        *(("skipped", line) for line in facts["skipped"]),
    ]
    for label, value in shown:
        if value is not None:
            say(styled(f"{label + ':':<{_LABELS}}", dim=True) + value)


def _printed(message: Message) -> Iterator[str]:
    role = str(getattr(message, "role", ""))
    at = "" if message.timestamp is None else styled(f"  {time_of(message.timestamp)}", dim=True)
    rule = "──" if can_show("─") else "--"
    yield ""
    yield styled(f"{rule} {_speaker(message)}", fg=_COLOURS.get(role), bold=True) + at
    yield from _body(message)


def _speaker(message: Message) -> str:
    if isinstance(message, ToolResultMessage):
        return f"{clean_text(message.tool_name or 'tool')} result{' (error)' if message.is_error else ''}"
    if isinstance(message, CustomMessage):
        return clean_text(message.custom_type or "custom")
    if isinstance(message, UnknownMessage):
        role = message.data.get("role") if isinstance(message.data, dict) else None
        return clean_text(role) if isinstance(role, str) and role else "unknown"
    return _HEADS.get(message.role, message.role)


def _body(message: Message) -> Iterator[str]:
    if isinstance(message, BashExecutionMessage):
        yield from _begun(f"$ {message.command}")
        yield from _begun(message.output)
    elif isinstance(message, CompactionSummaryMessage | BranchSummaryMessage):
        yield from _whole(message.summary)
    elif isinstance(message, UnknownMessage):
        yield _short(plain_json(message.data))
    else:
        for block in message.content:
            yield from _block(block, short=isinstance(message, ToolResultMessage))
    if isinstance(message, AssistantMessage) and message.error_message:
        yield from _whole(f"! {message.error_message}")


def _block(block: Block, *, short: bool) -> Iterator[str]:
    if isinstance(block, TextBlock):
        yield from _begun(block.text) if short else _whole(block.text)
    elif isinstance(block, ToolCallBlock):
        arrow = "→" if can_show("→") else "->"
        called = f"  {arrow} {clean_text(block.name)} {_short(plain_json(block.arguments)).lstrip()}".rstrip()
        yield cut(called, columns() or _LONGEST_CALL)
    elif isinstance(block, ThinkingBlock):
        yield styled(f"  [thinking, {len(block.thinking):,} characters]", dim=True)
    elif isinstance(block, ImageBlock):
        yield styled(f"  [{clean_text(block.mime_type, limit=40)}]", dim=True)
    else:
        yield _short(plain_json(block.data))


def _whole(text: str) -> Iterator[str]:
    for line in _lines(text):
        for piece in wrapped(clean_text(line, limit=_LONGEST_TEXT), _width()):
            yield f"  {piece}".rstrip()


def _begun(text: str) -> Iterator[str]:
    lines = _lines(text)
    for line in lines[:_RESULT_LINES]:
        yield f"  {cut(clean_text(line), _width())}".rstrip()
    rest = len(lines) - _RESULT_LINES
    if rest > 0:
        yield styled(f"  {dots()} {rest:,} more line{'' if rest == 1 else 's'}", dim=True)


def _short(data: Any) -> str:
    return f"  {clean_text(json.dumps(data, ensure_ascii=False), limit=_LONGEST_CALL)}"


def _lines(text: str) -> Sequence[str]:
    """Return the lines of a text without the blank ones around it; tabs as spaces, which clean text has none of."""
    stripped = text.rstrip().lstrip("\r\n")
    return [line.removesuffix("\r").expandtabs(_TAB) for line in stripped.split("\n")] if stripped else []


def _width() -> int:
    return min(_WIDEST, columns() or _WIDEST) - 2
