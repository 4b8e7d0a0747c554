"""
What a host does for an engine: small async handles, one per wish.

They may be called from the engine's own lane at any time between the factory
and ``dispose``; each crosses to the host and back, so none blocks the lane.

Those that write, ask a model or begin a job raise ``SessionClosedError`` once the
engine has been let go, so in ``dispose`` too, and in a call that was given up.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import attrs

from .frozen import EMPTY, JSON
from .message import EntryId, Message, SessionKey
from .names import CONTRACT_VERSION
from .results import CompactResult, RewriteResult

__all__ = [
    "Background",
    "Complete",
    "CompletionRequest",
    "CompletionResult",
    "DelegateCompaction",
    "EngineContext",
    "EstimateTokens",
    "Progress",
    "Replacement",
    "RewriteTranscriptEntries",
    "Services",
    "TranscriptReader",
]


@attrs.frozen(kw_only=True)
class CompletionRequest:
    """One question to the host's model. ``max_tokens`` bounds the answer."""

    messages: Sequence[Message]
    system_prompt: str | None = None
    max_tokens: int | None = None
    purpose: str | None = None


@attrs.frozen(kw_only=True)
class CompletionResult:
    """The model's answer, and the provider's token counts where it gave any."""

    text: str
    usage: Mapping[str, JSON] | None = None


@attrs.frozen(kw_only=True)
class Replacement:
    """A message that shall stand where the entry's stands."""

    entry_id: EntryId
    message: Message


Complete: TypeAlias = Callable[[CompletionRequest], Awaitable[CompletionResult]]
EstimateTokens: TypeAlias = Callable[[Message], int]
"""The host's estimate of one message; pure, cached on the message, callable from any thread."""
Progress: TypeAlias = Callable[[], float | None]
"""How far a background job has come, 0 to 1; ``None`` where it cannot tell."""
RewriteTranscriptEntries: TypeAlias = Callable[[Sequence[Replacement]], Awaitable[RewriteResult]]


class TranscriptReader(Protocol):
    """Reads what the host has written."""

    async def read(
        self, session_key: SessionKey, *, after: EntryId | None = None, limit: int | None = None
    ) -> Sequence[Message]:
        """
        Return the messages of the active branch behind *after*, oldest first, at most *limit*.

        Summarised messages are among them: this is the record, not the context.
        An unknown *after* reads from the beginning.
        """


class DelegateCompaction(Protocol):
    """The host's own compaction, for engines that do not compact themselves."""

    async def __call__(
        self,
        session_key: SessionKey,
        *,
        token_budget: int | None = None,
        force: bool = False,
        current_token_count: int | None = None,
        custom_instructions: str | None = None,
    ) -> CompactResult:
        """Compact and write the result to the transcript; history is never destroyed by a failure."""


class Background(Protocol):
    """Runs what takes longer than a hook may."""

    def __call__(self, job: Coroutine[Any, Any, object], *, name: str, progress: Progress | None = None) -> None:
        """
        Run *job* in the engine's lane; return at once. Call it in the lane.

        A job that raises quarantines the engine, as a hook that raises does;
        jobs that still run when the host closes are cancelled.
        """


@attrs.frozen(kw_only=True)
class Services:
    """Everything that a host does for an engine."""

    transcript: TranscriptReader
    delegate_compaction: DelegateCompaction
    complete: Complete
    estimate_tokens: EstimateTokens
    rewrite_transcript_entries: Callable[[SessionKey, Sequence[Replacement]], Awaitable[RewriteResult]]
    background: Background


@attrs.frozen(kw_only=True)
class EngineContext:
    """
    What a factory is given.

    Attributes:
        config: ``plugins.entries.<id>.config``, structured by the factory's
            ``config_class`` where it has one, else a frozen JSON object.
        state_dir: A private folder for this engine alone; it is there.
    """

    engine_id: str
    config: JSON = EMPTY
    state_dir: Path
    workspace_dir: Path
    services: Services
    contract_version: str = CONTRACT_VERSION
