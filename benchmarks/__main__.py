"""
Run the benchmarks of one module of this folder: ``python -m benchmarks host``.

Exit codes: 0 every target is met, 1 one is missed or could not be judged, 2 usage. ``--quick`` judges nothing: 0.
"""

import argparse
import asyncio
import importlib
import json
import pkgutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from .measure import Options, Row, allowed_cores, as_table, conditions, file_system, on_cores

ROOT = Path(__file__).resolve().parent.parent
_NOT_BENCHMARKS = frozenset(
    {
        "__main__",
        "history",
        "labelled",
        "langgraph_turns",
        "loop_gaps",
        "many_sessions",
        "measure",
        "newest",
        "other_stores",
        "own_time",
        "rag_process",
        "rag_sides",
        "recall_peers",
        "recalling",
        "sessions_on_disk",
        "turns",
        "whole_sessions",
        "window_engine",
    }
)

_WITH_ARGUMENTS = "recall"
"""Has arguments of its own: ``python -m benchmarks recall --help``."""


async def _measure(name: str, options: Options) -> list[Row]:
    module = importlib.import_module(f"{__package__}.{name}")
    rows: list[Row] = []
    async for row in module.rows(options):
        print(f"measured: {row.work}", file=sys.stderr)
        rows.append(row)
    return rows


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    names = sorted({module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])} - _NOT_BENCHMARKS)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure openclaw-ctx beside its peers.")
    parser.add_argument("name", choices=names, help="which benchmarks")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, judges nothing")
    parser.add_argument(
        "--dir", type=Path, default=ROOT.parent, help="where stores are written, on a real disk [default: %(default)s]"
    )
    parser.add_argument("--any-core", action="store_true", help="do not hold the run on one core")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == [_WITH_ARGUMENTS]:
        recall: Callable[[Sequence[str]], int] = importlib.import_module(f"{__package__}.{_WITH_ARGUMENTS}").main
        return recall(argv[1:])
    arguments = _arguments(argv)
    every = allowed_cores()
    # The last one, since interrupts like the first.
    one = [max(every)] if every and not arguments.any_core else []
    with (
        tempfile.TemporaryDirectory(prefix="openclaw-ctx-benchmarks-", dir=arguments.dir) as folder,
        on_cores(one),
    ):
        options = Options(folder=Path(folder), quick=arguments.quick, cores=every if one else ())
        facts = conditions() | {"file_system": file_system(options.folder), "quick": options.quick}
        rows = asyncio.run(_measure(arguments.name, options))
    if arguments.json:
        print(json.dumps({"conditions": facts, "rows": [row.as_json() for row in rows]}, indent=2))
    else:
        print(as_table(rows))
        print("\n" + "\n".join(f"{name}: {value}" for name, value in facts.items()))
    missed = any(row.target is not None and not row.met for row in rows)
    return int(missed and not options.quick)


if __name__ == "__main__":
    sys.exit(main())
