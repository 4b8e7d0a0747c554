"""What is put aside and what is removed: a plan that is carried out in memory here."""

import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import SessionId, SessionKey
from openclaw_ctx.transcript.stores.retention import (
    Retention,
    Step,
    Superseded,
    parse_duration,
    parse_size,
    plan_retention,
)
from openclaw_ctx.transcript.stores.store import Archive, SessionInfo

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def ago(days: float) -> datetime:
    """Return a moment before now."""
    return NOW - timedelta(days=days)


def session(key: str, days: float | None = 0, size: int = 10) -> SessionInfo:
    """Return a session that was last written so many days ago."""
    return SessionInfo(
        key=SessionKey(key),
        session_id=SessionId(f"id-{key}"),
        path=Path(f"{key}.jsonl"),
        updated_at=None if days is None else ago(days),
        size=size,
    )


def archive(name: str, days: float = 0, size: int = 10, key: str = "k") -> Archive:
    """Return an archive that was made so many days ago."""
    return Archive(name=name, key=SessionKey(key), session_id=SessionId("id"), reason="reset", at=ago(days), size=size)


def left(name: str, days: float | None = 0, size: int = 10, key: str | None = "k", **more: Any) -> Superseded:
    """Return a transcript that nobody is in any more."""
    updated_at = None if days is None else ago(days)
    return Superseded(name=name, size=size, key=None if key is None else SessionKey(key), updated_at=updated_at, **more)


@attrs.define
class Folder:
    """What there is, and a plan of it."""

    sessions: Sequence[SessionInfo] = ()
    archives: Sequence[Archive] = ()
    superseded: Sequence[Superseded] = ()
    busy: frozenset[SessionKey] = frozenset()

    def plan(self, keep: Retention | None = None, **settings: Any) -> Sequence[Step]:
        """Return what to do."""
        return plan_retention(
            self.sessions,
            self.archives,
            self.superseded,
            keep=keep or Retention(**settings),
            now=NOW,
            busy=self.busy,
        )

    def size(self) -> int:
        """Return what it takes."""
        return sum(one.size for one in [*self.sessions, *self.archives, *self.superseded])

    def carry_out(self, steps: Sequence[Step]) -> "Folder":
        """Return what is left; each step finds what it is about, and a session takes along what it left behind."""
        sessions = {one.key: one for one in self.sessions}
        archives = {one.name: one for one in self.archives}
        superseded = {one.name: one for one in self.superseded}
        for step in steps:
            match step.action:
                case "remove-archive":
                    del archives[step.name]
                case "remove-superseded" | "remove-leftover":
                    assert superseded.pop(step.name).leftover == (step.action == "remove-leftover")
                case _:
                    one = sessions.pop(SessionKey(step.name))
                    taken = [other for other in superseded.values() if other.key == one.key]
                    if step.action == "archive":
                        taken.append(left(f"{one.key}!", size=one.size, key=one.key))
                    for other in taken:
                        superseded.pop(other.name, None)
                        archives[f"{other.name}~"] = archive(f"{other.name}~", size=other.size, key=one.key)
        return Folder(list(sessions.values()), list(archives.values()), list(superseded.values()), self.busy)


def done(steps: Sequence[Step]) -> list[tuple[str, str]]:
    """Return what is to be done with what."""
    return [(step.action, step.name) for step in steps]


# -- by age -----------------------------------------------------------------------------------------


def test_nothing_is_done_with_what_is_young() -> None:
    """By default: thirty days for all of it."""
    folder = Folder([session("a", 30)], [archive("b", 30)], [left("c", 30), left("d", 30, leftover=True)])

    assert folder.plan() == []


def test_what_is_old_is_put_aside_or_removed() -> None:
    """Each step says what it is about, what it takes, and why."""
    folder = Folder([session("a", 31, 1)], [archive("b", 32, 2)], [left("c", 33, 3), left("d", 34, 4, leftover=True)])

    assert folder.plan() == [
        Step(action="remove-leftover", name="d", size=4, why="not written for 34 days"),
        Step(action="remove-superseded", name="c", size=3, why="not written for 33 days"),
        Step(action="remove-archive", name="b", size=2, why="put aside 32 days ago"),
        Step(action="archive", name="a", size=1, why="not written for 31 days"),
    ]


