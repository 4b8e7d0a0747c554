"""Views of an open transcript: read in any thread, at any time, until it is closed."""

import json
import random
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from openclaw_ctx.errors import SessionClosedError
from openclaw_ctx.transcript import Transcript, record_file
from tests.transcript.sessions import HEADER, as_bytes, chain, opened, say, texts


def test_views_stay_readable_while_an_old_file_is_written_anew(tmp_path: Path) -> None:
    """A view made before the migration reads its own messages after it, though every line has moved."""
    path = tmp_path / "s.jsonl"
    old = [{"type": "message", "message": {"role": "user", "content": f"m{i}" * (i + 1)}} for i in range(5)]
    path.write_bytes(as_bytes([{"type": "session", "id": "s"}, *old]))
    with opened(path) as transcript:
        view, part = transcript.history, transcript.record()[1:4]

        transcript.append(say("new"))

        assert texts(view) == [f"m{i}" * (i + 1) for i in range(5)]
        assert texts(part) == texts(view)[1:4]


def test_after_closing_unread_messages_are_refused(tmp_path: Path) -> None:
    """What was read stays; what was not raises an error that says what to do; closing twice does nothing."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("one", "two")]))
    transcript = Transcript.open(path)
    view = transcript.history
    read = view[0]

    transcript.close()
    transcript.close()

    assert view[0] is read
    with pytest.raises(SessionClosedError, match="is closed"):
        _ = view[1]
    with pytest.raises(SessionClosedError):
        transcript.append(say("three"))
    with pytest.raises(SessionClosedError):
        transcript.append_compaction(summary="x", first_kept_entry_id=None, tokens_before=1)


def test_closing_under_a_reader_never_gives_it_another_files_bytes(tmp_path: Path) -> None:
    """A thread that reads while the session closes gets right messages, and then the error; nothing else."""
    path, other = tmp_path / "s.jsonl", tmp_path / "other"
    path.write_bytes(as_bytes([HEADER, *chain(*(f"text {i}" for i in range(1, 4001)))]))
    other.write_bytes(b'{"type":"message","id":"bad","message":{"role":"user","content":"garbage"}}\n' * 9000)

    for _ in range(3):
        transcript = Transcript.open(path)
        view = transcript.history
        begun, closed, outcome = threading.Event(), threading.Event(), []

        def read(view: Any = view, begun: Any = begun, closed: Any = closed, outcome: Any = outcome) -> None:
            try:
                for number, message in enumerate(view, 2):
                    outcome.append(message.text)
                    begun.set()
                    if number == len(view):
                        closed.wait()  # the reader may be the faster one, and not to the end
            except Exception as error:  # noqa: BLE001 -- whatever a thread gets is what is looked at
                outcome.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        begun.wait()
        transcript.close()
        files = [other.open("rb") for _ in range(4)]  # one of them gets the descriptor
        closed.set()
        reader.join()
        for file in files:
            file.close()

        *found, last = outcome
        assert found == [f"text {i}" for i in range(1, len(found) + 1)]
        assert isinstance(last, SessionClosedError)


def test_a_line_is_read_under_the_lock_that_closing_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The descriptor cannot become another file's between looking it up and reading from it."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("1", "2")]))
    held: list[bool] = []
    with opened(path) as transcript:
        file, read_at = transcript._record._file, record_file._read_at

        def watched(*arguments: int) -> bytes:
            held.append(file._lock.locked())
            return read_at(*arguments)

        monkeypatch.setattr(record_file, "_read_at", watched)
        assert texts(transcript.history) == ["1", "2"]

    assert held == [True, True]


def test_threads_that_append_at_once_make_one_chain(tmp_path: Path) -> None:
    """Nobody's message is lost, and none is on a dead branch."""
    path = tmp_path / "s.jsonl"
    with opened(path) as transcript:
        threads = [
            threading.Thread(target=lambda n=n: [transcript.append(say(f"{n}-{i}")) for i in range(50)])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with opened(path) as transcript:
        found = texts(transcript.record())
    assert sorted(found) == sorted(f"{n}-{i}" for n in range(4) for i in range(50))
    assert [item["parentId"] for item in map(json.loads, path.read_bytes().splitlines()[2:])] == [
        item["id"] for item in map(json.loads, path.read_bytes().splitlines()[1:-1])
    ]


def test_opening_does_not_hold_what_the_lines_say(tmp_path: Path) -> None:
    """A file of 30 MB costs a chunk and an object a line; reading two of its messages costs those two."""
    path = tmp_path / "s.jsonl"
    filler = "x" * 30_000
    path.write_bytes(as_bytes([HEADER, *chain(*[filler] * 1000)]))
    tracemalloc.start()
    try:
        with opened(path) as transcript:
            assert [message.text == filler for message in transcript.history[-2:]] == [True, True]
            _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert path.stat().st_size > 30_000_000
    assert peak < 4_000_000


def test_without_pread_messages_are_read_by_seeking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no pread: lines are read by seeking, in any order and between appends."""
    monkeypatch.setattr(record_file, "_read_at", record_file._seek_and_read)
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain(*map(str, range(50)))]) + b'{"torn')
    with opened(path) as transcript:
        order = list(range(50))
        random.Random(7).shuffle(order)  # noqa: S311 -- an order, no secret
        for number in order:
            assert transcript.record()[number].text == str(number)
            transcript.append(say(f"after {number}"))

        (copy,) = tmp_path.glob("*.torn-*")
        assert copy.read_bytes() == b'{"torn'
        assert texts(transcript.record())[50:] == [f"after {number}" for number in order]


def test_a_durable_session_is_written_like_any_other(tmp_path: Path) -> None:
    """Waiting for the disk changes when an append returns, and nothing else."""
    with opened(tmp_path / "new" / "s.jsonl", durable=True) as transcript:
        appended = [transcript.append(say(str(number))) for number in range(3)]

    with opened(tmp_path / "new" / "s.jsonl") as transcript:
        assert list(transcript.history) == appended
