"""A transcript that is written: what is acknowledged stays, in order, whatever comes between."""

import json
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
from openclaw_ctx.errors import EntryNotFoundError, OpenClawCtxError
from openclaw_ctx.transcript import Transcript, rewrite
from tests.contract.wires import MESSAGES
from tests.transcript.sessions import HEADER, as_bytes, ids, line, new_file, opened, say, texts

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
        transcript.append_compaction(summary="so far", first_kept_entry_id=None, tokens_before=1)
        assert transcript.summarised_count == 1


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
        assert len(transcript.record(limit=0)) == len(transcript.record(after=first, limit=-3)) == 0
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

        with pytest.raises(EntryNotFoundError, match="nobody"):
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


def test_an_entry_near_the_end_is_found_from_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn asks where the engine was told last: that must not cost the length of the history."""
    with opened(tmp_path / "s.jsonl") as transcript:
        ids = [transcript.append(say(str(number))).entry_id for number in range(50)]
        looked_at: list[object] = []

        class Counting(list):
            def __iter__(self):
                pytest.fail("from the beginning")

            def __reversed__(self):
                for entry in super().__reversed__():
                    looked_at.append(entry)
                    yield entry

        monkeypatch.setattr(transcript._branch, "path", Counting(transcript._branch.path))

        assert transcript.nearest_on_branch(ids[-3]) == ids[-3]
        assert len(looked_at) == 3
