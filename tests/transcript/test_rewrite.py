"""Messages replaced on the active branch: by branching, so that nothing that was said is lost."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openclaw_ctx.transcript as transcript_room
from openclaw_ctx.contract import (
    AssistantMessage,
    CustomMessage,
    EntryId,
    Message,
    Replacement,
    RewriteResult,
    UserMessage,
)
from openclaw_ctx.transcript import Transcript, rewrite
from tests.transcript.sessions import HEADER, as_bytes, chain, ids, line, new_file, opened, say, texts


def replace(transcript: Transcript, *pairs: tuple[Any, Message], **options: Any) -> RewriteResult:
    """Replace by entry id."""
    found = [Replacement(entry_id=EntryId(str(entry_id)), message=message) for entry_id, message in pairs]
    return rewrite(transcript, found, **options)


@pytest.fixture(name="transcript")
def _transcript(tmp_path: Path):
    """Return an open transcript of five messages, ``e1`` to ``e5``."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("1", "2", "3", "4", "5")]))
    with opened(path) as transcript:
        yield transcript


def test_a_message_is_replaced_and_the_rest_follows_it(transcript: Transcript) -> None:
    """What comes before keeps its id, what comes after is written again; live and after opening again."""
    before = transcript.path.read_bytes()
    leaf = transcript.leaf_id

    result = replace(transcript, ("e3", say("III")))

    assert result == RewriteResult(changed=True, rewritten_entries=1, bytes_freed=0)
    live = list(transcript.history)
    transcript.close()
    with opened(transcript.path) as again:
        assert list(again.history) == live
        assert not again.has_entry(leaf)
    assert texts(live) == ["1", "2", "III", "4", "5"]
    assert [message.entry_id for message in live[:2]] == ["e1", "e2"]
    assert not {str(message.entry_id) for message in live[2:]} & {"e3", "e4", "e5"}
    assert transcript.path.read_bytes().startswith(before)


def test_the_first_message_is_replaced_on_a_new_root(transcript: Transcript) -> None:
    """There is nothing to follow, so its parent is none."""
    replace(transcript, ("e1", say("I")))

    assert texts(transcript.history) == ["I", "2", "3", "4", "5"]
    assert json.loads(transcript.path.read_bytes().splitlines()[6])["parentId"] is None


def test_freed_bytes_are_those_that_replacements_save(transcript: Transcript) -> None:
    """Of each replaced message, what its JSON is shorter by; a longer one counts nothing."""
    long = transcript.append(say("x" * 1000)).entry_id

    result = replace(transcript, (long, say("x" * 10)), ("e5", say("y" * 50)))

    assert result.bytes_freed == 990
    assert result.rewritten_entries == 2


@pytest.mark.parametrize(
    "wanted,options,reason",
    [
        pytest.param([], {}, "no replacements requested", id="nothing-asked"),
        pytest.param(["nobody"], {}, "no matching message entries", id="an-unknown-entry"),
        pytest.param(
            ["e3"], {"allowed_suffix_ids": {"e3", "e4"}}, "rewrite suffix guard failed", id="more-than-is-allowed"
        ),
    ],
)
def test_where_a_reason_is_returned_nothing_was_changed(
    transcript: Transcript, wanted: list[str], options: dict[str, Any], reason: str
) -> None:
    """File and branch are as they were."""
    before, shown = transcript.path.read_bytes(), ids(transcript.history)

    result = replace(transcript, *((one, say("new")) for one in wanted), **options)

    assert result == RewriteResult(changed=False, reason=reason)
    assert transcript.path.read_bytes() == before
    assert ids(transcript.history) == shown


def test_an_empty_session_has_nothing_to_replace(tmp_path: Path) -> None:
    """And says so."""
    with opened(tmp_path / "s.jsonl") as transcript:
        assert replace(transcript, ("e1", say("new"))).reason == "empty session"


def test_a_guard_that_allows_the_suffix_lets_it_through(transcript: Transcript) -> None:
    """Every entry that is written again is among those allowed."""
    assert replace(transcript, ("e4", say("IV")), allowed_suffix_ids={"e4", "e5"}).changed


def test_only_lines_that_are_messages_are_replaced(transcript: Transcript) -> None:
    """A custom message has a line of its own type, which is not replaced and not written again for nothing."""
    note = transcript.append(CustomMessage(content="note", custom_type="n")).entry_id
    before = transcript.path.read_bytes()

    result = replace(transcript, (note, say("new")))

    assert result == RewriteResult(changed=False, reason="no matching message entries")
    assert transcript.path.read_bytes() == before


def test_a_message_on_a_dead_branch_is_not_replaced(transcript: Transcript) -> None:
    """Only the active branch is what a model sees."""
    transcript.branch(EntryId("e2"))
    transcript.append(say("other"))

    assert not replace(transcript, ("e4", say("IV"))).changed


