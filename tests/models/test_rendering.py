"""Messages in the words of providers: nothing that they refuse, and nothing lost in silence."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.contract import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
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
from openclaw_ctx.models import ModelRequest, anthropic_wire, openai_wire
from openclaw_ctx.models.ids import Ids
from openclaw_ctx.models.openai_wire import Dialect
from openclaw_ctx.testkit.conversations import MESSAGES
from tests.models.provider import what_anthropic_refuses, what_openai_refuses

PICTURE = ImageBlock(data="aGVsbG8=", mime_type="image/png")


def _openai(*messages: Message, dialect: Dialect | None = None, **more: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    request = ModelRequest(messages=messages, **more)
    return openai_wire.request_to_wire(request, model="m", dialect=dialect or Dialect())


def _anthropic(*messages: Message, cache: bool = False, **more: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    request = ModelRequest(messages=messages, **more)
    return anthropic_wire.request_to_wire(request, model="m", provider="anthropic", max_tokens=9, cache=cache)


def _user(text: str) -> UserMessage:
    return UserMessage(content=text)


def _calls(*ids: str, text: str = "", **more: Any) -> AssistantMessage:
    calls = [ToolCallBlock(id=name, name="read", arguments={"path": name}) for name in ids]
    return AssistantMessage(content=[*([TextBlock(text=text)] if text else []), *calls], **more)


def _result(call_id: str, text: str = "42", **more: Any) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call_id, tool_name="read", content=text, **more)


# -- the law ---------------------------------------------------------------------------------------

_IDS = st.sampled_from(["a", "b", "call/1", "x" * 70, ""])
_TEXTS = st.sampled_from(["", " ", "hello", "caf\u00e9 \ud800", "\x00"])
_BLOCKS = st.one_of(
    st.builds(TextBlock, text=_TEXTS),
    st.just(PICTURE),
    st.sampled_from([UnknownBlock(data={"type": "video"}), UnknownBlock(data=3)]),
)
_CALLS = st.builds(
    ToolCallBlock,
    id=_IDS,
    name=st.just("read"),
    arguments=st.sampled_from([{}, {"n": float("nan")}, {"t": "\udfff"}, "torn {", ["x"], None]),
)
_THOUGHTS = st.builds(ThinkingBlock, thinking=_TEXTS, signature=st.sampled_from([None, "c2ln"]))
_MESSAGES = st.lists(
    st.one_of(
        st.builds(UserMessage, content=st.lists(_BLOCKS, max_size=2)),
        st.builds(SystemMessage, content=_TEXTS),
        st.builds(
            AssistantMessage,
            content=st.lists(st.one_of(_BLOCKS, _CALLS, _THOUGHTS), max_size=4),
            provider=st.sampled_from([None, "anthropic", "openai"]),
            stop_reason=st.sampled_from(["stop", "error", "aborted"]),
        ),
        st.builds(ToolResultMessage, tool_call_id=_IDS, content=st.lists(_BLOCKS, max_size=2), is_error=st.booleans()),
        st.sampled_from(list(MESSAGES.values())),
    ),
    max_size=8,
)


@given(_MESSAGES, st.sampled_from(["openai", "mistral"]))
def test_openai_takes_every_conversation(messages, ids):
    """Whatever was recorded, in whatever order; strict JSON, and the same every time."""
    body, _ = _openai(*messages, dialect=Dialect(ids=ids))

    assert what_openai_refuses(json.loads(json.dumps(body, allow_nan=False).encode("utf-8"))) is None
    json.dumps(body, ensure_ascii=False).encode("utf-8")
    assert _openai(*messages, dialect=Dialect(ids=ids))[0] == body


@given(_MESSAGES, st.booleans())
def test_anthropic_takes_every_conversation(messages, cache):
    """Turns that alternate, results first, no empty text; strict JSON, and the same every time."""
    body, _ = _anthropic(*messages, cache=cache)

    assert what_anthropic_refuses(json.loads(json.dumps(body, allow_nan=False).encode("utf-8"))) is None
    json.dumps(body, ensure_ascii=False).encode("utf-8")
    assert _anthropic(*messages, cache=cache)[0] == body


@given(_MESSAGES)
@pytest.mark.parametrize("render", [_openai, _anthropic])
def test_nothing_that_was_said_goes_missing(render, messages):
    """Numbered texts of users, tools and answers, in every order, are all in the request."""
    numbered: list[Message] = []
    for number, message in enumerate(messages):
        if isinstance(message, UserMessage | ToolResultMessage | SystemMessage):
            message = type(message)(**_fields(message), content=[*message.content, TextBlock(text=f"said-{number}.")])  # noqa: PLW2901
        numbered.append(message)

    body, _ = render(*numbered)

    text = json.dumps(body)
    assert [f"said-{n}." for n, m in enumerate(numbered) if f"said-{n}." in m.text and f"said-{n}." not in text] == []


def _fields(message: Any) -> dict[str, Any]:
    return {"tool_call_id": message.tool_call_id} if isinstance(message, ToolResultMessage) else {}


_ALLOWED = {"openai": "[A-Za-z0-9_-]{1,40}", "anthropic": "[A-Za-z0-9_-]{1,64}", "mistral": "[A-Za-z0-9]{9}"}


@given(st.lists(st.text(max_size=70)), st.sampled_from(["openai", "anthropic", "mistral"]))
def test_ids_fit_and_no_two_are_the_same(wanted, style):
    """Of the alphabet, within the length; the same calls get the same ids."""
    ids = Ids(style)

    given_out = [ids.fresh(name) for name in wanted]

    assert len(set(given_out)) == len(wanted)
    assert all(re.fullmatch(_ALLOWED[style], name) for name in given_out)
    again = Ids(style)
    assert [again.fresh(name) for name in wanted] == given_out


def test_an_id_that_fits_stays_as_it_is():
    """A provider's own ids come back to it."""
    assert Ids("openai").fresh("call_9dGhT7") == "call_9dGhT7"
    assert Ids("anthropic").fresh("toolu_01A09q90qw90lq917835lq9") == "toolu_01A09q90qw90lq917835lq9"


