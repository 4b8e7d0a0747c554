"""What every model has from the protocol: giving up, usage, the whole of a stream."""

import asyncio

import pytest

from openclaw_ctx.contract import AbortSignal
from openclaw_ctx.errors import AbortError
from openclaw_ctx.models import TextDelta, TokenUsage, whole_answer
from openclaw_ctx.models.client import obeying


async def test_a_block_that_raises_a_timeout_is_not_aborted():
    """Only the signal's own end of the block becomes the signal's error."""
    with pytest.raises(TimeoutError, match="mine"):
        async with obeying(AbortSignal()):
            raise TimeoutError("mine")


async def test_a_signal_that_fires_in_another_thread_ends_the_block():
    """Once; the task is not cancelled, and the next block runs."""
    abort = AbortSignal()

    async def fire_and_wait():
        async with obeying(abort):
            await asyncio.to_thread(abort.fire, "enough")
            await asyncio.Event().wait()

    with pytest.raises(AbortError, match="enough"):
        await fire_and_wait()

    async with obeying(None):
        await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_signal_that_has_fired_keeps_the_block_from_beginning():
    """Nothing is asked that nobody wants."""
    abort, begun = AbortSignal(), []
    abort.fire("no")

    with pytest.raises(AbortError, match="no"):
        async with obeying(abort):
            begun.append(True)

    assert begun == []


async def test_a_cancellation_from_elsewhere_passes_through_the_block():
    """It is the caller's, and nobody's abort."""

    async def wait():
        async with obeying(AbortSignal()):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_signal_that_fires_after_the_block_changes_nothing():
    """Even where the end of the block and the signal meet in one turn of the loop."""
    abort = AbortSignal()

    async with obeying(abort):
        abort.fire()
    await asyncio.sleep(0)

    assert abort.fired


def test_usage_adds_up():
    """What fills the window is all that was sent, cached or not."""
    usage = TokenUsage(input=1, output=20, cache_read=300, cache_write=4_000)

    assert (usage.prompt, usage.total) == (4_301, 4_321)


async def test_a_stream_without_an_end_is_a_bug_of_its_model():
    """It is told as one, and not taken for an empty answer."""

    async def events():
        yield TextDelta("Half")

    with pytest.raises(RuntimeError, match="without an AnswerEnded"):
        await whole_answer(events())
