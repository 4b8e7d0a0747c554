"""``openclaw-ctx sessions tree``: a session's branches, drawn."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, say, say_json
from openclaw_ctx.contract import JSON
from openclaw_ctx.transcript import Transcript

from .sources import open_source

__all__ = ["command"]

_WORDS: Final = 60
# What is never folded away with its neighbours.
_TOLD: Final = frozenset({"compaction", "reset", "branch_summary", "session_info"})
_DEEPEST: Final = 24
_LINES: Final = ("├─ ", "└─ ", "│  ", "● ", "○ ", "…")
_PLAIN_LINES: Final = ("|- ", "`- ", "|  ", "* ", "- ", "...")


@attrs.define(eq=False)
class _Node:
    """An entry, or a run of entries without anything to tell; ``ends`` are the ids of a run's first and last."""

    id: str
    type: str
    role: str
    text: str
    parent: str | None
    active: bool
    label: str | None
    children: list["_Node"] = attrs.field(factory=list)
    folded: int = 0
    said: int = 0


@click.command("tree")
@click.argument("name", metavar="KEY|FILE")
@click.option("--all", "everything", is_flag=True, help="Draw every entry; else what has no fork is one line.")
@json_option
@state_option
def command(name: str, everything: bool, as_json: bool, state_dir: Path | None) -> None:  # noqa: FBT001 -- click passes by name
    """
    Draw a session's branches; what a model is on is marked with a filled dot.

    \b
    Example:
      openclaw-ctx sessions tree kitchen

    Exit codes: 0 drawn, 1 there is no such session, 2 usage, 3 a file is no
    session that is known.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    with open_source(name, state_dir) as source:
        nodes = _nodes(source.transcript)
        leaf = source.transcript.leaf_id
    if as_json:
        say_json({"leaf": leaf, "entries": [_as_json(node) for node in nodes.values()]})
        return
    roots = _linked(nodes)
    if not roots:
        say("There is nothing in it yet.")
        return
    signs = _LINES if _can_draw() else _PLAIN_LINES
    for line in _drawn(roots, str(leaf), everything=everything, signs=signs):
        say(line)


def _nodes(transcript: Transcript) -> dict[str, _Node]:
    """Return every entry by id, in the order of the file; of an id that was used twice the last."""
    active = {entry.id for entry in transcript.active_branch()}
    labels: Mapping[Any, str] = transcript.labels
    nodes: dict[str, _Node] = {}
    for entry, data in transcript.entries():
        if entry.id is not None:
            role, text = _said(entry.type, data)
            nodes[entry.id] = _Node(
                id=entry.id,
                type=entry.type,
                role=role,
                text=text,
                parent=entry.parent_id,
                active=entry.id in active,
                label=labels.get(entry.id),
            )
    return nodes


def _said(kind: str, data: JSON) -> tuple[str, str]:
    """Return who speaks on a line, and its first words."""
    match kind:
        case "message":
            body = data.get("message")
            body = body if isinstance(body, dict) else {}
            return str(body.get("role") or "message"), _words(body.get("content"))
        case "compaction" | "branch_summary":
            return kind.replace("_", " "), _words(data.get("summary"))
        case "custom_message" | "custom":
            return kind.replace("_", " "), _words(data.get("customType"))
        case "label":
            return kind, _words(data.get("label"))
        case "session_info":
            return "title", _words(data.get("name"))
        case "model_change":
            return "model", _words(data.get("modelId"))
        case _:
            return kind.replace("_", " "), ""


def _words(content: JSON) -> str:
    if isinstance(content, list):
        texts = (block.get("text") for block in content if isinstance(block, dict))
        content = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    words = " ".join(content[: _WORDS * 4].split()) if isinstance(content, str) else ""
    return words if len(words) <= _WORDS else f"{words[: _WORDS - 3].rstrip()}..."


def _linked(nodes: Mapping[str, _Node]) -> list[_Node]:
    """Give each entry its children, and return the roots; a ring of parents is cut where it is met first."""
    roots = []
    for node in nodes.values():
        parent = nodes.get(node.parent or "")
        if parent is None or parent is node:
            roots.append(node)
        else:
            parent.children.append(node)
    reached: set[str] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        reached.add(node.id)
        waiting.extend(child for child in node.children if child.id not in reached)
    for node in nodes.values():
        if node.id not in reached:
            nodes[node.parent or ""].children.remove(node)
            roots.append(node)
            waiting = [node]
            while waiting:
                one = waiting.pop()
                reached.add(one.id)
                waiting.extend(child for child in one.children if child.id not in reached)
    return roots


def _drawn(roots: Sequence[_Node], leaf: str, *, everything: bool, signs: Sequence[str]) -> Iterator[str]:
    """
    Yield the lines of the drawing.

    A chain stays at one depth, so that only forks go to the right, and no
    recursion: a chain may be a hundred thousand entries long.
    """
    tee, corner, bar, filled, hollow, dots = signs
    waiting: list[tuple[_Node, str, str]] = [
        (root, "", "" if len(roots) == 1 else (corner if root is roots[-1] else tee)) for root in reversed(roots)
    ]
    while waiting:
        node, indent, branch = waiting.pop()
        below = indent + ("" if not branch else "   " if branch == corner else bar)
        first = True
        while True:
            run: list[_Node] = []
            while not everything and _is_plain(node, leaf) and len(node.children) == 1:
                run.append(node)
                node = node.children[0]
            if len(run) > 1:
                yield f"{indent}{branch if first else below[len(indent) :]}{_folded(run, filled, hollow, dots)}"
                first = False
            elif run:
                node = run[0]
            yield f"{indent}{branch if first else below[len(indent) :]}{_line(node, leaf, filled, hollow)}"
            first = False
            if len(node.children) != 1:
                break
            node = node.children[0]
        deep = below if len(below) < _DEEPEST * len(bar) else below[: _DEEPEST * len(bar)]
        children = sorted(node.children, key=lambda child: child.active)
        waiting.extend((child, deep, corner if child is children[-1] else tee) for child in reversed(children))


def _is_plain(node: _Node, leaf: str) -> bool:
    return node.type not in _TOLD and node.label is None and node.id != leaf


def _folded(run: Sequence[_Node], filled: str, hollow: str, dots: str) -> str:
    asked = sum(node.role == "user" for node in run)
    return f"{filled if run[0].active else hollow}{dots} {len(run):,} entries, {asked:,} of the user's"


def _line(node: _Node, leaf: str, filled: str, hollow: str) -> str:
    label = "" if node.label is None else f"  [{clean_text(node.label, limit=_WORDS)}]"
    here = "  <- here" if node.id == leaf else ""
    words = f": {clean_text(node.text)}" if node.text else ""
    dot = filled if node.active else hollow
    return f"{dot}{clean_text(node.role)} {clean_text(node.id, limit=40)}{words}{label}{here}"


def _can_draw() -> bool:
    try:
        "".join(_LINES).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _as_json(node: _Node) -> dict[str, Any]:
    return {
        "id": clean_text(node.id),
        "parent": None if node.parent is None else clean_text(node.parent),
        "type": clean_text(node.type),
        "role": clean_text(node.role),
        "active": node.active,
        "label": None if node.label is None else clean_text(node.label),
    }
