"""Messages as the lines of a transcript, and lines of one transcript as those of another."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

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

from .entry import LINE_KEYS, Entry, encode_json, message_of
from .header import iso_time
from .mend_lines import GONE, mend_line, read_line

__all__ = ["Body", "Line", "body_of", "encoded", "lines_as_read", "lines_of"]

Line: TypeAlias = Mapping[str, JSON] | bytes
"""A line of a transcript, encoded or not yet."""

# What stands on a line of its own rather than in a ``message``, and the line's type.
_OWN_LINES: Final = {CustomMessage: "custom_message", BranchSummaryMessage: "branch_summary"}
_FIRST_ID: Final = 1 << 28  # eight digits, as every id has
_OLD_ROLE: Final = "hookMessage"  # the name of a program's message before version 3
_SPACE: Final = b"\r\n\t "


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


def encoded(line: Line) -> bytes:
    """
    Return a line as it is written to a new transcript; one that is encoded stays as it is.

    How many lines were once written with a line says nothing there, where the
    last ones may have been left out.
    """
    if isinstance(line, bytes):
        return line
    return encode_json({name: value for name, value in line.items() if name != "more"})


def lines_as_read(entries: Sequence[Entry], lines: Iterable[bytes]) -> Iterator[bytes]:
    """
    Yield the lines of a transcript as a new one of the newest version has them: what opening made of each is on it.

    A line that was read as it stands keeps its bytes. Ids and parents that were
    given are written, and what an old version says otherwise; a rewrite whose
    lines are not all here counts none of them.

    Args:
        entries: All of a transcript, in the order of the record.
        lines: Of each, the line as it is.
    """
    counts = _whole_batches(entries)
    for entry, line, is_counted in zip(entries, lines, counts, strict=True):
        try:
            data, refused = read_line(line)
        except ValueError:  # it nests too deeply for all but its head
            yield line
            continue
        changes = _said_otherwise(entry, data)
        if not is_counted:
            changes["more"] = GONE
        plain = line.strip(_SPACE)
        yield mend_line(line, changes, refused=refused) if changes or refused else plain


def _whole_batches(entries: Sequence[Entry]) -> list[bool]:
    """Return of each entry whether the lines that it says were written with it stand behind it."""
    whole = [entry.more <= 0 for entry in entries]
    for at in range(len(entries) - 2, -1, -1):
        follows = entries[at].more == entries[at + 1].more + 1
        whole[at] = whole[at] or (follows and whole[at + 1])
    return whole


def _said_otherwise(entry: Entry, data: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the fields of a line that opening took otherwise than they stand there."""
    changes: dict[str, JSON] = {}
    if data.get("id") != entry.id:
        changes["id"] = entry.id
    if changes or data.get("parentId") != entry.parent_id:
        changes["parentId"] = entry.parent_id
    if entry.first_kept_id is not None and data.get("firstKeptEntryId") != entry.first_kept_id:
        changes["firstKeptEntryId"] = entry.first_kept_id
    if "firstKeptEntryIndex" in data:
        changes["firstKeptEntryIndex"] = GONE
    message = data.get("message")
    if isinstance(message, dict) and message.get("role") == _OLD_ROLE:
        changes["message"] = message | {"role": CustomMessage.role}
    return changes
