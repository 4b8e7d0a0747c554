"""Answers out of what servers send, also those that take the language lightly."""

import json

import pytest

from openclaw_ctx.contract import TextBlock, ThinkingBlock, ToolCallBlock, UnknownBlock, UserMessage
from openclaw_ctx.models import ModelRequest, TokenUsage, anthropic_wire, openai_wire
from openclaw_ctx.models.anthropic_wire import MessageReader
from openclaw_ctx.models.openai_wire import ChatReader
from tests.models.provider import chunks, events, message


def _chat(*deltas, **more):
    reader = ChatReader(provider="p", model="m", left_out=())
    for line in chunks(*deltas, **more):
        data = line.removeprefix("data: ").strip()
        if data != "[DONE]":
            list(reader.read(json.loads(data)))
    return reader


def _call(index, call_id, name, arguments):
    piece = {"function": {"name": name, "arguments": arguments}}
    return {"tool_calls": [piece | ({} if index is None else {"index": index}) | ({"id": call_id} if call_id else {})]}


def test_calls_that_are_all_numbered_0_are_told_apart_by_their_ids():
    """As some servers number them; each comes whole."""
    answer = _chat(_call(0, "x", "a", '{"n": 1}'), _call(0, "y", "b", '{"n": 2}'), finish="stop").answer()

    assert [(call.id, call.name, call.arguments) for call in answer.message.tool_calls] == [
        ("x", "a", {"n": 1}),
        ("y", "b", {"n": 2}),
    ]
    assert answer.message.stop_reason == "toolUse"


def test_a_call_without_number_or_id_is_still_a_call():
    """It gets an id; arguments that came as an object are taken, too."""
    answer = _chat(_call(None, None, "a", {"n": 1}), finish="tool_calls").answer()

    assert answer.message.tool_calls == (ToolCallBlock(id="call_0", name="a", arguments={"n": 1}),)


@pytest.mark.parametrize("torn", ['{"n": ', "[1]", "nonsense", "[" * 5_000])
def test_arguments_that_are_no_object_stay_text(torn):
    """Whoever runs the tool refuses them; nothing is lost."""
    assert _chat(_call(0, "x", "a", torn)).answer().message.tool_calls[0].arguments == torn


def test_a_stream_that_only_counts_at_its_end_has_ended():
    """Some servers give no reason for stopping."""
    assert _chat({"content": "Hi."}, finish=None).ended
    assert not _chat({"content": "Hi."}, finish=None, usage=False).ended
    assert not _chat(finish=None, usage=False).ended


def test_a_refusal_is_text():
    """It is what the model said."""
    assert _chat({"refusal": "I will not."}).answer().message.text == "I will not."


@pytest.mark.parametrize(
    "reported,expected",
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, TokenUsage(input=10, output=2)),
        (
            {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}},
            TokenUsage(input=2, output=2, cache_read=8),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 4},
            TokenUsage(input=6, output=2, cache_read=4),
        ),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({"prompt_tokens": "many"}, None),
        (None, None),
        ([], None),
    ],
)
def test_usage_is_read_as_openai_counts(reported, expected):
    """Cached tokens are among the prompt's; what makes no sense is none."""
    assert openai_wire.usage_from(reported) == expected


def test_usage_is_read_as_anthropic_counts():
    """Cached tokens come on top; the prompt is all of them."""
    usage = anthropic_wire.usage_from(message()["usage"])

    assert usage == TokenUsage(input=40, output=7, cache_read=50, cache_write=10)
    assert (usage.prompt, usage.total) == (100, 107)
    assert usage.to_wire() == {"input": 40, "output": 7, "cacheRead": 50, "cacheWrite": 10, "totalTokens": 107}


_BLOCKS = (
    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "ZGF0YQ=="},
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": "u"}]},
    {"type": "text", "text": "It is so."},
    {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "a"}},
)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
def test_what_anthropic_answers_comes_back_to_it_to_the_letter(whole):
    """Thinking with its signature, encrypted or not, and searches that it ran itself."""
    reader = MessageReader(provider="anthropic", model="m", left_out=())
    if whole:
        reader.read_whole(message(*_BLOCKS, stop="tool_use"))
    else:
        for line in events(*_BLOCKS, stop="tool_use"):
            list(reader.read(json.loads(line.partition("data: ")[2])))
    answer = reader.answer().message

    request = ModelRequest(messages=[UserMessage(content="q"), answer])
    body, left_out = anthropic_wire.request_to_wire(request, model="m", provider="anthropic", max_tokens=9, cache=False)

    assert [type(block) for block in answer.content] == [
        ThinkingBlock,
        ThinkingBlock,
        UnknownBlock,
        UnknownBlock,
        TextBlock,
        ToolCallBlock,
    ]
    assert body["messages"][1]["content"][:5] == list(_BLOCKS[:5])
    assert left_out == ("1 tool call without a result, sent as text",)


def test_citations_stay_with_their_text():
    """As the provider gave them."""
    reader = MessageReader(provider="anthropic", model="m", left_out=())
    lines = events({"type": "text", "text": "So."})
    for line in (*lines[:4], _citation(), *lines[4:]):
        list(reader.read(json.loads(line.partition("data: ")[2])))

    assert reader.answer().message.content == (TextBlock(text="So.", extra={"citations": [{"url": "u"}]}),)


def _citation():
    delta = {"type": "citations_delta", "citation": {"url": "u"}}
    return "data: " + json.dumps({"type": "content_block_delta", "index": 0, "delta": delta})
