"""A conversation over all transcripts that it went through, as anybody can read it, with nothing but ``json``."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from .on_disk import parsed, unfinished

__all__ = ["Word", "differences", "files_of", "is_of", "read_chain"]

Word: TypeAlias = tuple[str, str, str]
"""Role, the tool calls that the message is about, and what it says."""

_SHOWN: Final = 60
_CUT: Final = re.compile(r"\[truncated: \d+ characters were cut\]\Z")


def files_of(path: Path) -> list[Path]:
    """Return *path* and the transcripts that it goes on from, the oldest first, as far as they are there."""
    files = [path]
    while (parent := _header(files[0]).get("parentSession")) and path.with_name(parent).is_file():
        files.insert(0, path.with_name(parent))
    return files


def read_chain(path: Path) -> tuple[list[Word], list[str]]:
    """
    Return all that was said in a conversation, in order, and what is wrong with its files.

    What a rotation left out is in the file before. What it took along is there
    too: all that the last compaction keeps, and perhaps the reply before that.
    A message is known by its opening words: one that was rewritten has another id.
    """
    said: list[Word] = []
    wrong: list[str] = []
    before: list[Mapping[str, Any]] = []
    for number, file in enumerate(files_of(path)):
        known = {_opening(word): word for word in said}
        branch = _branch(file)
        words = [_word_in(data) for data in branch if data["type"] == "message"]
        taken = [word for word in words if _opening(word) in known]
        said += [word for word in words if _opening(word) not in known]
        wrong += [f"file {number}: {problem}" for problem in _badly_taken(before, taken)]
        others = [word for word in taken if not is_of(word, known[_opening(word)])]
        wrong += [f"file {number} says otherwise: {_short(word)}" for word in others]
        if words[: len(taken)] != taken:
            wrong.append(f"file {number}: what it has taken along stands behind what is new in it")
        before = branch
    return said, wrong


def is_of(found: Word, wanted: Word) -> bool:
    """Return whether what is there is what was said, or a tool's result that was cut because it was long."""
    if found == wanted:
        return True
    is_cut = len(found[2]) < len(wanted[2]) and _CUT.search(found[2]) is not None
    return found[0] == "toolResult" and found[:2] == wanted[:2] and _opening(found) == _opening(wanted) and is_cut


def _opening(word: Word) -> tuple[str, str]:
    """Return what no two messages share: the role, and the first two words."""
    return word[0], " ".join(word[2].split(" ", 2)[:2])


def differences(wanted: Sequence[Word], found: Sequence[Word], *, more: int = 0) -> Mapping[str, list[str]]:
    """
    Return what is lost, there twice, or otherwise wrong; no two messages say the same.

    Args:
        wanted: What was acknowledged.
        found: What is there.
        more: So many behind the last one may be there too: written, and not acknowledged any more.
    """
    had, has = map(_opening, wanted), Counter(map(_opening, found))
    lost = [" ".join(name) for name in had if name not in has]
    twice = [" ".join(name) for name, times in has.items() if times > 1]
    wrong = []
    are_there = len(wanted) <= len(found) <= len(wanted) + more and all(map(is_of, found, wanted))
    if not lost and not twice and not are_there:
        wrong = [f"{[_short(word) for word in found]} for {[_short(word) for word in wanted]}"]
    return {"lost": lost, "duplicated": twice, "wrong": wrong}


def _badly_taken(before: Sequence[Mapping[str, Any]], taken: Sequence[Word]) -> list[str]:
    """Return what is wrong with what a rotation took along of the branch *before*."""
    compactions = [place for place, data in enumerate(before) if data["type"] == "compaction"]
    if not compactions:
        return ["it goes on from what was never summed up"] if before else []
    kept = before[compactions[-1]].get("firstKeptEntryId")
    start = next((place for place, data in enumerate(before) if data["id"] == kept), compactions[-1])
    summed, end = (
        [_word_in(data) for data in part if data["type"] == "message"] for part in (before[:start], before[start:])
    )
    more = len(taken) - len(end)
    if more < 0 or list(map(_opening, taken[more:])) != list(map(_opening, end)):
        return ["what it has taken along does not end with what was not summed up"]
    names = set(map(_opening, summed))
    roles = [word[0] for word in taken[:more] if _opening(word) in names]
    is_reply = roles[:1] in ([], ["assistant"]) and set(roles[1:]) <= {"toolResult"}
    return [] if is_reply and len(roles) == more else [f"of what was summed up it has {roles}, which is no reply"]


def _branch(path: Path) -> list[Mapping[str, Any]]:
    """Return the branch that ends at the last line, its root first."""
    *lines, rest = path.read_bytes().split(b"\n")
    found = [data for line in (*lines, rest) if (data := parsed(line)) is not None and data["type"] != "session"]
    entries = found[: len(found) - unfinished([data.get("more", 0) for data in found])]
    by_id = {data["id"]: data for data in entries}
    branch = []
    at = entries[-1]["id"] if entries else None
    while at is not None:
        branch.append(by_id[at])
        at = by_id[at]["parentId"]
    return branch[::-1]


def _word_in(data: Mapping[str, Any]) -> Word:
    message = data["message"]
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    calls = " ".join(block["id"] for block in blocks if block["type"] == "toolCall")
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    return message["role"], message.get("toolCallId") or calls, text


def _header(path: Path) -> Mapping[str, Any]:
    with path.open("rb") as file:
        return parsed(file.readline()) or {}


def _short(word: Word) -> str:
    return f"{word[0]} {word[2][:_SHOWN]!r}"
