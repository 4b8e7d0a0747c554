"""
The replay as one HTML file that needs nothing else: no network, no script.

The page is built as an element tree and written out once, so that file names,
engine ids and reasons cannot become markup.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from xml.etree.ElementTree import Element, SubElement, tostring

import attrs

from openclaw_ctx.log import clean_text

from .chart import NARROW, WIDE, colours, is_dense, record_chart, window_chart
from .compactions import HEADS, WORDS, reasons_of, rows_of
from .figures import count, duration, share, some, sparse
from .measures import NO_CALLS, Call, Replay, Run, Turn, group_by_turn
from .style import STYLE

__all__ = ["REPORT_MARK", "render_report"]

_GENERATOR = {"name": "generator", "content": "openclaw-ctx replay"}
REPORT_MARK = f'<meta name="{_GENERATOR["name"]}" content="{_GENERATOR["content"]}">'
"""Stands in the first lines of every page, so that a later replay knows a file that it may overwrite."""

_ROWS = 12_000  # of all folded tables together: what keeps a page of 5,000 calls under 3 MB
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_COMPACTIONS = 1_000  # of one run
_SKIPPED_SHOWN = 20
_ANCHOR = "session-"
_COMPARISON = (
    *("Engine", "Budget", "Calls", "Turns"),
    *("Peak tokens", "Mean tokens", "Over budget"),
    *("Kept at the end", "Left out", "Summarised", "Compactions"),
    *("assemble ms median", "assemble ms p95", "Total s", "Answered by"),
)


@attrs.frozen
class _Cell:
    """What stands in one cell; ``kind`` is its class."""

    text: str
    kind: str = ""


def render_report(replays: Sequence[Replay], *, generated_at: datetime) -> str:
    """
    Return the page.

    Calls are listed one by one while all tables together stay within some
    thousand rows, else turn by turn; what then still has no room is said to be
    left out. ``as_json`` has every call.
    """
    page = Element("html", {"lang": "en"})
    _head(page, replays)
    body = SubElement(page, "body")
    main = SubElement(body, "main")
    rows = _ROWS // max(sum(len(replay.runs) for replay in replays), 1)
    if not replays:
        _add(main, "h1", "Nothing was replayed")
    if len(replays) > 1:
        _contents(main, replays)
    for number, replay in enumerate(replays, 1):
        _replay(main, replay, rows, f"{_ANCHOR}{number}")
    footer = SubElement(body, "footer")
    footer.text = "Made by openclaw-ctx replay, "
    _add(footer, "time", f"{generated_at:%Y-%m-%d %H:%M} {generated_at.tzname() or ''}".strip()).set(
        "datetime", generated_at.isoformat()
    )
    return f"<!DOCTYPE html>\n{tostring(page, encoding='unicode', method='html')}\n"


def _head(page: Element, replays: Sequence[Replay]) -> None:
    head = SubElement(page, "head")
    SubElement(head, "meta", {"charset": "utf-8"})
    SubElement(head, "meta", _GENERATOR)
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
    SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
    SubElement(head, "meta", {"name": "color-scheme", "content": "light dark"})
    names = ", ".join(clean_text(replay.source) for replay in replays)
    _add(head, "title", f"Replay of {names}" if names else "Replay")
    _add(head, "style", STYLE)


def _contents(main: Element, replays: Sequence[Replay]) -> None:
    """Link to each session, with a mark where a run of it is not as asked for."""
    contents = SubElement(main, "nav", {"class": "contents", "aria-label": "Sessions"})
    listed = SubElement(contents, "ol")
    for number, replay in enumerate(replays, 1):
        item = SubElement(listed, "li")
        _add(item, "a", clean_text(replay.source)).set("href", f"#{_ANCHOR}{number}")
        for mark, name, said in dict.fromkeys(_mark(run) for run in replay.runs):
            if name in {"bad", "odd"}:
                _add(item, "span", mark, f"mark {name}").set("title", said)


def _replay(main: Element, replay: Replay, rows: int, anchor: str) -> None:
    article = SubElement(main, "article", {"id": anchor})
    header = SubElement(article, "header")
    _add(header, "p", "What the model still sees", "eyebrow")
    _add(header, "h1", clean_text(replay.source))
    _add(header, "p", _about(replay), "about")
    _verdicts(header, replay)
    if any(run.calls for run in replay.runs):
        _window(article, replay)
        _records(article, replay)
        _comparison(article, replay)
        _compactions(article, replay)
        _call_tables(article, replay, rows)
    else:
        section = SubElement(article, "section")
        _add(section, "h2", "No model call")
        _add(section, "p", f"There is no window to draw, since {NO_CALLS}.", "lead")
    _skipped(article, replay)


def _about(replay: Replay) -> str:
    messages = max((run.messages for run in replay.runs), default=0)
    turns = max((run.turns for run in replay.runs), default=0)
    calls = max((len(run.calls) for run in replay.runs), default=0)
    facts = [clean_text(replay.format)]
    for number, noun in ((messages, "message"), (turns, "turn"), (calls, "model call")):
        facts.append(some(number, noun))
    facts += [f"summaries {clean_text(run.model)}" for run in replay.runs[:1] if run.model is not None]
    return " · ".join(facts)


def _verdicts(header: Element, replay: Replay) -> None:
    listed = SubElement(header, "ul", {"class": "verdicts"})
    for run, kind in zip(replay.runs, colours(replay.runs), strict=True):
        item = SubElement(listed, "li")
        SubElement(item, "span", {"class": f"key {kind}", "aria-hidden": "true"}).text = ""
        mark, name, said = _mark(run)
        _add(item, "span", mark, f"mark {name}").set("title", said)
        _add(item, "span", " ".join((run.verdict, *reasons_of(run.given_up))), "sentence")


def _mark(run: Run) -> tuple[str, str, str]:
    if run.given_up:
        return "given up", "bad", "Turns were given up: no prompt of them fits."
    if run.over_budget_calls:
        return "over budget", "bad", "Some prompts cost more than the budget."
    if run.substitution is not None or set(run.answered_by) - {run.engine}:
        return "stand-in", "odd", "Another engine than the one asked for answered."
    if not run.calls:
        return "no calls", "odd", "No model call was made."
    if run.budget is None:
        return "no budget", "plain", "The run had no budget to keep."
    return "within budget", "good", "Every prompt was within the budget."


def _window(article: Element, replay: Replay) -> None:
    section = SubElement(article, "section")
    _add(section, "h2", "The window over the turns")
    _add(section, "p", "Tokens of the prompt at every model call, from the session's first to its last.", "lead")
    figure = SubElement(section, "figure")
    figure.append(window_chart(replay, WIDE))
    figure.append(window_chart(replay, NARROW))
    caption = SubElement(figure, "figcaption", {"class": "legend"})
    runs = [run for run in replay.runs if run.calls]
    _legend(caption, "line", "prompt tokens of one run; its colour is that of its verdict above")
    if any(is_dense(run, NARROW) for run in runs):
        item = _legend(caption, "dense", "single calls, closer than pixels; the strong line is the mean of neighbours")
        if not any(is_dense(run, WIDE) for run in runs):
            item.set("class", "item phone")
    if any(run.budget is not None for run in runs):
        _legend(caption, "budget", "the budget that prompts may cost")
    if any(run.compactions for run in runs):
        _legend(caption, "compaction", "a compaction: older messages gave way to a summary")
    if any(run.over_budget_calls for run in runs):
        _legend(caption, "over", "a prompt over its budget")


def _records(article: Element, replay: Replay) -> None:
    section = SubElement(article, "section")
    _add(section, "h2", "What became of the messages")
    _add(
        section,
        "p",
        "The session so far, its oldest messages at the bottom. The band on top is what the model still read. "
        "A call comes before its reply, so the last one counts neither its reply nor what follows.",
        "lead",
    )
    caption = SubElement(section, "p", {"class": "legend"})
    _legend(caption, "kept", "kept: in the prompt, word for word")
    _legend(caption, "left-out", "left out: in the record, not in the prompt")
    _legend(caption, "summarised", "summarised: only a summary stands for them")
    grid = SubElement(section, "div", {"class": "records"})
    for run, kind in zip(replay.runs, colours(replay.runs), strict=True):
        if run.calls:
            _record(grid, run, kind)


def _record(grid: Element, run: Run, kind: str) -> None:
    figure, last = SubElement(grid, "figure"), run.calls[-1]
    caption = SubElement(figure, "figcaption")
    SubElement(caption, "span", {"class": f"key {kind}", "aria-hidden": "true"}).text = ""
    _add(caption, "b", clean_text(run.engine))
    _add(caption, "span", "no budget" if run.budget is None else count(run.budget), "of")
    _add(caption, "span", f"{count(last.kept)} of {count(last.messages)} in the last prompt", "end")
    plot = SubElement(figure, "div", {"class": "plot"})
    plot.append(record_chart(run))
    axis = SubElement(figure, "div", {"class": "ends", "aria-hidden": "true"})
    _add(axis, "span", f"turn {count(run.calls[0].turn)}")
    _add(axis, "span", f"turn {count(last.turn)}")


def _legend(parent: Element, kind: str, meaning: str) -> Element:
    item = SubElement(parent, "span", {"class": "item"})
    svg = SubElement(item, "svg", {"class": "sample", "viewBox": "0 0 24 12", "aria-hidden": "true"})
    if kind in {"line", "dense", "budget"}:
        classes = {"dense": "line dense"}.get(kind, kind)
        SubElement(svg, "line", {"class": classes, "x1": "1", "x2": "23", "y1": "6", "y2": "6"})
    elif kind == "compaction":
        SubElement(svg, "path", {"class": kind, "d": "M12,1 17,6 12,11 7,6Z"})
    elif kind == "over":
        SubElement(svg, "circle", {"class": kind, "cx": "12", "cy": "6", "r": "4"})
    else:
        SubElement(svg, "rect", {"class": kind, "x": "4", "width": "16", "height": "12", "rx": "2"})
    _add(item, "span", meaning)
    return item


def _comparison(article: Element, replay: Replay) -> None:
    section = SubElement(article, "section")
    _add(section, "h2", "Side by side")
    table = _table(section, "The runs side by side", _COMPARISON, words={0, len(_COMPARISON) - 1})
    for run, kind in zip(replay.runs, colours(replay.runs), strict=True):
        cells = [_Cell(text) for text in _figures(run)]
        if run.over_budget_calls:
            cells[3] = attrs.evolve(cells[3], kind="bad")
            cells[5] = attrs.evolve(cells[5], kind="bad")
        cells[-1] = attrs.evolve(cells[-1], kind="word odd" if set(run.answered_by) - {run.engine} else "word")
        row = SubElement(table, "tr")
        head = SubElement(row, "th", {"scope": "row"})
        SubElement(head, "span", {"class": f"key {kind}", "aria-hidden": "true"}).text = ""
        _add(head, "span", clean_text(run.engine))
        _cells(row, cells)


def _figures(run: Run) -> list[str]:
    last = run.calls[-1] if run.calls else None
    answered = [f"{clean_text(engine)} ({count(calls)})" for engine, calls in run.answered_by.items()]
    if len(answered) == 1:
        answered = [clean_text(engine) for engine in run.answered_by]
    return [
        "none" if run.budget is None else count(run.budget),
        count(len(run.calls)),
        count(run.turns),
        count(run.peak_tokens),
        count(run.mean_tokens),
        sparse(run.over_budget_calls),
        f"{count(last.kept)} ({share(last.kept, last.messages)})" if last else "-",
        count(last.left_out) if last else "-",
        count(last.summarised) if last else "-",
        sparse(run.compactions),
        duration(run.percentile("assemble", 50)),
        duration(run.percentile("assemble", 95)),
        f"{run.seconds:,.2f}",
        ", ".join(answered) or "-",
    ]


def _compactions(article: Element, replay: Replay) -> None:
    """List every compaction, folded away for each run."""
    if not any(run.compacted for run in replay.runs):
        return
    section = SubElement(article, "section")
    _add(section, "h2", "Every compaction")
    for run, kind in zip(replay.runs, colours(replay.runs), strict=True):
        if not run.compacted:
            continue
        details = _folded(section, run, kind, some(len(run.compacted), "compaction"))
        heads = [head if head == "ms" else head.capitalize() for head in HEADS]
        table = _table(details, "Every compaction of the run", heads, words=set(WORDS))
        for made, (turn, *texts) in zip(run.compacted[:_COMPACTIONS], rows_of(run.compacted), strict=False):
            row = SubElement(table, "tr", {"class": "first"})
            _add(row, "th", turn).set("scope", "row")
            cells = [_Cell(text, "word" if index in WORDS else "") for index, text in enumerate(texts, 1)]
            if not made.compacted:
                cells[-1] = attrs.evolve(cells[-1], kind="word odd")
            _cells(row, cells)


def _folded(section: Element, run: Run, kind: str, contents: str) -> Element:
    """Add what opens under the run's name; return it."""
    details = SubElement(section, "details")
    summary = SubElement(details, "summary")
    SubElement(summary, "span", {"class": f"key {kind}", "aria-hidden": "true"}).text = ""
    _add(summary, "b", clean_text(run.engine))
    _add(summary, "span", "no budget" if run.budget is None else count(run.budget), "of")
    _add(summary, "span", contents, "end")
    return details


