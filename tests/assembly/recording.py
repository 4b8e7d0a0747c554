"""Engines that keep a record of what they are told, and hosts for them."""
# ruff: noqa: D102 -- what a hook does is in the contract; what an engine under test does, in its class

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from openclaw_ctx import (
    AssembleResult,
    AssistantMessage,
    BootstrapResult,
    CompactResult,
    EngineInfo,
    Host,
    IngestBatchResult,
    IngestResult,
    Message,
    Registry,
    Session,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.assembly import Opening

__all__ = ["ByTurn", "InBatches", "OneByOne", "Record", "engine_of", "open_host", "take_turn"]


@attrs.define
class Record:
    """
    What one engine was told, over all its lives; it outlives hosts as a real engine's index does.

    Attributes:
        seen: Text of each message, in the order of telling.
        flags: ``is_heartbeat`` beside each.
        meetings: ``(reason, previous_session_id)`` of each bootstrap.
        calls: Every hook by name, with how many messages it brought.
        imported: What bootstrap says of the history.
        failing: Operations that raise, as long as they are in here.
    """

    seen: list[str] = attrs.field(factory=list)
    flags: list[bool] = attrs.field(factory=list)
    meetings: list[tuple[str, str | None]] = attrs.field(factory=list)
    calls: list[tuple[str, int]] = attrs.field(factory=list)
    imported: int | None = None
    failing: set[str] = attrs.field(factory=set)

    def note(self, operation: str, messages: Sequence[Message] = (), *, is_heartbeat: bool = False) -> None:
        """Take note of a call, or raise where it is to fail."""
        self.calls.append((operation, len(messages)))
        if operation in self.failing:
            message = f"{operation} is broken"
            raise RuntimeError(message)
        self.seen.extend(message.text for message in messages)
        self.flags.extend(is_heartbeat for _ in messages)

    @property
    def reasons(self) -> list[str]:
        """Why it was introduced each time."""
        return [reason for reason, _ in self.meetings]


class OneByOne:
    """Takes messages one by one."""

    info = EngineInfo(id="recorder", name="Recorder")

    def __init__(self, record: Record) -> None:
        self.record = record

    @hookimpl
    def bootstrap(self, reason, previous_session_id):
        self.record.note("bootstrap")
        self.record.meetings.append((reason, previous_session_id))
        return BootstrapResult(bootstrapped=True, imported_messages=self.record.imported)

    @hookimpl
    def ingest(self, message, is_heartbeat):
        self.record.note("ingest", [message], is_heartbeat=is_heartbeat)
        return IngestResult(ingested=True)

    @hookimpl
    def assemble(self, messages):
        self.record.note("assemble")
        return AssembleResult(messages=messages)

    @hookimpl
    def compact(self):
        self.record.note("compact")
        return CompactResult(ok=True, compacted=False, reason="nothing to do")


class InBatches(OneByOne):
    """Takes messages in batches."""

    @hookimpl
    def ingest_batch(self, messages, is_heartbeat):
        self.record.note("ingest_batch", messages, is_heartbeat=is_heartbeat)
        return IngestBatchResult(ingested_count=len(messages))


class ByTurn(InBatches):
    """Takes whole turns, and what it missed in batches."""

    @hookimpl
    def after_turn(self, messages, pre_prompt_message_count, is_heartbeat):
        self.record.note("after_turn", messages[pre_prompt_message_count:], is_heartbeat=is_heartbeat)


def engine_of(kind: type[OneByOne], record: Record) -> Any:
    """Return a factory of engines that share *record*."""
    return lambda context: kind(record)


def open_host(
    state_dir: Path,
    slot: str = "recorder",
    *,
    engines: Mapping[str, Any] | None = None,
    registry: Registry | None = None,
    config: Mapping[str, Any] | None = None,
    plugins: Mapping[str, Any] | None = None,
    **options: Any,
) -> Opening[Host]:
    """Open a host that knows *engines* and no installed one, in a registry of its own where none is given."""
    registry = registry or Registry()
    for engine_id, factory in (engines or {}).items():
        registry.register(engine_id, factory, owner="public", refresh=True)
    return Host.open(
        {"plugins": {"slots": {"contextEngine": slot}, **(plugins or {})}, **(config or {})},
        state_dir=state_dir,
        workspace_dir=state_dir,
        registry=registry,
        engine_path=[],
        **options,
    )


async def take_turn(session: Session, *texts: str, is_heartbeat: bool = False) -> None:
    """Run one turn: a question, the prompt, and the other texts as answers."""
    question, *answers = texts
    await session.append(UserMessage(content=question))
    await session.assemble()
    for answer in answers:
        await session.append(AssistantMessage(content=answer))
    await session.end_turn(is_heartbeat=is_heartbeat)
