"""Vectors behind the turns and before them: nothing is lost, nothing is raised, nobody waits for long."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx_rag.embedder import EmbedderError
from openclaw_ctx_rag.embedding import Embedding
from openclaw_ctx_rag.index import Vectors
from tests.plugins.rag.fake_embedder import FakeEmbedder


class _Index:
    """What of an index a fill uses, in memory."""

    def __init__(self, texts: Sequence[str], *, author: str = "") -> None:
        self.said = [(author, "8 May 2023", text) for text in texts]
        self.vectors: dict[int, Vectors] = {}
        self.owner: str | None = None
        self.dimensions = 0

    def __len__(self) -> int:
        return len(self.said)

    def embedder(self) -> str | None:
        return self.owner

    def set_embedder(self, name: str, dimensions: int) -> None:
        if name != self.owner:
            self.vectors.clear()
        self.owner, self.dimensions = name, dimensions

    def without_vector(self, limit: int) -> list[int]:
        return [number for number in range(len(self.said)) if number not in self.vectors][:limit]

    def texts(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        return [self.said[number] for number in numbers]

    def set_vectors(self, numbers: Sequence[int], vectors: Vectors) -> None:
        assert vectors.shape == (len(numbers), self.dimensions)
        self.vectors.update(zip(numbers, vectors, strict=True))


class _Sleeper:
    """Remembers how long somebody would have slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def sleeper():
    """Return what sleeps in no time."""
    return _Sleeper()


@pytest.fixture
def embedder():
    """Return one that works."""
    return FakeEmbedder()


@pytest.fixture
def embedding(embedder, sleeper):
    """Return what is tested, without a clock."""
    return Embedding(embedder, sleep=sleeper)


def _passing(wait_seconds: float | None = None) -> EmbedderError:
    return EmbedderError("It is busy.", "passing", wait_seconds)


# -- filling --------------------------------------------------------------------------------------


async def test_every_message_gets_the_vector_of_its_author_and_text(embedder, embedding):
    """What is embedded is who speaks and what is said, and not the day."""
    index = _Index(["I like parrots"], author="Caroline")

    await embedding.fill(index)

    assert np.allclose(index.vectors[0], embedder.vector("Caroline: I like parrots"))
    assert (index.owner, index.dimensions) == ("fake", 32)


async def test_a_message_without_an_author_is_embedded_as_it_stands(embedder, embedding):
    """No colon comes before its text."""
    index = _Index(["I like parrots"])

    await embedding.fill(index)

    assert ["I like parrots"] in embedder.asked


async def test_a_long_history_is_filled_in_batches_whose_progress_is_told(embedder, embedding):
    """At most 64 at a time, after one harmless text that tells whether anything works."""
    index = _Index([f"text {number}" for number in range(130)])
    told = []

    await embedding.fill(index, progress=told.append)

    assert told == [64, 64, 2]
    assert [len(texts) for texts in embedder.asked] == [1, 64, 64, 2]
    assert len(index.vectors) == 130


async def test_a_message_without_words_is_like_nothing_and_is_sent_nowhere(embedder, embedding):
    """Its vector is nought in every place, so that no question is near it; an author alone makes it no likelier."""
    index = _Index(["", " \n", "words"], author="Caroline")

    await embedding.fill(index)

    assert not index.vectors[0].any()
    assert not index.vectors[1].any()
    assert embedder.asked[-1] == ["Caroline: words"]


async def test_another_embedder_begins_anew(embedding):
    """Vectors of two embedders never stand side by side."""
    index = _Index(["one", "two"])
    await Embedding(FakeEmbedder(name="older", dimensions=8)).fill(index)
    assert not embedding.is_of(index)

    await embedding.fill(index)

    assert embedding.is_of(index)
    assert {len(vector) for vector in index.vectors.values()} == {32}


async def test_a_second_fill_returns_and_the_first_goes_on_to_the_end(embedder, embedding):
    """What was added while it ran is filled too, and nothing twice."""
    index = _Index(["one"])
    embedder.gate.clear()
    first = asyncio.create_task(embedding.fill(index))
    await asyncio.sleep(0)
    index.said.append(("", "", "two"))

    await embedding.fill(index)
    embedder.gate.set()
    await first

    assert embedder.asked[1:] == [["one", "two"]]
    assert sorted(index.vectors) == [0, 1]


