"""A one-way flag that says "stop", with the reason, across threads."""

import asyncio
import contextlib
import functools
import itertools
import threading
from collections.abc import Callable

from openclaw_ctx.errors import AbortError

__all__ = ["AbortSignal"]


class AbortSignal:
    """
    Tells whoever holds it to stop.

    Fires at most once; the first reason stays. Safe to fire, read and wait on
    from any thread, since an engine runs in another than its host.
    """

    __slots__ = ("_callbacks", "_lock", "_reason", "_tickets")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._tickets = itertools.count()
        self._reason: str | BaseException | None = None

    @property
    def fired(self) -> bool:
        """Whether somebody has said stop."""
        return self._reason is not None

    @property
    def reason(self) -> str | BaseException | None:
        """Why, or ``None`` while the signal has not fired."""
        return self._reason

    def fire(self, reason: str | BaseException = "aborted by the caller") -> None:
        """Say stop. Callbacks run in the calling thread, each guarded from the others."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            callbacks, self._callbacks = self._callbacks, {}
        for callback in list(callbacks.values()):  # one may be taken back meanwhile
            with contextlib.suppress(Exception):
                callback()

    def error(self) -> BaseException:
        """Return the exception that stands for the reason: itself, or an ``AbortError`` of the text."""
        if isinstance(self._reason, BaseException):
            return self._reason
        return AbortError("not fired" if self._reason is None else self._reason)

    def raise_if_fired(self) -> None:
        """
        Do nothing while the signal has not fired.

        Raises:
            AbortError: It has; or the very exception that it was fired with.
        """
        if self._reason is not None:
            raise self.error()

    def on_fire(self, callback: Callable[[], object]) -> Callable[[], object]:
        """
        Call *callback* once when the signal fires, at once if it has; return how to take that back.

        The callback runs in the thread that fires; what it raises is dropped.
        """
        ticket = next(self._tickets)
        with self._lock:
            pending = self._reason is None
            callbacks = self._callbacks
            if pending:
                callbacks[ticket] = callback
        if not pending:
            with contextlib.suppress(Exception):  # as in fire
                callback()
        return functools.partial(callbacks.pop, ticket, None)

    async def wait(self) -> None:
        """Return once the signal has fired."""
        loop = asyncio.get_running_loop()
        fired = asyncio.Event()
        forget = self.on_fire(lambda: loop.call_soon_threadsafe(fired.set))
        try:
            await fired.wait()
        finally:
            forget()

    def __repr__(self) -> str:
        return f"<AbortSignal {'fired' if self.fired else 'quiet'}>"
