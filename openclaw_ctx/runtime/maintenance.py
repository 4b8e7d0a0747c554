"""Maintenance behind the turns: one at a time for a session, and what is asked for meanwhile once more afterwards."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from openclaw_ctx.contract import AbortSignal
from openclaw_ctx.log import describe_error, get_logger

__all__ = ["SLOW_SECONDS", "BackgroundMaintenance"]

SLOW_SECONDS: Final = 10.0
"""After so long a maintenance is told of; the reference system shows it to the user then."""

_log = get_logger()


class BackgroundMaintenance:
    """Runs *work* behind the turns of one session. A failure is logged, and ends nothing but the maintenance."""

    def __init__(
        self, work: Callable[[AbortSignal], Awaitable[object]], *, session: str, slow_seconds: float = SLOW_SECONDS
    ) -> None:
        self._work = work
        self._session = session
        self._slow_seconds = slow_seconds
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._abort = AbortSignal()

    @property
    def is_running(self) -> bool:
        """Whether there is work under way."""
        return self._task is not None and not self._task.done()

    def request(self) -> None:
        """Ask for a run; while one is under way, for one more behind it, however often this is called."""
        if self._abort.fired:
            return
        if self.is_running:
            self._again = True
            return
        self._task = asyncio.ensure_future(self._run())

    async def settle(self) -> None:
        """Return once nothing is under way."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self, reason: str) -> None:
        """Abort what is under way, and take no more."""
        self._abort.fire(reason)
        self._again = False
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._again = False
            slow = loop.call_later(self._slow_seconds, self._tell_slow)
            try:
                await self._work(self._abort)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 -- nobody waits for it: the turn it follows is long answered
                if not self._abort.fired:
                    _log.warning("maintenance.failed", session=self._session, reason=describe_error(error))
            finally:
                slow.cancel()
            if not self._again:
                return

    def _tell_slow(self) -> None:
        _log.info("maintenance.slow", session=self._session, seconds=self._slow_seconds)
