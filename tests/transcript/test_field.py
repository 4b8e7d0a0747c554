"""Faults that people met in the field, held against the real thing."""

import json
import os
import subprocess
import sys
import textwrap
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from openclaw_ctx.contract import AssistantMessage, Replacement, SessionKey, ToolCallBlock
from openclaw_ctx.transcript import FileStore, Transcript, header, rewrite
from openclaw_ctx.transcript.paths import move_file
from tests.transcript.sessions import HEADER, as_bytes, chain, line, opened, say, texts

MB = 1_000_000
KEYS = [
    "agent:main:main",
    "a/b",
    "..\\x",
    "../../x",
    "CON",
    "name.",
    "A",
    "a",
    "k" * 300,
    "日本語",
    ".",
    " ",
    "a:b\x00c",
]


# -- B69: giant records and giant files -------------------------------------------------------------


def test_a_line_of_nine_megabytes_is_a_line_like_any_other(tmp_path: Path) -> None:
    """B69: it is read, followed and rewritten; nothing is dropped in silence."""
    path = tmp_path / "s.jsonl"
    giant = "x" * (9 * MB)
    path.write_bytes(as_bytes([HEADER, *chain("one", giant, "three")]))

    with opened(path) as transcript:
        transcript.append(say("four"))
        rewrite(transcript, [Replacement(entry_id="e2", message=say(giant + "!"))])

    with opened(path) as transcript:
        assert texts(transcript.record()) == ["one", giant + "!", "three", "four"]
        assert transcript.take_warnings() == []


_READ_THE_END = """
import resource, sys
from pathlib import Path
from openclaw_ctx.contract import UserMessage
from openclaw_ctx.transcript import Transcript

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

before = most()
transcript = Transcript.open(Path(sys.argv[1]))
tokens = 0
for message in reversed(transcript.history):
    tokens += len(message.text) // 4
    if tokens > 8_000:
        break
transcript.append(UserMessage(content="and on"))
after = most()
told = len(transcript.record(after=transcript.history[-2].entry_id))
transcript.close()
print(after - before, tokens, told)
"""


