"""Messages become lines, and the lines of one transcript those of another, with nothing said otherwise."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.contract import BranchSummaryMessage, CustomMessage, EntryId, SessionKey, UserMessage
from openclaw_ctx.transcript import (
    FileStore,
    MemoryStore,
    SessionStore,
    Transcript,
    decode_json,
    lines_as_read,
    lines_of,
)
from tests.transcript.sessions import HEADER, as_bytes, chain, line, new_file, texts

KEY = SessionKey("copy")


def taken_over(path: Path, store: SessionStore) -> tuple[list[str], list[str]]:
    """Make a session of a file's lines, and return what the file says and what the session says."""
    with contextlib.closing(Transcript.read(path)) as source:
        store.create(KEY, lines_as_read([entry for entry, _ in source.entries()], source.lines()))
        expected = texts(source.record())
    with contextlib.closing(store.read(KEY)) as copy:
        return expected, texts(copy.record())


def copy_in(store: FileStore) -> Path:
    """Return the file of the copy."""
    (info,) = store.glance()
    return info.path


def lines_in(store: FileStore) -> Sequence[bytes]:
    """Return the lines of the copy, without its header."""
    return copy_in(store).read_bytes().removesuffix(b"\n").split(b"\n")[1:]


# -- messages --------------------------------------------------------------------------------------


def test_messages_are_a_chain_whose_ids_are_their_own_where_nobody_else_has_them():
    """An id that was used, and none at all, give another; the same messages give the same lines."""
    messages = [UserMessage(content="a", entry_id=EntryId("e1")), UserMessage(content="b", entry_id=EntryId("e1"))]
    messages.append(UserMessage(content="c"))

    lines = list(lines_of(messages))

    names = [one["id"] for one in lines]
    assert names[0] == "e1"
    assert len(set(names)) == 3
    assert [one["parentId"] for one in lines] == [None, *names[:-1]]
    assert [one["id"] for one in lines_of(messages)] == names


def test_what_has_a_line_of_its_own_is_read_back_as_it_was():
    """A program's message, and the summary of a branch."""
    store = MemoryStore()
    messages = [
        CustomMessage(custom_type="note", content="seen", display=True, timestamp=1_700_000_000_000),
        BranchSummaryMessage(summary="tried", from_id=EntryId("e9"), timestamp=1_700_000_000_000),
    ]

    store.create(KEY, lines_of(messages))

    with contextlib.closing(store.read(KEY)) as transcript:
        assert [type(one) for one in transcript.record()] == [CustomMessage, BranchSummaryMessage]
        assert texts(transcript.record()) == ["seen", "tried"]


# -- lines of another transcript --------------------------------------------------------------------


def test_lines_of_the_newest_version_keep_their_bytes(save, tmp_path: Path):
    """Spaces, the order of fields, numbers that Python would write otherwise, and a rewrite's counts."""
    odd = [
        b'{"type": "message", "id": "e1", "parentId": null, "n": 1.0e5, "message": {"role": "user", "content": "a"}}',
        b'{"id":"e2","type":"custom","parentId":"e1","data":NaN}',
        rb'{"type":"message","id":"e3","parentId":"e1","more":1,"message":{"role":"user","content":"\ud800\u00e9"}}',
        b'{"type":"label","id":"e4","parentId":"e3","targetId":"e1","label":"x"}',
    ]
    store = FileStore(tmp_path / "store")

    taken_over(save(HEADER, *odd), store)

    assert lines_in(store) == odd


def test_line_ends_of_another_system_stay_behind(save, tmp_path: Path):
    """They belong to the file, and not to the line."""
    store = FileStore(tmp_path / "store")

    taken_over(save(HEADER, *chain("one", "two"), end=b"\r\n"), store)

    assert lines_in(store) == as_bytes(chain("one", "two")).splitlines()


def test_a_rewrite_that_is_not_all_there_counts_no_lines_to_come(save, tmp_path: Path):
    """Else the next opening would take them back as cut off."""
    broken = line("e2", "e1", "two") | {"more": 2}
    store = FileStore(tmp_path / "store")

    expected, said = taken_over(save(HEADER, line("e1", None, "one"), broken, line("e3", "e2", "three")), store)

    assert said == expected == ["one", "two", "three"]
    assert b"more" not in b"".join(lines_in(store))


