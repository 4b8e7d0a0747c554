"""An abort signal fires once, for everybody, in whatever thread they are."""

import asyncio
import threading

import pytest

from openclaw_ctx import AbortError, AbortSignal

_PATIENCE_SECONDS = 10


def test_a_signal_is_quiet_until_it_is_fired():
    """Nothing has happened, nothing is raised, and there is no reason."""
    signal = AbortSignal()

    signal.raise_if_fired()

    assert not signal.fired
    assert signal.reason is None
    assert repr(signal) == "<AbortSignal quiet>"


def test_the_first_reason_stays():
    """Whoever fires second changes nothing, and nobody is called again."""
    signal = AbortSignal()
    calls = []
    signal.on_fire(lambda: calls.append(signal.reason))

    signal.fire("the user pressed stop")
    signal.fire("too late")

    assert signal.fired
    assert signal.reason == "the user pressed stop"
    assert calls == ["the user pressed stop"]
    assert repr(signal) == "<AbortSignal fired>"


@pytest.mark.parametrize(
    "reason",
    [pytest.param("the user pressed stop", id="a-sentence"), pytest.param("", id="no-words")],
)
def test_a_reason_in_words_is_raised_as_an_abort(reason):
    """What is raised says why, and nothing that was not said."""
    signal = AbortSignal()
    signal.fire(reason)

    with pytest.raises(AbortError) as caught:
        signal.raise_if_fired()

    assert caught.value.reason == reason


def test_an_exception_as_the_reason_is_raised_itself():
    """A caller finds the very object that it fired with."""
    signal = AbortSignal()
    reason = TimeoutError("the run took too long")
    signal.fire(reason)

    with pytest.raises(TimeoutError) as caught:
        signal.raise_if_fired()

    assert caught.value is reason
    assert signal.error() is reason


def test_a_callback_comes_at_once_where_the_signal_has_fired():
    """Nobody who asks late waits for ever."""
    signal = AbortSignal()
    signal.fire()
    calls = []

    forget = signal.on_fire(lambda: calls.append("now"))
    forget()

    assert calls == ["now"]


def test_a_callback_that_was_taken_back_is_not_called():
    """The way back takes away this callback only, though an equal one is there twice; twice is as good as once."""
    signal = AbortSignal()
    calls = []
    forget = signal.on_fire(calls.clear)
    signal.on_fire(lambda: calls.append("stays"))
    note = list[str]().append
    for _ in range(2):
        signal.on_fire(lambda: note("twice"))

    forget()
    forget()
    signal.fire()

    assert calls == ["stays"]


def test_equal_callbacks_are_told_apart():
    """Two waiters that registered the same function are two: one leaving keeps the other."""
    signal = AbortSignal()
    calls = []
    first = signal.on_fire(calls.copy)
    signal.on_fire(lambda: calls.append("other"))
    append = calls.append

    def say() -> None:
        append("said")

    leave = signal.on_fire(say)
    signal.on_fire(say)
    leave()
    first()
    signal.fire()

    assert calls == ["other", "said"]


def test_a_callback_that_raises_keeps_nobody_else_from_being_told():
    """Each is guarded from the others, and who fires sees nothing of it."""
    signal = AbortSignal()
    calls = []
    signal.on_fire(lambda: 1 / 0)
    signal.on_fire(lambda: calls.append("told"))

    signal.fire()

    assert calls == ["told"]


def test_callbacks_run_in_the_thread_that_fires():
    """What a callback touches must bear that thread."""
    signal = AbortSignal()
    threads = []
    signal.on_fire(lambda: threads.append(threading.current_thread()))
    firing = threading.Thread(target=signal.fire)

    firing.start()
    firing.join()

    assert threads == [firing]


def test_many_threads_fire_once():
    """Of any number of threads one wins: one reason, each callback once."""
    signal = AbortSignal()
    calls = []
    for number in range(50):
        signal.on_fire(lambda number=number: calls.append(number))
    gate = threading.Barrier(8)

    def fire(name: str) -> None:
        gate.wait()
        signal.fire(name)

    threads = [threading.Thread(target=fire, args=(f"thread {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(calls) == list(range(50))
    assert signal.reason in {f"thread {number}" for number in range(8)}


def test_callbacks_come_and_go_while_the_signal_fires():
    """A callback is called at most once, and exactly once if it was not taken back, however the threads race."""
    for _ in range(50):
        signal = AbortSignal()
        kept, taken = [], []
        gate = threading.Barrier(2)

        def come_and_go(signal=signal, kept=kept, taken=taken, gate=gate) -> None:
            gate.wait()
            for number in range(20):
                signal.on_fire(lambda number=number: taken.append(number))()
                signal.on_fire(lambda number=number: kept.append(number))

        thread = threading.Thread(target=come_and_go)
        thread.start()
        gate.wait()
        signal.fire()
        thread.join()

        assert sorted(kept) == list(range(20))
        assert len(set(taken)) == len(taken)


async def test_a_waiter_wakes_when_another_thread_fires():
    """``wait`` crosses from the firing thread into the waiter's loop."""
    signal = AbortSignal()
    waiting = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)

    assert not waiting.done()
    await asyncio.to_thread(signal.fire, "from elsewhere")
    await asyncio.wait_for(waiting, _PATIENCE_SECONDS)

    assert signal.reason == "from elsewhere"


async def test_waiting_for_a_signal_that_has_fired_ends_at_once():
    """Nobody waits for what has been."""
    signal = AbortSignal()
    signal.fire()

    await asyncio.wait_for(signal.wait(), _PATIENCE_SECONDS)


async def test_a_waiter_that_gives_up_leaves_nothing_behind():
    """A cancelled ``wait`` takes its callback away, so a signal that lives long does not fill up."""
    signal = AbortSignal()
    waiting = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)
    assert len(signal._callbacks) == 1

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert not signal._callbacks
    signal.fire()


def test_a_waiter_whose_loop_is_gone_disturbs_nobody():
    """A signal may outlive the loop of who waited for it."""
    signal = AbortSignal()
    calls = []
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(signal.wait())
    loop.run_until_complete(asyncio.sleep(0))
    signal.on_fire(lambda: calls.append("told"))

    loop.close()
    signal.fire()
    waiting._log_destroy_pending = False
    waiting.get_coro().close()

    assert calls == ["told"]
