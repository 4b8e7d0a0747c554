"""How well messages fit: the arithmetic, against a slow reading of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("openclaw_ctx_rag", reason="openclaw-ctx-rag is not installed")

from openclaw_ctx_rag.scoring import Corpus, Found, corpus_of, lexical, rank, score
from tests.plugins.rag.slow_search import around, beside

heights = st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0]), min_size=1, max_size=150)


def even(size: int, authors: int = 1) -> Corpus:
    """Return messages of one length and cost, by authors in turn."""
    ones = np.ones(size, np.uint32)
    return corpus_of(ones, ones, np.arange(size, dtype=np.uint32) % authors)


def floats(values: list[float]) -> np.ndarray:
    """Return heights as the arithmetic takes them."""
    return np.asarray(values, np.float32)


@given(heights)
def test_neighbours_and_surroundings_share_in_a_score(values: list[float]) -> None:
    """A neighbour three tenths, the surroundings four, decaying over 64 messages."""
    own = [4 * value for value in values]

    scores = score(even(len(values)), floats(values), None, [])

    assert scores.tolist() == pytest.approx(
        [own[at] + 0.3 * beside(own, at) + 0.4 * around(own, at) for at in range(len(own))], rel=1e-4, abs=1e-5
    )


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3)), min_size=1, max_size=150))
def test_a_term_counts_beside_and_around_where_it_stands(places: list[tuple[bool, int]]) -> None:
    """Where two reasons meet the higher one counts, once."""
    held = [at for at, (there, _) in enumerate(places) if there]
    found = Found(
        weight=1.0, positions=np.asarray(held, np.int64), counts=np.asarray([places[at][1] for at in held], np.uint8)
    )

    values = lexical(even(len(places)), [found])

    own = [2.2 * times / (times + 1.2) if there else 0.0 for there, times in places]
    expected = [max(own[at], 0.3 * beside(own, at), 0.15 * around(own, at)) for at in range(len(own))]
    assert values.tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.2, 0.9]), min_size=2, max_size=20).filter(lambda all_: len({*all_}) > 1))
def test_meaning_counts_from_the_least_to_the_most(cosines: list[float]) -> None:
    """Whatever their spread: it is a matter of the embedder."""
    size = len(cosines)
    scores = score(even(size), np.zeros(size, np.float32), floats(cosines), [])

    own = [5 * (value - min(cosines)) / (max(cosines) - min(cosines)) for value in cosines]
    assert scores.tolist() == pytest.approx(
        [own[at] + 0.3 * beside(own, at) + 0.4 * around(own, at) for at in range(size)], rel=1e-4, abs=1e-4
    )


@pytest.mark.parametrize(
    "named, expected",
    [
        pytest.param([1], [0, 1, 0, 0, 1, 0], id="one of three"),
        pytest.param([0, 1], [1, 1, 0, 1, 1, 0], id="two of three"),
        pytest.param([0, 1, 2], [0] * 6, id="all of them"),
        pytest.param([7], [0] * 6, id="somebody who does not speak"),
        pytest.param([], [0] * 6, id="nobody"),
    ],
)
def test_who_is_named_is_raised(named: list[int], expected: list[int]) -> None:
    """Unless all that speak are."""
    assert score(even(6, authors=3), np.zeros(6, np.float32), None, named).tolist() == expected


def test_only_the_rarest_terms_of_a_long_prompt_count() -> None:
    """Thirty-two."""
    rare = [Found(weight=1.0, positions=np.asarray([9]), counts=np.ones(1, np.uint8)) for _ in range(32)]
    frequent = Found(weight=1.0, positions=np.arange(80, 100), counts=np.ones(20, np.uint8))

    with_it, without = lexical(even(100), [frequent, *rare]), lexical(even(100), rare)

    assert with_it.tolist() == without.tolist()


def test_height_does_not_grow_with_the_number_of_terms() -> None:
    """Each counts by its rarity, against the whole of them."""
    one = Found(weight=1.0, positions=np.asarray([3]), counts=np.ones(1, np.uint8))

    assert lexical(even(20), [one] * 4).max() == pytest.approx(2 * lexical(even(20), [one]).max())


@given(heights, st.data())
def test_the_best_come_first_and_the_newest_of_equals(values: list[float], data: st.DataObject) -> None:
    """Among those that may be found."""
    size = len(values)
    allowed = np.asarray(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    limit = data.draw(st.integers(0, size + 1))

    best, scores = rank(even(size), floats(values), allowed, limit, by_cost=True)

    expected = sorted(np.flatnonzero(allowed).tolist(), key=lambda at: (-values[at], -at))
    assert best.tolist() == expected[:limit]
    assert scores.tolist() == pytest.approx([values[at] for at in best], abs=1e-3)


def test_a_dear_message_must_fit_better() -> None:
    """By how far costs are apart; where they are not it makes no difference."""
    ones = np.ones(4, np.uint32)
    apart = corpus_of(ones, np.asarray([10, 20, 1_000, 10], np.uint32), ones)
    height = np.ones(4, np.float32)
    all_ = np.ones(4, np.bool_)

    assert rank(apart, height, all_, 4, by_cost=True)[0].tolist() == [3, 0, 1, 2]
    assert rank(apart, height, all_, 4, by_cost=False)[0].tolist() == [3, 2, 1, 0]
    assert even(4).dearness.tolist() == [0] * 4


def test_no_messages_are_no_trouble() -> None:
    """Everything is empty."""
    corpus = corpus_of(*[np.zeros(0, np.uint32)] * 3)

    words = lexical(corpus, [])
    scores = score(corpus, words, None, [0])

    assert rank(corpus, scores, np.zeros(0, np.bool_), 5, by_cost=True)[0].tolist() == []
