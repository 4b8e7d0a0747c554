"""Runs a command's work so that a signal ends it between two steps."""

import asyncio
import contextlib
import functools
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run_to_an_end"]

_T = TypeVar("_T")


def run_to_an_end(work: Coroutine[Any, Any, _T]) -> _T:
    """
    Return what *work* returns; where the process is told to terminate, cancel it, then exit by the signal's code.

    An exit that is raised within a step would end whatever task that is, and what
    waits for that task would wait on.
    """
    heard: list[int] = []
    try:
        return asyncio.run(_listening(work, heard))
    except asyncio.CancelledError:
        if heard:
            sys.exit(128 + heard[0])
        raise


async def _listening(work: Coroutine[Any, Any, _T], heard: list[int]) -> _T:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101 -- this is one

    def end(number: int) -> None:
        heard.append(number)
        task.cancel()

    before: dict[int, Any] = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) is signal.SIG_IGN:
            continue
        # Not on every platform, and in the main thread alone.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            handler = signal.getsignal(number)
            loop.add_signal_handler(number, functools.partial(end, number))
            before[number] = handler
    try:
        return await work
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
