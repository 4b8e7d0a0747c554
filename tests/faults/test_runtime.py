"""A turn outlives whoever runs it, wherever that one is killed; and who says so would notice if it did not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from openclaw_ctx.contract import UserMessage
from openclaw_ctx.runtime.events import MessageAppended
from openclaw_ctx.runtime.turn import Turn
from openclaw_ctx.transcript.record_file import RecordFile
from openclaw_ctx.transcript.stores import base, file_store
from tests.faults.chain import differences, is_of
from tests.faults.runtime import Rehearsal, rehearse, run
from tests.faults.talker import KINDS

RUNS = 200
# How many runs a broken host is given to be found out in.
ENOUGH = 80


@pytest.fixture(scope="module", name="rehearsal")
def _rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Rehearsal:
    return rehearse(tmp_path_factory.mktemp("rehearsal"))


def test_what_was_acknowledged_in_a_turn_is_there_and_the_turn_goes_on_wherever_it_is_killed(
    tmp_path: Path, rehearsal: Rehearsal
) -> None:
    """
    SIGKILL while turns run, compact and rotate: all acknowledged is there once and in order, over all transcripts
    of the session, and what is unanswered gets its answer. ``python -m tests.faults runtime --only SEED`` does one
    run again, and tells it.
    """
    runs = [run(seed, tmp_path, rehearsal) for seed in range(1, RUNS + 1)]

    assert [str(each) for each in runs if not each.is_good] == []
    cuts = [cut for each in runs for cut in each.cuts]
    assert {cut.operation for cut in cuts} >= set(KINDS)
    assert {cut.when for cut in cuts} >= {"before", "middle", "after"}
    assert sum(cut.operation in {"compact", "rotate"} for cut in cuts) > len(cuts) / 2


def _acknowledge_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    def append(self: Turn, message: Any) -> Any:
        self._tell(MessageAppended(message=message))
        return self._seat.append(message)

    monkeypatch.setattr(Turn, "_append", append)


def _leave_torn_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordFile, "truncate", lambda _self, _size: None)


def _say_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Turn.run

    async def say_again(self: Turn) -> Any:
        last = self._seat.transcript.history[-1] if self._seat.transcript.history else None
        if self._request.message is None and isinstance(last, UserMessage):
            self._append(attrs.evolve(last, entry_id=None))
        return await real(self)

    monkeypatch.setattr(Turn, "run", say_again)


def _remove_what_was_rotated(monkeypatch: pytest.MonkeyPatch) -> None:
    succeed = file_store.FileStore._succeed

    def tidy_up(self: Any, transcript: Any, header: Any, plan: Any) -> Path:
        old = transcript.path
        path = succeed(self, transcript, header, plan)
        old.unlink()
        return path

    monkeypatch.setattr(file_store.FileStore, "_succeed", tidy_up)


def _leave_the_newest_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_successor = base.plan_successor

    def plan(*arguments: Any, **named: Any) -> Any:
        made = plan_successor(*arguments, **named)
        if isinstance(made, str):
            return made
        *others, newest, leaf = map(json.loads, made.lines)
        fitting = {**leaf, "parentId": newest["parentId"]}
        is_message = leaf["parentId"] == newest["id"] and newest["type"] == "message"
        return (
            attrs.evolve(made, lines=[json.dumps(line).encode() for line in (*others, fitting)]) if is_message else made
        )

    monkeypatch.setattr(base, "plan_successor", plan)


@pytest.mark.parametrize(
    "break_it, found",
    [
        pytest.param(_acknowledge_too_early, "lost", id="a message is told of before it is written"),
        pytest.param(_leave_torn_tails, "wrong", id="torn tails are left"),
        pytest.param(_say_again, "duplicated", id="what is unanswered is said again"),
        pytest.param(_remove_what_was_rotated, "lost", id="a transcript is removed when it is rotated"),
        pytest.param(_leave_the_newest_behind, "wrong", id="a rotation leaves the newest message behind"),
    ],
)
def test_a_host_that_breaks_its_promise_is_found_out(
    tmp_path: Path,
    rehearsal: Rehearsal,
    monkeypatch: pytest.MonkeyPatch,
    break_it: Callable[[pytest.MonkeyPatch], None],
    found: str,
) -> None:
    """No host is called good by a harness that finds nothing."""
    break_it(monkeypatch)
    runs = (run(seed, tmp_path, rehearsal) for seed in range(1, ENOUGH))

    broken = next(each for each in runs if getattr(each.problems, found))

    assert f"{found}: " in str(broken)


def _say(*texts: str) -> list[tuple[str, str, str]]:
    return [("user", "", text) for text in texts]


@pytest.mark.parametrize(
    "found, more, kinds",
    [
        pytest.param("abc", 0, set(), id="all of it"),
        pytest.param("abcd", 1, set(), id="one more that nobody could acknowledge"),
        pytest.param("ab", 0, {"lost"}, id="the last is missing"),
        pytest.param("bc", 1, {"lost"}, id="the first is missing"),
        pytest.param("abcc", 1, {"duplicated"}, id="the last is there twice"),
        pytest.param("acb", 0, {"wrong"}, id="another order"),
        pytest.param("adbc", 1, {"wrong"}, id="one more in between"),
        pytest.param("abcde", 1, {"wrong"}, id="two more"),
        pytest.param("abcd", 0, {"wrong"}, id="one more of a program that was not killed"),
    ],
)
def test_what_is_there_is_compared_with_what_was_acknowledged(found: str, more: int, kinds: set[str]) -> None:
    """Once each, in order, and at most what was being written behind it."""
    problems = differences(_say(*"abc"), _say(*found), more=more)

    assert {kind for kind, sentences in problems.items() if sentences} == kinds


@pytest.mark.parametrize(
    "role, text, holds",
    [
        pytest.param("toolResult", "a shows \n[truncated: 9 characters were cut]", True, id="a result that was cut"),
        pytest.param("toolResult", "a shows ", False, id="a result that says less"),
        pytest.param("toolResult", "b shows \n[truncated: 9 characters were cut]", False, id="another result"),
        pytest.param("assistant", "a shows \n[truncated: 9 characters were cut]", False, id="an answer that was cut"),
    ],
)
def test_a_result_may_be_cut_and_nothing_else(role: str, text: str, *, holds: bool) -> None:
    """It is the same one that was said, and says that it was cut."""
    assert is_of((role, "call", text), (role, "call", "a shows " + "word " * 20)) is holds
