"""Files as other programs and accidents left them: what can be read is, and the rest is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import UnknownMessage
from openclaw_ctx.transcript import Transcript
from tests.transcript.sessions import HEADER, as_bytes, chain, ids, line, new_file, opened, reread, say, texts

# -- lines that are none ----------------------------------------------------------------------------


def test_nul_bytes_in_the_middle_end_nothing(save) -> None:
    """B17: what stands before and behind a zeroed line loads, and one warning names the line."""
    path = save(HEADER, *chain("1", "2", "3", "4", "5", "6"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], b"\x00" * 300 + b"\n", *lines[4:]]))

    first, again, warnings = reread(path)

    assert first == ["1", "2", "3", "4", "5", "6"]
    assert again == [*first, "next"]
    (warning,) = warnings
    assert warning.startswith("line 5: 300 NUL bytes")


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b"\x00" * 50, id="zeroed"),
        pytest.param(b'{"type":"message","id":"e3","par', id="cut-off"),
        pytest.param(b"\xff\xfe garbage", id="garbage"),
        pytest.param(b"[]", id="no-object"),
        pytest.param(b'{"id":"e3","parentId":"e2"}', id="no-type"),
        pytest.param(b"\x00\nnull\ngarbage", id="three-lines"),
    ],
)
def test_a_record_that_was_destroyed_takes_no_other_with_it(save, damage: bytes) -> None:
    """The entry behind it named it as its parent; without it, it follows what stands before."""
    path = save(HEADER, *chain("1", "2", "3", "4", "5"))
    lines = path.read_bytes().splitlines()
    path.write_bytes(as_bytes([*lines[:3], damage, *lines[4:]]))
    before = path.read_bytes()

    first, again, warnings = reread(path)

    assert first == ["1", "2", "4", "5"]
    assert again == [*first, "next"]
    assert len(warnings) == damage.count(b"\n") + 1
    assert all(f"line {number}:" in warning for number, warning in enumerate(warnings, 4))
    assert path.read_bytes().startswith(before)


def test_a_branch_elsewhere_is_not_tied_to_what_was_destroyed(save) -> None:
    """Only a parent that is gone is replaced; one that is there is believed."""
    path = save(HEADER, *chain("1", "2", "3"), b"garbage", line("b", "e1", "other"))

    first, again, _ = reread(path)

    assert first == ["1", "other"]
    assert again == ["1", "other", "next"]


def test_a_record_glued_to_a_torn_one_is_found(save) -> None:
    """B16: a program that appended to a torn line joined the two; the whole one is not lost with the torn one."""
    torn = b'{"type":"message","id":"e3","parentId":"e2","message":{"role":"user","content":[{"type":"te'
    glued = torn + json.dumps(line("e4", "e3", 'and {"type": on')).encode()
    path = save(HEADER, *chain("1", "2"), glued, line("e5", "e4", "5"))

    first, again, warnings = reread(path)

    assert first == ["1", "2", 'and {"type": on', "5"]
    assert again == [*first, "next"]
    assert warnings == [f"line 4: {len(torn)} bytes of a record that was cut off, passed over"]


def test_a_file_of_anything_but_records_warns_a_score_of_times(save) -> None:
    """A file of a million odd lines must not fill the log."""
    path = save(HEADER, *[b"noise"] * 1000, line("e1", None, "1"))

    first, _, warnings = reread(path)

    assert first == ["1"]
    assert len(warnings) == 21
    assert warnings[-1] == "and 980 more lines like these"


@pytest.mark.parametrize("size", [2**18 - 1, 2**18, 2**18 + 1, 3 * 2**18], ids=lambda size: f"{size}-bytes")
def test_lines_longer_than_a_chunk_are_whole(save, size: int) -> None:
    """Where the reader's chunks end has no part in what a line says."""
    path = save(HEADER, line("e1", None, "x" * size), line("e2", "e1", "2"), line("e3", "e2", "漢" * (size // 3)))

    first, again, warnings = reread(path)

    assert first == ["x" * size, "2", "漢" * (size // 3)]
    assert again == [*first, "next"]
    assert warnings == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3000), min_size=1, max_size=400), st.integers(0, 2**18))
def test_every_entry_is_read_from_where_it_is(sizes: list[int], shift: int) -> None:
    """Records of any sizes across the borders of chunks: each is read back by itself, in any order."""
    lengths = [shift, *sizes]
    said = [f"{i}:" + "y" * n for i, n in enumerate(lengths)]
    with new_file(as_bytes([HEADER, b"", *chain(*said)])) as path, opened(path) as transcript:
        found = texts(reversed(transcript.record()))

    assert found == said[::-1]


# -- forms of a line --------------------------------------------------------------------------------


def test_line_ends_of_windows_are_read_and_left(save) -> None:
    """A file with CRLF keeps it; what is appended ends as everything here does."""
    path = save(HEADER, *chain("1", "2"), end=b"\r\n")
    before = path.read_bytes()

    first, again, warnings = reread(path)

    assert first == ["1", "2"]
    assert again == ["1", "2", "next"]
    assert warnings == []
    assert path.read_bytes().startswith(before)
    assert not path.read_bytes().endswith(b"\r\n")


def test_a_byte_order_mark_hides_no_header(save) -> None:
    """An editor put one there: the header counts, and nothing is written anew for it."""
    path = save(b"\xef\xbb\xbf" + json.dumps(HEADER).encode(), *chain("1"))
    before = path.read_bytes()

    with opened(path) as transcript:
        assert transcript.session_id == "s-1"
    first, again, warnings = reread(path)

    assert (first, again, warnings) == (["1"], ["1", "next"], [])
    assert path.read_bytes().startswith(before)


def test_blank_lines_are_nothing(save) -> None:
    """Empty lines and lines of blanks are passed over without a word."""
    path = save(b"", HEADER, b"", b"  \t ", *chain("1", "2"), b"\r", b"")

    assert reread(path) == (["1", "2"], ["1", "2", "next"], [])


def test_fields_in_any_order_and_unknown_ones_do_not_matter(save) -> None:
    """What a line has besides is kept on disk and ignored."""
    first = {"message": {"content": "1", "role": "user"}, "zeta": [1], "parentId": None, "id": "a", "type": "message"}
    path = save(HEADER, first, {"x": {"type": "message"}} | line("b", "a", "2"))

    assert reread(path) == (["1", "2"], ["1", "2", "next"], [])


@pytest.mark.parametrize(
    "field,value",
    [
        pytest.param("summary", 5, id="a-number-for-a-text"),
        pytest.param("firstKeptEntryIndex", "x", id="a-text-for-a-number"),
        pytest.param("firstKeptEntryId", None, id="null"),
        pytest.param("timestamp", 10**400, id="a-number-too-long"),
        pytest.param("summary", "\ud800", id="half-a-character"),
    ],
)
def test_a_field_of_another_type_costs_that_field_only(save, field: str, value: Any) -> None:
    """A message whose line has an odd field is still that message."""
    path = save(HEADER, line("a", None, "1") | {field: value}, line("b", "a", "2"))

    assert reread(path) == (["1", "2"], ["1", "2", "next"], [])


def test_a_message_that_cannot_be_read_whole_is_an_unknown_one(save) -> None:
    """Nested deeper than Python goes: it keeps its place, and the others theirs."""
    deep = b'{"type":"message","id":"e2","parentId":"e1","message":{"role":"user","content":"x","y":%s}}'
    path = save(HEADER, *chain("1"), deep % (b"[" * 800 + b"]" * 800), line("e3", "e2", "3"))

    with opened(path) as transcript:
        first, odd, last = transcript.history

    assert (first.text, last.text) == ("1", "3")
    assert isinstance(odd, UnknownMessage)


def test_a_line_nested_without_end_costs_that_line(save) -> None:
    """No decoder goes that deep; the entry behind it follows the one before."""
    endless = b'{"type":"message","id":"e2","parentId":"e1","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    path = save(HEADER, *chain("1"), endless, line("e3", "e2", "3"))

    first, again, warnings = reread(path)

    assert (first, again) == (["1", "3"], ["1", "3", "next"])
    assert len(warnings) == 1


def test_bytes_that_are_no_text_show_as_such(save) -> None:
    """A byte that is no UTF-8 costs one character."""
    path = save(HEADER, b'{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"a\xffb"}}')

    assert reread(path)[0] == ["a\ufffdb"]


def test_a_line_cannot_say_what_the_reader_keeps(save) -> None:
    """The reader's own fields of an entry are not taken from a file that was made up."""
    forged = line("a", None, "said") | {"\uffffo": 0, "\uffffl": 3, "\uffffm": "forged"}
    path = save(HEADER, forged, forged | {"id": "b", "parentId": "a", "summary": 1})

    assert reread(path)[0] == ["said", "said"]


# -- trees ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines,expected",
    [
        pytest.param([line("a", "a", "1"), line("b", "a", "2")], ["1", "2"], id="its-own-parent"),
        pytest.param([line("a", "b", "1"), line("b", "a", "2")], ["1", "2"], id="a-circle"),
        pytest.param([line("a", "c", "1"), line("b", "a", "2"), line("c", "b", "3")], ["1", "2", "3"], id="a-long-one"),
        pytest.param([line("a", None, "1"), line("b", "gone", "2")], ["2"], id="an-orphan"),
        pytest.param([line("a", "gone", "1"), line("b", "a", "2")], ["1", "2"], id="an-orphan-at-the-root"),
        pytest.param([line("a", None, "1"), line("b", None, "2")], ["2"], id="two-roots"),
        pytest.param(
            [line("a", None, "1"), line("b", "a", "2"), line("c", "a", "3"), line("d", "c", "4")],
            ["1", "3", "4"],
            id="a-dead-branch",
        ),
        pytest.param(
            [line("a", None, "1"), line("b", "a", "2"), line("b", "a", "2 again")], ["1", "2 again"], id="an-id-twice"
        ),
        pytest.param(
            [line("a", None, "1"), line("b", "a", "2"), line("b", "b", "3"), line("c", "b", "4")],
            ["1", "2", "3", "4"],
            id="an-id-twice-in-a-row",
        ),
        pytest.param(
            [
                line("a", None, "1"),
                line("z", "a", "left"),
                line("b", "a", "2"),
                line("b", "b", "3"),
                line("c", "b", "4"),
            ],
            ["1", "2", "3", "4"],
            id="an-id-twice-behind-a-dead-branch",
        ),
        pytest.param([*chain("1", "2"), *chain("1", "2")], ["1", "2"], id="a-file-twice-in-one"),
        pytest.param(
            [line("c", "b", "3"), line("a", None, "1"), line("b", "a", "2"), line("d", "c", "4")],
            ["1", "2", "3", "4"],
            id="a-parent-behind-its-child",
        ),
        pytest.param(
            [{"type": "future_thing", "id": "f", "parentId": None, "x": 1}, line("a", "f", "1")],
            ["1"],
            id="a-type-of-the-future",
        ),
        pytest.param(
            [
                {"type": "model_change", "id": "m", "parentId": None, "provider": "p", "modelId": "m"},
                line("a", "m", "1"),
                {"type": "label", "id": "l", "parentId": "a", "targetId": "a", "label": "x"},
                {"type": "custom", "id": "c", "parentId": "l", "customType": "state", "data": {}},
                {"type": "session_info", "id": "i", "parentId": "c", "name": "n"},
                {"type": "thinking_level_change", "id": "t", "parentId": "i", "thinkingLevel": "off"},
            ],
            ["1"],
            id="lines-that-no-model-sees",
        ),
    ],
)
def test_a_tree_of_any_shape_has_one_active_branch(save, lines: list[Any], expected: list[str]) -> None:
    """The last line is the leaf, and its ancestors are the conversation; nothing goes round for ever."""
    path = save(HEADER, *lines)
    before = path.read_bytes()

    first, again, warnings = reread(path)

    assert first == expected
    assert again == [*expected, "next"]
    assert warnings == []
    assert path.read_bytes().startswith(before)


_IDS = st.sampled_from(["a", "b", "c", "d"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(_IDS, st.none() | _IDS), max_size=8))
def test_any_tree_opens_and_grows(pairs: list[tuple[str, str | None]]) -> None:
    """Whatever ids and parents a file names, the branch is the same at every opening, and an append ends it."""
    lines = [line(one, parent, str(number)) for number, (one, parent) in enumerate(pairs)]
    with new_file(as_bytes([HEADER, *lines])) as path:
        with opened(path) as transcript:
            first = texts(transcript.history)
            transcript.append(say("next"))
            live = texts(transcript.history)
        with opened(path) as transcript:
            again = texts(transcript.history)

    assert live == again == [*first, "next"]
    assert first[-1:] == ([str(len(pairs) - 1)] if pairs else [])
    assert len(set(first)) == len(first)


def test_a_second_header_is_no_entry(save) -> None:
    """A session written into another's file by accident: its header is passed over, the first one counts."""
    path = save(HEADER, *chain("1"), HEADER | {"id": "other"}, line("e2", "e1", "2"))

    with opened(path) as transcript:
        assert transcript.session_id == "s-1"
        assert texts(transcript.history) == ["1", "2"]


def test_two_headers_at_the_top_leave_an_empty_session(save) -> None:
    """The leaf is an entry, never a header."""
    path = save(HEADER, HEADER | {"id": "other"})

    with opened(path) as transcript:
        assert transcript.leaf_id is None
        appended = transcript.append(say("1"))

    assert json.loads(path.read_bytes().splitlines()[-1])["parentId"] is None
    with opened(path) as transcript:
        assert ids(transcript.history) == [appended.entry_id]


def test_a_reset_keeps_what_was_said_and_no_summary(save) -> None:
    """Of what a reset keeps, only users' and assistants' messages are shown."""
    path = save(
        HEADER,
        *chain("1", "2"),
        line("a", "e2", "3", role="assistant"),
        line("t", "a", "4", role="toolResult", toolCallId="x"),
        {"type": "custom_message", "id": "c", "parentId": "t", "customType": "n", "content": "5", "display": True},
        {"type": "reset", "id": "r", "parentId": "c", "firstKeptEntryId": "e2"},
        line("z", "r", "6"),
    )

    assert reread(path)[0] == ["2", "3", "6"]


def test_messages_on_lines_of_their_own_are_read(save) -> None:
    """Custom messages and branch summaries carry their line's time and id; an empty summary is not shown."""
    when = {"timestamp": "2025-11-20T23:33:01.544Z"}
    path = save(
        HEADER,
        {"type": "custom_message", "id": "c", "parentId": None, "customType": "n", "content": "noted"} | when,
        {"type": "branch_summary", "id": "b", "parentId": "c", "summary": "gone", "fromId": "x", "details": [1]} | when,
        {"type": "branch_summary", "id": "b2", "parentId": "b", "summary": "", "fromId": "x"} | when,
        {"type": "compaction", "id": "k", "parentId": "b2", "summary": "all", "firstKeptEntryId": "c"} | when,
    )

    with opened(path) as transcript:
        summary, note, branch = transcript.history

    assert texts([summary, note, branch]) == ["all", "noted", "gone"]
    assert ids([summary, note, branch]) == ["k", "c", "b"]
    assert summary.timestamp == note.timestamp == branch.timestamp == 1763681581544
    assert (branch.from_id, branch.extra) == ("x", {"details": [1]})
    assert summary.tokens_before is None


@pytest.mark.parametrize("stamp", ["never", 5, None, "0001-01-01T00:00:00+14:00", ""], ids=repr)
def test_a_time_that_is_none_is_not_told(save, stamp: Any) -> None:
    """A line with a broken time still is its message."""
    path = save(HEADER, {"type": "custom_message", "id": "c", "parentId": None, "content": "noted", "timestamp": stamp})

    with opened(path) as transcript:
        (note,) = transcript.history
    assert note.text == "noted"
    assert note.timestamp is None or note.timestamp < 0


# -- recorded sessions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name,record,context",
    [
        pytest.param("pi__large-session.jsonl", 914, 914, id="a-long-session-of-version-1"),
        pytest.param("agentsessions__pi_small.jsonl", 4, 5, id="two-compactions"),
    ],
)
def test_recorded_sessions_open_and_go_on(
    recorded_transcripts: Path, tmp_path: Path, name: str, record: int, context: int
) -> None:
    """Sessions of the reference system and its relatives load whole, and keep every message when they go on."""
    path = tmp_path / name
    path.write_bytes((recorded_transcripts / name).read_bytes())
    with opened(path) as transcript:
        before = list(transcript.record())
        assert (len(before), len(transcript.history)) == (record, context)
        assert transcript.take_warnings() == []
        transcript.append(say("next"))

    with opened(path) as transcript:
        assert list(transcript.record())[:-1] == before
        assert not any(isinstance(message, UnknownMessage) for message in before)


def test_opening_is_the_same_for_a_path_of_any_spelling(save, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path keeps meaning its file."""
    path = save(HEADER, *chain("1"))
    monkeypatch.chdir(path.parent)

    transcript = Transcript.open(Path("s.jsonl"))
    try:
        transcript.append(say("2"))
    finally:
        transcript.close()

    assert reread(path)[0] == ["1", "2"]


def test_a_block_of_a_torn_record_is_no_record(tmp_path: Path) -> None:
    """B16: a reply is torn right behind a tool call, which has a type and an id as records do: what was said stays."""
    path = tmp_path / "s.jsonl"
    whole = as_bytes([HEADER, *chain("one", "two")])
    torn = b'{"type":"message","id":"e3","parentId":"e2","timestamp":"2025-11-20T23:34:00Z","message":{"role":'
    torn += b'"assistant","content":[{"type":"toolCall","id":"c1","name":"bash","arguments":{}}'

    for end in (b"", b"\n"):
        path.write_bytes(whole + torn + end)

        first, again, _ = reread(path)

        assert (first, again) == (["one", "two"], ["one", "two", "next"])
