"""A transcript that is written: what is acknowledged stays, in order, whatever comes between."""

import json
import os
import random
import stat
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Replacement,
    ToolCallBlock,
    UnknownMessage,
    UserMessage,
    message_from_wire,
)
from openclaw_ctx.errors import OpenClawCtxError, SessionClosedError, TranscriptFormatError
from openclaw_ctx.transcript import Transcript, record_file, rewrite
from tests.contract.wires import MESSAGES
from tests.transcript.sessions import HEADER, as_bytes, chain, ids, line, new_file, opened, say, texts

APPENDABLE = MESSAGES.filter(lambda message: not isinstance(message, CompactionSummaryMessage))
OWN_LINES = CustomMessage | BranchSummaryMessage


# -- what is appended is there ----------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.lists(APPENDABLE, max_size=6))
def test_what_was_appended_is_read_again(messages: list[Any]) -> None:
    """A session that is opened again holds the same messages under the same ids in the same order."""
    with new_file() as path:
        with opened(path) as transcript:
            appended = [transcript.append(message) for message in messages]
            live = list(transcript.record()), list(transcript.history)

        with opened(path) as transcript:
            again = list(transcript.record()), list(transcript.history)

    assert live == again
    assert again[0] == appended
    assert len({message.entry_id for message in appended}) == len(messages)
    for given_, kept in zip(messages, appended, strict=True):
        if isinstance(given_, UnknownMessage) and given_.data["role"] == "hookMessage":
            assert isinstance(kept, CustomMessage)  # a role's name before version 3
            continue
        # A line has a time where a message may have none, and to the millisecond.
        stamp = {"timestamp": kept.timestamp} if isinstance(given_, OWN_LINES) else {}
        assert attrs.evolve(given_, entry_id=kept.entry_id, **stamp) == kept


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), APPENDABLE),
        st.tuples(st.just("compact"), st.none() | st.integers(0, 9)),
        st.tuples(st.just("branch"), st.none() | st.integers(0, 9)),
        st.tuples(st.just("rewrite"), st.integers(0, 9)),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=12,
)


def _picked(transcript: Transcript, number: int | None) -> Any:
    found = transcript.record().entry_ids
    return found[number % len(found)] if number is not None and found else None


def _do(transcript: Transcript, step: str, value: Any) -> None:
    if step == "append":
        transcript.append(value)
    elif step == "compact":
        transcript.append_compaction(
            summary="so far", first_kept_entry_id=_picked(transcript, value), tokens_before=1, details={"n": 1}
        )
    elif step == "branch":
        transcript.branch(_picked(transcript, value))
    elif step == "rewrite" and transcript.record():
        rewrite(transcript, [Replacement(entry_id=_picked(transcript, value), message=say("other words"))])


def _state(transcript: Transcript) -> tuple[Any, ...]:
    return (
        list(transcript.history),
        list(transcript.record()),
        transcript.leaf_id,
        transcript.boundary_id,
        transcript.summarised_count,
        transcript.session_id,
    )


@settings(max_examples=150, deadline=None)
@given(_STEPS)
def test_a_live_session_shows_what_a_reopened_one_shows(steps: list[tuple[str, Any]]) -> None:
    """Whatever was done: the views while it is open, and those after opening it again, are the same."""
    with new_file() as path:
        transcript = Transcript.open(path)
        views = []
        for step, value in [*steps, ("append", say("the last word"))]:
            views.append((transcript.history, transcript.history.entry_ids))
            before = path.read_bytes()
            if step == "reopen":
                transcript.close()
                views.clear()
                transcript = Transcript.open(path)
            else:
                _do(transcript, step, value)
            assert path.read_bytes().startswith(before)
        seen = [(ids(view), expected) for view, expected in views]
        live = _state(transcript)
        transcript.close()

        with opened(path) as transcript:
            again = _state(transcript)

    assert live == again
    assert all(now == [str(i) for i in then] for now, then in seen)