def test_ids_inside_lines_name_the_new_entries(transcript: Transcript) -> None:
    """What a compaction keeps, a label marks and a branch summary comes from are written again with their names."""
    transcript.append_compaction(summary="so far", first_kept_entry_id=EntryId("e4"), tokens_before=9)
    path = transcript.path
    transcript.close()
    with path.open("ab") as file:
        leaf = json.loads(path.read_bytes().splitlines()[-1])["id"]
        label = {"type": "label", "id": "l", "parentId": leaf, "targetId": "e5", "label": "x"}
        branched = {"type": "branch_summary", "id": "b", "parentId": "l", "fromId": "e3", "summary": "went"}
        file.write(as_bytes([label, branched, line("e6", "b", "6")]))

    with opened(path) as again:
        replace(again, ("e3", say("III")))
        live = list(again.history)
    with opened(path) as third:
        assert list(third.history) == live
        assert texts(live) == ["so far", "4", "5", "went", "6"]
        record = {message.text: message.entry_id for message in third.record()}
    written = {item["type"]: item for item in map(json.loads, path.read_bytes().splitlines()[-6:])}
    assert written["compaction"]["firstKeptEntryId"] == record["4"]
    assert written["label"]["targetId"] == record["5"]
    assert written["branch_summary"]["fromId"] == record["III"]


def test_user_messages_repeated_without_a_reply_between_become_one(tmp_path: Path) -> None:
    """Equal to the byte, on the branch that is written again; what named the repetition names the one that stays."""
    path = tmp_path / "s.jsonl"
    twice = [line("e2", "e1", "same"), line("e3", "e2", "same"), line("a", "e3", "answer", role="assistant")]
    again = [line("e4", "a", "same", timestamp=1)]
    boundary = {"type": "compaction", "id": "c", "parentId": "e4", "summary": "s", "firstKeptEntryId": "e3"}
    path.write_bytes(as_bytes([HEADER, line("e1", None, "1"), *twice, *again, boundary]))

    with opened(path) as transcript:
        replace(transcript, ("e1", say("I")))

        assert texts(transcript.record()) == ["I", "same", "answer", "same"]
        assert texts(transcript.history) == ["s", "same", "answer", "same"]


def test_what_is_said_again_after_a_reply_stays(tmp_path: Path) -> None:
    """People answer "yes" more than once, and each was a turn."""
    path = tmp_path / "s.jsonl"
    lines = [line("e1", None, "1"), line("e2", "e1", "yes"), line("a", "e2", "done", role="assistant")]
    path.write_bytes(as_bytes([HEADER, *lines, line("e3", "a", "yes")]))

    with opened(path) as transcript:
        replace(transcript, ("e1", say("yes")))

        assert texts(transcript.record()) == ["yes", "done", "yes"]


def test_a_replacement_is_never_taken_for_the_repetition_it_was(tmp_path: Path) -> None:
    """Of two equal messages the second is replaced: both stay, since they are equal no more."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("same", "same", "3")]))

    with opened(path) as transcript:
        replace(transcript, ("e1", say("same")), ("e2", say("other")))

        assert texts(transcript.record()) == ["same", "other", "3"]


def test_repeated_answers_stay(tmp_path: Path) -> None:
    """Assistants' messages are never collapsed."""
    path = tmp_path / "s.jsonl"
    with opened(path) as transcript:
        first = transcript.append(say("1")).entry_id
        for _ in range(3):
            transcript.append(AssistantMessage(content="same"))

        replace(transcript, (first, say("I")))

        assert texts(transcript.record()) == ["I", "same", "same", "same"]


def test_what_the_model_must_not_see_stays_hidden(tmp_path: Path) -> None:
    """A message that was left out of the context is left out after it was written again."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("1"), line("e2", "e1", "aside", excludeFromContext=True)]))

    with opened(path) as transcript:
        replace(transcript, ("e1", say("I")))
        assert texts(transcript.history) == ["I"]
        assert texts(transcript.record()) == ["I", "aside"]


def test_a_branch_whose_root_names_a_lost_parent_is_rewritten(tmp_path: Path) -> None:
    """An unknown parent ends the walk, and is no place to go on from."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, line("e1", "gone", "1"), line("e2", "e1", "2")]))

    with opened(path) as transcript:
        replace(transcript, ("e1", say("I")))

        assert texts(transcript.history) == ["I", "2"]


def test_what_another_program_appended_is_written_again_too(transcript: Transcript) -> None:
    """The rewrite notices that the file has changed, and does not leave the other's entry behind."""
    with transcript.path.open("ab") as file:
        file.write(as_bytes([line("f", "e5", "theirs")]))

    replace(transcript, ("e2", say("II")))

    assert texts(transcript.history) == ["1", "II", "3", "4", "5", "theirs"]