async def test_two_indexes_are_filled_side_by_side(embedder, embedding):
    """One that runs keeps no other waiting."""
    indexes = [_Index(["one"]), _Index(["two"])]

    await asyncio.gather(*(embedding.fill(index) for index in indexes))

    assert [sorted(index.vectors) for index in indexes] == [[0], [0]]


async def test_a_cancelled_fill_leaves_what_is_there_and_can_be_taken_up(embedder, embedding):
    """The batch that was under way is missing, and the next fill finds it."""
    index = _Index([f"text {number}" for number in range(70)])
    filled = asyncio.Event()
    running = asyncio.create_task(embedding.fill(index, progress=lambda _: (embedder.gate.clear(), filled.set())))
    await filled.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(index.vectors) == list(range(64))

    embedder.gate.set()
    await embedding.fill(index)

    assert len(index.vectors) == 70


@pytest.mark.parametrize(
    "now", [pytest.param([], id="with fewer messages"), pytest.param(["another", "two"], id="with other messages")]
)
async def test_vectors_of_an_index_that_was_begun_anew_are_dropped(now, embedder, embedding):
    """Under the same numbers stand other messages, which get their own."""
    index = _Index(["one", "two"])
    await embedding.fill(_Index(["first"]))
    embedder.gate.clear()
    running = asyncio.create_task(embedding.fill(index))
    await asyncio.sleep(0)
    index.said = [("", "", text) for text in now]

    embedder.gate.set()
    await running

    assert {number: vector.tolist() for number, vector in index.vectors.items()} == {
        number: embedder.vector(text).tolist() for number, text in enumerate(now)
    }


# -- filling that fails ---------------------------------------------------------------------------


async def test_failures_are_waited_out_longer_and_longer_up_to_a_minute(embedder, embedding, sleeper):
    """From one second, doubled each time; then it goes on, and nothing is held against it."""
    embedder.failures = [_passing() for _ in range(9)]
    index = _Index(["one"])

    await embedding.fill(index)

    assert sleeper.slept == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert sorted(index.vectors) == [0]
    assert embedding.reason is None


async def test_who_asks_to_be_left_alone_is(embedder, embedding, sleeper):
    """For as long as asked, but no longer than a minute, and not shorter than it would have been anyway."""
    embedder.failures = [_passing(7), _passing(0), _passing(3_600)]

    await embedding.fill(_Index(["one"]))

    assert sleeper.slept == [7, 2, 60]


async def test_a_fill_that_cannot_work_returns_with_the_reason(embedder, embedding, sleeper):
    """A wrong key is not tried again and again; the next fill asks anew."""
    embedder.failures = [EmbedderError("It answered 401.", "setup")]
    index = _Index(["one"])

    await embedding.fill(index)
    assert (embedding.reason, sleeper.slept, index.vectors) == ("It answered 401.", [], {})
    await embedding.fill(index)

    assert (embedding.reason, sorted(index.vectors)) == (None, [0])


@pytest.mark.parametrize("place", [0, 20, 99])
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(EmbedderError("Refused.", "input"), id="says so"),
        pytest.param(ZeroDivisionError(), id="breaks"),
        pytest.param(EmbedderError("It answered 500.", "passing"), id="calls itself broken"),
    ],
)
async def test_a_text_that_is_refused_keeps_no_other_from_its_vector(error, place, embedder, embedding):
    """It is tried alone, seen to be the reason, and then like nothing; all others have what is theirs."""
    index = _Index([f"poison {number}" if number == place else f"text {number}" for number in range(100)])
    embedder.refused["poison"] = error

    await embedding.fill(index)

    assert len(index.vectors) == 100
    assert [number for number, vector in index.vectors.items() if not vector.any()] == [place]
    assert [f"poison {place}"] in embedder.asked


async def test_who_refuses_everything_makes_no_text_like_nothing(embedder, embedding):
    """A harmless text is tried before one is given up: a model that is gone is no fault of the texts."""
    index = _Index(["one", "two"])
    await embedding.fill(_Index(["before"]))
    embedder.failures = [EmbedderError("Refused.", "input") for _ in range(50)]

    await embedding.fill(index)

    assert (index.vectors, embedding.reason) == ({}, "Refused.")


