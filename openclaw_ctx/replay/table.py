"""The replay in a terminal: runs side by side, and one row per model call or turn."""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Generic, TypeAlias, TypeVar

import attrs
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from openclaw_ctx.log import clean_text

from .compactions import HEADS, WORDS, reasons_of, rows_of
from .figures import count, duration, share, some, sparse
from .measures import Call, Replay, Run, Turn, group_by_turn, label

__all__ = ["render"]

_MANY_CALLS = 60
_SKIPPED_SHOWN = 5
_COMPACTIONS_SHOWN = 12
_BARS = (8, 4, 0)  # widths of the bar, of which the widest is taken that leaves room
_NOT_NEEDED = ("compac-\ntions", "summa-\nrised", "left\nout", "of budget", "of peak", "kept")  # go in this order
_ADDED_UP = ("other", "hooks")  # heads of the column for hooks that have none: some of them, all of them
_RULE_END = 2  # of the line behind a title
_ENGINE_WIDTH = 18
_GAP = 2  # between columns
_SHARE = 6  # of ">999%" and a space
_ALARM = "bold red"

_Line: TypeAlias = Call | Turn
_Row = TypeVar("_Row")


@attrs.frozen(kw_only=True)
class _Column(Generic[_Row]):
    """One column of a table; ``style`` says how a row's cell looks."""

    head: str
    cell: Callable[[_Row], str]
    style: Callable[[_Row], str] = lambda _row: ""
    numeric: bool = True

    def width(self, rows: Sequence[_Row]) -> int:
        """Return the cells that the column needs, the gap behind it among them."""
        return max(cell_len(text) for text in (*self.head.split("\n"), *map(self.cell, rows))) + _GAP


def render(replays: Sequence[Replay], console: Console, *, rows: bool) -> None:
    """
    Print every replay: its runs compared, its model calls, its compactions, its verdicts.

    A single run shows its calls, per turn where they are many; several runs show
    them only if *rows* asks, and then never grouped. Tables are made for the
    console's width: the comparison breaks into several, hooks that have no
    room are added up as "other", and then the bar goes, and columns after it.
    """
    for replay in replays:
        _title(replay, console)
        if len(replay.runs) > 1:
            _compare(replay.runs, console)
        if rows or len(replay.runs) == 1:
            for run in replay.runs:
                _calls(run, console, grouped=not rows and len(run.calls) > _MANY_CALLS, named=len(replay.runs) > 1)
                _compactions(run, console, most=len(run.compacted) if rows else _COMPACTIONS_SHOWN)
        _verdicts(replay, console)


def _title(replay: Replay, console: Console) -> None:
    messages = max((run.messages for run in replay.runs), default=0)
    by = next((f", summaries {clean_text(run.model)}" for run in replay.runs if run.model is not None), "")
    about = f"  {clean_text(replay.format)}, {some(messages, 'message')}{by}"
    name = _shorten(clean_text(replay.source), console.width - cell_len(about) - _RULE_END)
    console.print(Rule(Text(f"{name}{about}", overflow="ellipsis", no_wrap=True), align="left", style="dim"))


def _shorten(name: str, cells: int) -> str:
    """Return *name* within so many cells, without its middle: both ends of a file's name tell."""
    if cell_len(name) <= cells:
        return name
    half, rest = divmod(max(cells, 3) - 1, 2)
    return f"{set_cell_size(name, half + rest)}…{set_cell_size(name[::-1], half)[::-1]}"


def _compare(runs: Sequence[Run], console: Console) -> None:
    keys, figures = _key_columns(), _figure_columns()
    while figures:
        part, room = list(keys), console.width - sum(key.width(runs) for key in keys)
        while figures and (len(part) == len(keys) or figures[0].width(runs) - _GAP <= room):
            room -= figures[0].width(runs)
            part.append(figures.pop(0))
        _print(part, [runs], console)


def _key_columns() -> list[_Column[Run]]:
    return [
        _Column(head="engine", cell=lambda run: _short(run.engine), numeric=False),
        _Column(head="budget", cell=lambda run: "none" if run.budget is None else count(run.budget)),
    ]