def test_archives_may_be_kept_longer_or_shorter() -> None:
    """Their time is their own; without a setting it is that of sessions."""
    folder = Folder([session("a", 5)], [archive("b", 5), archive("c", 15)])

    assert done(folder.plan(prune_after=timedelta(days=10))) == [("remove-archive", "c")]
    assert done(folder.plan(reset_archive_retention=timedelta(days=3))) == [
        ("remove-archive", "c"),
        ("remove-archive", "b"),
    ]
    assert done(folder.plan(prune_after=timedelta(days=3), reset_archive_retention=timedelta.max)) == [("archive", "a")]


def test_what_has_no_time_is_never_old() -> None:
    """Nor what was written in the future, since a clock was wrong."""
    folder = Folder([session("a", None), session("b", -400)], [archive("c", -400)], [left("d", None), left("e", -400)])

    assert folder.plan(prune_after=timedelta(seconds=1)) == []


def test_a_time_without_a_zone_is_utc() -> None:
    """B74, B75: marked and unmarked ones are told apart nowhere, whatever the zone of the machine."""
    program = (
        "from datetime import *; from openclaw_ctx.transcript.stores.retention import *\n"
        "old = [Superseded(name=n, size=1, updated_at=datetime.fromisoformat('2026-01-01T00:00:00' + n))"
        " for n in ('', 'Z', '+05:30')]\n"
        "for now in ('2026-01-01T01:00:00', '2026-01-01T01:00:01Z', '2026-01-01T05:30:00+05:30'):\n"
        "    print(len(plan_retention((), (), old, keep=Retention(prune_after=timedelta(hours=1)),"
        " now=datetime.fromisoformat(now))))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TZ": "Asia/Kolkata"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )

    assert done.stdout.split() == ["1", "3", "1"]


@pytest.mark.parametrize(
    "days, why",
    [
        (400.9, "400 days"),
        (2, "2 days"),
        (1.99, "47 hours"),
        (0.0834, "2 hours"),
        (0.08, "115 minutes"),
        (0, "0 minutes"),
    ],
)
def test_an_age_is_said_in_words(days: float, why: str) -> None:
    """In the unit that says enough."""
    folder = Folder([session("a", days + 1e-6)])

    assert [step.why for step in folder.plan(prune_after=timedelta(microseconds=1))] == [f"not written for {why}"]


# -- by number --------------------------------------------------------------------------------------


def test_of_too_many_sessions_the_ones_written_last_stay() -> None:
    """Their keys put those of one moment in order; age is named first where both are so."""
    folder = Folder([session("c", 2), session("a", 1), session("b", 1), session("d", 40), session("e", 0)])

    steps = folder.plan(max_entries=2)

    assert done(steps) == [("archive", "d"), ("archive", "c"), ("archive", "a")]
    assert [step.why for step in steps] == [
        "not written for 40 days",
        "5 sessions, and at most 2 are kept",
        "5 sessions, and at most 2 are kept",
    ]


@pytest.mark.parametrize("most", [3, 4, 5, 500])
def test_fewer_than_too_many_sessions_all_stay(most: int) -> None:
    """Also where there is room for one or two more."""
    folder = Folder([session("a", 3), session("b", 2), session("c", 1)])

    assert folder.plan(max_entries=most) == []


def test_sessions_that_stay_count() -> None:
    """One that is being written, or has no time, takes a place; it is never put aside."""
    folder = Folder([session("a", 3), session("b", 2), session("c", None), session("d", 9)], busy=frozenset({"d"}))  # type: ignore[arg-type]

    assert done(folder.plan(max_entries=2)) == [("archive", "a"), ("archive", "b")]
    assert done(folder.plan(max_entries=1)) == [("archive", "a"), ("archive", "b")]


# -- by room ----------------------------------------------------------------------------------------


def test_nothing_goes_for_room_up_to_the_limit() -> None:
    """The mark below it is where to stop, not when to begin."""
    folder = Folder([session("a", 1, 50)], [archive("b", 2, 50)])

    assert folder.plan(max_disk_bytes=100) == []
    assert folder.plan(max_disk_bytes=100, high_water_bytes=1) == []
    assert folder.plan() == []


