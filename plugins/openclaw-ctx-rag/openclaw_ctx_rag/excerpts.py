"""A long message cut down to the passages that a question is about."""

import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import attrs

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    Message,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)

from .terms import LONGEST_TEXT

__all__ = ["shortened"]

_WITH_TEXT: Final = (UserMessage, AssistantMessage, ToolResultMessage, CustomMessage, BashExecutionMessage)
_PIECE_CHARS: Final = 240
_MOST_CHARS_PER_TOKEN: Final = 64
"""No text has more, by any way to count: a longer one need not be counted to know that it is too long."""

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
    Return *message* with its texts cut down to *tokens*, around what is *wanted*; calls and commands stay as they are.

    The texts become one. Of a very long one its beginning is looked at, as in a search.

    Args:
        message: Any; what has no text to cut comes back as it is.
        tokens: For all of its texts.
        wanted: The terms of the question.
        terms: Splits a text into terms.
        estimate: What a text costs.
    """
    if not isinstance(message, _WITH_TEXT):
        return message
    if len(message.text) <= _MOST_CHARS_PER_TOKEN * tokens and estimate(message.text) <= tokens:
        return message
    note = f"[cut; history_read shows all of {message.entry_id}]"
    left = max(1, tokens - estimate(note) - 1)
    if isinstance(message, BashExecutionMessage):
        left -= estimate(message.command)
        output = _passages(message.output, left, wanted, terms, estimate) if left > 0 else ""
        return attrs.evolve(message, output=f"{output}\n{note}")
    text = _passages(message.text, left, wanted, terms, estimate)
    others = [block for block in message.content if not isinstance(block, TextBlock)]
    return attrs.evolve(message, content=(TextBlock(text=text), *others, TextBlock(text=note)))


def _passages(
    text: str,
    tokens: int,
    wanted: AbstractSet[str],
    terms: Callable[[str], Iterable[str]],
    estimate: Callable[[str], int],
) -> str:
    """Return the pieces of *text* that hold most of what is wanted, in their order, within *tokens*."""
    pieces = _pieces(text[:LONGEST_TEXT])
    met = [len(wanted & set(terms(piece))) for piece in pieces]
    # What stands first says mostly what a text is about: it wins among equals.
    best = sorted(range(len(pieces)), key=lambda index: -met[index])
    goal = tokens
    while goal >= 1:
        found = _joined(pieces, _within(pieces, best, goal, estimate), cut=len(text) > LONGEST_TEXT)
        if found and estimate(found) <= tokens:
            return found
        goal = goal * 3 // 4  # pieces may cost more together than one by one: a run of signs that is no word
    found = pieces[best[0]].strip() if best else ""
    while found and estimate(found) > tokens:
        found = found[: len(found) * 3 // 4]
    return found or _LEFT_OUT.strip()


def _within(pieces: Sequence[str], best: Sequence[int], tokens: int, estimate: Callable[[str], int]) -> list[int]:
    kept: list[int] = []
    for index in best:
        tokens -= estimate(pieces[index]) + estimate(_LEFT_OUT)
        if tokens < 0:
            break
        kept.append(index)
    return sorted(kept)


def _joined(pieces: Sequence[str], kept: Sequence[int], *, cut: bool) -> str:
    parts: list[str] = []
    end = 0
    for index in kept:
        if index != end:
            parts.append(_LEFT_OUT)
        parts.append(pieces[index])
        end = index + 1
    if kept and (cut or end != len(pieces)):
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
