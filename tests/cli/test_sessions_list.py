"""``sessions list``: what there is and what was put aside; listing makes nothing, and shows nothing raw."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from rich.cells import cell_len

from openclaw_ctx.assembly import sessions_folder
from openclaw_ctx.contract import SessionKey
from openclaw_ctx.transcript import FileStore
from tests.cli.conftest import HOSTILE, Run
from tests.transcript.sessions import as_bytes, chain, say

KITCHEN, TRAVEL = SessionKey("kitchen"), SessionKey("旅行")
LONG = SessionKey("agent:main:telegram:group:-100123456789:topic:42:" + "x" * 60)


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> FileStore:
    """Return the store that the commands use."""
    return FileStore(sessions_folder(tmp_path / "state"))


def test_every_session_is_listed_with_its_counts_and_name(run: Run, store: FileStore):
    """The one written last first; the prompt's cost where a host has said one; the time in UTC."""
    store.create(KITCHEN, chain("a", "b"))
    with closing(store.open(TRAVEL)) as transcript:
        transcript.append(say("c"))
        transcript.append_session_info(name="To the sea")
        store.note_tokens(TRAVEL, 12_345)

    done = run("sessions", "list")
    data = json.loads(run("sessions", "list", "--json").stdout)

    heads, first, second = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert heads.split() == ["KEY", "MESSAGES", "TOKENS", "SIZE", "WRITTEN", "NAME"]
    assert first.split()[:3] == ["旅行", "1", "12,345"]
    assert first.endswith("Z  To the sea")
    assert second.split()[:3] == ["kitchen", "2", "-"]
    assert data["folder"] == str(store.folder)
    assert [(row["key"], row["messages"], row["context_tokens"], row["name"]) for row in data["sessions"]] == [
        ("旅行", 1, 12_345, "To the sea"),
        ("kitchen", 2, None, None),
    ]


def test_listing_makes_nothing(run: Run, tmp_path: Path):
    """Where there is no folder there is none afterwards; it is said where none are."""
    shown, aside = run("sessions", "list"), run("sessions", "list", "--archived")
    data = json.loads(run("sessions", "list", "--json").stdout)
    put_aside = json.loads(run("sessions", "list", "--archived", "--json").stdout)

    folder = str(tmp_path / "state" / "sessions")
    assert shown.stdout == f"There are no sessions in {folder}.\n"
    assert aside.stdout == f"Nothing was put aside in {folder}.\n"
    assert (data, put_aside) == ({"folder": folder, "sessions": []}, {"folder": folder, "archives": []})
    assert not (tmp_path / "state").exists()


def test_a_session_that_was_never_closed_is_counted(run: Run, store: FileStore):
    """Its writer may live, or have been killed."""
    transcript = store.open(KITCHEN)
    transcript.append(say("a"))

    listed = run("sessions", "list")
    transcript.close()

    assert listed.stdout.splitlines()[1].split()[:2] == ["kitchen", "1"]
    assert listed.stderr == ""


def test_what_was_put_aside_is_listed_with_reason_time_and_name(run: Run, store: FileStore):
    """And no session is, nor is it among the sessions; its name is whole, for restore."""
    store.create(KITCHEN, chain("a"))
    archive = store.archive(KITCHEN, "reset")

    shown = run("sessions", "list", "--archived")
    (row,) = json.loads(run("sessions", "list", "--archived", "--json").stdout)["archives"]

    assert shown.stdout.splitlines()[0].split() == ["KEY", "REASON", "SIZE", "PUT", "ASIDE", "ARCHIVE"]
    assert shown.stdout.splitlines()[1].split()[:2] == ["kitchen", "reset"]
    assert shown.stdout.endswith(f"Z  {archive.name}\n")
    assert (row["archive"], row["key"], row["reason"]) == (archive.name, "kitchen", "reset")
    assert run("sessions", "list").stdout.startswith("There are no sessions")


def test_a_folder_that_cannot_be_read_is_a_sentence_and_exit_1(run: Run, tmp_path: Path):
    """Here it is a file."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "sessions").write_text("no folder")

    done = run("sessions", "list")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("Error: ")


def test_no_key_and_no_name_reaches_the_terminal_raw(run: Run, store: FileStore):
    """Also with lone surrogates; and the JSON is ASCII."""
    for key in (HOSTILE, "sur\ud800rogate"):
        with closing(store.open(SessionKey(key))) as transcript:
            transcript.append(say("a"))
            transcript.append_session_info(name=HOSTILE)
    store.archive(SessionKey(HOSTILE), "bak")

    shown = "".join(run("sessions", "list", *more).stdout for more in ((), ("--archived",)))
    data = "".join(run("sessions", "list", "--json", *more).stdout for more in ((), ("--archived",)))

    assert all(line.isprintable() for line in shown.split("\n"))
    assert "\\x1b[31m\\u202e" in shown
    assert "sur\\ud800rogate" in shown
    assert data.isascii()
    assert "\x1b" not in data


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_columns_stand_in_line_where_characters_are_wide(encoding, spawn: Run, store: FileStore):
    """Two columns each, or as many as their escapes take where the terminal cannot show them."""
    for key in (KITCHEN, TRAVEL):
        store.create(key, chain("a"))

    done = spawn("sessions", "list", PYTHONIOENCODING=encoding)

    heads, *rows = done.stdout.splitlines()
    end = heads.index("MESSAGES") + len("MESSAGES")
    assert [cell_len(row[: row.index(" 1 ") + 2]) for row in rows] == [end, end]


def test_a_row_is_a_line_on_a_terminal(terminal, store: FileStore):
    """Long keys and names are cut there, and a person reads how long ago; elsewhere they are whole."""
    with closing(store.open(LONG)) as transcript:
        transcript.append(say("a"))
        transcript.append_session_info(name="面包" * 40)

    process = terminal("sessions", "list", NO_COLOR="1")
    code = process.end()

    heads, row = process.shown.decode().split("\r\n")[:-1]
    assert (code, heads.split()[0]) == (0, "KEY")
    assert cell_len(row) <= 80
    assert "…" in row
    assert " now " in row


def test_a_whole_key_is_printed_where_a_program_reads(run: Run, store: FileStore):
    """Nothing is cut in a pipe."""
    store.create(LONG, chain("a"))

    assert run("sessions", "list").stdout.splitlines()[1].split()[0] == LONG


def test_a_file_of_another_program_is_a_session_too(run: Run, store: FileStore):
    """It goes by its name where its header has no key."""
    store.folder.mkdir(parents=True)
    header = {"type": "session", "version": 3, "id": "s-1", "timestamp": "2025-11-20T23:33:50.805Z", "cwd": "/"}
    (store.folder / "theirs.jsonl").write_bytes(as_bytes([header, *chain("a")]))

    (row,) = json.loads(run("sessions", "list", "--json").stdout)["sessions"]

    assert (row["key"], row["session_id"], row["started_at"]) == ("theirs", "s-1", "2025-11-20T23:33:50Z")


def test_the_group_without_a_command_shows_its_help(run: Run):
    """Line by line, as a usage error; so does the program."""
    for arguments in (("sessions",), ()):
        done = run(*arguments)

        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("Usage: openclaw-ctx ")
        assert "\nCommands:\n" in done.stderr
