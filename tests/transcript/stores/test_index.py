"""Which transcript is whose: kept in one file, and found again without it."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.errors import SessionBusyError
from openclaw_ctx.transcript import WriterLock, safe_name
from openclaw_ctx.transcript.stores import index as index_file
from openclaw_ctx.transcript.stores.index import Entries, SessionIndex, primary_transcripts, rebuild
from tests.transcript.sessions import HEADER, as_bytes, line

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="links, modes and FIFOs are POSIX's")


def save(folder: Path, content: object, *, settled: bool = True) -> Path:
    """Write ``sessions.json``; *settled*: long ago."""
    path = folder / "sessions.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    if settled:
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def begin(folder: Path, name: str, *more: object, **header: Any) -> int:
    """Write a transcript whose header says more; return its size."""
    return (folder / name).write_bytes(as_bytes([HEADER | header, *more]))


def begin_rotated(folder: Path, name: str, parent: str, size: int, *more: object) -> int:
    """Write a transcript of session ``k`` that goes on from another."""
    return begin(folder, name, *more, sessionKey="k", parentSession=parent, parentBytes=size)


def files(entries: Entries) -> dict[str, str]:
    """Return the files by key."""
    return {key: entry["sessionFile"] for key, entry in entries.items()}


def stored(folder: Path) -> Any:
    """Return what the index file holds."""
    return json.loads((folder / "sessions.json").read_bytes())


def put(key: str, **values: Any) -> Any:
    """Return a change that sets an entry's values."""
    return lambda entries: entries.setdefault(key, {}).update(values)


@contextlib.contextmanager
def new_folder() -> Iterator[Path]:
    """Make a folder for one example of a law."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


# -- reading ----------------------------------------------------------------------------------------


def test_nothing_is_there_before_something_is_written(tmp_path: Path) -> None:
    """A folder that does not exist has no sessions, and reading does not make it."""
    index = SessionIndex(tmp_path / "none")

    assert index.read() == {}
    assert index.problems == []
    assert not (tmp_path / "none").exists()


def test_an_index_of_the_reference_system_is_read_as_it_is(tmp_path: Path) -> None:
    """Its keys and its absolute paths; what we have no use for is shown too."""
    entry = {"sessionId": "s-1", "updatedAt": 1.7e12, "compactionCount": 2, "spawnedBy": "x", "origin": {"a": [1]}}
    theirs = {"sessionFile": str(tmp_path / "s-1.jsonl"), "forkedFromParent": True}
    save(tmp_path, {"agent:main:main": entry | theirs})

    index = SessionIndex(tmp_path)

    assert index.read() == {
        "agent:main:main": entry | {"sessionFile": "s-1.jsonl", "updatedAt": 1_700_000_000_000},
    }
    assert index.problems == []


def test_an_entry_without_a_file_means_the_one_of_its_id(tmp_path: Path) -> None:
    """As in the reference system; where there is no such file none is named."""
    begin(tmp_path, "s-1.jsonl")
    save(tmp_path, {"there": {"sessionId": "s-1"}, "gone": {"sessionId": "s-2"}, "evil": {"sessionId": "../s-1"}})

    entries = SessionIndex(tmp_path).read()

    assert entries["there"]["sessionFile"] == "s-1.jsonl"
    assert "sessionFile" not in entries["gone"]
    assert "sessionFile" not in entries["evil"]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("../s.jsonl", id="the-folder-above"),
        pytest.param("a/s.jsonl", id="a-folder-below"),
        pytest.param("a\\s.jsonl", id="a-folder-of-windows"),
        pytest.param("..", id="two-dots"),
        pytest.param("", id="nothing"),
        pytest.param(".s.jsonl", id="hidden"),
        pytest.param("/etc/s.jsonl", id="another-folder"),
        pytest.param("{folder}/../s.jsonl", id="out-of-this-folder"),
        pytest.param("{folder}/a/s.jsonl", id="below-this-folder"),
        pytest.param("{folder}", id="this-folder"),
        pytest.param("C:s.jsonl", id="a-drive"),
        pytest.param("s.jsonl:x.jsonl", id="a-stream"),
        pytest.param("CON.jsonl", id="a-device"),
        pytest.param("aux.x.jsonl", id="a-device-with-more"),
        pytest.param("s\0.jsonl", id="a-nul"),
        pytest.param("s\n.jsonl", id="a-line-end"),
        pytest.param("\udc80.jsonl", id="a-lone-surrogate"),
        pytest.param("s" * 250 + ".jsonl", id="too-long"),
        pytest.param("sessions.json", id="the-index"),
        pytest.param("s.jsonl.writer", id="a-lock"),
        pytest.param("s.jsonl.deleted.2026-01-01T00-00-00Z", id="an-archive"),
        pytest.param("s.trajectory.jsonl", id="a-trajectory"),
        pytest.param("s.jsonl.corrupt-2026-01-01T00-00-00Z-0a1b2c3d.jsonl", id="a-copy"),
        pytest.param(5, id="a-number"),
        pytest.param(["s.jsonl"], id="a-list"),
    ],
)
def test_a_file_elsewhere_is_ignored_and_kept(tmp_path: Path, value: object) -> None:
    """B78: nothing leads out of the folder; the problem is named, and another change of the entry leaves it."""
    value = value.replace("{folder}", str(tmp_path)) if isinstance(value, str) else value
    save(tmp_path, {"k": {"sessionId": "s-1", "sessionFile": value}})
    index = SessionIndex(tmp_path)

    entries = index.read()

    assert entries == {"k": {"sessionId": "s-1"}}
    assert len(index.problems) == 1
    assert "sessionFile" in index.problems[0]
    assert index.problems[0].isprintable()
    index.update(put("k", messages=3))
    assert stored(tmp_path) == {"k": {"sessionId": "s-1", "sessionFile": value, "messages": 3}}


@posix_only
def test_a_folder_that_is_reached_by_a_link_is_the_same_folder(tmp_path: Path) -> None:
    """Another program may have written either path."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    save(tmp_path / "real", {way: {"sessionFile": str(tmp_path / way / f"{way}.jsonl")} for way in ("real", "link")})

    assert files(SessionIndex(tmp_path / "link").read()) == {"real": "real.jsonl", "link": "link.jsonl"}