def _figure_columns() -> list[_Column[Run]]:
    def at_the_end(figure: Callable[[Call], str]) -> Callable[[Run], str]:
        return lambda run: figure(run.calls[-1]) if run.calls else "-"

    def alarming(run: Run) -> str:
        return _ALARM if run.over_budget_calls else ""

    return [
        _Column(head="calls", cell=lambda run: count(len(run.calls))),
        _Column(head="turns", cell=lambda run: count(run.turns)),
        _Column(head="peak\ntokens", cell=lambda run: count(run.peak_tokens), style=alarming),
        _Column(head="mean\ntokens", cell=lambda run: count(run.mean_tokens)),
        _Column(head="over\nbudget", cell=lambda run: sparse(run.over_budget_calls), style=alarming),
        _Column(head="kept at\nthe end", cell=at_the_end(lambda call: share(call.kept, call.messages))),
        _Column(head="left\nout", cell=at_the_end(lambda call: count(call.left_out))),
        _Column(head="summa-\nrised", cell=at_the_end(lambda call: count(call.summarised))),
        _Column(head="compac-\ntions", cell=lambda run: sparse(run.compactions)),
        _Column(head="assemble\nmedian ms", cell=lambda run: duration(run.percentile("assemble", 50))),
        _Column(head="assemble\np95 ms", cell=lambda run: duration(run.percentile("assemble", 95))),
        _Column(head="total s", cell=lambda run: f"{run.seconds:,.2f}"),
        _Column(
            head="answered by",
            cell=_answered_by,
            style=lambda run: "yellow" if set(run.answered_by) - {run.engine} else "",
            numeric=False,
        ),
    ]


def _calls(run: Run, console: Console, *, grouped: bool, named: bool) -> None:
    if not run.calls:
        return
    lines: Sequence[_Line] = group_by_turn(run.calls) if grouped else run.calls
    plain = console.options.ascii_only
    columns, hooks = _fit(run, lines, console.width, plain=plain)
    if named:
        console.print(Text(label(run), "bold"))
    if grouped:
        console.print(Text("Per turn: the largest prompt, messages after its last call, milliseconds added up.", "dim"))
    turns = [list(turn) for _, turn in groupby(lines, key=lambda line: line.turn)]
    _print([*columns, *hooks], [lines] if grouped else turns, console)


def _compactions(run: Run, console: Console, *, most: int) -> None:
    rows = rows_of(run.compacted[:most])
    if not rows:
        return
    columns = [
        _Column[tuple[str, ...]](
            head=head.replace(" ", "\n") if index not in WORDS else head,
            cell=itemgetter(index),
            numeric=index not in WORDS,
        )
        for index, head in enumerate(HEADS)
    ]
    _print(columns, [rows], console)
    if (more := len(run.compacted) - most) > 0:
        console.print(Text(f"{some(more, 'more compaction')}; --rows shows all.", "dim"), "")


def _fit(
    run: Run, lines: Sequence[_Line], width: int, *, plain: bool
) -> tuple[list[_Column[_Line]], list[_Column[_Line]]]:
    """Return the columns that *width* has room for: of the call, and of its hooks."""
    columns: list[_Column[_Line]] = []
    room = 0
    for bar in _BARS:
        columns = _line_columns(run, lines, bar=bar, plain=plain)
        room = _room(columns, lines, width)
        hooks = _hook_columns(run, lines, room)
        added_up = any(column.head.startswith(_ADDED_UP) for column in hooks)
        # The wide bar gives way to a hook, the short one only to columns that have no room else.
        if _width(hooks, lines) <= room and not (added_up and bar == _BARS[0]):
            return columns, hooks
    for head in _NOT_NEEDED:
        if room >= 0:
            break
        columns = [column for column in columns if column.head != head]
        room = _room(columns, lines, width)
    return columns, []


def _room(columns: Sequence[_Column[_Line]], lines: Sequence[_Line], width: int) -> int:
    """Return the cells that are left for more columns, their gaps among them; negative where there are too many."""
    return width - _width(columns, lines) + _GAP


def _width(columns: Sequence[_Column[_Line]], lines: Sequence[_Line]) -> int:
    return sum(column.width(lines) for column in columns)


