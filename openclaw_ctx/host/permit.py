"""
Whether the code of an engine that runs now may still act on the host.

A deadline ends the waiting and not the work, so an engine goes on after it has
been let go, and a call after it has been given up. Neither can be stopped, but
what they ask of the host can be refused. Who asks is told by the context that the
code runs in: tasks and threads that a call begins inherit the call's.
"""

import contextvars
from collections.abc import Iterable
from typing import Final

from openclaw_ctx.contract import AbortSignal
from openclaw_ctx.errors import SessionClosedError

__all__ = ["Life", "Permit", "act_with", "acting_permit", "drop"]

_ACTING: Final[contextvars.ContextVar["Permit | None"]] = contextvars.ContextVar("acting_permit", default=None)


class Permit:
    """What one call of an engine holds, or what belongs to no call. Taken away once nobody waits for the call."""

    __slots__ = ("_stop", "life", "lost")

    def __init__(self, life: "Life") -> None:
        self.life = life
        self.lost: str | BaseException | None = None
        self._stop: AbortSignal | None = None

    @property
    def stop(self) -> AbortSignal:
        """The signal that fires when the permit is taken away. Made when it is first asked for: few calls do."""
        if self._stop is None:
            self._stop = AbortSignal()
            if self.lost is not None:  # in another thread, meanwhile
                self._stop.fire(self.lost)
        return self._stop

    def take_away(self, reason: str | BaseException) -> None:
        """Refuse the holder from here on, and tell it to stop. From any thread; the first reason stays."""
        if self.lost is None:
            self.lost = reason
        if self._stop is not None:
            self._stop.fire(self.lost)

    def require(self) -> None:
        """
        Do nothing while the holder may act.

        Raises:
            SessionClosedError: The engine was let go, or the call was given up.
        """
        if self.life.is_over:
            name = f"Engine {self.life.engine_id!r}"
            raise SessionClosedError(name)
        if self.lost is not None:
            name = f"A call of engine {self.life.engine_id!r} that was given up"
            raise SessionClosedError(name)


class Life:
    """
    An engine's time, from the first call into its lane until it is let go.

    Attributes:
        is_over: Whether the engine was let go, which it is before it is disposed.
        whole: The permit of what belongs to no call.
    """

    def __init__(self, engine_id: str) -> None:
        self.engine_id = engine_id
        self.is_over = False
        self.whole = Permit(self)

    def end(self, under_way: Iterable[Permit], reason: str = "the engine was let go") -> None:
        """Take every permit away, and tell the calls *under_way* to stop. From any thread; once is as good as twice."""
        self.is_over = True
        self.whole.take_away(reason)
        for permit in under_way:
            permit.take_away(reason)

    def permit(self) -> Permit:
        """Return what the running code holds of this life."""
        acting = _ACTING.get()
        return acting if acting is not None and acting.life is self else self.whole


def acting_permit() -> Permit | None:
    """Return what the running code holds; ``None`` where no engine's call or job leads to it."""
    return _ACTING.get()


act_with: Final = _ACTING.set
"""Let the code that follows in this context hold a permit; the token that comes back undoes that."""
drop: Final = _ACTING.reset
"""Go back to what was held before :data:`act_with`, given its token."""
