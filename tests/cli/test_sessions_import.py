"""``sessions import``: each file becomes a session of its own, whole or not at all."""

import json
import os
import signal
from pathlib import Path

import pytest

from openclaw_ctx.assembly import sessions_folder
from openclaw_ctx.transcript import FileStore, Transcript
from tests.cli.conftest import HOSTILE, Run
from tests.transcript.sessions import HEADER, as_bytes, chain, line

CHAT = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> FileStore:
    """Return the store that the commands use."""
    return FileStore(sessions_folder(tmp_path / "state"))


@pytest.fixture(name="forked")
def _forked(tmp_path: Path) -> Path:
    """Return a session with two branches, a label and bytes that nobody else would write like this."""
    path = tmp_path / "forked.jsonl"
    odd = b'{"type": "label", "id": "l1", "parentId": "e3", "targetId": "e1", "label": "caf\\u00e9", "n": 1.0e2}'
    lines = [HEADER | {"sessionKey": "kitchen"}, *chain("one", "two", "three"), odd, line("f2", "e1", "instead")]
    path.write_bytes(as_bytes(lines))
    return path


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[1:]


def test_a_file_of_ours_keeps_its_tree_and_its_bytes(run: Run, forked: Path, store: FileStore):
    """Its id too; the key is a new one, whatever the header says."""
    done = run("sessions", "import", forked, "--key", "copy")

    (info,) = store.sessions()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"copy: 2 messages of {forked} (openclaw-ctx).\n"
    assert (info.key, info.session_id) == ("copy", "s-1")
    assert _lines(info.path) == _lines(forked)
    assert json.loads(info.path.read_bytes().split(b"\n")[0])["sessionKey"] == "copy"


def test_what_is_exported_again_is_what_was_exported(run: Run, forked: Path, tmp_path: Path):
    """But for the header, which names another session."""
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    run("sessions", "import", forked, "--key", "a")
    run("sessions", "export", "a", "-o", first)
    run("sessions", "import", first, "--key", "b")
    run("sessions", "export", "b", "-o", second)

    headers = [json.loads(path.read_bytes().split(b"\n")[0]) for path in (first, second)]
    assert _lines(second) == _lines(first) == _lines(forked)
    assert headers[0]["id"] != headers[1]["id"]
    assert [header["timestamp"] for header in headers] == [HEADER["timestamp"]] * 2


def test_every_recorded_file_that_is_a_session_is_imported(run: Run, recorded_transcripts: Path, store: FileStore):
    """With as many messages as it has; the others end with 3, and with a sentence each."""
    files = sorted(path for path in recorded_transcripts.iterdir() if path.suffix in {".jsonl", ".json", ".traj"})

    done = run("sessions", "import", *files, "--json")

    data = json.loads(done.stdout)
    assert done.returncode == 3
    assert len(data["imported"]) + len(data["errors"]) == len(files)
    assert {info.key: info.messages for info in store.sessions()} == {
        one["key"]: one["messages"] for one in data["imported"]
    }
    again = json.loads(run("sessions", "verify", "--json").stdout)["checked"]
    assert [one["findings"] for one in again if one["format"] == "index"] == [[]]


def test_files_of_one_name_get_keys_of_their_own(run: Run, tmp_path: Path, store: FileStore):
    """And none gets that of another file; one that is named twice, or by a link, is one."""
    for folder in "xyz":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.json").write_text(json.dumps(CHAT))
    (tmp_path / "a-2.json").write_text(json.dumps(CHAT))
    (tmp_path / "link.json").symlink_to(tmp_path / "x" / "a.json")

    done = run("sessions", "import", "x/a.json", "y/a.json", "a-2.json", "z/a.json", "x/a.json", "link.json")

    assert done.returncode == 0
    assert [one.split(": ")[0] for one in done.stdout.splitlines()] == [
        "import:a", "import:a-3", "import:a-2", "import:a-4",
    ]  # fmt: skip
    assert len(store.sessions()) == 4


def test_a_link_leads_to_the_session_with_its_branches(run: Run, forked: Path, tmp_path: Path, store: FileStore):
    """It is read as what it leads to, and not for its messages alone, whether or not its format is named."""
    link = tmp_path / "link.jsonl"
    link.symlink_to(forked)

    done = run("sessions", "import", link, "--format", "pi")

    (info,) = store.sessions()
    assert (done.returncode, info.key) == (0, "import:link")
    assert not info.path.is_symlink()
    assert _lines(info.path) == _lines(forked)


