"""The replay as one HTML file."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.replay.measures import Replay
from openclaw_ctx.replay.report import render_report

NOW = datetime(2026, 5, 2, 14, 3, tzinfo=UTC)
VOID = {"meta"}


class Page(HTMLParser):
    """Reads a page as a browser would: tags, their attributes, the text of cells."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.tables = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Open an element."""
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        """Close the innermost one, which must be it."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Keep what cells say."""
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data


def replay_of(*runs, source="session.jsonl", file_format="pi", skipped=()):
    """Return a replay of the runs."""
    return Replay(source=source, format=file_format, runs=runs, skipped=skipped)


@settings(deadline=None)
@given(calls=st.integers(0, 9), runs=st.integers(0, 3), replays=st.integers(0, 2))
def test_every_page_is_well_formed(make_run, calls, runs, replays):
    """Each tag is closed in its turn, for no replay, no run and no call too, and each picture is XML by itself."""
    made = [make_run(calls=calls, engine=f"e{n}") for n in range(runs)]

    text = render_report([replay_of(*made)] * replays, generated_at=NOW)

    assert not Page(text).open
    for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        ET.fromstring(svg)  # noqa: S314 -- what this very test rendered


def test_every_picture_says_what_it_shows(make_run):
    """A chart has a title and a description for those who cannot see it; legend samples are hidden from them."""
    text = render_report([replay_of(make_run(calls=9))], generated_at=NOW)

    charts = [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)]  # noqa: S314
    assert len([chart for chart in charts if chart.get("role") == "img"]) == 3
    for chart in charts:
        named = chart.findtext("title") and chart.findtext("desc")
        assert bool(named) != (chart.get("aria-hidden") == "true")


def test_the_page_needs_nothing_from_anywhere(make_run):
    """No address, script, import or font stands in it, and its policy forbids all of them."""
    text = render_report([replay_of(make_run(calls=99))], generated_at=NOW)
    page = Page(text)

    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not [a for _, given_attributes in page.tags for a in given_attributes if a in {"src", "href", "srcset"}]
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert "script-src" not in policy


@settings(deadline=None)
@given(
    evil=st.sampled_from(
        [
            "<script>alert(1)</script>",
            "</title><script>x</script>",
            '"><img src=x onerror=alert(1)>',
            "</style></svg>--><b>",
            "a\x00b\x1b[31m\u202e\ud800",
        ]
    )
)
def test_hostile_text_never_becomes_markup(make_run, evil):
    """A file name, format, engine id, hook, reason or skipped line is text wherever it is shown."""
    calm = make_run(calls=5, engine="calm", substitution="calm", hooks=("calm",))
    mixed = make_run(calls=5, engine=evil, answered_by="other", substitution=evil, hooks=(evil,))

    text = render_report(
        [replay_of(mixed, calm, source=evil, file_format=evil, skipped=(evil,))],
        generated_at=NOW,
    )

    page = Page(text)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "img", "b ", "iframe"}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert [tag for tag, _ in page.tags].count("style") == 1
    assert all(line.isprintable() for line in text.split("\n"))
    text.encode("utf-8")


def test_the_table_of_calls_shows_what_was_measured(make_run):
    """Behind the picture stand the numbers: each call, adding up to the record at that call."""
    run = make_run(calls=30)

    page = Page(render_report([replay_of(run)], generated_at=NOW))

    _, calls = page.tables
    head, *rows = calls
    assert len(rows) == 30
    for row, call in zip(rows, run.calls, strict=True):
        cell = dict(zip(head, row, strict=True))
        assert int(cell["Prompt tokens"].replace(",", "")) == call.prompt_tokens
        assert sum(int(cell[name]) for name in ("Kept", "Left out", "Summarised")) == call.messages


def test_the_comparison_has_a_row_per_run_under_its_headings(make_run):
    """No cell slips under another column's heading."""
    runs = [make_run(calls=7, engine=engine, budget=budget) for engine in "ab" for budget in (500, None)]

    page = Page(render_report([replay_of(*runs)], generated_at=NOW))

    head, *rows = page.tables[0]
    assert len(rows) == 4
    for row, run in zip(rows, runs, strict=True):
        cell = dict(zip(head, row, strict=True))
        assert cell["Engine"] == run.engine
        assert cell["Budget"] == ("none" if run.budget is None else "500")
        assert cell["Peak tokens"] == f"{run.peak_tokens:,}"
        assert cell["Answered by"] == run.engine


def test_each_verdict_is_on_the_page_with_a_word_for_it(make_run):
    """What the colours say is said in words too."""
    over = make_run(calls=9, budget=50)
    stand_in = make_run(calls=9, engine="nope", answered_by="legacy", substitution="not registered")
    good = make_run(calls=9)

    text = render_report([replay_of(over, stand_in, good)], generated_at=NOW)

    assert all(run.verdict in text for run in (over, stand_in, good))
    assert re.findall(r'class="mark [a-z]+" title="[^"]+">([^<]+)<', text) == [
        "over budget",
        "stand-in",
        "within budget",
    ]


@pytest.mark.parametrize(
    "calls_per_turn", [pytest.param(8, id="turns-of-eight-calls"), pytest.param(1, id="turns-of-one-call")]
)
def test_a_very_long_session_stays_below_three_megabytes(make_run, calls_per_turn):
    """5,000 calls in four runs are still one file that a browser opens at once."""
    runs = [
        make_run(calls=5_000, engine=engine, budget=budget, calls_per_turn=calls_per_turn, most_tokens=9_000)
        for engine in ("legacy", "window")
        for budget in (8_000, 8_500)
    ]

    text = render_report([replay_of(*runs)], generated_at=NOW)

    assert len(text.encode()) < 3_000_000
    assert "Per turn" in text


def test_a_page_of_several_sessions_opens_with_a_list_of_them(make_run):
    """Each entry leads to its session, and marks what went otherwise than asked; a single session needs none."""
    good, over = replay_of(make_run(calls=9), source="a.jsonl"), replay_of(make_run(calls=9, budget=50), source="b")

    text = render_report([good, over], generated_at=NOW)

    links = re.findall(r'<li><a href="#([^"]+)">([^<]+)</a>(.*?)</li>', text)
    assert [(name, "over budget" in mark) for _, name, mark in links] == [("a.jsonl", False), ("b", True)]
    assert re.findall(r'<article id="([^"]+)"', text) == [anchor for anchor, _, _ in links]
    assert "<nav" not in render_report([good], generated_at=NOW)


def test_a_session_without_calls_gets_a_short_section(make_run):
    """It says why, with no empty chart and no table of zeros."""
    text = render_report([replay_of(make_run(calls=0))], generated_at=NOW)

    assert "There is no window to draw, since the recording holds no reply of a model" in text
    assert "<table" not in text
    assert "<svg" not in text


def test_the_page_says_why_the_last_prompt_counts_fewer_messages(make_run):
    """The reply to the last call is of the session and in no prompt: both numbers stand there, and why they differ."""
    text = render_report([replay_of(make_run(calls=9))], generated_at=NOW)

    assert "of 18 in the last prompt" in text
    assert "the last one counts neither its reply nor what follows" in text


def test_the_page_says_when_it_was_made(make_run):
    """The moment is the caller's, so the same replay makes the same page."""
    replays = [replay_of(make_run(calls=3))]

    text = render_report(replays, generated_at=NOW)

    assert '<time datetime="2026-05-02T14:03:00+00:00">2026-05-02 14:03 UTC</time>' in text
    assert text == render_report(replays, generated_at=NOW)
