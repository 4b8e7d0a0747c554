"""``sessions repair``: a copy without the damage, or the copy in the session's place and the old file aside."""

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from openclaw_ctx import Host, UserMessage
from openclaw_ctx.assembly import sessions_folder
from openclaw_ctx.contract import SessionKey
from openclaw_ctx.errors import SessionBusyError, SessionNotFoundError
from openclaw_ctx.transcript import FileStore
from openclaw_ctx.transcript.checks.verify import verify_file
from openclaw_ctx.transcript.stores import file_store
from tests.cli.conftest import Run
from tests.transcript.sessions import HEADER, as_bytes, chain, line, texts

KITCHEN = SessionKey("kitchen")
DAMAGE = as_bytes([b"no json at all", line("e2", "e1", "again"), line("e3", "nobody", "three")])


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> FileStore:
    """Return the store that the commands use, with a damaged session."""
    store = FileStore(sessions_folder(tmp_path / "state"))
    info = store.create(KITCHEN, chain("one", "two"))
    with info.path.open("ab") as file:
        file.write(DAMAGE)
    store.sessions()
    return store


def _session(store: FileStore) -> Path:
    (info,) = store.glance()
    return info.path


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".writer"}


# -- in its place ----------------------------------------------------------------------------------


async def test_a_session_is_repaired_in_its_place(run: Run, store: FileStore, tmp_path: Path):
    """It says what was done; the check is clean, a host goes on in it, and the old file can be brought back."""
    damaged = _session(store).read_bytes()

    done = run("sessions", "repair", "kitchen", "--apply")

    (archive,) = store.archives()
    said = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert said[0] == "kitchen: 4 entries."
    assert any("lines that are no entries left out" in one for one in said)
    assert said[-1] == f"The old file was put aside as {archive.name}."
    assert (archive.key, archive.reason) == (KITCHEN, "bak")
    assert (store.folder / archive.name).read_bytes() == damaged
    assert stat.S_IMODE(_session(store).stat().st_mode) == 0o600
    assert verify_file(_session(store)).ok
    assert run("sessions", "verify").returncode == 0
    async with Host.open(state_dir=tmp_path / "state") as host, host.session(KITCHEN) as chat:
        await chat.append(UserMessage(content="four"))
        assert texts(chat.history)[-1] == "four"
    run("sessions", "restore", archive.name, "--key", "old")
    assert run("sessions", "verify", "old").returncode == 1


def test_a_healthy_session_is_not_touched(run: Run, store: FileStore):
    """Neither its file nor the index; nothing is put aside."""
    run("sessions", "repair", "kitchen", "--apply")
    before = _snapshot(store.folder)

    done = run("sessions", "repair", "kitchen", "--apply")

    assert (done.returncode, done.stdout) == (0, "kitchen: nothing to repair.\n")
    assert _snapshot(store.folder) == before


def test_a_session_that_is_written_is_refused(run: Run, store: FileStore):
    """Its writer would go on in the old file."""
    transcript = store.open(KITCHEN)
    before = _snapshot(store.folder)

    done = run("sessions", "repair", "kitchen", "--apply")
    after = _snapshot(store.folder)
    transcript.close()

    assert done.returncode == 1
    assert "is being written by" in done.stderr
    assert after == before


def test_what_the_index_knew_besides_it_still_knows(store: FileStore):
    """Another program's words about the session, and its counts anew."""
    index = store.folder / "sessions.json"
    data = json.loads(index.read_bytes())
    data[KITCHEN] |= {"spawnedBy": "agent:main", "messages": 99}
    index.write_text(json.dumps(data))

    store.repair(KITCHEN)

    entry = json.loads(index.read_bytes())[KITCHEN]
    assert (entry["spawnedBy"], entry["messages"]) == ("agent:main", store.sessions()[0].messages)


