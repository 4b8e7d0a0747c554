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
from typing import Any, Final, NoReturn

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
from openclaw_ctx.log import clean_text, describe_error, get_logger

from .engine import BuiltEngine, MakeContext, build_engine
from .lane import DeadlineExceeded, LaneFault
from .quarantine import QuarantinePolicy
from .registry import Registration, Registry
from .resolver import Selection
from .results import NEUTRAL, InvalidResult, structure_result

__all__ = ["Answer", "Guard", "HookCall", "Serving"]

_log = get_logger()

# A failure of these is the caller's to see; for every other the built-in engine answers.
_RAISING: Final = frozenset({"compact", "prepare_subagent_spawn"})
_ABORT_WORDS: Final = ("abort", "cancel")


@attrs.frozen(kw_only=True)
class HookCall:
    """One call of a hook, for who watches: the engine that was called, how long it took, how it ended."""

    operation: str
    engine_id: str
    seconds: float
    failed: bool


@attrs.frozen(kw_only=True)
class Serving:
    """
    Who answers now.

    Attributes:
        generation: Changes whenever another engine, or the same one built anew, answers.
        substitution: Why it is not the engine that the slot asks for; ``None`` where it is.
    """

    engine_id: str
    owner: str
    info: EngineInfo
    generation: int
    substitution: str | None