def test_lines_of_an_old_version_are_written_as_the_newest_has_them(save, tmp_path: Path):
    """With ids and parents, with the name of what a compaction kept, and the role that messages have now."""
    message = {"type": "message", "message": {"role": "user", "content": "a"}}
    hook = {"type": "message", "message": {"role": "hookMessage", "customType": "c", "content": "h"}}
    compaction = {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 2, "tokensBefore": 5}
    store = FileStore(tmp_path / "store")

    expected, said = taken_over(save({"type": "session", "id": "s"}, message, hook, compaction, message), store)

    data = [decode_json(one) for one in lines_in(store)]
    assert said == expected
    assert [one["parentId"] for one in data] == [None, *(one["id"] for one in data[:-1])]
    assert data[1]["message"]["role"] == "custom"
    assert (data[2]["firstKeptEntryId"], "firstKeptEntryIndex" in data[2]) == (data[1]["id"], False)


def test_an_entry_behind_a_damaged_line_follows_what_it_was_read_behind(save, tmp_path: Path):
    """The line that was its parent is not taken over, so it names the one before."""
    store = FileStore(tmp_path / "store")
    damaged = save(HEADER, line("e1", None, "one"), b'{"type":"mess', line("e3", "e2", "three"))

    expected, said = taken_over(damaged, store)

    assert said == expected == ["one", "three"]
    assert decode_json(lines_in(store)[1])["parentId"] == "e1"


_PIECES = st.sampled_from(
    [
        *as_bytes(chain("one", "two", "three")).splitlines(keepends=True),
        as_bytes([line("e1", "e3", "again")]),
        as_bytes([line("e4", "e2", "fork") | {"more": 1}]),
        as_bytes([{"type": "compaction", "id": "c1", "parentId": "e2", "firstKeptEntryId": "e1", "summary": "s"}]),
        as_bytes([{"type": "message", "message": {"role": "user", "content": "no id"}}]),
        as_bytes([{"type": "label", "id": 7, "parentId": ["e1"], "targetId": "e1"}]),
        b'{"type":"message","id":"e5","parentId":"e1","message":{"role":"user","content":"a\tb"}}\r\n',
        b"\x00\x00\x00\n",
        b'{"type":"mess',
    ]
)


@given(st.lists(_PIECES, max_size=6), st.sampled_from([1, 2, 3]))
def test_whatever_is_taken_over_says_the_same_and_a_second_time_has_the_same_bytes(pieces: list[bytes], version: int):
    """The damage of a file and the words of its version stay behind; what is left is as it is."""
    with new_file(as_bytes([HEADER | {"version": version}]) + b"".join(pieces)) as path:
        first, second = FileStore(path.parent / "first"), FileStore(path.parent / "second")

        expected, said = taken_over(path, first)
        again = taken_over(copy_in(first), second)

        assert said == expected
        assert again == (expected, expected)
        assert lines_in(second) == lines_in(first)


@pytest.mark.parametrize("in_memory", [pytest.param(True, id="in-memory"), pytest.param(False, id="in-a-folder")])
def test_a_store_takes_encoded_lines_and_keeps_each_byte(in_memory: bool, tmp_path: Path):  # noqa: FBT001 -- pytest passes by name
    """One at a time, beside others that are not encoded yet."""
    store: SessionStore = MemoryStore() if in_memory else FileStore(tmp_path / "store")
    given_line = b'{ "type": "message", "id": "e1", "parentId": null, "message": {"role": "user", "content": "a"} }'

    store.create(KEY, iter([given_line, line("e2", "e1", "b") | {"more": 4}]))

    with contextlib.closing(store.read(KEY)) as transcript:
        assert texts(transcript.record()) == ["a", "b"]
        assert next(iter(transcript.lines())) == given_line
        assert b"more" not in list(transcript.lines())[1]
