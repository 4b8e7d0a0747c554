"""Names of what was put aside: read and written as the reference system does."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.transcript.stores.archive import (
    ArchivedName,
    archive_name,
    is_transcript_name,
    parse_archive_name,
    restored_name,
)

NOON = datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)


@pytest.mark.parametrize(
    "name, at",
    [
        pytest.param("2026-01-01T12-00-00Z", NOON.replace(microsecond=0), id="without-milliseconds"),
        pytest.param("2026-01-01T12-00-00.123Z", NOON.replace(microsecond=123_000), id="with-milliseconds"),
        pytest.param("2026-01-01T12-00-00-123Z", NOON.replace(microsecond=123_000), id="with-a-hyphen-for-the-dot"),
        pytest.param("2026-01-01T12-00-00", NOON.replace(microsecond=0), id="without-a-zone"),
        pytest.param("2026-01-01T12-00-00.123", NOON.replace(microsecond=123_000), id="milliseconds-without-a-zone"),
    ],
)
@pytest.mark.parametrize("reason", ["bak", "reset", "deleted"])
def test_every_form_of_the_reference_system_is_read(name: str, at: datetime, reason: str) -> None:
    """The time is UTC, said or not."""
    found = parse_archive_name(f"s-topic-4.jsonl.{reason}.{name}")

    assert found == ArchivedName(file="s-topic-4.jsonl", reason=reason, at=at)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "s.jsonl",
        "s.jsonl.bak",
        "s.jsonl.bak.",
        "s.jsonl.lost.2026-01-01T12-00-00Z",
        "s.jsonl.DELETED.2026-01-01T12-00-00Z",
        "s.jsonl.deleted.2026-13-01T12-00-00Z",
        "s.jsonl.deleted.2026-02-30T12-00-00Z",
        "s.jsonl.deleted.0000-01-01T12-00-00Z",
        "s.jsonl.deleted.2026-01-01T12-00-60Z",
        "s.jsonl.deleted.2026-01-01T12:00:00Z",
        "s.jsonl.deleted.2026-01-01T12-00-00Zz",
        "s.jsonl.deleted.2026-01-01T12-00-00Z\n",
        "s.jsonl.deleted.2026-01-01T12-00-00Z-0",
        "s.jsonl.deleted.2026-01-01T12-00-00Z-1.tmp",
        "s.jsonl.deleted.\u0662026-01-01T12-00-00Z",
        "s.deleted.2026-01-01T12-00-00Z",
        "sessions.json.bak.2026-01-01T12-00-00Z",
        "s.trajectory.jsonl.deleted.2026-01-01T12-00-00Z",
        "../s.jsonl.deleted.2026-01-01T12-00-00Z",
        "/tmp/s.jsonl.deleted.2026-01-01T12-00-00Z",  # noqa: S108 -- a name, and nothing is written
        "a\\s.jsonl.deleted.2026-01-01T12-00-00Z",
        "C:s.jsonl.deleted.2026-01-01T12-00-00Z",
        ".s.jsonl.deleted.2026-01-01T12-00-00Z",
        "con.jsonl.deleted.2026-01-01T12-00-00Z",
        ".jsonl.deleted.2026-01-01T12-00-00Z",
        "",
    ],
)
def test_other_names_are_no_archives(name: str) -> None:
    """Above all none that leads out of the folder: a person may have typed it."""
    assert parse_archive_name(name) is None


def test_a_name_is_the_reference_systems() -> None:
    """The time in UTC with milliseconds, hyphens for colons."""
    assert archive_name("s.jsonl", "reset", NOON, []) == "s.jsonl.reset.2026-01-01T12-00-00.123Z"


def test_what_is_put_aside_in_one_millisecond_is_numbered() -> None:
    """Case does not tell names apart, since it does not everywhere; the number is read again."""
    first = archive_name("s.jsonl", "reset", NOON, [])
    second = archive_name("s.jsonl", "reset", NOON, [first.upper()])
    third = archive_name("S.jsonl", "reset", NOON, [first, second])

    assert second == f"{first}-1"
    assert third == f"S{first[1:]}-2"
    assert [found.number for found in map(parse_archive_name, (first, second, third)) if found] == [0, 1, 2]


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York", "UTC"])
def test_the_zone_of_the_machine_does_not_matter(zone: str) -> None:
    """B74, B75: a time without a zone is UTC, in names and of callers."""
    program = (
        "from datetime import *; from openclaw_ctx.transcript.stores.archive import *\n"
        "now = datetime(2026, 3, 30, 23, 11, 15)\n"
        "name = archive_name('s.jsonl', 'bak', now, [])\n"
        "print(name, parse_archive_name(name).at.isoformat(), archive_name('s.jsonl', 'bak', now.replace("
        "tzinfo=timezone(timedelta(hours=5, minutes=30))), []), parse_archive_name("
        "'s.jsonl.bak.2026-03-30T23-11-15').at.timestamp())"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TZ": zone},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )

    assert done.stdout.split() == [
        "s.jsonl.bak.2026-03-30T23-11-15.000Z",
        "2026-03-30T23:11:15+00:00",
        "s.jsonl.bak.2026-03-30T17-41-15.000Z",
        "1774912275.0",
    ]


@given(st.lists(st.tuples(st.sampled_from(["s.jsonl", "S.jsonl", "t.jsonl"]), st.integers(-2, 2)), max_size=8))
def test_no_two_archives_share_a_name_whatever_the_clock_does(steps: list[tuple[str, int]]) -> None:
    """B77: it steps back, or stands; each name says whose it is, why and when."""
    taken: list[str] = []
    for file, step in steps:
        now = NOON.replace(microsecond=0) + timedelta(milliseconds=step)

        name = archive_name(file, "deleted", now, taken)

        assert name.casefold() not in {other.casefold() for other in taken}
        found = parse_archive_name(name)
        assert found is not None
        assert (found.file, found.reason, found.at) == (file, "deleted", now)
        taken.append(name)


@given(st.datetimes(min_value=datetime(2, 1, 1), timezones=st.just(timezone(timedelta(hours=-5)))))  # noqa: DTZ001 -- hypothesis wants it so
def test_any_moment_comes_back(moment: datetime) -> None:
    """To the millisecond, in UTC, where the calendar has it."""
    if moment.year == 9999:
        moment = moment.replace(year=9998)

    found = parse_archive_name(archive_name("s.jsonl", "bak", moment, []))

    assert found is not None
    assert found.at == moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    assert found.at.tzinfo is UTC


def test_an_archive_comes_back_under_its_own_name_or_a_free_one() -> None:
    """Nothing is replaced, on systems that fold case too."""
    archived = parse_archive_name("S.jsonl.deleted.2026-01-01T12-00-00Z")
    assert archived is not None

    assert restored_name(archived, []) == "S.jsonl"
    assert restored_name(archived, ["s.jsonl"]) == "S-2.jsonl"
    assert restored_name(archived, ["S.jsonl", "s-2.JSONL", "t.jsonl"]) == "S-3.jsonl"
    assert is_transcript_name(restored_name(archived, ["S.jsonl"]))


@given(st.text(alphabet="sS.-/\\:\0\udc80\u2028 ", max_size=6))
def test_a_name_that_is_accepted_stays_in_its_folder(stem: str) -> None:
    """Whatever it is made of, it is one component, not hidden, and encodable."""
    name = f"{stem}.jsonl"

    if is_transcript_name(name):
        assert not set(name) & set("/\\:\0\udc80")
        assert not name.startswith(".")
        name.encode()
