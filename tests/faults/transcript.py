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
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from .judge import judge, replayed, settled, take
from .model import Step, World
from .outcome import Cut, Problems, Run
from .player import Player
from .points import Aim
from .process import Ended, Teller, run_in_child
from .seen import look
from .workload import KINDS, Operation, draw, draw_on, plan

__all__ = ["Rehearsal", "rehearse", "run"]

_BY_PARENT: Final = 8  # one run in so many
_AT_CALLS: Final = 0.9  # of the other runs, where there are calls; the rest end when the operation is about to return
_TWICE: Final = 0.4  # of the runs
_LATER: Final = 100  # the number of the second process's first operation
_MENDING_POINTS: Final = 6  # below which call of its operation the second process ends, where it has to mend a file
_NEXT_POINTS: Final = (1, 2, 6, 9)  # and where not, one of these
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
            ended = run_in_child(functools.partial(_play, own, World(), dict(enumerate(script))))
            seconds += time.monotonic() - began
        assert ended.fault is None, f"rehearsal {seed}: {ended.fault}"
        for word in _done(ended):
            points.setdefault(word["kind"], []).append(word["points"])
        operations += len(script)
    return Rehearsal(points=points, seconds=seconds / operations)


def run(seed: int, folder: Path, rehearsal: Rehearsal) -> Run:
    """Do the run of this seed in *folder*: kill its process, often the next one too, and look."""
    chosen = random.Random(f"run {seed}")  # noqa: S311 -- to be drawn again
    kind = KINDS[seed % len(KINDS)]
    script, place = draw(seed, kind)
    points = chosen.choice(rehearsal.points[kind])
    point = chosen.randrange(points) if points and chosen.random() < _AT_CALLS else points
    done = Run(seed=seed)
    with _folder_of(folder, seed) as own:
        life = _Life(own, World(), rehearsal, chosen, done)
        try:
            life.begin(script, Aim(operation=place, point=point, seed=seed))
            if done.is_good and chosen.random() < _TWICE:
                life.go_on()
            if done.is_good:
                life.end()
        except Exception:  # noqa: BLE001 -- a store that cannot even be looked at is one result of many
            done.problems.refused.append(f"to show what is there: {traceback.format_exc()}")
    return done


@attrs.define
class _Life:
    """
    The processes that write in one folder, one after the other.

    Attributes:
        step: What the last one was about to do.
    """

    folder: Path
    world: World
    rehearsal: Rehearsal
    chosen: random.Random
    done: Run
    step: Step | None = None

    def begin(self, script: Sequence[Operation], aim: Aim) -> None:
        """Let the first process write until it is killed."""
        self._write(dict(enumerate(script)), aim)

    def go_on(self) -> None:
        """Let the next one write to what is left, until it is killed too."""
        self.world = settled(self.folder, self.world, self.step, self.done.problems)
        is_torn = any(cut.when == "middle" for cut in self.done.cuts)
        script, place = draw_on(self.chosen.getrandbits(32), is_torn=is_torn)
        point = self.chosen.randrange(_MENDING_POINTS if is_torn else self.chosen.choice(_NEXT_POINTS))
        aim = Aim(operation=_LATER + place, point=point, seed=self.done.seed)
        self._write(dict(enumerate(script, _LATER)), aim)

    def end(self) -> None:
        """Look at what is left, write to it, and count the files that nobody needs any more."""
        self.world = judge(self.folder, self.world, self.step, self.done.problems)
        seen = look(self.folder)
        retired = [each.sheet.lines for each in self.world.retired]
        self.done.left += seen.leftovers
        self.done.left["strays"] += sum(bool(lines) and lines not in retired for lines in seen.strays)

    def _write(self, operations: Mapping[int, Operation], aim: Aim) -> None:
        work = functools.partial(_play, self.folder, self.world, operations)
        if self.chosen.randrange(_BY_PARENT):
            ended = run_in_child(work, aim=aim)
        else:
            seconds = self.chosen.random() * self.rehearsal.seconds * len(operations)
            ended = run_in_child(work, kill_after_seconds=seconds)
        if ended.fault is not None:
            self.done.problems.refused.append(f"before it was killed: {ended.fault}")
        self.step, story = replayed(self.world, operations, ended.told, self.done.problems)
        self.done.story += story
        self.done.unseen += [unseen for word in _done(ended) for unseen in word["unseen"]]
        if ended.killed:
            last = ended.told[-1] if ended.told else {}
            kind = "between" if self.step is None else self.step.kind
            self.done.cuts.append(Cut(operation=kind, call=last.get("call", "any"), when=last.get("when", "any")))


def _play(folder: Path, world: World, operations: Mapping[int, Operation], teller: Teller) -> None:
    """Do the operations, one after the other, and tell before and after each."""
    problems = Problems()
    player = Player(folder, world)
    for number, operation in operations.items():
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
