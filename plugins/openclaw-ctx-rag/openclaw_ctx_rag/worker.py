"""A thread that does one thing after the other, what is urgent first."""

import asyncio
import atexit
import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import attrs

from .embedder import EmbedderError

__all__ = ["Worker"]

_T = TypeVar("_T")

_URGENT: Final = 0
_USUAL: Final = 1
_STOP: Final = -1
_PATIENCE_SECONDS: Final = 2.0


@attrs.frozen(order=True)
class _Job:
    """Compared by rank, and then by the order in which they came."""

    rank: int
    number: int
    work: Callable[[], Any] | None = attrs.field(eq=False, order=False)
    future: Future[Any] = attrs.field(eq=False, order=False)


class Worker:
    """
    Does blocking work for any number of event loops, a piece at a time.

    The thread begins with the first piece. It does not keep the process alive: at exit
    what waits is dropped, and the piece that runs has two seconds. A pool of the standard
    library would be waited for without an end.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.PriorityQueue[_Job] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()

    async def run(self, work: Callable[[], _T], *, urgent: bool = False) -> _T:
        """
        Return what *work* returns, or raise what it raises.

        Who is cancelled while waiting takes the piece with it, unless it runs already.

        Raises:
            EmbedderError: The worker is closed, or was while the piece waited.
        """
        future: Future[_T] = Future()
        with self._lock:
            if self._closed:
                _refuse(future)
            else:
                self._jobs.put(_Job(_URGENT if urgent else _USUAL, next(self._numbers), work, future))
                self._begin()
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Refuse what waits, and wait up to two seconds for what runs."""
        self._stop()
        if self._thread is not None:
            atexit.unregister(self._leave)
            await asyncio.to_thread(self._thread.join, _PATIENCE_SECONDS)

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
            atexit.register(self._leave)

    def _stop(self) -> None:
        with self._lock:
            self._closed = True
            self._jobs.put(_Job(_STOP, next(self._numbers), None, Future()))

    def _leave(self) -> None:
        self._stop()
        if self._thread is not None:
            self._thread.join(_PATIENCE_SECONDS)

    def _serve(self) -> None:
        while (job := self._jobs.get()).work is not None:
            _do(job.work, job.future)
            # Held on to until the next job came, otherwise: texts and vectors.
            del job
        while not self._jobs.empty():
            _refuse(self._jobs.get_nowait().future)


def _refuse(future: Future[Any]) -> None:
    # Not cancelled: whoever waits is not, and would take it for its own end.
    if future.set_running_or_notify_cancel():
        future.set_exception(EmbedderError("The embedder is closed.", "setup"))


def _do(work: Callable[[], Any], future: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 -- whoever waits for the piece gets what it raised, as in any executor
        future.set_exception(error)
    else:
        future.set_result(result)
