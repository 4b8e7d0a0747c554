"""
The host's own compaction: fold the older part of a context into one summary.

History is never destroyed: a compaction is one more line of the transcript, and
one that would not make the context smaller is not written.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final

import attrs

from openclaw_ctx.contract import (
    JSON,
    AbortSignal,
    Compaction,
    CompactionSummaryMessage,
    CompactResult,
    Complete,
    EntryId,
    Message,
)
from openclaw_ctx.log import clean_text, describe_error
from openclaw_ctx.models import HEADING, obeying
from openclaw_ctx.transcript import History, Transcript, repair_messages

from .planner import Declined, Preparation, prepare
from .policy import CompactionPolicy
from .stored import Facts, facts_of
from .summarizer import Summarizer
from .threads import off_loop
from .writing import SUMMARY_SHARE, Writer, summary_tokens

__all__ = ["compact_transcript"]

PURPOSE: Final = "context-engine.compaction"
"""Stands on every request to the summariser; the reference system's."""

DEFAULT_POLICY: Final = CompactionPolicy()


async def compact_transcript(
    transcript: Transcript,
    *,
    count: Callable[[Message], int],
    policy: CompactionPolicy = DEFAULT_POLICY,
    complete: Complete | None = None,
    token_budget: int | None = None,
    force: bool = False,
    current_token_count: int | None = None,
    focus: str | None = None,
    abort: AbortSignal | None = None,
    before: Callable[[int, int], Awaitable[None] | None] | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    purpose: str = PURPOSE,
) -> CompactResult:
    """
    Compact the context of *transcript* and write the summary to it.

    By default at most 20,000 tokens stay as they are, and half of the budget;
    the summary takes at most 16,000 characters and a fifth of the budget.
    What is appended meanwhile stays; where what was folded has changed
    meanwhile, nothing is written. Work over many messages is done in a thread.

    Args:
        transcript: Open for writing.
        count: Tokens of one message; called in threads.
        policy: How much stays, and what the summariser is told.
        complete: Asks the summarising model; ``None``: lines are copied, no model is asked.
        token_budget: Tokens that the context may cost; ``None``: only the policy holds.
        force: Compact below the budget too.
        current_token_count: What the caller measured; counted here where it is not given.
        focus: What the user asked to be kept.
        abort: Ends the compaction; the transcript is then as it was.
        before: Told the number of messages and of tokens, once something is going to be folded.
        sleep: Waits between tries of the model.
        purpose: Stands on every request to the model.

    Returns:
        ``ok`` without ``compacted`` where there was nothing to do; not ``ok`` where
        it was tried and the transcript was left as it was. ``reason`` says why.

    Raises:
        AbortError: *abort* has fired; or the very exception that it was fired with.
    """
    asked = _Asked(
        policy=policy,
        count=count,
        token_budget=token_budget,
        force=force,
        current_token_count=current_token_count,
        focus=focus,
        before=before,
        summarizer=None
        if complete is None
        else Summarizer(
            complete=complete,
            count=count,
            window=policy.context_window,
            max_tokens=summary_tokens(policy, SUMMARY_SHARE),
            sleep=sleep,
            purpose=purpose,
        ),
    )
    history, boundary = transcript.history, transcript.boundary_id
    async with obeying(abort):
        draft = await _draft(transcript, history, boundary, asked)
    if abort is not None:
        abort.raise_if_fired()  # it may have fired when the work was done already
    # From here on nothing is waited for: what is checked is what is written upon.
    return draft if isinstance(draft, CompactResult) else _commit(transcript, history, boundary, draft)


@attrs.frozen(kw_only=True, eq=False)
class _Asked:
    policy: CompactionPolicy
    count: Callable[[Message], int]
    token_budget: int | None
    force: bool
    current_token_count: int | None
    focus: str | None
    before: Callable[[int, int], Awaitable[None] | None] | None
    summarizer: Summarizer | None


