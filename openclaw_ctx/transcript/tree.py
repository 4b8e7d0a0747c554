"""
A transcript's lines as a tree, and the branch of it that is active.

Every line names its parent, and the last line is the leaf: the way from it up
to a root is the conversation. Lines on other branches are kept and not seen.
"""

from collections.abc import Callable, Sequence

from openclaw_ctx.contract import AssistantMessage, EntryId, Message, UserMessage

from .entry import Entry

__all__ = ["Branch", "is_chain", "walk"]


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


class Branch:
    """
    The way to one leaf, and what a model sees of it. Grows at its end only.

    Attributes:
        path: Every entry, root first.
        messages: Those that are messages of the record.
        context: Those that the model sees, the last boundary's summary first.
        boundary: The last compaction or reset.
        summarised: How many messages the boundary's summary stands for.
    """

    __slots__ = ("_read", "boundary", "context", "messages", "path", "summarised")

    def __init__(self, path: list[Entry], read: Callable[[Entry], Message]) -> None:
        self._read = read
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
                self.context.append(entry)
        elif entry.is_boundary:
            self.boundary = entry
            self._begin_anew(entry)

    def _begin_anew(self, boundary: Entry) -> None:
        """Make the context: the boundary's summary, what it kept, and what follows."""
        path = self.path
        at = len(path) - 1
        while path[at] is not boundary:
            at -= 1
        first = next((p for p in range(at - 1, -1, -1) if path[p].id == boundary.first_kept_id), at)
        kept = [entry for entry in path[first:at] if entry.in_context]
        following = [entry for entry in path[at + 1 :] if entry.in_context]
        if boundary.type == "reset":
            # A reset keeps what was said, and nothing of what was done.
            kept = [entry for entry in kept if isinstance(self._read(entry), UserMessage | AssistantMessage)]
            self.context, self.summarised = kept + following, 0
        else:
            self.context = [boundary, *kept, *following]
            self.summarised = sum(entry.in_context for entry in path[:first])
