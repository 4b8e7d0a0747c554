"""``await thing`` or ``async with thing as it``: one way to open, two ways to write it."""

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Opening"]


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
