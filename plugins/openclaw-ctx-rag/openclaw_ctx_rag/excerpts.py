"""A long message cut down to the passages that a question is about."""

import re
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Final

import attrs

from openclaw_ctx import AssistantMessage, CustomMessage, Message, TextBlock, ToolResultMessage, UserMessage

__all__ = ["shortened"]

_PIECE_CHARS: Final = 240
_LEFT_OUT: Final = " […] "
_SENTENCE_END = re.compile("(?<=[.!?\u3002\uff01\uff1f\n])\\s+")


def shortened(
    message: Message,
    tokens: int,
    *,
    wanted: AbstractSet[str],
    terms: Callable[[str], Iterable[str]],
    estimate: Callable[[str], int],
) -> Message:
    """
    Return *message* with its texts cut down to about *tokens*, around what is *wanted*; calls stay as they are.

    Args:
        message: Any; what has no text to cut comes back as it is.
        tokens: For all of its texts.
        wanted: The terms of the question.
        terms: Splits a text into terms.
        estimate: What a text costs.
    """
    if not isinstance(message, UserMessage | AssistantMessage | ToolResultMessage | CustomMessage):
        return message
    texts = [block for block in message.content if isinstance(block, TextBlock)]
    whole = sum(estimate(block.text) for block in texts)
    if whole <= tokens:
        return message
    note = f"[cut; history_read shows all of {message.entry_id}]"
    left = max(1, tokens - estimate(note) - 1)
    content = [
        TextBlock(text=_passages(block.text, left * estimate(block.text) // whole, wanted, terms, estimate))
        if isinstance(block, TextBlock)
        else block
        for block in message.content
    ]
    return attrs.evolve(message, content=(*content, TextBlock(text=note)))


def _passages(
    text: str,
    tokens: int,
    wanted: AbstractSet[str],
    terms: Callable[[str], Iterable[str]],
    estimate: Callable[[str], int],
) -> str:
    """Return the pieces of *text* that hold most of what is wanted, in their order, within *tokens*."""
    pieces = _pieces(text)
    met = [len(wanted & set(terms(piece))) for piece in pieces]
    # What stands first says mostly what a text is about: it wins among equals.
    best = sorted(range(len(pieces)), key=lambda index: -met[index])
    kept: set[int] = set()
    left = tokens
    for index in best:
        cost = estimate(pieces[index]) + estimate(_LEFT_OUT)
        if cost > left:
            break
        left -= cost
        kept.add(index)
    if not kept and pieces:
        return pieces[best[0]][: max(1, tokens * 2)]
    parts: list[str] = []
    for index in sorted(kept):
        if index and index - 1 not in kept:
            parts.append(_LEFT_OUT)
        parts.append(pieces[index])
    if len(pieces) - 1 not in kept:
        parts.append(_LEFT_OUT)
    return "".join(parts).strip()


def _pieces(text: str) -> list[str]:
    """Return *text* in pieces, whole sentences or lines where they are short enough; joined they are the text."""
    pieces: list[str] = []
    start = 0
    ends = [match.end() for match in _SENTENCE_END.finditer(text)] + [len(text)]
    for end in ends:
        while end - start > 2 * _PIECE_CHARS:
            pieces.append(text[start : start + _PIECE_CHARS])
            start += _PIECE_CHARS
        if end - start >= _PIECE_CHARS or end == len(text):
            pieces.append(text[start:end])
            start = end
    return [piece for piece in pieces if piece]
