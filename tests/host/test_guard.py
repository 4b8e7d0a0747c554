"""Nothing an engine does passes the guard unseen, and every call has an answer or a clear error."""
# ruff: noqa: D102 -- what a hook does is in the contract; what an engine under test does, in its class

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from openclaw_ctx import (
    AbortError,
    AbortSignal,
    AssembleResult,
    BootstrapResult,
    CompactResult,
    EngineFailedError,
    EngineInfo,
    EngineNotRegisteredError,
    IngestBatchResult,
    IngestResult,
    Registry,
    RewriteResult,
    SessionClosedError,
    SubagentPreparation,
    SubstitutionRefusedError,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.config import DeadlineSettings
from openclaw_ctx.host import (
    HOOKS,
    Discovery,
    Guard,
    HookCall,
    InvalidResult,
    Policy,
    QuarantinePolicy,
    select,
)
from tests.assembly.recording import OneByOne, Record, engine_of, open_host

HISTORY = (UserMessage(content="What now?"),)


class Plain:
    """Keeps the contract, and sends everything."""

    info = EngineInfo(id="engine-s-own-id", name="Plain", owns_compaction=True)

    def __init__(self, context: object) -> None:
        self.context = context

    @hookimpl
    def ingest(self):
        return IngestResult(ingested=True)

    @hookimpl
    def assemble(self, messages):
        return AssembleResult(messages=messages, estimated_tokens=7)

    @hookimpl
    def compact(self):
        return CompactResult(ok=True, compacted=False, reason="by the engine")


class Legacy(Plain):
    """Stands in for the built-in engine."""

    info = EngineInfo(id="legacy", name="Legacy")

    @hookimpl
    def assemble(self, messages):
        return AssembleResult(messages=messages)

    @hookimpl
    def compact(self):
        return CompactResult(ok=True, compacted=False, reason="by legacy")


def guard_of(
    factory: Any = None,
    *,
    legacy: Any = Legacy,
    registry: Registry | None = None,
    deadlines: Mapping[str, float] | None = None,
    policy: QuarantinePolicy | None = None,
    strict: bool = False,
    observe: Callable[[HookCall], None] | None = None,
) -> Guard:
    """Return the guard of a host whose slot asks for ``engine``; *legacy* ``None`` leaves out the built-in one."""
    registry = registry or Registry()
    if factory is not None:
        registry.register("engine", factory, owner="plugin:acme")
    if legacy is not None and registry.get("legacy") is None:
        registry.register("legacy", legacy, owner="core")
    return Guard(
        registry,
        select=lambda: select(Policy(slot="engine"), registry, Discovery()),
        make_context=lambda engine_id, factory, lane: None,
        deadlines={**DeadlineSettings().seconds(), **(deadlines or {})},
        policy=policy or QuarantinePolicy(),
        strict=strict,
        observe=observe,
    )


async def call(guard: Guard, operation: str, *, abort: AbortSignal | None = None, **options: Any) -> Any:
    """Call a hook with every parameter of the contract."""
    arguments: dict[str, Any] = dict.fromkeys(HOOKS[operation])
    if "messages" in arguments:
        arguments["messages"] = HISTORY
    return await guard.call(operation, arguments, abort=abort, **options)


def records_of(guard: Guard) -> list[tuple[str, str, str | None]]:
    """Return (engine, operation, owner) of each record."""
    return [(record.engine_id, record.operation, record.owner) for record in guard._registry.quarantine.records()]


@pytest.fixture
async def closing():
    """Close each guard that is put in here."""
    guards: list[Guard] = []
    yield lambda guard: guards.append(guard) or guard
    for guard in guards:
        await guard.close()


# -- building -----------------------------------------------------------------------------------------------------


def _explode(context: object) -> Any:
    message = "out of order"
    raise RuntimeError(message)


class _WithoutInfo(Plain):
    info = None


class _WithoutHooks:
    info = EngineInfo(id="x", name="X")

    def __init__(self, context: object) -> None: ...

    @hookimpl
    def ingest(self):
        return IngestResult(ingested=True)


class _MoodyInfo(Plain):
    @property
    def info(self):
        message = "cannot be serialised"
        raise ValueError(message)


@pytest.mark.parametrize(
    "factory,operation,reason",
    [
        pytest.param(None, "resolve", "context engine 'engine' is not registered", id="missing"),
        pytest.param(_explode, "factory", "out of order", id="the factory raises"),
        pytest.param(_WithoutInfo, "contract-validation", "info", id="no info"),
        pytest.param(_WithoutHooks, "contract-validation", "missing assemble(), missing compact()", id="no methods"),
        pytest.param(_MoodyInfo, "contract-validation", "cannot be serialised", id="the check itself raises"),
        pytest.param(lambda context: None, "contract-validation", "NoneType", id="the factory returns None"),
    ],
)
async def test_an_engine_that_cannot_be_had_is_replaced_and_the_reason_kept(closing, factory, operation, reason):
    """CT17: legacy answers; the record names operation and reason, and the factory is not called again."""
    calls = []

    def counted(context):
        calls.append(1)
        return factory(context)

    guard = closing(guard_of(factory and counted))

    first, second = await call(guard, "assemble"), await call(guard, "assemble")

    (record,) = guard._registry.quarantine.records()
    assert (first.serving.engine_id, second.serving.engine_id) == ("legacy", "legacy")
    assert record.operation == operation
    assert reason in record.reason
    assert reason in str(first.serving.substitution)
    assert len(calls) <= 1


async def test_without_the_built_in_engine_there_is_no_answer(closing):
    """CT26: the default engine is missing: an error that says so, and no record of an engine that was not asked for."""
    guard = closing(guard_of(_explode, legacy=None))

    with pytest.raises(EngineNotRegisteredError, match="'legacy' is not registered"):
        await call(guard, "assemble")

    assert records_of(guard) == [("engine", "factory", "plugin:acme")]


async def test_an_invalid_built_in_engine_raises(closing):
    """CT27: what should stand in for everybody must itself keep the contract; it is never quarantined."""
    guard = closing(guard_of(_explode, legacy=_WithoutHooks))

    with pytest.raises(EngineFailedError, match=r"missing assemble\(\)") as caught:
        await call(guard, "assemble")

    assert (caught.value.engine_id, caught.value.operation) == ("legacy", "contract-validation")
    assert records_of(guard) == [("engine", "factory", "plugin:acme")]


# -- a failing hook -----------------------------------------------------------------------------------------------


class Broken(Plain):
    """Raises in assemble, and counts who reaches it."""

    calls: list[str]

    @hookimpl
    async def assemble(self, messages):
        self.calls.append("assemble")
        await asyncio.sleep(0)
        message = "assemble broke"
        raise RuntimeError(message)


def broken(calls: list[str], **hooks: Any) -> type:
    """Return a class of engines that share *calls*, with other hooks where given."""
    return type("Broken", (Broken,), {"calls": calls, **hooks})


async def test_two_failures_at_once_share_one_fallback_and_make_one_record(closing):
    """CT18: both calls are answered by one engine, built when it was needed; the broken one is out of reach after."""
    calls: list[str] = []
    built: list[object] = []

    async def slowly(context):
        built.append(Legacy(context))
        await asyncio.sleep(0)
        return built[-1]

    guard = closing(guard_of(broken(calls), legacy=slowly))
    before = await guard.serving()
    assert (before.engine_id, built) == ("engine", [])

    answers = await asyncio.gather(call(guard, "assemble"), call(guard, "assemble"))
    later = await call(guard, "assemble")
    after = await guard.serving()

    assert [answer.value.messages for answer in answers] == [HISTORY, HISTORY]
    assert [answer.serving.engine_id for answer in (*answers, later)] == ["legacy"] * 3
    assert len(built) == 1
    assert calls == ["assemble", "assemble"]
    assert records_of(guard) == [("engine", "assemble", "plugin:acme")]
    assert (after.engine_id, after.info.id, after.owner) == ("legacy", "legacy", "core")
    assert (before.info.owns_compaction, after.info.owns_compaction) == (True, False)
    assert after.generation != before.generation


async def test_the_first_failure_is_the_one_that_is_told(closing):
    """Two hooks fail at once: the record keeps the one that came first."""
    failed = threading.Event()

    def assemble(self):
        failed.set()
        message = "assemble broke"
        raise RuntimeError(message)

    async def maintain(self):
        await asyncio.to_thread(failed.wait, 10)
        message = "maintain broke, later"
        raise RuntimeError(message)

    hooks = {"assemble": hookimpl(assemble), "maintain": hookimpl(maintain)}
    guard = closing(guard_of(type("Twice", (Plain,), hooks), policy=QuarantinePolicy()))

    answers = await asyncio.gather(call(guard, "maintain"), call(guard, "assemble"))

    (record,) = guard._registry.quarantine.records()
    assert [answer.serving.engine_id for answer in answers] == ["legacy", "legacy"]
    assert record.operation == "assemble"
    assert "assemble broke" in record.reason


async def test_when_legacy_fails_too_the_engine_s_error_is_raised(closing):
    """The original error, with its cause; the fallback's own is beside the point, and legacy is not quarantined."""

    class Worse(Legacy):
        @hookimpl
        def assemble(self, messages):
            message = "legacy broke"
            raise KeyError(message)

    guard = closing(guard_of(broken([]), legacy=Worse))

    with pytest.raises(EngineFailedError) as caught:
        await call(guard, "assemble")

    assert (caught.value.engine_id, caught.value.operation) == ("engine", "assemble")
    assert "assemble broke" in caught.value.reason
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert records_of(guard) == [("engine", "assemble", "plugin:acme")]


async def test_a_strict_policy_raises_instead(closing):
    """The failing call raises the engine's error, and the next one says that nobody may stand in."""
    guard = closing(guard_of(broken([]), strict=True))

    with pytest.raises(EngineFailedError, match="assemble broke"):
        await call(guard, "assemble")
    with pytest.raises(SubstitutionRefusedError, match="assemble broke"):
        await call(guard, "assemble")


async def test_a_failed_compaction_is_the_caller_s_to_see(closing):
    """CT20, B25: it raises, legacy does not compact in the same call; then info shows legacy, which compacts next."""
    calls: list[HookCall] = []

    def compact(self):
        message = "halfway"
        raise RuntimeError(message)

    guard = closing(guard_of(broken([], compact=hookimpl(compact)), observe=calls.append))
    owned = (await guard.serving()).info.owns_compaction

    with pytest.raises(EngineFailedError, match="halfway") as caught:
        await call(guard, "compact")
    seen = [(hook.engine_id, hook.failed) for hook in calls]
    serving = await guard.serving()
    answer = await call(guard, "compact")

    assert caught.value.operation == "compact"
    assert seen == [("engine", True)], "nobody else was called"
    assert records_of(guard) == [("engine", "compact", "plugin:acme")]
    assert (owned, serving.engine_id, serving.info.owns_compaction) == (True, "legacy", False)
    assert answer.value.reason == "by legacy"


async def test_a_compaction_that_is_cancelled_bars_nobody(closing):
    """CT21: by its signal or by the caller's own cancellation: the engine goes on serving."""
    entered = threading.Event()

    async def compact(self, abort_signal):
        entered.set()
        await asyncio.Event().wait()

    guard = closing(guard_of(type("Waits", (Plain,), {"compact": hookimpl(compact)})))
    await guard.serving()
    signal = AbortSignal()

    aborted = asyncio.ensure_future(call(guard, "compact", abort=signal))
    await asyncio.to_thread(entered.wait, 10)
    signal.fire("the user pressed stop")
    with pytest.raises(AbortError, match="the user pressed stop"):
        await aborted
    entered.clear()
    cancelled = asyncio.ensure_future(call(guard, "compact"))
    await asyncio.to_thread(entered.wait, 10)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled

    assert records_of(guard) == []
    assert (await guard.serving()).engine_id == "engine"


class Maintains(Plain):
    """Does in maintain what a test says."""

    calls: list[str]
    entered: threading.Event
    raising: BaseException | None = None

    @hookimpl
    async def maintain(self):
        self.calls.append("maintain")
        self.entered.set()
        if self.raising is not None:
            raise self.raising
        await asyncio.Event().wait()


def maintaining(raising: BaseException | None = None) -> type[Maintains]:
    """Return a class of its own, with calls of its own."""
    return type("M", (Maintains,), {"calls": [], "entered": threading.Event(), "raising": raising})


async def test_a_signal_that_has_fired_keeps_the_call_from_the_engine(closing):
    """CT24, before: maintain is not called, and the very reason is raised."""
    engine, reason, signal = maintaining(), ValueError("shutting down"), AbortSignal()
    guard = closing(guard_of(engine))
    signal.fire(reason)

    with pytest.raises(ValueError, match="shutting down") as caught:
        await call(guard, "maintain", abort=signal)

    assert caught.value is reason
    assert engine.calls == []
    assert records_of(guard) == []


@pytest.mark.parametrize(
    "reason", [pytest.param("stop", id="a text"), pytest.param(OSError("stop"), id="an error of its own")]
)
async def test_a_signal_that_fires_in_the_call_raises_its_reason(closing, reason):
    """CT24, during: the error is raised, and the engine is not quarantined."""
    engine, signal = maintaining(), AbortSignal()
    guard = closing(guard_of(engine))

    running = asyncio.ensure_future(call(guard, "maintain", abort=signal))
    await asyncio.to_thread(engine.entered.wait, 10)
    signal.fire(reason)

    with pytest.raises((AbortError, OSError), match="stop"):
        await running
    assert records_of(guard) == []


async def test_an_abort_that_nobody_asked_for_is_a_fault(closing):
    """CT24, without: the answer says that nothing changed, and the record names maintain."""
    guard = closing(guard_of(maintaining(AbortError("on a whim"))))

    answer = await call(guard, "maintain", abort=AbortSignal())

    assert answer.value.changed is False
    assert records_of(guard) == [("engine", "maintain", "plugin:acme")]


async def test_a_failed_preparation_fails_the_spawn_and_bars_the_engine(closing):
    """CT25: a subagent that nobody prepared for is not begun."""

    def prepare_subagent_spawn(self):
        message = "no room"
        raise RuntimeError(message)

    guard = closing(guard_of(broken([], prepare_subagent_spawn=hookimpl(prepare_subagent_spawn))))

    with pytest.raises(EngineFailedError, match="no room"):
        await call(guard, "prepare_subagent_spawn")
    answer = await call(guard, "prepare_subagent_spawn")

    assert records_of(guard) == [("engine", "prepare_subagent_spawn", "plugin:acme")]
    assert (answer.value, answer.serving.engine_id) == (None, "legacy")


async def test_a_preparation_without_a_way_back_fails_the_spawn(closing):
    """B46's kind: an answer that is neither None nor has a callable rollback is a fault."""

    def prepare_subagent_spawn(self):
        return SubagentPreparation(rollback="undo")

    guard = closing(guard_of(broken([], prepare_subagent_spawn=hookimpl(prepare_subagent_spawn))))

    with pytest.raises(EngineFailedError, match="rollback"):
        await call(guard, "prepare_subagent_spawn")


# -- neutral answers ----------------------------------------------------------------------------------------------


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
    assert guard.implements(operation) is False


# -- who watches, deadlines, checks -------------------------------------------------------------------------------


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


# -- out of reach -------------------------------------------------------------------------------------------------


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
    await one.close()

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

    guard.report_background_failure("engine", RuntimeError("the import broke"))
    answer = await call(guard, "ingest")

    assert answer.serving.engine_id == "legacy"
    assert "the import broke" in str(answer.serving.substitution)
    assert calls == ["ingest"]
    assert guard.implements("ingest_batch") is False
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
