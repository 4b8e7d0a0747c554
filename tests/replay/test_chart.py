"""The pictures of a replay."""

import re
from itertools import pairwise

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.replay.chart import NARROW, WIDE, colours, record_chart, thin, window_chart
from openclaw_ctx.replay.measures import Replay


@given(values=st.lists(st.integers(0, 3), min_size=1, max_size=40), width=st.integers(1, 6))
def test_thinning_keeps_both_ends_and_every_peak(values, width):
    """A thinned line begins, ends, rises and falls as far as the whole one, and is no longer than it may be."""
    kept = thin(values, width)

    assert kept == sorted(set(kept))
    assert len(kept) <= 2 * width + 2
    assert (kept[0], kept[-1]) == (0, len(values) - 1)
    assert max(values[i] for i in kept) == max(values)
    assert min(values[i] for i in kept) == min(values)


def test_thinning_keeps_the_peak_of_every_pixel():
    """A single high value among thousands is drawn wherever it stands."""
    for place in range(0, 5_000, 37):
        values = [0] * 5_000
        values[place] = 1

        assert place in thin(values, 100)


def test_the_stacked_areas_are_the_messages_of_the_record(make_run):
    """At the last call the three bands are as high as their counts, and together as the record."""
    run = make_run(calls=20)
    last = attrs.evolve(run.calls[-1], summarised=20, left_out=15, kept=5)
    run = attrs.evolve(run, calls=(*run.calls[:-1], last))

    paths = {path.get("class"): path.get("d") for path in record_chart(run).iter("path")}

    def edge_at_the_end(name):
        at_the_end = [float(y) for x, y in re.findall(r"([\d.]+),([\d.]+)", paths[name]) if x == "600"]
        return max(at_the_end) - min(at_the_end)

    assert edge_at_the_end("summarised") == pytest.approx(140 * 20 / 40, abs=0.2)
    assert edge_at_the_end("left-out") == pytest.approx(140 * 15 / 40, abs=0.2)
    assert edge_at_the_end("kept") == pytest.approx(140 * 5 / 40, abs=0.2)


def test_every_run_has_its_own_look(make_run):
    """Engines differ by hue and budgets by tone, also where an engine or a budget repeats."""
    runs = [make_run(calls=1, engine=engine, budget=budget) for engine in "ab" for budget in (8, 16, 32, None)]

    looks = colours(runs)

    assert len(set(looks)) == len(runs)
    assert {look.split()[0] for look in looks[:4]} == {"h0"}


def test_runs_of_one_engine_differ_by_hue(make_run):
    """Where only the budget varies, colour is free to tell budgets apart."""
    runs = [make_run(calls=1, budget=budget) for budget in (8, 16, 32)]

    assert len({look.split()[0] for look in colours(runs)}) == 3


@pytest.mark.parametrize("frame", [pytest.param(WIDE, id="wide"), pytest.param(NARROW, id="narrow")])
@pytest.mark.parametrize("calls", [pytest.param(n, id=f"{n}-calls") for n in (1, 2, 61, 3_000)])
def test_everything_lies_inside_the_frame(make_run, frame, calls):
    """No line, mark or label starts outside of the picture, however short or long the session."""
    runs = tuple(
        make_run(calls=calls, engine=engine, budget=budget, most_tokens=12_000)
        for engine in ("legacy", "window")
        for budget in (None, 8_000, 10_000_000)
    )

    svg = window_chart(Replay(source="s", format="f", runs=runs, skipped=()), frame)

    for path in svg.iter("path"):
        for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", path.get("d")):
            assert 0 <= float(x) <= frame.width
            assert 0 <= float(y) <= frame.height
    for text in svg.iter("text"):
        assert 0 <= float(text.get("x")) <= frame.width
        assert 0 <= float(text.get("y")) <= frame.height


def test_overruns_and_compactions_are_marked_and_said(make_run):
    """Each mark tells its turn, call, run and number when pointed at, and the worst overrun is never thinned away."""
    run = make_run(calls=200, most_tokens=12_000)
    worst = max(run.calls, key=lambda call: call.prompt_tokens)

    svg = window_chart(Replay(source="s", format="f", runs=(run,), skipped=()), WIDE)

    titles = [mark.findtext("title") for mark in svg.iter("circle")]
    assert any(f"call {worst.call}, window at 8,000: {worst.prompt_tokens:,} tokens, over" in t for t in titles)
    assert any("compaction" in path.findtext("title", "") for path in svg.iter("path"))


def test_a_budget_far_above_every_prompt_does_not_flatten_the_lines(make_run):
    """It is named at the top instead of drawn."""
    run = make_run(calls=20, budget=200_000)

    svg = window_chart(Replay(source="s", format="f", runs=(run,), skipped=()), WIDE)

    assert any("200,000 ↑" in (text.text or "") for text in svg.iter("text"))
    assert not [line for line in svg.iter("line") if line.get("class") == "budget"]


def test_the_names_of_many_runs_neither_overlap_nor_leave_the_picture(make_run):
    """Runs that end at the same height are still told apart at the right edge."""
    runs = tuple(make_run(calls=3, engine=f"engine-{n}", most_tokens=101) for n in range(12))
    runs = (*runs, make_run(calls=3, engine="tall"))

    svg = window_chart(Replay(source="s", format="f", runs=runs, skipped=()), WIDE)

    names = [text for text in svg.iter("text") if re.match(r"engine-|tall", text.text or "")]
    heights = sorted(float(text.get("y")) for text in names)
    assert len(names) == 13
    assert all(low + 12 <= high for low, high in pairwise(heights))
    assert heights[-1] <= WIDE.height - WIDE.bottom + 5


@given(calls=st.integers(1, 400), widths=st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_the_labels_of_turns_are_every_so_many_th_and_never_touch(make_run, calls, widths):
    """However uneven the turns: after the first label the numbers go up by one step, with room between them."""
    run, turns = make_run(calls=calls), [turn for turn, width in enumerate(widths, 1) for _ in range(width)]
    run = attrs.evolve(
        run, calls=tuple(attrs.evolve(call, turn=turn) for call, turn in zip(run.calls, turns, strict=False))
    )

    svg = window_chart(Replay(source="s", format="f", runs=(run,), skipped=()), WIDE)

    group = next(group for group in svg.iter("g") if group.get("class") == "turns")
    labels = [(int(text.text), float(text.get("x"))) for text in group.iter("text") if text.text.isdigit()]
    assert labels
    assert all(right - left >= 25.9 for (_, left), (_, right) in pairwise(labels))
    numbers = [number for number, _ in labels if number != 1 or len(labels) == 1]
    assert len({b - a for a, b in pairwise(numbers)}) <= 1
