"""Work over many messages is done in a thread, one job at a time."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from openclaw_ctx.compaction.threads import SMALL, off_loop


class Held(ThreadPoolExecutor):
    """Takes jobs and does one when it is told to."""

    def __init__(self):
        super().__init__(max_workers=1)
        self.jobs = []

    def submit(self, work, /, *args, **kwargs):
        """Keep the job."""
        future = Future()
        self.jobs.append((future, lambda: work(*args, **kwargs)))
        return future

    def do_one(self):
        """Do the oldest job."""
        future, work = self.jobs.pop(0)
        future.set_result(work())


@pytest.fixture(name="held")
async def _held():
    held = Held()
    asyncio.get_running_loop().set_default_executor(held)
    return held


async def turn_of_the_loop():
    """Let everybody go on until they wait."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_few_messages_are_looked_at_at_once(held):
    """A thread would cost more."""
    assert await off_loop(SMALL - 1, sum, [1, 2]) == 3
    assert held.jobs == []


async def test_jobs_wait_for_each_other(held):
    """Side by side they would take the interpreter from the loop as often again."""
    tasks = [asyncio.ensure_future(off_loop(SMALL, sum, [number])) for number in range(3)]
    waiting = []

    while not all(task.done() for task in tasks):
        await turn_of_the_loop()
        waiting.append(len(held.jobs))
        held.do_one()
        await turn_of_the_loop()

    assert waiting == [1, 1, 1]
    assert [task.result() for task in tasks] == [0, 1, 2]


async def test_a_job_that_was_given_up_keeps_no_other_waiting(held):
    """Whoever is cancelled lets the next one in."""
    first, second = (asyncio.ensure_future(off_loop(SMALL, sum, [number])) for number in (1, 2))
    await turn_of_the_loop()

    first.cancel()
    await turn_of_the_loop()
    held.jobs.pop(0)
    held.do_one()

    assert await second == 2
    assert first.cancelled()
