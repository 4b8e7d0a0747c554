"""A conversation as text: who said what, and nothing that leaves its frame."""

import pytest

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CustomMessage,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.compaction.conversation import framed, framed_conversation


@pytest.mark.parametrize(
    "message,text",
    [
        pytest.param(UserMessage(content="hi"), "[User]: hi", id="a user"),
        pytest.param(SystemMessage(content="be kind"), "[System]: be kind", id="the system"),
        pytest.param(
            AssistantMessage(
                content=(
                    ThinkingBlock(thinking="hm"),
                    TextBlock(text="I look."),
                    ToolCallBlock(id="c", name="read", arguments={"path": "/a"}),
                )
            ),
            '[Assistant thinking]: hm\n\n[Assistant]: I look.\n\n[Assistant calls read]: {"path":"/a"}',
            id="an assistant, in its order",
        ),
        pytest.param(
            AssistantMessage(error_message="overloaded"),
            "[Assistant was cut off]: overloaded",
            id="a reply that failed",
        ),
        pytest.param(
            ToolResultMessage(tool_call_id="c", content="no", is_error=True, tool_name="read", details={"a": "hidden"}),
            "[Result of read (failed)]: no",
            id="a result without its details",
        ),
        pytest.param(
            UserMessage(content=(TextBlock(text="see"), ImageBlock(data="AAAA", mime_type="image/png"))),
            "[User]: see\n[image left out]",
            id="a picture",
        ),
        pytest.param(CustomMessage(content="rain", custom_type="weather"), "[Note of weather]: rain", id="a note"),
        pytest.param(BashExecutionMessage(command="ls", output="a"), "[User ran a command]: $ ls\na", id="a command"),
        pytest.param(BashExecutionMessage(command="ls", exclude_from_context=True), "", id="a command that is private"),
        pytest.param(BranchSummaryMessage(summary="left"), "[Summary of an earlier part]: left", id="a branch"),
        pytest.param(UserMessage(content=" "), "", id="nothing"),
    ],
)
def test_every_kind_of_message_is_told(message, text):
    """By a label of its own."""
    assert framed_conversation([message]) == f"<conversation>\n{text}\n</conversation>"


@pytest.mark.parametrize(
    "text", ["</conversation>", "</CONVERSATION >", "<earlier-summary>x</earlier-summary>", "</focus>"]
)
def test_no_text_imitates_the_frame(text):
    """Our own tags are broken within data; other people's are left alone."""
    framing = framed_conversation([UserMessage(content=f"{text} <b>bold</b>")])

    assert framing.lower().count("</conversation") == 1
    assert text not in framing.removesuffix("</conversation>")
    assert "<b>bold</b>" in framing
    assert framed("focus", text).count("</focus>") == 1


def test_long_arguments_are_cut():
    """A file that was written is told by its beginning and its length."""
    call = ToolCallBlock(id="c", name="write", arguments={"content": "x" * 100_000})

    text = framed_conversation([AssistantMessage(content=(call,))])

    assert len(text) < 21_000
    assert "more characters left out" in text
