"""
Tool results cut to what a window bears.

One result never takes more than its cap. In an emergency all of them together
take no more either, the oldest giving way first. A cut text says at its end how
much of it is gone; one that says so already is left alone where it can be, so
that a provider's cache stays good.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from openclaw_ctx.contract import Block, Message, Replacement, TextBlock, ToolResultMessage

__all__ = [
    "NOTHING_TO_TRUNCATE",
    "cut_text",
    "is_cut",
    "oversized_results",
    "reducible_chars",
    "result_cap_chars",
    "truncate_result",
    "truncate_results",
    "whole_end",
    "whole_start",
]

NOTHING_TO_TRUNCATE: Final = "no oversized or aggregate tool results"
"""Why nothing was cut, in the reference system's words."""

MIN_KEEP_CHARS: Final = 2_000
"""What a result keeps at least, except in recovery; the reference system's."""

RESULT_SHARE: Final = 0.3
"""The share of a window that one result may take; the reference system's."""

CHARS_PER_TOKEN: Final = 4
"""The reference system's, here."""

HARD_CAPS: Final = ((200_000, 64_000), (100_000, 32_000), (0, 16_000))
"""Characters of one result, for windows of so many tokens and more; the reference system's."""

TAIL_SHARE: Final = 0.3
"""What of the room goes to an end that looks important; the reference system's."""

MAX_TAIL_CHARS: Final = 4_000
"""The most of an end that is kept; the reference system's."""

LOOKED_AT_CHARS: Final = 2_000
"""How much of the end tells whether it is important; the reference system's."""

NEWLINE_SHARE: Final = 0.2
"""How far a cut goes back to the end of a line; the reference system's."""

_LEAST_LEFT: Final = 64
"""Characters of a result that was emptied: room for the note that says so."""

_LEAST_SHARE: Final = 200
_LEFT_OUT: Final = "\n\n[... the middle is left out ...]\n\n"
_NOTE: Final = re.compile(r"\n?\[truncated: (\d{1,12}) characters were cut\]\Z")
_NOTE_CHARS: Final = 60
_LEAST_SPLIT: Final = 400
_IMPORTANT: Final = re.compile(
    r"\b(?:error|exception|fail(?:ed|ure|ures)?|fatal|traceback|panic|errno|exit code|"
    r"total|summary|results?|completed?|finished|done)\b|[}\]]\s*\Z",
    re.IGNORECASE,
)
_MARKS: Final = frozenset({"Mn", "Me", "Mc"})
_JOINER: Final = "\u200d"
_LONGEST_CLUSTER: Final = 32


def result_cap_chars(window: int, *, configured: int | None = None) -> int:
    """
    Return how many characters one tool result may have.

    Args:
        window: Tokens of the model's window, of which a result takes at most three tenths, whatever was configured.
        configured: Takes the place of the hard cap.
    """
    hard = next((chars for least, chars in HARD_CAPS if window >= least), HARD_CAPS[-1][1])
    return max(1, min(int(window * RESULT_SHARE) * CHARS_PER_TOKEN, hard if configured is None else configured))


