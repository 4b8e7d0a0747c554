"""What is done when a prompt does not fit, or a model does not answer under a full window."""

from collections.abc import Callable
from typing import Final

from openclaw_ctx.contract import AbortSignal, CompactResult
from openclaw_ctx.errors import EngineFailedError, TurnBlockedError
from openclaw_ctx.log import clean_text, get_logger

from .events import Compacted, Compacting, TurnEvent
from .policy import Standing
from .seat import Seat
from .truncation import oversized_results

__all__ = ["MAX_OVERFLOW_COMPACTION_ATTEMPTS", "MAX_TIMEOUT_COMPACTION_ATTEMPTS", "Recovery"]

MAX_OVERFLOW_COMPACTION_ATTEMPTS: Final = 3
"""How often one turn is compacted because its prompt was too long; the reference system's."""

MAX_TIMEOUT_COMPACTION_ATTEMPTS: Final = 2
"""How often one turn is compacted because the model did not answer in time; the reference system's."""

TIMEOUT_SHARE: Final = 0.65
"""How full the window must be for a model's silence to be laid to it; the reference system's."""

_log = get_logger()


class Recovery:
    """
    Compactions and truncations of one turn.

    Attributes:
        attempts: How often the turn was compacted because it did not fit.
        compactions: How often its context was made smaller, for whatever reason.
        summary: The last summary that was made in the turn.
    """

    def __init__(
        self, seat: Seat, *, standing: Standing, abort: AbortSignal, tell: Callable[[TurnEvent], None], cap_chars: int
    ) -> None:
        self._seat = seat
        self._standing = standing
        self._abort = abort
        self._tell = tell
        self._cap_chars = cap_chars
        self.attempts = 0
        self.compactions = 0
        self.summary: str | None = None
        self._timeouts = 0
        self._truncated = False

    async def ahead(self, *, budget: int, tokens: int, rotate: bool = False) -> bool:
        """Compact before the window is full; return whether the context is another one. A failure ends no turn."""
        result = await self._compact("budget", budget=budget, tokens=tokens, rotate=rotate)
        if not result.compacted:
            self._standing.note_vain(tokens)
        return result.compacted

    async def after_timeout(self, *, budget: int, tokens: int, window: int) -> bool:
        """Compact where the model's silence may be due to a full window; return whether to ask it again."""
        if tokens / window <= TIMEOUT_SHARE or self._timeouts >= MAX_TIMEOUT_COMPACTION_ATTEMPTS:
            return False
        self._timeouts += 1
        return (await self._compact("timeout_recovery", budget=budget, tokens=tokens)).compacted

    async def after_overflow(self, *, budget: int, tokens: int, said: str, truncate: bool = False) -> None:
        """
        Make a prompt fit that did not; the model is to be asked again.

        Args:
            budget: Tokens that the prompt may cost.
            tokens: What it cost.
            said: The provider's words.
            truncate: Whether long tool results are to be cut as well.

        Raises:
            TurnBlockedError: Everything was tried.
        """
        kind, reason = "context_overflow", said
        while self.attempts < MAX_OVERFLOW_COMPACTION_ATTEMPTS:
            self.attempts += 1
            engine_failed = False
            try:
                result = await self._try("overflow", budget=budget, tokens=tokens)
            except EngineFailedError as error:
                result, engine_failed = _failure(error), True
            if result.compacted:
                if truncate:
                    self._truncate()
                return
            if not result.ok:
                kind, reason = "compaction_failure", f"{result.reason} ({said})"
            if not engine_failed:  # then another engine answers, and may do better
                break
        if not self._truncated and self._truncate():
            self._truncated = True
            return
        raise TurnBlockedError(self._seat.key, kind, self.attempts, clean_text(reason, limit=2_000))

    def truncate_only(self) -> bool:
        """Cut long tool results in the transcript; return whether any were."""
        if self._truncated:
            return False
        self._truncated = self._truncate()
        return self._truncated

    async def _compact(self, trigger: str, *, budget: int, tokens: int, rotate: bool = False) -> CompactResult:
        try:
            return await self._try(trigger, budget=budget, tokens=tokens, rotate=rotate)
        except EngineFailedError as error:
            return _failure(error)

    async def _try(self, trigger: str, *, budget: int, tokens: int, rotate: bool = False) -> CompactResult:
        self._tell(Compacting(trigger=trigger, tokens=tokens))
        try:
            compacted = await self._seat.compact(
                budget=budget, trigger=trigger, tokens=tokens, abort=self._abort, rotate=rotate
            )
        except EngineFailedError as error:
            self._tell(Compacted(trigger=trigger, result=_failure(error)))
            raise
        result = compacted.result
        self._tell(Compacted(trigger=trigger, result=result))
        if result.compacted:
            self.compactions += 1
            self.summary = None if result.result is None else result.result.summary
            self._standing.waits_above = 0
            self._standing.loop_guard.arm()
        return result

    def _truncate(self) -> bool:
        replacements = oversized_results(self._seat.transcript.history, cap=self._cap_chars)
        if not replacements:
            return False
        rewritten = self._seat.rewrite(replacements)
        _log.info(
            "tool_results.truncated",
            session=self._seat.key,
            entries=rewritten.rewritten_entries,
            bytes=rewritten.bytes_freed,
        )
        return rewritten.changed


def _failure(error: EngineFailedError) -> CompactResult:
    return CompactResult(ok=False, compacted=False, reason=error.reason)
