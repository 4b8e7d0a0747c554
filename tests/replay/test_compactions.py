"""What people are shown of compactions, and of turns that were given up."""

import io
import json
from datetime import UTC, datetime

import attrs
import pytest
from rich.cells import cell_len

from openclaw_ctx.replay import Compaction, GivenUp, Replay, as_json, render, render_report
from openclaw_ctx.replay.compactions import HEADS, WORDS, reasons_of, rows_of

HOSTILE = "<b>\x1b[31m\u202e\n\udc80"
NOW = datetime(2026, 5, 2, 14, 3, tzinfo=UTC)

MADE = Compaction(
    turn=3, call=8, trigger="overflow", compacted=True, reason=None, measured=9_100, tokens_before=8_200,
    tokens_after=1_300, seconds=0.0123, summarised_by="acme/big", requests=3, kept=12, messages=48,
)  # fmt: skip
FAILED = attrs.evolve(
    MADE, trigger="budget", compacted=False, reason="no credit", tokens_after=None, summarised_by=None
)


def test_a_compaction_is_a_row_under_the_heads():
    """Turn, call, why with what the prompt was taken for, before, after, what is kept, how long, by whom."""
    rows = rows_of([MADE, FAILED])

    assert rows == [
        ("3", "8", "too long: 9,100", "8,200", "1,300", "25%", "12.3", "3 x acme/big"),
        ("3", "8", "over budget", "8,200", "-", "25%", "12.3", "failed: no credit"),
    ]
    assert {len(row) for row in rows} == {len(HEADS)}
    assert [HEADS[index] for index in sorted(WORDS)] == ["why", "summarised by"]


def test_many_turns_that_were_given_up_are_not_all_said():
    """The first ones are, and how many more there were."""
    turns = [GivenUp(turn=turn, kind="context_overflow", reason="too long.") for turn in range(1, 9)]

    few, many = reasons_of(turns[:2]), reasons_of(turns)

    assert few[0] == "Turn 1 was given up (context_overflow): too long."
    assert (len(few), len(many)) == (2, 6)
    assert many[-1] == "So were 3 more turns."


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_terminal_of_any_width_shows_them(make_run, terminal, width):
    """No line is wider, also where a reason is long; many are cut, unless all rows are asked for."""
    long = attrs.evolve(FAILED, reason="the summary failed its audit: " + "missing_section " * 9)
    run = attrs.evolve(make_run(calls=9), compacted=(MADE, long) * 10, model="scripted")
    replay = Replay(source="s", format="f", runs=(run,), skipped=())
    short, whole = terminal(width), terminal(width)

    render([replay], short, rows=False)
    render([replay], whole, rows=True)

    for console in (short, whole):
        shown = _shown(console.file)
        assert max(map(cell_len, shown.splitlines())) <= width
        assert "summaries scripted" in shown
    assert "8 more compactions; --rows shows all." in _shown(short.file)
    assert "shows all" not in _shown(whole.file)


def test_foreign_text_is_cleaned_wherever_it_is_shown(make_run, terminal):
    """A model's name, a reason and a trigger, in rows, JSON, the report and the verdict's lines."""
    evil = attrs.evolve(MADE, trigger=HOSTILE, summarised_by=HOSTILE)
    failed = attrs.evolve(FAILED, reason=HOSTILE)
    given_up = GivenUp(turn=1, kind=HOSTILE, reason=HOSTILE)
    run = attrs.evolve(make_run(calls=9), compacted=(evil, failed), given_up=(given_up,), model=HOSTILE)
    replay, console = Replay(source="s", format="f", runs=(run,), skipped=()), terminal(120)

    render([replay], console, rows=True)
    page = render_report([replay], generated_at=NOW)
    data = json.dumps(as_json(replay), ensure_ascii=False)

    for text in (_shown(console.file), page, data):
        assert all(line.isprintable() for line in text.split("\n"))
    assert "<b>\\x1b" not in page


def test_the_page_tells_of_compactions_at_their_marks_and_folds_them_away(make_run):
    """A run without any has none of it; a turn that was given up is marked before all else."""
    quiet = attrs.evolve(make_run(calls=9), calls=())
    run = make_run(calls=9)
    calls = tuple(attrs.evolve(call, compactions=int(call.call == 8)) for call in run.calls)
    run = attrs.evolve(run, calls=calls, compacted=(MADE,), given_up=(GivenUp(turn=2, kind="k", reason="r"),))

    page = render_report([Replay(source="s", format="f", runs=(run,), skipped=())], generated_at=NOW)
    other = render_report([Replay(source="s", format="f", runs=(quiet,), skipped=())], generated_at=NOW)

    assert "8,200 to 1,300 tokens, summarised by 3 x acme/big" in page
    assert "Every compaction" in page
    assert ">given up<" in page
    assert "Turn 2 was given up (k): r." in page
    assert "Every compaction" not in other


def _shown(file: object) -> str:
    assert isinstance(file, io.StringIO)
    return file.getvalue()
