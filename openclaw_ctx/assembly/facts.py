"""What every hook call of a session is told."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from openclaw_ctx.contract import (
    Complete,
    CompletionRequest,
    CompletionResult,
    HostDescriptor,
    MemoryPrompt,
    PromptCache,
    Replacement,
    RewriteResult,
    RuntimeContext,
    RuntimeSettings,
    SessionKey,
    build_runtime_settings,
)
from openclaw_ctx.errors import SessionClosedError
from openclaw_ctx.host import Permit, acting_permit
from openclaw_ctx.transcript import Transcript

from .services import HostServices

__all__ = ["CallFacts", "RunFacts"]


@attrs.frozen(kw_only=True)
class RunFacts:
    """What holds for a whole run; without a run, nothing of it is known."""

    model: str | None = None
    provider: str | None = None
    max_output_tokens: int | None = None
    memory: MemoryPrompt | None = None


class CallFacts:
    """The parameters that hooks share, for one session."""

    def __init__(
        self,
        key: SessionKey,
        transcript: Transcript,
        *,
        descriptor: HostDescriptor,
        workspace_dir: Path,
        services: HostServices,
        model: Complete | None,
        asked: str,
    ) -> None:
        self._key = key
        self._transcript = transcript
        self._descriptor = descriptor
        self._workspace = str(workspace_dir)
        self._services = services
        self._complete = None if model is None else self._ask
        self._asked = asked
        self.run_facts = _NO_RUN
        self.prompt_cache: PromptCache | None = None
        # The last call's: from turn to turn they hardly change.
        self._settings: tuple[tuple[object, ...], RuntimeSettings] | None = None
        self._context: tuple[tuple[object, ...], RuntimeContext] | None = None

    def names(self) -> dict[str, Any]:
        """Return session id and key."""
        return {"session_id": self._transcript.session_id, "session_key": self._key}

    def file(self) -> dict[str, Any]:
        """Return session id, key and file."""
        return {**self.names(), "session_file": str(self._transcript.path)}

    def run(
        self,
        *,
        budget: int | None = None,
        model: str | None = None,
        tokens: int | None = None,
        trigger: str | None = None,
        ended: bool = False,
        deferred: bool = False,
    ) -> Mapping[str, Any]:
        """
        Return runtime settings and context.

        Args:
            budget: Tokens that the messages may cost.
            model: The model that will be asked.
            tokens: What the context costs now, where that is known.
            trigger: Why a compaction was asked for.
            ended: Whether the turn has ended, so that the transcript may be rewritten.
            deferred: Whether this is the maintenance that a compaction was put off for.
        """
        return {
            "runtime_settings": self._runtime_settings(budget, model),
            "runtime_context": self._runtime_context(budget, tokens, trigger, ended=ended, deferred=deferred),
        }

    def _runtime_settings(self, budget: int | None, model: str | None) -> RuntimeSettings:
        facts = self.run_facts
        model = facts.model if model is None else model
        key = (budget, model, facts)
        if self._settings is None or self._settings[0] != key:
            settings = build_runtime_settings(
                self._descriptor,
                requested_model=model,
                resolved_model=model,
                provider=facts.provider,
                selected_engine_id=self._asked,
                prompt_token_budget=budget,
                max_output_tokens=facts.max_output_tokens,
            )
            self._settings = (key, settings)
        return self._settings[1]

    def _runtime_context(
        self, budget: int | None, tokens: int | None, trigger: str | None, *, ended: bool, deferred: bool
    ) -> RuntimeContext:
        key = (budget, tokens, trigger, ended, deferred, self.run_facts, self.prompt_cache)
        if self._context is None or self._context[0] != key:
            context = RuntimeContext(
                cwd=self._workspace,
                workspace_dir=self._workspace,
                token_budget=budget,
                current_token_count=tokens,
                trigger=trigger,
                allow_deferred_compaction_execution=deferred,
                prompt_cache=self.prompt_cache,
                memory_prompt=self.run_facts.memory,
                rewrite_transcript_entries=self._rewrite if ended else None,
                complete=self._complete,
            )
            self._context = (key, context)
        return self._context[1]

    async def _rewrite(self, replacements: Sequence[Replacement]) -> RewriteResult:
        return await self._services.rewrite(self._key, replacements, _permit())

    async def _ask(self, request: CompletionRequest) -> CompletionResult:
        return await self._services.ask(request, _permit())


_NO_RUN: Final = RunFacts()


def _permit() -> Permit:
    """Return what the running call holds: the context serves every engine, so it cannot say whose call it is."""
    permit = acting_permit()
    if permit is None:
        name = "The call that this runtime_context was given to"
        raise SessionClosedError(name)
    return permit
