"""The replay in a terminal."""

import re

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from openclaw_ctx.replay.measures import Replay
from openclaw_ctx.replay.table import render

HOOKS = ("bootstrap", "ingest", "assemble", "compact", "after_turn", "maintain")


def replay_of(*runs, source="session.jsonl", skipped=()):
    """Return a replay of the runs."""
    return Replay(source=source, format="pi", runs=runs, skipped=skipped)


def shown(terminal, replays, *, width=80, rows=False, colour=False):
    """Return what is printed."""
    console = terminal(width, colour=colour)
    render(replays, console, rows=rows)
    return console.file.getvalue()


@settings(deadline=None)
@given(
    calls=st.integers(0, 9),
    runs=st.integers(1, 5),
    rows=st.booleans(),
    hooks=st.integers(0, 6),
    tokens=st.sampled_from([200, 999_999]),
)
def test_nothing_is_wider_than_eighty_columns(terminal, make_run, calls, runs, rows, hooks, tokens):
    """Whatever is shown, a terminal of 80 columns holds it without a broken line or a cut number."""
    made = [
        make_run(calls=calls, engine=f"engine-{n}", budget=8_000 * n, hooks=HOOKS[:hooks], most_tokens=tokens)
        for n in range(1, runs + 1)
    ]

    text = shown(terminal, [replay_of(*made)], rows=rows)

    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "…" not in text


@settings(deadline=None)
@given(
    width=st.sampled_from([30, 39, 45, 50, 52, 60, 70]),
    calls=st.sampled_from([1, 9, 90]),
    rows=st.booleans(),
    hooks=st.integers(0, 6),
    budget=st.sampled_from([1, 8_000, None]),
)
def test_a_narrow_terminal_gets_fewer_columns_not_shreds(terminal, make_run, width, calls, rows, hooks, budget):
    """Down to 30 columns no number and no heading is cut or broken: bar and columns go first."""
    run = make_run(calls=calls, budget=budget, hooks=HOOKS[:hooks])

    text = shown(terminal, [replay_of(run, source="s")], width=width, rows=rows)

    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    table = [line for line in text.splitlines() if re.match(r" *\d+ ", line)]
    assert len([line for line in table if re.fullmatch(r"[ \d,.%<>█▏▎▍▌▋▊▉-]+", line)]) >= min(calls, 3)
    assert "kept" in text
    assert "prompt" in text


def test_a_bar_gives_way_to_columns_at_sixty(terminal, make_run):
    """At 60 columns there are all figures of a call and no bar; at 80 the bar is back."""
    replay = replay_of(make_run(calls=9))

    narrow, wide = shown(terminal, [replay], width=60), shown(terminal, [replay], width=80)

    assert "█" not in narrow
    assert "█" in wide
    assert "compac-" in narrow


def test_a_long_name_of_a_file_leaves_the_rest_of_the_title(terminal, make_run):
    """The middle of the name goes; both its ends, the format and the number of messages stay."""
    (title, *_) = shown(terminal, [replay_of(make_run(calls=1), source=f"2026-{'x' * 99}静默-end.jsonl")]).splitlines()

    assert re.fullmatch(r"2026-x+…x+静默-end\.jsonl  pi, 2 messages ─*", title)
    assert cell_len(title) <= 80


def test_one_message_is_not_many(terminal, make_run):
    """The title counts in the singular too."""
    run = attrs.evolve(make_run(calls=0), messages=1)

    assert "pi, 1 message ─" in shown(terminal, [replay_of(run)])


def test_a_budget_that_every_prompt_exceeds_does_not_widen_the_table(terminal, make_run):
    """More than 999% is written as that, with a space before it."""
    text = shown(terminal, [replay_of(make_run(calls=9, budget=1))])

    assert " >999%" in text


@pytest.mark.parametrize("width", [pytest.param(80, id="narrow"), pytest.param(200, id="wide")])
def test_several_runs_stand_side_by_side(terminal, make_run, width):
    """One row per engine and budget, with what each came to, at any width."""
    runs = [make_run(calls=300, engine=engine, budget=budget) for engine in ("legacy", "window") for budget in (8, 9)]

    text = shown(terminal, [replay_of(*runs)], width=width)

    for run in runs:
        rows = [line for line in text.splitlines() if re.match(rf"{run.engine} +{run.budget} ", line)]
        figures = " ".join(rows).split()
        last = run.calls[-1]
        for figure in (run.peak_tokens, last.left_out, last.summarised, run.compactions):
            assert f"{figure:,}" in figures


