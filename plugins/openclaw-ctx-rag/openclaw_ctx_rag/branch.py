"""The messages of one branch, and a search among them."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .fact_table import FactTable
from .index import Filter, Hit, Vectors
from .postings import Postings
from .scoring import Found, corpus_of, lexical, rank, score
from .terms import query_terms, words_of
from .vectors import VectorBlocks

__all__ = ["Branch"]

_FEWEST_LETTERS: Final = 4
"""A term of the query that stands nowhere, of so many letters, finds what begins with it."""

_LONGER: Final = 8
"""So many terms that begin with it, and of so many terms that stand nowhere."""

_LONGER_WEIGHT: Final = 0.5
"""What those count."""


class Branch:
    """
    What is on the branch now; of no use any more once messages come, leave or return.

    Neighbours are neighbours on the branch: what left it is taken out before anything
    is counted or smoothed.
    """

    def __init__(self, facts: FactTable, postings: Postings, vectors: VectorBlocks) -> None:
        self._facts = facts
        self._postings = postings
        self._vectors = vectors
        self._active = facts["active"]
        self._numbers = np.flatnonzero(self._active)
        self._whole = len(self._numbers) == len(facts)
        self._positions = np.cumsum(self._active) - 1
        self._corpus = corpus_of(*(facts[name][self._numbers] for name in ("length", "tokens", "author")))

    def search(
        self, query: str, *, vector: Vectors | None, limit: int, only: Filter | None, by_cost: bool
    ) -> list[Hit]:
        """Return what an index returns."""
        words = lexical(self._corpus, self._found(query_terms(query)))
        meaning = None if vector is None else self._meaning(vector)
        asked = words_of(query)
        named = [author for author, name in enumerate(self._facts.names) if name and name <= asked]
        scores = score(self._corpus, words, meaning, named)
        allowed = self._facts.within(only)[self._numbers]
        if meaning is None:
            allowed &= scores > 0
        best, values = rank(self._corpus, scores, allowed, max(limit, 0), by_cost=by_cost)
        numbers = self._numbers[best].tolist()
        return [Hit(number=number, score=value) for number, value in zip(numbers, values.tolist(), strict=True)]

    def _found(self, terms: Sequence[str]) -> list[Found]:
        standing = self._standing(terms)
        found = [Found(weight=1.0, positions=places, counts=counts) for places, counts in standing.values()]
        unseen = [term for term in terms if term not in standing and len(term) >= _FEWEST_LETTERS]
        for term in unseen[:_LONGER]:
            longer = sorted(self._standing(self._postings.longer(term)).items())[:_LONGER]
            if longer:
                places, at = np.unique(np.concatenate([places for _, (places, _) in longer]), return_index=True)
                counts = np.concatenate([counts for _, (_, counts) in longer])[at]
                found.append(Found(weight=_LONGER_WEIGHT, positions=places, counts=counts))
        return found

    def _standing(self, terms: Sequence[str]) -> dict[str, tuple[NDArray[np.int64], NDArray[np.uint8]]]:
        """Return where terms stand on the branch, by position."""
        found = self._postings.of(terms)
        if self._whole:
            return found
        standing = {}
        for term, (numbers, counts) in found.items():
            kept = self._active[numbers]
            if kept.any():
                standing[term] = self._positions[numbers[kept]], counts[kept]
        return standing

    def _meaning(self, vector: Vectors) -> NDArray[np.float32] | None:
        cosines, present = self._vectors.cosines(vector, len(self._facts))
        if not self._whole:
            cosines, present = cosines[self._numbers], present[self._numbers]
        if not present.any():
            return None
        # What has no vector yet stands in the middle: its words find it.
        cosines[~present] = cosines[present].mean()
        return cosines
