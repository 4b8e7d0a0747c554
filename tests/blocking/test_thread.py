"""A thread with an event loop: whoever waits for it is answered, whatever happens there."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from openclaw_ctx import SessionClosedError
from openclaw_ctx.blocking import thread as thread_module
from openclaw_ctx.blocking.thread import LoopThread


def test_a_brief_call_that_waits_after_all_is_waited_for():
    """And what it awaits may fail, or be cancelled, as in any other call."""
    thread = LoopThread()

    async def wait(error: Exception | None = None) -> str:
        answered = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: answered.set_exception(error) if error else answered.set_result(1))
        for _ in range(3):
            await asyncio.sleep(0)
        return f"after {await answered}"

    assert thread.run_at_once(wait, "Host") == "after 1"
    with pytest.raises(ValueError, match="no"):
        thread.run_at_once(lambda: wait(ValueError("no")), "Host")
    thread.end()


@pytest.mark.parametrize("run", [LoopThread.run, LoopThread.run_at_once], ids=["a call", "a brief call"])
def test_who_waits_when_the_thread_ends_is_told(run):
    """That it is closed, and not that something was cancelled, which nobody here has done."""
    thread, begun, cancelled = LoopThread(), threading.Event(), []

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            cancelled.append(error)
            raise

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run, thread, wait, "Host")
        assert begun.wait(60)

        thread.end()

        with pytest.raises(SessionClosedError, match="Host is closed"):
            waiting.result(60)
    assert len(cancelled) == 1


@pytest.mark.parametrize("run", [LoopThread.run, LoopThread.run_at_once], ids=["a call", "a brief call"])
def test_who_waits_for_what_does_not_end_is_told_too(run, monkeypatch):
    """Work that swallows its cancellation is left behind, and keeps neither its caller nor who ends the thread."""
    monkeypatch.setattr(thread_module, "_SETTLE_SECONDS", 0.01)
    thread, begun, over = LoopThread(), threading.Event(), False

    async def hang() -> None:
        begun.set()
        while not over:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run, thread, hang, "Host")
        assert begun.wait(60)

        thread.end()

        with pytest.raises(SessionClosedError, match="Host is closed"):
            waiting.result(60)
    over = True


def test_a_call_that_is_cancelled_before_its_first_step_ends():
    """Both may reach the loop in one turn of it: a task that never ran would never say that it has ended."""
    thread = LoopThread()

    async def never() -> None:
        await asyncio.Event().wait()

    async def start_and_cancel() -> None:
        call.start()
        call.cancel()

    call = thread_module._Call(never)
    thread.run(start_and_cancel, "Host")
    call.wait()

    assert isinstance(call.error, asyncio.CancelledError)
    thread.end()


@pytest.mark.parametrize("run", [LoopThread.run, LoopThread.run_at_once], ids=["a call", "a brief call"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_what_would_end_a_loop_ends_the_call_alone(run, error):
    """An engine's or a model's ``SystemExit`` is the caller's to see, and the thread goes on."""
    thread = LoopThread()

    async def fail() -> None:
        raise error

    async def fail_behind() -> None:
        await asyncio.gather(asyncio.get_running_loop().create_task(fail()), return_exceptions=True)

    async def answer() -> int:
        return 1

    with pytest.raises(type(error)):
        run(thread, fail, "Host")
    run(thread, fail_behind, "Host")
    assert run(thread, answer, "Host") == 1
    thread.end()
    with pytest.raises(SessionClosedError, match="Host is closed"):
        run(thread, answer, "Host")
