"""
How much of what answers a question is in the prompt: ``python -m benchmarks recall --data locomo10.json``.

Every turn of a conversation is a message of a session; then each question is the
incoming prompt. Recall is the share of the labelled turns that are in the prompt
whole, in the mean over questions.

Exit codes: 0 measured, 1 an engine could not be, or gave a prompt over its budget, 2 usage.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from openclaw_ctx.log import clean_text

from .labelled import Conversation, Question, read_labelled
from .measure import conditions
from .recall_peers import AURA, AURA_RANKING, BM25, LLAMAINDEX
from .recalling import Ask, HostedEngine, Method, NotMeasuredError

__all__ = ["main"]

BUDGETS = (1_000, 2_000, 4_000, 8_000)
_DEFAULT_SHARE = 0.5
_ALL = "all"
_EXAMPLE = """\
example:
  python -m benchmarks recall --data locomo10.json --engine rag --engine bm25 --budgets 1000,4000

LoCoMo's conversations are published at https://github.com/snap-research/locomo (data/locomo10.json), under
CC BY-NC 4.0, and are not part of this repository. LongMemEval's form is read too: https://github.com/xiaowu0162/LongMemEval.

exit codes: 0 measured, 1 an engine could not be measured or gave a prompt over its budget, 2 usage
"""


@attrs.frozen(kw_only=True)
class RecallRow:
    """One engine, budget and category. ``over_budget``: the share of prompts that cost more than was allowed."""

    engine: str
    budget: int
    category: str
    questions: int
    recall: float | None
    over_budget: float | None = None
    note: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    methods = [method for name in arguments.engine or _NAMES for method in _methods(name, arguments.recent_share)]
    asked = sum(len(it.questions) for it in arguments.data)
    rows: list[RecallRow] = []
    with _progress(len(methods) * asked) as (told, step):
        for method in methods:
            told(method.name)
            rows += asyncio.run(_measured(method, arguments.data, arguments.budgets, step))
    if arguments.json:
        facts = conditions() | {"conversations": len(arguments.data), "questions": asked}
        print(json.dumps({"conditions": facts, "rows": [attrs.asdict(row) for row in rows]}, indent=2))
    else:
        print(_as_table(rows, arguments.budgets))
    bounded = {method.name for method in methods if method.bounded}
    named = {method.name for name in arguments.engine or () for method in _methods(name, arguments.recent_share)}
    return int(
        any(row.over_budget for row in rows if row.engine in bounded)
        or any(row.recall is None for row in rows if row.engine in bounded | named)
    )


# -- what is measured -----------------------------------------------------------------------------

_PEERS = {"bm25": [BM25], "llamaindex": [LLAMAINDEX], "aura": [AURA, AURA_RANKING]}
_NAMES = ("rag", "window", "legacy", *_PEERS)


def _methods(name: str, share: float) -> list[Method]:
    if name in _PEERS:
        return _PEERS[name]
    if name == "rag":
        return _of_rag(share)
    if name == "window":
        return [_hosted("window", note="the newest turns")]
    if name == "legacy":
        return [attrs.evolve(_hosted("legacy", note="sends everything, whatever the budget"), bounded=False)]
    return [_hosted(name)]


def _of_rag(share: float) -> list[Method]:
    at = "" if share == 0 else f", recent {share:g}"
    usual = {"embedder": "local"}
    methods = [
        _hosted("rag", f"rag{at}", {"recent_share": share, "embedder": "local"}, "words and the local model"),
        _hosted("rag", f"rag (words alone{at})", {"recent_share": share, "embedder": "none"}),
    ]
    if share != _DEFAULT_SHARE:
        methods.append(_hosted("rag", f"rag (recent {_DEFAULT_SHARE:g})", usual, "the default share of newest turns"))
    return methods


def _hosted(engine_id: str, name: str | None = None, config: dict[str, Any] | None = None, note: str = "") -> Method:
    engine = HostedEngine(engine_id=engine_id, config=config or {})
    return Method(name=name or engine_id, meet=engine.meet, note=note, bounded=True)


# -- measuring ------------------------------------------------------------------------------------


async def _measured(
    method: Method, conversations: Sequence[Conversation], budgets: Sequence[int], step: Callable[[], None]
) -> list[RecallRow]:
    tries: list[tuple[str, int, float, bool]] = []
    for conversation in conversations:
        with tempfile.TemporaryDirectory(prefix="openclaw-ctx-recall-") as folder:
            try:
                async with method.meet(conversation, Path(folder)) as ask:
                    for question in conversation.questions:
                        tries += [await _tried(ask, question, budget) for budget in budgets]
                        step()
            except NotMeasuredError as error:
                note = clean_text(str(error))
                return [
                    RecallRow(engine=method.name, budget=budget, category=_ALL, questions=0, recall=None, note=note)
                    for budget in budgets
                ]
    categories = [_ALL, *sorted({category for category, *_ in tries})]
    return [
        _row(method, budget, category, [it for it in tries if it[1] == budget and category in (_ALL, it[0])])
        for category in categories
        for budget in budgets
    ]


async def _tried(ask: Ask, question: Question, budget: int) -> tuple[str, int, float, bool]:
    found = await ask(question, budget)
    share = len(question.evidence & found.turns) / len(question.evidence)
    return question.category, budget, share, found.tokens > budget


def _row(method: Method, budget: int, category: str, tries: Sequence[tuple[str, int, float, bool]]) -> RecallRow:
    return RecallRow(
        engine=method.name,
        budget=budget,
        category=category,
        questions=len(tries),
        recall=statistics.fmean(share for _, _, share, _ in tries),
        over_budget=statistics.fmean(over for _, _, _, over in tries),
        note=method.note,
    )


# -- what is read and shown -----------------------------------------------------------------------


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks recall",
        description="Measure how much of what answers a question is in the prompt, beside baselines and peers.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=_data, required=True, metavar="FILE", help="labelled conversations; see below")
    parser.add_argument(
        "--engine",
        action="append",
        metavar="ID",
        help=f"may be repeated: {', '.join(_NAMES)}, or an installed engine [default: these]",
    )
    parser.add_argument("--budgets", type=_budgets, default=BUDGETS, help="tokens, such as 1000,4000 [default: all]")
    parser.add_argument(
        "--recent-share", type=_share, default=0.0, metavar="X", help="rag's share of newest turns [default: 0]"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(argv)


def _data(name: str) -> list[Conversation]:
    try:
        return read_labelled(Path(name))
    except (OSError, ValueError) as error:
        problem = f"{clean_text(name)}: {clean_text(str(error))}"
        raise argparse.ArgumentTypeError(problem) from error


def _budgets(text: str) -> tuple[int, ...]:
    budgets = tuple(int(it) for it in text.split(","))
    if min(budgets) < 1:
        raise ValueError
    return budgets


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise ValueError
    return share


@contextlib.contextmanager
def _progress(total: int) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """Show on stderr how far it is, only where that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None, lambda: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, description=clean_text(name)), lambda: bar.advance(task)


def _as_table(rows: Sequence[RecallRow], budgets: Sequence[int]) -> str:
    heads = ("ENGINE", "CATEGORY", "QUESTIONS", *(f"{budget:,}" for budget in budgets), "OVER BUDGET")
    cells, notes = [heads], [""]
    groups: dict[tuple[str, str], list[RecallRow]] = {}
    for row in rows:
        groups.setdefault((row.engine, row.category), []).append(row)
    for (engine, category), group in groups.items():
        over = [row.over_budget for row in group if row.over_budget is not None]
        cells.append(
            (
                engine if category == _ALL else "",
                category,
                str(group[0].questions),
                *(_percent(row.recall) for row in group),
                _percent(statistics.fmean(over) if over else None),
            )
        )
        notes.append(group[0].note if category == _ALL else "")
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    lines = []
    for row, note in zip(cells, notes, strict=True):
        texts = [f"{t:<{w}}" if i < 2 else f"{t:>{w}}" for i, (t, w) in enumerate(zip(row, widths, strict=True))]  # noqa: PLR2004 -- two columns of text
        lines += ["  ".join(texts).rstrip(), *([f"    {note}"] if note else [])]
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"
