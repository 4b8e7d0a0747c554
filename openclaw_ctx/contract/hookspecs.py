"""
The whole contract between a host and a context engine, as a pluggy hookspec.

An engine is any object with an ``info`` (:class:`EngineInfo`) and methods marked
with :data:`hookimpl`. It must have ``ingest``, ``assemble`` and ``compact``. A
method may be ``async def`` or plain ``def``, and names only the parameters that it
wants: that is how the host may add one without breaking an engine.

Every call has a deadline. What raises, hangs or answers nonsense is
quarantined, and the built-in engine answers in its place.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, TypeAlias

import pluggy

from .abort import AbortSignal
from .message import Message, SessionId, SessionKey
from .results import (
    AssembleResult,
    BootstrapResult,
    CommitTurnResult,
    CompactResult,
    EngineTool,
    IngestBatchResult,
    IngestResult,
    RewriteResult,
    SubagentPreparation,
)
from .runtime import BootstrapReason, RuntimeContext, RuntimeSettings

__all__ = ["PROJECT", "EngineSpec", "SubagentEnd", "hookimpl", "hookspec"]

PROJECT = "openclaw_ctx"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks the methods of an engine that are hooks."""

_CompactionTarget: TypeAlias = Literal["budget", "threshold"]
SubagentEnd: TypeAlias = Literal["deleted", "completed", "swept", "released"]
"""Why a subagent ended: its session was deleted, its work is done, its time was up, or it was let go."""


class EngineSpec:
    """
    The hooks, in the order of a session's life.

    ``None``, where a hook may answer it, says nothing: the host goes on as if the
    engine did not have the hook. From any other hook it is a fault.
    """

    @hookspec(firstresult=True)
    def bootstrap(
        self,
        session_id: SessionId,
        session_key: SessionKey,
        session_file: str,
        reason: BootstrapReason,
        previous_session_id: SessionId | None,
        runtime_settings: RuntimeSettings,
        runtime_context: RuntimeContext,
    ) -> BootstrapResult | None:
        """
        Meet a session, once for each engine built and each session.

        Return soon: a long import goes on through ``services.background``.
        *reason* tells whether the engine knows the session already, and
        *previous_session_id* which transcript it goes on from.
        """

    @hookspec(firstresult=True)
    def ingest(
        self,
        session_id: SessionId,
        session_key: SessionKey,
        message: Message,
        is_heartbeat: bool,
        runtime_settings: RuntimeSettings,
        runtime_context: RuntimeContext,
    ) -> IngestResult | None:
        """
        Take one message into the index. The host has written it already.

        The same ``message.entry_id`` may come twice after a crash: take it once.
        """

    @hookspec(firstresult=True)
    def ingest_batch(
        self,
        session_id: SessionId,
        session_key: SessionKey,
        messages: Sequence[Message],
        is_heartbeat: bool,
        runtime_settings: RuntimeSettings,
        runtime_context: RuntimeContext,
    ) -> IngestBatchResult | None:
        """Take a finished turn, or missed history, as one unit."""

    @hookspec(firstresult=True)
    def assemble(
        self,
        session_id: SessionId,
        session_key: SessionKey,
        messages: Sequence[Message],
        token_budget: int | None,
        available_tools: AbstractSet[str],
        citations_mode: str | None,
        model: str | None,
        prompt: str | None,
        runtime_settings: RuntimeSettings,
        runtime_context: RuntimeContext,
    ) -> AssembleResult:
        """
        Choose what the model sees.

        *messages* is the context that the host would send: a lazy, immutable
        sequence, oldest first, its last the one to be answered. Walking it
        backwards costs what is walked. *token_budget* is for the messages
        alone; *prompt* is the incoming user text, for retrieval.
        """

    @hookspec(firstresult=True)
    def compact(
        self,
        session_id: SessionId,
        session_key: SessionKey,
        session_file: str,
        token_budget: int | None,
        force: bool,
        force_reason: Literal["manual", "preflight_required"] | None,
        current_token_count: int | None,
        compaction_target: _CompactionTarget,
        custom_instructions: str | None,
        runtime_settings: RuntimeSettings,
        runtime_context: RuntimeContext,
        abort_signal: AbortSignal,
    ) -> CompactResult:
        """
        Make the context smaller, or say why not.

        *force* skips the engine's own threshold. An engine that does not
        compact by itself returns ``await services.delegate_compaction(...)``.
        Stop promptly when *abort_signal* fires. A failure here is the
        caller's to see: no other engine compacts in the same call.
        """

    @hookspec(firstresult=True)
    def after_turn(
        self,
        session_id: SessionId,
        session_key: SessionKey,
        session_file: str,
        messages: Sequence[Message],
        pre_prompt_message_count: int,
        auto_compaction_summary: str | None,
        is_heartbeat: bool,
        token_budget: int | None,
        runtime_settings: RuntimeSettings,
        runtime_context: RuntimeContext,
    ) -> None:
        """
        Take a finished turn: ``messages[pre_prompt_message_count:]``.

        Replaces ``ingest_batch`` and ``ingest`` for turns where an engine has it.
        """

    @hookspec(firstresult=True)
    def maintain(
        self,
        session_id: SessionId,
        session_key: SessionKey,
        session_file: str,
        runtime_settings: RuntimeSettings,
        runtime_context: RuntimeContext,
        abort_signal: AbortSignal,
    ) -> RewriteResult | None:
        """Tidy up after a bootstrap, a turn or a compaction; may rewrite the transcript."""

    @hookspec(firstresult=True)
    def prepare_subagent_spawn(
        self,
        parent_session_key: SessionKey,
        child_session_key: SessionKey,
        context_mode: Literal["isolated", "fork"],
        parent_session_id: SessionId | None,
        parent_session_file: str | None,
        child_session_id: SessionId | None,
        child_session_file: str | None,
        ttl_ms: int | None,
        runtime_settings: RuntimeSettings,
        runtime_context: RuntimeContext,
    ) -> SubagentPreparation | None:
        """Get ready for a child session. A failure here fails the spawn."""

    @hookspec(firstresult=True)
    def on_subagent_ended(
        self,
        child_session_key: SessionKey,
        reason: SubagentEnd,
        runtime_settings: RuntimeSettings,
        runtime_context: RuntimeContext,
    ) -> None:
        """Let go of a child session."""

    @hookspec(firstresult=True)
    def commit_turn(
        self,
        session_id: SessionId,
        session_key: SessionKey,
        advancement_key: str,
        messages: Sequence[Message],
        runtime_settings: RuntimeSettings,
        runtime_context: RuntimeContext,
    ) -> CommitTurnResult:
        """
        Advance durably by one accepted turn, atomically and once for each *advancement_key*.

        Called in the place of ``after_turn``, ``ingest_batch`` and ``ingest`` where
        ``info.turn_advancement`` declares it. *messages* go from the user's message
        to the answer; a turn that failed or was cancelled is never committed. The
        same key may come again after a crash: answer ``duplicate``.
        """

    @hookspec(firstresult=True)
    def tools(
        self, session_key: SessionKey, runtime_settings: RuntimeSettings, runtime_context: RuntimeContext
    ) -> Sequence[EngineTool] | None:
        """Return what the engine offers the agent to call."""

    @hookspec(firstresult=True)
    def dispose(self) -> None:
        """Release what the engine holds. Nothing is called afterwards."""
