"""
Where an engine's code runs: a thread of its own with an event loop of its own.

A hook call crosses into the lane with a deadline and can be abandoned there. An
engine that blocks, swallows its cancellation or raises ``SystemExit`` hurts its
own lane only: the caller goes on, the late answer is thrown away, and since the
thread is a daemon, the process can exit at any time.

A process for each engine was the other design. It costs a copy of the history
each turn; the lane is the seam at which that could still be done.
"""

import asyncio
import contextlib
import contextvars
import inspect
import queue
import threading
import types
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeAlias

import attrs

from openclaw_ctx.contract import AbortSignal
from openclaw_ctx.errors import SessionClosedError
from openclaw_ctx.log import describe_error, get_logger

from .mailbox import Mailbox
from .permit import Life, Permit, act_with, drop

__all__ = ["Call", "DeadlineExceeded", "HostLane", "Lane", "LaneEnded", "LaneFault", "Runner"]

_log = get_logger()

_EXECUTOR_THREADS: Final = 8


@attrs.define(eq=False)
class DeadlineExceeded(Exception):  # noqa: N818 -- an outcome of a call, turned into a record by the guard
    """A call did not answer in time. What it still does is its lane's business."""

    seconds: float

    def __str__(self) -> str:
        return f"no answer within {self.seconds:g} s"


@attrs.define(eq=False)
class LaneFault(Exception):  # noqa: N818 -- an envelope, opened by the guard
    """
    Carries what the called code raised, whatever it was; a bare future cannot hold all of it.

    ``reason`` describes it. It was made where the error was raised: an error's
    ``__str__`` is its author's code too, and may hang.
    """

    error: BaseException
    reason: str


@attrs.define(eq=False)
class LaneEnded(Exception):  # noqa: N818 -- what becomes of a call, as the two above
    """The lane was ended while a call was in it, since the engine was barred or its host closed."""

    lane: str

    def __str__(self) -> str:
        return f"{self.lane} was ended while the call was under way"


Call: TypeAlias = Callable[[Permit], Any]
"""Is given its permit, which is taken away, with the reason, as soon as nobody waits for its answer."""


class Runner(Protocol):
    """Runs the calls of one engine, each within a deadline, somewhere."""

    life: Life

    async def run(self, call: Call, *, seconds: float, abort: AbortSignal | None = None) -> Any:
        """
        Return what *call* returns, awaited where it is awaitable.

        Raises:
            LaneFault: The call raised.
            DeadlineExceeded: It did not answer in time.
            AbortError: *abort* fired; or the exception that it was fired with.
        """

    def background(self, job: Coroutine[Any, Any, object], done: Callable[[BaseException | None], None]) -> None:
        """
        Run *job* beside the calls; tell *done* how it ended: ``None``, what it raised, or ``CancelledError``.

        Called from where the calls run. The job is the engine's and no call's: it may go on when the call that
        began it is given up.
        """

    @property
    def owes_answer(self) -> bool:
        """Whether a call that was given up is still under way."""

    def retire(self) -> None:
        """Let the engine change nothing from here on, and tell the calls under way to stop. From any thread."""

    def stop(self) -> None:
        """Take no more calls, answer those under way with ``LaneEnded``, and end as soon as the engine lets go."""


