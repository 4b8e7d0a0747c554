"""
Between a host and the engine it runs: nothing an engine does passes here unseen.

A call that raises, hangs or answers nonsense is recorded and answered by the
built-in engine within the same call. ``compact`` and ``prepare_subagent_spawn`` are
the caller's to see instead, since half a compaction cannot be continued by
another engine. The caller's cancellation and ``KeyboardInterrupt`` always pass.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, NoReturn

import attrs

from openclaw_ctx.contract import LEGACY_ENGINE_ID, AbortSignal, EngineInfo
from openclaw_ctx.errors import (
    AbortError,
    EngineContractError,
    EngineFailedError,
    EngineNotRegisteredError,
    SessionClosedError,
    SubstitutionRefusedError,
)
from openclaw_ctx.log import clean_text, get_logger, trace_error

from .discovery import Candidate
from .engine import BuiltEngine, MakeContext, build_engine
from .handed import hold_preparation, hold_tools
from .lane import DeadlineExceeded, LaneFault, Runner
from .quarantine import QuarantinePolicy
from .registration import Registration
from .registry import Registry
from .resolver import Selection
from .results import NEUTRAL, InvalidResult
from .watch import HookCall, Watch

__all__ = ["Answer", "Guard", "Serving"]

_log = get_logger()

# A failure of these is the caller's to see; for every other the built-in engine answers.
_RAISING: Final = frozenset({"compact", "prepare_subagent_spawn"})
# What an engine can fail before it has any hook.
_BUILDING: Final = ("resolve", "factory", "contract-validation")
# Frames of these are on the way to every engine.
_OURS: Final = ("openclaw_ctx.host", "pluggy")
_ABORT_WORDS: Final = ("abort", "cancel")


@attrs.frozen(kw_only=True)
class Serving:
    """
    Who answers now.

    Attributes:
        implemented: The hooks that it has; for the others there is a neutral answer.
        generation: Changes whenever another engine, or the same one built anew, answers.
        substitution: Why it is not the engine that the slot asks for; ``None`` where it is.
    """

    engine_id: str
    owner: str
    info: EngineInfo
    implemented: frozenset[str]
    generation: int
    substitution: str | None


@attrs.frozen(kw_only=True)
class Answer:
    """A hook's answer, and who gave it."""

    value: Any
    serving: Serving


class _Request(NamedTuple):  # made for each call, and a frozen attrs class takes three times as long
    """What a caller asks of whoever answers; see :meth:`Guard.call`."""

    operation: str
    arguments: Mapping[str, Any]
    abort: AbortSignal | None
    seconds: float | None
    check: Callable[[Any], Any] | None


@attrs.define(eq=False)
class _Fault(Exception):  # noqa: N818 -- on its way to becoming a record
    operation: str
    reason: str
    cause: BaseException | None