def test_an_old_file_is_rewritten_in_the_new_version(tmp_path: Path) -> None:
    """The migration comes first, under the ids that were shown."""
    path = tmp_path / "s.jsonl"
    old = [{"type": "message", "message": {"role": "user", "content": text}} for text in "123"]
    path.write_bytes(as_bytes([{"type": "session", "id": "old"}, *old]))
    with opened(path) as transcript:
        second = transcript.record().entry_ids[1]

        replace(transcript, (second, say("II")))
        live = list(transcript.history)

    with opened(path) as transcript:
        assert list(transcript.history) == live
        assert texts(live) == ["1", "II", "3"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=6), st.lists(st.integers(0, 5), max_size=3))
def test_any_rewrite_gives_the_messages_with_their_replacements(said: list[str], places: list[int]) -> None:
    """Assistants' words are where they were, replaced where that was asked; every id is new or kept, none twice."""
    with new_file() as path:
        with opened(path) as transcript:
            entry_ids = [transcript.append(AssistantMessage(content=text)).entry_id for text in said]
            expected = list(said)
            for place in places:
                expected[place % len(said)] = str(place)
            wanted = {entry_ids[place % len(said)]: str(place) for place in places}
            replace(transcript, *((i, AssistantMessage(content=text)) for i, text in wanted.items()))
            live = list(transcript.history)
        with opened(path) as transcript:
            again = list(transcript.history)

    assert live == again
    assert texts(live) == expected
    assert len({message.entry_id for message in live}) == len(live)
    assert all(not isinstance(message, UserMessage) for message in live)


def _lines_run(act: Callable[[], object]) -> int:
    """Return how many lines of the transcript's own code are run; a loop over entries is at least one for each."""
    package = str(Path(transcript_room.__file__).parent)
    count = 0

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(package):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def _session(path: Path, size: int, boundaries: tuple[int, ...]) -> list[str]:
    """Write a session of so many lines, with compactions so many before its end; return the ids of its messages."""
    lines = chain(*map(str, range(size)))
    for back in boundaries:
        at = size - back
        kept = {"firstKeptEntryId": f"e{at - 2}", "summary": "so far", "tokensBefore": 9}
        lines[at] = {"type": "compaction", "id": f"e{at + 1}", "parentId": f"e{at}", **kept}
    path.write_bytes(as_bytes([HEADER, *lines]))
    return [item["id"] for item in lines if item["type"] == "message"]


@pytest.mark.parametrize(
    "boundaries,back",
    [
        pytest.param((), 1, id="the-last-message"),
        pytest.param((), 9, id="one-of-the-last-ten"),
        pytest.param((20,), 9, id="one-behind-a-fold"),
        pytest.param((20, 3), 9, id="one-between-two-folds"),
    ],
)
def test_a_rewrite_costs_what_stands_behind_it_however_long_the_session(
    tmp_path: Path, boundaries: tuple[int, ...], back: int
) -> None:
    """Counted in lines of code that are run: no more in ten thousand entries than in fifty."""
    costs, live = {}, {}
    for size in (50, 10_000):
        path = tmp_path / f"{size}.jsonl"
        wanted = _session(path, size, boundaries)[-back]
        with opened(path) as transcript:
            list(transcript.record())  # what lies before the context is read once, when it is needed
            costs[size] = _lines_run(lambda t=transcript, w=wanted: replace(t, (w, say("new"))))
            transcript.append(say("and on"))
            transcript.append_compaction(summary="all", first_kept_entry_id=transcript.leaf_id, tokens_before=9)
            transcript.append(say("last"))
            live[size] = list(transcript.history), list(transcript.record()), transcript.summarised_count
        with opened(path) as again:
            assert (list(again.history), list(again.record()), again.summarised_count) == live[size]

    assert costs[10_000] == costs[50] < 3000
    assert texts(live[10_000][1]).count("new") == 1


def test_a_branch_off_a_circle_is_walked_as_at_opening(tmp_path: Path) -> None:
    """Where parents lead round, the way to another entry is no piece of the way to the leaf."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, line("a", "b", "a"), line("b", "a", "b"), line("c", "b", "c")]))
    with opened(path) as transcript:
        assert texts(transcript.record()) == ["a", "b", "c"]

        transcript.branch(EntryId("a"))
        transcript.append(say("d"))

        shown = texts(transcript.record())
    with opened(path) as again:
        assert texts(again.record()) == shown == ["b", "a", "d"]


def test_a_compaction_that_keeps_nothing_names_itself_when_it_is_written_again(tmp_path: Path) -> None:
    """Its own id is how it says so, and that id is a new one."""
    path = tmp_path / "s.jsonl"
    with opened(path) as transcript:
        first = transcript.append(say("one")).entry_id
        transcript.append_compaction(summary="so far", first_kept_entry_id=None, tokens_before=9)
        transcript.append(say("two"))
        replace(transcript, (first, say("one, again")))
        boundary = transcript.boundary_id

        (line,) = [data for entry, data in transcript.entries() if entry.id == boundary]

        assert line["firstKeptEntryId"] == boundary
        assert texts(transcript.history) == ["so far", "two"]