class Lane:
    """A daemon thread with an event loop; calls run beside each other on it."""

    def __init__(self, engine_id: str) -> None:
        self.life = Life(engine_id)
        self._name = f"engine-{engine_id}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox: Mailbox[_Crossing] | None = None
        # For each loop that calls, and a host has one: where answers are received, and who watches the time.
        self._shores: dict[asyncio.AbstractEventLoop, _Shore] = {}
        # Tasks that nobody awaits would be collected while they wait.
        self._held: set[object] = set()
        self._stopping = False

    async def run(self, call: Call, *, seconds: float, abort: AbortSignal | None = None) -> Any:
        """Run *call* in the lane; see :class:`Runner`."""
        inbox = self._inbox or self._start()
        here = asyncio.get_running_loop()
        shore = self._shores.get(here) or self._shores.setdefault(here, _Shore(here))
        crossing = _Crossing(self.life, call, abort, here.create_future(), shore.outbox, self._held)
        shore.watch(crossing, seconds)
        inbox.post(crossing)
        forget = None if abort is None else abort.on_fire(crossing.abort)
        try:
            error = await crossing.answer
        except asyncio.CancelledError:
            crossing.take_away(_CANCELLED)
            self._abandon(crossing)
            raise
        finally:
            shore.unwatch(crossing)
            if forget is not None:
                forget()
        if error is None:
            return crossing.outcome
        if isinstance(error, DeadlineExceeded):
            self._abandon(crossing)
            raise error
        if error is _ABORTED:
            self._abandon(crossing)
            raise error if abort is None else abort.error()
        raise LaneFault(error, str(error) if isinstance(error, LaneEnded) else crossing.reason)

    def background(self, job: Coroutine[Any, Any, object], done: Callable[[BaseException | None], None]) -> None:
        """Run *job* on the lane's loop; see :class:`Runner`."""
        _run_behind(job, done, self._held, self.life)

    def retire(self) -> None:
        """Take the engine's permits away; see :class:`Runner`."""
        self.life.end(self._under_way())

    def stop(self) -> None:
        """End the lane; see :class:`Runner`. A lane that is stuck ends with the process."""
        self._stopping = True
        self.retire()
        for shore in self._shores.values():
            shore.close()
        for crossing in self._under_way():
            crossing.answer_with(LaneEnded(self._name))
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # closed already
                self._loop.call_soon_threadsafe(self._loop.stop)

    def _under_way(self) -> "list[_Crossing]":
        """Return the calls that wait for an answer, whatever the engine does."""
        return [crossing for shore in tuple(self._shores.values()) for crossing in shore.watched()]

    def _start(self) -> "Mailbox[_Crossing]":
        if self._stopping:
            raise SessionClosedError(self._name)
        self._loop = loop = asyncio.new_event_loop()
        loop.set_default_executor(_DaemonExecutor(self._name))
        loop.set_exception_handler(self._tell)
        self._inbox = Mailbox(loop, _Crossing.start)
        threading.Thread(target=self._live, args=(loop,), name=self._name, daemon=True).start()
        return self._inbox

    @property
    def owes_answer(self) -> bool:
        """Whether a call that was given up has not ended: who is in it may hold the lane for ever."""
        return any(isinstance(held, _Crossing) and held.answer.done() for held in tuple(self._held))

    def _abandon(self, crossing: "_Crossing") -> None:
        """Ask a call to stop that nobody waits for; whether it does is its own affair."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(crossing.cancel)

    def _tell(self, _loop: asyncio.AbstractEventLoop, found: dict[str, Any]) -> None:
        """Log what the loop found wrong. Its own handler would print the engine's text raw, over many lines."""
        if not self._stopping:
            error = found.get("exception")
            reason = found.get("message", "") if error is None else describe_error(error)
            _log.warning("lane.disturbed", lane=self._name, reason=reason)

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._stopping:
            try:
                loop.run_forever()
            except BaseException as error:  # noqa: BLE001 -- a task that the engine began may raise SystemExit
                _log.warning("lane.disturbed", lane=self._name, reason=describe_error(error))
        for task in asyncio.all_tasks(loop):
            task.cancel()
        with contextlib.suppress(BaseException):
            loop.run_until_complete(_settle(loop))
        with contextlib.suppress(BaseException):
            loop.run_until_complete(loop.shutdown_asyncgens())
        if self._inbox is not None:
            self._inbox.close()
        loop.close()


_ABORTED: Final = RuntimeError("aborted")
_CANCELLED: Final = "cancelled by the caller"