async def test_a_foreign_error_is_known_by_its_kind_alone(embedder, embedding):
    """What it says may hold a text or a key."""
    embedder.failures = [ValueError("the key is sk-123")]

    await embedding.fill(_Index(["one"]))

    assert embedding.reason == "The embedder failed (ValueError)."


@given(st.data())
async def test_whatever_fails_in_passing_every_message_gets_its_vector(data):
    """In any order of failures, with any texts refused."""
    kinds = st.sampled_from(["ok", "bad"])
    texts = [f"{kind} {number}" for number, kind in enumerate(data.draw(st.lists(kinds, max_size=12)))]
    embedder = FakeEmbedder()
    embedder.failures = [_passing() for _ in range(data.draw(st.integers(0, 4)))]
    embedder.refused["bad"] = EmbedderError("Refused.", "input")
    index = _Index(texts)

    await Embedding(embedder, sleep=_Sleeper()).fill(index)

    assert {number for number, vector in index.vectors.items() if vector.any()} == {
        number for number, text in enumerate(texts) if text.startswith("ok")
    }
    assert len(index.vectors) == len(texts)


# -- questions ------------------------------------------------------------------------------------


async def test_a_question_gets_its_vector_and_is_remembered(embedder, embedding):
    """The same question is not embedded twice; nobody may write to what is remembered."""
    first = await embedding.of_query("who likes parrots", seconds=5)
    second = await embedding.of_query("who likes parrots", seconds=5)

    assert first is second
    assert embedder.asked == [["who likes parrots"]]
    assert np.allclose(first, embedder.vector("who likes parrots"))
    assert not first.flags.writeable


async def test_the_last_32_questions_are_remembered(embedder, embedding):
    """One that was asked again is younger than those since."""
    await embedding.of_query("question 0", seconds=5)
    for number in range(1, 32):
        await embedding.of_query(f"question {number}", seconds=5)
    await embedding.of_query("question 0", seconds=5)
    await embedding.of_query("question 32", seconds=5)
    embedder.asked.clear()

    await embedding.of_query("question 0", seconds=5)
    await embedding.of_query("question 1", seconds=5)

    assert embedder.asked == [["question 1"]]


async def test_a_question_whose_vector_is_late_goes_without_and_finds_it_the_next_time(embedder, embedding):
    """The work is not thrown away."""
    embedder.gate.clear()
    late = await embedding.of_query("who", seconds=0.001)
    embedder.gate.set()
    await asyncio.sleep(0)

    again = await embedding.of_query("who", seconds=5)

    assert late is None
    assert again is not None
    assert embedder.asked == [["who"]]


async def test_questions_do_not_pile_up_before_an_embedder_that_hangs(embedder, embedding):
    """After four, words alone find, without a wait."""
    embedder.gate.clear()
    for number in range(8):
        assert await embedding.of_query(f"question {number}", seconds=0) is None

    await embedding.close()

    assert len(embedder.asked) <= 4
    assert embedder.closed


async def test_a_question_that_fails_goes_without_and_says_why(embedder, embedding):
    """Nothing is raised; the next one is asked again."""
    embedder.failures = [_passing()]

    failed = await embedding.of_query("who", seconds=5)
    reason = embedding.reason
    worked = await embedding.of_query("who", seconds=5)

    assert failed is None
    assert reason == "It is busy."
    assert worked is not None
    assert embedding.reason is None


async def test_a_question_that_is_open_at_the_end_goes_without(embedder, embedding):
    """Whoever asked is not cancelled by it."""
    embedder.gate.clear()
    asking = asyncio.create_task(embedding.of_query("who", seconds=5))
    await asyncio.sleep(0)

    await embedding.close()

    assert await asking is None


async def test_a_caller_that_is_cancelled_is(embedder, embedding):
    """Waiting for a vector hides no cancellation."""
    embedder.gate.clear()
    asking = asyncio.create_task(embedding.of_query("who", seconds=5))
    await asyncio.sleep(0)

    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    await embedding.close()
