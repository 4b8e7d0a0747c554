"""What is derived from the measured numbers."""

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.replay.figures import duration, share
from openclaw_ctx.replay.measures import Replay, as_json, group_by_turn

HOSTILE = "<b>\x1b[31m\u202e\n\udc80"


def test_a_verdict_says_how_a_good_run_went(make_run):
    """Calls, turns, budget, compactions and the time of assemble stand in one sentence."""
    run = make_run(calls=2)
    run = attrs.evolve(
        run, calls=tuple(attrs.evolve(call, compactions=1, milliseconds={"assemble": 0.2}) for call in run.calls)
    )

    assert run.verdict == (
        "window at 8,000: 2 calls in 1 turn, every prompt within the budget; "
        "2 compactions; assemble 0.2 ms median, 0.2 ms p95."
    )


def test_a_verdict_names_the_worst_prompt_over_the_budget(make_run):
    """A run that broke its budget says how often and by how much."""
    run = make_run(calls=3)
    run = attrs.evolve(run, calls=(*run.calls[:2], attrs.evolve(run.calls[2], prompt_tokens=9_412)))

    assert "1 call over the budget (worst 9,412)" in run.verdict


def test_a_prompt_of_exactly_the_budget_is_within_it(make_run):
    """The budget is what a prompt may cost, not what it must stay below."""
    call = attrs.evolve(make_run(calls=1).calls[0], prompt_tokens=8_000)

    assert not call.over_budget
    assert attrs.evolve(call, prompt_tokens=8_001).over_budget
    assert not attrs.evolve(call, budget=None).over_budget


def test_a_verdict_says_who_stood_in_and_why(make_run):
    """A substitution opens the sentence, so that nobody takes the numbers for the asked engine's."""
    run = make_run(calls=1, engine="nope", answered_by="legacy", substitution="engine is not registered.")

    assert run.verdict.startswith(
        "Asked for nope; legacy answered the only call, since engine is not registered. At 8,000: 1 call"
    )


def test_a_verdict_counts_what_each_engine_answered(make_run):
    """A quarantine in the middle shows as two engines with their calls."""
    run = make_run(calls=3, substitution="assemble failed")
    run = attrs.evolve(run, calls=(run.calls[0], *(attrs.evolve(call, engine="legacy") for call in run.calls[1:])))

    assert run.verdict.startswith("Asked for window; legacy answered 2 of 3 calls, since assemble failed. At 8,000: ")


@pytest.mark.parametrize(
    "engines, said",
    [
        pytest.param(("legacy",) * 3, "Asked for window; legacy answered all 3 calls, since x. At", id="every-call"),
        pytest.param(("window",) * 3, "Asked for window; another stood in between its calls, since x. At", id="none"),
        pytest.param(
            ("window", "a", "b"), "Asked for window; a answered 1 and b answered 1 of 3 calls, since x. At", id="two"
        ),
    ],
)
def test_whoever_stood_in_is_said_in_a_sentence(make_run, engines, said):
    """Whatever the share of the stand-ins, the opening reads as a sentence."""
    run = make_run(calls=3, substitution="x")
    calls = (attrs.evolve(call, engine=engine) for call, engine in zip(run.calls, engines, strict=True))

    assert attrs.evolve(run, calls=tuple(calls)).verdict.startswith(said)


def test_a_run_without_calls_has_a_verdict(make_run):
    """Nothing is divided by the number of calls."""
    run = make_run(calls=0)

    assert run.verdict == (
        "window at 8,000: no model calls, since the recording holds no reply of a model to anything."
    )
    assert (run.peak_tokens, run.mean_tokens, run.percentile("assemble", 95)) == (0, 0.0, None)


@given(times=st.lists(st.integers(0, 5), min_size=1, max_size=9), q=st.integers(0, 100))
def test_a_percentile_is_a_measured_time_that_so_many_stay_within(make_run, times, q):
    """At least q per cent took no longer, and any shorter time would hold fewer."""
    run = make_run(calls=len(times))
    run = attrs.evolve(
        run,
        calls=tuple(attrs.evolve(call, milliseconds={"assemble": t}) for call, t in zip(run.calls, times, strict=True)),
    )

    found = run.percentile("assemble", q)

    assert found in times
    assert 100 * sum(t <= found for t in times) >= q * len(times)
    assert found == min(times) or 100 * sum(t < found for t in times) < q * len(times)


@given(calls=st.integers(0, 12), per_turn=st.integers(1, 4))
def test_grouping_by_turn_loses_no_call_compaction_or_time(make_run, calls, per_turn):
    """What is added up per turn is what the calls add up to."""
    run = make_run(calls=calls, calls_per_turn=per_turn)

    turns = group_by_turn(run.calls)

    assert sum(turn.calls for turn in turns) == calls
    assert sum(turn.compactions for turn in turns) == run.compactions
    assert max((turn.prompt_tokens for turn in turns), default=0) == run.peak_tokens
    assert sum(turn.milliseconds["assemble"] for turn in turns) == pytest.approx(
        sum(call.milliseconds["assemble"] for call in run.calls)
    )


@given(calls=st.integers(0, 9), engine=st.text(max_size=6), reason=st.none() | st.text(max_size=6))
def test_json_comes_back_as_it_was_and_adds_up(make_run, calls, engine, reason):
    """Plain JSON data: it round-trips, and kept, left out and summarised are all messages of the call."""
    run = make_run(calls=calls, engine=engine, substitution=reason)
    data = as_json(Replay(source="a.jsonl", format="pi", runs=(run,), skipped=()))

    again = json.loads(json.dumps(data, allow_nan=False))

    assert again == data
    for shown, call in zip(again["runs"][0]["calls"], run.calls, strict=True):
        assert shown["kept"] + shown["left_out"] + shown["summarised"] == call.messages == 2 * shown["call"]


def test_foreign_text_is_cleaned_in_json_and_verdicts(make_run):
    """No control character, override or lone surrogate of a file or engine gets out."""
    run = make_run(calls=2, engine=HOSTILE, substitution=HOSTILE, hooks=(HOSTILE,))
    replay = Replay(source=HOSTILE, format=HOSTILE, runs=(run,), skipped=(HOSTILE,))

    text = json.dumps(as_json(replay), ensure_ascii=False)

    assert text.isprintable()
    assert run.verdict.isprintable()


@pytest.mark.parametrize(
    "part,whole,written",
    [
        pytest.param(0, 900, "0%", id="none"),
        pytest.param(2, 900, "<1%", id="something-is-not-none"),
        pytest.param(899, 900, "99%", id="nearly-all-is-not-all"),
        pytest.param(901, 900, ">100%", id="just-over-is-over"),
        pytest.param(900, 900, "100%", id="all"),
        pytest.param(999, 100, "999%", id="the-most-that-is-written"),
        pytest.param(1_397_900, 1, ">999%", id="more-than-fits"),
        pytest.param(0, 0, "-", id="of-nothing"),
    ],
)
def test_a_share_is_never_rounded_to_none_or_all(part, whole, written):
    """0% and 100% are claims, so rounding never makes them."""
    assert share(part, whole) == written


@pytest.mark.parametrize(
    "milliseconds,written",
    [
        pytest.param(None, "-", id="never-ran"),
        pytest.param(0.004, "0.00", id="next-to-nothing"),
        pytest.param(0.05, "0.05", id="hundredths"),
        pytest.param(0.2, "0.2", id="tenths"),
        pytest.param(1234.5, "1,234", id="seconds"),
    ],
)
def test_a_duration_has_the_digits_that_tell(milliseconds, written):
    """Short times keep digits, long ones lose them."""
    assert duration(milliseconds) == written
