"""
A store of sessions made of plain lists and dicts, after the pages that describe the format.

Nothing here is the package's: what it and a store agree on, two have found out.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from openclaw_ctx import CompactionSummaryMessage, Message

__all__ = [
    "BOUNDARIES",
    "Line",
    "Model",
    "carried_over",
    "check_rotation",
    "context",
    "expected",
    "keeps_what_is_elsewhere",
    "labels",
    "name",
    "record",
    "rename_in",
    "shown",
    "summarised",
    "way",
    "written_again",
]

Line = dict[str, Any]
"""``type``, ``id`` and ``parent``; ``message``, ``keeps``, ``target`` and ``label``, or ``name``, by its type."""

BOUNDARIES = {"compaction", "reset"}
_MESSAGES = {"message", "custom_message", "branch_summary"}


def way(lines: Sequence[Line], leaf: str | None) -> list[Line]:
    """Return the lines from a root to *leaf*."""
    by_id = {line["id"]: line for line in lines}
    path = []
    while leaf is not None:
        path.append(by_id[leaf])
        leaf = by_id[leaf]["parent"]
    return path[::-1]


def record(path: Iterable[Line]) -> list[Line]:
    """Return the messages."""
    return [line for line in path if line["type"] in _MESSAGES]


def _visible(line: Line) -> bool:
    message = line.get("message")
    if line["type"] == "message":
        return not getattr(message, "exclude_from_context", None)
    return line["type"] == "custom_message" or (line["type"] == "branch_summary" and bool(message.summary))


def context(path: Sequence[Line]) -> list[Line]:
    """Return what a model sees."""
    at = max((place for place, line in enumerate(path) if line["type"] in BOUNDARIES), default=None)
    if at is None:
        return [line for line in path if _visible(line)]
    ids = [line["id"] for line in path[:at]]
    first = ids.index(path[at]["keeps"]) if path[at]["keeps"] in ids else at
    opening = _opening(path[:at])
    kept = [line for line in path[first:at] if line not in opening]
    head = [path[at]] if path[at]["type"] == "compaction" else []
    if not head:
        kept = [line for line in kept if line["type"] == "message" and line["message"].role in {"user", "assistant"}]
    return [line for line in [*opening, *head, *kept, *path[at + 1 :]] if line in head or _visible(line)]


def _opening(path: Sequence[Line]) -> list[Line]:
    """Return the system messages that a branch begins with."""
    found = []
    for line in path:
        if line["type"] in _MESSAGES | BOUNDARIES:
            if line["type"] != "message" or line["message"].role != "system":
                break
            found.append(line)
    return found


def labels(lines: Iterable[Line]) -> dict[str, str]:
    """Return the last label of each entry that has one."""
    last = {line["target"]: line["label"] for line in lines if line["type"] == "label"}
    return {target: label for target, label in last.items() if label}


def name(lines: Iterable[Line]) -> str | None:
    """Return the last title."""
    return ([line["name"] for line in lines if line["type"] == "session_info"] or [None])[-1] or None


def shown(messages: Iterable[Message]) -> list[Any]:
    """Return messages as they compare: all of one, but of a summary not when it was written."""
    return [
        (message.entry_id, message.summary) if isinstance(message, CompactionSummaryMessage) else message
        for message in messages
    ]


def expected(lines: Iterable[Line]) -> list[Any]:
    """Return what :func:`shown` gives of the messages on *lines*."""
    return [
        (line["id"], line["summary"]) if "summary" in line else attrs.evolve(line["message"], entry_id=line["id"])
        for line in lines
    ]


@attrs.define(eq=False)
class Model:
    """
    A session.

    Attributes:
        lines: What is written.
        end: How its file ends: ``whole``, ``torn`` or ``unfinished``, where the newline alone is missing.
        damaged: A line is one that nobody reads.
        former: Transcripts that it was rotated from.
        leaf: Where its writer would go on, if somebody writes it.
        known: How many of the lines its writer has seen.
        tokens: What a list may say of the last prompt.
    """

    session_id: str = ""
    lines: list[Line] = attrs.field(factory=list)
    end: str = "whole"
    damaged: bool = False
    former: "list[Model]" = attrs.field(factory=list)
    parent: str | None = None
    tokens: set[int | None] = attrs.field(factory=lambda: {None})
    is_open: bool = False
    leaf: str | None = None
    known: int = 0
    disturbed: bool = False

    @property
    def last(self) -> str | None:
        """The leaf of whoever opens it."""
        return self.lines[-1]["id"] if self.lines else None

    @property
    def path(self) -> list[Line]:
        """The branch that was written last."""
        return way(self.lines, self.last)

    @property
    def live(self) -> list[Line]:
        """The branch that its writer is on."""
        return way(self.lines, self.leaf)

    def catch_up(self) -> None:
        """See what others wrote."""
        if self.disturbed:
            self.leaf = self.last
        self.known, self.disturbed = len(self.lines), False

    def write(self, line: Line) -> None:
        """Take a line that the writer appends."""
        self.lines.append({**line, "parent": self.leaf})
        self.leaf, self.known, self.end = line["id"], len(self.lines), "whole"

    def forked(self, leaf: str) -> list[Line]:
        """Return the lines of a fork that ends at *leaf*."""
        chain = way(self.lines, leaf)
        ids = {line["id"] for line in chain}
        given = [line for line in [*self.lines, chain[-1]] if line["type"] == "label"]
        last = {line["target"]: place for place, line in enumerate(given)}
        newest = [line for place, line in enumerate(given) if last[line["target"]] == place]
        extra = [line for line in newest if line["target"] in ids and line["id"] not in ids]
        return _chained([*chain[:-1], *extra, chain[-1]])


def _chained(lines: Sequence[Line]) -> list[Line]:
    parents = [None, *(line["id"] for line in lines)]
    return [{**line, "parent": parent} for line, parent in zip(lines, parents, strict=False)]


def summarised(path: Sequence[Line]) -> int:
    """Return how many messages the last summary of a branch stands for."""
    boundaries = [line for line in path if line["type"] in BOUNDARIES]
    if not boundaries or boundaries[-1]["type"] == "reset":
        return 0
    without = [line for line in path if line["type"] not in BOUNDARIES]
    return len(context(without)) - len(context(path)) + 1


def written_again(steps: Sequence[Line], message: Message) -> tuple[list[Line], dict[str, int]]:
    """
    Return the lines that replace *steps*, the first of which says *message*, and which of them each step became.

    An id among them is its line's number.
    """
    fresh: list[Line] = []
    renamed: dict[Any, Any] = {}
    said: list[tuple[Any, int]] = []
    compacted: list[tuple[Any, int]] = []
    for number, step in enumerate(steps):
        line = rename_in(step, renamed) | ({} if number else {"message": message})
        repeats: list[tuple[Any, int]] = []
        what: Any = None
        if line["type"] == "compaction":
            repeats, what = compacted, (line["keeps"], line["summary"])
        elif line["type"] == "message" and line["message"].role == "user":
            repeats, what = said, line["message"]
        elif line["type"] == "message":
            said.clear()
        same = [place for one, place in repeats if one == what]
        renamed[step["id"]] = same[0] if same else len(fresh)
        if not same:
            repeats.append((what, len(fresh)))
            fresh.append(line)
    return fresh, renamed


def rename_in(line: Line, renamed: dict[Any, Any]) -> Line:
    """Return a line whose names of entries are those that stand for them."""
    return line | {key: renamed.get(line[key], line[key]) for key in ("keeps", "target") if key in line}


def carried_over(old: Sequence[Line], raw: Sequence[dict[str, Any]]) -> list[Line]:
    """Return the lines of a successor: each an old one, with what may change about it."""
    by_id = {line["id"]: line for line in old}
    assert len({data["id"] for data in raw}) == len(raw)
    seen: set[str | None] = {None}
    lines = []
    for data in raw:
        assert data["parentId"] in seen
        seen.add(data["id"])
        line = by_id[data["id"]] | {"parent": data["parentId"]}
        assert line["type"] == data["type"]
        changed = {"keeps": data.get("firstKeptEntryId"), "target": data.get("targetId")}
        lines.append(line | {key: value for key, value in changed.items() if key in line})
    return lines


def check_rotation(old: Sequence[Line], path: Sequence[Line], new: Sequence[Line]) -> None:
    """Look whether a successor has what it should have of the branch *path*, and of all that was left."""
    repeated, said = set(), []
    before = context(path)
    shown_ids = {line["id"] for line in before}
    for line in path:
        if line["type"] != "message":
            continue
        if line["message"].role != "user":
            said.clear()
        elif line["id"] in shown_ids and line["message"] in said:
            repeated.add(line["id"])
        elif line["id"] in shown_ids:
            said.append(line["message"])
    wanted = [line["id"] for line in before if line["id"] not in repeated]
    found = context(way(new, new[-1]["id"]))
    ids = [line["id"] for line in found]
    summaries = [place for place, line in enumerate(before) if line["type"] == "compaction"]
    if summaries:
        # The reply before what is kept may stay, with its results.
        after, rest = summaries[0] + 1, len(ids) - len(wanted)
        roles = [line["message"].role for line in found[after : after + rest]]
        assert roles[:1] in ([], ["assistant"])
        assert {*roles[1:]} <= {"toolResult"}
        del ids[after : after + rest]
    assert ids == wanted
    on_path = {line["id"] for line in path}
    left = {line["id"] for line in old if line["id"] not in on_path and line["type"] not in {"label", "session_info"}}
    there = {line["id"] for line in new}
    assert left <= there
    assert repeated or labels(new) == {target: label for target, label in labels(old).items() if target in there}
    assert name(new) == name(old)


def keeps_what_is_elsewhere(lines: Sequence[Line]) -> bool:
    """Return whether a boundary names an entry that is not before it on its branch."""
    return any(
        line["type"] in BOUNDARIES
        and line["keeps"] is not None
        and line["keeps"] not in {one["id"] for one in way(lines, line["id"])}
        for line in lines
    )
