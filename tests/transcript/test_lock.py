"""One writer a transcript, among threads, processes and programs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from openclaw_ctx.errors import SessionBusyError, TranscriptFormatError
from openclaw_ctx.transcript import Transcript, WriterLock
from tests.transcript.sessions import opened, say, texts

OTHER = """
import sys
from pathlib import Path
from openclaw_ctx.contract import UserMessage
from openclaw_ctx.transcript import Transcript
transcript = Transcript.open(Path(sys.argv[1]))
print("open", flush=True)
for line in sys.stdin:
    word = line.strip()
    if word == "close":
        transcript.close()
    else:
        transcript.append(UserMessage(content=word))
    print(word, flush=True)
"""

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="clock ticks are Linux's")
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")


class Other:
    """Another process that has a transcript open and does what it is told."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.heard = self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, word: str) -> str:
        """Say what it shall append, or ``close``; return when that is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self._line()


@pytest.fixture(name="other")
def _other() -> Iterator[Callable[[Path], Other]]:
    """Return a function that starts another process with a path open."""
    started: list[Other] = []

    def start(path: Path) -> Other:
        started.append(Other(path))
        assert started[-1].heard == "open"
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


@pytest.fixture(name="ended")
def _ended() -> int:
    """Return the pid of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


# -- our own ----------------------------------------------------------------------------------------


def test_another_process_is_refused_while_one_writes(tmp_path: Path, other: Callable[[Path], Other]) -> None:
    """The error names the file, says how long was waited and what to do; the writer is not disturbed."""
    path = tmp_path / "s.jsonl"
    writer = other(path)

    with pytest.raises(SessionBusyError) as refused:
        Transcript.open(path)

    assert str(path) in str(refused.value)
    assert "acquireTimeoutMs" in str(refused.value)
    assert writer.tell("hello") == "hello"
    writer.tell("close")
    with opened(path) as transcript:
        assert texts(transcript.history) == ["hello"]


def test_a_second_session_in_the_same_process_is_refused(tmp_path: Path) -> None:
    """The lock is not shared and not counted; after closing it is free."""
    path = tmp_path / "s.jsonl"
    with opened(path):
        with pytest.raises(SessionBusyError):
            Transcript.open(path)
        with pytest.raises(SessionBusyError):
            WriterLock(path).acquire(timeout_seconds=0.01)

    with opened(path) as transcript:
        transcript.append(say("free again"))


@posix_only
def test_a_killed_writer_leaves_no_lock(tmp_path: Path, other: Callable[[Path], Other]) -> None:
    """What it had acknowledged is there, and the next writer goes on at once."""
    path = tmp_path / "s.jsonl"
    writer = other(path)
    for number in range(20):
        writer.tell(f"m{number}")

    writer.process.send_signal(signal.SIGKILL)
    writer.process.wait()

    with opened(path) as transcript:
        assert texts(transcript.history) == [f"m{number}" for number in range(20)]
        assert transcript.take_warnings() == []


def test_a_waiting_writer_begins_when_the_other_one_ends(tmp_path: Path, other: Callable[[Path], Other]) -> None:
    """It has then read what the other one wrote."""
    path = tmp_path / "s.jsonl"
    writer = other(path)
    found: list[Any] = []

    def wait() -> None:
        with opened(path, timeout_seconds=60) as transcript:
            found.extend(texts(transcript.history))

    waiting = threading.Thread(target=wait)
    waiting.start()
    writer.tell("first")
    writer.tell("close")
    waiting.join()

    assert found == ["first"]


def test_two_processes_that_take_turns_make_one_chain(tmp_path: Path, other: Callable[[Path], Other]) -> None:
    """B21: every line parses, ids are unique, and each entry follows the one before it."""
    path = tmp_path / "s.jsonl"
    for number in range(3):
        writer = other(path)
        writer.tell(f"other {number}")
        writer.tell("close")
        with opened(path) as transcript:
            transcript.append(say(f"ours {number}"))

    _, *lines = map(json.loads, path.read_bytes().splitlines())
    assert [item["message"]["content"] for item in lines] == [
        f"{who} {number}" for number in range(3) for who in ("other", "ours")
    ]
    assert [item["parentId"] for item in lines] == [None, *(item["id"] for item in lines[:-1])]


