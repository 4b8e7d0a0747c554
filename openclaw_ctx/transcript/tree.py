"""
A transcript's lines as a tree, and the branch of it that is active.

Every line names its parent, and the last line is the leaf: the way from it up
to a root is the conversation. Lines on other branches are kept and not seen.
"""

import copy
from collections.abc import Callable, Iterable, Sequence

from openclaw_ctx.contract import AssistantMessage, EntryId, Message, SystemMessage, UserMessage

from .entry import Entry

__all__ = ["Branch", "instructions", "is_chain", "parents_of", "walk"]


def is_chain(entries: Sequence[Entry]) -> bool:
    """Return whether each entry follows the one before it, which is what most files hold."""
    previous = entries[0].parent_id if entries else None
    for entry in entries:
        if entry.parent_id != previous or entry.id is None:
            return False
        previous = entry.id
    return not entries or entries[0].type != "session"


def walk(entries: Sequence[Entry], leaf_id: EntryId | None) -> list[Entry]:
    """
    Return the branch that ends at *leaf_id*, root first; an unknown parent ends the walk, and so does a circle.

    A parent stands before its child: where an id was used twice, that tells the
    two apart. Only a file whose lines were sorted has a parent behind its child.
    """
    latest: dict[EntryId | None, int] = {}
    parents: list[int | None] = []
    for position, entry in enumerate(entries):
        parents.append(latest.get(entry.parent_id))
        latest[entry.id] = position
    path: list[Entry] = []
    seen: set[int] = set()
    at = latest.get(leaf_id)
    while at is not None and at not in seen:
        seen.add(at)
        entry = entries[at]
        path.append(entry)
        before = parents[at]
        at = latest.get(entry.parent_id) if before is None else before
    path.reverse()
    return path


def parents_of(entries: Sequence[Entry]) -> list[int | None]:
    """Return the place of each entry's parent, by the rule of :func:`walk`; ``None`` where there is none."""
    latest: dict[EntryId | None, int] = {}
    before: list[int | None] = []
    for place, entry in enumerate(entries):
        before.append(latest.get(entry.parent_id))
        if entry.id is not None:
            latest[entry.id] = place
    return [
        latest.get(entry.parent_id) if place is None else place for entry, place in zip(entries, before, strict=True)
    ]


def instructions(path: Sequence[Entry], read: Callable[[Entry], Message]) -> list[int]:
    """
    Return where on a branch the system messages are that stand before anything was said.

    No boundary folds them: an imported session has its standing instructions there.
    Reads the first messages, up to the one that is none.
    """
    found = []
    for position, entry in enumerate(path):
        if entry.type == "message":
            if not isinstance(read(entry), SystemMessage):
                break
            found.append(position)
        elif entry.is_message or entry.is_boundary:
            break
    return found


