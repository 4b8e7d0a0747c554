"""What a repair does to each kind of damage, one at a time."""

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_ctx.transcript.checks.mend import mend_file
from tests.transcript.damaged import calls, mended, message, result, talk, text
from tests.transcript.sessions import HEADER, as_bytes, chain, line

# -- lines ------------------------------------------------------------------------------------------


def test_lines_that_are_no_entries_are_left_out() -> None:
    """What nobody can read, an empty line, what a crash cut off, and a record behind the beginning of another."""
    one, two = (json.dumps(entry).encode() for entry in chain("one", "two"))
    content = as_bytes([HEADER, one, b"garbage", b"[1]", b"", one[:30] + two]) + one[:20]

    found, lines = mended(content)

    assert [entry["id"] for entry in lines[1:]] == ["e1", "e2"]
    assert found.done == (
        "lines that are no entries left out: 2 (lines 3, 4)",
        "beginnings of records that were cut off left out: 1 (line 6)",
        "empty lines left out: 1 (line 5)",
        "record that was cut off left out: 1 (line 7)",
    )


def test_what_other_programs_refuse_is_written_anew() -> None:
    """A byte order mark, NUL bytes, bytes that are no UTF-8, and control characters: their words are kept."""
    one, two, three, four = (json.dumps(entry).encode() for entry in chain("one", "two", "three", "four"))

    found, lines = mended(
        as_bytes(
            [
                HEADER,
                b"\xef\xbb\xbf" + one,
                b"\x00\x00" + two,
                three.replace(b"ee", b"\xff"),
                four.replace(b"ou", b"\t"),
            ]
        )
    )

    assert [entry["message"]["content"] for entry in lines[1:]] == ["one", "two", "thr\ufffd", "f\tr"]
    assert found.done == ("lines that other programs refuse written anew: 4 (lines 2, 3, 4, 5)",)


def test_a_rewrite_that_was_cut_off_is_left_out() -> None:
    """Its lines are all there or none: what they were to replace is what the session holds."""
    unfinished = [line("n1", "e1", "new") | {"more": 3}, line("n2", "n1", "newer") | {"more": 2}]

    found, lines = mended([HEADER, *chain("one", "two"), *unfinished])

    assert [entry["id"] for entry in lines[1:]] == ["e1", "e2"]
    assert found.done == ("lines of a rewrite that was cut off left out: 2 (lines 4, 5)",)


def test_a_rewrite_that_others_have_written_behind_stays() -> None:
    """Nobody can tell any more what it lacks; its lines count no others from now on."""
    broken = [line("n1", "e1", "new") | {"more": 3}, line("n2", "n1", "newer") | {"more": 2}, line("e3", "n2", "on")]

    found, lines = mended([HEADER, *chain("one", "two"), *broken])

    assert [entry["id"] for entry in lines[1:]] == ["e1", "e2", "n1", "n2", "e3"]
    assert not any("more" in entry for entry in lines)
    assert found.done == ("counts of lines to come taken off, since others come: 2 (lines 5, 4)",)


# -- the header -------------------------------------------------------------------------------------


def test_a_header_is_put_first_and_others_are_left_out() -> None:
    """The first with an id is the session's."""
    other = {**HEADER, "id": "s-2"}

    found, lines = mended([{"type": "session"}, *chain("one"), HEADER, other, line("e2", "e1", "two")])

    assert [entry.get("id") for entry in lines] == ["s-1", "e1", "e2"]
    assert lines[0] == found.header == HEADER
    assert found.done == ("session header put first: 1 (line 3)", "other session headers left out: 2 (lines 1, 4)")


def test_a_header_behind_the_beginning_of_a_record_is_found() -> None:
    """A crash left a torn line, and a program went on behind it; what a torn record said is no header."""
    torn = b'{"type":"message","id":"x","message":{"role":"user","content":[{"type":"session","id":"said"}'

    found, lines = mended([torn, torn + json.dumps(HEADER, separators=(",", ":")).encode(), *chain("one")])

    assert [entry["id"] for entry in lines] == ["s-1", "e1"]
    assert found.done == (
        "lines that are no entries left out: 1 (line 1)",
        "beginnings of records that were cut off left out: 1 (line 2)",
    )