def test_lines_are_those_of_the_reference_system(tmp_path: Path) -> None:
    """Header, parent chain, ids of 8 hex digits, ISO times; what the model sees beside messages has its own types."""
    with opened(tmp_path / "s.jsonl", cwd="/work") as transcript:
        transcript.append(say("hello"))
        transcript.append(CustomMessage(content="noted", custom_type="note", display=False, timestamp=1763681581544))
        transcript.append(BranchSummaryMessage(summary="went astray", from_id="abc"))
        transcript.append_compaction(summary="hello", first_kept_entry_id=None, tokens_before=7)

    header, *lines = map(json.loads, (tmp_path / "s.jsonl").read_bytes().splitlines())
    assert {"type": "session", "version": 3, "cwd": "/work"}.items() <= header.items()
    assert [item["type"] for item in lines] == ["message", "custom_message", "branch_summary", "compaction"]
    assert [item["parentId"] for item in lines] == [None, *(item["id"] for item in lines[:-1])]
    assert all(len(item["id"]) == 8 and int(item["id"], 16) >= 0 for item in lines)
    assert lines[0]["message"] == {"role": "user", "content": "hello"}
    assert lines[1]["timestamp"] == "2025-11-20T23:33:01.544Z"
    assert lines[1].items() >= {"content": "noted", "customType": "note", "display": False}.items()
    assert lines[2].items() >= {"summary": "went astray", "fromId": "abc"}.items()
    assert lines[3].items() >= {"summary": "hello", "tokensBefore": 7, "firstKeptEntryId": lines[3]["id"]}.items()


def test_a_custom_message_cannot_rename_its_line(tmp_path: Path) -> None:
    """Further fields of a message named like those of a line are kept, and are not the line's."""
    odd = CustomMessage(content="x", extra={"id": "mine", "parentId": "nobody", "type": "session"})
    with opened(tmp_path / "s.jsonl") as transcript:
        transcript.append(say("first"))
        appended = transcript.append(odd)

    with opened(tmp_path / "s.jsonl") as transcript:
        assert list(transcript.record())[1:] == [appended]
    assert appended.extra == odd.extra
    assert appended.entry_id != "mine"


def test_what_the_model_must_not_see_is_in_the_record_only(tmp_path: Path) -> None:
    """A command that is left out of the context is left out before and after opening again, whoever said so."""
    hidden = message_from_wire({"role": "user", "content": "aside", "excludeFromContext": True})
    with opened(tmp_path / "s.jsonl") as transcript:
        transcript.append(BashExecutionMessage(command="ls", exclude_from_context=True))
        transcript.append(hidden)
        transcript.append(say("seen"))
        live = texts(transcript.history)

    with opened(tmp_path / "s.jsonl") as transcript:
        assert live == texts(transcript.history) == ["seen"]
        assert len(transcript.record()) == 3
        assert transcript.summarised_count == 0


def test_a_compaction_is_not_appended_as_a_message(tmp_path: Path) -> None:
    """The call that knows what it keeps is named; nothing is written."""
    with opened(tmp_path / "s.jsonl") as transcript:
        with pytest.raises(TypeError, match="append_compaction"):
            transcript.append(CompactionSummaryMessage(summary="x"))

        assert (tmp_path / "s.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("a\ud800b", id="a-lone-surrogate"),
        pytest.param(float("inf"), id="infinity"),
        pytest.param(float("-inf"), id="minus-infinity"),
        pytest.param(2**64 + 1, id="an-integer-of-more-than-64-bits"),
        pytest.param(10**4000, id="an-integer-of-four-thousand-digits"),
        pytest.param(-1e308, id="a-number-near-the-limit"),
        pytest.param({"": None, "a\x00b": [None, True]}, id="an-empty-name-and-a-nul"),
        pytest.param("\u2028\u2029\u0085\x0b\x0c\x1c\r\n", id="every-separator-of-lines"),
    ],
)
def test_odd_values_come_back_as_they_were(tmp_path: Path, value: Any) -> None:
    """What JSON or one of its codecs has no word for survives an append and two openings."""
    call = AssistantMessage(content=[ToolCallBlock(id="c", name="n", arguments={"v": value})], timestamp=1)
    with opened(tmp_path / "s.jsonl") as transcript:
        transcript.append(call)
    with opened(tmp_path / "s.jsonl") as transcript:
        transcript.append(say("next"))

    with opened(tmp_path / "s.jsonl") as transcript:
        found, following = transcript.record()

    assert found.content == call.content
    assert following.text == "next"


def test_not_a_number_is_still_none_after_opening_again(tmp_path: Path) -> None:
    """NaN is not written as null."""
    with opened(tmp_path / "s.jsonl") as transcript:
        transcript.append(AssistantMessage(content="", usage={"cost": float("nan"), "more": None}))

    with opened(tmp_path / "s.jsonl") as transcript:
        (found,) = transcript.record()

    assert found.usage["cost"] != found.usage["cost"]
    assert found.usage["more"] is None


