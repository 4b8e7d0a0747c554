"""What of a compaction is stored: the summary's final text, within its bounds, and the facts beside it."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from openclaw_ctx.contract import JSON, AssistantMessage, Message, UserMessage
from openclaw_ctx.transcript import CUT_OFF

from .extracts import MAX_REQUEST_CHARS, file_operations, files_text, latest_unresolved_request

__all__ = ["MAX_REQUEST_CHARS", "TRUNCATED", "Facts", "facts_of", "final_text"]

TRUNCATED: Final = "\n\n[Compaction summary truncated to fit budget]"
"""Stands where a summary was cut; the reference system's words."""

_REQUEST_HEADING: Final = "## Latest unresolved user request"
_TURN_HEADING: Final = "\n\n---\n\n**Turn Context (split turn):**\n\n"
_FILES_SHARE: Final = 4


@attrs.frozen(kw_only=True)
class Facts:
    """
    What is known of folded history beside its summary, from one compaction to the next.

    Attributes:
        read: Files that were read.
        modified: Files that were written.
        request: What the user asked for last and nobody has answered, at most 800 characters.
    """

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    request: str | None = None

    @classmethod
    def from_details(cls, details: JSON) -> "Facts":
        """Return the facts that an earlier compaction stored; none where what it stored is of another's making."""
        if not isinstance(details, Mapping):
            return cls()
        request = details.get("latestUnresolvedUserRequest")
        return cls(
            read=_names(details.get("readFiles")),
            modified=_names(details.get("modifiedFiles")),
            request=request if isinstance(request, str) and 0 < len(request) <= MAX_REQUEST_CHARS else None,
        )

    def to_details(self) -> dict[str, JSON]:
        """Return them as they are stored, in the reference system's words."""
        stored: dict[str, JSON] = {"readFiles": list(self.read), "modifiedFiles": list(self.modified)}
        return stored | ({"latestUnresolvedUserRequest": self.request} if self.request else {})

    def files(self, room: int) -> str:
        """Return the files as text of at most *room* characters; the newest, where there is no room for all."""
        for halved in range(max(len(self.read), len(self.modified), 1).bit_length() + 1):
            most = max(len(self.read), len(self.modified)) >> halved
            text = files_text(self.read[len(self.read) - most :], self.modified[len(self.modified) - most :])
            if len(text) <= room:
                return text
        return ""


def facts_of(folded: Sequence[Message], context: Sequence[Message], earlier: Facts) -> Facts:
    """
    Return what is known once *folded* is gone.

    Args:
        folded: What the summary will stand for.
        context: All that the model saw, *folded* and what stays.
        earlier: What the compaction before this one stored.
    """
    read, modified = file_operations(folded)
    changed = tuple(dict.fromkeys((*earlier.modified, *modified)))
    only_read = tuple(name for name in dict.fromkeys((*earlier.read, *read)) if name not in set(changed))
    return Facts(read=only_read, modified=changed, request=_request(folded, context, earlier))


def _request(folded: Sequence[Message], context: Sequence[Message], earlier: Facts) -> str | None:
    """Return the unanswered request, where the summary is what tells of it: it is folded, or was before."""
    request = latest_unresolved_request(context)
    said = [message for message in context if isinstance(message, UserMessage)]
    if said:
        return request if any(message is said[-1] for message in folded) else None
    last = context[-1] if context else None
    answered = isinstance(last, AssistantMessage) and not last.tool_calls and last.stop_reason not in CUT_OFF
    return None if answered else earlier.request


def final_text(summary: str, *, turn: str = "", facts: Facts, room: int) -> str:
    """
    Return what is stored of a summary, at most *room* characters: request, history, turn, files.

    Where it has to be cut, the history keeps at least half of what is free, and
    a line says that something is missing.
    """
    # Quoted: it is what somebody said, whatever headings it imitates.
    request = json.dumps(facts.request, ensure_ascii=False)
    opening = f"{_REQUEST_HEADING}\n{request}\n\n" if facts.request else ""
    files = facts.files(room // _FILES_SHARE)
    opening = opening if len(opening) <= room // 2 else ""
    free = room - len(opening) - len(files)
    behind = f"{_TURN_HEADING}{turn}" if turn else ""
    if len(summary) + len(behind) <= free:
        return f"{opening}{summary}{behind}{files}"
    history = min(len(summary), max(free // 2, free - len(behind)))
    behind = _cut(behind, free - history)
    return f"{opening}{_cut(summary, free - len(behind))}{behind}{files}"


def _cut(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    return text[: room - len(TRUNCATED)] + TRUNCATED if room > len(TRUNCATED) else text[: max(0, room)]


def _names(value: JSON) -> tuple[str, ...]:
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list | tuple) else ()
