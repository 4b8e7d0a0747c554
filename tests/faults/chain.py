"""A conversation over all transcripts that it went through, as anybody can read it, with nothing but ``json``."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from .on_disk import parsed, unfinished

__all__ = ["Word", "differences", "files_of", "read_chain"]

Word: TypeAlias = tuple[str, str, str]
"""Role, the tool calls that the message is about, and what it says."""

_SHOWN: Final = 60


def files_of(path: Path) -> list[Path]:
    """Return *path* and the transcripts that it goes on from, the oldest first, as far as they are there."""
    files = [path]
    while (parent := _header(files[0]).get("parentSession")) and path.with_name(parent).is_file():
        files.insert(0, path.with_name(parent))
    return files


def read_chain(path: Path) -> tuple[list[Word], list[str]]:
    """
    Return all that was said in a conversation, in order, and what is wrong with its files.

    What a rotation left out is in the file before. What it took along has the
    same ids there: all that the last compaction keeps, and perhaps the reply before that.
    """
    said: dict[str, Word] = {}
    wrong: list[str] = []
    before: list[Mapping[str, Any]] = []
    for number, file in enumerate(files_of(path)):
        branch = _branch(file)
        words = {data["id"]: _word(data["message"]) for data in branch if data["type"] == "message"}
        taken = [entry_id for entry_id in words if entry_id in said]
        wrong += [f"file {number}: {problem}" for problem in _badly_taken(before, taken)]
        wrong += [f"file {number} says otherwise: {_short(words[each])}" for each in taken if words[each] != said[each]]
        if list(words)[: len(taken)] != taken:
            wrong.append(f"file {number}: what it has taken along stands behind what is new in it")
        said |= words
        before = branch
    return list(said.values()), wrong


def differences(wanted: Sequence[Word], found: Sequence[Word], *, more: int = 0) -> Mapping[str, list[str]]:
    """
    Return what is lost, there twice, or otherwise wrong; no two messages say the same.

    Args:
        wanted: What was acknowledged.
        found: What is there.
        more: So many behind the last one may be there too: written, and not acknowledged any more.
    """
    had, has = Counter(wanted), Counter(found)
    lost = [_short(word) for word in had - has]
    twice = [_short(word) for word, times in has.items() if times > 1]
    wrong = []
    if not lost and not twice and (found[: len(wanted)] != wanted or len(found) > len(wanted) + more):
        wrong = [f"{[_short(word) for word in found]} for {[_short(word) for word in wanted]}"]
    return {"lost": lost, "duplicated": twice, "wrong": wrong}


def _badly_taken(before: Sequence[Mapping[str, Any]], taken: Sequence[str]) -> list[str]:
    """Return what is wrong with what a rotation took along of the branch *before*."""
    compactions = [place for place, data in enumerate(before) if data["type"] == "compaction"]
    if not compactions:
        return ["it goes on from what was never summed up"] if before else []
    kept = before[compactions[-1]].get("firstKeptEntryId")
    start = next((place for place, data in enumerate(before) if data["id"] == kept), compactions[-1])
    summed, end = ([data for data in part if data["type"] == "message"] for part in (before[:start], before[start:]))
    more = len(taken) - len(end)
    if more < 0 or list(taken[more:]) != [data["id"] for data in end]:
        return ["what it has taken along does not end with what was not summed up"]
    roles = [data["message"]["role"] for data in summed if data["id"] in taken]
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


def _word(message: Mapping[str, Any]) -> Word:
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
