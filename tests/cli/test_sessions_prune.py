"""``sessions prune``: the plan is shown, somebody agrees, and then it is done."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from openclaw_ctx.assembly import sessions_folder
from openclaw_ctx.contract import SessionKey
from openclaw_ctx.transcript import FileStore
from tests.cli.conftest import HOSTILE, Run
from tests.transcript.sessions import chain

OLD, NEW = SessionKey("old"), SessionKey("new")
_DAY = 86_400


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> FileStore:
    """Return the store that the commands use, with an old session, a new one, and what a killed program left."""
    store = FileStore(sessions_folder(tmp_path / "state"))
    for key, days in ((OLD, 40), (NEW, 0)):
        _age(store.create(key, chain("one", "two")).path, days)
    (store.folder / "x.jsonl.0123abcd.tmp").write_bytes(b"x")
    _age(store.folder / "x.jsonl.0123abcd.tmp", 1)
    return store


def _age(path: Path, days: float) -> None:
    then = time.time() - days * _DAY
    os.utime(path, (then, then))


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _keys(store: FileStore) -> set[str]:
    return {info.key for info in store.glance()}


def test_a_dry_run_shows_the_plan_and_changes_no_byte(run: Run, store: FileStore):
    """What, of what size, and why; nobody is asked."""
    before = _snapshot(store.folder)

    done = run("sessions", "prune", "--dry-run")

    rows = [" ".join(row.split()) for row in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert rows[0] == "WHAT NAME SIZE WHY"
    assert rows[1] == "remove leftover x.jsonl.0123abcd.tmp 1 B left by a program that was killed"
    assert rows[2].startswith("put aside old ")
    assert rows[2].endswith(" not written for 40 days")
    assert rows[-1] == "1 to put aside, 1 to remove, which frees 1 B."
    assert _snapshot(store.folder) == before


def test_nothing_is_done_where_nobody_can_be_asked(run: Run, store: FileStore):
    """The plan is shown, the exit code is 1, and it is said what to say."""
    before = _snapshot(store.folder)

    done, as_json = run("sessions", "prune"), run("sessions", "prune", "--json")

    assert (done.returncode, as_json.returncode) == (1, 1)
    assert done.stderr == "Error: nobody can be asked here: say --yes, or --dry-run.\n"
    data = json.loads(as_json.stdout)
    assert (data["done"], len(data["steps"]), len(data["errors"])) == (0, 2, 1)
    assert _snapshot(store.folder) == before


@pytest.mark.parametrize("answer, code", [pytest.param(b"y\n", 0, id="yes"), pytest.param(b"n\n", 1, id="no")])
def test_on_a_terminal_somebody_is_asked(answer: bytes, code: int, terminal, store: FileStore):
    """Below the plan, and with how much of it is for good."""
    shown = terminal("sessions", "prune")
    shown.read_until(b"Do this? 1 of 2 are removed for good. [y/N]:")

    os.write(shown._master, answer)

    assert shown.end() == code
    assert b"not written for 40 days" in shown.shown
    assert (b"Done: 2 of 2." in shown.shown) is (code == 0)
    assert _keys(store) == ({NEW} if code == 0 else {OLD, NEW})


def test_what_is_put_aside_can_be_brought_back(run: Run, store: FileStore):
    """It is removed only when that is old too; done once, nothing is left to do."""
    done = run("sessions", "prune", "--yes")
    again = run("sessions", "prune", "--yes")
    run("sessions", "restore", "old")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Done: 2 of 2.")
    assert (again.returncode, again.stdout) == (0, "There is nothing to prune.\n")
    assert _keys(store) == {OLD, NEW}


def test_sessions_that_are_written_stay(run: Run, store: FileStore):
    """However old they are."""
    transcript = store.open(OLD)

    done = run("sessions", "prune", "--yes", "--json")
    transcript.close()

    assert [step["action"] for step in json.loads(done.stdout)["steps"]] == ["remove-leftover"]
    assert _keys(store) == {OLD, NEW}


def test_a_step_that_fails_stops_no_other(run: Run, store: FileStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """It is said, and the exit code is 1."""
    archive = store.archive(OLD, "reset")
    name = archive.name.replace(f"{archive.at:%Y}", "2020")
    (store.folder / archive.name).rename(store.folder / name)
    remove: Callable[[FileStore, str], None] = FileStore.remove

    def refused(self: FileStore, name: str) -> None:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(FileStore, "remove", refused)
    _age(store.create(OLD, chain("one")).path, 40)

    done = run("sessions", "prune", "--yes", "--json")
    monkeypatch.setattr(FileStore, "remove", remove)

    data = json.loads(done.stdout)
    assert done.returncode == 1
    assert (data["done"], [step["action"] for step in data["steps"]]) == (
        2,
        ["remove-leftover", "remove-archive", "archive"],
    )
    assert data["errors"] == [f"'{name}' cannot be used: permission denied."]
    assert _keys(store) == {NEW}


def test_beyond_the_disk_that_it_may_take_the_oldest_go_for_good(run: Run, store: FileStore):
    """The question counts them; a session that was written today stays, since there is room for it."""
    size = sum(info.size for info in store.glance())

    done = run("sessions", "prune", "--max-disk", f"{size - 1}b", "--older-than", "90d", "--yes", "--json")

    steps = [(step["action"], step["name"]) for step in json.loads(done.stdout)["steps"]]
    assert steps == [("remove-leftover", "x.jsonl.0123abcd.tmp"), ("remove-session", OLD)]
    assert (_keys(store), store.archives()) == ({NEW}, [])


def test_no_folder_is_made(run: Run, tmp_path: Path):
    """There is nothing to prune."""
    done = run("sessions", "prune", "--state-dir", tmp_path / "nowhere", "--yes")

    assert (done.returncode, done.stdout) == (0, "There is nothing to prune.\n")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "arguments",
    [["--older-than", "soon"], ["--older-than", "0d"], ["--keep", "0"], ["--max-disk", "-1"], ["--max-disk", "much"]],
    ids=" ".join,
)
def test_a_setting_that_means_nothing_is_refused(arguments: list[str], run: Run, store: FileStore):
    """Zero above all, which one takes for "no limit" and another for "keep nothing"."""
    done = run("sessions", "prune", *arguments, "--yes")

    assert done.returncode == 2
    assert _keys(store) == {OLD, NEW}


def test_a_hostile_key_forges_nothing(run: Run, store: FileStore):
    """It stands in its row, and it is the one that is put aside."""
    _age(store.create(SessionKey(HOSTILE), chain("one")).path, 50)

    done = run("sessions", "prune", "--yes")

    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "\nError: forged" not in done.stdout
    assert _keys(store) == {NEW}