# -- the four roles --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message,parts",
    [
        pytest.param(CompactionSummaryMessage(summary="They met."), ["compacted", "<summary>\nThey met.\n</summary>"]),
        pytest.param(BranchSummaryMessage(summary="They tried."), ["branch", "<summary>\nThey tried.\n</summary>"]),
        pytest.param(BashExecutionMessage(command="ls", output="a", exit_code=2), ["$ ls", "\na", "exit code 2"]),
        pytest.param(BashExecutionMessage(command="ls", output="", exit_code=0), ["$ ls", "(no output)"]),
        pytest.param(CustomMessage(content="remember", custom_type="note", details={"secret": 1}), ["remember"]),
    ],
    ids=["compaction", "branch", "command", "silent-command", "custom"],
)
def test_what_the_contract_has_beyond_the_four_roles_is_said_by_the_user(message, parts):
    """Summaries in tags, commands with output and exit code; details never."""
    openai, anthropic = _openai(message)[0]["messages"], _anthropic(message)[0]["messages"]

    assert [said["role"] for said in openai + anthropic] == ["user", "user"]
    assert anthropic[0]["content"][0]["text"] == openai[0]["content"]
    assert all(part in openai[0]["content"] for part in parts)
    assert "secret" not in json.dumps(openai)


@pytest.mark.parametrize(
    "message",
    [
        BashExecutionMessage(command="pwd", output="/", exclude_from_context=True),
        BranchSummaryMessage(summary=""),
        UserMessage(),
        AssistantMessage(stop_reason="error", error_message="overloaded"),
    ],
    ids=["excluded", "no-summary", "nothing-said", "failed"],
)
def test_what_says_nothing_is_not_sent(message):
    """It is no loss either."""
    for render in (_openai, _anthropic):
        body, left_out = render(_user("a"), message)
        assert len(body["messages"]) == 1
        assert left_out == ()


