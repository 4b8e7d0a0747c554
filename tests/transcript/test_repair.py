"""A context as providers take it: what says nothing is left out, replaced or filled, and whole pairs stay whole."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import (
    AssistantMessage,
    BashExecutionMessage,
    Block,
    CompactionSummaryMessage,
    CustomMessage,
    EntryId,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownBlock,
    UnknownMessage,
    UserMessage,
)
from openclaw_ctx.transcript import Repair, pairs_are_whole, repair_message, repair_messages, repair_pairs
from tests.transcript import test_pairing
from tests.transcript.sessions import HEADER, as_bytes, line, opened

PICTURE = ImageBlock(data="aGk=", mime_type="image/png")
BLANK = TextBlock(text=" \n")
WORDS = TextBlock(text="words")
THOUGHT = ThinkingBlock(thinking="hm")


def user(*blocks: Block) -> UserMessage:
    """Return a user's message."""
    return UserMessage(content=blocks)


def reply(*blocks: Block, stop: str = "stop") -> AssistantMessage:
    """Return an assistant's message."""
    return AssistantMessage(content=blocks, stop_reason=stop)


def call(call_id: str) -> ToolCallBlock:
    """Return a tool call."""
    return ToolCallBlock(id=call_id, name="read")


def result(call_id: str, *blocks: Block) -> ToolResultMessage:
    """Return a tool's answer."""
    return ToolResultMessage(tool_call_id=call_id, tool_name="read", content=blocks)


def content_of(message: Message) -> tuple[Block, ...]:
    """Return the blocks of a message; none where its kind has none."""
    return getattr(message, "content", ())


def is_blank(block: Block) -> bool:
    """Return whether a block is text that says nothing."""
    return isinstance(block, TextBlock) and not block.text.strip()


def says_nothing(message: Message) -> bool:
    """Return whether a message has a content, and nothing is in it."""
    blocks = content_of(message)
    return hasattr(message, "content") and all(is_blank(b) or isinstance(b, ThinkingBlock) for b in blocks)


def speaks(message: Message) -> bool:
    """Return whether there is something in a message."""
    return not says_nothing(message)


_BLOCKS = st.lists(
    st.sampled_from([BLANK, TextBlock(text=""), WORDS, THOUGHT, PICTURE, UnknownBlock(data={"type": "x"})]), max_size=3
)
_CALLS = st.lists(st.sampled_from([call("a"), call("b"), call(""), BLANK, WORDS, THOUGHT]), max_size=3)
MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda blocks: user(*blocks), _BLOCKS),
        st.builds(lambda blocks, stop: reply(*blocks, stop=stop), _BLOCKS | _CALLS, st.sampled_from(["stop", "error"])),
        st.builds(lambda i, blocks: result(i, *blocks), st.sampled_from("ab"), _BLOCKS),
        st.builds(lambda blocks: CustomMessage(content=blocks), _BLOCKS),
        st.sampled_from([SystemMessage(content=" "), SystemMessage(content="s"), BashExecutionMessage(command="ls")]),
        st.sampled_from([CompactionSummaryMessage(summary=""), UnknownMessage(data={"role": "odd"})]),
    ),
    max_size=7,
)


# -- laws -------------------------------------------------------------------------------------------


@settings(max_examples=500, deadline=None)
@given(MESSAGES)
def test_a_repaired_context_is_one_that_providers_take(messages: list[Message]) -> None:
    """Every message says something, no text block is blank, and pairs are whole."""
    repaired = repair_messages(messages).messages

    assert pairs_are_whole(repaired)
    assert not any(map(says_nothing, repaired))
    assert not any(is_blank(block) for message in repaired for block in content_of(message))


@settings(max_examples=500, deadline=None)
@given(MESSAGES)
def test_what_is_in_order_comes_back_as_it_is(messages: list[Message]) -> None:
    """The very sequence, exactly where pairs are whole and nothing is blank; and never after a repair."""
    in_order = pairs_are_whole(messages) and not any(
        says_nothing(message) or any(map(is_blank, content_of(message))) for message in messages
    )

    repaired = repair_messages(messages)

    assert (repaired.messages is messages) == (repaired.changes == 0) == (repaired.phrases == ()) == in_order
    assert repair_messages(repaired.messages) == Repair(messages=repaired.messages)


