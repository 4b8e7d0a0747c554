"""LangGraph's turns: the conversation in a SQLite checkpoint, with the middleware that would summarise it."""

import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .history import as_langchain, conversation
from .measure import Sample, import_peer, seconds_each

__all__ = ["PEER", "fake_model", "langgraph_turns", "summarising"]

PEER = "LangGraph, SqliteSaver, SummarizationMiddleware"
_NEVER = 1_000_000_000  # tokens; the middleware counts, and goes by
_SUMMARY = "They searched for it, and they found it."


def fake_model() -> Any | None:
    """Return LangChain's model without a model, which answers at once; ``None`` where LangChain is not installed."""
    fakes, messages = import_peer("langchain_core.language_models.fake_chat_models"), import_peer("langchain.messages")
    if fakes is None or messages is None:
        return None
    return fakes.GenericFakeChatModel(messages=(messages.AIMessage(content=_SUMMARY) for _ in itertools.count()))


def summarising(model: Any, **how: Any) -> Any:
    """Return the middleware, by its defaults but for *how*."""
    middleware: Any = import_peer("langchain.agents.middleware")
    return middleware.SummarizationMiddleware(model=model, **how)


@contextlib.contextmanager
def langgraph_turns(folder: Path, number: int) -> Iterator[dict[str, Sample]]:
    """
    Yield a turn behind so many messages; nothing where LangGraph is not installed.

    ``peer`` is as its users write it, ``exit`` writes one checkpoint a turn instead of one a step.
    """
    model, sqlite = fake_model(), import_peer("langgraph.checkpoint.sqlite")
    agents = import_peer("langchain.agents")
    if model is None or sqlite is None or agents is None:
        yield {}
        return
    with contextlib.ExitStack() as stack:
        sides: dict[str, Sample] = {}
        for name, durability in (("peer", None), ("exit", "exit")):
            saver = stack.enter_context(sqlite.SqliteSaver.from_conn_string(str(folder / f"{name}.sqlite3")))
            middleware = [summarising(model, trigger=("tokens", _NEVER))]
            agent = agents.create_agent(model=model, middleware=middleware, checkpointer=saver)
            sides[name] = _turns(agent, number, durability)
        yield sides


def _turns(agent: Any, number: int, durability: str | None) -> Sample:
    messages: Any = import_peer("langchain_core.messages")
    said = conversation()
    config = {"configurable": {"thread_id": "1"}}
    before = [as_langchain(messages, next(said)) for _ in range(number)]
    agent.update_state(config, {"messages": before})
    lengths = itertools.count(number + 2, 2)

    async def sample() -> float:
        asked = {"messages": [messages.HumanMessage(content=next(said).text)]}
        began = time.perf_counter()
        answered = agent.invoke(asked, config, durability=durability)
        seconds = seconds_each(began)
        assert len(answered["messages"]) == next(lengths)  # noqa: S101 -- else it would be fast for nothing
        return seconds

    return sample