def test_a_header_is_made_where_there_is_none(tmp_path: Path) -> None:
    """With a new id; of a header that lacks one all else is kept, and the caller may know better."""
    found, lines = mended(chain("one"))
    told, _ = mended([{"type": "session", "cwd": "/here"}, *chain("one")])
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes(chain("one")))

    assert (lines[0]["version"], len(lines[0]["id"])) == (3, 36)
    assert found.done == ("session header made: 1",)
    assert (told.header["cwd"], told.header["version"]) == ("/here", 3)
    assert mend_file(path, header=HEADER).header == HEADER


def test_an_old_version_is_raised() -> None:
    """As opening it would: ids, a chain of parents, kept entries by id, and the new name of a role."""
    bodies: list[dict[str, Any]] = [
        {"type": "message", "message": message("user", "one")},
        {"type": "message", "message": message("hookMessage", "two", customType="c")},
        {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 2},
        {"type": "message", "message": message("user", "three")},
    ]

    found, lines = mended([{**HEADER, "version": 1}, *bodies])

    assert [entry["id"] for entry in lines[1:]] == ["00000001", "00000002", "00000003", "00000004"]
    assert [entry["parentId"] for entry in lines[1:]] == [None, "00000001", "00000002", "00000003"]
    assert (lines[0]["version"], lines[2]["message"]["role"], lines[3]["firstKeptEntryId"]) == (3, "custom", "00000002")
    assert found.done == (
        "version raised to 3: 1 (line 1)",
        "entries given an id: 4 (lines 2, 3, 4, 5)",
        "compactions that name what they keep by its id, no longer by its number: 1 (line 4)",
        "messages given the role that they have since version 3: 1 (line 3)",
    )


# -- the tree ---------------------------------------------------------------------------------------


def test_an_id_that_was_used_twice_is_told_apart() -> None:
    """Each keeps its own children, and who names the later one names it by its new id."""
    label = {"type": "label", "id": "l", "parentId": "e3", "targetId": "e1", "label": "here"}

    found, lines = mended([HEADER, *chain("one", "two"), line("e1", "e2", "again"), line("e3", "e1", "on"), label])

    fresh = lines[3]["id"]
    assert fresh not in {"e1", "e2", "e3", "l"}
    assert [entry["parentId"] for entry in lines[1:]] == [None, "e1", "e2", fresh, "e3"]
    assert lines[5]["targetId"] == fresh
    assert found.done == ("entries given another id, since theirs was used before: 1 (line 4)",)


@pytest.mark.parametrize("parent", ["lost", "e2", "e3", 7, {}], ids=["missing", "self", "behind", "a-number", "a-map"])
def test_a_parent_that_is_none_is_the_entry_before(parent: Any) -> None:
    """What was said before stays before; a ring of parents is broken in the same way."""
    found, lines = mended([HEADER, line("e1", None, "one"), line("e2", parent, "two"), line("e3", "e2", "three")])

    assert [entry["parentId"] for entry in lines[1:]] == [None, "e1", "e2"]
    assert found.done == ("entries put behind the ones before them, since their parents are none: 1 (line 3)",)


def test_a_root_and_one_that_names_the_session_stay_roots() -> None:
    """A session may be begun anew."""
    found, _ = mended([HEADER, *chain("one"), line("e2", None, "two"), line("e3", "s-1", "three")])

    assert found.done == ()


def test_a_parent_that_stands_behind_its_child_is_put_before_it() -> None:
    """A program that sorts lines: the conversation is what it was, and nothing of it is lost."""
    one, two, three = chain("one", "two", "three")

    found, lines = mended([HEADER, two, one, three])

    assert [entry["id"] for entry in lines[1:]] == ["e1", "e2", "e3"]
    assert found.done == ("entries put before those that follow them: 1 (line 3)",)


@pytest.mark.parametrize("kept", ["lost", "other", 7, None], ids=["missing", "of-another-branch", "a-number", "none"])
def test_a_compaction_that_keeps_nothing_of_its_branch_names_itself(kept: Any) -> None:
    """Which is how nothing is written, and what opening the file takes it for."""
    boundary = {"type": "compaction", "id": "c", "parentId": "e1", "summary": "s", "firstKeptEntryId": kept}

    found, lines = mended([HEADER, *chain("one"), line("other", "e1", "left"), boundary])

    assert lines[3]["firstKeptEntryId"] == "c"
    assert found.done == ("compactions that keep nothing, since what they kept is not before them: 1 (line 4)",)


