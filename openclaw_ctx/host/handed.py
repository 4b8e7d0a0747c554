"""
Functions that an engine hands out: its tools, and the way back from a preparation.

They are the engine's code as much as its hooks are, so they run where its hooks
run, within a deadline. What they raise is told to whoever calls them and bars
nobody: that a tool fails is an agent's daily bread.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from openclaw_ctx.contract import JSON, EngineTool, SubagentPreparation, freeze
from openclaw_ctx.errors import EngineFailedError
from openclaw_ctx.log import clean_text

from .engine import BuiltEngine
from .lane import DeadlineExceeded, LaneFault
from .permit import Permit

__all__ = ["hold_preparation", "hold_tools"]


def hold_tools(engine: BuiltEngine, tools: Sequence[EngineTool], *, seconds: float) -> tuple[EngineTool, ...]:
    """
    Return *tools* as an agent may call them: each answers a text or raises ``EngineFailedError``.

    Args:
        engine: Whose they are.
        tools: As its hook answered.
        seconds: That one call may take.
    """
    return tuple(attrs.evolve(tool, call=_held_tool(engine, tool, seconds)) for tool in tools)


def hold_preparation(engine: BuiltEngine, preparation: SubagentPreparation, *, seconds: float) -> SubagentPreparation:
    """Return *preparation* with a way back that runs in the lane, within *seconds*."""

    async def rollback() -> None:
        await _run(engine, "rollback", preparation.rollback, lambda _: None, seconds)

    return attrs.evolve(preparation, rollback=rollback)


def _held_tool(engine: BuiltEngine, tool: EngineTool, seconds: float) -> Callable[[Mapping[str, JSON]], Any]:
    async def call(arguments: Mapping[str, JSON]) -> str:
        told = freeze(dict(arguments))
        text: str = await _run(engine, f"tool:{tool.name}", lambda: tool.call(told), _text, seconds)
        return text

    return call


async def _run(
    engine: BuiltEngine, operation: str, function: Callable[[], Any], settle: Callable[[Any], Any], seconds: float
) -> Any:
    def failed(reason: str) -> EngineFailedError:
        return EngineFailedError(engine.engine_id, engine.owner, operation, clean_text(reason))

    async def call(_permit: Permit) -> Any:
        answer = function()
        return settle(await answer if inspect.isawaitable(answer) else answer)

    if engine.is_retired:
        reason = "the engine was let go"
        raise failed(reason)
    try:
        return await engine.lane.run(call, seconds=seconds)
    except LaneFault as envelope:
        if isinstance(envelope.error, KeyboardInterrupt):
            raise envelope.error from None
        raise failed(envelope.reason) from envelope.error
    except DeadlineExceeded as error:
        raise failed(str(error)) from error


def _text(answer: Any) -> str:
    if not isinstance(answer, str):
        problem = f"it answered {type(answer).__name__}, not the text of the result"
        raise TypeError(problem)
    return str.__str__(answer)  # a subclass is the engine's code
