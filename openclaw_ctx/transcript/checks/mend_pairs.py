"""Calls and results on the active branch of a damaged transcript, made whole as a prompt would have them."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from openclaw_ctx.contract import JSON, EntryId, TextBlock, ToolResultMessage, message_to_wire
from openclaw_ctx.transcript.entry import Entry, milliseconds_of
from openclaw_ctx.transcript.header import iso_time
from openclaw_ctx.transcript.pairing import MISSING_RESULT

from .mend_row import Account, Row
from .verify_pairs import Reply, Result

__all__ = ["add_results", "drop_results"]

_NOBODY: Final = Reply()


def drop_results(way: Sequence[Row], account: Account) -> dict[Row, list[str]]:
    """
    Mark the results that answer nothing on *way* as dropped; return the calls that nothing answers, by their reply.

    A reply that was cut off waits for nothing, nor does the last one, whose
    tools may still be run.
    """
    missing: dict[Row, list[str]] = {}
    reply: Row | None = None
    asked, waiting = _NOBODY, Counter[str]()
    for row in way:
        if isinstance(row.said, Reply):
            unanswered = list(waiting.elements())
            if reply is not None and unanswered and not asked.cut_off:
                missing[reply] = unanswered
            reply, asked, waiting = row, row.said, Counter(row.said.calls)
        elif isinstance(row.said, Result):
            if waiting[row.said.call]:
                waiting[row.said.call] -= 1
                continue
            row.dropped = True
            account.add("duplicate" if row.said.call in asked.calls else "orphan", row.line)
    return missing


def add_results(
    way: Sequence[Row],
    missing: dict[Row, list[str]],
    *,
    read: Callable[[Entry], JSON],
    fresh_id: Callable[[], EntryId],
    account: Account,
) -> dict[Row, list[Row]]:
    """
    Return, by their reply, rows that say that a result is missing; the next row on *way* follows the last of them.

    Args:
        way: The active branch, nothing on it dropped.
        missing: The calls, by their reply.
        read: Returns all that is on an entry's line.
        fresh_id: Makes an id.
        account: Takes what is done.
    """
    added: dict[Row, list[Row]] = {}
    for row, following in pairwise(way):
        if row not in missing or row.entry is None:
            continue
        data, parent = read(row.entry), row
        for call in missing[row]:
            parent = _missing_result(call, data, parent, fresh_id())
            added.setdefault(row, []).append(parent)
            account.add("result-added", row.line)
        following.parent = parent
    return added


def _missing_result(call: str, data: JSON, parent: Row, entry_id: EntryId) -> Row:
    """Return a row for the result of a call that the line *data* holds; as old as that."""
    body, stamp = data["message"], data.get("timestamp")
    name = next((block["name"] for block in body["content"] if isinstance(block, dict) and block.get("id") == call), "")
    moment = body.get("timestamp")
    message = ToolResultMessage(
        tool_call_id=call,
        tool_name=name or "unknown",
        is_error=True,
        content=(TextBlock(text=MISSING_RESULT),),
        timestamp=moment if type(moment) in {int, float} else None,
    )
    line = {
        "timestamp": stamp if milliseconds_of(stamp) is not None else iso_time(),
        "message": message_to_wire(message),
    }
    return Row(line=parent.line, id=entry_id, parent=parent, changes={"type": "message", **line})