def _line_columns(run: Run, lines: Sequence[_Line], *, bar: int, plain: bool) -> list[_Column[_Line]]:
    limit = run.budget or run.peak_tokens
    opening = {id(next(turn)) for _, turn in groupby(lines, key=lambda line: line.turn)}

    def portion(line: _Line) -> str:
        part = share(line.prompt_tokens, limit)
        return f"{_bar(line.prompt_tokens, limit, bar, plain=plain)}{part:>{_SHARE}}" if bar else part

    def tokens_style(line: _Line) -> str:
        return _ALARM if line.over_budget else ""

    columns: list[_Column[_Line]] = [
        _Column(head="turn", cell=lambda line: count(line.turn) if id(line) in opening else "", style=lambda _: "dim"),
        _Column(
            head="calls" if isinstance(lines[0], Turn) else "call",
            cell=lambda line: count(line.calls if isinstance(line, Turn) else line.call),
        ),
        _Column(head="prompt\ntokens", cell=lambda line: count(line.prompt_tokens), style=tokens_style),
        _Column(
            head="of budget" if run.budget else "of peak",
            cell=portion,
            style=lambda line: tokens_style(line) or "cyan",
            numeric=not bar,
        ),
        _Column(head="kept", cell=lambda line: count(line.kept)),
        _Column(head="left\nout", cell=lambda line: count(line.left_out)),
        _Column(head="summa-\nrised", cell=lambda line: count(line.summarised)),
        _Column(head="compac-\ntions", cell=lambda line: sparse(line.compactions)),
    ]
    if len(run.answered_by) > 1:
        columns.append(_Column(head="by", cell=lambda line: _short(line.engine), numeric=False))
    return columns


def _hook_columns(run: Run, lines: Sequence[_Line], room: int) -> list[_Column[_Line]]:
    """Return a column per hook, or those of ``assemble`` and the costly ones and the others in one."""
    columns = {hook: _hook_column(clean_text(hook), [hook]) for hook in run.hooks}
    widths = {hook: column.width(lines) for hook, column in columns.items()}
    if sum(widths.values()) <= room:
        return list(columns.values())
    cost = {hook: sum(line.milliseconds.get(hook, 0.0) for line in lines) for hook in run.hooks}
    room -= _hook_column(_ADDED_UP[0], run.hooks).width(lines)
    shown = set()
    for hook in sorted(run.hooks, key=lambda hook: (hook != "assemble", -cost[hook])):
        if widths[hook] <= room:
            shown.add(hook)
            room -= widths[hook]
    rest = [hook for hook in run.hooks if hook not in shown]
    return [*(columns[hook] for hook in run.hooks if hook in shown), _hook_column(_ADDED_UP[0 if shown else 1], rest)]


def _hook_column(head: str, hooks: Sequence[str]) -> _Column[_Line]:
    def taken(line: _Line) -> str:
        times = [line.milliseconds[hook] for hook in hooks if hook in line.milliseconds]
        return duration(sum(times) if times else None)

    return _Column(head=f"{head}\nms", cell=taken)


def _bar(tokens: int, limit: int, width: int, *, plain: bool) -> str:
    full, rest = divmod(round(min(tokens / max(limit, 1), 1.0) * width * 8), 8)
    if plain:
        return ("#" * full).ljust(width)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)


def _verdicts(replay: Replay, console: Console) -> None:
    for run in replay.runs:
        strange = run.substitution is not None or not run.calls
        bad = run.over_budget_calls or run.given_up
        console.print(Text(run.verdict, "red" if bad else "yellow" if strange or run.failed_compactions else "green"))
        for sentence in reasons_of(run.given_up):
            console.print(Text(sentence, "red"))
    for sentence in replay.skipped[:_SKIPPED_SHOWN]:
        console.print(Text(f"Skipped: {clean_text(sentence)}", "dim"))
    if (more := len(replay.skipped) - _SKIPPED_SHOWN) > 0:
        console.print(Text(f"Skipped: {count(more)} more.", "dim"))
    console.print()


def _print(columns: Sequence[_Column[_Row]], sections: Sequence[Sequence[_Row]], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            Text(column.head),
            justify="right" if column.numeric else "left",
            overflow="ellipsis" if column.numeric else "fold",
            no_wrap=column.numeric,
            vertical="bottom",
        )
    for section in sections:
        for row in section:
            table.add_row(*(Text(column.cell(row), column.style(row)) for column in columns))
        table.add_section()
    console.print(table, "")


def _answered_by(run: Run) -> str:
    answered = run.answered_by
    if len(answered) == 1:
        return _short(next(iter(answered)))
    return ", ".join(f"{_short(engine)} {count(calls)}" for engine, calls in answered.items()) or "-"


def _short(engine: str) -> str:
    text = clean_text(engine)
    return text if len(text) <= _ENGINE_WIDTH else f"{text[: _ENGINE_WIDTH - 1]}…"
