"""Where to cut a history: what is folded into a summary, and what stays."""

from collections.abc import Callable, Sequence

from openclaw_ctx.contract import AssistantMessage, Message, ToolResultMessage

__all__ = ["plan_cut"]


def plan_cut(history: Sequence[Message], *, keep: int, count: Callable[[Message], int]) -> int:
    """
    Return how many of the oldest messages to fold.

    What stays is the longest tail that costs at most *keep* tokens and begins
    at a valid cut. A cut is never a tool result, nor anything between a call
    and its results, so a group stays whole; where the newest group alone costs
    more than *keep*, it is all that stays. Where everything is cheaper, nothing
    is folded. Walks back only as far as it keeps.

    Args:
        history: Oldest first.
        keep: Tokens that may stay.
        count: Tokens of one message, none negative.

    Returns:
        An index into *history*; 0 folds nothing.
    """
    kept = 0
    latest: int | None = None
    results_wait = False
    for index in range(len(history) - 1, -1, -1):
        message = history[index]
        kept += count(message)
        if kept > keep and latest is not None:
            return latest
        if isinstance(message, ToolResultMessage):
            results_wait = True
            continue
        # A result belongs to the nearest assistant message before it, whatever stands between them.
        results_wait = results_wait and not isinstance(message, AssistantMessage)
        if not results_wait:
            latest = index
    return 0
