"""Telling the embedding program of compactions, before and after."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import attrs

from openclaw_ctx.contract import CompactResult, EntryId, SessionId, SessionKey
from openclaw_ctx.log import describe_error, get_logger
from openclaw_ctx.transcript import History, Transcript

__all__ = ["AfterCompaction", "BeforeCompaction", "CompactionNotice", "CompactionNotices", "notice_of"]

_log = get_logger()


@attrs.frozen(kw_only=True)
class CompactionNotice:
    """
    A compaction that is about to be made, or has been.

    Attributes:
        message_count: Messages in the context before.
        token_count: What they cost; what the provider measured, where it did.
        compacted_count: How many of them are folded away, behind a compaction.
        result: What it came to; ``None`` before.
    """

    session_key: SessionKey
    session_id: SessionId
    session_file: str
    trigger: str
    message_count: int
    token_count: int
    compacted_count: int | None = None
    result: CompactResult | None = None

    @property
    def summary_length(self) -> int | None:
        """Characters of the summary; ``None`` before."""
        made = None if self.result is None else self.result.result
        return None if made is None or made.summary is None else len(made.summary)

    @property
    def first_kept_entry_id(self) -> EntryId | None:
        """The oldest entry that stays, behind a compaction that kept any."""
        made = None if self.result is None else self.result.result
        return None if made is None else made.first_kept_entry_id


BeforeCompaction: TypeAlias = Callable[[CompactionNotice], Awaitable[None] | None]
AfterCompaction: TypeAlias = Callable[[CompactionNotice], Awaitable[None] | None]


@attrs.frozen(kw_only=True)
class CompactionNotices:
    """The embedding program's functions; what they raise is logged, and keeps no compaction from being made."""

    before: BeforeCompaction | None = None
    after: AfterCompaction | None = None

    async def tell_before(self, notice: CompactionNotice) -> None:
        """Tell that something is about to be folded."""
        await _tell(self.before, notice, "before_compaction")

    async def tell_after(
        self, notice: CompactionNotice, result: CompactResult, *, before: History, after: History
    ) -> None:
        """Tell what was folded, of the context *before*; *notice* is what was told then."""
        kept = set(after.entry_ids)
        folded = sum(entry_id not in kept for entry_id in before.entry_ids)
        made = attrs.evolve(notice, result=result, compacted_count=folded)
        await _tell(self.after, made, "after_compaction")


def notice_of(key: SessionKey, transcript: Transcript, *, trigger: str, messages: int, tokens: int) -> CompactionNotice:
    """Return what there is to tell of a compaction that is about to be made."""
    return CompactionNotice(
        session_key=key,
        session_id=transcript.session_id,
        session_file=str(transcript.path),
        trigger=trigger,
        message_count=messages,
        token_count=tokens,
    )


async def _tell(function: BeforeCompaction | None, notice: CompactionNotice, name: str) -> None:
    if function is None:
        return
    try:
        answer: Any = function(notice)
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:  # noqa: BLE001 -- the embedding program's own code
        _log.warning("compaction.unheard", session=notice.session_key, operation=name, reason=describe_error(error))
