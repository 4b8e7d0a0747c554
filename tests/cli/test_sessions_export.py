"""``sessions export``: a file of its own, whole or not at all, and over nothing that is there."""

import json
import os
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from openclaw_ctx.assembly import sessions_folder
from openclaw_ctx.cli.sessions import export as module
from openclaw_ctx.contract import SessionKey
from openclaw_ctx.transcript import FileStore
from tests.cli.conftest import HOSTILE, Run
from tests.transcript.sessions import HEADER, as_bytes, chain, say

KITCHEN = SessionKey("kitchen")


@pytest.fixture(name="session")
def _session(tmp_path: Path) -> Path:
    """Return the transcript of a session with two branches, in the store that the commands use."""
    with closing(FileStore(sessions_folder(tmp_path / "state")).open(KITCHEN)) as transcript:
        root = transcript.append(say("a")).entry_id
        transcript.append(say("b"))
        transcript.branch(root)
        transcript.append(say("c \u202e"))
        return transcript.path


def test_a_session_is_written_as_it_is(run: Run, session: Path, tmp_path: Path):
    """Byte for byte, private, and nothing beside it; said on stderr."""
    done = run("sessions", "export", "kitchen", "-o", "out.jsonl")

    out = tmp_path / "out.jsonl"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Written to out.jsonl.\n")
    assert out.read_bytes() == session.read_bytes()
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert not list(tmp_path.glob("*.tmp"))


def test_a_pipe_gets_the_bytes_alone(spawn: Run, session: Path, environment, tmp_path: Path):
    """Nothing before them, nothing behind."""
    command = [sys.executable, "-m", "openclaw_ctx", "sessions", "export", "kitchen"]

    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, check=True)

    assert (done.stdout, done.stderr) == (session.read_bytes(), b"")


def test_the_forms_are_what_they_are_called(run: Run, session: Path, tmp_path: Path):
    """An array of the active branch's messages, and a page of them."""
    run("sessions", "export", "kitchen", "--format", "json", "-o", "out.json")
    run("sessions", "export", "kitchen", "--format", "markdown", "-o", "out.md")

    messages = json.loads((tmp_path / "out.json").read_bytes())
    page = (tmp_path / "out.md").read_text("utf-8")
    assert [message["content"] for message in messages] == ["a", "c \u202e"]
    assert page == "# kitchen\n\n## User\n\na\n\n## User\n\nc \\u202e\n"


def test_nothing_is_overwritten_unless_that_is_asked_for(run: Run, session: Path, tmp_path: Path):
    """Not a link either, whether it leads anywhere or not."""
    (tmp_path / "there.jsonl").write_text("mine")
    (tmp_path / "link.jsonl").symlink_to("nowhere")

    refused = [run("sessions", "export", "kitchen", "-o", name) for name in ("there.jsonl", "link.jsonl")]
    kept = (tmp_path / "there.jsonl").read_text()
    forced = run("sessions", "export", "kitchen", "-o", "there.jsonl", "--force")

    assert [done.returncode for done in refused] == [2, 2]
    assert all("say --force" in done.stderr for done in refused)
    assert (kept, forced.returncode) == ("mine", 0)
    assert (tmp_path / "there.jsonl").read_bytes() == session.read_bytes()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "output, problem",
    [
        pytest.param("nowhere/out.jsonl", "is no folder", id="in-no-folder"),
        pytest.param("state", "is a folder", id="to-a-folder"),
    ],
)
def test_what_cannot_be_a_file_is_refused(output, problem, run: Run, session: Path):
    """With --force too, before anything is written."""
    done = run("sessions", "export", "kitchen", "--force", "-o", output)

    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


def test_a_session_is_not_exported_over_itself(run: Run, session: Path):
    """Somebody may be writing it; a second name of its file is refused as well."""
    os.link(session, "again.jsonl")
    before = session.stat()

    for output in (session, "again.jsonl"):
        done = run("sessions", "export", "kitchen", "--force", "-o", output)

        assert (done.returncode, "is the session itself" in done.stderr) == (2, True)
    assert session.stat().st_ino == before.st_ino


def test_a_failure_on_the_way_leaves_what_was_there(run: Run, session: Path, tmp_path: Path, monkeypatch):
    """The old file stays, and no half of the new one."""
    (tmp_path / "out.jsonl").write_text("mine")

    def torn(*_: object):
        yield b"half"
        raise OSError(28, "No space left on device", "out.jsonl")

    monkeypatch.setattr(module, "export", torn)
    done = run("sessions", "export", "kitchen", "--force", "-o", "out.jsonl")

    assert done.returncode == 1
    assert done.stderr == "Error: 'out.jsonl' cannot be used: no space left on device.\n"
    assert (tmp_path / "out.jsonl").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} >= {"out.jsonl"}
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
def test_a_named_pipe_is_written_into(spawn: Run, session: Path, tmp_path: Path):
    """As the shell's ``-o >(gzip > out.gz)`` needs it: it is not replaced, and needs no --force."""
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", "pipe"], cwd=tmp_path, stdout=subprocess.PIPE) as reader:
        done = spawn("sessions", "export", "kitchen", "-o", "pipe")
        shown = reader.stdout.read()

    assert done.returncode == 0
    assert shown == session.read_bytes()


def test_a_pipe_that_closes_early_ends_it_quietly(environment, tmp_path: Path):
    """``sessions export | head -1``: no traceback."""
    path = tmp_path / "long.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain(*["x" * 200] * 3_000)]))
    command = [sys.executable, "-m", "openclaw_ctx", "sessions", "export", str(path)]

    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        first = process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()

    assert json.loads(first) == HEADER
    assert complaint == b""


@pytest.mark.parametrize("form", ["jsonl", "json", "markdown"])
def test_a_terminal_gets_no_foreign_control(form, terminal, tmp_path: Path):
    """A pipe would get the lines of a session as they are."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain(HOSTILE)]).replace(b"\\u202e", "\u202e".encode()))

    process = terminal("sessions", "export", path, "--format", form)
    process.end()

    assert all(row.isprintable() for row in process.shown.decode().split("\r\n"))
    assert "\\u202e" in process.shown.decode()


def test_what_a_damaged_file_lacks_is_said(run: Run, tmp_path: Path):
    """On stderr; stdout has what could be read."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("a"), b"{half"]))

    done = run("sessions", "export", path, "-o", "out.jsonl")

    assert done.returncode == 0
    assert done.stderr.startswith("Warning: line 3: ")
    assert (tmp_path / "out.jsonl").read_bytes() == as_bytes([HEADER, *chain("a")])


def test_a_session_of_another_program_becomes_one_of_ours(run: Run, recorded_transcripts: Path, tmp_path: Path):
    """With its importer's messages, and read again it is the same conversation."""
    recorded = recorded_transcripts / "cctools__codex_session.jsonl"

    run("sessions", "export", recorded, "-o", "ours.jsonl")

    theirs, ours = (
        json.loads(run("sessions", "show", path, "--all", "--json").stdout)
        for path in (recorded, tmp_path / "ours.jsonl")
    )
    assert (theirs["format"], ours["format"]) == ("codex", "openclaw-ctx")
    assert ours["messages"] == theirs["messages"]
