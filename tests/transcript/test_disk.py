"""A transcript's file among limits, modes, links and other programs."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from openclaw_ctx.errors import TranscriptFormatError
from openclaw_ctx.transcript import Transcript, record_file
from tests.transcript.sessions import HEADER, as_bytes, chain, line, opened, say, texts

# -- the disk and its limits ------------------------------------------------------------------------


def _run(script: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


_FULL = """
import resource, signal, sys
from pathlib import Path
from openclaw_ctx.contract import Replacement, UserMessage
from openclaw_ctx.transcript import Transcript, rewrite
path = Path(sys.argv[1])
transcript = Transcript.open(path)
before = path.read_bytes()
leaf = transcript.leaf_id
room = len(before) + int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
try:
    if sys.argv[2] == "append":
        transcript.append(UserMessage(content="x" * 5000))
    else:
        first = transcript.record().entry_ids[0]
        rewrite(transcript, [Replacement(entry_id=first, message=UserMessage(content="y" * 500))])
except OSError as error:
    print(error)
assert path.read_bytes() == before
assert transcript.leaf_id == leaf
assert [p.name for p in path.parent.iterdir() if ".tmp" in p.name] == []
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
transcript.append(UserMessage(content="room again"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX's")
@pytest.mark.parametrize("work", ["append", "rewrite"])
@pytest.mark.parametrize("room", [pytest.param(0, id="no-byte-left"), pytest.param(150, id="room-for-a-part")])
def test_a_full_disk_leaves_the_file_whole(tmp_path: Path, work: str, room: int) -> None:
    """What does not fit is removed again, the error names the file, and with room the session goes on."""
    path = tmp_path / "s.jsonl"
    with opened(path) as transcript:
        for number in range(3):
            transcript.append(say(f"message {number}"))

    told = _run(_FULL, path, work, room)

    assert str(path) in told
    with opened(path) as transcript:
        assert texts(transcript.history) == ["message 0", "message 1", "message 2", "room again"]
        assert transcript.take_warnings() == []


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX's")
def test_a_disk_too_full_to_migrate_leaves_the_old_file(tmp_path: Path) -> None:
    """Half a copy and half a new file are removed; the old one is as it was, and opens."""
    path = tmp_path / "s.jsonl"
    old = [{"type": "message", "message": {"role": "user", "content": f"m{i}"}} for i in range(40)]
    path.write_bytes(as_bytes([{"type": "session", "id": "s"}, *old]))

    told = _run(_FULL, path, "append", 5)

    assert str(path) in told
    with opened(path) as transcript:
        assert texts(transcript.history) == [*(f"m{i}" for i in range(40)), "room again"]


_UNPRIVILEGED = """
import os, sys
from pathlib import Path
from openclaw_ctx.transcript import Transcript
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    Transcript.open(Path(sys.argv[1]))
except OSError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
@pytest.mark.parametrize("name", ["s.jsonl", "sub/s.jsonl"], ids=["a-file-in-it", "a-folder-in-it"])
def test_a_folder_that_cannot_be_written_is_named(name: str) -> None:
    """The operating system's own error comes through, with the path that it is about."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)

        told = _run(_UNPRIVILEGED, Path(folder) / name)

        assert told.startswith("PermissionError")
        assert folder in told


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077], ids=["open-to-all", "usual", "strict"])
def test_files_and_folders_are_private(tmp_path: Path, umask: int) -> None:
    """Whatever the umask: every file 0600, every folder that was made 0700, copies too."""
    path = tmp_path / "a" / "b" / "s.jsonl"
    before = os.umask(umask)
    try:
        with opened(path) as transcript:
            transcript.append(say("one"))
        with path.open("ab") as file:
            file.write(b'{"torn')
        with opened(path) as transcript:
            transcript.append(say("two"))
        path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
        with opened(path) as transcript:
            transcript.append(say("three"))
    finally:
        os.umask(before)

    modes = {item.relative_to(tmp_path): stat.S_IMODE(item.stat().st_mode) for item in (tmp_path / "a").rglob("*")}
    folders = {name for name in modes if (tmp_path / name).is_dir()}
    assert {modes[name] for name in folders} | {stat.S_IMODE((tmp_path / "a").stat().st_mode)} == {0o700}
    assert {mode for name, mode in modes.items() if name not in folders} == {0o600}
    assert len(modes) >= 4


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
@pytest.mark.parametrize("kind", ["to-a-file", "to-nothing", "folder", "pipe"])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, kind: str) -> None:
    """A link is never followed, so nobody can have a session written into another file."""
    path, target = tmp_path / "s.jsonl", tmp_path / "target"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(target)
    if kind == "to-a-file":
        target.write_bytes(b"precious\n")

    with pytest.raises(TranscriptFormatError, match=r"s\.jsonl"):
        Transcript.open(path)

    assert not target.exists() or target.read_bytes() == b"precious\n"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_link_that_came_after_the_check_is_refused_too(tmp_path: Path) -> None:
    """Between the look and the opening somebody may put a link there; the opening itself refuses."""
    (tmp_path / "target").write_bytes(b"precious\n")
    (tmp_path / "s.jsonl").symlink_to(tmp_path / "target")

    with pytest.raises(TranscriptFormatError, match="symbolic link"):
        record_file.RecordFile(tmp_path / "s.jsonl")


