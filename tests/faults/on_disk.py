"""Transcripts as anybody can read them, with nothing but ``json`` and the description of their form."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from .model import ANSWERS, Said, Sheet, text_of

__all__ = ["Found", "as_wire", "parsed", "read_file", "token_of", "unfinished"]


@attrs.define
class Found:
    """
    A file of lines.

    Attributes:
        header: Its first line; ``None``: it is no transcript.
        ids: Of each line behind the header.
        problems: What is wrong with it, each with the number of the line.
    """

    path: Path
    header: dict[str, Any] | None = None
    sheet: Sheet = attrs.field(factory=Sheet)
    ids: list[str] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)


def read_file(path: Path, *, as_is: bool = False) -> Found:
    """
    Return what a file holds, without what a killed writer left half done at its end.

    Args:
        path: The file, which is not changed.
        as_is: With that, as far as it can be parsed.
    """
    found = Found(path)
    *lines, rest = path.read_bytes().split(b"\n")
    if rest:
        found.problems += [f"line {len(lines) + 1}: no newline at its end"] if as_is else []
        lines += [rest] if as_is or parsed(rest) is not None else []
    places: dict[Any, int] = {}
    more: list[int] = []
    for number, line in enumerate(lines, 1):
        data = parsed(line)
        if data is None:
            found.problems.append(f"line {number}: no entry can be read there")
        elif number == 1 and data.get("type") == "session":
            found.header = data
        else:
            found.sheet.lines.append(_said(data, places, found, number))
            places[data["id"]] = len(found.ids)
            found.ids.append(data["id"])
            more.append(data.get("more", 0))
    if not as_is:
        whole = len(more) - unfinished(more)
        del found.sheet.lines[whole:], found.ids[whole:]
    found.sheet.reopen()
    return found


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return the header or entry on a line; ``None`` where it is neither."""
    try:
        data = json.loads(line)
    except ValueError:
        return None
    if not isinstance(data, dict) or not isinstance(data.get("id"), str):
        return None
    return data if data.get("type") == "session" or "parentId" in data else None


def unfinished(more: Sequence[int]) -> int:
    """Return how many of the last lines do not count: they say that more were to be written with them."""
    count = 1 if more and more[-1] else 0
    while 0 < count < len(more) and more[-count - 1] == more[-count] + 1:
        count += 1
    return count


def token_of(data: Mapping[str, Any]) -> str:
    """Return the token in a message, or in a line of another type."""
    for name in ("mark", "summary", "label", "name"):
        if isinstance(data.get(name), str):
            return str(data[name])
    for name in ("details", "data", "message"):
        if isinstance(data.get(name), Mapping):
            return token_of(data[name])
    return ""


def as_wire(line: Said, *, ids: Sequence[str]) -> dict[str, Any]:
    """Return what stands on a line, but for what makes it a line."""
    text = text_of(line.token, line.chars)
    match line.type:
        case "message":
            body: dict[str, Any] = {"role": line.role, "content": text, "mark": line.token}
            if line.role == "assistant":
                call = {"type": "toolCall", "id": f"call-{line.token}", "name": "run", "arguments": {"n": 1}}
                body |= {"content": [{"type": "text", "text": text}, call], "stopReason": "toolUse"}
            elif line.role == "toolResult":
                answered = line.token.partition(ANSWERS)[2]
                body |= {"toolCallId": f"call-{answered}", "toolName": "run", "isError": False}
            return {"message": body}
        case "custom_message":
            return {"customType": "note", "content": text, "display": True, "details": {"mark": line.token}}
        case "compaction":
            kept = {"firstKeptEntryId": ids[line.names]} if line.names is not None else {}
            return {"summary": line.token, "tokensBefore": line.chars, **kept}
        case "label":
            assert line.names is not None
            return {"targetId": ids[line.names], "label": line.token}
        case "session_info":
            return {"name": line.token}
        case _:
            return {"customType": "state", "data": {"mark": line.token}}


def _said(data: Mapping[str, Any], places: Mapping[Any, int], found: Found, number: int) -> Said:
    """Return a line as the model has it; a parent or target that stands nowhere before it is a problem."""
    parent, body = data.get("parentId"), data.get("message", data)
    names = data.get("firstKeptEntryId", data.get("targetId"))
    if parent is not None and parent not in places:
        found.problems.append(f"line {number}: its parent {parent!r} is not in the file")
    place = places.get(names)
    if place is not None and data.get("type") == "compaction" and found.sheet.lines[place].type == "compaction":
        place = None  # its own id, before a rewrite: nothing is kept
    token = token_of(data)
    text = _text(body.get("content"))
    if text != text_of(token, len(text)):
        found.problems.append(f"line {number}: the text of {token!r} is not what was said")
    return Said(
        type=str(data.get("type")),
        token=token,
        role=body.get("role", ""),
        chars=data["tokensBefore"] if data.get("type") == "compaction" else len(text),
        parent=places.get(parent),
        names=place,
    )


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content or ())
