"""Every hook that has an ``abort_signal`` is told when its work is no longer wanted, whoever says so."""

import asyncio
import threading

import pytest

from openclaw_ctx import AbortError, AbortSignal, CompactResult, EngineFailedError, hookimpl
from openclaw_ctx.host import QuarantinePolicy
from tests.host.guarded import Legacy, Plain, call, guard_of, records_of


class _Polls(Plain):
    """Blocks its lane, as a plain ``def`` may, and looks at the signal now and then."""

    entered: threading.Event
    left: threading.Event
    seen: list[AbortSignal]

    @hookimpl
    def compact(self, abort_signal):
        self.seen.append(abort_signal)
        self.entered.set()
        pause = threading.Event()
        for _ in range(2000):
            if abort_signal.fired:
                break
            pause.wait(0.005)
        self.left.set()
        return CompactResult(ok=True, compacted=False, reason="stopped")


def _polls() -> type[_Polls]:
    return type("P", (_Polls,), {"entered": threading.Event(), "left": threading.Event(), "seen": []})


async def test_a_blocking_compact_is_told_that_its_deadline_has_passed():
    """It polls the signal, sees it soon after the deadline, and frees its lane, as the contract asks."""
    engine = _polls()
    guard = guard_of(engine, deadlines={"compact": 0.05})

    with pytest.raises(EngineFailedError, match=r"no answer within 0\.05 s"):
        await call(guard, "compact")
    left = await asyncio.to_thread(engine.left.wait, 8)
    await guard.close()

    assert left
    assert engine.seen[0].reason == "no answer within 0.05 s"


async def test_the_caller_s_cancellation_reaches_the_signal():
    """A task that is cancelled says so to a hook that cannot be."""
    engine = _polls()
    guard = guard_of(engine)

    running = asyncio.ensure_future(call(guard, "compact"))
    await asyncio.to_thread(engine.entered.wait, 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    left = await asyncio.to_thread(engine.left.wait, 8)
    await guard.close()

    assert left
    assert engine.seen[0].reason == "cancelled by the caller"
    assert records_of(guard) == []


async def test_the_caller_s_own_signal_fires_the_call_s_with_its_reason():
    """The engine holds a signal of its own, which says what the caller's says; it cannot fire the caller's."""
    engine, signal, reason = _polls(), AbortSignal(), OSError("the disk is full")
    guard = guard_of(engine)

    running = asyncio.ensure_future(call(guard, "compact", abort=signal))
    await asyncio.to_thread(engine.entered.wait, 10)
    signal.fire(reason)
    with pytest.raises(OSError, match="the disk is full"):
        await running
    left = await asyncio.to_thread(engine.left.wait, 8)
    await guard.close()

    assert left
    assert engine.seen[0] is not signal
    assert engine.seen[0].reason is reason


@pytest.mark.parametrize("how", ["barred", "closed"])
async def test_an_engine_that_is_let_go_is_told_in_the_calls_under_way(how):
    """Another session's call has failed, or the host closes: what still runs learns that it may stop."""
    engine = _polls()
    guard = guard_of(engine, policy=QuarantinePolicy(), deadlines={"ingest": 0.05})

    running = asyncio.ensure_future(call(guard, "compact"))
    await asyncio.to_thread(engine.entered.wait, 10)
    if how == "barred":
        await call(guard, "ingest")  # the lane is held, so it misses its deadline
    else:
        await guard.close()
    left = await asyncio.to_thread(engine.left.wait, 8)
    await asyncio.gather(running, return_exceptions=True)
    await guard.close()

    assert left
    assert engine.seen[0].reason == "the engine was let go"


async def test_a_signal_that_nobody_fires_stays_quiet_after_the_answer():
    """What an engine keeps of a finished call says nothing, also when the caller's signal fires later."""
    seen, signal = [], AbortSignal()

    def compact(self, abort_signal):
        seen.append(abort_signal)
        return CompactResult(ok=True, compacted=False)

    guard = guard_of(type("Keeps", (Plain,), {"compact": hookimpl(compact)}))
    await call(guard, "compact", abort=signal)
    signal.fire("later")

    assert seen[0].fired is False
    await guard.close()


async def test_the_built_in_engine_is_told_as_a_stranger_is():
    """On the host's own loop: its deadline, and the caller's signal."""
    seen: list[AbortSignal] = []
    entered = asyncio.Event()

    async def compact(self, abort_signal):
        seen.append(abort_signal)
        entered.set()
        await abort_signal.wait()
        abort_signal.raise_if_fired()

    legacy = type("L", (Legacy,), {"compact": hookimpl(compact)})
    guard, signal = guard_of(None, legacy=legacy, deadlines={"compact": 0.05}), AbortSignal()

    with pytest.raises(EngineFailedError, match=r"no answer within 0\.05 s"):
        await call(guard, "compact")
    await guard.close()
    guard = guard_of(None, legacy=legacy)
    entered.clear()
    running = asyncio.ensure_future(call(guard, "compact", abort=signal))
    await entered.wait()
    signal.fire("stop")
    with pytest.raises(AbortError, match="stop"):
        await running
    await guard.close()

    assert [each.reason for each in seen] == ["no answer within 0.05 s", "stop"]


def test_a_callback_that_comes_too_late_and_raises_is_guarded_as_the_others_are():
    """Who asks a signal that has fired to call back sees nothing of what the callback raises, as who fires does not."""
    signal, called = AbortSignal(), []
    signal.fire()

    def callback():
        called.append(1)
        raise RuntimeError

    signal.on_fire(callback)()

    assert called == [1]
