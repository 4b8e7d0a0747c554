"""One message as a provider takes it: what is refused gives way, and the rest stays the same object."""

import base64

import attrs
import pytest

from openclaw_ctx.contract import (
    AssistantMessage,
    BashExecutionMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownBlock,
    UnknownMessage,
    UserMessage,
    message_from_wire,
)
from openclaw_ctx.runtime import rules
from openclaw_ctx.runtime import sanitize as module
from openclaw_ctx.runtime.rules import PromptRules
from openclaw_ctx.runtime.sanitize import sanitize

RULES = PromptRules(provider="here", model="big", tool_names=frozenset({"read", "write"}))
WORDS = TextBlock(text="words")
CALL = ToolCallBlock(id="1", name="read", arguments={"path": "x"})
SIGNED = ThinkingBlock(thinking="hm", signature="c2ln")
REDACTED = ThinkingBlock(thinking="[Reasoning redacted]", signature="c2ln", extra={"redacted": True})
FOREIGN = UnknownBlock(data={"type": "redacted_thinking", "data": "c2ln"})


def reply(*blocks, **facts):
    """Return an answer."""
    return AssistantMessage(content=blocks, entry_id="e1", **{"provider": "here", "model": "big", **facts})


def blocks_of(message, rules=RULES, **facts):
    """Return the blocks that are left of a message; ``None``: the message is gone."""
    left = sanitize(message, rules, **facts).message
    return None if left is None else left.content


def picture(size):
    """Return a picture of so many bytes."""
    return ImageBlock(data=base64.b64encode(b"x" * size).decode(), mime_type="image/png")


def test_the_bounds_are_the_reference_systems():
    """A tool's name, and a picture."""
    assert module.MAX_NAME_CHARS == 64
    assert rules.MAX_IMAGE_BYTES == PromptRules().max_image_bytes == 5 * 1024 * 1024


@pytest.mark.parametrize(
    "message",
    [
        UserMessage(content="hello"),
        UserMessage(content=[WORDS, picture(3)]),
        UserMessage(content="NO_REPLY"),
        UserMessage(),
        SystemMessage(content="Be brief."),
        CustomMessage(content="note"),
        ToolResultMessage(content="NO_REPLY", tool_call_id="1", tool_name="no such tool!", details={"a": 1}),
        BashExecutionMessage(command="ls"),
        CompactionSummaryMessage(summary="They met."),
        UnknownMessage(data={"role": "narrator"}),
        reply(),
        reply(WORDS),
        reply(TextBlock(text="I say NO_REPLY.")),
        reply(SIGNED, WORDS, CALL),
        reply(SIGNED),
        reply(UnknownBlock(data={"type": "server_tool_use", "id": "1"})),
    ],
    ids=repr,
)
def test_what_needs_nothing_is_the_same_object(message):
    """And nothing is noted."""
    result = sanitize(message, RULES)

    assert result.message is message
    assert result.notes == ()


def test_a_silent_reply_is_no_text():
    """Exactly the token goes, whatever is blank around it; an answer that was nothing else goes whole."""
    silent = TextBlock(text=" NO_REPLY\n")

    assert blocks_of(reply(silent, CALL)) == (CALL,)
    assert blocks_of(reply(SIGNED, silent)) is None
    assert sanitize(reply(silent), RULES).notes == ("silent reply removed",)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(attrs.evolve(CALL, id=""), id="no id"),
        pytest.param(attrs.evolve(CALL, id="  "), id="a blank id"),
        pytest.param(attrs.evolve(CALL, name=""), id="no name"),
        pytest.param(attrs.evolve(CALL, name="read me"), id="a space in its name"),
        pytest.param(attrs.evolve(CALL, name="read\u0664"), id="a digit of another script"),
        pytest.param(attrs.evolve(CALL, name="r" * 65), id="a name of 65 characters"),
        pytest.param(attrs.evolve(CALL, name="delete"), id="a tool that is not offered"),
        pytest.param(attrs.evolve(CALL, arguments=None), id="no input"),
        pytest.param(UnknownBlock(data={"type": "toolCall", "id": "1"}), id="a call whose name is missing"),
    ],
)
def test_a_call_that_no_provider_takes_goes(call):
    """Alone: the other calls stay. An answer that was nothing else goes whole."""
    assert blocks_of(reply(call, CALL)) == (CALL,)
    assert blocks_of(reply(WORDS, call)) == (WORDS,)
    assert blocks_of(reply(call)) is None
    assert len(sanitize(reply(call, WORDS, call), RULES).notes) == 2


