"""Work behind the turns of one session: one run at a time, and one more for whatever was asked meanwhile."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.runtime import BackgroundMaintenance
from openclaw_ctx.runtime.maintenance import SLOW_SECONDS


class Work:
    """Runs until it is let go, and keeps what happened."""

    def __init__(self):
        self.begun = 0
        self.running = 0
        self.most = 0
        self.failing = False
        self.signals = []
        self.gate = asyncio.Semaphore(0)
        self.started = asyncio.Semaphore(0)

    async def __call__(self, abort):
        """Wait for the gate."""
        self.begun += 1
        self.running += 1
        self.most = max(self.most, self.running)
        self.signals.append(abort)
        self.started.release()
        try:
            await self.gate.acquire()
            if self.failing:
                raise RuntimeError
        finally:
            self.running -= 1


async def settled(maintenance, work):
    """Let everything through, and return how often the work was begun."""
    for _ in range(100):
        work.gate.release()
    await maintenance.settle()
    return work.begun


async def test_what_is_asked_for_is_run_behind_the_caller():
    """``request`` returns at once."""
    work = Work()
    maintenance = BackgroundMaintenance(work, session="talk")

    maintenance.request()
    assert (maintenance.is_running, work.begun) == (True, 0)

    assert await settled(maintenance, work) == 1
    assert not maintenance.is_running


@pytest.mark.parametrize("requests", [1, 2, 50])
async def test_however_often_it_is_asked_for_meanwhile_it_runs_once_more(requests):
    """Never side by side."""
    work = Work()
    maintenance = BackgroundMaintenance(work, session="talk")
    maintenance.request()
    await work.started.acquire()

    for _ in range(requests):
        maintenance.request()

    assert await settled(maintenance, work) == 2
    assert work.most == 1


async def test_what_is_asked_for_in_the_second_run_has_a_third():
    """The one more is for what was asked before it began."""
    work = Work()
    maintenance = BackgroundMaintenance(work, session="talk")
    maintenance.request()
    await work.started.acquire()
    maintenance.request()
    work.gate.release()
    await work.started.acquire()

    maintenance.request()

    assert await settled(maintenance, work) == 3


async def test_work_that_fails_is_told_once_and_runs_again(caplog):
    """The failure reaches nobody who asked; what was asked meanwhile is run."""
    work = Work()
    work.failing = True
    maintenance = BackgroundMaintenance(work, session="talk")
    maintenance.request()
    await work.started.acquire()
    maintenance.request()

    assert await settled(maintenance, work) == 2
    assert [message.split()[0] for message in caplog.messages] == ["maintenance.failed"] * 2
    work.failing = False
    maintenance.request()
    assert await settled(maintenance, work) == 3


async def test_stopping_fires_the_signal_waits_and_takes_no_more(caplog):
    """What fails because of it is no failure."""
    work = Work()
    work.failing = True
    maintenance = BackgroundMaintenance(work, session="talk")
    maintenance.request()
    await work.started.acquire()
    maintenance.request()

    stopping = asyncio.ensure_future(maintenance.stop("closed"))
    await asyncio.sleep(0)
    assert (work.signals[0].fired, work.signals[0].reason, stopping.done()) == (True, "closed", False)
    work.gate.release()
    await stopping
    maintenance.request()

    assert await settled(maintenance, work) == 1
    assert not maintenance.is_running
    assert caplog.messages == []


async def test_who_gives_up_waiting_leaves_the_work_alone():
    """``settle`` can be cancelled."""
    work = Work()
    maintenance = BackgroundMaintenance(work, session="talk")
    maintenance.request()
    await work.started.acquire()
    waiting = asyncio.ensure_future(maintenance.settle())
    await asyncio.sleep(0)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert maintenance.is_running
    assert await settled(maintenance, work) == 1


async def test_work_that_takes_long_is_told_of(caplog):
    """Once a run; the reference system shows it to the user after ten seconds."""
    caplog.set_level("INFO")
    work = Work()
    maintenance = BackgroundMaintenance(work, session="talk", slow_seconds=0.0)
    maintenance.request()
    await work.started.acquire()
    while not caplog.messages:  # noqa: ASYNC110 -- the timer goes off unannounced
        await asyncio.sleep(0)

    await settled(maintenance, work)

    assert [message.split()[0] for message in caplog.messages] == ["maintenance.slow"]
    assert SLOW_SECONDS == 10.0


@given(st.lists(st.sampled_from(["ask", "let one end", "turn the loop"]), max_size=12))
def test_the_last_request_is_always_followed_by_a_whole_run(steps):
    """One at a time, no more runs than requests, and one that begins after the last request, whatever the order."""

    async def play():
        work = Work()
        maintenance = BackgroundMaintenance(work, session="talk")
        asked, begun_before_last = 0, -1
        for step in steps:
            if step == "ask":
                asked, begun_before_last = asked + 1, work.begun
                maintenance.request()
            elif step == "let one end":
                work.gate.release()
            await asyncio.sleep(0)
        begun = await settled(maintenance, work)
        assert work.most <= 1
        assert begun <= asked
        assert begun > begun_before_last
        assert (begun == 0) == (asked == 0)

    asyncio.run(play())
