"""Work over many messages, in a thread so that other sessions go on."""

import asyncio
import weakref
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

__all__ = ["SMALL", "off_loop"]

SMALL: Final = 64
"""From so many messages on, work is done in a thread; the reference system's."""

_P = ParamSpec("_P")
_T = TypeVar("_T")

_one_at_a_time: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = weakref.WeakKeyDictionary()


async def off_loop(size: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """
    Return what *work* makes of *size* messages; few of them are looked at here.

    One job at a time for each loop: they would only take the interpreter from
    each other, and from the loop.
    """
    if size < SMALL:
        return work(*args, **kwargs)
    async with _one_at_a_time.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        return await asyncio.to_thread(work, *args, **kwargs)
