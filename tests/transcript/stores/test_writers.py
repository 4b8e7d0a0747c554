"""Several processes at one session: one chain, nothing lost, nothing twice."""

import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from openclaw_ctx.contract import Replacement, SessionKey
from openclaw_ctx.transcript import FileStore, Transcript, rewrite
from openclaw_ctx.transcript.file_record import FileRecord
from tests.transcript.sessions import say, texts

_KEY = SessionKey("shared")
_EACH = 1_000


_LOCKED = """
import sys, time
from contextlib import closing
from pathlib import Path
from openclaw_ctx.contract import SessionKey, UserMessage
from openclaw_ctx.errors import SessionBusyError
from openclaw_ctx.transcript import FileStore

store, name, count, held, done = FileStore(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), 0
while done < count:
    try:
        transcript = store.open(SessionKey("shared"))
    except SessionBusyError:
        time.sleep(0.0005)
        continue
    with closing(transcript):
        for _ in range(min(held, count - done)):
            transcript.append(UserMessage(content=f"{name} {done}"))
            done += 1
"""
# A program that knows of no lock: each line behind the last one that it saw.
_UNLOCKED = """
import json, sys
from pathlib import Path

path = Path(sys.argv[1])
for number in range(int(sys.argv[2])):
    for tries_left in range(999, -1, -1):
        try:
            last = json.loads(path.read_bytes().rstrip(b"\\n").rpartition(b"\\n")[2])
            break
        except ValueError:  # seen while it was written
            if not tries_left:
                raise
    line = {"type": "message", "id": f"f{number:07d}", "parentId": last["id"], "timestamp": "2026-01-01T00:00:00Z"}
    with path.open("ab", buffering=0) as file:
        file.write(json.dumps(line | {"message": {"role": "user", "content": f"foreign {number}"}}).encode() + b"\\n")
"""


def _start(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)])


def test_two_processes_with_a_thousand_messages_each_make_one_chain(tmp_path: Path) -> None:
    """B21: the second is refused while the first writes; when its turn comes it goes on from the newest entry."""
    left, right = _start(_LOCKED, tmp_path, "left", _EACH, 7), _start(_LOCKED, tmp_path, "right", _EACH, 3)

    assert (left.wait(120), right.wait(120)) == (0, 0)

    with closing(FileStore(tmp_path).read(_KEY)) as transcript:
        record = transcript.record()
        said = texts(record)
        branch = transcript.active_branch()
    assert Counter(said) == Counter([f"{name} {i}" for name in ("left", "right") for i in range(_EACH)])
    assert len(set(record.entry_ids)) == len(branch) == 2 * _EACH
    for name in ("left", "right"):
        assert [text for text in said if text.startswith(name)] == [f"{name} {i}" for i in range(_EACH)]


def test_a_program_without_the_lock_costs_no_line(tmp_path: Path) -> None:
    """B21: whatever the two do, every line stays readable, and what is said last is what the session goes on from."""
    path = tmp_path / "s.jsonl"
    with closing(Transcript.open(path)) as transcript:
        transcript.append(say("first"))
        process = _start(_UNLOCKED, path, 200)
        ours = 0
        while process.poll() is None or ours < 200:
            transcript.append(say(f"ours {ours}"))
            ours += 1
        assert process.wait(60) == 0

    with closing(Transcript.open(path)) as transcript:
        everything = [data["message"]["content"] for entry, data in transcript.entries() if entry.type == "message"]
        assert transcript.take_warnings() == []
        transcript.append(say("last"))
        assert texts(transcript.record())[-1] == "last"
    assert Counter(everything) == Counter(
        ["first", *(f"ours {i}" for i in range(ours)), *(f"foreign {i}" for i in range(200))]
    )


def test_a_line_that_is_being_written_is_no_torn_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without the lock is seen in the middle of its line, and ends it while a crash is being tidied up."""
    path = tmp_path / "s.jsonl"
    with closing(Transcript.open(path)) as transcript:
        transcript.append(say("first"))
        line = b'{"type":"message","id":"f0000001","parentId":null,"timestamp":"2026-01-01T00:00:00Z",'
        rest = b'"message":{"role":"user","content":"foreign"}}\n'
        with path.open("ab") as file:
            file.write(line)
        keep_copy = FileRecord._keep_copy

        def go_on(record: FileRecord, why: str, offset: int, length: int) -> None:
            keep_copy(record, why, offset, length)
            monkeypatch.setattr(FileRecord, "_keep_copy", keep_copy)
            with path.open("ab") as file:
                file.write(rest + line.replace(b"f0000001", b"f0000002") + rest)

        monkeypatch.setattr(FileRecord, "_keep_copy", go_on)
        transcript.append(say("ours"))

    with closing(Transcript.open(path)) as transcript:
        everything = [data["message"]["content"] for entry, data in transcript.entries() if entry.type == "message"]
        assert everything == ["first", "foreign", "foreign", "ours"]


@pytest.mark.parametrize("times", [pytest.param(20, id="twenty-rewrites")])
def test_a_rewrite_that_races_an_append_loses_neither(tmp_path: Path, times: int) -> None:
    """B21: what somebody wrote before the rewrite took hold is behind it, once, and in its place."""
    path = tmp_path / "s.jsonl"
    with closing(Transcript.open(path)) as transcript:
        first = transcript.append(say("draft"))
        transcript.append(say("next"))
        process = _start(_UNLOCKED, path, 100)
        target = first.entry_id
        for number in range(times):
            result = rewrite(transcript, [Replacement(entry_id=target, message=say(f"version {number}"))])
            assert result.changed or result.reason == "no matching message entries"
            target = transcript.record()[0].entry_id
        assert process.wait(60) == 0
        transcript.refresh()

        said = texts(transcript.record())
    with closing(Transcript.open(path)) as transcript:
        assert texts(transcript.record()) == said
        assert transcript.take_warnings() == []
    assert len(said) == len(set(said))
    on_file = path.read_bytes()
    assert all(f'"foreign {number}"'.encode() in on_file for number in range(100))
