"""Work over many messages, in a thread so that other sessions go on; and work that an abort signal ends."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar

from openclaw_ctx.contract import AbortSignal

__all__ = ["SMALL", "obeying", "off_loop"]

SMALL: Final = 64
"""From so many messages on, work is done in a thread; the reference system's."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def off_loop(size: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Return what *work* makes of *size* messages; few of them are looked at here."""
    if size < SMALL:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


async def obeying(abort: AbortSignal | None, work: Coroutine[Any, Any, _T]) -> _T:
    """
    Return what *work* returns; cancel it, and wait for its end, when *abort* fires.

    Raises:
        AbortError: It has fired; or the very exception that it was fired with.
    """
    if abort is None:
        return await work
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(abort.wait())
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        abort.raise_if_fired()
        return working.result()
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)
