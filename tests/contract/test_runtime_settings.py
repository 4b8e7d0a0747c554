"""Runtime settings of schema 1: every field is there, and every foreign value is normalised."""

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import HostDescriptor, RuntimeSettings, build_runtime_settings, normalize_reason

HOST = HostDescriptor(id="acme-host", label="Acme host", capabilities=("compact",))
CODES = (
    "provider_timeout",
    "provider_unavailable",
    "rate_limited",
    "context_overflow",
    "runtime_unavailable",
    "unknown",
)
# Words of the mapping, so that texts collide with it, and words beside it.
WORDS = ("Timeout", "rate", "LIMIT", "429", "overflow", "context", "pressure", "runtime", "provider", "primary",
         "unavailable", "storm", "", " ")  # fmt: skip
ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=5), st.lists(st.text(max_size=2))
)


def test_a_run_without_trouble_is_normal():
    """RS1: the model asked for is the one that answers, no reasons: mode normal, limits echoed, reasons none."""
    settings = build_runtime_settings(
        HOST, requested_model="m-1", resolved_model="m-1", prompt_token_budget=8000, max_output_tokens=512
    )

    assert settings.runtime.mode == "normal"
    assert settings.schema_version == 1
    assert (settings.limits.prompt_token_budget, settings.limits.max_output_tokens) == (8000, 512)
    assert (settings.diagnostics.fallback_reason, settings.diagnostics.degraded_reason) == (None, None)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"fallback_reason": "primary down"}, id="a fallback reason"),
        pytest.param({"requested_model": "big", "resolved_model": "small"}, id="another model than was asked for"),
    ],
)
def test_a_run_that_fell_back_says_so(arguments):
    """RS2: a fallback reason, or another model than was asked for, is mode fallback."""
    assert build_runtime_settings(HOST, **arguments).runtime.mode == "fallback"


def test_a_degraded_run_says_so_whatever_else_happened():
    """RS3: a degraded reason is mode degraded, and weighs more than a fallback."""
    settings = build_runtime_settings(
        HOST, degraded_reason="stream timeout", fallback_reason="429", requested_model="a", resolved_model="b"
    )

    assert settings.runtime.mode == "degraded"
    assert settings.diagnostics.degraded_reason == "provider_timeout"
    assert settings.diagnostics.fallback_reason == "rate_limited"


@pytest.mark.parametrize("mode", ["normal", "fallback", "degraded"])
def test_a_mode_that_is_given_wins(mode):
    """Who says the mode is believed, whatever the reasons."""
    settings = build_runtime_settings(HOST, mode=mode, degraded_reason="timeout", fallback_reason="429")

    assert settings.runtime.mode == mode


@pytest.mark.parametrize("reason", ["", "  \t", 7, None], ids=repr)
def test_a_blank_reason_is_none_and_degrades_nothing(reason):
    """A reason that is blank after trimming, or no text, leaves the mode normal."""
    settings = build_runtime_settings(HOST, degraded_reason=reason, fallback_reason=reason)

    assert settings.runtime.mode == "normal"
    assert settings.diagnostics.degraded_reason is None


def test_every_field_is_there_and_unknown_is_none():
    """What nobody has said is there as ``None``; the program's name is a constant."""
    settings = attrs.asdict(build_runtime_settings(HOST))

    assert settings == {
        "schema_version": 1,
        "runtime": {"host": "openclaw", "mode": "normal", "harness_id": None, "runtime_id": None},
        "model": {"requested": None, "resolved": None, "provider": None, "family": None},
        "context_engine_selection": {"selected_id": None, "source": "unknown"},
        "execution_host": {"id": "acme-host", "label": "Acme host"},
        "limits": {"prompt_token_budget": None, "max_output_tokens": None},
        "diagnostics": {"fallback_reason": None, "degraded_reason": None},
    }


def test_texts_are_trimmed_and_blank_ones_are_none():
    """Every text field is trimmed; blank text and what is no text count as not said."""
    settings = build_runtime_settings(
        HOST,
        harness_id=" h ",
        runtime_id="\t",
        requested_model=" m ",
        resolved_model=" m",
        provider=42,
        model_family=["x"],
        selected_engine_id=" window ",
    )

    assert (settings.runtime.harness_id, settings.runtime.runtime_id) == ("h", None)
    assert (settings.model.requested, settings.model.resolved) == ("m", "m")
    assert (settings.model.provider, settings.model.family) == (None, None)
    assert settings.context_engine_selection.selected_id == "window"
    assert settings.runtime.mode == "normal", "the two models are the same once they are trimmed"


