"""A model that is a plain function."""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

import attrs

from openclaw_ctx.contract import Complete, CompletionRequest, CompletionResult
from openclaw_ctx.models import Model

__all__ = ["PlainComplete", "awaited"]

PlainComplete: TypeAlias = Callable[[CompletionRequest], CompletionResult]
"""A model as a plain function. It is called in a thread of its own, so it may block for as long as it likes."""

_Function: TypeAlias = Callable[[CompletionRequest], CompletionResult | Awaitable[CompletionResult]]


def awaited(model: Model | Complete | PlainComplete) -> Model | Complete:
    """
    Return *model* as one that is awaited, and never blocks the loop; a ``Model`` as it is.

    What is no ``async def`` is called in a daemon thread. Who gives the answer up
    leaves the thread to itself, and so does the process when it exits.
    """
    if hasattr(model, "stream"):
        return cast("Model", model)
    if inspect.iscoroutinefunction(model) or inspect.iscoroutinefunction(type(model).__call__):
        return cast("Complete", model)

    function = cast("_Function", model)

    async def complete(request: CompletionRequest) -> CompletionResult:
        outcome = await _in_thread(function, request)
        if outcome.error is not None:
            raise outcome.error
        answer = outcome.answer
        return await answer if inspect.isawaitable(answer) else cast("CompletionResult", answer)

    return complete


@attrs.frozen
class _Outcome:
    answer: CompletionResult | Awaitable[CompletionResult] | None = None
    error: BaseException | None = None


async def _in_thread(model: _Function, request: CompletionRequest) -> _Outcome:
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[_Outcome] = loop.create_future()

    def settle(outcome: _Outcome) -> None:
        if not answered.done():
            answered.set_result(outcome)

    def work() -> None:
        try:
            outcome = _Outcome(answer=model(request))
        except BaseException as error:  # noqa: BLE001 -- raised again where it is awaited
            outcome = _Outcome(error=error)
        with contextlib.suppress(RuntimeError):  # the host was closed meanwhile
            loop.call_soon_threadsafe(settle, outcome)

    # The standard pool would be as good, but joins its threads at exit: a provider that hangs would hold up the end.
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="openclaw-ctx-model", daemon=True).start()
    return await answered