@pytest.mark.parametrize("name", ["updatedAt", "sessionStartedAt", "compactionCount", "contextTokens", "messages"])
@pytest.mark.parametrize("value", ["5", True, -1, 1e300, float("nan"), float("inf"), [], {}], ids=repr)
def test_a_number_that_is_none_is_not_shown(tmp_path: Path, name: str, value: object) -> None:
    """So what is shown can be reckoned with, and made a date of."""
    save(tmp_path, {"k": {name: value, "sessionId": 7, "name": ["x"], "bytes": None}})
    index = SessionIndex(tmp_path)

    assert index.read()["k"] == {}
    assert len(index.problems) == 3


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"k": {"session', id="half-written"),
        pytest.param(b"[]", id="a-list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"\x00" * 512, id="zeroed"),
        pytest.param(b"[" * 100_000, id="nested-without-end"),
        pytest.param(b"\xff\xfe{\x00}\x00", id="another-encoding"),
    ],
)
def test_a_damaged_index_is_made_anew_of_the_transcripts(tmp_path: Path, content: bytes) -> None:
    """Reading says so and changes nothing; the next update keeps what was there under another name."""
    begin(tmp_path, "a.jsonl", sessionKey="agent:main:main")
    path = save(tmp_path, content)
    index = SessionIndex(tmp_path)

    found = index.read()

    assert files(found) == {"agent:main:main": "a.jsonl"}
    assert "no JSON object" in index.problems[0]
    assert path.read_bytes() == content
    index.update(put("other", messages=1))
    assert stored(tmp_path) == found | {"other": {"messages": 1}}
    assert [copy.read_bytes() for copy in tmp_path.glob("sessions.json.corrupt-*")] == [content]
    index.read()
    assert index.problems == []


@posix_only
@pytest.mark.parametrize("kind", ["link", "folder", "fifo"])
def test_an_index_that_is_no_file_is_a_damaged_one(tmp_path: Path, kind: str) -> None:
    """No link is followed and nothing is waited for; what it pointed to stays as it was."""
    begin(tmp_path, "a.jsonl", sessionKey="k")
    path, elsewhere = tmp_path / "sessions.json", tmp_path / "elsewhere"
    elsewhere.write_bytes(b'{"evil": {}}')
    {"link": lambda: path.symlink_to(elsewhere), "folder": path.mkdir, "fifo": lambda: os.mkfifo(path)}[kind]()
    index = SessionIndex(tmp_path)

    assert files(index.read()) == {"k": "a.jsonl"}
    index.update(lambda entries: entries.pop("k"))

    assert stored(tmp_path) == {}
    assert path.is_file()
    assert not path.is_symlink()
    assert elsewhere.read_bytes() == b'{"evil": {}}'
    assert len(list(tmp_path.glob("sessions.json.corrupt-*"))) == 1


