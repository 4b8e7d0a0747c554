"""
How a history is divided for the summariser: whole, in chunks, or in stages that are merged.

Pure functions over tokens of messages and their groups. Every division has
every message once, in order, and no group is in two parts of it; a group that
is larger than a part may be is a part by itself.
"""

import itertools
from collections.abc import Sequence
from typing import Final, Literal

import attrs

__all__ = [
    "BASE_CHUNK_RATIO",
    "DEFAULT_PARTS",
    "MIN_CHUNK_RATIO",
    "MIN_MESSAGES_TO_SPLIT",
    "OVERSIZED_SHARE",
    "SAFETY_MARGIN",
    "SUMMARIZATION_OVERHEAD_TOKENS",
    "Stages",
    "adaptive_ratio",
    "chunk_cap",
    "divide",
    "halves",
    "is_oversized",
    "max_chunk_tokens",
    "plan_stages",
    "within",
]

BASE_CHUNK_RATIO: Final = 0.4
"""What share of the window a chunk may take; the reference system's."""

MIN_CHUNK_RATIO: Final = 0.15
"""The least that large messages make of that share; the reference system's."""

SAFETY_MARGIN: Final = 1.2
"""How far an estimate of tokens may be off; the reference system's."""

DEFAULT_PARTS: Final = 2
"""Into how many stages a large history is split; the reference system's."""

SUMMARIZATION_OVERHEAD_TOKENS: Final = 4_096
"""What a chunk leaves to instructions and to the summary so far; the reference system's."""

MIN_MESSAGES_TO_SPLIT: Final = 4
"""Fewer messages are not split into stages; the reference system's, which never goes below 2."""

OVERSIZED_SHARE: Final = 0.5
"""A message that takes more of the window cannot be summarised; the reference system's."""

_LARGE_MESSAGES: Final = 0.1
_FEWEST: Final = 2


@attrs.frozen(kw_only=True)
class Stages:
    """
    A plan.

    Attributes:
        kind: ``single``: chunk by chunk; ``whole``: in one request; ``split``: *parts* apart, then merged.
        parts: The places of the messages of each part.
    """

    kind: Literal["single", "whole", "split"]
    parts: tuple[range, ...]


def adaptive_ratio(costs: Sequence[int], *, window: int) -> float:
    """Return what share of the window a chunk may take; less where an average message takes over a tenth of it."""
    if not costs:
        return BASE_CHUNK_RATIO
    average = sum(costs) / len(costs) * SAFETY_MARGIN / window
    if average <= _LARGE_MESSAGES:
        return BASE_CHUNK_RATIO
    return max(MIN_CHUNK_RATIO, BASE_CHUNK_RATIO - min(2 * average, BASE_CHUNK_RATIO - MIN_CHUNK_RATIO))


def max_chunk_tokens(costs: Sequence[int], *, window: int) -> int:
    """Return how many tokens a chunk of these messages may have, at least one."""
    return max(1, int(window * adaptive_ratio(costs, window=window)) - SUMMARIZATION_OVERHEAD_TOKENS)


def chunk_cap(chunk_tokens: int) -> int:
    """Return what a chunk is filled with: less than it may have, since tokens are estimated."""
    return max(1, int(chunk_tokens / SAFETY_MARGIN))


def is_oversized(tokens: int, *, window: int) -> bool:
    """Return whether one message is too large to be summarised."""
    return tokens * SAFETY_MARGIN > window * OVERSIZED_SHARE


def divide(
    groups: Sequence[range], costs: Sequence[int], *, most_tokens: float, most_parts: int | None = None
) -> tuple[range, ...]:
    """
    Return *groups* gathered into parts of at most *most_tokens*, each as full as goes.

    Args:
        groups: Places of messages, in order.
        costs: Tokens of each message.
        most_tokens: What a part may cost, unless it is one group.
        most_parts: How many parts there may be; the last one then has the rest.
    """
    parts: list[range] = []
    start: int | None = None
    spent = 0
    for group in groups:
        cost = sum(costs[group.start : group.stop])
        if start is None:
            start = group.start
        elif spent + cost > most_tokens and (most_parts is None or len(parts) < most_parts - 1):
            parts.append(range(start, group.start))
            start, spent = group.start, 0
        spent += cost
    if start is not None:
        parts.append(range(start, groups[-1].stop))
    return tuple(parts)


def plan_stages(
    groups: Sequence[range],
    costs: Sequence[int],
    *,
    window: int,
    request_tokens: int,
    answer_tokens: int,
    parts: int = DEFAULT_PARTS,
    least: int = MIN_MESSAGES_TO_SPLIT,
) -> Stages:
    """
    Return how to summarise messages.

    Args:
        groups: Places of messages, in order.
        costs: Tokens of each message.
        window: Tokens that the summariser can take.
        request_tokens: What one request with all of them would cost.
        answer_tokens: What its answer may cost.
        parts: At most so many stages.
        least: Fewer messages are no two stages; at least 2.
    """
    count, total = len(costs), sum(costs)
    everything = (range(count),) if count else ()
    limit = max_chunk_tokens(costs, window=window)
    parts = min(parts, count)
    if parts <= 1 or count < max(_FEWEST, least) or total <= limit:
        return Stages(kind="single", parts=divide(groups, costs, most_tokens=chunk_cap(limit)))
    if request_tokens * SAFETY_MARGIN + answer_tokens <= window:
        return Stages(kind="whole", parts=everything)
    split = divide(groups, costs, most_tokens=total / parts, most_parts=parts)
    if len(split) > 1:
        return Stages(kind="split", parts=split)
    return Stages(kind="single", parts=divide(groups, costs, most_tokens=chunk_cap(limit)))


def halves(groups: Sequence[range], costs: Sequence[int]) -> tuple[range, ...]:
    """Return *groups* in two parts of about the same cost; one, where there is but one group."""
    total = sum(sum(costs[group.start : group.stop]) for group in groups)
    return divide(groups, costs, most_tokens=total / DEFAULT_PARTS, most_parts=DEFAULT_PARTS)


def within(groups: Sequence[range], part: range) -> list[range]:
    """Return those of *groups* that lie in *part*, with places counted from its start."""
    inside = itertools.dropwhile(lambda group: group.start < part.start, groups)
    found = itertools.takewhile(lambda group: group.stop <= part.stop, inside)
    return [range(group.start - part.start, group.stop - part.start) for group in found]