@attrs.frozen(kw_only=True)
class Answer:
    """A hook's answer, and who gave it."""

    value: Any
    serving: Serving


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
        self._observe = observe
        self._selection: Selection | None = None
        self._engine: BuiltEngine | None = None
        self._fallback: BuiltEngine | None = None
        self._building = asyncio.Lock()
        self._generation = 0
        self._serving: Serving | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._closed = False

    async def serving(self) -> Serving:
        """
        Return who would answer now, building it where need be.

        Raises:
            SubstitutionRefusedError: The selected engine cannot, and the policy is strict.
            EngineNotRegisteredError: Not even the built-in engine can.
        """
        serving = self._serving
        if serving is not None and self._engine is not None and not self._barred(serving.engine_id):
            return serving
        engine, substitution = await self._current()
        return self._served_by(engine, substitution)

    def implements(self, operation: str) -> bool:
        """Return whether whoever answers now has the hook; false before anybody has been built."""
        engine = self._engine or self._fallback
        return engine is not None and engine.implements(operation)

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
            check: Holds the structured answer against more than its type; what
                it returns is the answer, ``InvalidResult`` from it is a fault.

        Raises:
            EngineFailedError: It failed, and nothing may answer in its place.
            SubstitutionRefusedError: The selected engine is barred, and the policy is strict.
        """
        if abort is not None:
            abort.raise_if_fired()
        if self._closed:
            raise SessionClosedError("Host")
        serving = await self.serving()
        engine = self._engine
        if engine is None or engine.engine_id == LEGACY_ENGINE_ID:
            return await self._call_fallback(operation, arguments, serving, abort, seconds, check)
        try:
            value = await self._attempt(engine, operation, arguments, abort, seconds, check)
        except _Fault as fault:
            return await self._contain(engine, fault, arguments, abort, seconds, check)
        except BaseException:
            self._registry.quarantine.withdraw(engine.engine_id)
            raise
        self._registry.quarantine.succeeded(engine.engine_id)
        return Answer(value=value, serving=serving)

    def report_background_failure(self, engine_id: str, error: BaseException) -> None:
        """Note that a job which an engine began has failed; from any thread."""
        engine = self._engine
        owner = engine.owner if engine is not None and engine.engine_id == engine_id else "unknown"
        self._record(engine_id, owner, _Fault("background", describe_error(error), error))

    async def close(self) -> None:
        """Dispose the engine and the fallback side by side, each within its deadline."""
        self._closed = True
        built = [engine for engine in (self._engine, self._fallback) if engine is not None]
        self._engine = self._fallback = self._serving = None
        seconds = self._deadlines["dispose"]
        await asyncio.gather(*(engine.dispose(seconds=seconds) for engine in built), *self._background)

    # -- the selected engine ----------------------------------------------------------------------

    async def _current(self) -> tuple[BuiltEngine, str | None]:
        """Return who answers, built; and why it is not the one asked for."""
        async with self._building:
            selection = self._selection or self._select()
            self._selection = selection
            if selection.outcome in {"default", "switched_off"}:
                if self._strict and selection.outcome == "switched_off":
                    raise SubstitutionRefusedError(selection.asked, selection.reason or "")
                return await self._legacy(), selection.reason
            barred = self._barred(selection.asked)
            if barred is not None:
                return await self._substitute(selection.asked, barred)
            if self._engine is not None:
                return self._engine, None
            selection = self._selection = self._select()
            source = selection.source
            if source is None:
                fault = _Fault("resolve", selection.reason or "not registered", None)
                self._record(selection.asked, "unknown", fault)
                self._selection = None  # a later registration is seen
                return await self._substitute(selection.asked, fault.reason)
            try:
                self._engine = await self._build(source)
            except _Fault as fault:
                self._record(source.engine_id, source.owner, fault)
                return await self._substitute(selection.asked, fault.reason)
            self._generation += 1
            return self._engine, None

    async def _build(self, source: Any) -> BuiltEngine:
        try:
            return await build_engine(source, self._make_context, seconds=self._deadlines["factory"])
        except LaneFault as envelope:
            _pass_interrupt(envelope.error)
            error = envelope.error
            operation = "contract-validation" if isinstance(error, EngineContractError) else "factory"
            raise _Fault(operation, describe_error(error), error) from error
        except DeadlineExceeded as error:
            raise _Fault("factory", str(error), error) from error

    async def _attempt(
        self,
        engine: BuiltEngine,
        operation: str,
        arguments: Mapping[str, Any],
        abort: AbortSignal | None,
        seconds: float | None,
        check: Callable[[Any], Any] | None,
    ) -> Any:
        """Call one engine; what goes wrong comes out as a fault, an abort as what it is."""
        if not engine.implements(operation):
            return _neutral(operation, "the engine has no such hook")
        limit = self._deadlines[operation] if seconds is None else min(seconds, self._deadlines[operation])
        began = time.perf_counter()
        failed = True
        try:
            raw = await engine.call(operation, arguments, seconds=limit, abort=abort)
            value = structure_result(operation, raw)
            value = value if check is None else check(value)
            failed = False
        except LaneFault as envelope:
            error = envelope.error
            _pass_interrupt(error)
            if _is_abort(error, abort):
                raise error from None
            raise _Fault(operation, describe_error(error), error) from error
        except (DeadlineExceeded, InvalidResult) as error:
            raise _Fault(operation, str(error), error) from error
        finally:
            if self._observe is not None:
                self._observe(
                    HookCall(
                        operation=operation,
                        engine_id=engine.engine_id,
                        seconds=time.perf_counter() - began,
                        failed=failed,
                    )
                )
        return value

    async def _contain(
        self,
        engine: BuiltEngine,
        fault: _Fault,
        arguments: Mapping[str, Any],
        abort: AbortSignal | None,
        seconds: float | None,
        check: Callable[[Any], Any] | None,
    ) -> Answer:
        """Record a fault, then answer in the engine's place, or tell the caller."""
        self._record(engine.engine_id, engine.owner, fault)
        if self._barred(engine.engine_id):
            self._retire(engine)
        if fault.operation in _RAISING or self._strict:
            _raise_failed(engine, fault)
        try:
            legacy = await self._legacy()
            serving = self._serve(legacy, f"{fault.operation} failed: {fault.reason}")
            return await self._call_fallback(fault.operation, arguments, serving, abort, seconds, check)
        except (EngineFailedError, EngineNotRegisteredError):
            _raise_failed(engine, fault)

    def _retire(self, engine: BuiltEngine) -> None:
        """Let go of a barred engine without waiting for it."""
        if self._engine is not engine:
            return
        self._engine = None
        self._serving = None
        self._generation += 1
        task = asyncio.ensure_future(engine.dispose(seconds=self._deadlines["dispose"]))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _record(self, engine_id: str, owner: str, fault: _Fault) -> None:
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

    async def _call_fallback(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        serving: Serving,
        abort: AbortSignal | None,
        seconds: float | None,
        check: Callable[[Any], Any] | None,
    ) -> Answer:
        engine = await self._legacy()
        if not engine.implements(operation):
            return Answer(value=_neutral(operation, f"downgraded to {LEGACY_ENGINE_ID}"), serving=serving)
        try:
            value = await self._attempt(engine, operation, arguments, abort, seconds, check)
        except _Fault as fault:
            _raise_failed(engine, fault)
        return Answer(value=value, serving=serving)

    def _serve(self, engine: BuiltEngine, substitution: str | None) -> Serving:
        return Serving(
            engine_id=engine.engine_id,
            owner=engine.owner,
            info=engine.info,
            generation=self._generation,
            substitution=substitution,
        )

    def _served_by(self, engine: BuiltEngine, substitution: str | None) -> Serving:
        serving = self._serve(engine, substitution)
        self._serving = serving if engine is self._engine else None
        return serving


def _raise_failed(engine: BuiltEngine, fault: _Fault) -> NoReturn:
    raise EngineFailedError(engine.engine_id, engine.owner, fault.operation, clean_text(fault.reason)) from fault.cause


def _neutral(operation: str, reason: str) -> Any:
    return NEUTRAL[operation](reason) if operation in NEUTRAL else None


def _pass_interrupt(error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt):
        raise error


def _is_abort(error: BaseException, abort: AbortSignal | None) -> bool:
    """Whether *error* is the abort that was asked for; without one, an engine's AbortError is a fault."""
    if abort is None or not abort.fired:
        return False
    if error is abort.reason or isinstance(error, AbortError | asyncio.CancelledError):
        return True
    text = describe_error(error).lower()
    return any(word in text for word in _ABORT_WORDS)
