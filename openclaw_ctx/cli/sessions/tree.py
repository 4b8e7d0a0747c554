"""``openclaw-ctx sessions tree``: a session's branches, drawn."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, say, say_json, warn
from openclaw_ctx.contract import JSON, EntryId
from openclaw_ctx.transcript import Entry, Transcript

from .branches import Branches, Step, plan_branches
from .screen import as_shown, can_show, cells, columns, cut, dots, print_lines, styled
from .sources import open_source

__all__ = ["command"]

_MOST_CHARS: Final = 80
_IN_A_FILE: Final = 100
_LONGEST_LABEL: Final = 30
_LONGEST_ID: Final = 16
_LONGEST_WORD: Final = 12
# What is never folded away with its neighbours.
_TOLD: Final = frozenset({"compaction", "reset", "branch_summary", "session_info"})
_SPEAKERS: Final = {
    "bashExecution": "command",
    "branch_summary": "summary",
    "custom_message": "custom",
    "model_change": "model",
    "session_info": "name",
    "toolResult": "result",
}


@attrs.frozen(kw_only=True)
class _Signs:
    filled: str
    hollow: str
    folded: str
    bar: str
    tee: str
    top: str


_SIGNS: Final = _Signs(filled="●", hollow="○", folded="⋮", bar="│ ", tee="├─", top="┌─")
_PLAIN_SIGNS: Final = _Signs(filled="*", hollow="o", folded=":", bar="| ", tee="|-", top=",-")


@attrs.frozen(kw_only=True)
class _Told:
    """What is told of a session's entries, by their places in the record."""

    entries: Sequence[Entry]
    speakers: Sequence[str]
    words: Sequence[str]
    labels: Mapping[EntryId, str]
    branches: Branches
    leaf: int | None
    warnings: Sequence[str]