def test_for_room_the_oldest_that_was_put_aside_goes_first() -> None:
    """Archives and superseded transcripts by age, leftovers before them, until four fifths are left."""
    folder = Folder(
        [session("s", 9, 60)],
        [archive("a1", 7, 10), archive("a2", 3, 10)],
        [left("o1", 5, 10), left("o2", 1, 10), left("o3", None, 10), left("x", 0, 1, leftover=True)],
    )

    steps = folder.plan(max_disk_bytes=110)

    assert done(steps) == [("remove-leftover", "x"), ("remove-archive", "a1"), ("remove-superseded", "o1"), (
        "remove-archive", "a2")]  # fmt: skip
    assert steps[0].why == "all of it takes 111 bytes, and may take 110 bytes"
    assert folder.carry_out(steps).size() == 80
    assert done(folder.plan(max_disk_bytes=110, high_water_bytes=105)) == done(steps[:2])


def test_for_room_sessions_go_last_and_for_good() -> None:
    """Those not written for longest; one that would be put aside would take as much room there."""
    folder = Folder(
        [session("a", 40, 10), session("b", 2, 10), session("c", 1, 10), session("d", None, 10)],
        [archive("x", 0, 10)],
        [left("y", None, 10)],
    )

    steps = folder.plan(max_disk_bytes=50, high_water_bytes=30)

    assert done(steps) == [("remove-archive", "x"), ("remove-superseded", "y"), ("remove-session", "a")]
    assert steps[-1].why == "not written for 40 days"


def test_what_may_not_go_stays_over_the_limit() -> None:
    """A session that is being written and what it left, and one that has no time."""
    folder = Folder(
        [session("a", 40, 10), session("b", None, 10), session("c", 1, 10)],
        [],
        [left("o", 40, 10, key="a"), left("p", 40, 10, key="a", leftover=True), left("q", 40, 10, key=None)],
        busy=frozenset({SessionKey("a")}),
    )

    assert done(folder.plan(max_disk_bytes=1)) == [("remove-superseded", "q"), ("remove-session", "c")]


def test_sizes_are_said_in_words() -> None:
    """Of 1024 bytes, as they are read."""
    folder = Folder([], [archive("a", 0, 3 << 29)])

    assert folder.plan(max_disk_bytes=2048)[0].why == "all of it takes 1.5 GB, and may take 2.0 KB"


# -- laws -------------------------------------------------------------------------------------------

DAYS = st.integers(0, 4)
SIZES = st.integers(0, 4)
KEYS = st.sampled_from("abc")
FOLDERS = st.builds(
    lambda sessions, archives, olds, busy: Folder(
        [session(key, *rest) for key, rest in sessions.items()],
        [archive(f"x{i}", *rest) for i, rest in enumerate(archives)],
        [left(f"y{i}", days, size, key, leftover=bad) for i, (days, size, key, bad) in enumerate(olds)],
        busy,
    ),
    st.fixed_dictionaries({}, optional=dict.fromkeys("abc", st.tuples(DAYS | st.none(), SIZES))),
    st.lists(st.tuples(DAYS, SIZES), max_size=3),
    st.lists(st.tuples(DAYS | st.none(), SIZES, st.none() | KEYS, st.booleans()), max_size=4),
    st.frozensets(KEYS, max_size=1),
)
SPANS = st.integers(1, 4).map(lambda days: timedelta(days=days)) | st.just(timedelta.max)
LIMITS = st.integers(1, 20) | st.just(1 << 40)
SETTINGS = st.fixed_dictionaries(
    {
        "prune_after": SPANS,
        "max_entries": st.sampled_from([500, 1, 2, 3]),
        "reset_archive_retention": st.none() | SPANS,
        "max_disk_bytes": st.none() | LIMITS,
        "high_water_bytes": st.none() | LIMITS,
    }
)
MORE = st.one_of(
    st.tuples(st.just("prune_after"), SPANS),
    st.tuples(st.just("max_entries"), st.sampled_from([500, 1, 2, 3])),
    st.tuples(st.just("reset_archive_retention"), SPANS),
    st.tuples(st.just("max_disk_bytes"), LIMITS),
    st.tuples(st.just("high_water_bytes"), LIMITS),
)


@settings(deadline=None, max_examples=200)
@given(FOLDERS, SETTINGS)
def test_what_was_carried_out_need_not_be_planned_again(folder: Folder, chosen: dict[str, Any]) -> None:
    """A second run has nothing to do, and each step of the first one finds what it is about."""
    after = folder.carry_out(folder.plan(**chosen))

    assert after.plan(**chosen) == []


