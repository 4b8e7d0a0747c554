"""The formula of a search by words, read slowly: one message, one term, one neighbour at a time."""

import math
import re
from collections.abc import Sequence
from itertools import chain

from openclaw_ctx_rag.documents import Document
from openclaw_ctx_rag.terms import count_terms, query_terms

__all__ = ["around", "beside", "slow_search"]


def slow_search(documents: Sequence[Document], query: str, *, by_cost: bool) -> dict[int, float]:
    """Return the score of each message that is found."""
    size = len(documents)
    if not size:
        return {}
    counts = [count_terms(f"{each.date} {each.author} {each.text}") for each in documents]
    mean = max(1.0, sum(count.total() for count in counts) / size)
    lexical, idfs = [0.0] * size, []
    for term in query_terms(query):
        tf = [count[term] for count in counts]
        weight = 1.0
        if not any(tf) and len(term) >= 4:
            longer = sorted({other for other in chain(*counts) if other.startswith(term)})[:8]
            tf = [next((count[other] for other in longer if other in count), 0) for count in counts]
            weight = 0.5
        holding = sum(map(bool, tf))
        if not holding:
            continue
        idf = weight * math.log(1 + (size - holding + 0.5) / (holding + 0.5))
        idfs.append(idf)
        own = [
            idf * 2.2 * f / (f + 1.2 * (0.4 + 0.6 * count.total() / mean)) for f, count in zip(tf, counts, strict=True)
        ]
        for at in range(size):
            lexical[at] += max(own[at], 0.3 * beside(own, at), 0.15 * around(own, at))
    total = math.sqrt(sum(idf * idf for idf in idfs)) or 1.0
    own = [4 * value / total for value in lexical]
    scores = [own[at] + 0.3 * beside(own, at) + 0.4 * around(own, at) for at in range(size)]
    asked = set(re.findall(r"\w+", query.casefold()))
    authors = {each.author for each in documents}
    named = {author for author in authors if author and set(re.findall(r"\w+", author.casefold())) <= asked}
    if len(named) < len(authors):
        scores = [score + (each.author in named) for score, each in zip(scores, documents, strict=True)]
    costs = [math.log(max(each.tokens, 1)) for each in documents]
    middle = sum(costs) / size
    spread = math.sqrt(sum((cost - middle) ** 2 for cost in costs) / size)
    return {at: scores[at] - (0.4 * spread * costs[at] if by_cost else 0) for at in range(size) if scores[at] > 0}


def beside(values: Sequence[float], at: int) -> float:
    """Return the better neighbour."""
    return max(values[at - 1] if at else 0.0, values[at + 1] if at + 1 < len(values) else 0.0)


def around(values: Sequence[float], at: int) -> float:
    """Return the decaying maximum over the buckets around a place."""
    buckets = [max(values[first : first + 8]) for first in range(0, len(values), 8)]
    own = at // 8
    return max(0.95 ** (8 * abs(other - own)) * value for other, value in enumerate(buckets) if abs(other - own) < 8)
