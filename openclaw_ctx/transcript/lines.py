"""Messages as the lines of a transcript."""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from openclaw_ctx.contract import (
    JSON,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    EntryId,
    Message,
    UnknownMessage,
    message_to_wire,
)

from .entry import LINE_KEYS, message_of
from .header import iso_time

__all__ = ["Body", "body_of", "lines_of"]

# What stands on a line of its own rather than in a ``message``, and the line's type.
_OWN_LINES: Final = {CustomMessage: "custom_message", BranchSummaryMessage: "branch_summary"}
_FIRST_ID: Final = 1 << 28  # eight digits, as every id has


@attrs.frozen(kw_only=True)
class Body:
    """
    What of a line is its message's.

    Attributes:
        type: The line's.
        data: All of the line but type, id, parent and time.
        timestamp: The line's time where that is the message's too, else ``None``: whenever it is written.
    """

    type: str
    data: dict[str, JSON]
    timestamp: str | None = None

    def message(self, given: Message, entry_id: EntryId | None) -> Message:
        """Return *given*, of which this was made, as it will be read from the line."""
        if self.type == "message" and not isinstance(given, UnknownMessage):
            return attrs.evolve(given, entry_id=entry_id)
        return message_of({"type": self.type, "timestamp": self.timestamp, **self.data}, entry_id)


def body_of(message: Message) -> Body:
    """
    Return what stands on the line of a message.

    Raises:
        TypeError: It is the summary of a compaction, which has a line of its own making.
    """
    if isinstance(message, CompactionSummaryMessage):
        problem = "a compaction is appended by append_compaction, which knows what it keeps"
        raise TypeError(problem)
    wire = message_to_wire(message)
    kind = _OWN_LINES.get(type(message))
    if isinstance(message, UnknownMessage) or kind is None or LINE_KEYS & message.extra.keys():
        return Body(type="message", data={"message": wire})
    del wire["role"]
    return Body(type=kind, timestamp=iso_time(wire.pop("timestamp", None)), data=wire)


def lines_of(messages: Iterable[Message]) -> Iterator[dict[str, JSON]]:
    """
    Yield a line for each message, each behind the one before; an id that was used already gets another.

    The same messages give the same ids.
    """
    parent: EntryId | None = None
    taken: set[str] = set()
    fresh = _FIRST_ID
    for message in messages:
        entry_id = message.entry_id
        while not entry_id or entry_id in taken:
            entry_id, fresh = EntryId(f"{fresh:08x}"), fresh + 1
        taken.add(entry_id)
        body = body_of(message)
        stamp = body.timestamp or iso_time(getattr(message, "timestamp", None))
        yield {"type": body.type, "id": entry_id, "parentId": parent, "timestamp": stamp, **body.data}
        parent = entry_id
