"""A quarantine is kept in the process and mirrored on disk, where another process sees it and lifts it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw_ctx import UserMessage
from openclaw_ctx.host import Quarantine, QuarantineMirror, Registry
from tests.assembly.recording import OneByOne, Record, engine_of, open_host
from tests.host.quarantined import Clock, fail, mirrored

WRITER = """
import sys
from pathlib import Path
from openclaw_ctx.host import Quarantine, QuarantineMirror, QuarantinePolicy

quarantine = Quarantine()
quarantine.attach(QuarantineMirror(Path(sys.argv[1])))
quarantine.record("window", owner="plugin:acme", operation="assemble", reason="far away", policy=QuarantinePolicy())
print("written", flush=True)
for line in sys.stdin:  # the parent asks whether the engine is barred
    print(quarantine.barred("window") is not None, flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for rows, which nobody has made yet."""
    return tmp_path / "state" / "quarantine"


def edit(folder: Path, **changes: object) -> None:
    """Change the only row in *folder*; a value of ... drops the key."""
    (path,) = folder.glob("*.json")
    row = json.loads(path.read_bytes()) | changes
    path.write_text(json.dumps({key: value for key, value in row.items() if value is not ...}))


@pytest.fixture
def elsewhere(folder: Path):
    """Another process that has barred the engine ``window``, and lives until its test ends it."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "written\n"
    yield process
    process.stdin.close()
    process.wait(timeout=30)
    process.stdout.close()


def end(process: subprocess.Popen) -> None:
    """End the other process, and wait until it is gone."""
    process.kill()
    process.wait(timeout=30)


# -- the process's own records -------------------------------------------------------------------------------------


def test_the_first_failure_wins():
    """A later failure of a barred engine returns the record that stands."""
    quarantine = Quarantine()

    first = fail(quarantine, reason="the first")
    second = fail(quarantine, operation="maintain", reason="the second")

    assert second is first
    assert quarantine.barred("window") == first
    assert quarantine.records() == [first]


def test_a_record_that_is_on_disk_is_listed_by_who_has_none_in_memory(folder):
    """QH1: a persisted record is shown where memory is empty."""
    record = fail(mirrored(folder))

    (row,) = mirrored(folder).rows()

    assert row.record.reason == record.reason
    assert (row.record.engine_id, row.record.owner, row.record.operation) == ("window", "plugin:acme", "assemble")
    assert row.record.failed_at == pytest.approx(record.failed_at, abs=0.002)
    assert (row.pid, row.verified) == (os.getpid(), True)


def test_records_in_memory_come_first_and_hide_those_on_disk(folder):
    """An engine that this process has barred is shown once, as this process knows it."""
    fail(mirrored(folder), reason="as on disk")
    fail(mirrored(folder), "other", reason="only on disk")
    quarantine = Quarantine()
    fail(quarantine, reason="as in memory")
    quarantine.attach(QuarantineMirror(folder))

    rows = quarantine.rows()

    assert [(row.record.engine_id, row.record.reason) for row in rows] == [
        ("window", "as in memory"),
        ("other", "only on disk"),
    ]


def test_of_several_rows_for_an_engine_the_earliest_failure_is_shown(folder):
    """Two writers barred one engine: the failure that came first is told."""
    clock = Clock()
    clock.now = 5000.0
    fail(mirrored(folder, clock=clock), reason="later")
    clock.now = 4000.0
    fail(mirrored(folder, clock=clock), reason="earlier")

    (row,) = mirrored(folder).rows()

    assert row.record.reason == "earlier"


# -- clearing ------------------------------------------------------------------------------------------------------


def test_clearing_what_is_not_there_makes_no_files(folder):
    """QH2: neither reading nor clearing nor releasing makes the folder."""
    quarantine = mirrored(folder)

    quarantine.clear("window")
    QuarantineMirror(folder).clear("window")
    released = QuarantineMirror(folder).release("window")

    assert (released, quarantine.rows(), quarantine.barred("window")) == ([], [], None)
    assert not folder.exists()
    assert not folder.parent.exists()


def test_a_foreign_file_in_the_folder_is_left_alone(folder):
    """QH3: writing, clearing, releasing and pruning touch nobody else's file, whatever its name."""
    folder.mkdir(parents=True)
    foreign = {
        folder / "window-0000.1.json": b'{"somebody": "else"}',
        folder / "database.json": b"SQLite format 3\x00\xff",
        folder / "notes.txt": b"mine",
    }
    for path, content in foreign.items():
        path.write_bytes(content)
    quarantine = mirrored(folder)

    fail(quarantine)
    quarantine.clear("window")
    fail(quarantine)
    QuarantineMirror(folder).release("window")

    assert {path: path.read_bytes() for path in folder.iterdir()} == foreign
    assert quarantine.rows() == []


def test_registering_again_clears_the_row_and_a_new_failure_writes_its_own(folder):
    """QH4: a registration succeeds and clears; what fails afterwards keeps its row, whoever cleans up late."""
    registry, other = Registry(quarantine=mirrored(folder)), mirrored(folder)
    registry.register("window", lambda context: None, owner="public")
    fail(registry.quarantine, reason="before")
    fail(other, reason="another registry's")

    registry.register("window", lambda context: None, owner="public", refresh=True)
    after_registering = {row.record.reason for row in QuarantineMirror(folder).read()}
    fail(registry.quarantine, reason="after")
    other.clear("window")

    assert after_registering == {"another registry's"}
    assert [row.record.reason for row in QuarantineMirror(folder).read()] == ["after"]
    assert registry.quarantine.barred("window") is not None


def test_a_registration_succeeds_although_the_row_cannot_be_removed(folder, monkeypatch):
    """QH4: the cleanup is best effort; the engine may be called again either way."""
    registry = Registry(quarantine=mirrored(folder))
    registry.register("window", lambda context: None, owner="public")
    fail(registry.quarantine)
    monkeypatch.setattr(Path, "unlink", _refuse)

    registry.register("window", lambda context: None, owner="public", refresh=True)

    assert registry.quarantine.barred("window") is None


def _refuse(*_args: object, **_kwargs: object) -> None:
    raise PermissionError(13, "not yours")


def test_clearing_one_engine_keeps_a_live_sibling_s_row(folder, elsewhere):
    """QH5: clearing an engine here leaves the row that another live process wrote for the same engine."""
    quarantine = mirrored(folder)
    fail(quarantine)

    quarantine.clear("window")

    (row,) = quarantine.rows()
    assert (row.pid, row.record.reason, row.own) == (elsewhere.pid, "far away", False)


def test_clearing_everything_of_this_process_keeps_siblings(folder, elsewhere):
    """QH6: all of this process's engines registered again: only the other process's row is left."""
    quarantine = mirrored(folder)
    for engine_id in ("window", "rag", "tiered"):
        fail(quarantine, engine_id)

    for record in quarantine.records():
        quarantine.clear(record.engine_id)

    assert [row.pid for row in QuarantineMirror(folder).read()] == [elsewhere.pid]


# -- who wrote it, and does it live --------------------------------------------------------------------------------


def test_a_row_of_an_earlier_process_with_this_pid_is_dropped(folder):
    """QH7: the pid is ours and the token is not: the process that wrote the row is gone."""
    fail(mirrored(folder))
    edit(folder, processToken="of another life")

    assert QuarantineMirror(folder).read() == []


def test_a_row_of_a_reused_pid_is_dropped(folder, elsewhere):
    """QH8: a process of that pid lives, and it began at another time than the one that wrote."""
    (path,) = folder.glob("*.json")
    started = json.loads(path.read_bytes())["processStartTime"]

    edit(folder, processStartTime=started - 60)
    reused = QuarantineMirror(folder).read()
    edit(folder, processStartTime=started)
    same = QuarantineMirror(folder).read()

    assert reused == []
    assert [(row.pid, row.verified) for row in same] == [(elsewhere.pid, True)]


@pytest.mark.parametrize(
    "started",
    [
        pytest.param(None, id="null"),
        pytest.param(..., id="absent"),
        pytest.param("yesterday", id="a text"),
        pytest.param(float("nan"), id="NaN"),
        pytest.param(True, id="true"),
    ],
)
def test_a_row_that_cannot_be_verified_is_shown_as_such(folder, elsewhere, started):
    """B27, where QH9 drops it: without a start time nobody knows whether the writer lives, so people are told that."""
    edit(folder, processStartTime=started)

    (row,) = QuarantineMirror(folder).read()

    assert (row.record.engine_id, row.pid, row.verified) == ("window", elsewhere.pid, False)


def test_a_row_of_a_dead_process_is_not_believed(folder, elsewhere):
    """While the writer lives its row is shown; once it is gone, the row is nobody's."""
    living = QuarantineMirror(folder).read()
    end(elsewhere)

    dead = QuarantineMirror(folder).read()

    assert [(row.pid, row.own, row.verified) for row in living] == [(elsewhere.pid, False, True)]
    assert dead == []
    assert len(list(folder.glob("*.json"))) == 1, "reading removes nothing"


BROKEN = [
    pytest.param({"engineId": " "}, id="a blank engine"),
    pytest.param({"engineId": 7}, id="an engine that is no text"),
    pytest.param({"operation": ""}, id="a blank operation"),
    pytest.param({"reason": ...}, id="no reason"),
    pytest.param({"processId": 0}, id="pid 0"),
    pytest.param({"processId": -1}, id="a negative pid"),
    pytest.param({"processId": True}, id="pid true"),
    pytest.param({"processId": 10**30}, id="a pid beyond every system's"),
    pytest.param({"processId": 2**31}, id="a pid just beyond every system's"),
    pytest.param({"failedAtMs": float("inf")}, id="an infinite time"),
    pytest.param({"failedAtMs": 9e14}, id="a time that no calendar has"),
    pytest.param({"failedAtMs": -(10**20)}, id="a time before all calendars"),
    pytest.param({"recordedAtMs": "now"}, id="a time that is a text"),
]


@pytest.mark.parametrize("changes", BROKEN)
def test_a_malformed_row_is_passed_over(folder, changes):
    """What makes no sense is no record, and hides no other."""
    fail(mirrored(folder))
    edit(folder, **changes)
    fail(mirrored(folder), "rag")

    assert [row.record.engine_id for row in QuarantineMirror(folder).read()] == ["rag"]


def test_a_blank_owner_is_dropped(folder):
    """The record stays, without an owner."""
    fail(mirrored(folder))
    edit(folder, owner="  ")

    (row,) = QuarantineMirror(folder).read()

    assert row.record.owner is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("engineId", "operation", "reason", "failedAtMs", "recordedAtMs", "processId", "processStartTime", "owner")


@given(
    row=st.one_of(JSON, st.fixed_dictionaries(dict.fromkeys(KEYS, JSON | st.sampled_from([1, 2, 1e12, "x"])))),
    tail=st.binary(max_size=4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_nothing_in_the_folder_makes_reading_raise(folder, row, tail):
    """The mirror is for people: whatever lies in a row's place, reading returns rows or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "window.1.json").write_bytes(json.dumps(row).encode() + tail)

    rows = QuarantineMirror(folder).read()

    assert all(row.record.engine_id.strip() and row.record.reason.strip() for row in rows)
    shutil.rmtree(folder)


# -- room, and a disk that refuses ---------------------------------------------------------------------------------


def test_at_most_sixty_four_rows_are_kept_and_the_dead_go_first(folder, elsewhere):
    """Rows of the dead make room; those of the living and foreign files stay."""
    (written,) = folder.glob("*.json")
    row = json.loads(written.read_bytes())
    for number in range(70):
        dead = row | {"engineId": f"old-{number}", "processStartTime": row["processStartTime"] - 3600}
        (folder / f"old-{number}.json").write_text(json.dumps(dead))
    foreign = folder / "foreign.json"
    foreign.write_text("{}")

    fail(mirrored(folder), "rag")

    rows = [path for path in folder.glob("*.json") if path != foreign]
    assert len(rows) == 64
    assert written in rows
    assert foreign.exists()
    assert {row.record.engine_id for row in QuarantineMirror(folder).read()} == {"window", "rag"}


def test_a_full_folder_of_the_living_takes_no_more_and_releases_nobody(folder):
    """A quarantine that finds no room on disk holds in its process all the same, and so do the other sixty-four."""
    quarantine = mirrored(folder)
    for number in range(64):
        fail(quarantine, f"engine-{number}")

    fail(quarantine, "one-too-many")

    assert len(list(folder.iterdir())) == 64
    assert all(quarantine.barred(f"engine-{number}") for number in range(64))
    assert quarantine.barred("one-too-many") is not None


def test_a_folder_that_cannot_be_written_changes_nothing(tmp_path):
    """A file stands where the folder should be: the engine is barred, listed and cleared as ever."""
    (tmp_path / "state").write_text("a file")
    quarantine = mirrored(tmp_path / "state" / "quarantine")

    record = fail(quarantine)

    assert quarantine.barred("window") == record
    assert [row.record for row in quarantine.rows()] == [record]
    assert quarantine.clear("window") is True
    assert quarantine.barred("window") is None


def test_a_write_that_fails_halfway_leaves_no_scrap(folder, monkeypatch):
    """The row appears whole or not at all, and a failure to write it never releases the engine."""
    quarantine = mirrored(folder)
    monkeypatch.setattr("os.replace", _refuse)

    fail(quarantine)

    assert list(folder.iterdir()) == []
    assert quarantine.barred("window") is not None


def test_rows_are_private(folder):
    """A reason may quote what an engine was working on: the folder is 0700, a row 0600."""
    fail(mirrored(folder))

    (path,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)


# -- release -------------------------------------------------------------------------------------------------------


def test_a_release_is_seen_by_the_running_process(folder, elsewhere):
    """Taking the row away lifts the quarantine in the process that wrote it, at its next call."""
    assert elsewhere.stdin is not None
    assert elsewhere.stdout is not None

    def is_barred() -> str:
        elsewhere.stdin.write("?\n")
        elsewhere.stdin.flush()
        return elsewhere.stdout.readline().strip()

    before = is_barred()
    released = QuarantineMirror(folder).release("window")
    after = is_barred()

    assert [(row.pid, row.record.reason) for row in released] == [(elsewhere.pid, "far away")]
    assert (before, after) == ("True", "False")
    assert list(folder.glob("*.json")) == []


def test_a_release_lifts_one_engine_only(folder):
    """Releasing one engine keeps the others barred; releasing it again finds nothing."""
    quarantine = mirrored(folder)
    fail(quarantine, "window")
    fail(quarantine, "rag")

    released = QuarantineMirror(folder).release("window")

    assert [row.record.engine_id for row in released] == ["window"]
    assert quarantine.barred("window") is None
    assert quarantine.barred("rag") is not None
    assert QuarantineMirror(folder).release("window") == []


async def test_a_session_goes_on_with_the_engine_that_was_released(tmp_path):
    """The same session: the engine fails, legacy answers; released by hand, the engine answers and was told all."""
    record = Record(failing={"assemble"})
    async with (
        open_host(tmp_path, engines={"recorder": engine_of(OneByOne, record)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="one"))
        failed = await session.assemble()
        await session.end_turn()
        record.failing.clear()

        QuarantineMirror(tmp_path / "quarantine").release("recorder")
        await session.append(UserMessage(content="two"))
        answered = await session.assemble()
        await session.end_turn()

        assert host.quarantines() == []
    assert (failed.engine, answered.engine) == ("legacy", "recorder")
    assert record.seen == ["one", "two"]


def test_what_is_no_file_in_the_folder_is_nobody_s_row(tmp_path: Path) -> None:
    """A FIFO would be waited for, and a device read until the memory is full."""
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")

    assert QuarantineMirror(tmp_path).read() == []
