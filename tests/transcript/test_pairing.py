"""Calls and results made whole: what a provider would refuse is mended, and whole messages are left alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import (
    AssistantMessage,
    CompactionSummaryMessage,
    CustomMessage,
    EntryId,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.transcript import PairRepair, pairs_are_whole, repair_pairs
from tests.transcript.sessions import HEADER, as_bytes, line, opened

CUT_OFF = ("error", "aborted")


def user(text: str = "u") -> UserMessage:
    """Return a user's message."""
    return UserMessage(content=text)


def calls(*call_ids: str, stop: str = "toolUse", entry_id: str | None = None) -> AssistantMessage:
    """Return an assistant's message that calls tools."""
    content = [TextBlock(text="t"), *(ToolCallBlock(id=i, name="read", arguments={"of": i}) for i in call_ids)]
    return AssistantMessage(content=content, stop_reason=stop, entry_id=EntryId(entry_id) if entry_id else None)


def result(call_id: str, text: str = "r", name: str | None = "read") -> ToolResultMessage:
    """Return a tool's answer."""
    return ToolResultMessage(tool_call_id=call_id, content=text, tool_name=name)


_CALL_IDS = st.sampled_from(["", "a", "b", "c", "a_1", "x" * 64, "x" * 65, "x" * 70, "x" * 40])
MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.sampled_from("uv")),
        st.builds(result, _CALL_IDS, st.sampled_from("rs"), st.sampled_from([None, "read"])),
        st.builds(
            lambda call_ids, stop, entry_id: calls(*call_ids, stop=stop, entry_id=entry_id),
            st.lists(_CALL_IDS, max_size=3),
            st.sampled_from(["toolUse", "stop", *CUT_OFF]),
            st.sampled_from([None, "e1", "f" * 36]),
        ),
        st.just(CustomMessage(content="c")),
        st.just(CompactionSummaryMessage(summary="s")),
    ),
    max_size=9,
)


def call_ids(messages: Sequence[Message]) -> list[str]:
    """Return the ids of all calls, in order."""
    return [call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls]


def spelled(messages: Sequence[Message]) -> list[Any]:
    """Return the messages without the ids of calls, which a repair may change."""
    return [
        (type(m), m.text, [call.arguments for call in m.tool_calls] if isinstance(m, AssistantMessage) else None)
        for m in messages
        if not isinstance(m, ToolResultMessage)
    ]


# -- laws -------------------------------------------------------------------------------------------


@settings(max_examples=400, deadline=None)
@given(MESSAGES)
def test_repaired_messages_are_whole(messages: list[Message]) -> None:
    """No result without its call directly before it, no call without a result but in a reply that was cut off."""
    repaired = repair_pairs(messages).messages

    assert pairs_are_whole(repaired)
    waiting: list[str] = []
    may_wait = True
    for message in repaired:
        if isinstance(message, ToolResultMessage):
            waiting.remove(message.tool_call_id)
            continue
        assert may_wait or not waiting
        waiting = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
        may_wait = isinstance(message, AssistantMessage) and message.stop_reason in CUT_OFF
    assert may_wait or not waiting


@settings(max_examples=400, deadline=None)
@given(MESSAGES)
def test_ids_that_reach_a_model_are_unique_and_short(messages: list[Message]) -> None:
    """B05: within the shortest limit of the providers, never empty, and no two alike."""
    found = call_ids(repair_pairs(messages).messages)

    assert len(set(found)) == len(found)
    assert all(0 < len(one) <= 64 for one in found)


@settings(max_examples=400, deadline=None)
@given(MESSAGES)
def test_nothing_but_results_is_dropped_or_reordered(messages: list[Message]) -> None:
    """Every other message is there, once, in its place among the others, saying what it said."""
    assert spelled(repair_pairs(messages).messages) == spelled(messages)


@settings(max_examples=400, deadline=None)
@given(MESSAGES)
def test_a_second_repair_has_nothing_to_do(messages: list[Message]) -> None:
    """And what is whole comes back as the very object it was."""
    once = repair_pairs(messages)

    twice = repair_pairs(once.messages)

    assert twice == PairRepair(messages=once.messages)
    assert twice.messages is once.messages
    assert twice.changes == 0


