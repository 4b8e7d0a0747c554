"""
The built-in engine: everything goes to the model, and the host compacts.

It comes in by the same contract as any other, and is what answers when another cannot.
"""

from collections.abc import Sequence

from openclaw_ctx.contract import (
    LEGACY_ENGINE_ID,
    AssembleResult,
    CompactResult,
    EngineContext,
    EngineInfo,
    IngestResult,
    Message,
    RuntimeContext,
    SessionKey,
    build_memory_system_prompt_addition,
    hookimpl,
)

__all__ = ["LegacyEngine"]


class LegacyEngine:
    """Sends the context as it is; keeps no index."""

    info = EngineInfo(id=LEGACY_ENGINE_ID, name="Legacy Context Engine", version="1.0.0")

    def __init__(self, context: EngineContext) -> None:
        self._services = context.services

    @hookimpl
    def ingest(self) -> IngestResult:
        """Take nothing: the transcript is the only record."""
        return IngestResult(ingested=False)

    @hookimpl
    def assemble(self, messages: Sequence[Message], runtime_context: RuntimeContext) -> AssembleResult:
        """Return the very sequence that was given, and what memory has to say."""
        addition = build_memory_system_prompt_addition(runtime_context)
        return AssembleResult(messages=messages, estimated_tokens=0, system_prompt_addition=addition)

    @hookimpl
    def after_turn(self) -> None:
        """Do nothing, once, rather than nothing for each message."""

    @hookimpl
    async def compact(
        self,
        session_key: SessionKey,
        token_budget: int | None,
        force: bool,  # noqa: FBT001 -- the contract's
        current_token_count: int | None,
        custom_instructions: str | None,
        runtime_context: RuntimeContext,
    ) -> CompactResult:
        """Let the host compact."""
        known = runtime_context.current_token_count if current_token_count is None else current_token_count
        return await self._services.delegate_compaction(
            session_key,
            token_budget=token_budget,
            force=force,
            current_token_count=known,
            custom_instructions=custom_instructions,
        )
