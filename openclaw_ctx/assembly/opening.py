"""``await thing`` or ``async with thing as it``: one way to open, two ways to write it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar

from openclaw_ctx.contract import SessionKey
from openclaw_ctx.errors import SessionBusyError
from openclaw_ctx.log import get_logger
from openclaw_ctx.transcript import SessionStore, Transcript

__all__ = ["Opening", "open_transcript"]

_log = get_logger()

_LOCK_POLL_SECONDS: Final = 0.05


class _Closable(Protocol):
    async def close(self) -> None: ...


_T = TypeVar("_T", bound=_Closable)


class Opening(Generic[_T]):
    """Something about to be opened. ``await`` leaves closing to you; ``async with`` closes it."""

    def __init__(self, open_it: Callable[[], Awaitable[_T]]) -> None:
        self._open = open_it
        self._opened: _T | None = None

    def __await__(self) -> Generator[Any, None, _T]:
        return self._open().__await__()

    async def __aenter__(self) -> _T:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


async def open_transcript(store: SessionStore, key: SessionKey, *, timeout_seconds: float, cwd: str) -> Transcript:
    """
    Open a session's transcript, waiting for its other writer without blocking the loop.

    Raises:
        SessionBusyError: The other writer did not let go in time.
    """
    began = time.monotonic()
    transcript: Transcript | None = None
    while transcript is None:
        try:
            transcript = store.open(key, cwd=cwd)
        except SessionBusyError as error:
            if time.monotonic() - began >= timeout_seconds:
                raise SessionBusyError(error.path, error.holder, timeout_seconds) from None
            await asyncio.sleep(_LOCK_POLL_SECONDS)
    for warning in transcript.take_warnings():
        _log.warning("transcript.questioned", session=key, path=str(transcript.path), reason=warning)
    return transcript