def test_what_cannot_be_sent_is_named():
    """In its place for the model, and among what was left out for the program."""
    messages = (
        UnknownMessage(data={"role": "narrator"}),
        UserMessage(content=[TextBlock(text="Look:"), UnknownBlock(data={"type": "video", "url": "x"})]),
        AssistantMessage(content=[ThinkingBlock(thinking="Hm."), TextBlock(text="I see.")]),
    )

    for render in (_openai, _anthropic):
        body, left_out = render(*messages)
        assert "'video' cannot be shown here" in json.dumps(body)
        assert "Hm." not in json.dumps(body)
        assert len(left_out) == 3
        assert any("'narrator'" in phrase for phrase in left_out)


def test_a_conversation_of_calls_in_openais_words():
    """To the letter."""
    body, left_out = _openai(
        SystemMessage(content="Stay calm."),
        UserMessage(content=[TextBlock(text="What is it?"), PICTURE]),
        _calls("a", "b", text="I look."),
        _result("a"),
        _result("b", "gone", is_error=True),
        AssistantMessage(content=[TextBlock(text="It is 42.")]),
        system_prompt="Be brief.",
        max_tokens=5,
    )

    assert left_out == ()
    assert body["max_tokens"] == 5
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "Stay calm."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}},
            ],
        },
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}},
                {"id": "b", "type": "function", "function": {"name": "read", "arguments": '{"path": "b"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "42"},
        {"role": "tool", "tool_call_id": "b", "content": "[The tool failed.]\ngone"},
        {"role": "assistant", "content": "It is 42."},
    ]


def test_a_conversation_of_calls_in_anthropics_words():
    """To the letter: neighbours of one role are one turn, with the results first."""
    body, left_out = _anthropic(
        SystemMessage(content="Stay calm."),
        UserMessage(content=[TextBlock(text="What is it?"), PICTURE]),
        _user("Please."),
        AssistantMessage(
            content=[
                ThinkingBlock(thinking="Hm.", signature="c2ln"),
                ThinkingBlock(thinking="[Reasoning redacted]", signature="ZGF0YQ==", extra={"redacted": True}),
                ToolCallBlock(id="a", name="read", arguments={"path": "a"}),
            ],
            provider="anthropic",
        ),
        _user("And hurry."),
        ToolResultMessage(tool_call_id="a", content=[TextBlock(text="gone"), PICTURE], is_error=True),
        SystemMessage(content="It is late."),
        system_prompt="Be brief.",
        max_tokens=5,
    )

    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    assert left_out == ()
    assert body["max_tokens"] == 5
    assert body["system"] == [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Stay calm."}]
    assert body["messages"] == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "What is it?"}, image, {"type": "text", "text": "Please."}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "a",
                    "content": [{"type": "text", "text": "gone"}, image],
                    "is_error": True,
                },
                {"type": "text", "text": "And hurry."},
                {"type": "text", "text": "<system>\nIt is late.\n</system>"},
            ],
        },
    ]


def test_a_tool_that_gave_nothing_back_is_said_to_have_given_nothing():
    """Its call needs an answer, and no provider takes an empty one."""
    empty = ToolResultMessage(tool_call_id="a", content=[TextBlock(text="")])

    openai, anthropic = _openai(_calls("a"), empty)[0]["messages"], _anthropic(_calls("a"), empty)[0]["messages"]

    assert openai[1]["content"] == "(no output)"
    assert anthropic[2]["content"][0]["content"] == [{"type": "text", "text": "(no output)"}]


def test_a_picture_that_a_tool_gave_back_follows_the_results_at_openai():
    """A result there is text, and no message may stand between the results."""
    picture = ToolResultMessage(tool_call_id="a", tool_name="look", content=[PICTURE])
    body, _ = _openai(_calls("a", "b"), picture, _result("b"), _user("Well?"))

    roles = [said["role"] for said in body["messages"]]
    assert roles == ["assistant", "tool", "tool", "user", "user"]
    assert body["messages"][3]["content"][1]["type"] == "image_url"


