"""What failures mean: the wordings of the reference system, and those from the field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.models import Failure, classify_failure, observed_tokens, token_limit
from openclaw_ctx.models.figures import retry_after_seconds
from tests.models.wordings import FIELD_OVERFLOWS, OVERFLOWS, RATES


def _fail(text: str, status: int | None = 400, **more: object) -> Failure:
    return Failure(text=text, status=status, **more)


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in OVERFLOWS.items()])
def test_an_overflow_is_known_in_every_wording_of_the_reference_system(text):
    """Definite substrings, pairs, providers' patterns, the Chinese phrases, and the loose ones."""
    assert classify_failure(_fail(text)) == "overflow"


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in FIELD_OVERFLOWS.items()])
@pytest.mark.parametrize("status", [400, 413, 500, 200])
def test_an_overflow_is_known_in_wordings_that_slipped_through(text, status):
    """From the field; whatever status they came with."""
    assert classify_failure(_fail(text, status)) == "overflow"


@pytest.mark.parametrize(
    "text",
    [
        "The model supports only 256K context, upgrade your plan for more.",
        "This plan only supports 256K context",
        "supports up to 262,144 tokens of context",
        "Your plan is limited to 256K context.",
        "The context window is limited to 262144 tokens on your plan",
    ],
)
def test_a_401_that_speaks_of_the_context_is_an_overflow(text):
    """And no problem of the login."""
    assert classify_failure(_fail(text, 401)) == "overflow"
    assert classify_failure(_fail("Unauthorized", 401)) == "auth"


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in RATES.items()])
@pytest.mark.parametrize("status", [429, 400, 413])
def test_a_limit_per_time_is_no_overflow(text, status):
    """It is waited for, and nothing is compacted."""
    assert classify_failure(_fail(text, status)) == "rate_limit"


def test_a_413_that_speaks_of_tokens_per_minute_is_waited_for():
    """The status alone would be an overflow."""
    assert classify_failure(_fail("Request too large for the limit of tokens per minute", 413)) == "rate_limit"
    assert classify_failure(_fail("request_too_large: over the limit of tokens per minute", 413)) == "rate_limit"
    assert classify_failure(_fail("Request Entity Too Large", 413)) == "overflow"
    assert classify_failure(_fail("", 413)) == "overflow"


@pytest.mark.parametrize(
    "text",
    [
        "input exceeds maximum file size",
        "image exceeds 5 MB maximum: 7340032 bytes > 5242880 bytes",
        "The uploaded file is too large",
    ],
)
@pytest.mark.parametrize("status", [400, 413])
def test_a_file_that_is_too_large_is_no_overflow(text, status):
    """Compacting would not make it smaller."""
    assert classify_failure(_fail(text, status)) == "other"


@pytest.mark.parametrize("text", ["Limit 8000, Requested {0}, allowance full", "TPM: Limit 8,000, Requested {0}."])
@pytest.mark.parametrize("status", [413, 429])
def test_a_request_beyond_the_limit_per_minute_is_an_overflow_and_one_below_it_waits(text, status):
    """No minute will ever hold the one; the numbers are those that were said."""
    beyond, below = (_fail(text.format(number), status, codes=("rate_limit_exceeded",)) for number in ("15000", "3000"))

    assert classify_failure(beyond) == "overflow"
    assert (observed_tokens(beyond.text), token_limit(beyond.text)) == (15_000, 8_000)
    assert classify_failure(below) == "rate_limit"
    assert (observed_tokens(below.text), token_limit(below.text)) == (None, None)


@given(limit=st.integers(1, 30), requested=st.integers(0, 30))
def test_waiting_helps_as_long_as_the_request_fits_the_limit(limit, requested):
    """At the limit itself, too."""
    failure = _fail(f"TPM: Limit {limit}, Requested {requested}", 429)

    assert classify_failure(failure) == ("overflow" if requested > limit else "rate_limit")


