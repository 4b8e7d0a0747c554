"""Runs a turn on a session: gathers what it needs, and lends it the session."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from openclaw_ctx.contract import (
    AbortSignal,
    EngineTool,
    MemoryPrompt,
    UserMessage,
)
from openclaw_ctx.errors import ModelUnavailableError
from openclaw_ctx.log import describe_error, get_logger
from openclaw_ctx.models import Model
from openclaw_ctx.runtime import (
    Flush,
    MemoryFacts,
    PromptRules,
    ToolBox,
    Turn,
    TurnEvent,
    TurnRequest,
    TurnResult,
    mark_heartbeat,
)

from .core import SessionCore
from .facts import RunFacts

__all__ = ["run_turn"]

_log = get_logger()

_CACHING: Final = frozenset({"anthropic"})
"""Providers whose prompt cache a pruned history would spoil while it is warm."""


async def run_turn(
    session: SessionCore,
    message: str | UserMessage | None,
    *,
    model: Model | None,
    model_name: str | None,
    context_window: int | None,
    system_prompt: str | None,
    tools: Sequence[EngineTool],
    max_tokens: int | None,
    is_heartbeat: bool,
    citations_mode: str | None,
    on_event: Callable[[TurnEvent], None],
    abort: AbortSignal | None,
) -> TurnResult:
    """Run one turn; see :meth:`Session.run`."""
    wiring = session.wiring
    if model is None:
        model = wiring.model
        context_window = context_window or wiring.context_window
    if model is None:
        raise ModelUnavailableError
    provider = _named(model, "provider")
    name = model_name or _named(model, "model")
    serving = await session.serving()
    offered = await session.tools() if "tools" in serving.implemented else ()
    box = ToolBox(tools, offered)
    memory = _MemoryOfRun(session, names=box.names, citations_mode=citations_mode)
    window = wiring.window_of(provider, name, context_window)
    session.facts.run_facts = RunFacts(
        model=name, provider=provider, max_output_tokens=max_tokens, memory=await memory.prompt()
    )
    stop = AbortSignal()
    forget = [signal.on_fire(_passing_on(signal, stop)) for signal in (abort, session.stopped) if signal is not None]
    try:
        turn = Turn(
            session,
            TurnRequest(
                message=_as_message(message, is_heartbeat=is_heartbeat),
                model=model,
                model_name=model_name,
                window=window,
                rules=PromptRules(
                    api=getattr(model, "api", "other"),
                    tool_names=box.names or None,
                    model=name,
                    provider=provider,
                ),
                tools=box,
                abort=stop,
                caches=provider in _CACHING,
                system_prompt=system_prompt,
                max_tokens=max_tokens,
                citations_mode=citations_mode,
                flush=memory.flush(model, model_name, system_prompt),
            ),
            policy=wiring.turns,
            standing=session.standing,
            count=wiring.count,
            tell=on_event,
            sleep=wiring.sleep,
        )
        return await turn.run()
    finally:
        for take_back in forget:
            take_back()
        session.facts.run_facts = attrs.evolve(session.facts.run_facts, memory=None)


class _MemoryOfRun:
    """The memory slot, for one run."""

    def __init__(self, session: SessionCore, *, names: frozenset[str], citations_mode: str | None) -> None:
        self._session = session
        self._memory = session.wiring.memory
        self._facts = MemoryFacts(
            session_key=session.key,
            session_id=session.transcript.session_id,
            workspace_dir=Path(session.wiring.workspace_dir),
            available_tools=names,
            citations_mode=citations_mode,
        )

    async def prompt(self) -> MemoryPrompt | None:
        """Return what memory has to say, prepared once; a memory that fails has nothing to say."""
        if self._memory is None:
            return None
        try:
            sections = await self._memory.prompt_sections(self._facts)
        except Exception as error:  # noqa: BLE001 -- a memory may be anybody's code, and no turn ends for it
            _log.warning("memory.failed", session=self._session.key, reason=describe_error(error))
            return None
        return MemoryPrompt(sections=tuple(map(str, sections)))

    def flush(self, model: Model, model_name: str | None, system_prompt: str | None) -> Flush | None:
        """Return how the memory is given the chance to write down what a compaction will fold away."""
        if self._memory is None or not self._session.wiring.flush.enabled:
            return None
        return Flush(
            memory=self._memory,
            facts=self._facts,
            policy=self._session.wiring.flush,
            model=model,
            model_name=model_name,
            system_prompt=system_prompt,
        )


def _as_message(message: str | UserMessage | None, *, is_heartbeat: bool) -> UserMessage | None:
    if message is None:
        return None
    said: object = UserMessage(content=message) if isinstance(message, str) else message
    if not isinstance(said, UserMessage):
        problem = f"run takes a text, a UserMessage, or None to go on; not {type(message).__name__}"
        raise TypeError(problem)
    if not said.content:
        problem = "run takes what the user says, and this is empty; None goes on with what is unanswered"
        raise ValueError(problem)
    return mark_heartbeat(said) if is_heartbeat else said


def _named(model: Model, attribute: str) -> str | None:
    found = getattr(model, attribute, None)
    return found if isinstance(found, str) else None


def _passing_on(signal: AbortSignal, stop: AbortSignal) -> Callable[[], None]:
    return lambda: stop.fire(signal.reason or "aborted")
