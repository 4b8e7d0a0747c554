"""What of a message is searched, and how it comes back."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownMessage,
    UserMessage,
    estimate_tokens,
)
from openclaw_ctx_rag.documents import date_of, documents_of, is_searched, message_of


def document(message, **options):
    """Return the one document of a message."""
    message = attrs.evolve(message, entry_id=message.entry_id or "1")
    (found,) = documents_of([message], count=estimate_tokens, **options)
    return found


def test_what_nobody_said_is_not_searched():
    """Instructions, summaries, our own lines, commands kept out of the context, what nobody knows, what is empty."""
    left_out = [
        SystemMessage(content="obey"),
        CompactionSummaryMessage(summary="they talked"),
        BranchSummaryMessage(summary="they left"),
        UnknownMessage(data={}),
        CustomMessage(custom_type="openclaw-ctx-rag", content="[..]"),
        BashExecutionMessage(command="ls", output="a", exclude_from_context=True),
        UserMessage(content=" \n"),
        AssistantMessage(content=(ThinkingBlock(thinking="hm"),)),
        CustomMessage(custom_type="note", content=()),
    ]
    searched = [
        UserMessage(content="hi"),
        AssistantMessage(content="ho"),
        ToolResultMessage(content="42", tool_call_id="c"),
        ToolResultMessage(content="", tool_call_id="c"),
        CustomMessage(custom_type="note", content="of a program"),
        BashExecutionMessage(command="ls", output="a"),
    ]

    assert not any(map(is_searched, left_out))
    assert all(map(is_searched, searched))


@pytest.mark.parametrize(
    "message,author,text",
    [
        (UserMessage(content="Caroline: I went."), "Caroline", "I went."),
        (UserMessage(content="Mary Ann O'Neil: no"), "Mary Ann O'Neil", "no"),
        (UserMessage(content="I went.", extra={"name": "caroline"}), "caroline", "I went."),
        (UserMessage(content="http://x: y"), "", "http://x: y"),
        (UserMessage(content="He said: no"), "", "He said: no"),
        (UserMessage(content="小明: 你好"), "小明", "你好"),
    ],
)
def test_the_author_is_what_the_message_says_of_itself(message, author, text):
    """A name of its own, or one in front, as chats are handed to agents."""
    found = document(message)

    assert (found.author, found.text) == (author, text)


def test_calls_are_searched_with_their_arguments_and_make_a_group_with_their_results():
    """Over any slicing: results may come in another slice than their calls."""
    call = ToolCallBlock(id="c", name="read", arguments={"path": "a/b.py"})
    messages = [
        UserMessage(content="look", entry_id="1"),
        AssistantMessage(content=(TextBlock(text="I do."), call), entry_id="2"),
        ToolResultMessage(content="x", tool_call_id="c", entry_id="3"),
        ToolResultMessage(content="y", tool_call_id="d", entry_id="4"),
        UserMessage(content="thanks", entry_id="5"),
    ]

    whole = documents_of(messages, count=estimate_tokens)
    sliced = documents_of(messages[2:], count=estimate_tokens, open_group="2")

    assert [found.group for found in whole] == ["1", "2", "2", "2", "5"]
    assert [found.group for found in sliced] == ["2", "2", "5"]
    assert whole[1].text == 'I do.\nread {"path": "a/b.py"}'
    assert [found.role for found in whole] == ["user", "assistant", "tool", "tool", "user"]


def test_thoughts_and_pictures_do_not_come_back():
    """A picture leaves a word that there was one; what was thought leaves nothing, and costs nothing."""
    message = AssistantMessage(
        content=(
            ThinkingBlock(thinking="hm " * 100),
            TextBlock(text="Look:"),
            ImageBlock(data="AAAA", mime_type="image/png"),
        ),
        entry_id="1",
        usage={"input": 5},
    )

    found = document(message)
    back = message_of("1", found.wire)

    assert back.text == "Look:\n[picture]"
    assert back.usage is None
    assert found.tokens == estimate_tokens(back) < 10


@given(text=st.text(st.characters(), max_size=59).map("a{}".format), timestamp=st.one_of(st.none(), st.floats(0, 4e12)))
def test_what_was_kept_comes_back(text, timestamp):
    """Any text: lone surrogates, control characters."""
    message = UserMessage(content=text, entry_id="1", timestamp=timestamp)

    assert message_of("1", document(message).wire) == message


@pytest.mark.parametrize(
    "timestamp,day",
    [
        (1_683_504_000_000.0, "8 May 2023"),
        (1_683_503_999_999.0, "7 May 2023"),
        (None, ""),
        (0, ""),
        (1e18, ""),
        (float("nan"), ""),
    ],
)
def test_the_day_is_that_of_utc(timestamp, day):
    """Nothing where there is none, or none that exists."""
    assert date_of(timestamp) == day
