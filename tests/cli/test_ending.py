"""A command's work, and the signals that end it."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from openclaw_ctx.cli.ending import run_to_an_end


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Put back what a test has set."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_work_that_ends_by_itself_gives_its_result_and_the_signals_back():
    """Who listened before listens again."""

    def handler(*_: object) -> None:
        raise AssertionError

    async def work() -> int:
        return 7

    signal.signal(signal.SIGTERM, handler)

    assert run_to_an_end(work()) == 7
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.parametrize(
    "number, code", [pytest.param(signal.SIGTERM, 143, id="term"), pytest.param(signal.SIGHUP, 129, id="hup")]
)
def test_a_signal_ends_the_work_and_lets_it_tidy_up(number, code):
    """It is cancelled where it waits, another task that it waits for included, and may still wait for its end."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    tidied = []

    async def behind() -> None:
        os.kill(os.getpid(), number)
        await asyncio.Event().wait()

    async def work() -> None:
        try:
            await asyncio.ensure_future(behind())
        finally:
            await asyncio.sleep(0)
            tidied.append(True)

    with pytest.raises(SystemExit) as ended:
        run_to_an_end(work())

    assert (ended.value.code, tidied) == (code, [True])


def test_a_signal_that_is_ignored_stays_ignored():
    """As under ``nohup``."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def work() -> str:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        return "done"

    assert run_to_an_end(work()) == "done"


def test_what_the_work_raises_passes():
    """Cancelled by itself as well: that is no signal."""

    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_to_an_end(work())