@pytest.mark.parametrize(
    "failure,kind",
    [
        pytest.param(_fail("Incorrect API key provided", 401), "auth", id="401"),
        pytest.param(_fail("Country not supported", 403), "auth", id="403"),
        pytest.param(_fail("API key not valid. Please pass a valid API key.", 400), "auth", id="google-says-400"),
        pytest.param(_fail("no", 402), "billing", id="402"),
        pytest.param(
            _fail("You exceeded your current quota, please check your plan and billing details.", 429),
            "billing",
            id="quota",
        ),
        pytest.param(
            _fail("You exceeded your current quota. Please retry in 34.07s.", 429),
            "rate_limit",
            id="quota-that-refills",
        ),
        pytest.param(
            _fail("This request requires more credits. You requested up to 65536 tokens, but can afford 3800", 402),
            "billing",
            id="credits",
        ),
        pytest.param(_fail("Your credit balance is too low", 400), "billing", id="balance"),
        pytest.param(_fail("Too Many Requests", None), "rate_limit", id="text-alone"),
        pytest.param(_fail("", 429), "rate_limit", id="429-alone"),
        pytest.param(_fail("Overloaded", 529), "transient", id="529"),
        pytest.param(_fail("Overloaded", 200, codes=("overloaded_error",)), "transient", id="within-a-stream"),
        pytest.param(_fail("Internal server error", 500), "transient", id="500"),
        pytest.param(_fail("Bad gateway", 502), "transient", id="502"),
        pytest.param(_fail("upstream request timeout", 504), "timeout", id="504"),
        pytest.param(_fail("", 408), "timeout", id="408"),
        pytest.param(_fail("x", None, happened="timeout"), "timeout", id="no-answer"),
        pytest.param(_fail("x", None, happened="connection"), "transient", id="no-connection"),
        pytest.param(_fail("The model `gpt-9` does not exist", 404), "other", id="404"),
        pytest.param(_fail("Reasoning is mandatory here and cannot be disabled.", 400), "other", id="think"),
        pytest.param(_fail("context window is too small: the minimum is 16000", 400), "other", id="too-small"),
        pytest.param(
            _fail("max_tokens is too large: 100000. This model supports at most 16384 completion tokens", 400),
            "other",
            id="answer-too-long",
        ),
        pytest.param(_fail("Unsupported parameter: 'temperature'", 400), "other", id="parameter"),
        pytest.param(
            _fail("Invalid max_tokens value, the valid range of max_tokens is [1, 393216]", 400), "other", id="range"
        ),
        pytest.param(
            _fail(
                "This request would exceed the rate limit for your organization of 20,000 input tokens per minute.", 429
            ),
            "rate_limit",
            id="anthropic-per-minute",
        ),
    ],
)
def test_what_else_there_is(failure, kind):
    """By status, code and words."""
    assert classify_failure(failure) == kind


@pytest.mark.parametrize(
    "text,observed,limit",
    [
        ("prompt is too long: 203,456 tokens > 200,000 maximum", 203_456, 200_000),
        ("prompt is too long: 5000, model maximum context length: 4096", 5000, 4096),
        (OVERFLOWS["openai"], 10_000, 8192),
        (OVERFLOWS["kimi"], 280_000, 262_144),
        (FIELD_OVERFLOWS["configured-limit"], 509_178, 272_000),
        (FIELD_OVERFLOWS["sum-without-marks"], 179_413 + 32_768, 200_000),
        (OVERFLOWS["exceed-context-limit"], 210_000, 200_000),
        ("input length and max_tokens exceed context limit (i.e. 190000 + 20000 > 200000)", 210_000, 200_000),
        ("input length and max_tokens exceed context limit (i.e 190000 + 20000 > 200000)", 210_000, 200_000),
        (FIELD_OVERFLOWS["input-length"], 265_330, 262_144),
        (OVERFLOWS["llama.cpp"], 5000, 4096),
        (OVERFLOWS["gemini"], 1_200_000, 1_048_576),
        (OVERFLOWS["xai"], 537_812, 131_072),
        (OVERFLOWS["copilot"], 130_000, 128_000),
        ("The model supports only 256K context", None, 256_000),
        (
            "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.",
            5000,
            4096,
        ),
        (FIELD_OVERFLOWS["vllm"], 131_073, 131_072),
        (FIELD_OVERFLOWS["vllm-at-least"], 262_145, 262_144),
        (FIELD_OVERFLOWS["openrouter"], 284_283, 262_144),
        (FIELD_OVERFLOWS["mistral"], 40_000, 32_768),
        (FIELD_OVERFLOWS["kimi-in-bytes"], None, None),
        (OVERFLOWS["dashscope"], None, 129_024),
        ("context_length_exceeded", None, None),
        ("prompt is too long: 0 tokens > 0 maximum", None, None),
    ],
)
def test_the_numbers_are_read_from_the_words(text, observed, limit):
    """What was sent, and what fits; ``None`` where it isn't said."""
    assert observed_tokens(text) == observed
    assert token_limit(text) == limit


@pytest.mark.parametrize(
    "headers,text,seconds",
    [
        ({"retry-after": "7"}, "", 7.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, "", 1.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, "", 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, "", 0.0),
        ({"retry-after": "soon"}, "Please try again in 7.66s.", 7.66),
        ({}, "Please try again in 1m7.5s. Visit", 67.5),
        ({}, "try again in 250ms", 0.25),
        ({}, "Please retry after 3 minutes", 180.0),
        ({}, "Please wait.", None),
        ({"retry-after": "9" * 40}, "", 604_800.0),
        ({"retry-after": "-5"}, "", None),
    ],
)
def test_how_long_to_wait_is_read_from_the_headers_or_the_words(headers, text, seconds):
    """Seconds, milliseconds, a date, or a sentence; at most a week."""
    assert retry_after_seconds(headers, text) == seconds


@given(
    st.text(alphabet="exceds contxlimi tokqurp0123456789,>()+ ", max_size=200), st.sampled_from([None, 200, 400, 429])
)
def test_no_text_is_too_odd_to_be_read(text, status):
    """A kind comes of everything, and numbers are positive or none."""
    assert classify_failure(_fail(text, status))
    for number in (observed_tokens(text), token_limit(text)):
        assert number is None or number > 0
