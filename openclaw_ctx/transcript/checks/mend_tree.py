"""
The entries of a damaged transcript as a tree that is whole: every id once, every parent before its children.

The way to the last entry, as opening the file gives it, keeps its order,
whatever else has to move or to be left out.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from openclaw_ctx.contract import JSON, EntryId
from openclaw_ctx.transcript.entry import Entry
from openclaw_ctx.transcript.header import iso_time
from openclaw_ctx.transcript.load import Loaded
from openclaw_ctx.transcript.mend_lines import GONE
from openclaw_ctx.transcript.tree import walk

from .mend_names import Names
from .mend_pairs import add_results, drop_results
from .mend_row import Account, Row

__all__ = ["mend_tree"]

LEAF: Final = "openclaw-ctx.leaf"
"""The custom type of an entry that says nothing but where the conversation goes on."""


def mend_tree(
    rows: Sequence[Row], loaded: Loaded, *, session_id: JSON, read: Callable[[Entry], JSON], account: Account
) -> Sequence[Row]:
    """
    Return the rows as they are to be written: in that order, the leaf last, with all that changes on their lines.

    Args:
        rows: Every entry in the order of the file.
        loaded: The file as it was opened.
        session_id: As the header will have it; who names it as a parent has none.
        read: Returns all that is on an entry's line.
        account: Takes what is done.
    """
    if not rows:
        return rows
    ordered = _ordered(rows, loaded, account)
    names = Names(rows=rows, session_id=session_id, account=account)
    names.give(ordered)
    missing = drop_results(_way(ordered), account)
    names.follow(ordered)
    _pass_over_dropped(ordered)
    added = add_results(_way(ordered), missing, read=read, fresh_id=names.fresh_id, account=account)
    kept = [one for row in ordered if not row.dropped for one in (row, *added.get(row, ()))]
    _keep_leaf(kept, ordered[-1], names.fresh_id, account)
    names.keep(kept)
    _part_batches(kept, account)
    for row in kept:
        _settle(row)
    return kept


def _ordered(rows: Sequence[Row], loaded: Loaded, account: Account) -> Sequence[Row]:
    """Return the rows in their order; but where a parent on the active branch stands behind its child, before that."""
    if loaded.is_chain:
        return rows
    by_entry = {id(row.entry): row for row in rows}
    way = [by_entry[id(entry)] for entry in walk(loaded.entries, loaded.entries[-1].id)]
    if all(parent.line < child.line for parent, child in pairwise(way)):
        return rows
    for parent, child in pairwise(way):
        child.parent = parent
    ordered: dict[Row, None] = {}
    for row in rows:
        waiting: list[Row] = []
        at: Row | None = row
        while at is not None and at not in ordered:
            waiting.append(at)
            at = at.parent
        for one in reversed(waiting):
            ordered[one] = None
        for moved in waiting[1:]:
            account.add("moved", moved.line)
    return list(ordered)


def _way(rows: Sequence[Row]) -> list[Row]:
    """Return what is kept of the way from the root to the last row."""
    way: list[Row] = []
    at: Row | None = rows[-1]
    while at is not None:
        if not at.dropped:
            way.append(at)
        at = at.parent
    way.reverse()
    return way


def _pass_over_dropped(rows: Sequence[Row]) -> None:
    """Give each row that followed one which is left out the nearest parent that is not."""
    for row in rows:
        if row.parent is not None and row.parent.dropped:
            row.skipped = row.parent
            row.parent = row.parent.parent


def _keep_leaf(kept: list[Row], last: Row, fresh_id: Callable[[], EntryId], account: Account) -> None:
    """Put an entry that says nothing to the end where what is left of the active branch does not end there."""
    leaf = last.parent if last.dropped else last
    if kept and kept[-1] is not leaf:
        account.add("leaf")
        changes: dict[str, JSON] = {"type": "custom", "timestamp": iso_time(), "customType": LEAF}
        kept.append(Row(line=last.line, id=fresh_id(), parent=leaf, changes=changes))


def _part_batches(kept: Sequence[Row], account: Account) -> None:
    """Take the count of lines that follow off those where it is wrong: what is behind them is another write's."""
    following: int | None = None
    for row in reversed(kept):
        more = 0 if row.entry is None else row.entry.more
        if more > 0 and following != more - 1:
            row.change("more", GONE)
            account.add("batch", row.line)
            more = 0
        following = max(0, more)


def _settle(row: Row) -> None:
    """Have the row's line say its id and parent, where it says others."""
    parent_id = None if row.parent is None else row.parent.id
    if row.id != row.told_id:
        row.change("id", row.id)
    if parent_id != row.told_parent or type(row.told_id) is not str:
        row.change("parentId", parent_id)
