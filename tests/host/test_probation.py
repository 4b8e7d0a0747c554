"""A barred engine gets a try, and comes back if it holds."""

import asyncio
import threading
from pathlib import Path

import pytest

from openclaw_ctx import AssembleResult, UserMessage, hookimpl
from openclaw_ctx.host import Quarantine, QuarantinePolicy, Registry
from tests.assembly.recording import OneByOne, Record, engine_of, open_host
from tests.host.guarded import Plain, call, guard_of
from tests.host.quarantined import Clock, fail, mirrored


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for rows, which nobody has made yet."""
    return tmp_path / "state" / "quarantine"


def test_an_engine_may_be_given_several_failures():
    """The policy's number of consecutive failures of an operation bars it; a success in between starts anew."""
    quarantine, policy = Quarantine(), QuarantinePolicy(failures=3)

    fail(quarantine, policy=policy)
    fail(quarantine, policy=policy)
    quarantine.succeeded("window", "assemble")
    fail(quarantine, policy=policy)
    fail(quarantine, policy=policy)
    before = quarantine.barred("window")
    fail(quarantine, policy=policy, reason="the third in a row")

    assert before is None
    assert quarantine.barred("window").reason == "the third in a row"


def test_another_operation_s_success_does_not_excuse_a_failure():
    """An engine that takes every message and assembles nothing is barred all the same."""
    quarantine, policy = Quarantine(), QuarantinePolicy(failures=2)

    fail(quarantine, policy=policy)
    quarantine.succeeded("window", "ingest")
    fail(quarantine, policy=policy)

    assert quarantine.barred("window") is not None


def test_each_failed_try_doubles_the_wait():
    """Tries come after 10 s, 20 s, 40 s; one caller has the try, and the others find the engine barred meanwhile."""
    clock = Clock()
    quarantine, policy = Quarantine(clock=clock), QuarantinePolicy(probation_seconds=10)
    fail(quarantine, policy=policy)

    for wait in (10, 20, 40):
        clock.now += wait - 1
        assert quarantine.begin("window") is False
        clock.now += 1
        assert quarantine.barred("window") is None
        assert quarantine.begin("window") is True
        assert quarantine.begin("window") is False, "one try at a time"
        assert quarantine.barred("window") is not None
        fail(quarantine, policy=policy, reason="again")

    assert quarantine.barred("window").reason == "it broke", "the record that stands is the first one's"


def test_a_try_that_succeeds_restores_the_engine(folder):
    """The record goes, on disk too, and the next failure waits as short as the first did."""
    clock = Clock()
    quarantine, policy = mirrored(folder, clock=clock), QuarantinePolicy(probation_seconds=10)
    fail(quarantine, policy=policy)
    clock.now += 10

    quarantine.begin("window")
    quarantine.succeeded("window", "assemble")

    assert (quarantine.barred("window"), quarantine.records()) == (None, [])
    assert list(folder.iterdir()) == []
    fail(quarantine, policy=policy)
    clock.now += 10
    assert quarantine.barred("window") is None


def test_what_barred_an_engine_must_succeed_before_the_wait_is_short_again():
    """An engine that meets sessions well and fails each assemble is tried more and more rarely."""
    clock = Clock()
    quarantine, policy = Quarantine(clock=clock), QuarantinePolicy(probation_seconds=10)
    fail(quarantine, policy=policy)
    clock.now += 10
    quarantine.begin("window")
    quarantine.succeeded("window", "bootstrap")
    restored = quarantine.barred("window")

    fail(quarantine, policy=policy)

    assert restored is None
    clock.now += 19
    assert quarantine.barred("window") is not None
    clock.now += 1
    assert quarantine.barred("window") is None


def test_a_try_that_its_caller_gave_up_goes_to_the_next():
    """A cancelled turn is no verdict: the try is still to be had."""
    clock = Clock()
    quarantine, policy = Quarantine(clock=clock), QuarantinePolicy(probation_seconds=10)
    fail(quarantine, policy=policy)
    clock.now += 10
    quarantine.begin("window")

    quarantine.withdraw("window")

    assert quarantine.begin("window") is True


def test_without_probation_there_is_no_try():
    """By default only a registration or a release lifts a quarantine."""
    clock = Clock()
    quarantine = Quarantine(clock=clock)
    fail(quarantine)

    clock.now += 1e9

    assert quarantine.barred("window") is not None
    assert quarantine.begin("window") is False


