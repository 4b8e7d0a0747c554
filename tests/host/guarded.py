"""Guards over engines that keep the contract, or break it."""
# ruff: noqa: D102 -- what a hook does is in the contract; what an engine under test does, in its class

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

from openclaw_ctx import (
    AbortSignal,
    AssembleResult,
    CompactResult,
    EngineInfo,
    IngestResult,
    Registry,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.config import DeadlineSettings
from openclaw_ctx.host import (
    HOOKS,
    Discovery,
    Guard,
    HookCall,
    Policy,
    QuarantinePolicy,
    select,
)

__all__ = ["HISTORY", "Broken", "Legacy", "Plain", "broken", "call", "guard_of", "maintaining", "records_of"]


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