@pytest.mark.parametrize("text", ["a\u2028b\u2029c\u0085d\x0be\x0cf"], ids=["all-five"])
def test_only_a_newline_ends_a_record(tmp_path: Path, text: str) -> None:
    """B18: text with other line separators is one entry, also where a program wrote them unescaped."""
    path = tmp_path / "s.jsonl"
    raw = json.dumps(line("e1", None, text), ensure_ascii=False).replace("\\u000b", "\x0b").replace("\\f", "\x0c")
    path.write_bytes(as_bytes([HEADER, raw.encode()]))

    with opened(path) as transcript:
        transcript.append(say(text))
        transcript.append(say("and on"))

    with opened(path) as transcript:
        assert texts(transcript.history) == [text, text, "and on"]
        assert transcript.take_warnings() == []


# -- what a crash leaves ----------------------------------------------------------------------------


def test_a_tail_torn_anywhere_costs_the_torn_record_only() -> None:
    """B16: wherever a record is cut, also inside a character, what stands before it is kept once and in order."""
    good = as_bytes([HEADER, *chain("one", "two", "three")])
    record = json.dumps(line("e4", "e3", "vier 漢 \U0001f600"), ensure_ascii=False).encode()

    for cut in range(1, len(record)):
        with new_file(good + record[:cut]) as path:
            with opened(path) as transcript:
                assert len(transcript.take_warnings()) == 1
                assert path.read_bytes() == good + record[:cut]
                appended = transcript.append(say("five"))
                live = texts(transcript.history)

            with opened(path) as transcript:
                assert live == texts(transcript.history) == ["one", "two", "three", "five"]
                assert transcript.take_warnings() == []
            lines = path.read_bytes().splitlines()
            (copy,) = path.parent.glob("session.jsonl.torn-*")
            assert path.read_bytes().startswith(good)
            assert json.loads(lines[-1])["parentId"] == "e3"
            assert json.loads(lines[-1])["id"] == appended.entry_id
            assert copy.read_bytes() == record[:cut]


def test_a_record_without_its_newline_is_kept(tmp_path: Path) -> None:
    """B16: only the newline is missing, so nothing is lost and nobody need be warned."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("one", "two")]).rstrip(b"\n"))

    with opened(path) as transcript:
        transcript.append(say("three"))
        warnings = transcript.take_warnings()

    with opened(path) as transcript:
        assert texts(transcript.history) == ["one", "two", "three"]
    assert warnings == []


def test_a_header_torn_anywhere_does_not_stop_the_session() -> None:
    """A crash during the very first write: what is left is kept in a copy, and a session begins."""
    header = json.dumps(HEADER).encode()

    for cut in range(1, len(header) + 1):
        with new_file(header[:cut]) as path:
            with opened(path) as transcript:
                transcript.append(say("hello"))

            with opened(path) as transcript:
                assert texts(transcript.history) == ["hello"]
                assert transcript.take_warnings() == []
            assert path.read_bytes().startswith(b'{"type"')


def test_a_zeroed_tail_is_cut_off(tmp_path: Path) -> None:
    """A power cut leaves NUL bytes at the end; the next record does not follow them on their line."""
    path = tmp_path / "s.jsonl"
    good = as_bytes([HEADER, *chain("one")])
    path.write_bytes(good + b"\x00" * 300)

    with opened(path) as transcript:
        transcript.append(say("two"))

    with opened(path) as transcript:
        assert texts(transcript.history) == ["one", "two"]
    assert b"\x00" not in path.read_bytes()


_DAMAGE = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            as_bytes([HEADER]),
            as_bytes(chain("one", "two")),
            b'{"type":"message","id":"e1","parentId":"e1","message":{"role":"user","content":"\xff\xfe"}}\n',
            b'{"type":"message","id":7,"parentId":{},"message":[]}\n',
            b'{"type":"compaction","id":"c","parentId":"e2","summary":5,"firstKeptEntryId":["e1"]}\n',
            b'{"type":"message","message":' + b"[" * 3000 + b"]" * 3000 + b"}\n",
            b'{"type":"message","id":"d","message":{"role":"user","content":' + b"[" * 700 + b"]" * 700 + b"}}\n",
            b'{"type":"message","id":"n","message":{"role":"user","content":"x","timestamp":' + b"9" * 5000 + b"}}\n",
            '{"type":"message","id":"o","\uffffo":3,"\uffffl":5,"\uffffm":"no message"}\n'.encode(),
            b'{"type":"reset","id":"r","parentId":"e2","firstKeptEntryId":"e1"}\n',
            b'{"type":"custom_message","id":"u","parentId":"e1","content":{"a":1},"timestamp":"never"}\n',
            b'{"type":"branch_summary","id":"b","parentId":"e1","summary":"x","fromId":4}\n',
            b'{"type":"session","id":"other","version":1e3}\n{"type":"session","version":"4","id":"x"}\n',
            b'\xef\xbb\xbf{"type":"session","version":true,"id":"x"}\r\n',
            b"[1,2]\nnull\n5\n\x00\x00\n \t\r\n",
        ]
    ),
)


@settings(max_examples=250, deadline=None)
@given(st.lists(_DAMAGE, max_size=6), st.integers(0, 12))
def test_any_bytes_open_and_are_left_alone_until_an_append(parts: list[bytes], cut: int) -> None:
    """Whatever a file holds, opening and reading it raises nothing of Python's and changes nothing on disk."""
    content = b"".join(parts)
    content = content[: max(0, len(content) - cut)]
    with new_file(content) as path:
        try:
            transcript = Transcript.open(path)
        except OpenClawCtxError:
            assert path.read_bytes() == content
            return
        before = [*transcript.record()], [*transcript.history]
        assert path.read_bytes() == content
        transcript.append(say("go on"))
        live = [*transcript.record()], [*transcript.history]
        transcript.close()

        with opened(path) as transcript:
            again = [*transcript.record()], [*transcript.history]

    assert [message.entry_id for message in live[0][:-1]] == [message.entry_id for message in before[0]]
    assert [message.entry_id for message in live[1]] == [message.entry_id for message in again[1]]
    assert live[0][-1].text == again[0][-1].text == "go on"


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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows removes no open file")
def test_an_append_to_a_file_that_was_removed_is_refused(tmp_path: Path) -> None:
    """Nothing is acknowledged that nobody could read again."""
    path = tmp_path / "s.jsonl"
    with opened(path) as transcript:
        transcript.append(say("one"))
        path.unlink()

        with pytest.raises(FileNotFoundError, match=r"s\.jsonl"):
            transcript.append(say("two"))