@settings(max_examples=400, deadline=None)
@given(MESSAGES)
def test_what_was_changed_is_counted(messages: list[Message]) -> None:
    """The counts add up to the difference, and are all 0 exactly where nothing needed repair."""
    repaired = repair_pairs(messages)
    results = sum(isinstance(message, ToolResultMessage) for message in messages)
    left = sum(isinstance(message, ToolResultMessage) for message in repaired.messages)

    assert left == results + repaired.added - repaired.dropped_duplicates - repaired.dropped_orphans
    assert (repaired.changes == 0) == pairs_are_whole(messages) == (repaired.messages is messages)
    assert repaired.renamed == sum(a != b for a, b in zip(call_ids(messages), call_ids(repaired.messages), strict=True))


# -- examples ---------------------------------------------------------------------------------------


def test_reused_ids_keep_their_own_results() -> None:
    """B05: a gateway that counts from zero in every reply; each result keeps its text, behind its own call."""
    messages = [
        user("one"),
        calls("call_0", entry_id="aaaa1111"),
        result("call_0", "x"),
        user("two"),
        calls("call_0", entry_id="bbbb2222"),
        result("call_0", "y"),
    ]

    repaired = repair_pairs(messages)

    assert (repaired.changes, repaired.renamed) == (1, 1)
    assert repaired.messages[:3] == tuple(messages[:3])
    assert call_ids(repaired.messages) == ["call_0", "call_0_bbbb2222_1"]
    assert [(m.tool_call_id, m.text) for m in repaired.messages if isinstance(m, ToolResultMessage)] == [
        ("call_0", "x"),
        ("call_0_bbbb2222_1", "y"),
    ]


def test_two_calls_of_one_reply_that_share_an_id_are_told_apart() -> None:
    """B05: one completed and one aborted; by position, so the completed one keeps its text."""
    messages = [user(), calls("call_0", "call_0"), result("call_0", "done"), result("call_0", "aborted"), user()]

    repaired = repair_pairs(messages)

    assert call_ids(repaired.messages) == ["call_0", "call_0_1"]
    assert [(m.tool_call_id, m.text) for m in repaired.messages[2:4]] == [("call_0", "done"), ("call_0_1", "aborted")]
    assert repaired.renamed == repaired.changes == 1


def test_of_two_calls_that_share_an_id_one_may_be_unanswered() -> None:
    """B05: the first takes the only result, the second is told that its own is missing."""
    repaired = repair_pairs([calls("call_0", "call_0"), result("call_0", "done")])

    first, second = repaired.messages[1:]
    assert (first.text, second.is_error) == ("done", True)
    assert (repaired.added, repaired.renamed) == (1, 1)


def test_a_name_that_was_given_is_given_again_next_turn() -> None:
    """A longer history renames what it had before in the same way: the provider's cache stays warm."""
    turn = [calls("c", entry_id="aaaa1111"), result("c"), calls("c", entry_id="bbbb2222"), result("c"), user()]
    longer = [*turn, calls("c", entry_id="cccc3333"), result("c")]

    assert call_ids(repair_pairs(longer).messages)[:2] == call_ids(repair_pairs(turn).messages)


def test_a_result_behind_other_messages_is_moved() -> None:
    """The user spoke while the tool ran: the result goes to its call, and the user's words follow."""
    steer = user("also this")
    messages = [user(), calls("a", "b"), result("a"), steer, result("b"), user("later")]

    repaired = repair_pairs(messages)

    assert repaired.messages == (*messages[:3], messages[4], steer, messages[5])
    assert repaired.moved == repaired.changes == 1


def test_results_follow_the_order_of_their_calls_once_anything_is_mended() -> None:
    """Both orders are whole; a repair writes that of the calls."""
    messages = [calls("a", "b"), result("b"), result("a")]

    assert repair_pairs(messages).messages is messages
    assert repair_pairs([*messages, result("z")]).messages == (messages[0], messages[2], messages[1])


