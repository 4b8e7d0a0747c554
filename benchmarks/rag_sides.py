"""
What the retrieval engine and its peers are measured with: texts, vectors that cost nothing, and each side's prompt.

Words are the whole words of the local model's vocabulary, which begins with the
most frequent ones, drawn with seed 7, the n-th as often as 1/n; a text has 60 in
the mean. Vectors are 1,000 random
directions of 384 dimensions, of which each text has one: a model would take hours
for 100,000 texts, and a scan takes as long for these.
"""

import asyncio
import contextlib
import importlib
import importlib.resources
import itertools
import random
import time
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from openclaw_ctx import AssistantMessage, Host, Message, Registry, Session, TextBlock, Transcript, UserMessage
from openclaw_ctx.host import PUBLIC_OWNER

from .measure import Sample, import_peer, seconds_each
from .recall_peers import llamaindex_retriever
from .recalling import tree_engine

__all__ = [
    "BUDGET",
    "Questions",
    "aura_sample",
    "embedded",
    "fake_embedder",
    "index_path",
    "llamaindex_sample",
    "messages",
    "our_sample",
    "rag_host",
    "texts",
    "write_session",
]

BUDGET = 8_000
KEY = "agent:main:main"
_SEED = 7
_MEAN_WORDS = 60
_SHAPE = 2.0
_DIMENSIONS = 384
_DIRECTIONS = 1_000
_BEGAN_MS = 1_683_500_000_000
_EVERY_MS = 90_000
_ASKED_WORDS = 8
_LOOK_SECONDS = 0.005


def texts() -> Iterator[str]:
    """Yield texts of 60 words in the mean, without end, the same ones each time."""
    chance = random.Random(_SEED)  # noqa: S311 -- the same one each time is the point
    words = [word for word in _vocabulary() if word.isascii() and word.isalpha() and len(word) > 1]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    while True:
        length = max(4, round(chance.gammavariate(_SHAPE, _MEAN_WORDS / _SHAPE)))
        yield " ".join(chance.choices(words, cum_weights=weights, k=length)).capitalize() + "."


def _vocabulary() -> list[str]:
    tree_engine("rag")
    folder = importlib.resources.files("openclaw_ctx_rag.vocabulary")
    return folder.joinpath("bert-base-uncased.txt").read_text(encoding="utf-8").split()


def messages(said: Iterator[str]) -> Iterator[Message]:
    """Yield *said* as a user's and an assistant's messages in turn, one each 90 seconds."""
    for number, text in enumerate(said):
        at = float(_BEGAN_MS + _EVERY_MS * number)
        if number % 2:
            yield AssistantMessage(content=(TextBlock(text=text),), stop_reason="stop", timestamp=at)
        else:
            yield UserMessage(content=text, timestamp=at)


def write_session(path: Path, number: int) -> None:
    """Append the first *number* messages."""
    transcript = Transcript.open(path)
    for message in itertools.islice(messages(texts()), number):
        transcript.append(message)
    transcript.close()


class Questions:
    """Yields another question each time: eight words of some text."""

    def __init__(self) -> None:
        self._texts = texts()
        self._chance = random.Random(_SEED)  # noqa: S311 -- as above

    def __next__(self) -> str:
        """Return the next one."""
        words = next(self._texts).rstrip(".").split()
        return " ".join(self._chance.sample(words, k=min(_ASKED_WORDS, len(words)))) + "?"


class _Repeated:
    """Has a vector for every text at once."""

    name = "benchmark/1000-directions"
    dimensions = _DIMENSIONS

    def __init__(self) -> None:
        numpy: Any = importlib.import_module("numpy")
        rows = numpy.random.default_rng(_SEED).standard_normal((_DIRECTIONS, _DIMENSIONS), dtype=numpy.float32)
        self._rows = rows / numpy.linalg.norm(rows, axis=1, keepdims=True)

    async def embed(self, said: Sequence[str], *, urgent: bool = False) -> Any:  # noqa: ARG002 -- the protocol's
        return self._rows[[_direction(text) for text in said]]

    def lists(self) -> list[list[float]]:
        """Return the directions as the peer takes them."""
        rows: list[list[float]] = self._rows.tolist()
        return rows

    async def close(self) -> None:
        """Do nothing."""


def _direction(text: str) -> int:
    return zlib.crc32(text.encode()) % _DIRECTIONS


