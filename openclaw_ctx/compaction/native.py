"""
The host's own compaction: fold the older part of a context into one summary.

History is never destroyed: a compaction is one more line of the transcript, and
one that would not make the context smaller is not written.
"""

from collections.abc import Callable
from itertools import takewhile
from typing import Final

from openclaw_ctx.contract import (
    AssistantMessage,
    Compaction,
    CompactionSummaryMessage,
    CompactResult,
    Message,
    SystemMessage,
    UserMessage,
)
from openclaw_ctx.models import HEADING, summarize_extractively
from openclaw_ctx.transcript import Transcript, repair_messages

from .planner import plan_cut

__all__ = ["KEEP_RECENT_TOKENS", "MAX_SUMMARY_CHARS", "compact_transcript"]

KEEP_RECENT_TOKENS: Final = 20_000
"""Tokens that stay unfolded; the reference system's default."""

MAX_SUMMARY_CHARS: Final = 16_000
"""The reference system's cap of a stored summary."""

_KEEP_SHARE: Final = 0.5
_SUMMARY_SHARE: Final = 0.2
_CHARS_PER_TOKEN: Final = 4


def compact_transcript(
    transcript: Transcript,
    *,
    count: Callable[[Message], int],
    token_budget: int | None = None,
    force: bool = False,
    current_token_count: int | None = None,
    focus: str | None = None,
) -> CompactResult:
    """
    Compact the context of *transcript* and write the summary to it.

    At most 20,000 tokens and half of the budget stay as they are; the summary
    takes at most 16,000 characters and a fifth of the budget.

    Args:
        transcript: Open for writing.
        count: Tokens of one message.
        token_budget: Tokens that the context may cost; ``None``: only the defaults hold.
        force: Compact below the budget too.
        current_token_count: What the caller measured; counted here where it is not given.
        focus: What the user asked to be kept.

    Returns:
        ``ok`` without ``compacted`` where there was nothing to do; not ``ok`` where
        it was tried and the transcript was left as it was. ``reason`` says why.
    """
    history = transcript.history
    before = sum(map(count, history))
    if not any(isinstance(message, UserMessage | AssistantMessage) for message in history):
        return CompactResult(ok=True, compacted=False, reason="no real conversation messages")
    measured = before if current_token_count is None else current_token_count
    if not force and token_budget is not None and measured <= token_budget:
        return CompactResult(ok=True, compacted=False, reason="below threshold")
    keep, room = KEEP_RECENT_TOKENS, MAX_SUMMARY_CHARS
    if token_budget is not None:
        keep = min(keep, int(token_budget * _KEEP_SHARE))
        room = min(room, int(token_budget * _SUMMARY_SHARE) * _CHARS_PER_TOKEN)
    cut = plan_cut(history, keep=keep, count=count)
    stay = list(takewhile(lambda message: isinstance(message, SystemMessage), history[:cut]))
    folded = history[len(stay) : cut]
    if all(isinstance(message, CompactionSummaryMessage) for message in folded):
        return CompactResult(ok=True, compacted=False, reason="nothing to compact")
    if room < len(HEADING):
        return CompactResult(ok=False, compacted=False, reason="the budget leaves no room for a summary")
    summary = summarize_extractively(folded, max_chars=room, focus=focus)
    seen = repair_messages((*stay, CompactionSummaryMessage(summary=summary), *history[cut:])).messages
    after = sum(map(count, seen))
    if after >= before:
        return CompactResult(ok=False, compacted=False, reason="the summary is not smaller than what it replaces")
    kept = history[cut].entry_id if cut < len(history) else None
    transcript.append_compaction(summary=summary, first_kept_entry_id=kept, tokens_before=before)
    return CompactResult(
        ok=True,
        compacted=True,
        result=Compaction(summary=summary, first_kept_entry_id=kept, tokens_before=before, tokens_after=after),
    )