def test_a_family_is_never_guessed_from_the_model():
    """A model id does not attest a family: only the caller does."""
    settings = build_runtime_settings(HOST, requested_model="claude-x", resolved_model="claude-x")

    assert settings.model.family is None
    assert build_runtime_settings(HOST, model_family=" claude ").model.family == "claude"


@pytest.mark.parametrize(
    "number,kept",
    [
        pytest.param(0, 0, id="zero"),
        pytest.param(-5, -5, id="a negative number stays"),
        pytest.param(1.5, 1.5, id="nothing is rounded"),
        pytest.param(math.inf, None, id="infinity"),
        pytest.param(math.nan, None, id="not a number"),
        pytest.param(True, None, id="true is no number"),
        pytest.param("8000", None, id="a text is no number"),
    ],
)
def test_only_finite_numbers_are_limits(number, kept):
    """A limit is a finite number as it was given, or ``None``."""
    limits = build_runtime_settings(HOST, prompt_token_budget=number, max_output_tokens=number).limits

    assert (limits.prompt_token_budget, limits.max_output_tokens) == (kept, kept)


@pytest.mark.parametrize(
    "selected,source",
    [
        pytest.param("legacy", "default", id="the built-in engine"),
        pytest.param("window", "configured", id="any other engine"),
        pytest.param(" ", "unknown", id="no engine"),
    ],
)
def test_the_source_of_the_selection_follows_from_the_engine(selected, source):
    """``default`` for legacy, ``configured`` for any other engine, ``unknown`` for none."""
    selection = build_runtime_settings(HOST, selected_engine_id=selected).context_engine_selection

    assert selection.source == source


@pytest.mark.parametrize(
    "text,code",
    [
        *(pytest.param(code, code, id=f"the code {code}") for code in CODES),
        pytest.param("  rate_limited ", "rate_limited", id="a code with blanks around it"),
        pytest.param("request TIMEOUT", "provider_timeout", id="timeout, in capitals"),
        pytest.param("rate limit timeout", "provider_timeout", id="timeout before rate"),
        pytest.param("context limit exceeded", "rate_limited", id="context limit exceeded is a rate limit"),
        pytest.param("HTTP 429", "rate_limited", id="429"),
        pytest.param("degenerate answer", "rate_limited", id="rate inside a word"),
        pytest.param("context window overflow", "context_overflow", id="overflow"),
        pytest.param("memory pressure in runtime", "context_overflow", id="pressure before runtime"),
        pytest.param("runtime provider gone", "runtime_unavailable", id="runtime before provider"),
        pytest.param("primary is unavailable", "provider_unavailable", id="unavailable"),
        pytest.param("gremlins", "unknown", id="anything else"),
    ],
)
def test_a_free_text_reason_becomes_a_code(text, code):
    """A code is kept; else words are looked for in the reference's order."""
    assert normalize_reason(text) == code


@given(reason=st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join))
def test_a_reason_normalises_to_what_normalises_to_itself(reason):
    """Normalising twice is normalising once, and the case of free text does not matter."""
    code = normalize_reason(reason)

    assert code is None or code in CODES
    assert normalize_reason(code) == code
    assert normalize_reason(reason.upper()) == normalize_reason(reason.lower())
    assert (code is None) is (not reason.strip())


@given(arguments=st.fixed_dictionaries({}, optional=dict.fromkeys(
    ("harness_id", "runtime_id", "requested_model", "resolved_model", "provider", "model_family",
     "selected_engine_id", "prompt_token_budget", "max_output_tokens", "fallback_reason", "degraded_reason"),
    ANYTHING,
)))  # fmt: skip
def test_whatever_comes_in_settings_come_out_clean(arguments):
    """Nothing raises; texts come out trimmed, numbers finite; building again from what came out changes nothing."""
    settings = build_runtime_settings(HOST, **arguments)

    again = build_runtime_settings(
        HOST,
        harness_id=settings.runtime.harness_id,
        runtime_id=settings.runtime.runtime_id,
        requested_model=settings.model.requested,
        resolved_model=settings.model.resolved,
        provider=settings.model.provider,
        model_family=settings.model.family,
        selected_engine_id=settings.context_engine_selection.selected_id,
        prompt_token_budget=settings.limits.prompt_token_budget,
        max_output_tokens=settings.limits.max_output_tokens,
        fallback_reason=settings.diagnostics.fallback_reason,
        degraded_reason=settings.diagnostics.degraded_reason,
    )

    assert again == settings
    assert isinstance(settings, RuntimeSettings)
    texts = [*attrs.astuple(settings.model), settings.runtime.harness_id, settings.runtime.runtime_id]
    assert all(text is None or (text == text.strip() and text) for text in texts)
    assert all(limit is None or math.isfinite(limit) for limit in attrs.astuple(settings.limits))
