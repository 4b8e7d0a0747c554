"""
Kill a process again and again, and look what is left: ``python -m tests.faults transcript``, or ``runtime``.

Exit codes: 0 every promise was kept, 1 one was broken or a change to the disk was not seen, 2 usage.
"""

import argparse
import functools
import importlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from .outcome import Run, summary, table

SUBJECTS: Final = ("runtime", "transcript")
_SOME: Final = 16


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for; the last line that is printed says what came of it."""
    arguments = _arguments(argv)
    subject = importlib.import_module(f"{__package__}.{arguments.subject}")
    seeds = range(arguments.seed, arguments.seed + arguments.runs) if arguments.only is None else [arguments.only]
    began = time.monotonic()
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="openclaw-ctx-faults-", dir=arguments.dir) as name:
        folder = Path(name)
        one = functools.partial(subject.run, folder=folder, rehearsal=subject.rehearse(folder))
        for run in _all(one, seeds, arguments.jobs):
            runs.append(run)
            if arguments.only is not None:
                _say("\n".join(run.story))
            if not run.is_good or arguments.only is not None:
                _say(str(run))
    _say(table(runs))
    _say(summary(runs, time.monotonic() - began))
    return int(not all(run.is_good for run in runs))


def _all(one: "functools.partial[Run]", seeds: Sequence[int], jobs: int) -> Iterator[Run]:
    """Yield the runs as they come to their end; each process does one at a time."""
    if jobs == 1 or len(seeds) == 1:
        yield from map(one, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(one, seeds, chunksize=_SOME)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Kill a process; see what is left.")
    parser.add_argument("subject", choices=SUBJECTS, help="what is killed")
    parser.add_argument("--runs", type=int, default=300, help="how often [default: %(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each next one has the next")
    parser.add_argument("--only", type=int, metavar="SEED", help="do this one run, and say what was done in it")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at a time")
    parser.add_argument("--dir", type=Path, help="where sessions are written [default: the system's temporary folder]")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
