"""How full a context is: the last usage that can be trusted, and what came since."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import AssistantMessage, CompactionSummaryMessage, SystemMessage, UserMessage
from openclaw_ctx.runtime.usage import context_tokens

U = UserMessage(content="u")


def answer(total=None, *, stop="stop", **more):
    """Return an answer whose call is said to have cost *total* tokens."""
    return AssistantMessage(content="a", usage=total and {"totalTokens": total}, stop_reason=stop, **more)


def one(_message):
    """Count each message as one token."""
    return 1


def test_the_last_usage_counts_and_an_estimate_of_what_follows():
    """Two messages came since the provider counted 500; what it counted before that does not matter."""
    messages = [U, answer(90), U, answer(500), U, U]

    assert context_tokens(messages, count=one) == 502


def test_without_any_usage_everything_is_counted():
    """A conversation that no provider counted is estimated whole; so is an empty one."""
    assert context_tokens([U, answer(), U], count=one) == 3
    assert context_tokens([], count=one) == 0


@pytest.mark.parametrize("stop", ["aborted", "error"])
def test_an_answer_that_was_cut_off_is_no_measure(stop):
    """Its usage is part of one; the one before it counts, and it is counted itself."""
    assert context_tokens([U, answer(70), U, answer(9, stop=stop)], count=one) == 72


@pytest.mark.parametrize(
    "usage,tokens",
    [
        pytest.param({"input": 10, "output": 2, "cacheRead": 300, "cacheWrite": 40, "totalTokens": 360}, 360, id="v3"),
        pytest.param({"input": 10, "output": 2, "cacheRead": 300, "cacheWrite": 40}, 352, id="v3 without a total"),
        pytest.param(
            {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 8},
            100,
            id="Anthropic",
        ),
        pytest.param({"prompt_tokens": 90, "completion_tokens": 10}, 100, id="chat completions"),
        pytest.param(
            {"input_tokens": 90, "cached_input_tokens": 80, "output_tokens": 10, "total_tokens": 100}, 100, id="Codex"
        ),
        pytest.param({"promptTokenCount": 90, "candidatesTokenCount": 10, "totalTokenCount": 105}, 105, id="Gemini"),
        pytest.param({"input": 90, "cached": 80, "output": 10, "thoughts": 5, "total": 105}, 105, id="Gemini CLI"),
        pytest.param({"input_other": 10, "input_cache_read": 85, "output": 5}, 100, id="Kimi"),
    ],
)
def test_usage_is_read_in_the_words_of_whoever_wrote_it(usage, tokens):
    """Prompt and answer, cached or not, each once."""
    assert context_tokens([U, AssistantMessage(content="a", usage=usage)], count=one) == tokens


@pytest.mark.parametrize(
    "usage",
    [
        pytest.param({"totalTokens": 0, "input": 0, "output": 0}, id="nothing was counted"),
        pytest.param({"outputTokens": 90}, id="only the answer was counted"),
        pytest.param({"totalTokens": 2**70}, id="more than any window has"),
        pytest.param({"totalTokens": True, "input": "12", "output": None}, id="no numbers"),
        pytest.param({"totalTokens": float("nan"), "input": -5}, id="no number, and less than nothing"),
        pytest.param([500], id="no object"),
    ],
)
def test_a_usage_that_tells_nothing_is_none(usage):
    """An older one counts then."""
    assert context_tokens([answer(40), AssistantMessage(content="a", usage=usage)], count=one) == 41


def test_what_was_measured_before_a_compaction_does_not_count():
    """What a compaction kept stands behind the summary, with the usage of a prompt that is gone."""
    summary = CompactionSummaryMessage(summary="s")

    assert context_tokens([summary, answer(9_000), U], count=one) == 3
    assert context_tokens([SystemMessage(content="be kind"), summary, answer(9_000), U], count=one) == 4


def test_what_was_measured_since_a_compaction_counts():
    """Whoever knows which answers are new says so."""
    old, new = answer(9_000), answer(60)
    messages = [CompactionSummaryMessage(summary="s"), old, U, new, U]

    assert context_tokens(messages, count=one, current=lambda message: message is new) == 61
    assert context_tokens(messages[:3], count=one, current=lambda message: message is new) == 3


def test_a_usage_before_a_summary_does_not_count():
    """Not even where an engine puts the summary behind answers that it kept."""
    assert context_tokens([U, answer(9_000), CompactionSummaryMessage(summary="s"), U], count=one) == 4


def test_an_answer_of_a_command_line_bars_older_usages():
    """Its backend has a thread of its own: what was counted for another one says nothing of this context."""
    cli = answer(extra={"api": "cli"})

    assert context_tokens([U, answer(9_000), U, cli, U], count=one) == 5


def test_it_walks_back_only_as_far_as_the_usage():
    """A long history costs what came since."""
    counted = []

    context_tokens([U] * 1_000 + [answer(500)] + [U] * 3, count=lambda message: counted.append(message) or 1)

    assert len(counted) == 3


@given(before=st.integers(0, 4), total=st.integers(1, 50), behind=st.integers(0, 4))
def test_the_law_of_the_anchor(before, total, behind):
    """Whatever stands before the last usage, the context is that usage and what stands behind it."""
    messages = [answer(99)] * before + [U, answer(total)] + [U, answer(stop="error")] * behind

    assert context_tokens(messages, count=one) == total + 2 * behind