# -- views, threads, closing ------------------------------------------------------------------------


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
        begun, outcome = threading.Event(), []

        def read(view: Any = view, begun: Any = begun, outcome: Any = outcome) -> None:
            try:
                for message in view:
                    outcome.append(message.text)
                    begun.set()
            except Exception as error:  # noqa: BLE001 -- whatever a thread gets is what is looked at
                outcome.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        begun.wait()
        transcript.close()
        files = [other.open("rb") for _ in range(4)]  # one of them gets the descriptor
        reader.join()
        for file in files:
            file.close()

        *found, last = outcome
        assert found == [f"text {i}" for i in range(1, len(found) + 1)]
        assert isinstance(last, SessionClosedError)


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


# -- the tree ---------------------------------------------------------------------------------------


def _kept(number: int) -> Callable[[Transcript], Any]:
    return lambda transcript: transcript.record().entry_ids[number]


@pytest.mark.parametrize(
    "kept,expected,summarised",
    [
        pytest.param(_kept(2), ["summary", "2", "3", "after"], 2, id="kept-from-the-third-on"),
        pytest.param(_kept(0), ["summary", "0", "1", "2", "3", "after"], 0, id="all-kept"),
        pytest.param(lambda _: None, ["summary", "after"], 4, id="nothing-kept"),
        pytest.param(lambda _: "nobody", ["summary", "after"], 4, id="kept-from-an-unknown-entry"),
    ],
)
def test_the_context_is_summary_kept_and_following(
    tmp_path: Path, kept: Callable[[Transcript], Any], expected: list[str], summarised: int
) -> None:
    """A compaction folds what lies before its first kept entry; the record keeps all of it."""
    with opened(tmp_path / "s.jsonl") as transcript:
        for number in range(4):
            transcript.append(say(str(number)))
        boundary = transcript.append_compaction(
            summary="summary", first_kept_entry_id=kept(transcript), tokens_before=9
        )
        transcript.append(say("after"))

        assert texts(transcript.history) == expected
        assert transcript.history[0].entry_id == transcript.boundary_id == boundary
        assert transcript.summarised_count == summarised
        assert texts(transcript.record()) == ["0", "1", "2", "3", "after"]


