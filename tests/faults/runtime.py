"""
Kill a program in the middle of its turns, most often while it compacts or rotates, and see whether they can go on.

Each run has a seed, which decides what is said, where it is cut off, and how.
One in eight is killed by its parent at a moment that nobody chose; the others
kill themselves before, in the middle of or after a call that changes the disk.
Often the program that goes on is killed too. The last one goes on unhindered: it
has to answer what is unanswered, and all that was ever acknowledged has to be there.
"""

import contextlib
import functools
import random
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from openclaw_ctx.transcript import FileStore
from openclaw_ctx.transcript.checks import verify_file

from .chain import Word, differences, files_of, read_chain
from .outcome import Cut, Problems, Run
from .points import Aim
from .process import Ended, run_in_child
from .talker import KEY, KINDS, OCCURRENCES, Exchange, converse, draw

__all__ = ["Rehearsal", "rehearse", "run"]

_SCRIPTS: Final = 12
_WEIGHTS: Final = {"open": 4, "turn": 15, "compact": 30, "rotate": 40, "settle": 8, "close": 3}
_BY_PARENT: Final = 8  # one run in so many
_AT_CALLS: Final = 0.85  # of the other runs; the rest end when an operation is about to return
_TWICE: Final = 0.4  # of the runs
# What is known of a program that is killed: calls without a result where its tools were running, a half line at the
# end until somebody writes again.
_OF_A_KILL: Final = frozenset({"batch-unfinished", "newline-missing", "result-missing", "tail-torn", "turn-unfinished"})


@attrs.frozen(kw_only=True)
class Rehearsal:
    """
    What conversations that nobody kills are like.

    Attributes:
        places: Of each conversation, by the kind of operation: which one of it has how many calls that change the disk.
        seconds: What a conversation takes.
    """

    places: Sequence[Mapping[str, Sequence[tuple[int, int]]]]
    seconds: float


def rehearse(folder: Path) -> Rehearsal:
    """
    Return what conversations are like; the same at every time but for the seconds.

    Raises:
        AssertionError: One did not come to its end.
    """
    places: list[dict[str, list[tuple[int, int]]]] = []
    began = time.monotonic()
    for seed in range(_SCRIPTS):
        with _folder_of(folder, seed) as own:
            ended = run_in_child(functools.partial(converse, own, draw(seed, _name(0))))
        assert ended.fault is None, f"rehearsal {seed}: {ended.fault}"
        found: dict[str, list[tuple[int, int]]] = {}
        for word in _all(ended, "done"):
            found.setdefault(word["kind"], []).append((word["operation"] % OCCURRENCES, word["points"]))
        places.append(found)
    return Rehearsal(places=places, seconds=(time.monotonic() - began) / _SCRIPTS)


def run(seed: int, folder: Path, rehearsal: Rehearsal) -> Run:
    """Do the run of this seed in *folder*: kill its program, often the next one too, let the last one go on."""
    done = Run(seed=seed)
    with _folder_of(folder, seed) as own:
        life = _Life(own, rehearsal, random.Random(f"runtime {seed}"), done)  # noqa: S311 -- to be drawn again
        try:
            life.begin()
            if done.is_good and life.chosen.random() < _TWICE:
                life.go_on()
            if done.is_good:
                life.end()
        except Exception:  # noqa: BLE001 -- files that cannot even be read are one result of many
            done.problems.refused.append(f"to show what is there: {traceback.format_exc()}")
    return done


