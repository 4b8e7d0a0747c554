"""
Kill a process that writes sessions, anywhere, and see whether all that it acknowledged is there.

Each run has a seed, which decides what is done, where it is cut off, and how.
One in eight is killed by its parent at a moment that nobody chose; the others
kill themselves before, in the middle of or after a call that changes the disk.
"""

import contextlib
import functools
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from .judge import judge, replayed, take
from .model import World
from .outcome import Problems, Run
from .player import Player
from .points import Aim
from .process import Ended, Teller, run_in_child
from .seen import look
from .workload import KINDS, Operation, draw, plan

__all__ = ["Rehearsal", "rehearse", "run"]

_BY_PARENT: Final = 8  # one run in so many
_AT_CALLS: Final = 0.9  # of the other runs, where there are calls; the rest end when the operation is about to return
_REHEARSALS: Final = 2 * len(KINDS)


@attrs.frozen(kw_only=True)
class Rehearsal:
    """
    What runs that nobody kills were like.

    Attributes:
        points: How many calls change the disk in each operation, by its kind.
        seconds: What an operation takes.
    """

    points: Mapping[str, Sequence[int]]
    seconds: float


def rehearse(folder: Path) -> Rehearsal:
    """
    Return what runs are like; the same at every time but for the seconds.

    Raises:
        AssertionError: One did not come to its end.
    """
    points: dict[str, list[int]] = {}
    operations, seconds = 0, 0.0
    for seed in range(_REHEARSALS):
        script, _ = draw(seed, KINDS[seed % len(KINDS)])
        with _folder_of(folder, seed) as own:
            began = time.monotonic()
            ended = run_in_child(functools.partial(_play, own, script))
            seconds += time.monotonic() - began
        assert ended.fault is None, f"rehearsal {seed}: {ended.fault}"
        for word in _done(ended):
            points.setdefault(word["kind"], []).append(word["points"])
        operations += len(script)
    return Rehearsal(points=points, seconds=seconds / operations)


def run(seed: int, folder: Path, rehearsal: Rehearsal) -> Run:
    """Do the run of this seed in *folder*, kill it, and look."""
    chosen = random.Random(f"run {seed}")  # noqa: S311 -- to be drawn again
    kind = KINDS[seed % len(KINDS)]
    script, place = draw(seed, kind)
    aim, kill_after = None, None
    if chosen.randrange(_BY_PARENT):
        points = chosen.choice(rehearsal.points[kind])
        point = chosen.randrange(points) if points and chosen.random() < _AT_CALLS else points
        aim = Aim(operation=place, point=point, seed=chosen.getrandbits(32))
    else:
        kill_after = chosen.random() * rehearsal.seconds * len(script)
    problems = Problems()
    with _folder_of(folder, seed) as own:
        ended = run_in_child(functools.partial(_play, own, script), aim=aim, kill_after_seconds=kill_after)
        if ended.fault is not None:
            problems.refused.append(f"before it was killed: {ended.fault}")
        world, step, story = replayed(script, ended.told, problems)
        if not problems.all():
            judge(own, world, step, problems)
        leftovers = dict(look(own).leftovers)
    last = ended.told[-1] if ended.told else {}
    return Run(
        seed=seed,
        killed=ended.killed,
        operation=step.kind if step is not None else "between",
        call=last.get("call", "any"),
        when=last.get("when", "any"),
        problems=problems,
        leftovers=leftovers,
        unseen=[unseen for word in _done(ended) for unseen in word["unseen"]],
        story=story,
    )


def _play(folder: Path, script: Sequence[Operation], teller: Teller) -> None:
    """Do the operations, one after the other, and tell before and after each."""
    world, problems = World(), Problems()
    player = Player(folder, world)
    for number, operation in enumerate(script):
        step = plan(world, operation, number)
        teller.begin(number)
        facts = player.perform(step)
        teller.done(kind=step.kind, **facts)
        take(world, step, facts, problems)


def _done(ended: Ended) -> list[dict[str, Any]]:
    return [word for word in ended.told if word["what"] == "done"]


@contextlib.contextmanager
def _folder_of(folder: Path, seed: int) -> Iterator[Path]:
    """Make a folder for the sessions of one run, and remove it."""
    own = folder / f"run-{seed}"
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
