"""
The host's own compaction: fold the older part of a context into one summary.

History is never destroyed: a compaction is one more line of the transcript, and
one that would not make the context smaller is not written.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from itertools import takewhile
from typing import Final

from openclaw_ctx.contract import (
    AbortSignal,
    AssistantMessage,
    Compaction,
    CompactionSummaryMessage,
    CompactResult,
    Complete,
    Message,
    SystemMessage,
    UserMessage,
)
from openclaw_ctx.models import HEADING, summarize_extractively
from openclaw_ctx.transcript import Transcript, repair_messages

from .planner import plan_cut
from .policy import MAX_SUMMARY_CHARS, CompactionPolicy

__all__ = ["compact_transcript"]

_KEEP_SHARE: Final = 0.5
_SUMMARY_SHARE: Final = 0.2
_CHARS_PER_TOKEN: Final = 4


async def compact_transcript(  # noqa: C901 -- a first version; it is taken apart next
    transcript: Transcript,
    *,
    count: Callable[[Message], int],
    policy: CompactionPolicy = CompactionPolicy(),  # noqa: B008 -- frozen
    complete: Complete | None = None,  # noqa: ARG001 -- asked from the next version on
    token_budget: int | None = None,
    force: bool = False,
    current_token_count: int | None = None,
    focus: str | None = None,
    abort: AbortSignal | None = None,
    before: Callable[[int, int], Awaitable[None] | None] | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,  # noqa: ARG001 -- as above
    purpose: str = "context-engine.compaction",  # noqa: ARG001 -- as above
) -> CompactResult:
    """
    Compact the context of *transcript* and write the summary to it.

    At most 20,000 tokens and half of the budget stay as they are; the summary
    takes at most 16,000 characters and a fifth of the budget.
    """
    history = transcript.history
    total = await asyncio.to_thread(lambda: sum(map(count, history)))
    if not any(isinstance(message, UserMessage | AssistantMessage) for message in history):
        return CompactResult(ok=True, compacted=False, reason="no real conversation messages")
    measured = total if current_token_count is None else current_token_count
    if not force and token_budget is not None and measured <= token_budget:
        return CompactResult(ok=True, compacted=False, reason="below threshold")
    keep, room = policy.keep_recent_tokens, MAX_SUMMARY_CHARS
    if token_budget is not None:
        keep = min(keep, int(token_budget * _KEEP_SHARE))
        room = min(room, int(token_budget * _SUMMARY_SHARE) * _CHARS_PER_TOKEN)
    cut = await asyncio.to_thread(plan_cut, history, keep=keep, count=count)
    stay = list(takewhile(lambda message: isinstance(message, SystemMessage), history[:cut]))
    folded = history[len(stay) : cut]
    if all(isinstance(message, CompactionSummaryMessage) for message in folded):
        return CompactResult(ok=True, compacted=False, reason="nothing to compact")
    if room < len(HEADING):
        return CompactResult(ok=False, compacted=False, reason="the budget leaves no room for a summary")
    if before is not None:
        told = before(len(history), measured)
        if inspect.isawaitable(told):
            await told
    summary = await asyncio.to_thread(summarize_extractively, folded, max_chars=room, focus=focus)
    seen = repair_messages((*stay, CompactionSummaryMessage(summary=summary), *history[cut:])).messages
    after = sum(map(count, seen))
    if after >= total:
        return CompactResult(ok=False, compacted=False, reason="the summary is not smaller than what it replaces")
    if abort is not None:
        abort.raise_if_fired()
    if transcript.history[: cut + 1].entry_ids != history[: cut + 1].entry_ids:
        return CompactResult(ok=False, compacted=False, reason="the history was changed meanwhile")
    kept = history[cut].entry_id if cut < len(history) else None
    transcript.append_compaction(summary=summary, first_kept_entry_id=kept, tokens_before=total)
    return CompactResult(
        ok=True,
        compacted=True,
        result=Compaction(summary=summary, first_kept_entry_id=kept, tokens_before=total, tokens_after=after),
    )