def test_an_index_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    """Opening a session costs no parsing; what is returned is the caller's all the same."""
    path = save(tmp_path, {"k": {"messages": 1}})
    index = SessionIndex(tmp_path)
    index.read()["k"]["messages"] = 5
    path.write_bytes(b'{"k": {"messages": 2}}')
    os.utime(path, (1_700_000_000, 1_700_000_000))

    assert index.read() == {"k": {"messages": 1}}


@pytest.mark.parametrize("change", ["its-time", "its-size", "its-inode"])
def test_a_change_by_another_program_is_seen(tmp_path: Path, change: str) -> None:
    """Whichever of the three gives it away."""
    path = save(tmp_path, {"k": {"messages": 1}})
    index = SessionIndex(tmp_path)
    assert index.read() == {"k": {"messages": 1}}

    if change == "its-inode":
        path.rename(tmp_path / "old")
    save(tmp_path, {"k": {"messages": 22 if change == "its-size" else 2}}, settled=change != "its-time")

    assert index.read() == {"k": {"messages": 22 if change == "its-size" else 2}}


def test_a_change_within_one_tick_of_the_clock_is_seen(tmp_path: Path) -> None:
    """The file system's time cannot tell apart what was written just now."""
    path = save(tmp_path, {"k": {"messages": 1}})
    now = time.time_ns()
    index = SessionIndex(tmp_path)
    for number in (1, 2, 3):
        path.write_bytes(b'{"k": {"messages": %d}}' % number)
        os.utime(path, ns=(now, now))

        assert index.read() == {"k": {"messages": number}}


# -- updating ---------------------------------------------------------------------------------------


def test_what_a_change_leaves_alone_stays_as_another_program_wrote_it(tmp_path: Path) -> None:
    """Unknown keys, entries that are no objects, paths in their own spelling, and the order."""
    content = {
        "z": {"sessionFile": str(tmp_path / "z.jsonl"), "messages": 1.0, "bytes": "?", "theirs": {"deep": [None]}},
        "version": 4,
        "gone": {},
        "list": [1],
        "a": {"contextTokens": None},
    }
    save(tmp_path, content)

    def change(entries: Entries) -> str:
        assert "version" not in entries
        entries["z"]["name"] = "Kitchen"
        entries["z"]["theirs"]["deep"].append(5)
        del entries["gone"]
        entries["new"] = {"sessionId": "n"}
        return "answer"

    assert SessionIndex(tmp_path).update(change) == "answer"

    del content["gone"]
    content["z"] |= {"name": "Kitchen", "theirs": {"deep": [None, 5]}}  # type: ignore[operator]
    assert stored(tmp_path) == content | {"new": {"sessionId": "n"}}
    assert list(stored(tmp_path)) == ["z", "version", "list", "a", "new"]


def test_what_a_change_removes_is_gone(tmp_path: Path) -> None:
    """A value, or an entry and another put in its place."""
    save(tmp_path, {"k": {"name": "x", "messages": 1, "theirs": 1}, "taken": 5})

    def change(entries: Entries) -> None:
        del entries["k"]["name"]
        entries["taken"] = {"messages": 2}

    SessionIndex(tmp_path).update(change)

    assert stored(tmp_path) == {"k": {"messages": 1, "theirs": 1}, "taken": {"messages": 2}}


@pytest.mark.parametrize("content", [b'{"k": {"messages": 1}, "odd": NaN}', b' {"k": {"messages":1} }\n\n', b"{}"])
def test_nothing_is_written_where_nothing_changed(tmp_path: Path, content: bytes) -> None:
    """The file is the same one, byte by byte."""
    path = save(tmp_path, content)
    before = path.stat()

    SessionIndex(tmp_path).update(lambda entries: entries.get("k", {}).update(entries.get("k", {})))

    assert path.read_bytes() == content
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_change_deep_in_an_entry_is_written(tmp_path: Path) -> None:
    """Also where it is the only one."""
    save(tmp_path, {"k": {"theirs": {"deep": [1]}}})

    SessionIndex(tmp_path).update(lambda entries: entries["k"]["theirs"]["deep"].append(2))

    assert stored(tmp_path) == {"k": {"theirs": {"deep": [1, 2]}}}


