"""
The entries of a file as a tree of numbers: who is whose parent, and who stands before whom.

An entry is its position in the file here. Two numbers and an id an entry are
what checking a long file costs in memory.
"""

from array import array

import attrs

from .findings import Findings

__all__ = ["ROOT", "Tree"]

ROOT = -1
"""The parent of what has none."""


@attrs.define(kw_only=True)
class Tree:
    """
    Takes entries in the order of the file, and knows the way from each to its root.

    Where ids and parents are damaged, the way is the one that opening the file gives.

    Attributes:
        by_id: The last entry that has an id.
        lines: By position, the line that the entry is on.
    """

    findings: Findings
    by_id: dict[str, int] = attrs.field(factory=dict)
    lines: "array[int]" = attrs.field(factory=lambda: array("q"))
    _parents: "array[int]" = attrs.field(factory=lambda: array("q"))
    # By position, where the unbroken run of parents and children that it is in begins: ways are walked by runs.
    _runs: "array[int]" = attrs.field(factory=lambda: array("q"))
    # Entries whose parent was not known when they were read: position, parent's id, and what follows if there is none.
    _waiting: list[tuple[int, str, int]] = attrs.field(factory=list)

    def add(self, line: int, entry_id: str | None, parent_id: str | None, *, follows_gap: bool) -> int:
        """Take the next entry and return its position. One without an id follows the one before it."""
        position = len(self.lines)
        if entry_id is None:
            parent = position - 1
        elif parent_id is None:
            parent = ROOT
        else:
            parent = self.by_id.get(parent_id, ROOT)
            if parent == ROOT:
                # An unreadable line was the parent, perhaps: then this follows what stands before that line.
                self._waiting.append((position, parent_id, position - 1 if follows_gap else ROOT))
        self._runs.append(self._runs[parent] if parent == position - 1 and position else position)
        self._parents.append(parent)
        self.lines.append(line)
        if entry_id is not None:
            self.by_id[entry_id] = position
        return position

    def close(self, session_id: str | None, *, checked: bool) -> None:
        """Find the parents that were not known yet, and say what is wrong with them where *checked*."""
        behind: list[int] = []
        add = self.findings.add if checked else _say_nothing
        for position, parent_id, otherwise in self._waiting:
            line, parent = self.lines[position], self.by_id.get(parent_id, ROOT)
            if parent == position:
                self._parents[position] = position
                add("parent-self", line)
            elif parent != ROOT:
                self._parents[position] = parent
                behind.append(position)
                add("parent-behind", line, other=self.lines[parent])
            else:
                self._parents[position] = otherwise
                add("parent-is-header" if parent_id == session_id else "parent-missing", line)
        for members in self._rings(behind):
            add("parent-ring", self.lines[min(members)], count=len(members))

    def way(self, leaf: int) -> list[int]:
        """Return the branch that ends at *leaf*, root first; a ring ends it."""
        way: list[int] = []
        seen = bytearray(len(self.lines))
        at = leaf
        while at != ROOT and not seen[at]:
            seen[at] = 1
            way.append(at)
            at = self._parents[at]
        way.reverse()
        return way

    def leaves(self) -> int:
        """Return how many entries are nobody's parent."""
        is_parent = bytearray(len(self.lines))
        for parent in self._parents:
            if parent != ROOT:
                is_parent[parent] = 1
        return is_parent.count(0)

    def is_behind(self, position: int, ancestor: int) -> bool:
        """Return whether the way from *position* to its root passes *ancestor*."""
        seen: set[int] = set()
        at = self._parents[position]
        while at != ROOT:
            start = self._runs[at]
            if start <= ancestor <= at:
                return True
            if start in seen:
                break
            seen.add(start)
            at = self._parents[start]
        return False

    def _rings(self, behind: list[int]) -> list[list[int]]:
        """Return the rings of parents; each has a child that stands before its parent, one of *behind*."""
        rings: list[list[int]] = []
        done = bytearray(len(self.lines))
        for start in behind:
            way: dict[int, None] = {}
            at = start
            while at != ROOT and not done[at]:
                done[at] = 1
                way[at] = None
                at = self._parents[at]
            if at in way and self._parents[at] != at:
                members = list(way)
                rings.append(members[members.index(at) :])
        return rings


def _say_nothing(_code: str, _line: int | None = None, **_facts: int) -> None:
    """Take a finding and leave it: a version without ids has nothing to check."""