class Branch:
    """
    The way to one leaf, and what a model sees of it. Grows at its end only.

    Attributes:
        path: Every entry, root first.
        messages: Those that are messages of the record.
        context: Those that the model sees: instructions, the last boundary's summary, what follows.
        boundary: The last compaction or reset.
        summarised: How many messages the boundary's summary stands for.
    """

    __slots__ = ("_in_context", "_is_whole", "_read", "boundary", "context", "messages", "path", "summarised")

    def __init__(self, path: list[Entry], read: Callable[[Entry], Message], *, is_whole: bool = True) -> None:
        """
        Go along *path*.

        Args:
            path: Root first; or where not *is_whole* the end of it that makes up the context, without instructions.
            read: Reads an entry's message.
            is_whole: Whether the path goes back to its root.
        """
        self._read = read
        self._is_whole = is_whole
        self.path = path
        self.messages: list[Entry] = []
        self.context: list[Entry] = []
        self.boundary: Entry | None = None
        self.summarised = 0
        # One pass for all of it, and the common type first: a long file is opened as fast as this loop.
        message, visible = self.messages.append, self.context.append
        for entry in path:
            if entry.type == "message":
                message(entry)
                head = entry.head
                if head is None or not head.exclude_from_context:
                    visible(entry)
            elif entry.is_message:
                message(entry)
                if entry.in_context:
                    visible(entry)
            elif entry.is_boundary:
                self.boundary = entry
        self._in_context = len(self.context)  # of all on the path, folded away or not
        if self.boundary is not None:
            self._begin_anew(self.boundary)

    @property
    def leaf_id(self) -> EntryId | None:
        """The entry that the next one will follow."""
        return self.path[-1].id if self.path else None

    def grow(self, entry: Entry) -> None:
        """Take *entry* in behind the leaf."""
        self.path.append(entry)
        if entry.is_message:
            self.messages.append(entry)
            if entry.in_context:
                self._in_context += 1
                self.context.append(entry)
        elif entry.is_boundary:
            self.boundary = entry
            self._begin_anew(entry)

    def place_of(self, entry_id: EntryId) -> int | None:
        """Return where on the path an entry is; from the leaf, since old ones are seldom asked for."""
        for back, entry in enumerate(reversed(self.path), 1):
            if entry.id == entry_id:
                return len(self.path) - back
        return None

    def messages_up_to(self, entry_id: EntryId) -> int:
        """Return how many messages stand up to and with an entry, 0 where it is not here; from the leaf too."""
        count = len(self.messages)
        for entry in reversed(self.path):
            if entry.id == entry_id:
                return count
            count -= entry.is_message
        return 0

    def first_message_of(self, entry_ids: Iterable[str]) -> EntryId | None:
        """Return the first of these that is a ``message`` line; looks from the leaf, as far back as they go."""
        wanted, first = set(entry_ids), None
        for entry in reversed(self.path):
            if not wanted:
                break
            if entry.id in wanted:
                wanted.remove(entry.id)
                first = entry.id if entry.type == "message" else first
        return first

    def up_to(self, length: int) -> "Branch":
        """
        Return the branch of the first *length* entries; nothing here changes.

        Looks at what it leaves out, and further back only where a boundary is among that.
        """
        gone = self.path[length:]
        messages, in_context = sum(entry.is_message for entry in gone), sum(entry.in_context for entry in gone)
        shorter = copy.copy(self)
        # Views share the lists, so each branch grows lists of its own.
        shorter.path = self.path[:length]
        shorter.messages = self.messages[: len(self.messages) - messages]
        shorter._in_context = self._in_context - in_context  # noqa: SLF001 -- of the same class
        if not any(entry.is_boundary for entry in gone):
            shorter.context = self.context[: len(self.context) - in_context]
            return shorter
        shorter.boundary = next((entry for entry in reversed(shorter.path) if entry.is_boundary), None)
        if shorter.boundary is None:
            shorter.context, shorter.summarised = [entry for entry in shorter.messages if entry.in_context], 0
        else:
            shorter._begin_anew(shorter.boundary)  # noqa: SLF001 -- of the same class
        return shorter

    def _begin_anew(self, boundary: Entry) -> None:
        """Make the context: the boundary's summary, what it kept, and what follows."""
        path = self.path
        at = len(path) - 1
        while path[at] is not boundary:
            at -= 1
        first = at
        if boundary.first_kept_id not in {None, boundary.id}:  # its own id: nothing is kept
            first = next((p for p in range(at - 1, -1, -1) if path[p].id == boundary.first_kept_id), at)
        standing = set(instructions(path[:at], self._read)) if self._is_whole else set()
        opening = [path[p] for p in sorted(standing) if path[p].in_context]
        kept = [path[p] for p in range(first, at) if p not in standing and path[p].in_context]
        following = [entry for entry in path[at + 1 :] if entry.in_context]
        if boundary.type == "reset":
            # A reset keeps what was said, and nothing of what was done.
            kept = [entry for entry in kept if isinstance(self._read(entry), UserMessage | AssistantMessage)]
            self.context, self.summarised = opening + kept + following, 0
        else:
            self.context = [*opening, boundary, *kept, *following]
            self.summarised = self._in_context - len(opening) - len(kept) - len(following)