@settings(max_examples=500, deadline=None)
@given(MESSAGES)
def test_what_says_something_stays_in_its_place(messages: list[Message]) -> None:
    """All but tool results and empty messages are there, in order; without a blank or a pair to mend, themselves."""
    repaired = repair_messages(messages)

    before = [m for m in messages if not isinstance(m, ToolResultMessage) and (isinstance(m, UserMessage) or speaks(m))]
    after = [m for m in repaired.messages if not isinstance(m, ToolResultMessage)]
    assert [type(message) for message in after] == [type(message) for message in before]
    for old, new in zip(before, after, strict=True):
        clean = not any(map(is_blank, content_of(old))) and not says_nothing(old)
        assert new is old or not clean or getattr(old, "tool_calls", ())
    blank_users = sum(isinstance(message, UserMessage) for message in messages if says_nothing(message))
    assert repaired.continued == blank_users


@settings(max_examples=500, deadline=None)
@given(test_pairing.MESSAGES)
def test_where_nothing_is_empty_pairs_are_mended_as_ever(messages: list[Message]) -> None:
    """And empty messages between them make no difference: they go first."""
    emptied = [x for message in messages for x in (message, reply(THOUGHT, stop="error"))]

    paired = repair_pairs(messages)

    assert repair_messages(messages) == Repair(**attrs.asdict(paired, recurse=False))
    assert list(repair_messages(emptied).messages) == list(paired.messages)
    assert repair_messages(emptied).left_out == len(messages)


# -- examples ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param(reply(stop="error"), id="no-content-and-an-error"),
        pytest.param(reply(TextBlock(text="")), id="one-empty-text"),
        pytest.param(reply(BLANK, BLANK), id="blank-texts-alone"),
        pytest.param(reply(THOUGHT), id="a-thought-alone"),
        pytest.param(reply(THOUGHT, BLANK), id="a-thought-and-a-blank"),
        pytest.param(AssistantMessage(), id="no-content-field"),
        pytest.param(CustomMessage(content=""), id="a-program-that-says-nothing"),
        pytest.param(SystemMessage(content=" "), id="blank-instructions"),
    ],
)
def test_a_message_that_says_nothing_is_left_out(empty: Message) -> None:
    """B72: a provider refuses it; what went wrong stays on record, and its neighbours are the objects they were."""
    messages = [user(WORDS), empty, user(WORDS)]

    repaired = repair_messages(messages)

    assert [id(message) for message in repaired.messages] == [id(messages[0]), id(messages[2])]
    assert (repaired.left_out, repaired.changes) == (1, 1)
    assert repaired.phrases == ("1 empty message left out",)


@pytest.mark.parametrize(
    "full",
    [
        pytest.param(reply(THOUGHT, WORDS), id="a-thought-with-words"),
        pytest.param(reply(THOUGHT, call("a"), stop="error"), id="a-thought-with-a-call"),
        pytest.param(reply(UnknownBlock(data={"type": "x"})), id="something-that-nobody-knows"),
        pytest.param(user(PICTURE), id="a-picture"),
        pytest.param(BashExecutionMessage(), id="a-command"),
        pytest.param(CompactionSummaryMessage(), id="a-summary-without-words"),
        pytest.param(UnknownMessage(), id="a-role-that-nobody-knows"),
    ],
)
def test_what_says_something_in_its_own_way_stays(full: Message) -> None:
    """Calls, pictures, and what only a provider or a renderer can read."""
    messages = [user(WORDS), full]

    assert repair_messages(messages).messages is messages
    assert repair_message(full) is full


def test_a_blank_block_among_others_is_removed() -> None:
    """The rest of its message stays as it was, and so does the message that it was taken from."""
    said = AssistantMessage(content=[BLANK, THOUGHT, WORDS, TextBlock(text="")], entry_id=EntryId("e"), model="m")

    repaired = repair_messages([said])

    assert repaired.messages[0] == AssistantMessage(content=[THOUGHT, WORDS], entry_id=EntryId("e"), model="m")
    assert said.content == (BLANK, THOUGHT, WORDS, TextBlock(text=""))
    assert (repaired.blanks, repaired.phrases) == (2, ("2 blank text block removed",))


@pytest.mark.parametrize("blocks", [(), (BLANK,), (TextBlock(text=""), BLANK)], ids=["none", "blank", "two-blanks"])
def test_a_blank_user_goes_on(blocks: Sequence[Block]) -> None:
    """A turn was asked for: the model is told to continue, under the entry that asked."""
    asked = UserMessage(content=blocks, entry_id=EntryId("e"))

    repaired = repair_messages([asked])

    assert repaired.messages == (UserMessage(content="(continue)", entry_id=EntryId("e")),)
    assert repaired.phrases == ("1 blank user message sent as (continue)",)
    assert repair_message(asked) == repaired.messages[0]