def test_a_file_that_cannot_be_opened_stays_unlocked(tmp_path: Path) -> None:
    """A failure behind the lock lets go of it."""
    path = tmp_path / "s.jsonl"
    path.mkdir()

    with pytest.raises(TranscriptFormatError):
        Transcript.open(path)

    path.rmdir()
    with opened(path) as transcript:
        assert len(transcript.history) == 0


def test_closing_twice_takes_no_lock_from_another(tmp_path: Path) -> None:
    """The second close of one session leaves the lock of the next one alone."""
    path = tmp_path / "s.jsonl"
    first = Transcript.open(path)
    first.close()
    with opened(path):
        first.close()

        with pytest.raises(SessionBusyError):
            Transcript.open(path)


# -- another program's ------------------------------------------------------------------------------


def foreign(path: Path, content: object, *, age_seconds: float = 0) -> Path:
    """Write the lock file of another program."""
    lock = path.with_name(path.name + ".lock")
    lock.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    moment = time.time() - age_seconds
    os.utime(lock, (moment, moment))
    return lock


def this_process() -> dict[str, Any]:
    """Return what a lock of this very process, which lives, would say."""
    return {"pid": os.getpid(), "createdAt": datetime.now(UTC).isoformat().replace("+00:00", "Z")}


def started() -> float:
    """Return when this process began."""
    return psutil.Process().create_time()


def ticks() -> int:
    """Return when this process began, as Linux counts and other programs write."""
    return int(Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19])


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(dict, id="as-it-says"),
        pytest.param(lambda: {"starttime": started()}, id="start-in-seconds"),
        pytest.param(lambda: {"starttime": int(started() * 1000)}, id="start-in-milliseconds"),
        pytest.param(lambda: {"starttime": ticks()}, id="start-in-clock-ticks", marks=linux_only),
        pytest.param(lambda: {"starttime": "unknown"}, id="start-that-is-no-number"),
        pytest.param(lambda: {"createdAt": "never"}, id="no-time-of-the-lock"),
        pytest.param(lambda: {"createdAt": 5, "starttime": None}, id="times-of-other-types"),
        pytest.param(lambda: {"pid": str(os.getpid())}, id="pid-as-text"),
    ],
)
def test_a_foreign_lock_is_honoured_while_its_owner_lives(tmp_path: Path, more: Callable[[], dict[str, Any]]) -> None:
    """Its owner is named; when the lock file is gone the session opens, and ours was not held meanwhile."""
    path = tmp_path / "s.jsonl"
    lock = foreign(path, this_process() | more())

    with pytest.raises(SessionBusyError, match=f"process {os.getpid()}"):
        Transcript.open(path)

    assert not path.exists()
    lock.unlink()
    with opened(path) as transcript:
        transcript.append(say("free"))


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(lambda: {"starttime": started() - 60}, id="start-in-seconds"),
        pytest.param(lambda: {"starttime": int((started() + 60) * 1000)}, id="start-in-milliseconds"),
        pytest.param(lambda: {"starttime": max(1, ticks() - 6000)}, id="start-in-clock-ticks", marks=linux_only),
        pytest.param(
            lambda: {"createdAt": (datetime.fromtimestamp(started(), UTC) - timedelta(minutes=1)).isoformat()},
            id="written-before-the-process-began",
        ),
    ],
)
def test_a_foreign_lock_of_a_pid_used_again_is_ignored(tmp_path: Path, more: Callable[[], dict[str, Any]]) -> None:
    """The process with that pid is not the one that wrote the lock."""
    path = tmp_path / "s.jsonl"
    lock = foreign(path, this_process() | more())

    with opened(path) as transcript:
        transcript.append(say("free"))

    assert lock.exists()


def test_a_foreign_lock_of_a_dead_process_is_ignored(tmp_path: Path, ended: int) -> None:
    """It is left where it is: removing it is its program's affair."""
    path = tmp_path / "s.jsonl"
    lock = foreign(path, this_process() | {"pid": ended})

    with opened(path) as transcript:
        transcript.append(say("free"))

    assert lock.exists()


