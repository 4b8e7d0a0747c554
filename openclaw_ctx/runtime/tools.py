"""The agent's tools: what a model may call, and running what it calls."""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from openclaw_ctx.contract import JSON, AbortSignal, EngineTool, TextBlock, ToolCallBlock, ToolResultMessage
from openclaw_ctx.log import clean_text, describe_error, get_logger
from openclaw_ctx.models import obeying

from .events import ToolEnded, ToolStarted, TurnEvent

__all__ = ["CANCELLED", "CUT_SHORT", "ToolBox", "cut_short"]

_log = get_logger()

CANCELLED: Final = "The tool was cancelled before it answered."
"""Stands as the result of a call that a cancelled turn left behind."""

CUT_SHORT: Final = "The answer was cut off before this call was complete, so the tool was not run."
"""Stands as the result of a call in an answer that had no more room."""

_LONGEST_ERROR: Final = 4_000


class ToolBox:
    """
    The tools of one turn: the agent's own, and those that the engine offers.

    Where both have a name, the agent's own is meant. What it answers is a text, or
    a whole ``ToolResultMessage`` where there is more to tell than a text; it is told
    of no call, so the id and the name of that are set here.
    """

    def __init__(self, own: Sequence[EngineTool], offered: Sequence[EngineTool]) -> None:
        self._tools: dict[str, EngineTool] = {tool.name: tool for tool in own}
        for tool in offered:
            if tool.name in self._tools:
                _log.warning("tool.shadowed", tool=clean_text(tool.name))
            else:
                self._tools[tool.name] = tool
        self.schemas: tuple[Mapping[str, JSON], ...] = tuple(
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in self._tools.values()
        )

    @property
    def names(self) -> frozenset[str]:
        """What the model may call."""
        return frozenset(self._tools)

    async def run(
        self,
        calls: Sequence[ToolCallBlock],
        *,
        tell: Callable[[TurnEvent], None],
        take: Callable[[ToolResultMessage], None],
        abort: AbortSignal | None = None,
    ) -> None:
        """
        Run *calls* side by side, and hand each result to *take*, in the order of the calls.

        A tool that fails has a result that says so, for the model to read. Where the
        turn is cancelled, every call has a result all the same: what a tool had
        answered by then, or that it was cancelled.
        """
        tasks: list[asyncio.Task[ToolResultMessage]] = []
        taken = 0
        try:
            async with obeying(abort):
                tasks.extend(asyncio.ensure_future(self._run_one(call, tell)) for call in calls)
                for task in tasks:
                    take(await task)
                    taken += 1
        finally:
            for task in tasks[taken:]:
                task.cancel()
            for place, call in enumerate(calls[taken:], start=taken):
                take(_answer_of(call, tasks[place]) if tasks else _failed(call, CANCELLED))

    async def _run_one(self, call: ToolCallBlock, tell: Callable[[TurnEvent], None]) -> ToolResultMessage:
        tell(ToolStarted(call=call))
        result = await self._answer(call)
        tell(ToolEnded(call=call, result=result))
        return result

    async def _answer(self, call: ToolCallBlock) -> ToolResultMessage:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            return _failed(call, f"There is no tool {clean_text(call.name)!r}. Tools: {known}.")
        if not isinstance(call.arguments, Mapping):
            return _failed(call, "The arguments are no JSON object.")
        try:
            answer: Any = tool.call(call.arguments)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:  # noqa: BLE001 -- a tool may raise anything, and the model is to read it
            return _failed(call, describe_error(error))
        if isinstance(answer, ToolResultMessage):
            return attrs.evolve(answer, tool_call_id=call.id, tool_name=call.name, entry_id=None)
        text = answer if isinstance(answer, str) else repr(answer)
        return ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=(TextBlock(text=text),))


def cut_short(calls: Sequence[ToolCallBlock]) -> Sequence[ToolResultMessage]:
    """Return the results of calls that were not run, as the answer that holds them was cut off: pairs stay whole."""
    return tuple(_failed(call, CUT_SHORT) for call in calls)


def _answer_of(call: ToolCallBlock, task: "asyncio.Task[ToolResultMessage]") -> ToolResultMessage:
    if task.done() and not task.cancelled() and task.exception() is None:
        return task.result()
    return _failed(call, CANCELLED)


def _failed(call: ToolCallBlock, problem: str) -> ToolResultMessage:
    text = clean_text(problem, limit=_LONGEST_ERROR)
    return ToolResultMessage(tool_call_id=call.id, tool_name=call.name, is_error=True, content=(TextBlock(text=text),))
