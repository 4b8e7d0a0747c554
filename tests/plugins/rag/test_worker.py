"""A thread that does one thing after the other, what is urgent first."""

import asyncio
import subprocess
import sys
import threading

import pytest

from openclaw_ctx_rag.embedder import EmbedderError
from openclaw_ctx_rag.worker import Worker


@pytest.fixture
async def worker():
    """Return one that is closed afterwards."""
    made = Worker("tested")
    yield made
    await made.close()


async def test_work_is_done_on_one_thread_that_is_not_the_loops(worker):
    """And its result is returned."""
    idents = await asyncio.gather(*(worker.run(threading.get_ident) for _ in range(5)))

    assert len(set(idents)) == 1
    assert idents[0] != threading.get_ident()


async def test_what_is_urgent_goes_before_what_came_first(worker):
    """But not before what runs."""
    order = []
    gate = threading.Event()
    running = [
        asyncio.create_task(worker.run(lambda: (gate.wait(30), order.append("running")))),
        asyncio.create_task(worker.run(lambda: order.append("first"))),
        asyncio.create_task(worker.run(lambda: order.append("second"))),
        asyncio.create_task(worker.run(lambda: order.append("urgent"), urgent=True)),
    ]
    await asyncio.sleep(0)

    gate.set()
    await asyncio.gather(*running)

    assert order in (["running", "urgent", "first", "second"], ["urgent", "running", "first", "second"])


async def test_what_work_raises_is_raised_where_it_was_asked_for(worker):
    """And the next piece is done all the same."""
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 / 0)

    assert await worker.run(lambda: 7) == 7


async def test_work_of_who_was_cancelled_is_not_done(worker):
    """Unless it runs already."""
    gate = threading.Event()
    done = []
    first = asyncio.create_task(worker.run(lambda: gate.wait(30)))
    second = asyncio.create_task(worker.run(lambda: done.append("second")))
    await asyncio.sleep(0)

    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    gate.set()
    await first
    await worker.run(lambda: None)

    assert done == []


async def test_at_the_end_what_waits_is_refused_and_what_runs_is_finished(worker):
    """Nobody who waits is left waiting."""
    gate = threading.Event()
    began = threading.Event()
    running = asyncio.create_task(worker.run(lambda: (began.set(), gate.wait(30))[1]))
    waiting = asyncio.create_task(worker.run(lambda: 1))
    await asyncio.to_thread(began.wait, 30)

    closing = asyncio.create_task(worker.close())
    await asyncio.sleep(0)
    gate.set()
    await closing

    assert await running is True
    for refused in (waiting, worker.run(lambda: 2)):
        with pytest.raises(EmbedderError, match="closed"):
            await refused


async def test_one_that_never_worked_closes_too():
    """There is no thread to wait for."""
    worker = Worker("idle")

    await worker.close()

    with pytest.raises(EmbedderError, match="closed"):
        await worker.run(lambda: 1)


def test_work_that_waits_does_not_keep_the_process_alive():
    """Nor does work that hangs: it has two seconds, and a pool of the standard library would have for ever."""
    program = """if True:
        import asyncio, threading
        from openclaw_ctx_rag.worker import Worker

        async def main():
            worker = Worker("left")
            began = threading.Event()
            for _ in range(100):
                asyncio.ensure_future(worker.run(lambda: (began.set(), threading.Event().wait(3_600))))
            await asyncio.to_thread(began.wait)

        asyncio.run(main())
        print("over")
    """

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "over\n", "")