def truncate_result(message: ToolResultMessage, *, cap: int, keep_min: int = MIN_KEEP_CHARS) -> ToolResultMessage:
    """
    Return *message* with at most *cap* characters of text; itself where it has no more.

    Its blocks share the cap by their length, but each keeps *keep_min* characters
    where that is possible; where there are too many of them, they become one.
    Pictures, and all that tells whose result it is, stay.
    """
    sizes = [len(block.text) for block in message.content if isinstance(block, TextBlock)]
    total = sum(sizes)
    if total <= cap:
        return message
    if len(sizes) > 1 and cap // len(sizes) < _LEAST_SHARE:
        return attrs.evolve(message, content=_merged(message.content, cap))
    least = min(keep_min, cap // len(sizes))
    sure = [min(size, least) for size in sizes]
    spare, wanted = cap - sum(sure), total - sum(sure)
    rooms = iter([one + spare * (size - one) // wanted for size, one in zip(sizes, sure, strict=True)])
    content = tuple(
        attrs.evolve(block, text=cut_text(block.text, next(rooms))) if isinstance(block, TextBlock) else block
        for block in message.content
    )
    return attrs.evolve(message, content=content)


def truncate_results(
    messages: Sequence[Message], *, cap: int, aggregate: int | None = None, recovery: bool = False
) -> Sequence[Message]:
    """
    Return *messages* with their tool results cut; the same sequence where nothing was to be cut.

    Args:
        messages: Oldest first.
        cap: Characters that one result may have.
        aggregate: Characters that all may have together, where there are two or more.
        recovery: Whether a result may be emptied, and one be cut again, to keep to *aggregate*.
    """
    cut: dict[int, ToolResultMessage] = {}
    sizes: dict[int, int] = {}
    for index, message in enumerate(messages):
        if isinstance(message, ToolResultMessage):
            size = _chars(message)
            if size > cap:
                cut[index] = truncate_result(message, cap=cap, keep_min=0 if recovery else MIN_KEEP_CHARS)
                size = _chars(cut[index])
            sizes[index] = size
    if aggregate is not None and len(sizes) > 1:
        _cut_together(messages, cut, sizes, aggregate, recovery=recovery)
    if not cut:
        return messages
    return tuple([cut.get(index, message) for index, message in enumerate(messages)])


def reducible_chars(messages: Iterable[Message], *, cap: int) -> int:
    """Return how many characters :func:`oversized_results` would take away at least; 0 where it finds nothing."""
    over = kept = emptied = results = 0
    for message in messages:
        if isinstance(message, ToolResultMessage):
            size = _chars(message)
            stays = min(size, cap)
            results += 1
            over += size - stays
            kept += stays
            emptied += max(0, stays - _LEAST_LEFT)
    return over + (min(max(0, kept - cap), emptied) if results > 1 else 0)


def oversized_results(messages: Sequence[Message], *, cap: int) -> list[Replacement]:
    """
    Return what to write in place of tool results, so that each and all of them have at most *cap* characters.

    Nothing where that is so already: :data:`NOTHING_TO_TRUNCATE` is the reason
    then. What has no entry in a transcript is left out.
    """
    cut = truncate_results(messages, cap=cap, aggregate=cap, recovery=True)
    if cut is messages:
        return []
    return [
        Replacement(entry_id=new.entry_id, message=new)
        for old, new in zip(messages, cut, strict=True)
        if new is not old and new.entry_id is not None
    ]


def is_cut(text: str) -> bool:
    """Return whether *text* ends with the note of :func:`cut_text`; what it says elsewhere is its own."""
    return _NOTE.search(text, max(0, len(text) - _NOTE_CHARS)) is not None


def cut_text(text: str, room: int) -> str:
    """
    Return at most *room* characters of *text*, and itself where it has no more.

    It ends with a note of how much is gone, what an earlier cut took included;
    where there is no room for a note, it is a beginning. No character is parted
    from the marks on it.
    """
    if len(text) <= room:
        return text
    body, gone = text, 0
    if found := _NOTE.search(text, max(0, len(text) - _NOTE_CHARS)):
        body, gone = text[: found.start()], int(found[1])
    space = room - len(_note(gone + len(body)))
    if space <= 0:
        bare = _note(gone + len(body)).lstrip("\n")
        return bare if len(bare) <= room else text[: whole_end(text, max(0, room))]
    end, start = _ends(body, space)
    tail = _LEFT_OUT + body[start:] if start < len(body) else ""
    return body[:end] + tail + _note(gone + start - end)


def whole_end(text: str, end: int) -> int:
    """Return the place at or before *end* where nothing is parted that belongs together."""
    at = end
    while 0 < at < len(text) and end - at < _LONGEST_CLUSTER and _belong_together(text[at - 1], text[at]):
        at -= 1
    if end - at < _LONGEST_CLUSTER:
        return at
    return end - 1 if _is_pair(text[end - 1], text[end]) else end


def whole_start(text: str, start: int) -> int:
    """Return the place at or behind *start* where nothing is parted that belongs together."""
    at = start
    while 0 < at < len(text) and at - start < _LONGEST_CLUSTER and _belong_together(text[at - 1], text[at]):
        at += 1
    if at - start < _LONGEST_CLUSTER:
        return at
    return start + 1 if _is_pair(text[start - 1], text[start]) else start


def _cut_together(
    messages: Sequence[Message],
    cut: dict[int, ToolResultMessage],
    sizes: dict[int, int],
    aggregate: int,
    *,
    recovery: bool,
) -> None:
    excess = sum(sizes.values()) - aggregate
    if excess <= 0:
        return
    least = _LEAST_LEFT if recovery else MIN_KEEP_CHARS
    # In an emergency no cache counts: to spare what was cut before would cost the newest results.
    for index in [index for index in sizes if recovery or not _is_cut(messages[index])]:
        room = max(least, sizes[index] - excess)
        if room < sizes[index]:
            message = cut.get(index, messages[index])
            assert isinstance(message, ToolResultMessage)  # noqa: S101 -- only those have a size
            cut[index] = truncate_result(message, cap=room, keep_min=0)
            left = _chars(cut[index])
            excess -= sizes[index] - left
            sizes[index] = left


def _chars(message: ToolResultMessage) -> int:
    return sum([len(block.text) for block in message.content if isinstance(block, TextBlock)])


def _is_cut(message: Message) -> bool:
    content = message.content if isinstance(message, ToolResultMessage) else ()
    return any(isinstance(block, TextBlock) and is_cut(block.text) for block in content)


def _merged(content: Sequence[Block], cap: int) -> tuple[Block, ...]:
    """Return the texts as one, where the first of them stood, with everything else around it."""
    text = "\n".join(block.text for block in content if isinstance(block, TextBlock))
    merged: list[Block] = []
    placed = False
    for block in content:
        if not isinstance(block, TextBlock):
            merged.append(block)
        elif not placed:
            placed = True
            merged.append(attrs.evolve(block, text=cut_text(text, cap)))
    return tuple(merged)


def _ends(body: str, space: int) -> tuple[int, int]:
    """Return where the beginning ends, and where the end begins, which is the body's own end where none is kept."""
    tail = 0
    if space >= _LEAST_SPLIT and _IMPORTANT.search(body, max(0, len(body) - LOOKED_AT_CHARS)):
        tail = min(MAX_TAIL_CHARS, int(space * TAIL_SHARE))
        space -= tail + len(_LEFT_OUT)
    end = min(space, len(body))
    line = body.rfind("\n", end - int(end * NEWLINE_SHARE), end)
    end = whole_end(body, end) if line < 0 else line
    if not tail:
        return end, len(body)
    start = max(end, len(body) - tail)
    line = body.find("\n", start, start + int(tail * NEWLINE_SHARE))
    return end, whole_start(body, start) if line < 0 else line + 1


def _note(chars: int) -> str:
    return f"\n[truncated: {chars} characters were cut]"


def _is_pair(before: str, after: str) -> bool:
    # Python has one character for both halves, but foreign JSON may have written each by itself.
    return "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"


def _belong_together(before: str, after: str) -> bool:
    return (
        _is_pair(before, after)
        or _JOINER in {before, after}
        or unicodedata.category(after) in _MARKS
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # the colour of a skin
        or (before == "\r" and after == "\n")
    )