def test_a_missing_result_is_replaced_by_one_that_says_so() -> None:
    """An error result with the tool's name, directly behind the call."""
    repaired = repair_pairs([calls("a"), user("go on")])

    added = repaired.messages[1]
    assert isinstance(added, ToolResultMessage)
    assert (added.tool_call_id, added.tool_name, added.is_error) == ("a", "read", True)
    assert "missing" in added.text
    assert repaired.added == repaired.changes == 1


def test_a_nameless_tool_is_called_unknown() -> None:
    """A provider wants a name."""
    nameless = AssistantMessage(content=[ToolCallBlock(id="a", name="")])

    assert repair_pairs([nameless]).messages[1].tool_name == "unknown"


@pytest.mark.parametrize("stop", CUT_OFF)
def test_a_reply_that_was_cut_off_waits_for_nothing(stop: str) -> None:
    """Its calls never ran; a result that there is stays with it."""
    alone, answered = [calls("a", stop=stop), user()], [calls("a", "b", stop=stop), result("b"), user()]

    assert repair_pairs(alone).messages is alone
    assert repair_pairs(answered).messages is answered
    assert repair_pairs([calls("a", stop=stop), user(), result("a")]).moved == 1
    assert repair_pairs([*alone, result("z")]).messages == tuple(alone)


@pytest.mark.parametrize(
    "messages,dropped",
    [
        pytest.param([result("x"), user()], (0, 1), id="before-any-call"),
        pytest.param([calls("a"), result("a"), result("x")], (0, 1), id="of-no-call"),
        pytest.param([calls("a"), result("a"), result("a")], (1, 0), id="a-second-one"),
        pytest.param([calls("a"), result("a", "same"), user(), result("a", "same")], (1, 0), id="an-equal-one-later"),
        pytest.param([AssistantMessage(content="hi"), result("x")], (0, 1), id="behind-a-reply-without-calls"),
        pytest.param([calls("a"), result("a"), calls("b"), result("b"), result("a")], (0, 1), id="of-an-older-reply"),
    ],
)
def test_a_result_that_answers_nothing_is_dropped(messages: list[Message], dropped: tuple[int, int]) -> None:
    """And counted: as a duplicate where its call has an answer in the same reply, else as an orphan."""
    repaired = repair_pairs(messages)

    assert (repaired.dropped_duplicates, repaired.dropped_orphans) == dropped
    assert repaired.changes == 1


def test_equal_results_that_were_moved_are_counted_as_moved() -> None:
    """Two results that say the same are two results."""
    repaired = repair_pairs([calls("a"), user(), result("a"), result("a")])

    assert (repaired.moved, repaired.dropped_duplicates) == (1, 1)


def test_the_name_of_a_tool_is_filled_in_from_its_call() -> None:
    """Where messages are mended, a result without a name gets that of its call."""
    repaired = repair_pairs([result("x"), calls("a"), result("a", name=None)])

    assert repaired.messages[-1].tool_name == "read"


def test_thousands_of_calls_of_one_name_are_told_apart_in_one_pass() -> None:
    """A long session through such a gateway: each new name is found at once."""
    messages = [m for n in range(5000) for m in (calls("call_0"), result("call_0", str(n)))]

    repaired = repair_pairs(messages)

    assert repaired.renamed == 4999
    assert pairs_are_whole(repaired.messages)
    assert [m.text for m in repaired.messages[1::2]] == [str(n) for n in range(5000)]


def test_a_history_is_repaired_like_a_list(tmp_path: Path) -> None:
    """The host's own view, read from disk: whole, it comes back as itself."""
    path = tmp_path / "s.jsonl"
    call = line(
        "a", None, "", role="assistant", content=[{"type": "toolCall", "id": "c", "name": "n", "arguments": {}}]
    )
    answer = line("r", "a", "done", role="toolResult", toolCallId="c", toolName="n")
    path.write_bytes(as_bytes([HEADER, call, answer]))
    with opened(path) as transcript:
        history = transcript.history

        assert repair_pairs(history).messages is history
        assert repair_pairs(history[1:]).dropped_orphans == 1
        assert repair_pairs(history[:1]).added == 1
