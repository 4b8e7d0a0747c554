"""How much of a long history is summarised ahead of the rest, where what stays takes most of the window."""

from collections.abc import Sequence

from .stages import SAFETY_MARGIN, halves

__all__ = ["plan_prune"]


def plan_prune(groups: Sequence[range], costs: Sequence[int], *, kept_tokens: int, window: int, share: float) -> int:
    """
    Return how many of the oldest messages are summarised first, so that their summary opens the main pass.

    None, as long as what stays takes no more than the share of the window and
    a margin; else the older half, again and again, until the rest takes at
    most the share. The reference system's rule. No group is parted.

    Args:
        groups: Places of the messages that are folded, in order.
        costs: Tokens of each of them.
        kept_tokens: What stays unfolded.
        window: Tokens that the summariser can take.
        share: What part of the window folded history may take.
    """
    if kept_tokens <= int(window * share * SAFETY_MARGIN):
        return 0
    budget = max(1, int(window * share))
    first = 0
    while sum(costs[first:]) > budget:
        rest = [group for group in groups if group.start >= first]
        parts = halves(rest, costs)
        if len(parts) < 2:  # noqa: PLR2004 -- one group is not parted
            break
        first = parts[1].start
    return first