def test_nothing_is_written_of_no_sessions(tmp_path: Path) -> None:
    """An update of an empty folder that adds nothing leaves no index."""
    SessionIndex(tmp_path).update(lambda entries: None)

    assert not (tmp_path / "sessions.json").exists()


def test_a_missing_index_is_written_with_the_first_update(tmp_path: Path) -> None:
    """So that the transcripts need not be asked again."""
    begin(tmp_path, "a.jsonl", sessionKey="k")
    begin(tmp_path, "b.jsonl")

    SessionIndex(tmp_path).update(lambda entries: None)

    assert files(stored(tmp_path)) == {"k": "a.jsonl", "b": "b.jsonl"}


@posix_only
def test_the_index_is_private(tmp_path: Path) -> None:
    """And so are its lock, and the folder where it was missing."""
    SessionIndex(tmp_path / "new").update(put("k", messages=1))

    modes = {path.name: path.stat().st_mode & 0o777 for path in [tmp_path / "new", *(tmp_path / "new").iterdir()]}
    assert modes == {"new": 0o700, "sessions.json": 0o600, "sessions.json.writer": 0o600}


def test_a_change_that_fails_changes_nothing(tmp_path: Path) -> None:
    """The error comes through, a damaged index stays where it is, and the index can be used."""
    path = save(tmp_path, b"{")
    index = SessionIndex(tmp_path)

    def change(entries: Entries) -> None:
        entries["k"] = {}
        raise KeyError("no")

    with pytest.raises(KeyError):
        index.update(change)
    with pytest.raises(TypeError):
        index.update(put("k", messages=object()))

    assert path.read_bytes() == b"{"
    index.update(put("k", messages=1))
    assert stored(tmp_path) == {"k": {"messages": 1}}
    assert not list(tmp_path.glob("*.tmp"))


