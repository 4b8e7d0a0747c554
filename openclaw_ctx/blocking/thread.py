"""
A thread with an event loop, and plain calls that wait for what is done there.

Everything that a host does happens in its thread; a call hands its work over and
waits. So Ctrl-C, which Python raises in the middle of whatever the main thread
does, never strikes in the middle of a write, and any number of threads may call.
"""

import asyncio
import contextlib
import functools
import os
import threading
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, Generic, TypeAlias, TypeVar

from openclaw_ctx.errors import SessionClosedError

__all__ = ["LoopThread"]

_T = TypeVar("_T")
_Undo: TypeAlias = Callable[[_T], Coroutine[Any, Any, object]]

_SETTLE_SECONDS: Final = 1.0
# Windows hears Ctrl-C between two waits only.
_PATIENCE_SECONDS: Final = 0.1 if os.name == "nt" else -1


class LoopThread:
    """A daemon thread with an event loop, and the calls that wait for it. Safe from any thread but its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._waiting: set[_Call[Any]] = set()
        self._closing = threading.Lock()
        self._stopping = False
        self._ended = False
        self._process = os.getpid()
        self._last: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._live, name="openclaw-ctx-host", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to close here: it has ended, or it is another process's."""
        return self._ended or os.getpid() != self._process

    def run(self, work: Callable[[], Awaitable[_T]], what: str, *, undo: _Undo[_T] | None = None) -> _T:
        """
        Await what *work* returns, on the loop; return what comes of it.

        Ctrl-C cancels it there, and is raised once the cancellation has landed.

        Args:
            work: Called on the loop.
            what: Is closed, where the loop has ended.
            undo: Lets go of an outcome that nobody gets, since the wait for it was interrupted.

        Raises:
            RuntimeError: The caller runs an event loop, or was forked off.
            SessionClosedError: The thread has ended.
        """
        return self._wait_for(_Call(work), what, undo)

    def run_at_once(self, work: Callable[[], Coroutine[Any, Any, _T]], what: str) -> _T:
        """Do as :meth:`run`, in two thirds of the time, with what waits for nothing and minds no task of its own."""
        return self._wait_for(_BriefCall(work), what, None)

    def call(self, function: Callable[[], _T], what: str, *, undo: Callable[[_T], None] | None = None) -> _T:
        """Do as :meth:`run` with a plain function, which nothing interrupts."""

        async def work() -> _T:
            return function()

        async def let_go(outcome: _T) -> None:
            if undo is not None:
                undo(outcome)

        return self._wait_for(_BriefCall(work), what, let_go)

    def close(self, work: Callable[[], Awaitable[None]], what: str) -> None:
        """Do *work* as the last thing on the loop, and end the thread. Once, whoever calls; a fork's child: never."""
        if self.is_over:
            return
        self._require_callable()
        with self._closing:
            try:
                with contextlib.suppress(SessionClosedError):  # another thread has closed it meanwhile
                    self.run(work, what)
            finally:
                self.end()

    def end(self) -> None:
        """End the thread; what still runs there is cancelled."""
        self._post(self._stop)
        self._thread.join()

    def abandon(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do *work* and end the thread, and wait for neither: the garbage collector calls this, anywhere."""
        if not self.is_over:
            self._post(lambda: self._leave(work))

    def _leave(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._last = self._loop.create_task(work())
        self._last.add_done_callback(lambda _: self._stop())

    def _wait_for(self, call: "_Call[_T]", what: str, undo: _Undo[_T] | None) -> _T:
        self._require_callable()
        # Before the question: the thread says that it has ended, and then answers those that wait.
        self._waiting.add(call)
        if self._ended:
            self._waiting.discard(call)
            raise SessionClosedError(what)
        try:
            self._post(call.start)
            call.wait()
        except BaseException:  # Ctrl-C, or what the handler of another signal raised
            self._give_up(call, what, undo)
            raise
        finally:
            self._waiting.discard(call)
        error, call.error = call.error, None
        if error is None:
            return call.outcome
        if self._stopping and isinstance(error, asyncio.CancelledError):
            raise SessionClosedError(what)
        try:
            raise error
        finally:
            del error  # it holds the frames that it came through, which must not hold it

    def _give_up(self, call: "_Call[_T]", what: str, undo: _Undo[_T] | None) -> None:
        """Cancel *call* and wait until that has landed. Interrupted again, wait no longer."""
        self._post(call.cancel)
        call.wait()
        if undo is not None and call.error is None:
            self.run(lambda: undo(call.outcome), what)

    def _require_callable(self) -> None:
        if os.getpid() != self._process:
            problem = "this host was opened before fork(), and its thread is the parent's: open a host in this process"
            raise RuntimeError(problem)
        _require_no_loop(self._loop)

    def _post(self, callback: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and answered who waits
            self._loop.call_soon_threadsafe(callback)

    # In the thread.

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._stopping:
            with contextlib.suppress(SystemExit, KeyboardInterrupt):  # a task's own; who awaits it is told
                self._loop.run_forever()
        with contextlib.suppress(BaseException):  # nobody is left to be told
            self._loop.run_until_complete(_settle(self._loop))
        self._ended = True
        for call in tuple(self._waiting):
            call.finish(asyncio.CancelledError())
        self._loop.close()

    def _stop(self) -> None:
        self._stopping = True
        self._loop.stop()


class _Call(Generic[_T]):
    """One call on its way to the loop and back."""

    __slots__ = ("_done", "_task", "_work", "error", "finished", "outcome")

    outcome: _T

    def __init__(self, work: Callable[[], Awaitable[_T]]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None
        # A bare lock: an event, or a future of the standard library, would double what crossing costs.
        self._done = threading.Lock()
        self._done.acquire()
        self.finished = False
        self.error: BaseException | None = None

    def wait(self) -> None:
        """Return when the call has ended, one way or the other. Whoever is interrupted may wait again."""
        while not self.finished:
            self._done.acquire(timeout=_PATIENCE_SECONDS)

    # In the thread.

    def start(self) -> None:
        if not self.finished:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        # Behind the task's first step: one that is cancelled before it would never get to say that it has ended.
        if self._task is not None:
            asyncio.get_running_loop().call_soon(self._task.cancel)

    def finish(self, error: BaseException | None) -> None:
        if not self.finished:
            self.error = error
            self.finished = True
            self._task = None
            self._done.release()

    async def _run(self) -> None:
        try:
            self.outcome = await self._work()
        except BaseException as error:  # noqa: BLE001 -- raised again where it is waited for
            self.finish(error)
        else:
            self.finish(None)


class _BriefCall(_Call[_T]):
    """A call whose first step is taken as soon as it comes: mostly it is the last, and a task was not worth making."""

    __slots__ = ("_begin",)

    def __init__(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> None:
        super().__init__(work)
        self._begin = work

    def start(self) -> None:
        if self.finished:
            return
        begun = self._begin()
        try:
            awaited = begun.send(None)
        except StopIteration as end:
            self.outcome = end.value
            self.finish(None)
        except BaseException as error:  # noqa: BLE001 -- raised again where it is waited for
            self.finish(error)
        else:
            self._work = functools.partial(_go_on, begun, awaited)
            super().start()


@types.coroutine
def _go_on(begun: Coroutine[Any, Any, _T], awaited: object) -> Generator[Any, Any, _T]:
    """Await a coroutine that has taken its first step, and awaits something since."""
    while True:
        try:
            sent = yield awaited
        except BaseException as error:  # noqa: BLE001 -- a cancellation, for the coroutine to see
            step = functools.partial(begun.throw, error)
        else:
            step = functools.partial(begun.send, sent)
        try:
            awaited = step()
        except StopIteration as end:
            outcome: _T = end.value
            return outcome


async def _settle(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what still runs and let it end; what does not is left behind."""
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_SETTLE_SECONDS)
    await loop.shutdown_asyncgens()


def _require_no_loop(own: asyncio.AbstractEventLoop) -> None:
    """
    Do nothing where the calling thread may wait.

    Raises:
        RuntimeError: It runs an event loop, which would stand still meanwhile; *own* would wait for itself.
    """
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return
    if running is own:
        problem = (
            "a blocking host was called from its own thread, by observe or an async model, and would wait for itself: "
            "hand the work to another thread"
        )
    else:
        problem = "a blocking host was called where an event loop runs, and would block it: use openclaw_ctx.Host there"
    raise RuntimeError(problem)