def _call_tables(article: Element, replay: Replay, rows: int) -> None:
    section = SubElement(article, "section")
    _add(section, "h2", "Every model call")
    for run, kind in zip(replay.runs, colours(replay.runs), strict=True):
        if run.calls:
            _call_table(section, run, kind, rows)


def _call_table(section: Element, run: Run, kind: str, rows: int) -> None:
    grouped = len(run.calls) > rows
    lines: Sequence[Call | Turn] = group_by_turn(run.calls) if grouped else run.calls
    unit = "turn" if grouped else "model call"
    details = _folded(section, run, kind, some(len(lines), unit))
    if grouped:
        note = "Per turn: the largest prompt, messages after its last call, milliseconds added up."
        _add(details, "p", note + (f" The first {count(rows)} turns." if len(lines) > rows else ""), "lead")
    hooks, several = run.hooks, len(run.answered_by) > 1
    heads = ["Turn", "Calls" if grouped else "Call", "Prompt tokens", "Of budget" if run.budget else "Of peak"]
    heads += ["Kept", "Left out", "Summarised", "Compactions", *(f"{clean_text(hook)} ms" for hook in hooks)]
    if several:
        heads.append("Answered by")
    table = _table(details, f"Every {unit} of the run", heads, words={len(heads) - 1} if several else set())
    limit, turn = run.budget or run.peak_tokens, 0
    for line in lines[:rows]:
        row = SubElement(table, "tr", {"class": "first"} if line.turn != turn and not grouped else {})
        turn = line.turn
        _add(row, "th", count(line.turn)).set("scope", "row")
        _cells(row, _line(line, limit))
        _cells(row, [_Cell(duration(line.milliseconds.get(hook))) for hook in hooks])
        if several:
            _cells(row, [_Cell(clean_text(line.engine), "word")])


