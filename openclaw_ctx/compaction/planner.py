"""Where to cut a history: what is folded into a summary, and what stays."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

import attrs

from openclaw_ctx.contract import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    EntryId,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.transcript import repair_messages

from .policy import MAX_SUMMARY_CHARS, CompactionPolicy

__all__ = ["NO_CONVERSATION", "Declined", "Preparation", "has_conversation", "plan_cut", "prepare"]

NO_CONVERSATION: Final = "no real conversation messages"
BELOW_THRESHOLD: Final = "below threshold"
NOTHING: Final = "nothing to compact"
"""Why nothing needs doing; the reference system's words."""

_KEEP_SHARE: Final = 0.5
_SUMMARY_SHARE: Final = 0.2
_CHARS_PER_TOKEN: Final = 4
_TURN_STARTS: Final = (UserMessage, CustomMessage, BashExecutionMessage, BranchSummaryMessage)


@attrs.frozen(kw_only=True)
class Preparation:
    """
    What a compaction is going to fold.

    Attributes:
        cut: How many of the oldest messages do not stay, those that always stay among them.
        standing: System messages at the beginning, which stay.
        folded: All that is folded, an earlier summary included.
        history: Of that, what was said before the turn that is cut in two, without the earlier summary.
        prefix: The beginning of that turn; empty where the cut is between turns.
        kept: What stays.
        previous: The earlier summary's text.
        first_kept: The entry of the oldest message that stays.
        tokens_before: What the context costs as a prompt holds it.
        kept_tokens: What stays costs.
        room: Characters that the summary may have.
    """

    cut: int
    standing: Sequence[Message]
    folded: Sequence[Message]
    history: Sequence[Message]
    prefix: Sequence[Message]
    kept: Sequence[Message]
    previous: str | None
    first_kept: EntryId | None
    tokens_before: int
    kept_tokens: int
    room: int


@attrs.frozen
class Declined:
    """Why nothing needs doing."""

    reason: str


def prepare(
    history: Sequence[Message],
    *,
    count: Callable[[Message], int],
    policy: CompactionPolicy,
    token_budget: int | None = None,
    force: bool = False,
    current_token_count: int | None = None,
) -> Preparation | Declined:
    """
    Return what to fold of a context, or why nothing is.

    At most ``keep_recent_tokens`` and half of the budget stay. Where the caller
    measured more than the messages come to, they stand for a part of the prompt
    only, and what stays shrinks by as much, down to one token's worth: a small
    history beside a large prompt still frees something.

    Args:
        history: The context, oldest first.
        count: Tokens of one message.
        policy: How much stays.
        token_budget: What the context may cost.
        force: Fold below the budget too.
        current_token_count: What the caller measured.
    """
    messages = tuple(history)
    total = sum(map(count, repair_messages(messages).messages))
    if policy.mode == "default" and not has_conversation(messages):
        return Declined(NO_CONVERSATION)
    measured = total if current_token_count is None else current_token_count
    if not force and token_budget is not None and measured <= token_budget:
        return Declined(BELOW_THRESHOLD)
    keep, room = policy.keep_recent_tokens, MAX_SUMMARY_CHARS
    if token_budget is not None:
        keep = min(keep, int(token_budget * _KEEP_SHARE))
        room = min(room, int(token_budget * _SUMMARY_SHARE) * _CHARS_PER_TOKEN)
    keep = int(keep / _scale(measured, total, keep))
    cut = plan_cut(messages, keep=keep, count=count)
    standing = tuple(takewhile(lambda message: isinstance(message, SystemMessage), messages[:cut]))
    folded = messages[len(standing) : cut]
    if all(isinstance(message, CompactionSummaryMessage) for message in folded):
        return Declined(NOTHING if has_conversation(messages) else NO_CONVERSATION)
    earlier = [message.summary for message in folded if isinstance(message, CompactionSummaryMessage)]
    turn = max(_turn_start(messages, cut), len(standing))
    return Preparation(
        cut=cut,
        standing=standing,
        folded=folded,
        history=_worth_reading(messages[len(standing) : turn]),
        prefix=_worth_reading(messages[turn:cut]),
        kept=messages[cut:],
        previous="\n\n".join(filter(None, earlier)) or None,
        first_kept=messages[cut].entry_id if cut < len(messages) else None,
        tokens_before=total,
        kept_tokens=sum(map(count, messages[cut:])),
        room=room,
    )


def has_conversation(messages: Sequence[Message]) -> bool:
    """Return whether somebody said something, or an assistant did something."""
    return any(isinstance(message, UserMessage | AssistantMessage) for message in messages)


def _scale(measured: int, counted: int, keep: int) -> float:
    return min(max(1.0, keep), max(1.0, measured / counted if counted else 1.0))


def _turn_start(messages: Sequence[Message], cut: int) -> int:
    """Return where the turn begins that a cut goes through; the cut itself where it goes through none."""
    if cut >= len(messages) or isinstance(messages[cut], _TURN_STARTS):
        return cut
    return next((at for at in range(cut - 1, -1, -1) if isinstance(messages[at], _TURN_STARTS)), cut)


def _worth_reading(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return *messages* without summaries, and without what a user has said again before anybody answered."""
    kept: list[Message] = []
    asked: UserMessage | None = None
    for message in messages:
        if isinstance(message, CompactionSummaryMessage):
            continue
        if isinstance(message, UserMessage):
            if asked is not None and message.content == asked.content:
                continue
            asked = message
        elif isinstance(message, AssistantMessage):
            asked = None
        kept.append(message)
    return tuple(kept)


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