def fake_embedder() -> None:
    """Let the engine have vectors that cost nothing, where it is to have any, in this process from now on."""
    tree_engine("rag")
    engine: Any = importlib.import_module("openclaw_ctx_rag.engine")
    engine.make_embedder = lambda config: None if config.embedder == "none" else _Repeated()


@contextlib.asynccontextmanager
async def rag_host(folder: Path, *, embedder: str = "auto", durable: bool = False) -> AsyncIterator[Host]:
    """Open a host with the engine of this tree in the slot."""
    registry = Registry()
    registry.register("rag", tree_engine("rag"), owner=PUBLIC_OWNER)
    plugins = {"slots": {"contextEngine": "rag"}, "entries": {"rag": {"config": {"embedder": embedder}}}}
    config = {"plugins": plugins, "session": {"durable": durable}}
    async with Host.open(config, state_dir=folder, registry=registry, engine_path=()) as host:
        yield host


async def embedded(host: Host, session: Session) -> float:
    """Let the engine meet *session*; return the seconds until it has indexed all, and nothing is without a vector."""
    began = time.perf_counter()
    prompt = await session.assemble(budget=BUDGET, prompt="?")
    while host.background_jobs:  # noqa: ASYNC110 -- a host has no event for this
        await asyncio.sleep(_LOOK_SECONDS)
    seconds = seconds_each(began)
    assert prompt.engine == "rag", prompt.substitution  # noqa: S101 -- else the row would be about another
    return seconds


def index_path(folder: Path) -> Path:
    """Return the file of the one index of a host."""
    (path,) = (folder / "engines").glob("*/*.sqlite")
    return path


# -- prompts --------------------------------------------------------------------------------------


def our_sample(session: Session, *, prompts: int) -> Sample:
    """Return what assembles prompts of 8,000 tokens, each for another question, whose vector is there at once."""
    questions = Questions()

    async def sample() -> float:
        asked = [next(questions) for _ in range(prompts)]
        began = time.perf_counter()
        for question in asked:
            prompt = await session.assemble(budget=BUDGET, prompt=question)
        seconds = seconds_each(began, prompts)
        assert prompt.engine == "rag", prompt.substitution  # noqa: S101 -- else the row would be about another
        # Said of what was recalled: else it would be fast for nothing.
        assert prompt.system_prompt  # noqa: S101 -- see above
        return seconds

    return sample


def llamaindex_sample(number: int, *, top: int) -> Sample | None:
    """Return what retrieves the *top* of so many texts, whose vectors are the same as ours; nothing: not installed."""
    core = import_peer("llama_index.core")
    if core is None:
        return None
    lists = _Repeated().lists()
    said = list(itertools.islice(texts(), number))
    retriever = llamaindex_retriever(core, said, [lists[_direction(text)] for text in said], top=top)
    questions = Questions()

    async def sample() -> float:
        question = next(questions)
        bundle = core.QueryBundle(query_str=question, embedding=lists[_direction(question)])
        began = time.perf_counter()
        found = retriever.retrieve(bundle)
        seconds = seconds_each(began)
        assert found  # noqa: S101 -- else it would be fast for nothing
        return seconds

    return sample


def aura_sample(number: int, *, top: int) -> Sample | None:
    """Return what builds a context of at most *top* turns out of so many, by words alone; nothing: not installed."""
    aura, models = import_peer("context_engine"), import_peer("context_engine.models")
    if aura is None or models is None:
        return None
    engine = aura.ContextEngine(auto_embedder=False)
    session = engine.new_session()
    for place, text in enumerate(itertools.islice(texts(), number)):
        said = models.Message(role="assistant" if place % 2 else "user", content=text)
        # Not by record_turn, which scores every turn against all of them.
        engine.storage.append_turn(models.Turn(session_id=session, index=place, messages=[said]))
    policy = aura.ContextPolicy(mode=aura.PolicyMode.PRIORITY_SELECTIVE, top_k=top, token_budget=BUDGET)
    questions = Questions()

    async def sample() -> float:
        question = next(questions)
        began = time.perf_counter()
        context = engine.build_context(session, question, policy)
        seconds = seconds_each(began)
        assert len(context) > 1  # noqa: S101 -- else it would be fast for nothing
        return seconds

    return sample
