"""What a transcript's lines tell of the session and of each other: counts, its title, and the labels of entries."""

from collections.abc import Callable, Sequence

import attrs

from openclaw_ctx.contract import JSON, EntryId

from .entry import Entry

__all__ = ["Tally", "labels_told", "name_told"]


@attrs.frozen(kw_only=True)
class Tally:
    """
    What has been read of the active branch: all of it where ``whole``, else its end.

    Attributes:
        first_id: The entry that it has been read from.
        is_last: The branch is the one that was written last, as whoever opens the record will find it.
    """

    messages: int
    compactions: int
    name: str | None
    whole: bool
    first_id: EntryId | None
    is_last: bool


def name_told(entries: Sequence[Entry], data: Callable[[Entry], JSON]) -> str | None:
    """Return the title that was given last; empty where it was taken away, ``None`` where none was ever given."""
    told = next((entry for entry in reversed(entries) if entry.type == "session_info"), None)
    name = None if told is None else data(told).get("name")
    return name if isinstance(name, str) else None


def labels_told(entries: Sequence[Entry], data: Callable[[Entry], JSON]) -> dict[EntryId, str]:
    """Return the label of each entry that has one: of several the last, and none where that is empty."""
    labels: dict[EntryId, str] = {}
    for entry in entries:
        if entry.type == "label":
            line = data(entry)
            target, label = line.get("targetId"), line.get("label")
            if isinstance(target, str):
                labels.pop(EntryId(target), None)
                if isinstance(label, str) and label:
                    labels[EntryId(target)] = label
    return labels
