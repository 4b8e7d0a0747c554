"""A session's entries as trees to be drawn: who follows whom, and which way goes straight on."""

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from openclaw_ctx.transcript import Entry, parents_of

__all__ = ["Branches", "Step", "plan_branches"]

_NOBODY: Final = -1


@attrs.frozen(kw_only=True)
class Step:
    """
    One line of the drawing.

    Attributes:
        at: The entry's place in the record; of several that are folded the first one's.
        depth: How many branches lie to the left of it.
        opens: A branch begins here.
        is_root: Nothing stands above it.
        folded: The places of entries that are told as one; empty for an entry of its own.
    """

    at: int
    depth: int
    opens: bool = False
    is_root: bool = False
    folded: Sequence[int] = ()


@attrs.frozen(kw_only=True)
class Branches:
    """
    Entries by their places in the record, which tell apart those that share an id.

    Attributes:
        parents: Of each entry, its parent's place; -1 for a root.
        children: Of each entry that has any, its children's places in the order of the
            drawing: the one that goes straight on is the last. Roots are those of -1.
        active: Places on the active branch.
    """

    parents: Sequence[int]
    children: dict[int, Sequence[int]]
    active: frozenset[int]

    def steps(self, *, is_told: Sequence[bool]) -> Iterator[Step]:
        """
        Yield the drawing, root first, without recursion: a chain may be a hundred thousand entries long.

        What goes straight on stays in its column: the active branch, and aside from
        it the way with the most entries. So no entry of n has more than log2(n) + 1
        branches to its left.

        Args:
            is_told: Of each entry, whether it is drawn in any case. Others are folded
                where several follow each other between forks; the first of a branch is none of them.
        """
        *aside, straight = self.children.get(_NOBODY, (_NOBODY,))
        waiting = [Step(at=straight, depth=0, is_root=True)] if straight != _NOBODY else []
        waiting += [Step(at=at, depth=1, opens=True, is_root=True) for at in reversed(aside)]
        while waiting:
            first = waiting.pop()
            yield first
            at, depth = first.at, first.depth
            run: list[int] = []
            while len(following := self.children.get(at, ())) == 1:
                at = following[0]
                if not is_told[at] and len(self.children.get(at, ())) == 1:
                    run.append(at)
                    continue
                yield from _folded(run, depth)
                run = []
                yield Step(at=at, depth=depth)
            if following:
                *aside, straight = following
                waiting.append(Step(at=straight, depth=depth))
                waiting += [Step(at=one, depth=depth + 1, opens=True) for one in reversed(aside)]


def plan_branches(entries: Sequence[Entry], active: Sequence[Entry]) -> Branches:
    """
    Return who follows whom, by the rule that a transcript is read by.

    A parent stands before its child, and only in a file whose lines were sorted
    behind it. An entry without a parent is a root. A ring is cut where the active
    branch begins, any other above its first entry.
    """
    places = {id(entry): at for at, entry in enumerate(entries)}
    path = [places[id(entry)] for entry in active]
    parents = [_NOBODY if place is None else place for place in parents_of(entries)]
    if path:
        parents[path[0]] = _NOBODY
    _cut_rings(parents)
    children: dict[int, list[int]] = {}
    for at, parent in enumerate(parents):
        children.setdefault(parent, []).append(at)
    on_path = frozenset(path)
    sizes = _sizes(parents, children)
    for siblings in children.values():
        if len(siblings) > 1:
            straight = max(siblings, key=lambda at: (at in on_path, sizes[at], at))
            siblings.remove(straight)
            siblings.append(straight)
    return Branches(parents=parents, children=dict(children), active=on_path)


def _folded(run: Sequence[int], depth: int) -> Iterator[Step]:
    if len(run) == 1:
        yield Step(at=run[0], depth=depth)
    elif run:
        yield Step(at=run[0], depth=depth, folded=run)


def _cut_rings(parents: list[int]) -> None:
    seen = bytearray(len(parents))
    for start in range(len(parents)):
        way, at = [], start
        while at != _NOBODY and not seen[at]:
            seen[at] = 1
            way.append(at)
            at = parents[at]
        if at != _NOBODY and seen[at] == 1:  # on this way
            parents[min(way[way.index(at) :])] = _NOBODY
        for one in way:
            seen[one] = 2


def _sizes(parents: Sequence[int], children: dict[int, list[int]]) -> list[int]:
    """Return how many entries each tree has that begins at an entry."""
    order = list(children.get(_NOBODY, ()))
    for at in order:
        order += children.get(at, ())
    sizes = [1] * len(parents)
    for at in reversed(order):
        if parents[at] != _NOBODY:
            sizes[parents[at]] += sizes[at]
    return sizes
