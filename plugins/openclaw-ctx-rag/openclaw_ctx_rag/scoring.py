"""
How well each message of a branch fits a query: pure arithmetic over arrays.

::

    lexical[i] = sum over terms of idf * max(tf(i), NEAR * tf(i +- 1), FAR * tf(around i, decaying))
    s          = LEXICAL * lexical / norm of the idfs + UNIT * (cosine, lowest 0, highest 1)
    score[i]   = s[i] + NEAR * max(s[i-1], s[i+1]) + AREA * (decaying maximum of s around i)
                      + AUTHOR where the query names who speaks
    ranked by    score[i] - COST * spread of log(tokens) * log(tokens[i])

A chat splits question and answer, and an agent call and result: what stands beside a
hit is part of it. The constants were chosen on a part of the conversations measured
and move recall little over a factor of two; only the author's matters much.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

__all__ = ["Corpus", "Found", "corpus_of", "lexical", "rank", "score"]

_K1: Final = 1.2
"""BM25's saturation."""

_B: Final = 0.6
"""BM25's share of the length."""

_NEAR: Final = np.float32(0.3)
"""What a neighbour counts."""

_FAR: Final = np.float32(0.15)
"""What a term counts in its surroundings."""

_AREA: Final = np.float32(0.4)
"""What the whole score counts in its surroundings."""

_FADE: Final = 0.95
"""What is left of it a message further on: half after 13, nothing after 64."""

_BUCKET: Final = 8
"""The surroundings are told by maxima of so many messages: an eighth of the work, and the same recall."""

_LEXICAL: Final = np.float32(4)
"""Brings what words say to the height of what vectors say."""

_UNIT: Final = np.float32(5)
"""The height of what vectors say."""

_AUTHOR: Final = np.float32(1)
"""Breaks ties, and cannot outrank a match."""

_COST: Final = 0.4
"""About 0.2 per natural logarithm in even chat, 0.7 in agents' sessions."""

_MOST_TERMS: Final = 32
"""Of a long prompt the rarest terms only."""

_RECENCY: Final = 1e-4
"""The newest of two equal messages comes first."""

Floats = NDArray[np.float32]
Positions = NDArray[np.int64]


@attrs.frozen(kw_only=True, eq=False)
class Corpus:
    """
    The messages of a branch, in order.

    Attributes:
        norm: BM25's part that depends on the length.
        dearness: What is taken from the score for the cost.
        authors: Who speaks, as a number.
        speaks: By that number, whether anybody of that name is on the branch.
    """

    norm: Floats
    dearness: Floats
    authors: NDArray[np.uint32]
    speaks: NDArray[np.bool_]


@attrs.frozen(kw_only=True, eq=False)
class Found:
    """Where a term stands: positions on the branch, ascending, how often there, and what that counts."""

    weight: float
    positions: Positions
    counts: NDArray[Any]


def corpus_of(lengths: NDArray[Any], tokens: NDArray[Any], authors: NDArray[np.uint32]) -> Corpus:
    """Return what scoring must know of the messages of a branch: their terms, costs and authors, in order."""
    if not len(lengths):
        none = np.zeros(0, np.float32)
        return Corpus(norm=none, dearness=none, authors=authors, speaks=np.zeros(0, np.bool_))
    mean = max(1.0, float(lengths.mean()))
    costs = np.log(np.maximum(tokens, 1).astype(np.float32))
    return Corpus(
        norm=np.float32(_K1 * (1 - _B)) + np.float32(_K1 * _B / mean) * lengths.astype(np.float32),
        dearness=np.float32(_COST * float(costs.std())) * costs,
        authors=authors,
        speaks=np.bincount(authors) > 0,
    )


