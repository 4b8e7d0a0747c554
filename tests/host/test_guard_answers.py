"""What is answered in an engine's place, and when an engine is called no more."""

import asyncio
import threading

import pytest

from openclaw_ctx import (
    AssembleResult,
    BootstrapResult,
    IngestBatchResult,
    IngestResult,
    Registry,
    RewriteResult,
    SessionClosedError,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.host import (
    Guard,
    HookCall,
    InvalidResult,
    QuarantinePolicy,
)
from tests.assembly.recording import OneByOne, Record, engine_of, open_host
from tests.host.guarded import Legacy, Plain, broken, call, guard_of, maintaining, records_of


@pytest.fixture
async def closing():
    """Close each guard that is put in here."""
    guards: list[Guard] = []
    yield lambda guard: guards.append(guard) or guard
    for guard in guards:
        await guard.close()


# -- neutral answers -----------------------------------------------------------------------------------------------


NEUTRAL = {
    "bootstrap": BootstrapResult(bootstrapped=False, reason="downgraded to legacy"),
    "maintain": RewriteResult(changed=False, reason="downgraded to legacy"),
    "ingest_batch": IngestBatchResult(ingested_count=0),
    "tools": (),
    "after_turn": None,
    "on_subagent_ended": None,
    "prepare_subagent_spawn": None,
}


@pytest.mark.parametrize("operation", NEUTRAL)
async def test_what_legacy_has_no_hook_for_gets_a_neutral_answer(closing, operation):
    """Behind a barred engine an optional hook that legacy lacks answers that nothing was done, and why."""
    guard = closing(guard_of(broken([])))
    await call(guard, "assemble")

    answer = await call(guard, operation)

    assert answer.value == NEUTRAL[operation]
    assert "assemble broke" in str(answer.serving.substitution)


@pytest.mark.parametrize("operation", ["bootstrap", "maintain", "ingest_batch", "tools"])
async def test_a_hook_that_fails_gets_a_neutral_answer_in_the_same_call(closing, operation):
    """What failed is answered by legacy within the call, with nothing done where legacy has no such hook."""

    def fail(self):
        message = f"{operation} broke"
        raise RuntimeError(message)

    guard = closing(guard_of(type("Fails", (Plain,), {operation: hookimpl(fail)})))

    answer = await call(guard, operation)

    assert answer.value == NEUTRAL[operation]
    assert answer.serving.engine_id == "legacy"
    assert f"{operation} broke" in str(answer.serving.substitution)
    assert records_of(guard) == [("engine", operation, "plugin:acme")]


@pytest.mark.parametrize("operation", NEUTRAL)
async def test_a_hook_that_an_engine_does_not_have_is_no_fault(closing, operation):
    """The engine serves on; nothing is called, nothing recorded, and it answers that nothing was done."""
    calls: list[HookCall] = []
    guard = closing(guard_of(Plain, observe=calls.append))

    answer = await call(guard, operation)

    assert answer.serving.engine_id == "engine"
    assert not getattr(answer.value, "changed", False)
    assert (calls, records_of(guard)) == ([], [])
    assert operation not in answer.serving.implemented


# -- who watches, deadlines, checks --------------------------------------------------------------------------------


async def test_the_observer_is_told_of_each_call(closing):
    """The engine that was called, how long it took and how it ended; the fallback's call too."""
    calls: list[HookCall] = []
    guard = closing(guard_of(broken([]), observe=calls.append))

    await call(guard, "ingest")
    await call(guard, "assemble")

    assert [(hook.operation, hook.engine_id, hook.failed) for hook in calls] == [
        ("ingest", "engine", False),
        ("assemble", "engine", True),
        ("assemble", "legacy", False),
    ]
    assert all(hook.seconds >= 0 for hook in calls)


@pytest.mark.parametrize(
    "deadlines,seconds",
    [
        pytest.param({"maintain": 0.05}, None, id="the operation's own"),
        pytest.param({}, 0.05, id="the caller's tighter one"),
        pytest.param({"maintain": 0.05}, 3600.0, id="the caller's wider one does not count"),
    ],
)
async def test_the_tighter_deadline_holds(closing, deadlines, seconds):
    """An engine that does not answer in time has failed, and what it takes longer for is thrown away."""
    guard = closing(guard_of(maintaining(), deadlines=deadlines))

    answer = await call(guard, "maintain", seconds=seconds)

    assert answer.value.changed is False
    (record,) = guard._registry.quarantine.records()
    assert record.reason == "no answer within 0.05 s"


async def test_what_a_check_refuses_is_a_fault(closing):
    """The host may ask for more than the right type; legacy's answer is checked as well."""
    asked: list[int] = []

    def check(result: AssembleResult) -> str:
        asked.append(result.estimated_tokens)
        if result.estimated_tokens == 7:
            raise InvalidResult("assemble", "a seven")
        return "checked"

    guard = closing(guard_of(Plain))

    answer = await call(guard, "assemble", check=check)

    assert (answer.value, answer.serving.engine_id) == ("checked", "legacy")
    assert asked == [7, 0]
    assert records_of(guard) == [("engine", "assemble", "plugin:acme")]


# -- out of reach --------------------------------------------------------------------------------------------------


async def test_an_engine_that_another_host_barred_is_not_called_here(closing):
    """The quarantine is the process's: a host that has the engine built already lets go of it."""
    registry, calls = Registry(), []
    disposed: list[str] = []

    def dispose(self):
        disposed.append("dispose")

    def ingest(self):
        calls.append("ingest")
        return IngestResult(ingested=True)

    one = closing(guard_of(broken([], dispose=hookimpl(dispose), ingest=hookimpl(ingest)), registry=registry))
    other = closing(guard_of(registry=registry))
    await call(one, "ingest")
    await call(other, "assemble")

    answer = await call(one, "ingest")
    await asyncio.gather(one.close(), other.close())

    assert answer.serving.engine_id == "legacy"
    assert calls == ["ingest"]
    assert disposed == ["dispose", "dispose"]


async def test_a_job_that_fails_behind_the_hooks_bars_its_engine(closing):
    """The next call does not reach the engine, which is let go; the record says background."""
    calls: list[str] = []

    def ingest(self):
        calls.append("ingest")
        return IngestResult(ingested=True)

    guard = closing(guard_of(type("Works", (Plain,), {"ingest": hookimpl(ingest)})))
    await call(guard, "ingest")

    guard.note_job(guard._engine.lane, RuntimeError("the import broke"), "the import broke")
    answer = await call(guard, "ingest")

    assert answer.serving.engine_id == "legacy"
    assert "the import broke" in str(answer.serving.substitution)
    assert calls == ["ingest"]
    assert records_of(guard) == [("engine", "background", "plugin:acme")]


async def test_what_an_engine_that_was_let_go_does_bars_no_successor(closing):
    """A late failure of the old engine says nothing of the one that was registered in its place."""
    entered, leave = threading.Event(), threading.Event()

    def maintain(self):
        entered.set()
        leave.wait(timeout=30)
        message = "too late"
        raise RuntimeError(message)

    guard = closing(guard_of(broken([], maintain=hookimpl(maintain))))
    late = asyncio.ensure_future(call(guard, "maintain"))
    await asyncio.to_thread(entered.wait, 10)
    guard._registry.quarantine.record(
        "engine", owner="plugin:acme", operation="assemble", reason="broke", policy=QuarantinePolicy()
    )
    await call(guard, "assemble")

    guard._registry.register("engine", Plain, owner="plugin:acme", refresh=True)
    served = await call(guard, "assemble")
    leave.set()
    answered = await late

    assert served.serving.engine_id == "engine"
    assert answered.serving.engine_id == "legacy"
    assert records_of(guard) == []
    assert (await call(guard, "assemble")).serving.engine_id == "engine"


async def test_several_failures_may_be_allowed(closing):
    """Each is answered by legacy; the engine is called again until it has failed often enough in a row."""
    calls: list[str] = []
    guard = closing(guard_of(broken(calls), policy=QuarantinePolicy(failures=3)))

    answers = [await call(guard, "assemble") for _ in range(5)]

    assert [answer.serving.engine_id for answer in answers] == ["legacy"] * 5
    assert calls == ["assemble"] * 3
    assert "assemble failed" in str(answers[0].serving.substitution)
    assert "quarantined during assemble" in str(answers[4].serving.substitution)


async def test_the_engine_and_the_fallback_are_disposed_side_by_side(closing):
    """Each waits for the other's dispose to begin: one after the other would never end."""
    first, second = threading.Event(), threading.Event()
    ended: list[bool] = []

    def dispose_engine(self):
        first.set()
        ended.append(second.wait(timeout=10))

    async def dispose_legacy(self):
        second.set()
        ended.append(await asyncio.to_thread(first.wait, 10))

    legacy = type("L", (Legacy,), {"dispose": hookimpl(dispose_legacy)})
    registry = Registry()
    guard = guard_of(
        type("E", (Plain,), {"dispose": hookimpl(dispose_engine), "tools": hookimpl(_no_tools)}),
        legacy=legacy,
        registry=registry,
        policy=QuarantinePolicy(failures=2),
    )
    await call(guard, "tools")
    await call(guard, "assemble")

    await guard.close()

    assert ended == [True, True]
    with pytest.raises(SessionClosedError):
        await call(guard, "assemble")
    with pytest.raises(SessionClosedError):
        await guard.serving()


def _no_tools(self):
    message = "no tools"
    raise RuntimeError(message)


async def test_a_host_answers_while_its_engine_fails_in_every_session(tmp_path):
    """CT18 through the front door: many sessions at once, one record, every turn answered, nobody reached twice."""
    record = Record(failing={"assemble"})
    async with open_host(tmp_path, engines={"recorder": engine_of(OneByOne, record)}) as host:
        sessions = [await host.session(f"talk-{number}") for number in range(8)]
        for session in sessions:
            await session.append(UserMessage(content="hello"))

        prompts = await asyncio.gather(*(session.assemble() for session in sessions))
        again = await asyncio.gather(*(session.assemble() for session in sessions))

        (row,) = host.quarantines()
    assert {prompt.engine for prompt in (*prompts, *again)} == {"legacy"}
    assert all([message.text for message in prompt.messages] == ["hello"] for prompt in prompts)
    assert row.record.operation == "assemble"
    assert 1 <= record.calls.count(("assemble", 0)) <= 8


@pytest.mark.parametrize("slot", ["there", "announced", "missing", "barred"])
async def test_the_slot_is_looked_up_once(closing, monkeypatch, slot):
    """Looking reads the disk, so the answer is kept: for an engine, an announcement, and for nobody."""
    registry = Registry()
    if slot != "missing":
        registry.register(
            "engine",
            broken([]) if slot == "barred" else Plain,
            owner="plugin:acme",
            lifecycle="discovery" if slot == "announced" else "runtime",
        )
    guard = closing(guard_of(registry=registry))
    looks: list[int] = []
    look = guard._select
    monkeypatch.setattr(guard, "_select", lambda: looks.append(1) or look())

    for _ in range(4):
        await call(guard, "assemble")

    assert looks == [1]
