"""Headers that are not where they belong, and files of other versions."""

import json
from pathlib import Path

import pytest

from openclaw_ctx.contract import CustomMessage
from tests.transcript.sessions import HEADER, as_bytes, chain, ids, line, opened, reread, say, texts

V1 = {"type": "session", "id": "old", "timestamp": "2025-01-01T00:00:00Z", "cwd": "/w"}


@pytest.mark.parametrize(
    "first",
    [
        pytest.param([], id="none"),
        pytest.param([{"type": "session", "version": 3}], id="without-an-id"),
        pytest.param([{"type": "session", "version": 3, "id": 5}], id="with-a-number-for-an-id"),
        pytest.param([{"type": "session", "version": 3, "id": ""}], id="with-an-empty-id"),
        pytest.param([b"garbage"], id="destroyed"),
    ],
)
def test_a_file_without_a_header_is_given_one(save, first: list[object]) -> None:
    """The old file is kept in a copy, entries keep their bytes, and the header is there from the append on."""
    path = save(*first, *chain("1", "2"))
    before = path.read_bytes()

    read, again, warnings = reread(path)

    assert read == ["1", "2"]
    assert again == ["1", "2", "next"]
    assert any("no session header" in warning for warning in warnings)
    (copy,) = path.parent.glob("s.jsonl.corrupt-*")
    assert copy.read_bytes() == before
    header, *lines = path.read_bytes().splitlines()
    assert json.loads(header).items() >= {"type": "session", "version": 3}.items()
    assert as_bytes(lines[:2]) == as_bytes(chain("1", "2"))


def test_a_header_that_is_not_the_first_line_is_used(save) -> None:
    """The session keeps its id, and the header is moved to the top at the append."""
    path = save(*chain("1"), HEADER, line("e2", "e1", "2"))

    with opened(path) as transcript:
        assert transcript.session_id == "s-1"
        assert texts(transcript.history) == ["1", "2"]
        transcript.append(say("3"))

    assert json.loads(path.read_bytes().splitlines()[0]) == HEADER
    assert reread(path)[0] == ["1", "2", "3"]


def test_a_destroyed_line_stays_closed_after_the_file_was_written_anew(save) -> None:
    """The new file has no sign of the gap, so the entry behind it names its new parent."""
    path = save(*chain("1"), b"garbage", line("e3", "e2", "3"))

    first, again, _ = reread(path)

    assert first == ["1", "3"]
    assert again == ["1", "3", "next"]
    assert json.loads(path.read_bytes().splitlines()[2])["parentId"] == "e1"


OLD = [
    {"type": "message", "message": {"role": "user", "content": "1"}},
    {"type": "message", "message": {"role": "hookMessage", "customType": "h", "content": "2", "display": True}},
    {"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": "3"}]}},
    {"type": "compaction", "summary": "so far", "firstKeptEntryIndex": 3, "tokensBefore": 10},
    {"type": "message", "message": {"role": "user", "content": "4"}},
]


def test_version_1_is_read_as_version_3(save) -> None:
    """Entries get ids and a chain, the index of the first kept one becomes its id, and the file is not touched."""
    path = save(V1, *OLD)
    before = path.read_bytes()

    with opened(path) as transcript:
        found = list(transcript.history)
        record = list(transcript.record())
    with opened(path) as transcript:
        again = list(transcript.history)

    assert texts(found) == ["so far", "3", "4"]
    assert texts(record) == ["1", "2", "3", "4"]
    assert isinstance(record[1], CustomMessage)
    assert found == again
    assert path.read_bytes() == before
    assert {item.name for item in path.parent.glob("s.jsonl*")} <= {"s.jsonl", "s.jsonl.writer"}


def test_version_1_is_written_as_version_3_at_the_first_append(save) -> None:
    """After a copy; the ids that were shown are the ids that are written, and it reads the same."""
    path = save(V1 | {"provider": "kept"}, *OLD)
    before = path.read_bytes()

    with opened(path) as transcript:
        shown = list(transcript.history)
        appended = transcript.append(say("5"))
        live = list(transcript.history)

    with opened(path) as transcript:
        again = list(transcript.history)
        warnings = transcript.take_warnings()
    (copy,) = path.parent.glob("s.jsonl.v1-*")
    header, *lines = map(json.loads, path.read_bytes().splitlines())
    assert copy.read_bytes() == before
    assert live == again == [*shown, appended]
    assert warnings == []
    assert header == V1 | {"provider": "kept", "version": 3}
    assert [item["parentId"] for item in lines] == [None, *(item["id"] for item in lines[:-1])]
    assert lines[1]["message"]["role"] == "custom"
    assert lines[3]["firstKeptEntryId"] == lines[2]["id"]
    assert "firstKeptEntryIndex" not in lines[3]
    assert not list(path.parent.glob("*.tmp"))