class _Shore:
    """
    The caller's side of a lane, on the caller's loop.

    One timer watches over all calls, since nearly all answer long before their
    deadline: a timer for each would be set up and thrown away for nothing.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.outbox: Mailbox[_Crossing] = Mailbox(loop, _Crossing.deliver)
        self._loop = loop
        self._watched: dict[_Crossing, tuple[float, float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, crossing: "_Crossing", seconds: float) -> None:
        """Let the call expire after so many seconds."""
        due = self._loop.time() + seconds
        self._watched[crossing] = (due, seconds)
        if self._timer is None or due < self._timer.when():
            self._set_timer(due)

    def unwatch(self, crossing: "_Crossing") -> None:
        """Forget a call; the timer finds out when it rings."""
        self._watched.pop(crossing, None)

    def watched(self) -> "tuple[_Crossing, ...]":
        """Return the calls that have not been answered. From any thread."""
        return tuple(self._watched)

    def close(self) -> None:
        """Receive nothing more; calls that are under way expire all the same."""
        self.outbox.close()
        if not self._watched and self._timer is not None:
            self._timer.cancel()

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        for crossing, (due, seconds) in list(self._watched.items()):
            if due <= now:
                del self._watched[crossing]
                crossing.expire(seconds)
        if self._watched:
            self._set_timer(min(due for due, _ in self._watched.values()))


class _Crossing(Permit):
    """One call on its way into the lane and back, and what it may do there."""

    __slots__ = ("_abort", "_call", "_held", "_outbox", "_raised", "_task", "answer", "outcome", "reason")

    def __init__(
        self,
        life: Life,
        call: Call,
        abort: AbortSignal | None,
        answer: "asyncio.Future[BaseException | None]",
        outbox: "Mailbox[_Crossing]",
        held: set[object],
    ) -> None:
        super().__init__(life)
        self._call = call
        self._abort = abort
        self._outbox = outbox
        self._held = held
        self._task: asyncio.Task[None] | None = None
        self._raised: BaseException | None = None
        self.answer = answer
        self.outcome: Any = None
        self.reason = ""

    # In the lane.

    def start(self) -> None:
        if not self.answer.done():
            self._held.add(self)
            self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        act_with(self)  # in the task's own context
        try:
            outcome = self._call(self)
            if type(outcome) is types.CoroutineType or inspect.isawaitable(outcome):
                outcome = await outcome
            self.outcome = outcome
        except BaseException as raised:  # noqa: BLE001 -- engine code may raise anything; the guard opens the envelope
            self.reason = describe_error(raised)
            self._raised = raised
        self._held.discard(self)
        self._task = None  # its context holds this: a circle would be left to the garbage collector, each call
        self._outbox.post(self)

    # At the caller's.

    def deliver(self) -> None:
        if not self.answer.done():
            self.answer.set_result(self._raised)
        elif self._raised is not None and not isinstance(self._raised, asyncio.CancelledError):
            _log.debug("engine.late_failure_discarded", reason=self.reason)

    def expire(self, seconds: float) -> None:
        if not self.answer.done():
            error = DeadlineExceeded(seconds)
            self.take_away(str(error))
            self.answer.set_result(error)

    def abort(self) -> None:
        self.take_away((self._abort and self._abort.reason) or "")
        self.answer_with(_ABORTED)

    def answer_with(self, error: BaseException) -> None:
        """Have the caller answered, from any thread."""
        with contextlib.suppress(RuntimeError):  # the caller's loop has ended
            self.answer.get_loop().call_soon_threadsafe(self._settle, error)

    def _settle(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_result(error)


class HostLane:
    """The host's own loop, for core's engine: no crossing, the same deadlines."""

    def __init__(self, engine_id: str) -> None:
        self.life = Life(engine_id)
        self._jobs: set[asyncio.Task[Any]] = set()
        self._running: set[Permit] = set()

    async def run(self, call: Call, *, seconds: float, abort: AbortSignal | None = None) -> Any:
        """Run *call* here; see :class:`Runner`. Whether it stops when its permit is taken away is up to it."""
        if abort is not None:
            abort.raise_if_fired()
        permit = Permit(self.life)
        self._running.add(permit)
        forget = None if abort is None else abort.on_fire(lambda: permit.take_away(abort.reason or ""))
        before = act_with(permit)
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                outcome = call(permit)
                return await outcome if inspect.isawaitable(outcome) else outcome
        except TimeoutError as error:
            if deadline.expired():
                exceeded = DeadlineExceeded(seconds)
                permit.take_away(str(exceeded))
                raise exceeded from error
            raise LaneFault(error, describe_error(error)) from error
        except asyncio.CancelledError:
            permit.take_away(_CANCELLED)
            raise
        except Exception as error:
            raise LaneFault(error, describe_error(error)) from error
        finally:
            drop(before)
            self._running.discard(permit)
            if forget is not None:
                forget()

    def background(self, job: Coroutine[Any, Any, object], done: Callable[[BaseException | None], None]) -> None:
        """Run *job* on the host's loop; see :class:`Runner`."""
        _run_behind(job, done, self._jobs, self.life)

    @property
    def owes_answer(self) -> bool:
        """Never: a call that is given up here is cancelled with whoever awaits it."""
        return False

    def retire(self) -> None:
        """Take the engine's permits away; see :class:`Runner`."""
        self.life.end(tuple(self._running))

    def stop(self) -> None:
        """Cancel what runs in the background."""
        self.retire()
        for task in self._jobs:
            task.cancel()