def _write_giant(path: Path, *, lines: int, size: int, longest: int) -> None:
    """Write a session of so many lines and bytes, with one very long line and a compaction near its end."""
    body = "word " * ((size // lines - 160) // 5)
    with path.open("w") as file:
        file.write(json.dumps(HEADER) + "\n")
        parent = None
        for number in range(lines):
            entry_id = f"{number:08x}"
            if number == lines - 500:
                kept = f"{number - 10:08x}"
                entry = {"type": "compaction", "summary": "so far", "firstKeptEntryId": kept, "tokensBefore": 9}
                file.write(json.dumps({**entry, "id": entry_id, "parentId": parent}) + "\n")
            else:
                text = "y" * longest if number == lines // 3 else body
                file.write(json.dumps(line(entry_id, parent, text)) + "\n")
            parent = entry_id


def test_the_end_of_a_file_of_three_hundred_megabytes_costs_what_it_holds(tmp_path: Path) -> None:
    """B69: 200,000 lines; the newest 8,000 tokens, and going on, take less memory than three of the longest line."""
    path, longest = tmp_path / "s.jsonl", 9 * MB
    _write_giant(path, lines=200_000, size=300 * MB, longest=longest)
    assert path.stat().st_size > 300 * MB

    answer = subprocess.run(
        [sys.executable, "-c", _READ_THE_END, path], capture_output=True, text=True, check=True, timeout=120
    )
    memory, tokens, told = map(int, answer.stdout.split())

    assert memory < 3 * longest
    assert tokens > 8_000
    assert told == 1


# -- B74, B75, B77: times ---------------------------------------------------------------------------


def test_times_with_and_without_a_zone_mean_the_same_everywhere(tmp_path: Path) -> None:
    """B74, B75: unmarked is UTC under any TZ; entries stay in the order of the file, whatever their times say."""
    path = tmp_path / "s.jsonl"
    stamps = ["2026-01-01T10:00:00", "2026-01-01T06:00:00Z", 1_767_261_600_000, None]
    lines = [
        {"type": "custom_message", "id": f"e{i}", "parentId": f"e{i - 1}" if i else None, "content": str(i)}
        | ({} if stamp is None else {"timestamp": stamp})
        for i, stamp in enumerate(stamps)
    ]
    path.write_bytes(as_bytes([HEADER, *lines]))
    code = textwrap.dedent("""
        import json, sys
        from pathlib import Path
        from openclaw_ctx.transcript import Transcript
        transcript = Transcript.read(Path(sys.argv[1]))
        print(json.dumps([(message.text, message.timestamp) for message in transcript.record()]))
    """)

    answers = {
        zone: subprocess.run(
            [sys.executable, "-c", code, path],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "TZ": zone},
            timeout=60,
        ).stdout
        for zone in ("UTC", "Asia/Kolkata", "America/New_York")
    }

    (answer,) = set(answers.values())
    ten = datetime(2026, 1, 1, 10, tzinfo=UTC).timestamp() * 1000
    said = json.loads(answer)
    assert said[0] == ["0", ten]
    assert [text for text, _ in said] == ["0", "1", "2", "3"]


def test_a_clock_that_steps_back_changes_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B77: order is that of the file and its parents; nothing counts as summarised because its time says so."""
    moment = datetime(2026, 1, 1, 12, tzinfo=UTC)

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return moment

    monkeypatch.setattr(header, "datetime", Clock)
    store = FileStore(tmp_path)
    transcript = store.open(SessionKey("k"))
    for text in ("one", "two", "three"):
        transcript.append(say(text))
        moment -= timedelta(seconds=90)
    transcript.append_compaction(summary="so far", first_kept_entry_id=transcript.history[-1].entry_id, tokens_before=9)
    moment -= timedelta(days=1)
    transcript.append(AssistantMessage(content="four"))
    moment -= timedelta(days=1)
    assert store.rotate(transcript).rotated
    transcript.append(say("five"))
    transcript.close()

    with closing(FileStore(tmp_path).open(SessionKey("k"))) as again:
        assert texts(again.history) == ["so far", "three", "four", "five"]


# -- B78: keys as names -----------------------------------------------------------------------------


def test_any_key_has_a_session_of_its_own_in_the_folder_and_nowhere_else(tmp_path: Path) -> None:
    """B78: made, locked, rotated, put aside, restored: no two keys share a file, and nothing is outside."""
    folder = tmp_path / "a" / "sessions"
    store = FileStore(folder)
    for key in map(SessionKey, KEYS):
        with closing(store.open(key)) as transcript:
            transcript.append(say(key))
            transcript.append(AssistantMessage(content="yes"))
            transcript.append_compaction(summary=f"of {key}", first_kept_entry_id=None, tokens_before=9)
            assert store.rotate(transcript).rotated
    archived = {key: store.archive(SessionKey(key), "reset").name for key in KEYS}
    for key in KEYS:
        store.restore(archived[key])

    for key in KEYS:
        with closing(store.read(SessionKey(key))) as transcript:
            assert texts(transcript.history)[0] == f"of {key}"
    assert {info.key for info in store.sessions()} == set(KEYS)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.parent != folder] == []
    names = [path.name for path in folder.iterdir()]
    assert len({name.casefold() for name in names}) == len(names)
    assert all(len(name) < 200 and name.isascii() and ":" not in name and "\\" not in name for name in names)


# -- B79: somebody holds the file -------------------------------------------------------------------


def _refusing(monkeypatch: pytest.MonkeyPatch, times: float) -> list[str]:
    """Let ``os.replace`` be refused so many times, and time pass at once."""
    asked: list[str] = []
    real = os.replace

    def replace(source, target):
        asked.append(os.fspath(target))
        if len(asked) <= times:
            raise PermissionError(13, "The process cannot access the file", os.fspath(target))
        real(source, target)

    monkeypatch.setattr("openclaw_ctx.transcript.paths.os.replace", replace)
    monkeypatch.setattr("openclaw_ctx.transcript.paths.time.sleep", lambda _: None)
    return asked


def test_a_file_that_somebody_holds_for_a_moment_is_replaced_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B79: a scanner has it twice, and then it works."""
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    asked = _refusing(monkeypatch, 2)

    move_file(tmp_path / "new", tmp_path / "old")

    assert len(asked) == 3
    assert (tmp_path / "old").read_text() == "new"


@pytest.mark.parametrize("work", ["migrate", "rotate"])
def test_a_file_that_somebody_keeps_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """B79: the old file is whole, no temporary one stays, the error names the file, and the session can be written."""
    store = FileStore(tmp_path)
    key = SessionKey("k")
    transcript = store.open(key)
    transcript.append(say("one"))
    transcript.append_compaction(summary="so far", first_kept_entry_id=None, tokens_before=9)
    transcript.close()
    path = transcript.path
    if work == "migrate":
        path.write_bytes(path.read_bytes().replace(b'"version":3', b'"version":2'))
    before = path.read_bytes()
    with closing(store.open(key)) as transcript:
        with monkeypatch.context() as patch:
            _refusing(patch, float("inf"))
            with pytest.raises(PermissionError, match="cannot access"):
                store.rotate(transcript) if work == "rotate" else transcript.append(say("two"))

        assert path.read_bytes() == before
        assert list(tmp_path.glob("*.tmp")) == []
        transcript.append(say("three"))
        assert transcript.path == path

    with closing(Transcript.read(path)) as transcript:
        assert texts(transcript.history) == ["so far", "three"]


# -- B81: what looks like a path --------------------------------------------------------------------


def test_tool_arguments_come_back_character_for_character(tmp_path: Path) -> None:
    """B81: code with line ends, and backslashes, through an append, a rewrite, a rotation and a fork."""
    arguments = {"path": "C:\\new\\file", "code": "if x:\n\tprint('\\n')\r\n", "odd": "\u2028\x85\ud800"}
    call = AssistantMessage(content=(ToolCallBlock(id="c1", name="write", arguments=arguments),))
    store = FileStore(tmp_path)
    with closing(store.open(SessionKey("k"))) as transcript:
        first = transcript.append(say("go"))
        transcript.append(call)
        rewrite(transcript, [Replacement(entry_id=first.entry_id, message=say("go on"))])
        kept = transcript.history[0].entry_id
        transcript.append_compaction(summary="so far", first_kept_entry_id=kept, tokens_before=9)
        assert store.rotate(transcript).rotated
    store.fork(SessionKey("k"), SessionKey("fork"))

    for key in ("k", "fork"):
        with closing(store.read(SessionKey(key))) as transcript:
            (found,) = [m for m in transcript.history if isinstance(m, AssistantMessage)]
            assert found.tool_calls[0].arguments == arguments