def test_a_compaction_that_kept_from_a_lost_result_on_keeps_what_follows_it() -> None:
    """B02: the context begins where it began, without the result."""
    boundary = {"type": "compaction", "summary": "s", "firstKeptEntryId": "e2"}

    _, lines = mended([HEADER, *talk(message("user"), result("x"), message("assistant", text("on")), boundary)])

    assert [entry["id"] for entry in lines[1:]] == ["e1", "e3", "e4"]
    assert (lines[2]["parentId"], lines[3]["firstKeptEntryId"]) == ("e1", "e3")


def test_labels_of_nothing_are_left_out_and_the_conversation_stays_where_it_is() -> None:
    """A label was the last line: without it another branch would be the active one, but for a line of ours."""
    label = {"type": "label", "id": "l", "parentId": "e2", "targetId": "lost"}

    found, lines = mended([HEADER, *chain("one", "two"), line("x", "e1", "left"), label])

    assert [entry.get("customType", entry["id"]) for entry in lines[1:]] == ["e1", "e2", "x", "openclaw-ctx.leaf"]
    assert lines[-1]["parentId"] == "e2"
    assert found.done == (
        "labels of nothing left out: 1 (line 5)",
        "entry added that keeps the conversation where it is: 1",
    )


# -- what entries say -------------------------------------------------------------------------------


def test_results_without_calls_are_left_out_and_missing_ones_put_in() -> None:
    """On the active branch; what follows them follows what is left, and a call's missing result says so."""
    found, lines = mended(
        [
            HEADER,
            *talk(result("x"), calls("a", "b"), result("b"), result("b"), message("user"), message("assistant")),
            *[{**one, "id": f"f{n}", "parentId": None} for n, one in enumerate(talk(message("user", "anew")))],
            *[{**one, "id": f"g{n}", "parentId": "e6"} for n, one in enumerate(talk(message("user", "on")))],
        ]
    )

    assert [entry["id"] for entry in lines[1:] if entry["id"] != lines[2]["id"]] == ["e2", "e3", "e5", "e6", "f0", "g0"]
    added = lines[2]
    assert added["message"] | {"content": None} == {
        "role": "toolResult",
        "toolCallId": "a",
        "toolName": "read",
        "content": None,
        "isError": True,
    }
    assert (added["parentId"], added["timestamp"]) == ("e2", lines[1]["timestamp"])
    assert [entry["parentId"] for entry in lines[1:5]] == [None, "e2", added["id"], "e3"]
    assert found.done == (
        "tool results without a call left out: 1 (line 2)",
        "second results of a tool call left out: 1 (line 5)",
        "missing tool results added: 1 (line 3)",
    )


@pytest.mark.parametrize(
    "body,expected",
    [
        pytest.param(message("user", " "), "(continue)", id="a-blank-user"),
        pytest.param(message("user", text("", " ")), text("(continue)"), id="blank-blocks-of-a-user"),
        pytest.param({"role": "user"}, "(continue)", id="a-user-without-content"),
        pytest.param(message("user", text("", "hi")), text("hi"), id="a-blank-block-beside-words"),
        pytest.param(message("toolResult", text("hi", ""), toolCallId="c"), text("hi"), id="a-result"),
        pytest.param(
            message("assistant", [], stopReason="error"),
            text("[assistant turn failed before producing content]"),
            id="a-reply-that-failed",
        ),
        pytest.param(message("assistant", text(""), stopReason="stop"), text(""), id="a-clean-stop"),
        pytest.param(message("assistant", 7, stopReason="error"), 7, id="what-nobody-understands"),
    ],
)
def test_what_is_blank_is_mended_as_the_reference_does(body: dict[str, Any], expected: Any) -> None:
    """Fixed words for a blank question and a failed reply; a blank block goes; a clean empty stop is left alone."""
    _, lines = mended([HEADER, *talk(calls("c", stop="aborted"), body)])

    assert lines[2]["message"]["content"] == expected


def test_an_entry_without_a_message_is_set_aside() -> None:
    """What it holds is kept where no model sees it; a summary that is no text becomes one."""
    boundary = {"type": "compaction", "summary": 5, "firstKeptEntryId": "e1"}

    found, lines = mended([HEADER, *talk({"content": "no role"}, boundary)])

    assert (lines[1]["type"], lines[1]["data"], lines[2]["summary"]) == ("custom", {"content": "no role"}, "5")
    assert "message" not in lines[1]
    assert found.done == (
        "entries without a message set aside: 1 (line 2)",
        "summaries that were no text made one: 1 (line 3)",
    )