@attrs.frozen(kw_only=True)
class _Draft:
    """A compaction that is ready to be written."""

    made: Preparation
    summary: str
    tokens_after: int
    details: dict[str, JSON]


async def _draft(
    transcript: Transcript, history: History, boundary: EntryId | None, asked: _Asked
) -> _Draft | CompactResult:
    """Do all but the writing; a result where there is nothing to write."""
    size = len(history)
    made = await off_loop(
        size,
        prepare,
        history,
        count=asked.count,
        policy=asked.policy,
        token_budget=asked.token_budget,
        force=asked.force,
        current_token_count=asked.current_token_count,
    )
    if isinstance(made, Declined):
        return CompactResult(ok=True, compacted=False, reason=made.reason)
    if made.room < len(HEADING):
        return _failed("the budget leaves no room for a summary")
    if asked.before is not None:
        measured = made.tokens_before if asked.current_token_count is None else asked.current_token_count
        told = asked.before(size, measured)
        if inspect.isawaitable(told):
            await told
    facts, earlier = await off_loop(size, _facts, transcript, boundary, made)
    writer = Writer(
        policy=asked.policy,
        count=asked.count,
        summarizer=asked.summarizer,
        prepared=made,
        focus=asked.focus,
        facts=facts,
        earlier=earlier,
    )
    try:
        summary = await writer.write()
    except Exception as failure:  # noqa: BLE001 -- a model of anybody's may raise anything, and history stays as it is
        return _failed(_why(failure))
    if not summary.strip():
        return _failed("the summary is empty")
    after = await off_loop(size, _tokens_after, made, summary, asked.count)
    if after >= made.tokens_before:
        return _failed("the summary is not smaller than what it replaces")
    return _Draft(made=made, summary=summary, tokens_after=after, details=facts.to_details())


def _commit(transcript: Transcript, history: History, boundary: EntryId | None, draft: _Draft) -> CompactResult:
    """Write a compaction, if what it was made of is still there; what was appended meanwhile stays."""
    made, now = draft.made, transcript.history
    read = slice(made.cut + 1)
    if transcript.boundary_id != boundary or now[read].entry_ids != history[read].entry_ids:
        return _failed("the history was changed while it was being summarised")
    kept = now[made.cut].entry_id if made.cut < len(now) else None
    transcript.append_compaction(
        summary=draft.summary, first_kept_entry_id=kept, tokens_before=made.tokens_before, details=draft.details
    )
    return CompactResult(
        ok=True,
        compacted=True,
        result=Compaction(
            summary=draft.summary,
            first_kept_entry_id=kept,
            tokens_before=made.tokens_before,
            tokens_after=draft.tokens_after,
            details=draft.details,
        ),
    )


def _facts(transcript: Transcript, boundary: EntryId | None, made: Preparation) -> tuple[Facts, Facts]:
    """Return what is known once the folded messages are gone, and what the last compaction knew."""
    earlier = Facts()
    if boundary is not None and made.previous is not None:
        steps = transcript.rewind_steps(boundary)
        data = steps[0][1] if steps else {}
        # What another program stored beside its own summary is in its own words.
        earlier = Facts() if data.get("fromHook") else Facts.from_details(data.get("details"))
    return facts_of(made.folded, (*made.folded, *made.kept), earlier), earlier


def _tokens_after(made: Preparation, summary: str, count: Callable[[Message], int]) -> int:
    context = (*made.standing, CompactionSummaryMessage(summary=summary), *made.kept)
    return sum(map(count, repair_messages(context).messages))


def _why(failure: Exception) -> str:
    # A refusal of ours is a sentence already; anything else names its kind.
    if type(failure) is ValueError:
        return clean_text(str(failure))
    return f"summarization failed: {describe_error(failure)}"


def _failed(reason: str) -> CompactResult:
    return CompactResult(ok=False, compacted=False, reason=reason)
