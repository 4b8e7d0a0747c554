"""Ids in a damaged transcript: each once, and whoever names one names the entry that was meant."""

import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from openclaw_ctx.contract import JSON, EntryId
from openclaw_ctx.transcript.mend_lines import GONE

from .findings import Findings
from .mend_row import Account, Row
from .verify_tree import Tree

__all__ = ["Names"]

_NAMING_KEYS: Final = {"label": "targetId", "branch_summary": "fromId"}
_KEPT: Final = "firstKeptEntryId"


@attrs.define(kw_only=True)
class Names:
    """
    Gives ids and parents, and resolves what entries name.

    Attributes:
        rows: Every entry in the order of the file.
        session_id: Who names it as a parent has none.
        account: Takes what is done.
    """

    rows: Sequence[Row]
    session_id: JSON
    account: Account
    _taken: set[str] = attrs.field(factory=set)
    _latest: dict[str, Row] = attrs.field(factory=dict)
    # Those that had one id, in their order, where there were several.
    _repeated: dict[str, list[Row]] = attrs.field(factory=dict)

    def fresh_id(self) -> EntryId:
        """Return an id that no entry has or had."""
        candidate = os.urandom(4).hex()
        while candidate in self._taken:
            candidate = str(uuid.uuid4())
        self._taken.add(candidate)
        return EntryId(candidate)

    def give(self, ordered: Sequence[Row]) -> None:
        """Give each row an id of its own, and a parent that stands before it; one that has a parent keeps that."""
        self._taken.update(row.entry.id for row in ordered if row.entry is not None and row.entry.id is not None)
        given: set[str] = set()
        last: Row | None = None
        for row in ordered:
            row.id = self._id_for(row, given)
            given.add(row.id)
            if row.parent is None:
                row.parent = self._parent_of(row, last)
            if type(row.name) is str:
                row.target = self._latest.get(row.name)
            if type(row.told_id) is str:
                self._note(row.told_id, row)
            last = row

    def follow(self, ordered: Iterable[Row]) -> None:
        """Leave out labels of nothing, and have the others, and summaries of branches, name what they are about."""
        naming = [
            row for row in ordered if row.entry is not None and row.entry.type in _NAMING_KEYS and not row.dropped
        ]
        for row in naming:
            row.target = row.target or (self._latest.get(row.name) if type(row.name) is str else None)
        labels = [row for row in naming if row.entry is not None and row.entry.type == "label"]
        # Once more where one was left out: there are labels of labels.
        while lost := [row for row in labels if not row.dropped and (row.target is None or row.target.dropped)]:
            for row in lost:
                row.dropped = True
                self.account.add("label", row.line)
        for row in naming:
            if (
                row.target is not None
                and not row.target.dropped
                and row.target.id != row.name
                and row.entry is not None
            ):
                row.change(_NAMING_KEYS[row.entry.type], row.target.id)

    def keep(self, kept: Sequence[Row]) -> None:
        """Have each boundary keep from an entry of its own branch on, or nothing."""
        boundaries = [row for row in kept if row.entry is not None and row.entry.is_boundary]
        if not boundaries:
            return
        positions = {row: position for position, row in enumerate(kept)}
        tree = Tree(findings=Findings())
        for row in kept:
            tree.add(row.line, row.id, None if row.parent is None else row.parent.id, follows_gap=False)
        for row in boundaries:
            self._keep_from(row, lambda of, one: tree.is_behind(positions[of], positions[one]))

    def _id_for(self, row: Row, given: set[str]) -> EntryId:
        told = row.told_id
        if type(told) is str and told and told not in given:
            return EntryId(told)
        self.account.add("id-repeated" if told in given else "id-given", row.line)
        # Opening the file gives one too, and others may have been told of it.
        opened = row.entry.id if row.entry is not None and type(told) is not str else None
        return self.fresh_id() if opened is None else opened

    def _parent_of(self, row: Row, last: Row | None) -> Row | None:
        told = row.told_parent
        if type(row.told_id) is not str:
            return last
        opened = None if row.entry is None else row.entry.parent_id
        if told == self.session_id == opened and told not in self._taken:
            row.told_parent = told = None  # the header is no entry: this one is a root, and may say so as it likes
        if told is None:
            return None
        found = self._latest.get(told) if type(told) is str else None
        if found is None:
            self.account.add("parent", row.line)
        return found or last

    def _note(self, told: str, row: Row) -> None:
        other = self._latest.get(told)
        if other is not None:
            self._repeated.setdefault(told, [other]).append(row)
        self._latest[told] = row

    def _keep_from(self, boundary: Row, is_behind: Callable[[Row, Row], bool]) -> None:
        entry, name = boundary.entry, boundary.name
        if entry is None or (name is None and entry.first_kept_index is None and entry.type == "reset"):
            return
        found = self._first_kept(boundary, is_behind)
        if found is boundary and name != boundary.told_id:
            self.account.add("boundary", boundary.line)
        elif type(name) is not str:
            self.account.add("index", boundary.line)
        if found.id != name:
            boundary.change(_KEPT, found.id)
            boundary.change("firstKeptEntryIndex", GONE)

    def _first_kept(self, boundary: Row, is_behind: Callable[[Row, Row], bool]) -> Row:
        """Return the entry that a boundary keeps first, or what followed it where it is left out; itself for none."""
        index = 0 if boundary.entry is None else boundary.entry.first_kept_index or 0
        if type(boundary.name) is str:
            candidates = () if boundary.name == boundary.told_id else self._called(boundary.name)
        elif 0 < index <= len(self.rows):
            # An old version's number, which counts the header as line 0, and stands for an id on opening the file.
            counted = self.rows[index - 1]
            candidates = self._called(counted.told_id) if type(counted.told_id) is str else (counted,)
        else:
            candidates = ()
        for candidate in reversed(candidates):
            if candidate.dropped:
                heir = _follower_of(candidate, boundary)
                if heir is not None:
                    return heir
            elif candidate is not boundary and is_behind(boundary, candidate):
                return candidate
        return boundary

    def _called(self, name: str) -> Sequence[Row]:
        latest = self._latest.get(name)
        return self._repeated.get(name) or (() if latest is None else (latest,))


def _follower_of(dropped: Row, leaf: Row) -> Row | None:
    """Return what follows an entry that is left out on the way to *leaf*, if it was on that way."""
    at: Row | None = leaf
    while at is not None:
        skipped = at.skipped
        while skipped is not None:
            if skipped is dropped:
                return at
            skipped = skipped.skipped
        at = at.parent
    return None
