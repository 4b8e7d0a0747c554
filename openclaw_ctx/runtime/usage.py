"""How full the context is: what the provider counted last, and an estimate of what came since."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from openclaw_ctx.contract import JSON, AssistantMessage, CompactionSummaryMessage, Message
from openclaw_ctx.transcript import CUT_OFF

__all__ = ["context_tokens"]

_CLI: Final = "cli"
_TOTALS: Final = ("totalTokens", "total_tokens", "totalTokenCount", "total")
# What adds up to a prompt. Counts of what is part of another one (``cached_tokens`` and its like) are not here.
_PROMPTS: Final = (
    ("input", "cacheRead", "cacheWrite"),
    ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    ("prompt_tokens",),
    ("promptTokenCount",),
    ("inputTokens", "cacheReadTokens", "cacheWriteTokens"),
    ("input_other", "input_cache_read", "input_cache_creation"),
)
_ANSWERS: Final = ("output", "output_tokens", "completion_tokens", "candidatesTokenCount", "outputTokens")
_MOST: Final = 1_000_000_000


def context_tokens(
    messages: Sequence[Message],
    *,
    count: Callable[[Message], int],
    current: Callable[[AssistantMessage], bool] | None = None,
) -> int:
    """
    Return the tokens that *messages* fill of a window.

    That is the usage of the last answer that was neither cut off nor without
    one, and the count of what stands behind it; where no usage can be trusted,
    the count of everything. A usage holds system prompt and tools too, a count
    does not. Walks back as far as the last usage.

    What a compaction kept stands behind its summary, with usages of a prompt
    that is gone. So where a summary opens the context, only the answers that
    *current* knows are believed, and none without it.

    Args:
        messages: Oldest first, as the model sees them.
        count: Tokens of one message.
        current: Whether an answer was given since the last compaction.
    """
    if current is None and _opens_with_summary(messages):
        return sum(map(count, messages))
    tokens = 0
    barred = False
    for message in reversed(messages):
        if isinstance(message, CompactionSummaryMessage):
            barred = True
        elif isinstance(message, AssistantMessage) and not barred and message.stop_reason not in CUT_OFF:
            used = _used(message.usage)
            if used and (current is None or current(message)):
                return used + tokens
            # An answer that a command line gave has a thread of its own behind it: no older usage tells its size.
            barred = not used and message.extra.get("api") == _CLI
        tokens += count(message)
    return tokens


def _opens_with_summary(messages: Sequence[Message]) -> bool:
    for message in messages:
        if isinstance(message, CompactionSummaryMessage):
            return True
        if isinstance(message, AssistantMessage):
            return False
    return False


def _used(usage: JSON) -> int:
    """Return the tokens of prompt and answer, in whosever words; 0 where the prompt's are not told."""
    if not isinstance(usage, Mapping):
        return 0
    for name in _TOTALS:
        if total := _number(usage.get(name)):
            return total
    for names in _PROMPTS:
        if prompt := sum(_number(usage.get(name)) for name in names):
            return prompt + next(filter(None, (_number(usage.get(name)) for name in _ANSWERS)), 0)
    return 0


def _number(value: JSON) -> int:
    # Not a number compares as less than anything; what no window can hold is no count.
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _MOST:
        return int(value)
    return 0