@pytest.mark.parametrize("missing", ["id", "name", "arguments"])
def test_a_call_that_a_file_holds_incompletely_goes(missing):
    """A field that is null says as little as one that is not there."""
    block = {"type": "toolCall", "id": "1", "name": "read", "arguments": {}} | {missing: None}
    message = message_from_wire({"role": "assistant", "content": [{"type": "text", "text": "words"}, block]})

    assert blocks_of(message) == (WORDS,)


@pytest.mark.parametrize(
    "name", [pytest.param("r" * 64, id="64 characters"), "a-b_C9", pytest.param(" r ", id="blanks around it")]
)
def test_any_name_that_a_tool_can_have_is_taken_where_none_are_listed(name):
    """Blanks around it are no part of it."""
    call = attrs.evolve(CALL, name=name)

    assert blocks_of(reply(call), PromptRules()) == (attrs.evolve(CALL, name=name.strip()),)


def test_a_trimmed_name_is_looked_up_trimmed():
    """The tool is offered by that name."""
    assert blocks_of(reply(attrs.evolve(CALL, name="\tread "))) == (CALL,)


def test_arguments_that_are_no_object_are_the_tools_to_refuse():
    """They are there."""
    for arguments in ({}, [], "not JSON", 0, False):
        message = reply(attrs.evolve(CALL, arguments=arguments))
        assert sanitize(message, RULES).message is message


def test_no_tools_offered_takes_no_calls():
    """An empty list is a list."""
    assert blocks_of(reply(CALL), attrs.evolve(RULES, tool_names=frozenset())) is None


@pytest.mark.parametrize(
    "message",
    [
        UserMessage(content=[WORDS, picture(6)], entry_id="e1"),
        ToolResultMessage(content=[WORDS, picture(6)], tool_call_id="1"),
        CustomMessage(content=[WORDS, picture(6)]),
        reply(WORDS, picture(6)),
    ],
    ids=["user", "toolResult", "custom", "assistant"],
)
def test_a_picture_over_the_limit_is_named_in_its_place(message):
    """By its size as decoded; all else of the message stays."""
    small = attrs.evolve(RULES, max_image_bytes=5)
    line = TextBlock(text="[An image of 6 bytes is left out; at most 5 can be sent.]")

    result = sanitize(message, small)

    assert result.message == attrs.evolve(message, content=(WORDS, line))
    assert result.notes == ("image over the limit named in its place",)


@pytest.mark.parametrize("size", range(1, 9))
def test_the_limit_is_exact(size):
    """A picture of just that size is sent, one byte more is not; with a data URL's head as well."""
    bare = picture(size)
    url = ImageBlock(data=f"data:image/png;base64,{bare.data}", mime_type="image/png")

    for block in (bare, url):
        assert blocks_of(UserMessage(content=[block]), PromptRules(max_image_bytes=size)) == (block,)
        assert blocks_of(UserMessage(content=[block]), PromptRules(max_image_bytes=size - 1)) != (block,)


def test_thinking_goes_where_it_is_not_taken_back():
    """Whatever it is signed with; an answer that was nothing else goes whole."""
    silent = attrs.evolve(RULES, keep_thinking=False)

    assert blocks_of(reply(SIGNED, WORDS, REDACTED, FOREIGN), silent) == (WORDS,)
    assert blocks_of(reply(ThinkingBlock(thinking="hm")), silent) is None
    assert blocks_of(reply(SIGNED), silent, running=True) is None


@pytest.mark.parametrize("running", [False, True])
def test_no_signature_is_sent_where_one_was_refused(running):
    """What was thought stays; what was encrypted is nothing without."""
    plain = ThinkingBlock(thinking="hm")
    message = reply(SIGNED, plain, REDACTED, FOREIGN, WORDS)

    result = sanitize(message, RULES, running=running, strip_signatures=True)

    assert result.message.content == (plain, plain, WORDS)
    assert result.notes == ("signature of thinking removed",) * 3


def test_a_signature_of_another_model_is_not_sent():
    """The models are told apart in the tests of thinking."""
    message = reply(SIGNED, WORDS, model="small")

    assert blocks_of(message) == (ThinkingBlock(thinking="hm"), WORDS)
    assert blocks_of(message, running=True) == message.content
