"""``sessions verify``: what is wrong with sessions and files, and nothing that is not."""

import json
import os
from pathlib import Path

import pytest

from openclaw_ctx.assembly import sessions_folder
from openclaw_ctx.contract import SessionKey
from openclaw_ctx.transcript import FileStore
from tests.cli.conftest import HOSTILE, Run
from tests.transcript.sessions import HEADER, as_bytes, chain, say

KITCHEN = SessionKey("kitchen")
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> FileStore:
    """Return the store that the commands use."""
    return FileStore(sessions_folder(tmp_path / "state"))


def _found(checked: dict) -> list[tuple[str, int | None, str]]:
    return [(one["level"], one["line"], one["code"]) for one in checked["findings"]]


def test_a_store_is_checked_whole(run: Run, store: FileStore):
    """Every session, the one written last first, and the index; nothing wrong ends with 0."""
    store.create(KITCHEN, chain("one", "two"))
    store.create(SessionKey("garden"), chain("one"))

    done = run("sessions", "verify")

    rows = [row.split() for row in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert rows[0] == ["SESSION", "FORMAT", "ENTRIES", "MESSAGES", "ERRORS", "WARNINGS"]
    assert sorted(rows[1:3]) == [
        ["garden", "openclaw-ctx", "1", "1", "0", "0"],
        ["kitchen", "openclaw-ctx", "2", "2", "0", "0"],
    ]
    assert rows[3:] == [["(index)", "index", "2", "0", "0", "0"]]


def test_one_damaged_session_among_others_is_named(run: Run, store: FileStore):
    """By key, by line and by code; the exit code is 1, and the files are as they were."""
    store.create(KITCHEN, chain("one", "two"))
    damaged = store.create(SessionKey("garden"), chain("one"))
    damaged.path.write_bytes(damaged.path.read_bytes() + as_bytes([b"no json", *chain("again")]))
    before = {path: path.read_bytes() for path in store.folder.iterdir()}

    shown, as_json = run("sessions", "verify"), run("sessions", "verify", "--json")

    data = {one["session"]: _found(one) for one in json.loads(as_json.stdout)["checked"]}
    assert (shown.returncode, as_json.returncode) == (1, 1)
    assert data["garden"] == [("error", 3, "line-unparsable"), ("error", 4, "id-repeated")]
    assert (data["kitchen"], data["(index)"]) == ([], [])
    assert "\ngarden\n  error: line 3: The line is no JSON" in shown.stdout
    assert "no json" not in shown.stdout
    assert {path: path.read_bytes() for path in store.folder.iterdir()} == before


def test_a_session_that_is_being_written_is_no_error(run: Run, store: FileStore):
    """Its writer holds the lock, and is in the middle of its last line."""
    transcript = store.open(KITCHEN)
    transcript.append(say("one"))
    with transcript.path.open("ab") as file:
        file.write(b'{"type":"message","id":"e9"')

    done = run("sessions", "verify", "--json")
    transcript.close()

    data = json.loads(done.stdout)
    assert done.returncode == 0
    assert [level for one in data["checked"] for level, *_ in _found(one)] == ["warning"]


def test_nothing_is_made_where_there_is_nothing(run: Run, store: FileStore):
    """Neither the folder nor anything in it."""
    done, named = run("sessions", "verify"), run("sessions", "verify", "kitchen")

    assert (done.returncode, named.returncode) == (0, 1)
    assert done.stdout == f"There are no sessions in {store.folder}.\n"
    assert "There is no session 'kitchen'" in named.stderr
    assert not store.folder.parent.exists()


def test_a_session_goes_by_its_key_its_id_or_its_file(run: Run, store: FileStore):
    """As everywhere; and a file, whatever its format, by its path."""
    info = store.create(KITCHEN, chain("one"), header={"id": "0123-abc"})

    for name in ("kitchen", "0123-abc", "0123", info.path.name, info.path):
        (checked,) = json.loads(run("sessions", "verify", name, "--json").stdout)["checked"]
        assert (checked["entries"], checked["findings"]) == (1, [])


def test_files_are_checked_beside_each_other_and_the_worst_counts(run: Run, tmp_path: Path):
    """A file that is no session is 3, and stops none of the others; findings of an import count messages."""
    (tmp_path / "diary.txt").write_text("Dear diary")
    os.mkfifo(tmp_path / "fifo.jsonl")
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "tool_calls": [CALL]}]
    said += [{"role": "user", "content": "well?"}, {"role": "assistant", "content": "well."}]
    (tmp_path / "chat.json").write_text(json.dumps(said))
    (tmp_path / "ours.jsonl").write_bytes(as_bytes([HEADER, *chain("one")]))
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "ours.jsonl")

    done = run("sessions", "verify", "diary.txt", "fifo.jsonl", "chat.json", "link.jsonl")

    assert done.returncode == 3
    assert done.stderr.count("Error: ") == 2
    assert "error: message 2: Tool calls of this reply without a result: 1." in done.stdout
    assert [row.split()[:2] for row in done.stdout.splitlines()[1:3]] == [
        ["chat.json", "chat-completions"],
        ["link.jsonl", "openclaw-ctx"],
    ]


def test_a_hostile_name_forges_nothing(run: Run, tmp_path: Path):
    """It stands in one line, without what a terminal would obey."""
    (tmp_path / f"{HOSTILE}.jsonl").write_bytes(as_bytes([HEADER, b"x"]))

    done = run("sessions", "verify", f"{HOSTILE}.jsonl")

    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert "\nError: forged" not in done.stdout


# People have read each file at each of these lines.
_TRUE_ERRORS = {
    "agentsessions__openclaw_large.jsonl": [
        ("error", 8, "parent-missing"),
        ("error", 11, "parent-missing"),
        ("error", 11, "result-orphaned"),
    ],
    "claudecodelog__edge_cases.jsonl": [("error", 9, "result-missing")],
}
_NO_SESSIONS = ("MANIFEST", "antigravity", "cursor", "droid", "grok")


def test_every_recorded_file_that_can_be_imported_is_read_back_as_it_was_imported(run: Run, recorded_transcripts: Path):
    """Message by message. What is called an error is one: nobody lost a thing on the way here."""
    files = sorted(path for path in recorded_transcripts.iterdir() if path.suffix in {".jsonl", ".json", ".traj"})

    data = json.loads(run("sessions", "verify", *files, "--json").stdout)

    errors = {Path(one["session"]).name: [it for it in _found(one) if it[0] == "error"] for one in data["checked"]}
    assert {name: found for name, found in errors.items() if found} == _TRUE_ERRORS
    assert len(data["errors"]) == len(files) - len(data["checked"]) == len(_NO_SESSIONS)
    assert all(any(word in sentence for word in _NO_SESSIONS) for sentence in data["errors"])
