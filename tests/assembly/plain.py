"""Plain engines with a hook or two of a test's own."""
# ruff: noqa: D102 -- what a hook does is in the contract; what an engine under test does, in its class

from pathlib import Path
from typing import Any

from openclaw_ctx import (
    AssembleResult,
    AssistantMessage,
    CompactResult,
    EngineInfo,
    IngestResult,
    UserMessage,
    hookimpl,
)

__all__ = ["Plain", "assembling", "bytes_of", "engine", "fill", "texts"]


class Plain:
    """Keeps the contract and its context, and sends everything."""

    info = EngineInfo(id="recorder", name="Plain", owns_compaction=True)

    def __init__(self, context: Any) -> None:
        self.services = context.services

    @hookimpl
    def ingest(self):
        return IngestResult(ingested=True)

    @hookimpl
    def assemble(self, messages):
        return AssembleResult(messages=messages)

    @hookimpl
    def compact(self):
        return CompactResult(ok=True, compacted=False)


def engine(**hooks: Any) -> Any:
    """Return a class of engines with these hooks beside, or in place of, the plain ones."""
    return type("Engine", (Plain,), {name: hookimpl(function) for name, function in hooks.items()})


def assembling(result: Any) -> Any:
    """Return a class of engines that assemble ``result(messages)``."""
    return engine(assemble=lambda self, messages: result(messages))


async def fill(session: Any, turns: int = 6) -> None:
    """Append so many turns of about 500 tokens each."""
    for number in range(turns):
        await session.append(UserMessage(content=f"question {number}: " + "please " * 120))
        await session.append(AssistantMessage(content=f"answer {number}: " + "certainly " * 120))


def bytes_of(session: Any) -> bytes:
    """Return what is on disk."""
    return Path(session.transcript.path).read_bytes()


def texts(messages: Any) -> list[str]:
    """Return each message's text."""
    return [message.text for message in messages]