def test_version_1_with_odd_lines_is_migrated_all_the_same(save) -> None:
    """What a strict decoder refuses counts like the rest: half characters, NaN, integers without end."""
    odd = {"type": "compaction", "summary": "half \ud800", "firstKeptEntryIndex": 1, "tokensBefore": float("nan")}
    long = b'{"type":"message","message":{"role":"user","content":"7","n":' + b"7" * 5000 + b"}}"
    path = save(V1, OLD[0], odd, long)

    first, again, warnings = reread(path)

    assert first == ["half \ud800", "1", "7"]
    assert again == [*first, "next"]
    assert warnings == []


def test_version_2_changes_the_lines_that_must_change(save) -> None:
    """Only a role was renamed between 2 and 3: every other line keeps its bytes."""
    hook = line("e2", "e1", "2", role="hookMessage", customType="h")
    spaced = json.dumps(line("e3", "e2", "3"), indent=None, separators=(" , ", " : ")).encode()
    path = save(HEADER | {"version": 2}, line("e1", None, "1"), hook, spaced)

    first, again, _ = reread(path)

    assert first == ["1", "2", "3"]
    assert again == [*first, "next"]
    lines = path.read_bytes().splitlines()
    assert json.loads(lines[0])["version"] == 3
    assert lines[1] == json.dumps(line("e1", None, "1")).encode()
    assert json.loads(lines[2])["message"]["role"] == "custom"
    assert lines[3] == spaced
    assert len(list(path.parent.glob("s.jsonl.v2-*"))) == 1


def test_a_torn_tail_of_an_old_version_goes_with_the_migration(save) -> None:
    """One copy has everything, the torn bytes too."""
    path = save(V1, *OLD)
    path.write_bytes(path.read_bytes() + b'{"type":"mess')
    before = path.read_bytes()

    first, again, _ = reread(path)

    assert first == ["so far", "3", "4"]
    assert again == [*first, "next"]
    (copy,) = path.parent.glob("s.jsonl.v1-*")
    assert copy.read_bytes() == before
    assert not list(path.parent.glob("*.torn-*"))


def test_entries_without_ids_in_version_3_keep_their_bytes(save) -> None:
    """They are chained in memory, under the same ids at every opening."""
    bare = [{"type": "message", "message": {"role": "user", "content": text}} for text in "12"]
    path = save(HEADER, *bare)
    before = path.read_bytes()
    with opened(path) as transcript:
        given_ = ids(transcript.history)

    first, again, _ = reread(path)
    third = reread(path, then="later")[1]

    assert first == ["1", "2"]
    assert again == ["1", "2", "next"]
    assert third == ["1", "2", "next", "later"]
    assert given_ == ["00000001", "00000002"]
    with opened(path) as transcript:
        assert ids(transcript.history)[:2] == given_
    assert path.read_bytes().startswith(before)


def test_an_entry_without_an_id_is_followed_across_a_destroyed_line(save) -> None:
    """Its id is in memory only, and what was appended behind the damage names it."""
    path = save(HEADER, {"type": "message", "id": 7, "message": {"role": "user", "content": "1"}}, b"\x00")

    first, again, _ = reread(path)

    assert (first, again) == (["1"], ["1", "next"])


def test_a_newer_version_is_read_with_a_warning(save) -> None:
    """It may hold what this one does not know; its header stays as it is."""
    path = save(HEADER | {"version": 4}, *chain("1"))
    before = path.read_bytes()

    first, again, warnings = reread(path)

    assert (first, again) == (["1"], ["1", "next"])
    assert warnings == ["line 1: version 4 is newer than 3, the newest that is known"]
    assert path.read_bytes().startswith(before)


def test_an_empty_file_is_a_new_session(save) -> None:
    """Header and first entry come in one write."""
    path = save()

    with opened(path) as transcript:
        assert len(transcript.history) == 0
        assert path.read_bytes() == b""
        session_id = transcript.session_id
        transcript.append(say("1"))

    assert json.loads(path.read_bytes().splitlines()[0])["id"] == session_id


def test_warnings_are_told_once(save) -> None:
    """Who takes them has them."""
    path = save(HEADER, b"garbage")

    with opened(path) as transcript:
        assert len(transcript.take_warnings()) == 1
        assert transcript.take_warnings() == []


@pytest.mark.parametrize("version", ["4", None, [], 1.5, True])
def test_a_version_that_is_no_number_stops_nobody(tmp_path: Path, version: object) -> None:
    """The file is written anew as the newest, after a copy, and goes on."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([*chain("one"), HEADER | {"version": version}]))

    with opened(path) as transcript:
        transcript.append(say("two"))

    with opened(path) as transcript:
        assert texts(transcript.record())[-1] == "two"
        assert transcript.header["version"] == 3