def _run_behind(
    job: Coroutine[Any, Any, object], done: Callable[[BaseException | None], None], held: set[Any], life: Life
) -> None:
    """Run *job* as a task that *held* keeps; tell *done* how it ended, once."""

    def ended(task: asyncio.Task[BaseException | None]) -> None:
        held.discard(task)
        job.close()  # it may have been cancelled before it began
        done(asyncio.CancelledError() if task.cancelled() else task.result())

    context = contextvars.copy_context()
    context.run(act_with, life.whole)
    task = asyncio.get_running_loop().create_task(_contain(job), context=context)
    held.add(task)
    task.add_done_callback(ended)


async def _contain(job: Coroutine[Any, Any, object]) -> BaseException | None:
    try:
        await job
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 -- engine code may raise anything; the guard makes it a record
        return error
    return None


async def _settle(loop: asyncio.AbstractEventLoop) -> None:
    pending = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()]
    if pending:
        await asyncio.wait(pending, timeout=1.0)


class _DaemonExecutor(ThreadPoolExecutor):
    """
    Threads for an engine's blocking calls that do not keep the process alive.

    The standard pool joins its threads at exit, so one engine that blocks in
    ``asyncio.to_thread`` would hold up the whole program.
    """

    def __init__(self, name: str) -> None:
        super().__init__(max_workers=_EXECUTOR_THREADS)
        self._name = name
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        # Threads that wait, less the jobs that wait for them: one that has been given a job is not idle any more,
        # though it has not woken up yet.
        self._idle = 0
        self._alive = 0
        self._count_lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run ``fn(*args, **kwargs)`` in a thread."""
        future: Future[Any] = Future()
        context = contextvars.copy_context()  # a thread acts for the call that it works for
        with self._count_lock:
            grow = self._idle <= 0 and self._alive < _EXECUTOR_THREADS
            if grow:
                self._alive += 1
            else:
                self._idle -= 1
        self._waiting.put((future, lambda: context.run(fn, *args, **kwargs)))
        if grow:
            threading.Thread(target=self._work, name=f"{self._name}-worker", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 -- the base's
        """Let idle threads end; never wait for busy ones."""
        for _ in range(_EXECUTOR_THREADS):
            self._waiting.put(None)

    def _work(self) -> None:
        while True:
            job = self._waiting.get()
            if job is None:
                return
            future, call = job
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001 -- whoever awaits it decides
                    future.set_exception(error)
            with self._count_lock:
                self._idle += 1