@attrs.define
class _Life:
    """
    The programs that talk in one session, one after the other.

    Attributes:
        said: What was acknowledged, and what was found to be there beyond that.
    """

    folder: Path
    rehearsal: Rehearsal
    chosen: random.Random
    done: Run
    said: list[Word] = attrs.field(factory=list)
    _programs: int = 0

    def begin(self) -> None:
        """Let the first program talk until it is killed."""
        script = self.chosen.randrange(_SCRIPTS)
        places = self.rehearsal.places[script]
        kinds = [kind for kind in KINDS if places.get(kind)]
        kind = self.chosen.choices(kinds, [_WEIGHTS[kind] for kind in kinds])[0]
        self._talk(draw(script, _name(0)), self._aim_at(kind, places[kind]))

    def go_on(self) -> None:
        """Let the next one answer what is unanswered, and go on until it is killed too."""
        kind = self.chosen.choices(KINDS, list(_WEIGHTS.values()))[0]
        places = [place for found in self.rehearsal.places for place in found.get(kind, ()) if place[0] < 2]
        script = draw(self.chosen.getrandbits(32), _name(self._programs), goes_on=True)
        self._talk(script, self._aim_at(kind, places))

    def end(self) -> None:
        """Let the last one answer what is unanswered, and look at everything."""
        drawn = draw(self.chosen.getrandbits(32), _name(self._programs), goes_on=True)[:2]
        script = [attrs.evolve(each, rounds=(attrs.evolve(each.rounds[-1], fails=""),)) for each in drawn]
        ended = self._talk(script)
        reasons = [word["reason"] for word in _all(ended, "blocked")]
        if reasons or len(_all(ended, "turned")) < len(script):
            self.done.problems.refused.append(f"to answer: {reasons}")
        self._count_leftovers()

    def _talk(self, script: Sequence[Exchange], aim: Aim | None = None) -> Ended:
        work = functools.partial(converse, self.folder, script)
        self._programs += 1
        if aim is not None and not self.chosen.randrange(_BY_PARENT):
            ended = run_in_child(work, kill_after_seconds=self.chosen.random() * self.rehearsal.seconds)
        else:
            ended = run_in_child(work, aim=aim)
        self._note(ended)
        self._look(ended)
        return ended

    def _aim_at(self, kind: str, places: Sequence[tuple[int, int]]) -> Aim:
        """Aim at a call of an operation of this kind, at each as often; or at the end of one."""
        calls = [(place, point) for place, points in places for point in range(points)]
        ends = [(place, points) for place, points in places]
        place, point = self.chosen.choice(calls if calls and self.chosen.random() < _AT_CALLS else ends)
        return Aim(operation=OCCURRENCES * KINDS.index(kind) + place, point=point, seed=self.done.seed)

    def _note(self, ended: Ended) -> None:
        """Take over what the program told, but for what it said."""
        done = self.done
        if ended.fault is not None:
            done.problems.refused.append(f"before it was killed: {ended.fault}")
        begun = _all(ended, "begin")
        done.story += [f"{word['kind']}" for word in begun]
        done.unseen += [unseen for word in _all(ended, "done") for unseen in word["unseen"]]
        broken = [what for word in _all(ended, "turned") for what in word["broken"] if what]
        done.problems.wrong += [f"a model was asked what no provider takes: {what}" for what in broken]
        if ended.killed:
            last = ended.told[-1] if ended.told else {}
            kind = begun[-1]["kind"] if begun else "between"
            done.cuts.append(Cut(operation=kind, call=last.get("call", "any"), when=last.get("when", "any")))

    def _look(self, ended: Ended) -> None:
        """Compare what is there with what was acknowledged; one message more may be there, if nobody could say so."""
        wanted = self.said + [_word(word["word"]) for word in _all(ended, "said")]
        path = _path_of(self.folder)
        found, wrong = ([], []) if path is None else read_chain(path)
        problems = Problems(**differences(wanted, found, more=int(ended.killed)))
        problems.wrong += wrong
        for file in [] if path is None else files_of(path):
            findings = verify_file(file).findings
            problems.wrong += [f"{file.name}: {each}" for each in findings if each.code not in _OF_A_KILL]
        self.done.problems.add(problems)
        self.said = [*wanted, *found[len(wanted) :]]  # as it was said: what was cut may be cut again

    def _count_leftovers(self) -> None:
        sessions = self.folder / "sessions"
        path = _path_of(self.folder)
        known = {each.name for each in ([] if path is None else files_of(path))}
        others = [each.name for each in sessions.iterdir() if each.name not in known]
        self.done.left += Counter(
            {
                "strays": sum(name.endswith(".jsonl") for name in others),
                "tmp": sum(name.endswith(".tmp") for name in others),
                "torn": sum(".torn-" in name for name in others),
            }
        )


def _path_of(folder: Path) -> Path | None:
    """Return where the session is now; nothing is changed by it."""
    if not (folder / "sessions").is_dir():
        return None
    infos = FileStore(folder / "sessions").glance()
    return next((info.path for info in infos if info.key == KEY), None)


def _word(told: Sequence[str]) -> Word:
    role, calls, text = told
    return role, calls, text


def _name(program: int) -> str:
    return f"p{program}t"


def _all(ended: Ended, what: str) -> list[dict[str, Any]]:
    return [word for word in ended.told if word["what"] == what]


@contextlib.contextmanager
def _folder_of(folder: Path, seed: int) -> Iterator[Path]:
    """Make a folder for the state of one run, and remove it."""
    own = folder / f"run-{seed}"
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
