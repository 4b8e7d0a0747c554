"""Sessions on a real host with the retrieval engine in the slot, by words alone unless said otherwise."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openclaw_ctx import AssistantMessage, Host, Registry, Session, UserMessage
from openclaw_ctx_rag import RagEngine

__all__ = ["DAY", "MAY", "host_with_rag", "settled", "tell", "texts"]

DAY = 86_400_000.0
MAY = 1_683_504_000_000.0
"""8 May 2023, UTC."""


@asynccontextmanager
async def host_with_rag(folder: Path, *, rag: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[Host]:
    """Yield a host whose slot holds the engine, with *rag* as its configuration."""
    config = {
        "plugins": {
            "slots": {"contextEngine": "rag"},
            "entries": {"rag": {"config": {"embedder": "none", **(rag or {})}}},
        }
    }
    async with Host.open(config, state_dir=folder, registry=Registry(), engine_path=[], **options) as host:
        host.register_engine("rag", RagEngine)
        yield host


async def tell(session: Session, turns: Sequence[tuple[str, str]], *, at: float = MAY, apart: float = DAY) -> None:
    """Say turns, each a question and its answer, *apart* milliseconds, and hand them over."""
    for number, (asked, answered) in enumerate(turns):
        await session.append(UserMessage(content=asked, timestamp=at + number * apart))
        await session.append(AssistantMessage(content=answered, timestamp=at + number * apart, stop_reason="stop"))
        await session.end_turn()


async def settled(host: Host) -> None:
    """Return once the engine does nothing behind its hooks."""
    import asyncio  # noqa: PLC0415 -- here alone

    for _ in range(2_000):
        if not host.background_jobs:
            return
        await asyncio.sleep(0.005)
    message = "the engine never came to rest"
    raise AssertionError(message)


def texts(messages: Sequence[Any]) -> list[str]:
    """Return the texts of a prompt."""
    return [message.text for message in messages]
