"""Engines in the slot of a host, asked for a prompt: which turns are in it, and what it costs."""

import asyncio
import contextlib
import importlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from openclaw_ctx import Host, Registry
from openclaw_ctx.host import PUBLIC_OWNER
from openclaw_ctx.tokens import estimate_tokens

from .labelled import Conversation, Question

__all__ = ["Ask", "Found", "HostedEngine", "Method", "NotMeasuredError", "tree_engine"]

ROOT = Path(__file__).resolve().parent.parent
_KEY = "agent:main:recall"
_OF_THIS_TREE = {
    "rag": ("openclaw-ctx-rag", "openclaw_ctx_rag", "RagEngine"),
    "window": ("openclaw-ctx-window", "openclaw_ctx_window", "WindowEngine"),
}
_LOOK_SECONDS = 0.02


class NotMeasuredError(Exception):
    """It cannot be measured here; says why."""


@attrs.frozen(kw_only=True)
class Found:
    """The places of the turns that a prompt has whole, and what all of it costs."""

    turns: frozenset[int]
    tokens: int


Ask = Callable[[Question, int], Awaitable[Found]]
"""Answers what a prompt of at most so many tokens has for a question."""


@attrs.frozen(kw_only=True)
class Method:
    """
    Something that chooses from a history.

    Attributes:
        name: As rows have it.
        meet: Tells it a conversation; what it yields is asked afterwards.
        note: What one has to know to read its rows.
        bounded: Whether a prompt over the budget is a fault of ours.
    """

    name: str
    meet: Callable[[Conversation, Path], contextlib.AbstractAsyncContextManager[Ask]]
    note: str = ""
    bounded: bool = False


@attrs.frozen(kw_only=True)
class HostedEngine:
    """An engine in the slot: the tree's own, or an installed one."""

    engine_id: str
    config: Mapping[str, Any] = attrs.field(factory=dict)

    @contextlib.asynccontextmanager
    async def meet(self, conversation: Conversation, folder: Path) -> AsyncIterator[Ask]:
        """Tell the engine *conversation* turn by turn, wait for what it does behind them, and let it be asked."""
        slots = {"slots": {"contextEngine": self.engine_id}}
        entries = {"entries": {self.engine_id: {"config": dict(self.config)}}} if self.config else {}
        config = {"plugins": slots | entries, "session": {"durable": False}}
        async with (
            Host.open(config, state_dir=folder, **self._found()) as host,
            host.session(_KEY) as session,
        ):
            places: dict[str | None, int] = {}
            for place, turn in enumerate(conversation.turns):
                places[(await session.append(turn.message)).entry_id] = place
                if turn.ends:
                    await session.end_turn()
            await session.end_turn()
            while host.background_jobs:  # noqa: ASYNC110 -- a host has no event for this
                await asyncio.sleep(_LOOK_SECONDS)

            async def ask(question: Question, budget: int) -> Found:
                prompt = await session.assemble(budget=budget, prompt=question.text)
                if prompt.engine != self.engine_id:
                    problem = f"{prompt.engine!r} answered in its place: {prompt.substitution}"
                    raise NotMeasuredError(problem)
                whole = frozenset(
                    place
                    for message in prompt.messages
                    if (place := places.get(message.entry_id)) is not None
                    and conversation.turns[place].text in message.text
                )
                tokens = estimate_tokens.total(prompt.messages) + estimate_tokens.prompt(prompt.system_prompt)
                return Found(turns=whole, tokens=tokens)

            yield ask

    def _found(self) -> dict[str, Any]:
        if self.engine_id not in _OF_THIS_TREE:
            return {}
        registry = Registry()
        registry.register(self.engine_id, tree_engine(self.engine_id), owner=PUBLIC_OWNER)
        return {"registry": registry, "engine_path": ()}


def tree_engine(engine_id: str) -> Any:
    """Return the class of an engine of this tree, installed or not."""
    folder, package, name = _OF_THIS_TREE[engine_id]
    place = str(ROOT / "plugins" / folder)
    with contextlib.suppress(ValueError):
        sys.path.remove(place)
    sys.path.insert(0, place)
    try:
        return getattr(importlib.import_module(package), name)
    except ModuleNotFoundError as error:
        problem = f"not installed: {error.name}; pip install -r benchmarks/requirements.txt"
        raise NotMeasuredError(problem) from error