def test_an_index_that_others_hold_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, and with the index named; reading needs no lock."""
    monkeypatch.setattr(index_file, "_BUSY_SECONDS", 0.05)
    save(tmp_path, {"k": {}})
    lock = WriterLock(tmp_path / "sessions.json")
    lock.acquire()
    index = SessionIndex(tmp_path)

    with pytest.raises(SessionBusyError, match=r"sessions\.json"):
        index.update(put("k", messages=1))

    assert index.read() == {"k": {}}
    lock.release()
    index.update(put("k", messages=1))
    assert stored(tmp_path) == {"k": {"messages": 1}}


WRITER = """
import sys
from pathlib import Path
from openclaw_ctx.transcript.stores.index import SessionIndex
index, name = SessionIndex(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
input()
def count(entries):
    entries.setdefault("shared", {}).setdefault("messages", 0)
    entries["shared"]["messages"] += 1
for number in range(60):
    index.update(lambda entries: entries.setdefault(f"{name}-{number}", {}).update(messages=number))
    index.update(count)
    assert f"{name}-{number}" in index.read()
"""


def test_processes_that_update_at_once_lose_nothing(tmp_path: Path) -> None:
    """Different keys, and one that all of them count in; each sees its own at once."""
    names = ["a", "b", "c"]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for name in names
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"

    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    codes = [(writer.communicate(), writer.returncode)[1] for writer in writers]

    assert codes == [0, 0, 0]
    expected = {f"{name}-{number}": {"messages": number} for name in names for number in range(60)}
    assert stored(tmp_path) == expected | {"shared": {"messages": 180}}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sessions.json", "sessions.json.writer"]


VALUES = st.none() | st.booleans() | st.integers(-2, 2) | st.just("s-1") | st.just("a.jsonl") | st.just("../a.jsonl")
NAMES = st.sampled_from(["sessionId", "sessionFile", "messages", "name", "theirs"])
ENTRIES = st.dictionaries(NAMES, VALUES, max_size=3)
RAW = st.dictionaries(st.sampled_from("abc"), ENTRIES | VALUES, max_size=3)


@settings(deadline=None, max_examples=60)
@given(RAW, st.dictionaries(st.sampled_from("abc"), st.none() | ENTRIES, max_size=3))
def test_an_update_is_read_again_and_touches_nothing_else(raw: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Whatever is in the file: keys that are not named keep what they had, the others what they were set to."""
    with new_folder() as folder:
        save(folder, raw)
        index = SessionIndex(folder)

        def change(entries: Entries) -> None:
            for key, entry in wanted.items():
                entries.pop(key, None)
                if entry is not None:
                    entries[key] = dict(entry)

        index.update(change)
        index.update(lambda entries: None)

        after = stored(folder)
        assert {key: raw[key] for key in raw if key not in wanted} == {
            key: after[key] for key in after if key not in wanted
        }
        for key, entry in wanted.items():
            if entry is None:
                assert key not in after or not isinstance(raw[key], dict)
            else:
                assert entry.items() <= after[key].items()


# -- made anew --------------------------------------------------------------------------------------


def test_an_entry_is_made_of_a_header(tmp_path: Path) -> None:
    """The id, the file, when it was begun and last written, and its size."""
    size = begin(tmp_path, "a.jsonl", line("e1", None, "hello"), sessionKey="agent:main:main")
    os.utime(tmp_path / "a.jsonl", ns=(0, 1_700_000_000_123_999_999))

    assert rebuild(tmp_path) == {
        "agent:main:main": {
            "sessionId": "s-1",
            "sessionFile": "a.jsonl",
            "sessionStartedAt": 1_763_681_630_805,
            "updatedAt": 1_700_000_000_123,
            "bytes": size,
        }
    }


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(as_bytes([HEADER]), id="a-header-without-a-key"),
        pytest.param(as_bytes([HEADER | {"sessionKey": ""}]), id="an-empty-key"),
        pytest.param(as_bytes([HEADER | {"sessionKey": 5}]), id="a-key-that-is-a-number"),
        pytest.param(as_bytes([line("e1", None, "x") | {"sessionKey": "k"}]), id="no-header"),
        pytest.param(b"[1]\n", id="a-list"),
        pytest.param(b"not json\n", id="no-json"),
        pytest.param(b"\n" + as_bytes([HEADER | {"sessionKey": "k"}]), id="an-empty-first-line"),
        pytest.param(as_bytes([HEADER | {"sessionKey": "k", "pad": "x" * (1 << 20)}]), id="a-line-without-end"),
    ],
)
def test_a_transcript_that_names_no_key_goes_by_its_stem(tmp_path: Path, content: bytes) -> None:
    """Another program's, an older one, a damaged one: it is listed, and what it lacks is left out."""
    (tmp_path / "s-topic-4.jsonl").write_bytes(content)

    assert files(rebuild(tmp_path)) == {"s-topic-4": "s-topic-4.jsonl"}


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""], ids=["lf", "crlf", "none"])
def test_a_header_is_read_whatever_is_around_it(tmp_path: Path, end: bytes) -> None:
    """A byte order mark, any end of line, none at all, and thousands of bytes."""
    header = json.dumps(HEADER | {"cwd": "x" * 20_000, "sessionKey": "k\u2028 漢"}, ensure_ascii=False)
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + header.encode() + end)

    assert files(rebuild(tmp_path)) == {"k\u2028 漢": "a.jsonl"}


def test_an_empty_file_is_no_session(tmp_path: Path) -> None:
    """It was opened, and nothing was said."""
    (tmp_path / "a.jsonl").write_bytes(b"")

    assert rebuild(tmp_path) == {}


def test_stems_that_are_keys_of_others_make_way(tmp_path: Path) -> None:
    """No session hides another."""
    begin(tmp_path, "a.jsonl", sessionKey="b")
    begin(tmp_path, "b.jsonl")
    begin(tmp_path, "c.jsonl", sessionKey="b.jsonl")

    assert files(rebuild(tmp_path)) == {"b": "a.jsonl", "b.jsonl": "c.jsonl", "b.jsonl.jsonl": "b.jsonl"}