def test_each_call_of_a_short_run_has_a_row_that_adds_up(terminal, make_run):
    """Kept, left out and summarised are all messages of the record at that call."""
    run = make_run(calls=9, calls_per_turn=1, hooks=())

    text = shown(terminal, [replay_of(run)])

    rows = [re.sub(r"[█▏▎▍▌▋▊▉,]", "", line).split() for line in text.splitlines() if re.match(r" +\d", line)]
    assert [int(row[1]) for row in rows] == list(range(1, 10))
    for row, call in zip(rows, run.calls, strict=True):
        assert int(row[4]) + int(row[5]) + int(row[6]) == 2 * int(row[1]) == call.messages


def test_a_long_run_is_shown_by_turn_unless_rows_are_asked_for(terminal, make_run):
    """Hundreds of calls are grouped, and can still be had one by one."""
    replay = replay_of(make_run(calls=400, calls_per_turn=40))

    grouped, single = shown(terminal, [replay]), shown(terminal, [replay], rows=True)

    assert "Per turn" in grouped
    assert len(grouped.splitlines()) < 30
    assert "Per turn" not in single
    assert len(single.splitlines()) > 400


def test_the_rows_of_several_runs_say_whose_they_are(terminal, make_run):
    """Each table of calls stands under its engine and budget."""
    runs = [make_run(calls=2, engine=engine) for engine in ("legacy", "window")]

    lines = [line.rstrip() for line in shown(terminal, [replay_of(*runs)], rows=True).splitlines()]

    assert {"legacy at 8,000", "window at 8,000"} <= set(lines)


def test_hooks_without_room_are_added_up(terminal, make_run):
    """At 80 columns assemble stays, and the time of the hooks that are not shown is in "other"."""
    run = make_run(calls=1, hooks=HOOKS)

    narrow, wide = shown(terminal, [replay_of(run)]), shown(terminal, [replay_of(run)], width=200)

    row = next(line for line in narrow.splitlines() if re.match(r" +1 ", line)).split()
    times = run.calls[0].milliseconds
    assert "assemble" in narrow
    assert "other" in narrow
    assert float(row[-2]) + float(row[-1]) == pytest.approx(sum(times.values()), abs=0.2)
    assert all(hook in wide for hook in HOOKS)
    assert "other" not in wide


def test_the_verdicts_end_the_output(terminal, make_run):
    """The last thing read is what it came to, and what was passed over."""
    run = make_run(calls=3)

    text = shown(terminal, [replay_of(run, skipped=tuple(f"line {n}" for n in range(8)))], width=300)

    tail = text.rstrip().splitlines()
    assert tail[-7] == run.verdict
    assert tail[-1] == "Skipped: 3 more."


def test_a_session_without_calls_has_its_verdict_and_no_table(terminal, make_run):
    """Nothing to show is said in one sentence."""
    text = shown(terminal, [replay_of(make_run(calls=0))], rows=True)

    assert "no model calls" in text
    assert "kept" not in text


def test_hostile_text_prints_no_control_character_and_no_markup(terminal, make_run):
    """An engine id or file name can neither move the cursor nor style the terminal."""
    evil = "\x1b[2J[bold red]x[/]\r\u202e"
    run = make_run(calls=2, engine=evil, substitution=evil, hooks=(evil,))

    text = shown(terminal, [replay_of(run, run, source=evil, skipped=(evil,))], width=400, rows=True)

    assert all(line.isprintable() for line in text.split("\n"))
    assert "[bold red]x[/]" in text


def test_a_call_over_the_budget_stands_out_in_colour_and_without(terminal, make_run):
    """Red where the terminal has colours, more than 100% where it has none."""
    run = make_run(calls=1)
    run = attrs.evolve(run, calls=(attrs.evolve(run.calls[0], prompt_tokens=9_600),))

    plain, coloured = shown(terminal, [replay_of(run)]), shown(terminal, [replay_of(run)], colour=True)

    assert "120%" in plain
    assert "\x1b" not in plain
    assert re.search(r"\x1b\[1;31m *9,600", coloured)


def test_a_terminal_without_unicode_gets_plain_bars(terminal, make_run):
    """A pipe in ASCII or Latin-1 breaks on no block character."""
    console = terminal(80, encoding="ascii")
    run = make_run(calls=3)

    render([replay_of(run)], console, rows=True)
    console.file.flush()

    assert b"#" in console.file.buffer.getvalue()
