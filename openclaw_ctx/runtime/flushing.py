"""When a turn lets memory write down what a compaction will fold away."""

from collections.abc import Callable, Sequence
from datetime import datetime

import attrs

from openclaw_ctx.contract import AbortSignal, Message, SessionKey
from openclaw_ctx.log import get_logger
from openclaw_ctx.models import Model

from .flush import FlushPolicy, flush_is_due, run_flush
from .memory import Memory, MemoryFacts
from .policy import Standing

__all__ = ["Flush"]

_log = get_logger()


@attrs.frozen(kw_only=True, eq=False)
class Flush:
    """A memory, and who is asked to use it before a compaction, once for each."""

    memory: Memory
    facts: MemoryFacts
    policy: FlushPolicy
    model: Model
    model_name: str | None
    system_prompt: str | None
    now: Callable[[], datetime] = attrs.field(default=lambda: datetime.now().astimezone())

    async def run_if_due(
        self,
        messages: Sequence[Message],
        *,
        standing: Standing,
        boundary: str | None,
        tokens: int,
        window: int,
        reserve_floor: int,
        transcript_bytes: int,
        abort: AbortSignal,
    ) -> bool:
        """Return whether a flush was made; one that fails is logged, and keeps nothing from going on."""
        flushed = standing.flushed_behind == (boundary,)
        if not flush_is_due(
            self.policy,
            tokens=tokens,
            window=window,
            reserve_floor=reserve_floor,
            transcript_bytes=transcript_bytes,
            compactions=0,
            flushed_at_compaction=0 if flushed else None,
        ):
            return False
        standing.flushed_behind = (boundary,)
        result = await run_flush(
            self.model,
            self.memory,
            self.facts,
            messages,
            policy=self.policy,
            system_prompt=self.system_prompt,
            abort=abort,
            now=self.now(),
            model_name=self.model_name,
        )
        session: SessionKey = self.facts.session_key
        if result.reason is None:
            _log.info("memory.flushed", session=session, entries=result.notes)
        else:
            _log.warning("memory.failed", session=session, reason=result.reason)
        return True
