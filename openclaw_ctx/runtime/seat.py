"""What a turn needs of the session that it is run on."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from openclaw_ctx.contract import JSON, AbortSignal, Message, Replacement, RewriteResult, SessionKey
from openclaw_ctx.host import Serving
from openclaw_ctx.models import ModelAnswer
from openclaw_ctx.transcript import Transcript

from .answers import CompactedContext, Prompt

__all__ = ["Seat"]


class Seat(Protocol):
    """One session, for the turn that runs on it."""

    key: SessionKey

    @property
    def transcript(self) -> Transcript:
        """The record, which may be another after a compaction."""

    def append(self, message: Message) -> Message:
        """Write *message*; return it with its entry id. Waits for nothing, so that a cancelled turn can use it."""

    async def serving(self) -> Serving:
        """
        Return who answers, introduced to the session.

        Raises:
            HostIncompatibleError: It needs what this host cannot do.
        """

    async def assemble(
        self,
        *,
        budget: int,
        system_prompt: str | None,
        tools: Sequence[Mapping[str, JSON]],
        model: str | None,
        citations_mode: str | None,
    ) -> Prompt:
        """Return what the model should see."""

    async def compact(
        self, *, budget: int, trigger: str, tokens: int, abort: AbortSignal, rotate: bool = False
    ) -> CompactedContext:
        """
        Make the context smaller; *rotate*: and go on in another transcript, whatever is configured.

        Raises:
            EngineFailedError: The engine failed; the next call is answered by ``legacy``.
        """

    def rewrite(self, replacements: Sequence[Replacement]) -> RewriteResult:
        """Write messages of the transcript anew."""

    def note_answer(self, answer: ModelAnswer) -> None:
        """Keep what the provider said of its cache, for engines."""

    def note_flush(self) -> None:
        """Keep that memory has been flushed since the last compaction, for who opens the session next."""