@posix_only
def test_a_foreign_lock_of_a_process_that_waits_to_be_buried_is_ignored(tmp_path: Path) -> None:
    """A zombie has a pid and writes nothing any more: in a container it may stay for ever."""
    path = tmp_path / "s.jsonl"
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    foreign(path, {"pid": process.pid})
    try:
        with pytest.raises(SessionBusyError):
            Transcript.open(path)
        process.kill()
        assert process.stdout is not None
        process.stdout.read()  # its end is closed when it has died, and nobody has waited for it
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
            pass

        with opened(path) as transcript:
            transcript.append(say("free"))
    finally:
        process.communicate()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"pid": 12', id="half-written"),
        pytest.param({"createdAt": "2025-01-01T00:00:00Z"}, id="without-a-pid"),
        pytest.param([1], id="a-list"),
        pytest.param(b"[" * 100_000, id="nested-without-end"),
        pytest.param(b'{"pid": 1e999}', id="an-infinite-pid"),
        pytest.param(b"\xff\x00", id="no-text"),
    ],
)
def test_a_lock_that_names_nobody_holds_for_half_an_hour(tmp_path: Path, content: object) -> None:
    """It may be one that is being written; its own program takes it for stale after that time."""
    path = tmp_path / "s.jsonl"
    lock = foreign(path, content)
    with pytest.raises(SessionBusyError, match=r"s\.jsonl\.lock"):
        Transcript.open(path)

    foreign(path, content, age_seconds=1801)

    with opened(path) as transcript:
        transcript.append(say("free"))
    assert lock.exists()


@pytest.mark.parametrize("pid", [-1, 0, 2**40, 2**70], ids=str)
def test_a_pid_that_no_process_has_holds_nothing(tmp_path: Path, pid: int) -> None:
    """Whatever number another program wrote, the answer is a session or a busy one, no other error."""
    path = tmp_path / "s.jsonl"
    foreign(path, this_process() | {"pid": pid})

    with contextlib.suppress(SessionBusyError), opened(path) as transcript:
        transcript.append(say("free"))
        assert pid != os.getpid()


def test_waiting_for_a_foreign_lock_takes_ours_once(tmp_path: Path) -> None:
    """However often it was tried, one release lets the next writer in."""
    path = tmp_path / "s.jsonl"
    lock = WriterLock(path)
    file = foreign(path, this_process())
    for _ in range(3):
        with pytest.raises(SessionBusyError):
            lock.acquire()
    file.unlink()

    lock.acquire()
    with pytest.raises(SessionBusyError):
        WriterLock(path).acquire()
    lock.release()

    WriterLock(path).acquire()


def test_a_folder_of_the_locks_name_is_no_lock(tmp_path: Path) -> None:
    """Nothing that cannot be read as a file holds a session."""
    path = tmp_path / "s.jsonl"
    path.with_name("s.jsonl.lock").mkdir()

    with opened(path) as transcript:
        transcript.append(say("free"))


@posix_only
def test_a_fifo_beside_the_transcript_is_no_lock(tmp_path: Path) -> None:
    """Reading it would wait for who writes into it; in a process of its own, for that."""
    os.mkfifo(tmp_path / "s.jsonl.lock")
    program = (
        "import sys, pathlib; from openclaw_ctx.transcript import *; Transcript.open(pathlib.Path(sys.argv[1])).close()"
    )

    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "s.jsonl")], timeout=30, check=False)

    assert done.returncode == 0


def test_processes_are_looked_at_only_for_a_foreign_lock(tmp_path: Path) -> None:
    """What reads the table of processes is dear to import, and a transcript is opened without it."""
    program = (
        "import sys, pathlib; from openclaw_ctx.transcript import *; path = pathlib.Path(sys.argv[1])\n"
        "Transcript.open(path).close(); print('psutil' in sys.modules)\n"
        "path.with_name('s.jsonl.lock').write_text('{\"pid\": 999999999}')\n"
        "Transcript.open(path).close(); print('psutil' in sys.modules)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "s.jsonl")], stdout=subprocess.PIPE, text=True, check=True
    )

    assert done.stdout.split() == ["False", "True"]
