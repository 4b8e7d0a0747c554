"""Telling the embedding program of each hook call."""

from collections.abc import Callable

import attrs

from openclaw_ctx.log import describe_error, get_logger

__all__ = ["HookCall", "Watch"]

_log = get_logger()


@attrs.frozen(kw_only=True)
class HookCall:
    """One call of a hook, for who watches: the engine that was called, how long it took, how it ended."""

    operation: str
    engine_id: str
    seconds: float
    failed: bool


@attrs.define(eq=False)
class Watch:
    """Tells *observe*. What goes wrong there is no business of the turn's, and is logged the first time."""

    observe: Callable[[HookCall], None]
    _failed: bool = attrs.field(default=False, init=False)

    def tell(self, hook: HookCall) -> None:
        """Tell of one call; never raise for the observer's sake."""
        try:
            self.observe(hook)
        except Exception as error:  # noqa: BLE001 -- the program's own code may raise anything
            if not self._failed:
                self._failed = True
                _log.warning("observer.failed", operation=hook.operation, reason=describe_error(error))