async def test_a_session_tries_an_engine_on_probation_and_gets_it_back(tmp_path):
    """The try is made by a real turn: bootstrap, what was missed, then the answer; and the engine stays."""
    clock, record = Clock(), Record(failing={"assemble"})
    registry = Registry(quarantine=Quarantine(clock=clock))
    async with (
        open_host(
            tmp_path,
            engines={"recorder": engine_of(OneByOne, record)},
            registry=registry,
            plugins={"quarantine": {"probationSeconds": 10}},
        ) as host,
        host.session("talk") as session,
    ):
        engines = []
        for text, passes, breaks in [("one", 0, True), ("two", 9, True), ("three", 1, True), ("four", 19, False),
                                     ("five", 1, False), ("six", 0, False)]:  # fmt: skip
            clock.now += passes
            record.failing = {"assemble"} if breaks else set()
            await session.append(UserMessage(content=text))
            engines.append((await session.assemble()).engine)
            await session.end_turn()

        assert host.quarantines() == []
    assert engines == ["legacy", "legacy", "legacy", "legacy", "recorder", "recorder"]
    assert record.calls.count(("assemble", 0)) == 4
    assert record.seen == ["one", "two", "three", "four", "five", "six"]


async def test_while_one_call_has_the_try_others_are_answered_by_legacy():
    """The engine is not called a second time, nor let go, until the try has ended; then it serves everybody."""
    clock, entered, go_on = Clock(), asyncio.Event(), asyncio.Event()
    here = asyncio.get_running_loop()
    calls: list[str] = []

    class Moody(Plain):
        @hookimpl
        async def assemble(self, messages):
            calls.append("assemble")
            if len(calls) == 1:
                message = "broke"
                raise RuntimeError(message)
            here.call_soon_threadsafe(entered.set)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(go_on.wait(), here))
            return AssembleResult(messages=messages)

        @hookimpl
        def dispose(self):
            calls.append("dispose")

    registry = Registry(quarantine=Quarantine(clock=clock))
    guard = guard_of(Moody, registry=registry, policy=QuarantinePolicy(probation_seconds=10))
    await call(guard, "assemble")
    clock.now += 10

    trying = asyncio.ensure_future(call(guard, "assemble"))
    await entered.wait()
    meanwhile = [await call(guard, "assemble"), await call(guard, "ingest")]
    go_on.set()
    tried = await trying
    after = await call(guard, "assemble")
    before_closing = list(calls)
    await guard.close()

    assert [answer.serving.engine_id for answer in meanwhile] == ["legacy", "legacy"]
    assert [tried.serving.engine_id, after.serving.engine_id] == ["engine", "engine"]
    assert before_closing.count("assemble") == 3
    assert before_closing.count("dispose") == 1, "only the one that had failed"
    assert registry.quarantine.records() == []


def test_many_threads_and_one_try():
    """Of many threads that ask at once when probation has come, one has the try."""
    clock = Clock()
    quarantine = Quarantine(clock=clock)
    fail(quarantine, policy=QuarantinePolicy(probation_seconds=10))
    clock.now += 10
    won: list[bool] = []
    gate = threading.Barrier(16)

    def ask() -> None:
        gate.wait()
        won.append(quarantine.begin("window"))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(won) == [False] * 15 + [True]


@pytest.mark.parametrize("stage", ["build", "call"])
async def test_a_call_that_was_given_up_on_probation_leaves_the_try_to_the_next(stage):
    """The caller cancels while the engine is built or called for its try: the next call reaches the engine."""
    clock, entered, here = Clock(), asyncio.Event(), asyncio.get_running_loop()
    behaviour = ["fail"]

    async def hold() -> None:
        here.call_soon_threadsafe(entered.set)
        await asyncio.Event().wait()

    class Moody(Plain):
        @hookimpl
        async def assemble(self, messages):
            if behaviour[0] == "fail":
                message = "broke"
                raise RuntimeError(message)
            if behaviour[0] == "call":
                await hold()
            return AssembleResult(messages=messages)

    async def make(context):
        if behaviour[0] == "build":
            await hold()
        return Moody(context)

    registry = Registry(quarantine=Quarantine(clock=clock))
    guard = guard_of(make, registry=registry, policy=QuarantinePolicy(probation_seconds=10))
    await call(guard, "assemble")
    clock.now += 10
    behaviour[0] = stage

    given_up = asyncio.ensure_future(call(guard, "assemble"))
    await entered.wait()
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    behaviour[0] = "serve"
    answer = await call(guard, "assemble")
    await guard.close()

    assert answer.serving.engine_id == "engine"
    assert registry.quarantine.records() == []