_REPAIR = """
import os, resource, signal, sys
from pathlib import Path
from openclaw_ctx.transcript import FileStore
from openclaw_ctx.transcript import paths
from openclaw_ctx.transcript.stores import file_store
at, fault = int(sys.argv[2]), sys.argv[3]
calls = 0
def stop():
    global calls
    calls += 1
    if calls == at:
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(28, "No space left on device", "somewhere")
def before(module, name):
    real = getattr(module, name)
    def faulty(*arguments, **more):
        stop()
        return real(*arguments, **more)
    setattr(module, name, faulty)
for module, name in ((os, "write"), (os, "replace"), (os, "fdatasync")):
    before(module, name)
try:
    FileStore(Path(sys.argv[1])).repair("kitchen")
except OSError as error:
    print("failed", error.filename)
print("calls", calls)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a kill is POSIX's")
@pytest.mark.parametrize("fault", ["kill", "full"])
@pytest.mark.parametrize("at", range(1, 8))
def test_a_repair_that_is_cut_off_has_happened_or_has_not(at: int, fault: str, store: FileStore):
    """At each write and rename: the session is the damaged or the repaired one, and what was put aside is whole."""
    path = _session(store)
    damaged = path.read_bytes()
    repaired = file_store.mend_file(path)

    subprocess.run([sys.executable, "-c", _REPAIR, store.folder, str(at), fault], check=False, capture_output=True)

    after = path.read_bytes()
    archives = store.archives()
    assert after == damaged or (verify_file(path).ok and verify_file(path).entries == repaired.entries)
    assert all((store.folder / archive.name).read_bytes() == damaged for archive in archives)
    assert after == damaged or archives
    # What was put aside is no second name of the session's file, and so does not grow with it.
    assert path.stat().st_nlink == 1
    if fault == "full":
        assert not list(store.folder.glob("*.tmp"))
    store.repair(KITCHEN)
    assert verify_file(path).ok


# -- a copy ----------------------------------------------------------------------------------------


def test_a_copy_is_written_and_the_session_stays(run: Run, store: FileStore, tmp_path: Path):
    """Here, under its file's name; a second time it is there already, and nothing is written over it."""
    before = _snapshot(store.folder)
    target = tmp_path / f"{_session(store).stem}.repaired.jsonl"

    done = run("sessions", "repair", "kitchen", "--json")
    written = target.read_bytes()
    again = run("sessions", "repair", "kitchen")

    data = json.loads(done.stdout)
    assert (done.returncode, data["written"], data["archive"]) == (0, target.name, None)
    assert data["done"] != []
    assert verify_file(target).ok
    assert _snapshot(store.folder) == before
    assert (again.returncode, target.read_bytes()) == (2, written)
    assert "exists; name another file" in again.stderr
    assert [path.name for path in tmp_path.glob("*.tmp")] == []


def test_a_file_gets_its_copy_in_the_current_folder_or_where_one_says(run: Run, tmp_path: Path):
    """Nothing is written beside it, which may be a collection; a link is followed; a healthy file has no copy."""
    (tmp_path / "there").mkdir()
    broken = tmp_path / "there" / "broken.jsonl"
    broken.write_bytes(as_bytes([HEADER, *chain("one", "two")]) + DAMAGE)
    (tmp_path / "link.jsonl").symlink_to(broken)

    run("sessions", "repair", "there/broken.jsonl")
    run("sessions", "repair", "link.jsonl", "-o", "whole.jsonl")
    healthy = run("sessions", "repair", "whole.jsonl")

    here, named = verify_file(tmp_path / "broken.repaired.jsonl"), verify_file(tmp_path / "whole.jsonl")
    assert (here.ok, here.entries) == (named.ok, named.entries) == (True, 4)
    assert [path.name for path in broken.parent.iterdir()] == ["broken.jsonl"]
    assert healthy.stdout == "whole.jsonl: nothing to repair.\n"
    assert not (tmp_path / "whole.repaired.jsonl").exists()


def test_a_file_of_ours_that_lost_its_first_line_is_repaired(run: Run, tmp_path: Path):
    """Nobody else knows its form."""
    (tmp_path / "headless.jsonl").write_bytes(as_bytes(chain("one", "two")))

    done = run("sessions", "repair", "headless.jsonl", "-o", "whole.jsonl")

    assert "session header made" in done.stdout
    assert verify_file(tmp_path / "whole.jsonl").messages == 2


@pytest.mark.parametrize(
    "write, said",
    [
        pytest.param(lambda p: p.write_text('[{"role": "user", "content": "a"}]'), "another program's", id="foreign"),
        pytest.param(lambda p: p.write_text("Dear diary"), "nothing of a session is in it", id="no-session"),
        pytest.param(lambda p: p.mkdir(), "not a plain file", id="a-folder"),
    ],
)
def test_what_is_not_ours_is_refused(write: Callable[[Path], object], said: str, run: Run, tmp_path: Path):
    """With what to do instead, and without a copy."""
    write(tmp_path / "it.jsonl")

    done = run("sessions", "repair", "it.jsonl")

    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert not (tmp_path / "it.repaired.jsonl").exists()


@pytest.mark.parametrize("arguments", [["s.jsonl", "--apply"], ["kitchen", "--apply", "-o", "x.jsonl"]])
def test_only_a_session_of_the_store_has_a_place(arguments: list[str], run: Run, tmp_path: Path):
    """A file gets a copy, and a copy no place."""
    (tmp_path / "s.jsonl").write_bytes(as_bytes([HEADER, *chain("one")]))

    assert run("sessions", "repair", *arguments).returncode == 2


def test_a_session_that_is_not_there_is_no_repair(run: Run, store: FileStore):
    """By name on the command line, by key in the store."""
    assert run("sessions", "repair", "cellar").returncode == 1
    with pytest.raises(SessionNotFoundError):
        store.repair(SessionKey("cellar"))
    transcript = store.open(KITCHEN)
    with pytest.raises(SessionBusyError):
        store.repair(KITCHEN)
    transcript.close()
