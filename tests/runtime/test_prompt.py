"""Prompts as providers take them: whole, in order, and the same object for what needs nothing."""

import contextlib
import itertools
import json

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import (
    AssistantMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.models import ModelRequest, anthropic_wire, openai_wire
from openclaw_ctx.runtime import sanitize
from openclaw_ctx.runtime.heartbeat import mark_heartbeat
from openclaw_ctx.runtime.prompt import PreparedPrompt, PromptPipeline, PromptRules
from openclaw_ctx.runtime.thinking import has_signed_thinking
from openclaw_ctx.transcript import Transcript, pairs_are_whole

APIS = ("anthropic", "openai", "gemini", "other")
U = UserMessage(content="u", entry_id="u1")
WORDS = TextBlock(text="words")
THOUGHT = ThinkingBlock(thinking="hm")
SIGNED = ThinkingBlock(thinking="hm", signature="c2ln")
CALL = ToolCallBlock(id="1", name="read", arguments={})
RESULT = ToolResultMessage(tool_call_id="1", tool_name="read", content="42")


def reply(*blocks, **facts):
    """Return an answer."""
    return AssistantMessage(content=blocks, **facts)


REFUSED = frozenset({"some-answer"})
"""Where any is refused, so are all that have no id."""


def prepared(messages, *, strip_signatures=False, **rules):
    """Return what a fresh pipeline makes of messages."""
    return PromptPipeline().prepare(
        messages, PromptRules(**rules), refused=REFUSED if strip_signatures else frozenset()
    )


ANSWERED = reply(WORDS)
BEAT = mark_heartbeat(UserMessage(content="tick"))

RULES = st.builds(
    PromptRules,
    api=st.sampled_from(APIS),
    tool_names=st.sampled_from([None, frozenset({"read"})]),
    keep_thinking=st.booleans(),
    provider=st.sampled_from([None, "here"]),
    model=st.sampled_from([None, "big"]),
    max_image_bytes=st.sampled_from([1, 100]),
)
TEXTS = st.sampled_from(["a", "b", " ", "", "NO_REPLY", "HEARTBEAT_OK"])
BLOCKS = st.one_of(
    st.builds(TextBlock, text=TEXTS),
    st.builds(
        ToolCallBlock,
        id=st.sampled_from(["", "1", "2"]),
        name=st.sampled_from(["read", " read", "write", "?"]),
    ),
    st.builds(
        ThinkingBlock,
        thinking=st.just("hm"),
        signature=st.sampled_from([None, "s"]),
        extra=st.sampled_from([{}, {"redacted": True}]),
    ),
    st.builds(ImageBlock, data=st.sampled_from(["aGk=", "aGVsbG8="]), mime_type=st.just("image/png")),
)
MESSAGES = st.one_of(
    st.builds(UserMessage, content=TEXTS, extra=st.sampled_from([{}, {"isHeartbeat": True}])),
    st.builds(
        AssistantMessage,
        content=st.lists(BLOCKS, max_size=3),
        stop_reason=st.sampled_from([None, "stop", "toolUse", "length", "error", "aborted"]),
        provider=st.sampled_from([None, "here", "there"]),
        model=st.sampled_from([None, "big", "small"]),
    ),
    st.builds(
        ToolResultMessage,
        content=TEXTS,
        tool_call_id=st.sampled_from(["", "1", "2"]),
        tool_name=st.sampled_from([None, "read", "write"]),
    ),
    st.sampled_from([SystemMessage(content="s"), CustomMessage(content="c"), CompactionSummaryMessage(summary="x")]),
)
CONVERSATIONS = st.lists(MESSAGES, max_size=10).map(
    lambda messages: tuple(attrs.evolve(message, entry_id=f"e{n}") for n, message in enumerate(messages))
)


@settings(max_examples=400)
@given(CONVERSATIONS, RULES, st.booleans())
def test_a_prompt_is_whole_and_holds_what_was_asked(messages, rules, strip):
    """Pairs are whole, nobody says nothing, and the user's last message is there, or at the end of a merged one."""
    result = PromptPipeline().prepare(messages, rules, refused=REFUSED if strip else frozenset()).messages

    assert pairs_are_whole(result)
    users = [message for message in messages if isinstance(message, UserMessage)]
    left = [message for message in result if isinstance(message, UserMessage)]
    assert bool(users) == bool(left)
    if users:
        assert left[-1].entry_id == users[-1].entry_id
        assert left[-1].text.endswith(users[-1].text if users[-1].text.strip() else "(continue)")
    for message in result:
        content = getattr(message, "content", (WORDS,))
        assert any(not isinstance(block, ThinkingBlock) for block in content)
        assert all(block.text.strip() for block in content if isinstance(block, TextBlock))


@settings(max_examples=400)
@given(CONVERSATIONS, RULES, st.booleans())
def test_a_prepared_prompt_needs_nothing(messages, rules, strip):
    """It comes back as it is, from the same pipeline and from another; and made again it is the same."""
    pipeline = PromptPipeline()
    first = pipeline.prepare(messages, rules, refused=REFUSED if strip else frozenset())

    for other in (pipeline, PromptPipeline()):
        again = other.prepare(first.messages, rules, refused=REFUSED if strip else frozenset())
        assert again.messages is first.messages
        assert again.changes == ()
    assert pipeline.prepare(messages, rules, refused=REFUSED if strip else frozenset()) == first


@given(CONVERSATIONS, RULES)
def test_it_is_said_when_something_was_done(messages, rules):
    """The same sequence and no change are one thing."""
    result = PromptPipeline().prepare(messages, rules)

    assert (result.messages is messages) == (result.changes == ())
    assert (list(result.messages) == list(messages)) or result.changes


@given(CONVERSATIONS, RULES, st.integers(0, 10))
def test_what_is_remembered_changes_nothing(messages, rules, seen):
    """A pipeline that saw the beginning, or other rules, makes the same of it as a fresh one."""
    used = PromptPipeline()
    used.prepare(messages, attrs.evolve(rules, keep_thinking=not rules.keep_thinking))
    used.prepare(messages[:seen], rules)
    used.prepare(messages[:seen], rules, refused=REFUSED)

    assert used.prepare(messages, rules) == PromptPipeline().prepare(messages, rules)


@given(CONVERSATIONS, RULES)
def test_the_order_is_the_providers(messages, rules):
    """No two neighbours that it does not take, and no user's message twice."""
    result = PromptPipeline().prepare(messages, rules).messages

    for one, other in itertools.pairwise(result):
        roles = {type(one), type(other)}
        if rules.api in {"anthropic", "gemini"}:
            assert roles != {AssistantMessage}
        if rules.api == "anthropic":
            assert roles != {UserMessage}
        if roles == {UserMessage}:
            assert one.content != other.content


@pytest.mark.parametrize("api", APIS)
def test_a_transcripts_history_that_needs_nothing_is_not_copied(api, tmp_path):
    """Read from the file, it is looked at and sent."""
    path = tmp_path / "session.jsonl"
    with contextlib.closing(Transcript.open(path)) as transcript:
        for message in (SystemMessage(content="Be brief."), U, reply(SIGNED, CALL), RESULT, ANSWERED, BEAT):
            transcript.append(message)

    with contextlib.closing(Transcript.read(path)) as again:
        history = again.history
        assert prepared(history, api=api) == PreparedPrompt(messages=history)
        assert prepared(history, api=api).messages is history


@pytest.mark.parametrize("api", APIS)
def test_the_detail_of_a_tool_reaches_no_model(api):
    """It is for people; what is sent does not hold it."""
    messages = prepared([U, reply(CALL), attrs.evolve(RESULT, details={"secret": "hunter2"})], api=api).messages
    request = ModelRequest(messages=messages)

    wires = (
        anthropic_wire.request_to_wire(request, model="m", provider="p", max_tokens=9, cache=True),
        openai_wire.request_to_wire(request, model="m", dialect=openai_wire.Dialect()),
    )

    for wire in wires:
        assert "42" in json.dumps(wire)
        assert "hunter2" not in json.dumps(wire)


def test_messages_that_say_nothing_are_not_sent():
    """Whatever the model stopped for; a blank result stays, since its call needs one."""
    empty = [
        reply(stop_reason="error", error_message="overloaded"),
        reply(TextBlock(text="")),
        reply(SIGNED, stop_reason="length"),
        reply(TextBlock(text="NO_REPLY")),
    ]
    blank = attrs.evolve(RESULT, content=(TextBlock(text=""),))

    result = prepared([U, empty[0], ANSWERED, U, *empty[1:], ANSWERED, U, reply(CALL), blank])

    assert result.messages == (U, ANSWERED, U, ANSWERED, U, reply(CALL), attrs.evolve(blank, content="(no output)"))
    assert sum(int(change.split()[0]) for change in result.changes) == 5


def test_ids_that_are_used_again_keep_their_results():
    """By position; those that are sent are unique."""
    other = attrs.evolve(RESULT, content="43")

    result = prepared([U, reply(CALL), RESULT, ANSWERED, U, reply(CALL, CALL), other])

    calls = [
        block.id for message in result.messages if isinstance(message, AssistantMessage) for block in message.tool_calls
    ]
    texts = {
        message.tool_call_id: message.text for message in result.messages if isinstance(message, ToolResultMessage)
    }
    assert len(set(calls)) == 3
    assert [texts[call] for call in calls][:2] == ["42", "43"]


def test_the_results_of_a_dropped_call_go_with_it():
    """And an answer that nothing is left of."""
    result = prepared([U, reply(CALL), RESULT, ANSWERED, U], tool_names=frozenset({"write"}))

    assert result.messages == (U, ANSWERED, U)
    assert result.changes == (
        "1 tool call removed, of a tool that is not offered",
        "1 tool result without its call dropped",
    )


@pytest.mark.parametrize(
    "api,text",
    [
        ("anthropic", "[tool calls omitted]"),
        *((api, "The result of this tool call is missing from the history.") for api in APIS[1:]),
    ],
)
def test_a_call_without_a_result_is_omitted_or_answered(api, text):
    """Anthropic's rule and everybody's."""
    result = prepared([U, reply(CALL), U], api=api).messages

    assert result[-2].text == text


def test_a_call_that_was_cut_off_is_omitted_for_anthropic():
    """Its words stay."""
    result = prepared([U, reply(WORDS, CALL, stop_reason="aborted"), U], api="anthropic")

    assert result.messages == (U, reply(WORDS, stop_reason="aborted"), U)
    assert result.changes == ("1 tool call without a result omitted",)


def test_idle_heartbeats_go_before_neighbours_are_looked_at():
    """What stood around one stands together then."""
    idle = (BEAT, reply(TextBlock(text="HEARTBEAT_OK")))

    result = prepared([U, *idle, *idle, U, ANSWERED, BEAT])

    assert result.messages == (U, ANSWERED, BEAT)
    assert result.changes == ("4 message of an idle heartbeat left out", "1 repeated user message left out")


@pytest.mark.parametrize(
    "messages,api,left",
    [
        pytest.param([BEAT, reply(TextBlock(text="HEARTBEAT_OK")), U], "other", [U], id="an idle heartbeat"),
        pytest.param([U, U], "other", [U], id="a message twice"),
        pytest.param([U, ANSWERED, ANSWERED], "gemini", [U, reply(WORDS, WORDS)], id="two answers"),
        pytest.param([U, reply(WORDS, stop_reason="error")], "other", [U], id="a broken end"),
    ],
)
def test_messages_that_are_in_order_each_for_itself_are_put_in_order(messages, api, left):
    """Where nothing else is to be done."""
    assert list(prepared(messages, api=api).messages) == left


def test_a_heartbeat_whose_call_was_dropped_was_idle():
    """What no model is told of, did not happen."""
    messages = [BEAT, reply(CALL), RESULT, reply(TextBlock(text="HEARTBEAT_OK")), U]

    assert prepared(messages, tool_names=frozenset()).messages == (U,)
    assert prepared(messages).messages is messages


def test_the_running_turn_keeps_what_its_provider_signed():
    """A model may go by another name than it is asked by; once the turn is over, the names decide."""
    pipeline, rules = PromptPipeline(), PromptRules(provider="here", model="alias")
    turn = (U, reply(SIGNED, CALL, provider="here", model="big"), RESULT)

    running = pipeline.prepare(turn, rules)
    over = pipeline.prepare((*turn, ANSWERED, U), rules)
    stripped = pipeline.prepare(turn, rules, refused=REFUSED)

    assert running.messages is turn
    assert not has_signed_thinking(over.messages[1])
    assert not has_signed_thinking(stripped.messages[1])
    assert pipeline.prepare(turn, rules).messages is turn


def test_a_changed_message_is_the_same_object_at_the_next_prompt():
    """So that whatever is remembered of it stays good."""
    pipeline, rules = PromptPipeline(), PromptRules(api="anthropic", provider="here")
    turn = [U, reply(SIGNED, WORDS, provider="there"), U, U]

    first = pipeline.prepare(turn, rules).messages
    again = pipeline.prepare([*turn, ANSWERED, U], rules).messages

    assert first[1] is again[1]
    assert first[1] is not turn[1]


def test_a_message_is_looked_at_once(monkeypatch):
    """However many prompts it is in, changed or not."""
    looked = []
    monkeypatch.setattr(
        "openclaw_ctx.runtime.prompt.sanitize",
        lambda message, *args, **facts: looked.append(message) or sanitize.sanitize(message, *args, **facts),
    )
    pipeline, rules = PromptPipeline(), PromptRules(provider="here")
    talk = [U, reply(SIGNED, WORDS, provider="there"), U, ANSWERED, attrs.evolve(U, content="v")]
    pipeline.prepare(talk, rules)

    looked.clear()
    pipeline.prepare([*talk, more := reply(WORDS), last := attrs.evolve(U)], rules)

    assert [id(message) for message in looked] == [id(more), id(last)]


def test_messages_that_are_gone_are_let_go():
    """A session of years holds what its prompts hold, and some more."""
    pipeline, rules = PromptPipeline(), PromptRules()

    for number in range(60):
        pipeline.prepare([UserMessage(content=f"{number} {one}") for one in range(100)], rules)

    assert len(pipeline._sound) < 1_500
