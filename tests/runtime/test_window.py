"""How large a window is, and what of it a prompt may fill."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.errors import ContextWindowTooSmallError
from openclaw_ctx.runtime import window as room
from openclaw_ctx.runtime.window import (
    DEFAULT_CONTEXT_WINDOW,
    Window,
    check_window,
    effective_reserve,
    prompt_budget,
    resolve_window,
    should_compact,
)


def of(tokens, reference=None):
    """Return a window."""
    return Window(tokens=tokens, source="modelsConfig", reference_tokens=reference or tokens)


def test_the_constants_are_the_reference_systems():
    """Each as it is written there."""
    assert DEFAULT_CONTEXT_WINDOW == 200_000
    assert (room.HARD_MIN_TOKENS, room.HARD_MIN_RATIO) == (4_000, 0.1)
    assert (room.WARN_BELOW_TOKENS, room.WARN_BELOW_RATIO) == (8_000, 0.2)
    assert (room.RESERVE_TOKENS, room.RESERVE_TOKENS_FLOOR) == (16_384, 20_000)
    assert (room.MIN_PROMPT_BUDGET_TOKENS, room.MIN_PROMPT_BUDGET_RATIO) == (8_000, 0.5)


@pytest.mark.parametrize(
    "model,cap,tokens,source",
    [
        pytest.param(32_000, None, 32_000, "modelsConfig", id="what the model has"),
        pytest.param(32_000, 10_000, 10_000, "agentContextTokens", id="a smaller cap"),
        pytest.param(32_000, 32_000, 32_000, "modelsConfig", id="a cap that takes nothing away"),
        pytest.param(32_000, 0, 32_000, "modelsConfig", id="a cap of nothing is none"),
        pytest.param(None, None, 200_000, "default", id="nobody knows"),
        pytest.param(None, 50_000, 50_000, "agentContextTokens", id="nobody knows, and a cap"),
    ],
)
def test_whose_number_is_taken(model, cap, tokens, source):
    """The smaller one, with its source; the model's own is kept beside it."""
    window = resolve_window(model_window=model, source="modelsConfig", cap=cap)

    assert (window.tokens, window.source) == (tokens, source)
    assert window.reference_tokens == (200_000 if model is None else model)


@pytest.mark.parametrize("tokens", [0, 1, 3_999])
def test_a_window_below_the_minimum_is_refused(tokens):
    """The error says how large it is, what is needed, and where the number comes from."""
    with pytest.raises(ContextWindowTooSmallError) as caught:
        check_window(of(tokens))

    assert (caught.value.tokens, caught.value.minimum, caught.value.source) == (tokens, 4_000, "modelsConfig")


@pytest.mark.parametrize(
    "window,warns",
    [
        pytest.param(of(4_000), True, id="the minimum"),
        pytest.param(of(7_999), True, id="one token below enough"),
        pytest.param(of(8_000), False, id="enough"),
        pytest.param(of(39_999, 200_000), True, id="a cap below a fifth of a large model"),
        pytest.param(of(40_000, 200_000), False, id="a cap of a fifth"),
        pytest.param(of(4_000, 1_000_000), True, id="a tenth is never more than there is"),
    ],
)
def test_when_it_warns(window, warns):
    """Below 8,000 tokens, or a fifth of what the model has."""
    warning = check_window(window)

    assert (warning is not None) is warns
    assert warning is None or str(window.tokens) in warning


@pytest.mark.parametrize(
    "window,reserve,floor,kept",
    [
        pytest.param(200_000, 16_384, 20_000, 20_000, id="the floor is more"),
        pytest.param(200_000, 30_000, 20_000, 30_000, id="more was asked for"),
        pytest.param(200_000, 16_384, 0, 16_384, id="no floor"),
        pytest.param(24_000, 16_384, 20_000, 16_000, id="the prompt keeps 8,000"),
        pytest.param(10_000, 16_384, 20_000, 5_000, id="the prompt keeps half"),
        pytest.param(1, 16_384, 20_000, 0, id="the prompt keeps a token"),
        pytest.param(0, 16_384, 20_000, 0, id="no window"),
    ],
)
def test_the_reserve(window, reserve, floor, kept):
    """The larger of the two, as far as the window bears it."""
    assert effective_reserve(window, reserve_tokens=reserve, floor=floor) == kept


@pytest.mark.parametrize(
    "window,reserve,budget",
    [
        pytest.param(200_000, 20_000, 180_000, id="large"),
        pytest.param(16_384, 16_384, 8_000, id="never below 8,000"),
        pytest.param(8_192, 4_096, 8_000, id="a little more than 8,000"),
        pytest.param(4_096, 2_048, 4_095, id="all but one token"),
        pytest.param(100, 0, 100, id="nothing reserved"),
        pytest.param(0, 20_000, 0, id="no window"),
    ],
)
def test_the_prompts_budget(window, reserve, budget):
    """What the precheck holds a prompt against."""
    assert prompt_budget(window, reserve=reserve) == budget


@given(window=st.integers(0, 40_000), reserve=st.integers(0, 40_000), floor=st.integers(0, 40_000))
def test_the_law_of_the_reserve(window, reserve, floor):
    """Reserve and prompt share the window, and in one of two tokens and more the prompt always has something."""
    kept = effective_reserve(window, reserve_tokens=reserve, floor=floor)
    budget = prompt_budget(window, reserve=kept)

    assert 0 <= kept <= window
    assert window - kept <= budget <= window
    assert window < 2 or budget > 0


def test_when_to_compact():
    """At more than the window without the reserve, and never where nobody knows the window."""
    assert not should_compact(180_000, window=200_000, reserve=20_000)
    assert should_compact(180_001, window=200_000, reserve=20_000)
    assert not should_compact(180_001, window=0, reserve=20_000)