def _line(line: Call | Turn, limit: int) -> list[_Cell]:
    kind = "bad" if line.over_budget else ""
    return [
        _Cell(count(line.calls if isinstance(line, Turn) else line.call)),
        _Cell(count(line.prompt_tokens), kind),
        _Cell(share(line.prompt_tokens, limit), kind),
        _Cell(count(line.kept)),
        _Cell(count(line.left_out)),
        _Cell(count(line.summarised)),
        _Cell(sparse(line.compactions)),
    ]


def _skipped(article: Element, replay: Replay) -> None:
    if not replay.skipped:
        return
    section = SubElement(article, "section")
    _add(section, "h2", "Passed over")
    listed = SubElement(section, "ul", {"class": "skipped"})
    for sentence in replay.skipped[:_SKIPPED_SHOWN]:
        _add(listed, "li", clean_text(sentence))
    if (more := len(replay.skipped) - _SKIPPED_SHOWN) > 0:
        _add(listed, "li", f"and {count(more)} more")


def _table(parent: Element, title: str, heads: Sequence[str], *, words: set[int]) -> Element:
    """Start a table that scrolls sideways by itself; return its body. Columns in *words* hold no numbers."""
    scroller = SubElement(parent, "div", {"class": "scroll", "role": "region", "tabindex": "0", "aria-label": title})
    table = SubElement(scroller, "table")
    row = SubElement(SubElement(table, "thead"), "tr")
    for index, head in enumerate(heads):
        cell = _add(row, "th", head, "word" if index in words else "")
        cell.set("scope", "col")
    return SubElement(table, "tbody")


def _cells(row: Element, cells: Iterable[_Cell]) -> None:
    for cell in cells:
        _add(row, "td", cell.text, cell.kind)


def _add(parent: Element, tag: str, text: str, kind: str = "") -> Element:
    element = SubElement(parent, tag, {"class": kind} if kind else {})
    element.text = text
    return element