def test_a_picture_needs_no_words() -> None:
    """Blank text beside a picture goes, and nothing is put in its place."""
    repaired = repair_messages([user(BLANK, PICTURE)])

    assert repaired.messages == (user(PICTURE),)
    assert (repaired.blanks, repaired.continued) == (1, 0)


@pytest.mark.parametrize("blocks", [(), (BLANK,), (TextBlock(text=""), BLANK)], ids=["none", "blank", "two-blanks"])
def test_an_empty_result_stays_and_says_so(blocks: Sequence[Block]) -> None:
    """B72: its call needs it, and a provider wants a text."""
    messages = [reply(call("a")), result("a", *blocks)]

    repaired = repair_messages(messages)

    assert repaired.messages[0] is messages[0]
    assert repaired.messages[1:] == (ToolResultMessage(tool_call_id="a", tool_name="read", content="(no output)"),)
    assert repaired.phrases == ("1 empty tool result sent as (no output)",)
    assert repair_message(messages[1]) == repaired.messages[1]


def test_an_empty_result_without_its_call_is_dropped_and_not_filled() -> None:
    """One thing was done, and one is told."""
    repaired = repair_messages([user(WORDS), result("x")])

    assert (repaired.dropped_orphans, repaired.filled, repaired.changes) == (1, 0, 1)


def test_a_late_result_of_a_reply_that_was_cut_off_is_moved() -> None:
    """Its calls wait for nothing, and yet their results belong behind them."""
    messages = [reply(call("a"), stop="aborted"), user(WORDS), result("a", WORDS)]

    assert repair_messages(messages).messages == (messages[0], messages[2], messages[1])


def test_an_empty_reply_parts_no_pair() -> None:
    """A reply that failed stands between a call and its result: it is left out, and the result has its call."""
    messages = [user(WORDS), reply(call("a")), reply(stop="error"), result("a", WORDS)]

    repaired = repair_messages(messages)

    assert repaired.messages == (messages[0], messages[1], messages[3])
    assert repaired.phrases == ("1 empty message left out",)


def test_every_kind_has_its_count_and_its_phrase() -> None:
    """What was done is said once each, what is empty first."""
    messages = [
        reply(),
        user(BLANK, WORDS),
        user(),
        result("x", WORDS),
        reply(call("a"), call("b"), call("c")),
        result("a"),
        user(WORDS),
        result("b", WORDS),
        result("b", WORDS),
        reply(call("a")),
        result("a", WORDS),
    ]

    repaired = repair_messages(messages)

    assert repaired.phrases == (
        "1 empty message left out",
        "1 blank text block removed",
        "1 blank user message sent as (continue)",
        "1 empty tool result sent as (no output)",
        "1 missing tool result added",
        "1 repeated tool result dropped",
        "1 tool result without its call dropped",
        "1 tool result moved behind its call",
        "1 tool call renamed",
    )
    assert repaired.changes == 9


def test_a_message_of_a_class_of_ones_own_is_looked_at_too() -> None:
    """No engine's answer holds one, but whoever calls this may; nothing is copied where nothing is to be done."""

    class Mine(UserMessage):
        pass

    messages = [Mine(content="words")]

    assert repair_messages(messages).messages is messages
    assert repair_messages([Mine(content="")]).messages[0].text == "(continue)"


def test_content_of_a_type_that_nobody_reads_counts_as_none(tmp_path: Path) -> None:
    """B72: a message without its content field, or with a number in it, crashes nothing, as it lies on disk."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(
        as_bytes(
            [
                HEADER,
                line("u", None, "go"),
                _assistant("a1", "u", {}),
                _assistant("a2", "a1", {"content": None}),
                _assistant("a3", "a2", {"content": 7}),
                _assistant("a4", "a3", {"content": [{"type": "toolCall", "id": "c", "name": "n", "arguments": {}}]}),
                line("r", "a4", "", role="toolResult", toolCallId="c", toolName="n", content={"stdout": 1}),
            ]
        )
    )
    with opened(path) as transcript:
        repaired = repair_messages(transcript.history)

        assert [m.entry_id for m in repaired.messages] == ["u", "a4", "r"]
        assert (repaired.messages[-1].text, repaired.left_out, repaired.filled) == ("(no output)", 3, 1)
        assert [m.entry_id for m in transcript.record()] == ["u", "a1", "a2", "a3", "a4", "r"]


def _assistant(entry_id: str, parent_id: str, body: dict[str, Any]) -> dict[str, Any]:
    return line(entry_id, parent_id, "") | {"message": {"role": "assistant", "stopReason": "stop", **body}}
