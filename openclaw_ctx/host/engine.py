"""A built engine: its hooks, and the lane they run in."""

import asyncio
import contextlib
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from openclaw_ctx.contract import LEGACY_ENGINE_ID, AbortSignal, EngineInfo

from .discovery import Candidate
from .hooks import HOOKS, EngineHooks, build_hooks
from .lane import DeadlineExceeded, HostLane, Lane, LaneFault, Runner
from .loading import load_factory
from .permit import Permit
from .registration import Registration
from .results import InvalidResult, structure_result

__all__ = ["BuiltEngine", "MakeContext", "build_engine"]

MakeContext = Callable[[str, Any, Runner], Any]
"""(engine id, factory, lane) -> EngineContext; runs in the lane, since it reads the factory's config class."""

_HELD_LANE_SECONDS: Final = 1.0
_STOPPABLE: Final = frozenset(name for name, parameters in HOOKS.items() if "abort_signal" in parameters)


@attrs.frozen(kw_only=True, eq=False)
class BuiltEngine:
    """An engine in its lane. Raises what :class:`Runner` raises; who contains it is the guard's affair."""

    engine_id: str
    owner: str
    hooks: EngineHooks
    lane: Runner

    @property
    def info(self) -> EngineInfo:
        """What the engine said of itself when it was built."""
        return self.hooks.info

    def implements(self, operation: str) -> bool:
        """Return whether the engine has the hook."""
        return operation in self.hooks.implemented

    @property
    def is_retired(self) -> bool:
        """Whether the engine has been let go."""
        return self.lane.life.is_over

    def retire(self) -> None:
        """Let go of the engine, at once: it may change nothing from here on. It is still to be disposed."""
        self.lane.retire()

    async def call(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        seconds: float,
        abort: AbortSignal | None = None,
        check: Callable[[Any], Any] | None = None,
    ) -> Any:
        """
        Call a hook in the lane, and return its answer as the contract's class, and as *check* returns it.

        A hook that has an ``abort_signal`` gets one of its own, whatever *arguments* hold: it fires with the
        caller's *abort*, and when the call is given up or the engine is let go. The answer is looked at in the
        lane too: what an engine returns may run its code when it is read, and may be too much to read in time.

        Raises:
            InvalidResult: It is no such answer.
        """
        hooks = self.hooks

        async def call(permit: Permit) -> Any:
            told = {**arguments, "abort_signal": permit.stop} if operation in _STOPPABLE else arguments
            answer = hooks.call(operation, told)
            if type(answer) is types.CoroutineType or inspect.isawaitable(answer):  # as in the lane: most are the first
                answer = await answer
            result = structure_result(operation, answer)
            return result if check is None else check(result)

        try:
            return await self.lane.run(call, seconds=seconds, abort=abort)
        except LaneFault as envelope:
            if isinstance(envelope.error, InvalidResult):
                raise envelope.error from envelope.error.__cause__
            raise

    async def dispose(self, *, seconds: float) -> None:
        """Let the engine release what it holds, then end its lane. Never raises for the engine's sake."""
        self.retire()
        if self.lane.owes_answer:
            seconds = min(seconds, _HELD_LANE_SECONDS)  # it may never be heard
        try:
            if self.implements("dispose"):
                with contextlib.suppress(LaneFault, DeadlineExceeded):
                    await self.call("dispose", {}, seconds=seconds)
        finally:
            self.lane.stop()


async def build_engine(source: Registration | Candidate, make_context: MakeContext, *, seconds: float) -> BuiltEngine:
    """
    Import, build and check the engine that *source* offers, all in its own lane.

    Raises:
        LaneFault: Loading, the factory or the check raised; ``error`` is an
            ``EngineContractError`` where the object is no engine.
        DeadlineExceeded: It took longer than *seconds*.
    """
    engine_id, owner = source.engine_id, source.owner
    lane: Runner = HostLane(engine_id) if engine_id == LEGACY_ENGINE_ID else Lane(engine_id)

    async def build(_permit: Permit) -> EngineHooks:
        factory: Any = load_factory(source) if isinstance(source, Candidate) else source.factory
        engine = factory(make_context(engine_id, factory, lane))
        if inspect.isawaitable(engine):
            engine = await engine
        return build_hooks(engine_id, engine)

    try:
        hooks = await lane.run(build, seconds=seconds)
    except (LaneFault, DeadlineExceeded, asyncio.CancelledError):
        lane.stop()
        raise
    return BuiltEngine(engine_id=engine_id, owner=owner, hooks=hooks, lane=lane)
