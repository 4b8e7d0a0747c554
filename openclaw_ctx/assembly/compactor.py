"""Makes the context of one session smaller: asks the engine, checks what it answers, writes it, goes on elsewhere."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

import attrs

from openclaw_ctx.compaction import off_loop
from openclaw_ctx.contract import (
    LEGACY_ENGINE_ID,
    AbortSignal,
    CompactionSummaryMessage,
    CompactResult,
    EntryId,
    Message,
    SessionKey,
    SystemMessage,
    UserMessage,
)
from openclaw_ctx.host import InvalidResult, Serving, require_host
from openclaw_ctx.runtime import CompactedContext
from openclaw_ctx.transcript import History, Rotation, Transcript, repair_messages

from .courier import Courier
from .facts import CallFacts
from .notices import notice_of
from .wiring import Wiring

__all__ = ["DEFERRED", "Compactor"]

DEFERRED: Final = "deferred to background context-engine maintenance"
"""Why a compaction that was asked for ahead of need was not made; the reference system's words."""


class Compactor:
    """
    Compacts one session.

    *put_off* asks for the maintenance that makes a compaction which may wait.
    """

    def __init__(
        self,
        key: SessionKey,
        transcript: Transcript,
        *,
        wiring: Wiring,
        facts: CallFacts,
        courier: Courier,
        put_off: Callable[[], None],
    ) -> None:
        self._key = key
        self._transcript = transcript
        self._wiring = wiring
        self._facts = facts
        self._courier = courier
        self._put_off = put_off

    async def compact(
        self,
        serving: Serving,
        *,
        budget: int | None,
        force: bool,
        focus: str | None,
        trigger: str,
        tokens: int | None,
        abort: AbortSignal | None,
        rotate: bool,
    ) -> CompactedContext:
        """Do it; *budget* is for messages alone. See :meth:`Session.compact`."""
        require_host(serving.info, "manual-compact", self._wiring.descriptor)
        if trigger == "budget" and _maintains_behind(serving) and serving.info.owns_compaction:
            self._put_off()
            result = CompactResult(ok=True, compacted=False, reason=DEFERRED)
            return CompactedContext(result=result, engine=serving.engine_id, substitution=serving.substitution)
        transcript, guard = self._transcript, self._wiring.guard
        boundary, history = transcript.boundary_id, transcript.history
        before = await self._count(history)
        tokens = before if tokens is None else tokens
        notice = notice_of(self._key, transcript, trigger=trigger, messages=len(history), tokens=tokens)
        if serving.info.owns_compaction:
            await self._wiring.notices.tell_before(notice)
        arguments = {
            **self._facts.file(),
            **self._facts.run(budget=budget, tokens=tokens, trigger=trigger),
            "token_budget": budget,
            "force": force,
            "force_reason": _force_reason(trigger) if force else None,
            "current_token_count": tokens,
            "compaction_target": "budget",
            "custom_instructions": focus,
        }
        triggers = self._wiring.services.triggers
        triggers[self._key] = trigger
        try:
            answer = await guard.call("compact", arguments, abort=abort, check=self._check)
        finally:
            del triggers[self._key]
        written = transcript.boundary_id != boundary
        result = answer.value if written else await self._write(answer.value, before, trigger)
        if result.compacted:
            if not written:
                await self._wiring.notices.tell_after(notice, result, before=history, after=transcript.history)
            if rotate or self._wiring.rotates:
                self.rotate()
            await self._courier.maintain()
        return CompactedContext(
            result=result, engine=answer.serving.engine_id, substitution=answer.serving.substitution
        )

    def rotate(self) -> Rotation:
        """Go on in a new transcript, without what the last compaction stands for; see :meth:`Session.rotate`."""
        rotation = self._wiring.store.rotate(self._transcript)
        if rotation.rotated:
            self._courier.follow_rewrite()
        return rotation

    async def _count(self, messages: Sequence[Message]) -> int:
        return await off_loop(len(messages), self._wiring.count.total, messages)

    def _check(self, result: CompactResult) -> CompactResult:
        made = result.result
        kept = made.first_kept_entry_id if made is not None else None
        if made is not None and (made.session_id or made.session_file):
            raise InvalidResult("compact", "a successor transcript, and this host goes on in the one it has")
        if result.compacted and kept is not None and not self._transcript.has_entry(kept):
            raise InvalidResult("compact", "a first_kept_entry_id that is not on the active branch")
        return result

    async def _write(self, result: CompactResult, before: int, trigger: str) -> CompactResult:
        """Write what an engine summarised by itself."""
        made = result.result
        if not (result.ok and result.compacted and made is not None and made.summary):
            return result
        kept = made.first_kept_entry_id
        if kept is None and trigger != "manual":  # in a turn: what it is about is not folded away
            kept = _unanswered(self._transcript.history)
        after = await self._count(_context_after(self._transcript.history, made.summary, kept))
        if after >= before:
            reason = "the summary is not smaller than what it replaces"
            return CompactResult(ok=False, compacted=False, reason=reason)
        self._transcript.append_compaction(
            summary=made.summary,
            first_kept_entry_id=kept,
            tokens_before=made.tokens_before or before,
            details=made.details,
        )
        written = attrs.evolve(made, first_kept_entry_id=kept, tokens_before=before, tokens_after=after)
        return attrs.evolve(result, result=written)


def _maintains_behind(serving: Serving) -> bool:
    return (
        serving.engine_id != LEGACY_ENGINE_ID
        and serving.info.turn_maintenance_mode == "background"
        and "maintain" in serving.implemented
    )


def _force_reason(trigger: str) -> str:
    return "manual" if trigger == "manual" else "preflight_required"


def _unanswered(history: History) -> EntryId | None:
    """Return what the user said last, where nobody has answered: no summary takes its place."""
    last = history[-1] if history else None
    return last.entry_id if isinstance(last, UserMessage) else None


def _context_after(history: History, summary: str, kept_from: EntryId | None) -> Sequence[Message]:
    """Return what a prompt would hold behind a compaction, repaired as a prompt is."""
    kept: list[Message] = []
    for message in reversed(history) if kept_from is not None else ():
        kept.append(message)
        if message.entry_id == kept_from:
            break
    opening = takewhile(lambda message: isinstance(message, SystemMessage), history[: len(history) - len(kept)])
    made = CompactionSummaryMessage(summary=summary)
    return repair_messages((*opening, made, *reversed(kept))).messages
