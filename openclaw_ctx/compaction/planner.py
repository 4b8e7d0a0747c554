"""Where to cut a history: what is folded into a summary, and what stays."""

from collections.abc import Callable, Sequence

from openclaw_ctx.contract import Message, ToolResultMessage

__all__ = ["plan_cut"]


def plan_cut(history: Sequence[Message], *, keep: int, count: Callable[[Message], int]) -> int:
    """
    Return how many of the oldest messages to fold.

    What stays is the shortest tail that costs at least *keep* tokens and begins
    at a valid cut. A tool result is never a cut, so a call stays with its
    results. Where one group alone costs more than *keep*, it stays whole; where
    everything is cheaper, nothing is folded. Walks back only as far as it keeps.

    Args:
        history: Oldest first.
        keep: Tokens that should stay.
        count: Tokens of one message.

    Returns:
        An index into *history*; 0 folds nothing.
    """
    kept = 0
    latest: int | None = None
    for index in range(len(history) - 1, -1, -1):
        message = history[index]
        kept += count(message)
        if not isinstance(message, ToolResultMessage):
            if kept > keep and latest is not None:
                return latest
            latest = index
            if kept >= keep:
                return index
    return 0