# -- others at the same file ------------------------------------------------------------------------


def test_what_another_program_appended_is_seen_and_followed(tmp_path: Path) -> None:
    """A writer without our lock: its entry is part of the record, and ours is its child."""
    path = tmp_path / "s.jsonl"
    with opened(path) as transcript:
        first = transcript.append(say("ours"))
        view = transcript.history
        with path.open("ab") as file:
            file.write(as_bytes([line("f1", first.entry_id, "theirs")]))

        appended = transcript.append(say("ours again"))

        assert texts(transcript.history) == ["ours", "theirs", "ours again"]
        assert texts(view) == ["ours"]
    assert (
        json.loads(path.read_bytes().splitlines()[-1]).items()
        >= {
            "id": appended.entry_id,
            "parentId": "f1",
        }.items()
    )


def test_a_session_keeps_its_id_when_another_program_appends(tmp_path: Path) -> None:
    """A file without a header gets one id at its opening and no other."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes(chain("one")))
    with opened(path) as transcript:
        session_id = transcript.session_id
        with path.open("ab") as file:
            file.write(as_bytes([line("f1", "e1", "theirs")]))

        transcript.append(say("ours"))

        assert transcript.session_id == session_id
    with opened(path) as transcript:
        assert transcript.session_id == session_id
        assert texts(transcript.history) == ["one", "theirs", "ours"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows replaces no open file")
def test_a_file_put_in_the_place_of_ours_is_followed(tmp_path: Path) -> None:
    """Another program wrote the session anew: we append to its file, not to one that has no name any more."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("one", "two")]))
    with opened(path) as transcript:
        view = transcript.history
        (tmp_path / "new").write_bytes(as_bytes([HEADER, *chain("one, mended", "two")]))
        (tmp_path / "new").replace(path)

        transcript.append(say("three"))

        assert texts(transcript.history) == ["one, mended", "two", "three"]
        assert texts(view) == ["one", "two"]
    with opened(path) as transcript:
        assert texts(transcript.history) == ["one, mended", "two", "three"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted in /proc")
def test_a_replaced_file_is_kept_open_only_for_the_views_of_it(tmp_path: Path) -> None:
    """A program that writes the session anew at every turn must not use up our descriptors."""
    path = tmp_path / "s.jsonl"

    def descriptors() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    def replaced(text: str) -> None:
        (tmp_path / "new").write_bytes(as_bytes([HEADER, *chain(text)]))
        (tmp_path / "new").replace(path)

    replaced("first")
    with opened(path) as transcript:
        at_first = descriptors()
        view = transcript.history
        for number in range(20):
            replaced(f"again {number}" + "." * number)
            transcript.refresh()

        assert descriptors() == at_first + 1
        assert texts(view) == ["first"]
        del view
        assert descriptors() == at_first
        assert texts(transcript.history) == ["again 19" + "." * 19]
    assert descriptors() == at_first - 2


@pytest.mark.skipif(sys.platform == "win32", reason="Windows replaces no open file")
def test_a_fifo_put_in_the_place_of_ours_is_refused(tmp_path: Path) -> None:
    """It can't be read from its beginning; what was read before stays readable."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("one")]))
    with opened(path) as transcript:
        path.unlink()
        os.mkfifo(path)

        with pytest.raises(TranscriptFormatError, match=r"s\.jsonl.*not a plain file"):
            transcript.append(say("two"))

        assert texts(transcript.history) == ["one"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows removes no open file")
def test_an_append_to_a_file_that_was_removed_is_refused(tmp_path: Path) -> None:
    """Nothing is acknowledged that nobody could read again."""
    path = tmp_path / "s.jsonl"
    with opened(path) as transcript:
        transcript.append(say("one"))
        path.unlink()

        with pytest.raises(FileNotFoundError, match=r"s\.jsonl"):
            transcript.append(say("two"))


def test_a_folder_in_the_place_of_a_file_is_named_and_not_left_open(tmp_path: Path) -> None:
    """For reading too: the error tells the path, and no descriptor stays."""
    open_files = Path("/proc/self/fd")
    before = list(open_files.iterdir()) if open_files.is_dir() else []

    for open_it in (Transcript.open, Transcript.read):
        with pytest.raises(TranscriptFormatError, match=tmp_path.name):
            open_it(tmp_path)

    assert not before or len(list(open_files.iterdir())) == len(before)