def test_a_key_that_is_taken_stops_no_other_file(run: Run, tmp_path: Path, store: FileStore):
    """Exit code 1, a sentence, and the session is as it was."""
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(CHAT))
    run("sessions", "import", "a.json")
    before = store.sessions()[0]

    done = run("sessions", "import", "a.json", "b.json")

    assert done.returncode == 1
    assert done.stderr.startswith("Error: There is a session 'import:a' already.")
    assert done.stdout.startswith("import:b: 2 messages of b.json (chat-completions).")
    assert before in store.sessions()


@pytest.mark.parametrize(
    "name, code, said",
    [
        pytest.param("gone.jsonl", 1, "no such file", id="no-such-file"),
        pytest.param("folder", 3, "it is a folder", id="a-folder"),
        pytest.param("fifo", 3, "it is not a regular file", id="a-fifo"),
        pytest.param("ring", 1, "", id="a-link-to-itself"),
        pytest.param("text.txt", 3, "is not a session in a known format", id="no-session"),
        pytest.param("empty.jsonl", 3, "is not a session in a known format", id="empty"),
    ],
)
def test_what_cannot_be_imported_leaves_nothing(name, code, said, run: Run, tmp_path: Path, store: FileStore):
    """One sentence, the code that says whose fault it is, and no session."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "ring").symlink_to(tmp_path / "ring")
    (tmp_path / "text.txt").write_text("Dear diary")
    (tmp_path / "empty.jsonl").touch()

    done = run("sessions", "import", name)

    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert not store.folder.exists()


@pytest.mark.parametrize(
    "arguments, said",
    [
        pytest.param(["a.json", "--format", "nope"], "'nope' is none of auto, chat-completions, ", id="format"),
        pytest.param(["a.json", "b.json", "--key", "x"], "one key is for one file", id="one-key-for-two"),
        pytest.param(["a.json", "--key", " "], "a key is not blank", id="blank-key"),
    ],
)
def test_usage_is_refused_before_anything_is_read(arguments, said, run: Run, store: FileStore):
    """Exit code 2, though the files are not there."""
    done = run("sessions", "import", *arguments)

    assert done.returncode == 2
    assert said in done.stderr
    assert not store.folder.exists()


def test_a_format_that_is_named_is_the_one_that_is_read(run: Run, forked: Path):
    """Whatever the file looks like; it is not of that one, so it is refused."""
    done = run("sessions", "import", forked, "--format", "codex", "--key", "x")

    assert done.returncode == 3


def test_a_hostile_name_forges_nothing(run: Run, tmp_path: Path, store: FileStore):
    """Neither on the terminal nor in the folder."""
    (tmp_path / f"{HOSTILE}.json").write_text(json.dumps(CHAT))

    done = run("sessions", "import", f"{HOSTILE}.json")

    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert done.stdout.count("\n") == 1
    assert [info.key for info in store.sessions()] == [f"import:{HOSTILE}"]


def test_what_is_passed_over_is_said(run: Run, tmp_path: Path, store: FileStore):
    """By its line, and without its text; the rest of the session is there."""
    path = tmp_path / "torn.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("one"), b"secret"]) + b'{"type":"mess')

    done = run("sessions", "import", path)

    assert "  line 3: not JSON, passed over (6 bytes)\n" in done.stdout
    assert "line 4: cut off" in done.stdout
    assert "secret" not in done.stdout
    assert store.sessions()[0].messages == 1


def test_an_interrupted_import_leaves_no_session(terminal, tmp_path: Path, store: FileStore):
    """It shows on the terminal how far it has come; Ctrl-C, and neither a part nor a temporary file is there."""
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(as_bytes([HEADER]))
        for first in range(0, 150_000, 1_000):
            numbers = range(first, first + 1_000)
            file.write(as_bytes(line(f"e{n}", f"e{n - 1}" if n else None, "hello") for n in numbers))
    shown = terminal("sessions", "import", path)

    shown.read_until(b"%")
    code = shown.end(signal.SIGINT)

    assert code == 130
    assert b"Interrupted." in shown.shown
    assert [file.suffix for file in store.folder.glob("*") if file.suffix != ".writer"] == []


def test_an_imported_session_goes_on(run: Run, forked: Path, store: FileStore):
    """It is opened for writing like any other, at the leaf that the file had."""
    run("sessions", "import", forked, "--key", "copy")

    transcript: Transcript = store.open(store.find("copy"))
    leaf = transcript.leaf_id
    transcript.close()

    assert leaf == "f2"


def test_an_imported_session_began_when_it_was_recorded(run: Run, tmp_path: Path, recorded_transcripts: Path):
    """Not when it was imported: the time of its first message that has one."""
    run("sessions", "import", str(recorded_transcripts / "agentsessions__codex_large.jsonl"), "--key", "codex")

    listed = json.loads(run("sessions", "list", "--json").stdout)

    assert listed["sessions"][0]["started_at"].startswith("2025-12-18T10:00:0")