@settings(deadline=None, max_examples=200)
@given(FOLDERS, SETTINGS, MORE)
def test_a_more_generous_setting_touches_and_removes_no_more(
    folder: Folder, chosen: dict[str, Any], more: tuple[str, Any]
) -> None:
    """Not one thing, whichever setting it is."""
    name, value = more
    assume(chosen[name] is not None)
    strict = chosen | {name: min(chosen[name], value)}
    generous = chosen | {name: max(chosen[name], value)}

    few, many = folder.plan(**generous), folder.plan(**strict)

    assert {step.name for step in few} <= {step.name for step in many}
    assert {step.name for step in few if step.action != "archive"} <= {
        step.name for step in many if step.action != "archive"
    }


@settings(deadline=None, max_examples=200)
@given(FOLDERS, SETTINGS)
def test_a_plan_keeps_its_limits(folder: Folder, chosen: dict[str, Any]) -> None:
    """Of all that may be touched; and what is busy stays as it is."""
    steps = folder.plan(**chosen)
    after = folder.carry_out(steps)

    assert {one.key for one in folder.sessions if one.key in folder.busy} <= {one.key for one in after.sessions}
    assert [one for one in folder.superseded if one.key in folder.busy] == [
        one for one in after.superseded if one.key in folder.busy
    ]
    free = [one for one in after.sessions if one.key not in folder.busy and one.updated_at is not None]
    assert len(after.sessions) <= chosen["max_entries"] or not free
    assert all(NOW - one.updated_at <= chosen["prune_after"] for one in free)
    most = chosen["max_disk_bytes"]
    if most is not None and after.size() > most:
        assert not free
        assert not {one.name for one in after.archives} & {one.name for one in folder.archives}


# -- settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["prune_after", "max_entries", "reset_archive_retention", "max_disk_bytes", "high_water_bytes"]
)
def test_zero_is_refused(name: str) -> None:
    """It could mean no limit, or nothing; what would be removed is not for guessing."""
    zero = timedelta(0) if name in {"prune_after", "reset_archive_retention"} else 0

    with pytest.raises(ValueError, match=f"{name} must be above zero"):
        Retention(**{name: zero})
    with pytest.raises(ValueError, match=name):
        Retention(**{name: zero - (timedelta(1) if isinstance(zero, timedelta) else 1)})


@pytest.mark.parametrize(
    "value, expected",
    [
        ("30d", timedelta(days=30)),
        ("12h", timedelta(hours=12)),
        ("90m", timedelta(minutes=90)),
        ("2w", timedelta(weeks=2)),
        ("45s", timedelta(seconds=45)),
        ("500ms", timedelta(milliseconds=500)),
        (" 1.5 D ", timedelta(hours=36)),
        ("7", timedelta(days=7)),
        (7, timedelta(days=7)),
        (0.5, timedelta(hours=12)),
    ],
    ids=repr,
)
def test_durations_are_read(value: str | float, expected: timedelta) -> None:
    """With a unit, or in days."""
    assert parse_duration(value) == expected


@pytest.mark.parametrize(
    "value, expected",
    [
        ("500mb", 500 << 20),
        ("1.5gb", 3 << 29),
        ("64k", 1 << 16),
        ("64KiB", 1 << 16),
        (" 1 T ", 1 << 40),
        ("12b", 12),
        ("4096", 4096),
        (4096, 4096),
        (4096.4, 4096),
    ],
    ids=repr,
)
def test_sizes_are_read(value: str | float, expected: int) -> None:
    """With a unit, or in bytes; of 1024."""
    assert parse_size(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "d",
        "30 days",
        "30x",
        "-1d",
        "0",
        "0d",
        "1d2h",
        "1e3",
        "1,5d",
        "nan",
        "inf",
        ".5d",
        "\u0663d",
        "9" * 5_000,
        "9" * 18 + "w",
        "0.0000001ms",
        0,
        -1,
        1e300,
        10**400,
        float("nan"),
        float("inf"),
        True,
        None,
        ["30d"],
        "\x1b[2J\u202e30d",
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_duration_is_refused(value: Any) -> None:
    """The message says what is expected, and shows what was given as one clean and short line."""
    with pytest.raises(ValueError, match=r"30d, 12h, 90m or 2w, or a number of days") as refused:
        parse_duration(value)

    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "value",
    ["", "mb", "5 megabytes", "5xb", "5\u212a", "-1", "0", "0.2", "1e9", "nan", "9" * 18 + "tb", 0, 0.4, 10**400, True],
)
def test_what_is_no_size_is_refused(value: Any) -> None:
    """Likewise."""
    with pytest.raises(ValueError, match=r"500mb or 1.5gb, or a number of bytes"):
        parse_size(value)