def test_a_rotation_is_followed_while_the_old_transcript_has_not_grown(tmp_path: Path) -> None:
    """Where it has, the host went on in it: the successor was never adopted."""
    size = begin(tmp_path, "a.jsonl", sessionKey="k")
    begin_rotated(tmp_path, "b.jsonl", "a.jsonl", size)
    assert files(rebuild(tmp_path)) == {"k": "b.jsonl"}

    begin(tmp_path, "a.jsonl", line("e1", None, "later"), sessionKey="k")

    assert files(rebuild(tmp_path)) == {"k": "a.jsonl"}


def test_a_successor_counts_when_what_it_followed_is_gone(tmp_path: Path) -> None:
    """Superseded transcripts are removed after a while; the one that was made of most of it is the last."""
    begin_rotated(tmp_path, "b.jsonl", "a.jsonl", 200)
    begin_rotated(tmp_path, "c.jsonl", "a.jsonl", 100, line("e1", None, "it grew, and was never adopted"))

    assert files(rebuild(tmp_path)) == {"k": "b.jsonl"}


def test_of_two_successors_the_one_that_went_on_counts(tmp_path: Path) -> None:
    """A first rotation was cut off before it was adopted, and a second one made of the same."""
    size = begin(tmp_path, "a.jsonl", sessionKey="k")
    begin_rotated(tmp_path, "c.jsonl", "a.jsonl", size)
    begin_rotated(tmp_path, "b.jsonl", "a.jsonl", size, line("e1", None, "went on"))

    assert files(rebuild(tmp_path)) == {"k": "b.jsonl"}


def test_a_fork_is_no_successor(tmp_path: Path) -> None:
    """It has a key of its own, and the session that it was made of keeps its own; whose it is comes back too."""
    size = begin(tmp_path, "a.jsonl", sessionKey="k")
    begin(tmp_path, "b.jsonl", sessionKey="fork", parentSession="a.jsonl", parentBytes=size, forkedFrom="k")

    found = rebuild(tmp_path)

    assert files(found) == {"k": "a.jsonl", "fork": "b.jsonl"}
    assert (found["fork"]["forkedFromParent"], found["fork"]["previousFile"]) == ("k", "a.jsonl")


@pytest.mark.parametrize("size", [None, "7", True, -1, 1.0], ids=repr)
def test_a_successor_that_does_not_say_of_how_much_is_not_believed(tmp_path: Path, size: object) -> None:
    """Neither file is hidden by the other."""
    begin(tmp_path, f"{safe_name('k')}.jsonl", sessionKey="k")
    begin(tmp_path, "b.jsonl", sessionKey="k", parentSession=f"{safe_name('k')}.jsonl", parentBytes=size)

    assert files(rebuild(tmp_path)) == {"k": f"{safe_name('k')}.jsonl", "b": "b.jsonl"}


def test_a_copy_of_a_transcript_hides_nothing(tmp_path: Path) -> None:
    """The file that is named for the key is its session; the other one is listed by its stem."""
    begin(tmp_path, f"{safe_name('k')}.jsonl", sessionKey="k")
    begin(tmp_path, "z copy.jsonl", line("e1", None, "more"), sessionKey="k")

    assert files(rebuild(tmp_path)) == {"k": f"{safe_name('k')}.jsonl", "z copy": "z copy.jsonl"}


def test_the_last_of_a_chain_counts_though_links_of_it_are_missing(tmp_path: Path) -> None:
    """Removing a superseded transcript by hand brings none that is older back; that one is listed by its stem."""
    begin(tmp_path, f"{safe_name('k')}.jsonl", line("e1", None, "the first, and the largest"), sessionKey="k")
    begin_rotated(tmp_path, "c.jsonl", "b.jsonl", 100)

    assert files(rebuild(tmp_path)) == {"k": "c.jsonl", safe_name("k"): f"{safe_name('k')}.jsonl"}


def test_what_was_put_aside_is_not_looked_at(tmp_path: Path) -> None:
    """Neither as a session nor as the successor of one."""
    size = begin(tmp_path, "a.jsonl", sessionKey="k")
    for reason in ("bak", "reset", "deleted"):
        begin_rotated(tmp_path, f"b.jsonl.{reason}.2026-01-01T00-00-00.000Z", "a.jsonl", size)

    assert files(rebuild(tmp_path)) == {"k": "a.jsonl"}


