"""A conversation as a lazy, immutable sequence of messages."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from openclaw_ctx.contract import EntryId, Message

from .entry import Entry

__all__ = ["History"]


class History(Sequence[Message]):
    """
    Messages of a transcript as they stood at one moment, oldest first.

    A view: making and slicing one copies nothing, and a message is read when it
    is looked at, so walking backwards costs what is walked. What is appended
    later is not in it.
    """

    __slots__ = ("_entries", "_read", "_start", "_stop")

    def __init__(self, entries: list[Entry], read: Callable[[Entry], Message], start: int, stop: int) -> None:
        # The list only ever grows at its end, or is replaced whole: a view of a range never changes.
        self._entries = entries
        self._read = read
        self._start = start
        self._stop = stop

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> "History": ...
    def __getitem__(self, index: int | slice) -> "Message | History":
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return History(self._entries, self._read, self._start + start, self._start + max(start, stop))
            entries = self._entries[self._start : self._stop][index]
            return History(entries, self._read, 0, len(entries))
        position = index + (self._stop if index < 0 else self._start)
        if not self._start <= position < self._stop:
            message = f"message {index} of {len(self)}"
            raise IndexError(message)
        return self._message(position)

    def __iter__(self) -> Iterator[Message]:
        return self._walk(range(self._start, self._stop))

    def __reversed__(self) -> Iterator[Message]:
        return self._walk(range(self._stop - 1, self._start - 1, -1))

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy, or a view that goes to another process, is the messages themselves.
        return (tuple, (tuple(self),))

    def __repr__(self) -> str:
        return f"<History of {len(self)} messages>"

    def without(self, start: int, stop: int) -> "History":
        """Return a view of the same messages but those from *start* up to *stop*; no message is read for it."""
        gone = range(*slice(start, stop).indices(len(self)))
        entries = self._entries[self._start : self._start + gone.start]
        entries += self._entries[self._start + max(gone.start, gone.stop) : self._stop]
        return History(entries, self._read, 0, len(entries))

    def is_read_as(self, other: Sequence[Message]) -> bool:
        """Return whether both read their messages in the same way, so that one is as good as the other."""
        return isinstance(other, History) and self._read == other._read  # noqa: SLF001 -- one class

    @property
    def entry_ids(self) -> list[EntryId | None]:
        """The messages' entry ids; no message is read for them."""
        return [entry.id for entry in self._entries[self._start : self._stop]]

    def _walk(self, positions: range) -> Iterator[Message]:
        # Calls nothing for a message that has been read: every engine walks back at every prompt.
        entries, read = self._entries, self._read
        for position in positions:
            entry = entries[position]
            found: Message | None = entry.message
            yield read(entry) if found is None else found

    def _message(self, position: int) -> Message:
        entry = self._entries[position]
        found: Message | None = entry.message
        return self._read(entry) if found is None else found