class Guard:
    """The one way to the engine of a host. Used from the host's loop."""

    def __init__(
        self,
        registry: Registry,
        *,
        select: Callable[[], Selection],
        make_context: MakeContext,
        deadlines: Mapping[str, float],
        policy: QuarantinePolicy,
        strict: bool = False,
        observe: Callable[[HookCall], None] | None = None,
    ) -> None:
        self._registry = registry
        self._select = select
        self._make_context = make_context
        self._deadlines = deadlines
        self._policy = policy
        self._strict = strict
        self._watch = None if observe is None else Watch(observe)
        self._selection: Selection | None = None
        self._engine: BuiltEngine | None = None
        self._fallback: BuiltEngine | None = None
        self._building = asyncio.Lock()
        self._building_fallback = asyncio.Lock()
        self._generation = 0
        # Who answers, for as long as nobody has barred it.
        self._answering: tuple[BuiltEngine, Serving] | None = None
        self._trying: BuiltEngine | None = None
        self._announced: Registration | None = None
        self._disposals: set[asyncio.Task[None]] = set()
        self._closed = False

    async def serving(self) -> Serving:
        """
        Return who would answer now, building it where need be.

        Raises:
            SubstitutionRefusedError: The selected engine cannot, and the policy is strict.
            EngineNotRegisteredError: Not even the built-in engine can.
        """
        return (self._known() or await self._find())[1]

    async def call(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        abort: AbortSignal | None = None,
        seconds: float | None = None,
        check: Callable[[Any], Any] | None = None,
    ) -> Answer:
        """
        Call a hook of whoever answers now.

        Args:
            operation: A hook of the contract.
            arguments: Every parameter that the contract gives it.
            abort: Raises its reason at once where it has fired; an abort quarantines nobody.
            seconds: A tighter deadline than the operation's own.
            check: Runs in the lane, within the deadline; holds the structured answer against more than its type; what
                it returns is the answer, ``InvalidResult`` from it is a fault.

        Raises:
            EngineFailedError: It failed, and nothing may answer in its place.
            SubstitutionRefusedError: The selected engine is barred, and the policy is strict.
        """
        if abort is not None:
            abort.raise_if_fired()
        if self._closed:
            raise SessionClosedError("Host")
        request = _Request(operation, arguments, abort, seconds, check)
        engine, serving = self._known() or await self._find()
        while engine.engine_id != LEGACY_ENGINE_ID:
            if operation not in serving.implemented:
                return Answer(value=_neutral(operation, "the engine has no such hook"), serving=serving)
            if self._registry.quarantine.begin(engine.engine_id):
                return await self._call_engine(engine, serving, request)
            engine, serving = await self._find()  # somebody else has the try
        return await self._call_fallback(request, serving)

    def note_job(self, lane: Runner, error: BaseException | None, reason: str) -> None:
        """
        Note how a job ended that an engine had begun, ``None`` being well.

        What a job of an engine that was let go does, as when its lane ends, says nothing of its successor.

        Args:
            lane: Whose job it was.
            error: What it raised.
            reason: What that says, described in the lane: it is the engine's code that says it.
        """
        engine_id = lane.life.engine_id
        if lane.life.is_over or engine_id == LEGACY_ENGINE_ID:
            if error is not None:
                _log.debug("engine.late_failure_discarded", reason=reason)
            return
        quarantine = self._registry.quarantine
        if error is None:
            quarantine.job_succeeded(engine_id, "background")
            return
        owner = self._selection.owner if self._selection is not None else "unknown"
        self._record(engine_id, owner, _Fault("background", reason, error))
        engine = self._engine
        if engine is not None and engine is not self._trying and quarantine.record_of(engine_id) is not None:
            self._retire(engine)

    async def close(self) -> None:
        """Dispose the engine and the fallback side by side, each within its deadline."""
        self._closed = True
        built = [engine for engine in (self._engine, self._fallback) if engine is not None]
        self._engine = self._fallback = self._answering = None
        seconds = self._deadlines["dispose"]
        await asyncio.gather(*(engine.dispose(seconds=seconds) for engine in built), *self._disposals)

    # -- the selected engine ----------------------------------------------------------------------

    def _known(self) -> tuple[BuiltEngine, Serving] | None:
        """Return who answers, if that is the selected engine and nobody has barred it."""
        known = self._answering
        return known if known is not None and self._registry.quarantine.barred(known[1].engine_id) is None else None

    async def _find(self) -> tuple[BuiltEngine, Serving]:
        engine, substitution = await self._current()
        answering = engine, self._serve(engine, substitution)
        self._answering = answering if engine is self._engine else None
        return answering

    async def _current(self) -> tuple[BuiltEngine, str | None]:
        """Return who answers, built; and why it is not the one asked for."""
        async with self._building:
            if self._closed:
                raise SessionClosedError("Host")
            known = self._selection
            selection = known or self._look()
            if selection.outcome in {"default", "switched_off"}:
                if self._strict and selection.outcome == "switched_off":
                    raise SubstitutionRefusedError(selection.asked, selection.reason or "")
                return await self._legacy(), selection.reason
            barred = self._barred(selection.asked)
            if barred is not None:
                if self._engine is not None and self._engine is not self._trying:
                    self._retire(self._engine)  # barred by another host, or by a job behind its hooks
                return await self._substitute(selection.asked, barred)
            if self._engine is not None:
                return self._engine, None
            if known is not None and not self._is_announced_still(selection):
                looked = self._look_again(known)  # it may have been registered, or installed, since
                if looked is None:
                    return await self._substitute(known.asked, self._barred(known.asked) or "quarantined")
                selection = looked
            if selection.source is None:
                return await self._pass_over(selection)
            return await self._build_selected(selection.source)

    def _look(self) -> Selection:
        """Look up what the slot comes to. Reads the disk, so not for each call."""
        selection = self._selection = self._select()
        record = self._registry.quarantine.record_of(selection.asked)
        if selection.source is not None and record is not None and record.operation == "resolve":
            self._registry.quarantine.clear(selection.asked)  # it said that nobody is there
        return selection

    def _look_again(self, known: Selection) -> Selection | None:
        """Look up the slot once more; under a quarantine that is the try, so ``None`` while there is none to be had."""
        quarantine, asked = self._registry.quarantine, known.asked
        if not quarantine.begin(asked):
            return None
        refused = False
        try:
            selection = self._look()
            refused = selection.outcome == "refused"
        finally:
            if not refused:
                quarantine.withdraw(asked)  # to be there proves nothing; nobody being there is a failure like any
        return selection

    def _is_announced_still(self, selection: Selection) -> bool:
        announced = self._announced
        return announced is not None and self._registry.get(selection.asked) is announced

    async def _pass_over(self, selection: Selection) -> tuple[BuiltEngine, str]:
        """Answer for an engine that is not there; one that is only announced has not failed."""
        reason = selection.reason or "not registered"
        if selection.outcome != "announced":
            self._record(selection.asked, "unknown", _Fault("resolve", reason, None))
        elif not self._is_announced_still(selection):
            self._announced = self._registry.get(selection.asked)
            _log.warning("engine.passed_over", engine=selection.asked, reason=reason)
        return await self._substitute(selection.asked, reason)

    async def _build_selected(self, source: Registration | Candidate) -> tuple[BuiltEngine, str | None]:
        quarantine, engine_id = self._registry.quarantine, source.engine_id
        if not quarantine.begin(engine_id):
            return await self._substitute(engine_id, self._barred(engine_id) or "quarantined")
        try:
            engine = await self._build(source)
        except _Fault as fault:
            self._record(engine_id, source.owner, fault)
            return await self._substitute(engine_id, fault.reason)
        except BaseException:
            quarantine.withdraw(engine_id)
            raise
        if self._closed:  # while it was built
            await engine.dispose(seconds=self._deadlines["dispose"])
            raise SessionClosedError("Host")
        self._engine = engine
        self._generation += 1
        record = quarantine.record_of(engine_id)
        if record is not None and record.operation not in _BUILDING:
            quarantine.withdraw(engine_id)  # that it can be built proves nothing: the next call is its try
        else:
            for operation in _BUILDING:
                quarantine.succeeded(engine_id, operation)
        return engine, None

    async def _build(self, source: Registration | Candidate) -> BuiltEngine:
        try:
            return await build_engine(source, self._make_context, seconds=self._deadlines["factory"])
        except LaneFault as envelope:
            _pass_interrupt(envelope.error)
            error = envelope.error
            operation = "contract-validation" if isinstance(error, EngineContractError) else "factory"
            raise _Fault(operation, envelope.reason, error) from error
        except DeadlineExceeded as error:
            raise _Fault("factory", str(error), error) from error

    async def _attempt(self, engine: BuiltEngine, request: _Request) -> Any:
        """Call one engine; what goes wrong comes out as a fault, an abort as what it is."""
        operation, arguments, abort, seconds, check = request
        deadline = self._deadlines[operation]
        limit = deadline if seconds is None or seconds > deadline else seconds
        began = time.perf_counter()
        failed = True
        try:
            value = await engine.call(operation, arguments, seconds=limit, abort=abort, check=check)
            if operation == "tools":
                value = hold_tools(engine, value, seconds=deadline)
            elif operation == "prepare_subagent_spawn" and value is not None:
                value = hold_preparation(engine, value, seconds=deadline)
            failed = False
        except LaneFault as envelope:
            error = envelope.error
            _pass_interrupt(error)
            if _is_abort(envelope, abort):
                raise error from None
            raise _Fault(operation, envelope.reason, error) from error
        except (DeadlineExceeded, InvalidResult) as error:
            raise _Fault(operation, str(error), error) from error
        finally:
            if self._watch is not None:
                took = time.perf_counter() - began
                self._watch.tell(HookCall(operation=operation, engine_id=engine.engine_id, seconds=took, failed=failed))
        return value

    async def _call_engine(self, engine: BuiltEngine, serving: Serving, request: _Request) -> Answer:
        """Call the selected engine, and tell the quarantine how that went."""
        quarantine = self._registry.quarantine
        trying = quarantine.record_of(engine.engine_id) is not None
        if trying:
            self._trying = engine
        try:
            value = await self._attempt(engine, request)
        except _Fault as fault:
            return await self._contain(engine, fault, request)
        except BaseException:
            if trying:
                quarantine.withdraw(engine.engine_id)
            raise
        finally:
            if trying:
                self._trying = None
        quarantine.succeeded(engine.engine_id, request.operation)
        return Answer(value=value, serving=serving)

    async def _contain(self, engine: BuiltEngine, fault: _Fault, request: _Request) -> Answer:
        """Record a fault, then answer in the engine's place, or tell the caller."""
        if self._closed:  # that is why the call ended
            raise SessionClosedError("Host") from fault
        # An engine that was let go says nothing of the one that has been registered in its place since.
        if engine is self._engine:
            self._record(engine.engine_id, engine.owner, fault)
            if self._registry.quarantine.record_of(engine.engine_id) is not None:
                self._retire(engine)
        if fault.operation in _RAISING or self._strict:
            _raise_failed(engine, fault)
        try:
            legacy = await self._legacy()
            serving = self._serve(legacy, f"{fault.operation} failed: {fault.reason}")
            return await self._call_fallback(request, serving)
        except (EngineFailedError, EngineNotRegisteredError):
            _raise_failed(engine, fault)

    def _retire(self, engine: BuiltEngine) -> None:
        """Let go of a barred engine, at once and without waiting for it."""
        if self._engine is not engine:
            return
        engine.retire()
        self._engine = None
        self._answering = None
        self._generation += 1
        task = asyncio.ensure_future(engine.dispose(seconds=self._deadlines["dispose"]))
        self._disposals.add(task)
        task.add_done_callback(self._disposals.discard)

    def _record(self, engine_id: str, owner: str, fault: _Fault) -> None:
        where = trace_error(fault.cause, hide=_OURS) if fault.cause is not None else []
        if where:  # for the engine's author
            _log.debug("engine.traced", engine=engine_id, operation=fault.operation, where=where)
        self._registry.quarantine.record(
            engine_id,
            owner=owner,
            operation=fault.operation,
            reason=clean_text(fault.reason),
            policy=self._policy,
        )

    def _barred(self, engine_id: str) -> str | None:
        record = self._registry.quarantine.barred(engine_id)
        return None if record is None else f"quarantined during {record.operation}: {record.reason}"

    # -- the built-in engine ----------------------------------------------------------------------

    async def _substitute(self, asked: str, reason: str) -> tuple[BuiltEngine, str]:
        if self._strict:
            raise SubstitutionRefusedError(asked, reason)
        return await self._legacy(), reason

    async def _legacy(self) -> BuiltEngine:
        """Return the built-in engine, built once however many calls fail at the same time."""
        async with self._building_fallback:
            if self._fallback is None:
                registration = self._registry.get(LEGACY_ENGINE_ID)
                if registration is None:
                    raise EngineNotRegisteredError(LEGACY_ENGINE_ID)
                self._fallback = await self._build_legacy(registration)
            return self._fallback

    async def _build_legacy(self, registration: Registration) -> BuiltEngine:
        try:
            return await self._build(registration)
        except _Fault as fault:
            raise EngineFailedError(
                registration.engine_id, registration.owner, fault.operation, fault.reason
            ) from fault.cause

    async def _call_fallback(self, request: _Request, serving: Serving) -> Answer:
        engine = await self._legacy()
        if not engine.implements(request.operation):
            value = _neutral(request.operation, f"downgraded to {LEGACY_ENGINE_ID}")
            return Answer(value=value, serving=serving)
        try:
            value = await self._attempt(engine, request)
        except _Fault as fault:
            _raise_failed(engine, fault)
        return Answer(value=value, serving=serving)

    def _serve(self, engine: BuiltEngine, substitution: str | None) -> Serving:
        return Serving(
            engine_id=engine.engine_id,
            owner=engine.owner,
            info=engine.info,
            implemented=engine.hooks.implemented,
            generation=self._generation,
            substitution=substitution,
        )


def _raise_failed(engine: BuiltEngine, fault: _Fault) -> NoReturn:
    raise EngineFailedError(engine.engine_id, engine.owner, fault.operation, clean_text(fault.reason)) from fault.cause


def _neutral(operation: str, reason: str) -> Any:
    return NEUTRAL[operation](reason) if operation in NEUTRAL else None


def _pass_interrupt(error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt):
        raise error


def _is_abort(envelope: LaneFault, abort: AbortSignal | None) -> bool:
    """Whether what was raised is the abort that was asked for; without one, an engine's AbortError is a fault."""
    if abort is None or not abort.fired:
        return False
    error = envelope.error
    if error is abort.reason or isinstance(error, AbortError | asyncio.CancelledError):
        return True
    text = envelope.reason.lower()
    return any(word in text for word in _ABORT_WORDS)