@click.command("tree")
@click.argument("name", metavar="KEY|FILE")
@click.option("--all", "everything", is_flag=True, help="Draw every entry; else what has no fork is one line.")
@json_option
@state_option
def command(name: str, everything: bool, as_json: bool, state_dir: Path | None) -> None:  # noqa: FBT001 -- click passes by name
    """
    Draw a session's branches, the oldest entry first.

    The active branch goes straight down, with filled dots; what was left stands
    to the right of where it began, before what came instead.

    \b
    Example:
      openclaw-ctx sessions tree kitchen

    Exit codes: 0 drawn, 1 there is no such session, 2 usage, 3 a file is no
    session that is known.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    with open_source(name, state_dir) as source:
        told = _read(source.transcript, source.skipped)
    warn(told.warnings)
    if as_json:
        leaf = None if told.leaf is None else _id_of(told.entries[told.leaf])
        say_json({"leaf": leaf, "entries": [_as_json(told, at) for at in range(len(told.entries))]})
    elif told.entries:
        _draw(told, everything=everything)
    else:
        say("There is nothing in it yet.")


def _read(transcript: Transcript, skipped: Sequence[str]) -> _Told:
    active = transcript.active_branch()
    entries, speakers, words = [], [], []
    for entry, data in transcript.entries():
        speaker, said = _said(entry.type, data)
        entries.append(entry)
        speakers.append(speaker)
        words.append(said)
    branches = plan_branches(entries, active)
    return _Told(
        entries=entries,
        speakers=speakers,
        words=words,
        labels=transcript.labels,
        branches=branches,
        leaf=next((at for at in sorted(branches.active, reverse=True) if entries[at] is active[-1]), None),
        warnings=[*skipped, *transcript.take_warnings()],
    )


def _said(kind: str, data: JSON) -> tuple[str, str]:
    """Return who speaks on a line, or what it is, and its first words."""
    match kind:
        case "message":
            body = data.get("message")
            body = body if isinstance(body, dict) else {}
            return str(body.get("role") or kind), _said_in(body)
        case "compaction" | "branch_summary":
            return kind, _words(data.get("summary"))
        case "custom_message" | "custom":
            return kind, _words(data.get("customType"))
        case "label":
            return kind, _words(data.get("label")) or "taken away"
        case "session_info":
            return kind, _words(data.get("name")) or "taken away"
        case "model_change":
            return kind, _words(data.get("modelId"))
        case "thinking_level_change":
            return "thinking", _words(data.get("thinkingLevel"))
        case _:
            return kind, ""


def _said_in(body: Mapping[str, JSON]) -> str:
    """Return the first words of a message; where it says nothing, the tools that it calls."""
    content = body.get("content", body.get("command"))
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = (block.get("text") for block in blocks)
    said = _words(next((text for text in texts if isinstance(text, str) and text.strip()), content))
    tool = body.get("toolName")
    if isinstance(tool, str) and tool:
        return _words(f"{tool}: {said}" if said else tool)
    called = [str(block.get("name")) for block in blocks if block.get("type") == "toolCall"]
    return said if said or not called else _words(f"calls {', '.join(called)}")


def _words(text: JSON) -> str:
    """
    Return the beginning of a text, on one line.

    It ends between words, since the beginning of a secret might not be known as
    one. A script without spaces is cut anywhere.
    """
    if not isinstance(text, str):
        return ""
    begun = " ".join(text[: _MOST_CHARS * 4].split())
    if len(begun) <= _MOST_CHARS and len(text) <= _MOST_CHARS * 4:
        return begun
    begun = begun[:_MOST_CHARS]
    if begun[-1:].isascii():
        begun = begun.rpartition(" ")[0]
    return f"{begun}{dots()}"


def _draw(told: _Told, *, everything: bool) -> None:
    entries, leaf = told.entries, told.leaf
    is_told = [
        everything or at == leaf or entry.type in _TOLD or entry.id in told.labels for at, entry in enumerate(entries)
    ]
    signs = _SIGNS if can_show("".join(attrs.astuple(_SIGNS))) else _PLAIN_SIGNS
    room = columns() or _IN_A_FILE
    wide = max((len(_short_id(entry)) for entry, shown in zip(entries, is_told, strict=True) if shown), default=0)
    steps = told.branches.steps(is_told=is_told)
    print_lines(_line(told, step, signs, is_first=not n, wide=wide, room=room) for n, step in enumerate(steps))


def _line(told: _Told, step: Step, signs: _Signs, *, is_first: bool, wide: int, room: int) -> str:
    before = signs.bar * (step.depth - step.opens) + (signs.top if is_first else signs.tee) * step.opens
    at, active = step.at, step.at in told.branches.active
    if step.folded:
        asked = sum(told.speakers[one] == "user" for one in step.folded)
        text = f"{signs.folded} {len(step.folded):,} entries, {asked:,} of the user's"
        return f"{before}{styled(text, dim=True)}"
    entry = told.entries[at]
    dot = signs.filled if active else signs.hollow
    speaker = _name_of(told.speakers[at])
    label = None if entry.id is None else told.labels.get(entry.id)
    marks = [] if label is None else [f"[{cut(as_shown(clean_text(label)), _LONGEST_LABEL)}]"]
    marks += ["(here)"] if at == told.leaf else []
    marked = "".join(f"{mark} " for mark in marks)
    shown_id = f"{_short_id(entry):<{wide}}"
    left = room - sum(map(cells, (before, dot, shown_id, speaker, marked))) - len("   ")
    words = cut(as_shown(clean_text(told.words[at])), left) if told.words[at] and left > len(dots()) else ""
    if active:
        dot, shown_id, marked = styled(dot, fg="green"), styled(shown_id, fg="yellow"), styled(marked, fg="cyan")
        return f"{before}{dot} {shown_id} {speaker} {marked}{words}".rstrip()
    return f"{before}{dot} {styled(f'{shown_id} {speaker}', dim=True)} {styled(marked, fg='cyan')}{words}".rstrip()


@functools.cache
def _name_of(speaker: str) -> str:
    name = clean_text(_SPEAKERS.get(speaker, speaker.replace("_", " ")))
    return f"{cut(as_shown(name), _LONGEST_WORD):<10}"


def _short_id(entry: Entry) -> str:
    shown = _id_of(entry) or "-"
    return shown if len(shown) <= _LONGEST_ID else cut(as_shown(shown), _LONGEST_ID)


def _id_of(entry: Entry) -> str | None:
    return None if entry.id is None else clean_text(entry.id)


def _as_json(told: _Told, at: int) -> dict[str, Any]:
    entry = told.entries[at]
    label = None if entry.id is None else told.labels.get(entry.id)
    return {
        "id": _id_of(entry),
        "parent": None if entry.parent_id is None else clean_text(entry.parent_id),
        "type": _cleaned(entry.type),
        "role": _cleaned(told.speakers[at]) if entry.type == "message" else None,
        "active": at in told.branches.active,
        "label": None if label is None else clean_text(label),
    }


_cleaned = functools.cache(clean_text)