def lexical(corpus: Corpus, found: Sequence[Found]) -> Floats:
    """
    Return what the words say of each message; 0 where none of them is met in the surroundings either.

    Its height does not depend on how many terms there are, nor on how many messages:
    a query whose terms are hardly met is not blown up to a sure hit.
    """
    size = len(corpus.norm)
    weighed = sorted(
        ((_idf(size, len(term.positions)) * term.weight, term) for term in found if len(term.positions)),
        key=lambda pair: -pair[0],
    )[:_MOST_TERMS]
    buckets = -(-size // _BUCKET)
    around = np.zeros(buckets, np.float32)
    # Sparse: only a term's own messages and their neighbours rise above its surroundings.
    # Two more places at each end, so that neighbours need no look at the ends.
    own = np.zeros(buckets * _BUCKET + 4, np.float32)
    beside = np.zeros_like(own)
    for idf, term in weighed:
        tf = term.counts.astype(np.float32)
        value = np.float32(idf * (_K1 + 1)) * tf / (tf + corpus.norm[term.positions])
        areas = _term_area(term.positions, value, buckets)
        around += areas
        at = term.positions + 2
        own[at] = value
        places = np.concatenate((at, at - 1, at + 1))
        height = np.maximum(own[places], _NEAR * np.maximum(own[places - 1], own[places + 1]))
        height -= areas[np.clip((places - 2) // _BUCKET, 0, buckets - 1)]
        # A place may be there twice, with one value: an assignment counts it once.
        beside[places] += np.maximum(height, 0)
        own[at] = 0
    out = beside[2 : size + 2] + np.repeat(around, _BUCKET)[:size]
    total = math.sqrt(sum(idf * idf for idf, _ in weighed))
    return out / np.float32(total) if total else out


def score(corpus: Corpus, words: Floats, meaning: Floats | None, named: Sequence[int]) -> Floats:
    """
    Return the score of each message.

    Args:
        corpus: The branch.
        words: What :func:`lexical` says.
        meaning: The cosine with the query's vector, if there is one.
        named: Numbers of the authors that the query names.
    """
    own = _LEXICAL * words
    if meaning is not None and len(meaning):
        low, high = float(meaning.min()), float(meaning.max())
        own += (meaning - np.float32(low)) * np.float32(float(_UNIT) / (high - low + 1e-9))
    out = own + _near(own) + _AREA * np.repeat(_faded(_bucket_maxima(own)), _BUCKET)[: len(own)]
    speaking = [author for author in named if author < len(corpus.speaks) and corpus.speaks[author]]
    # Who names all that speak names nobody.
    if speaking and len(speaking) < int(corpus.speaks.sum()):
        bonus = np.zeros(len(corpus.speaks), np.float32)
        bonus[speaking] = _AUTHOR
        out += bonus[corpus.authors]
    return out


def rank(
    corpus: Corpus, scores: Floats, allowed: NDArray[np.bool_], limit: int, *, by_cost: bool
) -> tuple[Positions, Floats]:
    """Return positions of what is *allowed*, the best first, and their scores, which the cost lowers if it counts."""
    ranked = scores - corpus.dearness if by_cost else scores.copy()
    ranked += np.linspace(0, _RECENCY, len(ranked), dtype=np.float32)
    places = np.flatnonzero(allowed)
    ranked = ranked[places]
    if len(ranked) > limit:
        best = np.argpartition(ranked, len(ranked) - limit)[len(ranked) - limit :] if limit else places[:0]
        places, ranked = places[best], ranked[best]
    # Of what rounding makes equal the newest comes first.
    order = np.lexsort((-places, -ranked))
    return places[order], ranked[order]


def _idf(size: int, holding: int) -> float:
    return math.log(1 + (size - holding + 0.5) / (holding + 0.5))


def _near(values: Floats) -> Floats:
    beside = np.zeros_like(values)
    beside[1:] = values[:-1]
    np.maximum(beside[:-1], values[1:], out=beside[:-1])
    beside *= _NEAR
    return beside


def _term_area(positions: Positions, values: Floats, buckets: int) -> Floats:
    maxima = np.zeros(buckets, np.float32)
    np.maximum.at(maxima, positions // _BUCKET, values)
    return _FAR * _faded(maxima)


def _bucket_maxima(values: Floats) -> Floats:
    buckets = -(-len(values) // _BUCKET)
    padded = np.zeros(buckets * _BUCKET, np.float32)
    padded[: len(values)] = values
    maxima: Floats = padded.reshape(buckets, _BUCKET).max(1)
    return maxima


def _faded(maxima: Floats) -> Floats:
    """Return the decaying maximum over the buckets around each; 1 + 2 + 4 steps reach seven buckets to each side."""
    best = maxima
    for step in (1, 2, 4):
        if len(best) <= step:
            break
        fade = np.float32(_FADE ** (_BUCKET * step))
        wider = best.copy()
        np.maximum(best[step:], fade * best[:-step], out=wider[step:])
        np.maximum(wider[:-step], fade * best[step:], out=wider[:-step])
        best = wider
    return best