def test_thinking_goes_back_to_who_wants_it():
    """Signed by Anthropic to Anthropic; in a named field to a server that has one; else it is left out, and said so."""
    ours = AssistantMessage(
        content=[ThinkingBlock(thinking="Hm.", signature="s"), TextBlock(text="a")], provider="anthropic"
    )
    theirs = AssistantMessage(
        content=[ThinkingBlock(thinking="Hm.", signature="s"), TextBlock(text="a")], provider="zai"
    )

    assert _anthropic(_user("q"), ours)[0]["messages"][1]["content"][0]["signature"] == "s"
    assert _anthropic(_user("q"), theirs)[1] == ("1 thinking without a signature of this provider",)
    assert _openai(ours)[1] == ("1 message's thinking",)
    dialect = Dialect(thinking_field="reasoning_content")
    assert _openai(ours, dialect=dialect)[0]["messages"][0]["reasoning_content"] == "Hm."


def test_repeated_ids_keep_their_own_results():
    """Pairing goes by position; what the provider sees is unique."""
    messages = (_calls("a"), _result("a", "first"), _calls("a", "a"), _result("a", "second"), _result("a", "third"))

    body, _ = _openai(*messages)

    pairs = [(said["tool_call_id"], said["content"]) for said in body["messages"] if said["role"] == "tool"]
    assert [text for _, text in pairs] == ["first", "second", "third"]
    assert len({name for name, _ in pairs}) == 3
    asked = [call["id"] for said in body["messages"] for call in said.get("tool_calls", ())]
    assert asked == [name for name, _ in pairs]


def test_a_call_that_was_never_answered_is_told_as_text_and_so_is_a_lone_result():
    """Such as after an abort: the conversation goes on."""
    for render in (_openai, _anthropic):
        body, left_out = render(_user("q"), _calls("a", stop_reason="aborted"), _user("again"), _result("zzz", "lost"))
        text = json.dumps(body)
        assert "The call of the tool read was not answered." in text
        assert "lost" in text
        assert len(left_out) == 2


def test_arguments_that_are_no_object_are_kept_under_a_name():
    """Every provider wants an object."""
    torn = AssistantMessage(content=[ToolCallBlock(id="a", name="read", arguments='{"path": ')])

    openai, anthropic = _openai(torn, _result("a"))[0], _anthropic(torn, _result("a"))[0]

    call = openai["messages"][0]["tool_calls"][0]["function"]
    assert json.loads(call["arguments"]) == {"arguments": '{"path": '}
    assert anthropic["messages"][1]["content"][0]["input"] == {"arguments": '{"path": '}


def test_a_conversation_that_begins_with_an_answer_is_begun_for_anthropic():
    """The first turn is a user's."""
    turns = _anthropic(AssistantMessage(content=[TextBlock(text="Hello.")]))[0]["messages"]

    assert [turn["role"] for turn in turns] == ["user", "assistant"]


def test_what_shall_be_cached_is_marked_at_its_end():
    """The system prompt, and the last message; nothing is marked twice."""
    body, _ = _anthropic(_user("a"), AssistantMessage(content="b"), _user("c"), cache=True, system_prompt="s")

    marked = [block for part in (body["system"], *(t["content"] for t in body["messages"])) for block in part]
    assert [block["text"] for block in marked if "cache_control" in block] == ["s", "c"]


def test_a_tool_is_described_in_each_providers_words():
    """A schema under any of its names; one of the provider's own making goes as it is."""
    own = {"type": "web_search_20250305", "name": "web_search"}
    tools = [{"name": "a", "description": "d", "inputSchema": {"type": "object", "x": 1}}, {"name": "b"}, own]

    openai, anthropic = _openai(_user("q"), tools=tools)[0]["tools"], _anthropic(_user("q"), tools=tools)[0]["tools"]

    assert openai[0]["function"] == {"name": "a", "description": "d", "parameters": {"type": "object", "x": 1}}
    assert anthropic[0] == {"name": "a", "description": "d", "input_schema": {"type": "object", "x": 1}}
    assert anthropic[1]["input_schema"] == {"type": "object", "properties": {}}
    assert openai[2] == anthropic[2] == own
    assert _anthropic(_user("q"), tools=openai[:1])[0]["tools"] == anthropic[:1]