def test_rings_and_themselves_end(tmp_path: Path) -> None:
    """Headers that name each other in a circle leave one session, not none."""
    begin_rotated(tmp_path, "self.jsonl", "self.jsonl", 5)
    assert files(rebuild(tmp_path)) == {"k": "self.jsonl"}
    (tmp_path / "self.jsonl").unlink()

    size = begin_rotated(tmp_path, "a.jsonl", "b.jsonl", 111)
    assert begin_rotated(tmp_path, "b.jsonl", "a.jsonl", size) == size
    begin_rotated(tmp_path, "a.jsonl", "b.jsonl", size)

    assert len(rebuild(tmp_path)) == 1


def test_a_thousand_rotations_are_followed(tmp_path: Path) -> None:
    """To the last one, in any order of names."""
    size = begin(tmp_path, "0.jsonl", sessionKey="k")
    for number in range(1, 1_001):
        size = begin_rotated(tmp_path, f"{number}.jsonl", f"{number - 1}.jsonl", size)

    assert files(rebuild(tmp_path)) == {"k": "1000.jsonl"}


STEPS = st.tuples(st.sampled_from(["cut off", "adopted"]), st.booleans())


@settings(deadline=None, max_examples=100)
@given(st.lists(STEPS, max_size=6), st.permutations("abcdefgh"), st.integers(0, 6))
def test_the_session_is_found_after_any_rotations(steps: list[tuple[str, bool]], names: list[str], gone: int) -> None:
    """
    Adopted or cut off, with messages between them or not.

    Also when the oldest transcripts are gone, and with them what was made of
    them and never adopted: which of two such is the last, no header could tell.
    """
    with new_folder() as folder:
        name, made_of = names.pop(), {}
        old = []
        size = begin(folder, f"{name}.jsonl", sessionKey="k")
        for number, (outcome, speaks) in enumerate(steps):
            successor = names.pop()
            made_of[successor] = name
            born = begin_rotated(folder, f"{successor}.jsonl", f"{name}.jsonl", size)
            if outcome == "adopted":
                old.append(name)
                name, size = successor, born
            if speaks or outcome == "cut off":
                with (folder / f"{name}.jsonl").open("ab") as file:
                    size += file.write(as_bytes([line(f"e{number}", None, "x")]))
        for removed in old[:gone]:
            (folder / f"{removed}.jsonl").unlink()
            for leftover in (one for one, parent in made_of.items() if parent == removed and one not in [*old, name]):
                (folder / f"{leftover}.jsonl").unlink()

        assert files(rebuild(folder)) == {"k": f"{name}.jsonl"}


@posix_only
def test_a_transcript_that_may_not_be_read_is_listed(tmp_path: Path) -> None:
    """By its stem: it is there, and whoever opens it is told."""
    begin(tmp_path, "a.jsonl", sessionKey="k")
    (tmp_path / "a.jsonl").chmod(0)

    found = files(rebuild(tmp_path))

    assert found == ({"k": "a.jsonl"} if os.access(tmp_path / "a.jsonl", os.R_OK) else {"a": "a.jsonl"})


# -- transcripts ------------------------------------------------------------------------------------


@posix_only
def test_only_transcripts_of_sessions_are_listed(tmp_path: Path) -> None:
    """Plain files with the names of such; not what stands beside them."""
    uuid = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f"
    yes = ["a.jsonl", "b-topic-1.jsonl", "2026-01-01T00-00-00-000Z_x.jsonl", "checkpoint.jsonl", "x.checkpoint.1.jsonl"]
    no = [
        "sessions.json",
        "a.jsonl.writer",
        "a.jsonl.handover",
        "a.jsonl.0a1b2c3d.tmp",
        "a.jsonl.bak.2026-01-01T00-00-00Z",
        "a.jsonl.deleted.2026-01-01T00-00-00.000Z",
        f"a.checkpoint.{uuid}.jsonl",
        "a.trajectory.jsonl",
        "a.jsonl.corrupt-2026-01-01T00-00-00Z-0a1b2c3d.jsonl",
        ".a.jsonl",
        ".jsonl",
        "a.JSON",
    ]
    for name in yes + no:
        (tmp_path / name).write_bytes(b"{}\n")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "link.jsonl").symlink_to("a.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo.jsonl")

    assert primary_transcripts(tmp_path) == [tmp_path / name for name in sorted(yes)]
    assert primary_transcripts(tmp_path / "none") == []
    assert sorted(files(rebuild(tmp_path)).values()) == sorted(yes)