def test_only_the_last_boundary_matters(tmp_path: Path) -> None:
    """An earlier summary inside what a later one keeps is not shown again."""
    with opened(tmp_path / "s.jsonl") as transcript:
        for text in "abc":
            kept = transcript.append(say(text)).entry_id
        transcript.append_compaction(summary="first", first_kept_entry_id=kept, tokens_before=1)
        transcript.append(say("d"))
        transcript.append_compaction(summary="second", first_kept_entry_id=kept, tokens_before=1)
        transcript.append(say("e"))

        assert texts(transcript.history) == ["second", "c", "d", "e"]
        assert transcript.summarised_count == 2


def test_the_record_behind_an_entry_is_what_came_later(tmp_path: Path) -> None:
    """Any entry of the branch will do, a compaction too; an id that nobody knows gives everything."""
    with opened(tmp_path / "s.jsonl") as transcript:
        first = transcript.append(say("a")).entry_id
        transcript.append(say("b"))
        boundary = transcript.append_compaction(summary="s", first_kept_entry_id=None, tokens_before=1)
        last = transcript.append(say("c")).entry_id

        assert texts(transcript.record(after=first)) == ["b", "c"]
        assert texts(transcript.record(after=boundary)) == ["c"]
        assert texts(transcript.record(after=last)) == []
        assert texts(transcript.record(after="nobody")) == ["a", "b", "c"]
        assert texts(transcript.record(limit=2)) == ["a", "b"]
        assert texts(transcript.record(after=first, limit=1)) == ["b"]
        assert texts(transcript.record(limit=0)) == texts(transcript.record(limit=-3)) == []
        assert texts(transcript.record(limit=99)) == ["a", "b", "c"]


def test_a_branch_leaves_the_other_one_in_the_file(tmp_path: Path) -> None:
    """Going on from an earlier entry hides what followed it and removes nothing; none begins a new root."""
    path = tmp_path / "s.jsonl"
    with opened(path) as transcript:
        first, second = transcript.append(say("a")), transcript.append(say("b"))
        transcript.branch(first.entry_id)
        third = transcript.append(say("c"))

        assert texts(transcript.history) == ["a", "c"]
        assert transcript.has_entry(first.entry_id)
        assert not transcript.has_entry(second.entry_id)
        assert not transcript.has_entry("nobody")
        assert transcript.nearest_on_branch(second.entry_id) == first.entry_id
        assert transcript.nearest_on_branch(third.entry_id) == third.entry_id
        assert transcript.nearest_on_branch("nobody") is None
        transcript.branch(None)
        transcript.append(say("d"))
    with opened(path) as transcript:
        assert texts(transcript.history) == ["d"]
        transcript.branch(second.entry_id)
        assert texts(transcript.history) == ["a", "b"]
    assert len(path.read_bytes().splitlines()) == 5


def test_a_branch_from_an_entry_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    """A mistaken id must not empty the context in silence."""
    with opened(tmp_path / "s.jsonl") as transcript:
        transcript.append(say("a"))

        with pytest.raises(LookupError, match="nobody"):
            transcript.branch("nobody")

        assert texts(transcript.history) == ["a"]


def test_an_id_is_never_given_twice(tmp_path: Path) -> None:
    """Ids are 8 hex digits, and a longer one where such an id is taken."""
    with opened(tmp_path / "s.jsonl") as transcript:

        class Everything:
            def __contains__(self, item: object) -> bool:
                return len(str(item)) == 8

        assert len(transcript.new_id()) == 8
        assert len(transcript.new_id(Everything())) == 36


def test_session_ids_are_in_the_order_of_time(tmp_path: Path) -> None:
    """A session's id sorts behind that of every session that began a millisecond earlier."""
    found = []
    for number in range(3):
        with opened(tmp_path / f"{number}.jsonl") as transcript:
            found.append(transcript.session_id)

    assert all(a.split("-")[2][0] == "7" for a in found)
    assert all(a[:13] <= b[:13] for a, b in pairwise(found))


def test_no_file_is_held_after_a_refused_opening(tmp_path: Path) -> None:
    """A second opening is refused without letting go of the first one's lock, and a third after it works."""
    path = tmp_path / "s.jsonl"
    with opened(path) as transcript:
        with pytest.raises(OpenClawCtxError):
            Transcript.open(path)
        transcript.append(UserMessage(content="still ours"))

    with opened(path) as transcript:
        assert texts(transcript.history) == ["still ours"]
