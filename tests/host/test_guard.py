"""Nothing an engine does passes the guard unseen, and every call has an answer or a clear error."""

import asyncio
import threading
from typing import Any

import pytest

from openclaw_ctx import (
    AbortError,
    AbortSignal,
    EngineFailedError,
    EngineInfo,
    EngineNotRegisteredError,
    IngestResult,
    SubagentPreparation,
    SubstitutionRefusedError,
    hookimpl,
)
from openclaw_ctx.host import (
    Guard,
    HookCall,
    QuarantinePolicy,
)
from tests.host.guarded import HISTORY, Legacy, Plain, broken, call, guard_of, maintaining, records_of


@pytest.fixture
async def closing():
    """Close each guard that is put in here."""
    guards: list[Guard] = []
    yield lambda guard: guards.append(guard) or guard
    for guard in guards:
        await guard.close()


# -- building ------------------------------------------------------------------------------------------------------


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


# -- a failing hook ------------------------------------------------------------------------------------------------


async def test_two_failures_at_once_share_one_fallback_and_make_one_record(closing):
    """CT18: both calls are answered by one engine, built when it was needed; the broken one is out of reach after."""
    calls: list[str] = []
    built: list[object] = []
    both = asyncio.Event()

    async def assemble(self, messages):
        calls.append("assemble")
        if len(calls) == 2:
            both.set()
        await both.wait()
        message = "assemble broke"
        raise RuntimeError(message)

    async def slowly(context):
        built.append(Legacy(context))
        await asyncio.sleep(0)
        return built[-1]

    guard = closing(guard_of(broken([], assemble=hookimpl(assemble)), legacy=slowly))
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
