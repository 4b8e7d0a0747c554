"""
Handing things to an event loop in another thread.

``call_soon_threadsafe`` does the same with a socket, a handle and a context for
each item, which is half of what crossing into a lane costs. Where the system
has ``eventfd``, one of those and a deque do; elsewhere the loop's own way does.
"""

import asyncio
import collections
import contextlib
import os
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

__all__ = ["Mailbox"]

_T = TypeVar("_T")

_HAS_EVENTFD: Final = hasattr(os, "eventfd")
_ONE: Final = (1).to_bytes(8, "little")


class Mailbox(Generic[_T]):
    """
    What other threads post is received on the loop, in order.

    Make and close it on the loop's thread, or before the loop runs. What is
    posted to a closed box, or to a loop that has ended, is dropped.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Callable[[_T], None]) -> None:
        self._loop = loop
        self._receive = receive
        self._items: collections.deque[_T] = collections.deque()
        # The descriptor may be another file's as soon as it is closed: no write may be on its way then.
        self._lock = threading.Lock()
        self._descriptor = -1
        self._closed = False
        if _HAS_EVENTFD:
            descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            try:
                loop.add_reader(descriptor, self._drain)
            except NotImplementedError:  # a loop without readers
                os.close(descriptor)
            else:
                self._descriptor = descriptor

    def post(self, item: _T) -> None:
        """Have *item* received on the loop, soon. From any thread."""
        self._items.append(item)
        with self._lock:
            if self._closed:
                return
            if self._descriptor >= 0:
                try:  # noqa: SIM105 -- each way, each call: contextlib.suppress costs as much as the write
                    os.write(self._descriptor, _ONE)
                except BlockingIOError:
                    pass  # the counter is full: the loop knows
                return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._drain)

    def close(self) -> None:
        """Receive nothing more."""
        with self._lock:
            descriptor, self._descriptor, self._closed = self._descriptor, -1, True
        if descriptor >= 0:
            with contextlib.suppress(RuntimeError):  # a closed loop has let go of it already
                self._loop.remove_reader(descriptor)
            os.close(descriptor)

    def _drain(self) -> None:
        if self._descriptor >= 0:
            try:  # noqa: SIM105 -- as above
                os.read(self._descriptor, 8)
            except BlockingIOError:
                pass  # drained by an earlier turn of the loop
        while self._items and not self._closed:
            self._receive(self._items.popleft())
