"""The estimate: a quarter of the weighted characters, more for long runs, a flat price for pictures."""

import base64
import json
import random
from typing import Any

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Host,
    ImageBlock,
    Message,
    Registry,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    TokenCounter,
    ToolCallBlock,
    ToolResultMessage,
    UnknownMessage,
    UserMessage,
    estimate_tokens,
    message_from_wire,
)
from openclaw_ctx.tokens import IMAGE_TOKENS, estimate_text

# 300,000 bytes: 400,000 characters.
PICTURE = base64.b64encode(random.Random(7).randbytes(300_000)).decode()  # noqa: S311 -- any bytes will do
A_FEW = 30

# Every rule meets every other within a few characters of its threshold.
_TEXT = st.text(alphabet="ab=/_- \n漢é\U00020000", max_size=120)
_LONG = st.builds(lambda text, run, count: text + run * count, _TEXT, st.sampled_from("aA0+"), st.integers(0, 60))


def _user(block: Any) -> Message:
    return message_from_wire({"role": "user", "content": [{"type": "text", "text": "look"}, block]})


IN_OBJECT = _user({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}", "detail": "auto"}})
IN_STRING = _user({"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"})
UNKNOWN = _user({"type": "hologram", "frames": [{"mime": "image/png", "payload": PICTURE}], "note": "turn it"})
OURS = _user({"type": "image", "data": PICTURE, "mimeType": "image/png"})


# -- pictures -------------------------------------------------------------------------------------


def test_a_picture_costs_the_same_however_it_is_spelled():
    """B07: object, plain data URL and our own block have one flat price; an unknown block leaves its payload out."""
    prices = [estimate_tokens(message) for message in (IN_OBJECT, IN_STRING, OURS)]

    assert prices == [IMAGE_TOKENS + 1] * 3
    assert estimate_tokens(UNKNOWN) == pytest.approx(prices[0], abs=A_FEW)


@pytest.mark.parametrize("picture", [pytest.param(m, id=n) for n, m in [("object", IN_OBJECT), ("unknown", UNKNOWN)]])
async def test_a_picture_evicts_no_older_turn(picture, tmp_path):
    """B07: 20 ordinary older turns stand in the prompt beside 400,000 characters of base64."""
    pytest.importorskip("openclaw_ctx_window")
    opening = Host.open({"plugins": {"slots": {"contextEngine": "window"}}}, state_dir=tmp_path, registry=Registry())

    async with opening as host, host.session("pictures") as session:
        for number in range(20):
            await session.append(UserMessage(content=f"Question {number}: what does the harbour look like?"))
            await session.append(AssistantMessage(content=f"Answer {number}: grey, mostly, with some gulls."))
            await session.end_turn()
        await session.append(picture)
        prompt = await session.assemble(budget=4_000)

    assert prompt.engine == "window"
    assert len(prompt.messages) == 41
    assert not prompt.over_budget


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(PICTURE, id="one-line"),
        pytest.param(base64.encodebytes(b"\x00\xff" * 900).decode(), id="lines-as-in-mail"),
        pytest.param(f"data:application/pdf;base64,{PICTURE}", id="a-data-url"),
    ],
)
def test_a_file_in_a_tool_calls_arguments_has_a_flat_price(payload):
    """An agent that writes a picture pays for a picture, not for its letters."""
    call = AssistantMessage(content=[ToolCallBlock(id="a", name="write", arguments={"path": "x.png", "data": payload})])
    empty = AssistantMessage(content=[ToolCallBlock(id="a", name="write", arguments={"path": "x.png", "data": ""})])

    assert estimate_tokens(call) == estimate_tokens(empty) + IMAGE_TOKENS


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 1_023, id="too-short"),
        pytest.param("some prose with blanks, as people write it. " * 40, id="prose"),
        pytest.param("def f():\n    return g(1)\n" * 60, id="code"),
    ],
)
def test_long_text_in_arguments_is_no_file(text):
    """What has blanks, or is short, is counted."""
    call = AssistantMessage(content=[ToolCallBlock(id="a", name="write", arguments={"text": text})])

    assert estimate_tokens(call) >= estimate_text(text)
    assert estimate_tokens(call) != pytest.approx(IMAGE_TOKENS, abs=A_FEW)


# -- text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, tokens",
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("a", 1, id="one-letter"),
        pytest.param("abcd", 1, id="four-letters"),
        pytest.param("abcde", 2, id="five-letters"),
        pytest.param("é" * 4, 2, id="two-bytes-each"),
        pytest.param("漢字", 2, id="a-token-for-an-ideograph"),
        pytest.param("한국어", 3, id="a-token-for-a-syllable"),
        pytest.param("カタカナ", 4, id="a-token-for-a-kana"),
        pytest.param("、。", 2, id="a-token-for-their-stops"),
        pytest.param("𠀀", 1, id="an-ideograph-of-plane-two"),
        pytest.param("🚀", 1, id="four-bytes"),
        pytest.param("\ud800", 1, id="half-a-character"),
        pytest.param("x" * 47, 12, id="the-longest-word"),
        pytest.param("x" * 48, 34, id="the-shortest-run"),
        pytest.param("ab " + "x" * 48 + " cd", 35, id="a-run-among-words"),
        pytest.param("/".join(["path"] * 20), 69, id="a-long-path"),
        pytest.param("x" * 47 + " " + "x" * 47, 24, id="two-words"),
    ],
)
def test_text_costs_what_the_rule_says(text, tokens):
    """A quarter of the bytes, one for each wide character, and one per 1.45 characters in runs of 48 and more."""
    assert estimate_text(text) == tokens


@given(_LONG, _LONG)
def test_more_text_never_costs_less(text, more):
    """Adding at either end can only make it dearer."""
    assert estimate_text(text + more) >= max(estimate_text(text), estimate_text(more))


@given(_LONG)
def test_some_text_is_never_free_and_never_dearer_than_its_bytes(text):
    """Between nothing and a token a byte."""
    assume(text)

    assert 1 <= estimate_text(text) <= len(text.encode())


@given(st.text(alphabet="静默安装播客列表、あ한", max_size=60))
def test_wide_text_costs_a_token_a_character(text):
    """Chinese, Japanese and Korean."""
    assert estimate_text(text) == len(text)


@given(_LONG, st.integers(1, 5))
def test_blanks_end_a_run(text, times):
    """Words apart cost together what they cost, give or take the rounding and the blanks."""
    apart = " ".join([text] * times)

    assert abs(estimate_text(apart) - times * estimate_text(text)) <= 2 * times


# -- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message, tokens",
    [
        pytest.param(UserMessage(content="abcdefgh"), 2, id="user"),
        pytest.param(SystemMessage(content="abcdefgh"), 2, id="system"),
        pytest.param(ToolResultMessage(content="abcdefgh", tool_call_id="ignored", details="x" * 99), 2, id="result"),
        pytest.param(CustomMessage(content="abcdefgh", custom_type="ignored", details="x" * 99), 2, id="custom"),
        pytest.param(BashExecutionMessage(command="abcd", output="efgh"), 2, id="command"),
        pytest.param(
            BashExecutionMessage(command="abcd", output="efgh", exclude_from_context=True), 0, id="excluded-command"
        ),
        pytest.param(CompactionSummaryMessage(summary="abcdefgh"), 2, id="summary"),
        pytest.param(BranchSummaryMessage(summary="abcdefgh"), 2, id="branch-summary"),
        pytest.param(UnknownMessage(data={"role": "x"}), 3, id="unknown"),
        pytest.param(UserMessage(content=[]), 0, id="empty"),
        pytest.param(
            AssistantMessage(
                content=[
                    TextBlock(text="abcd"),
                    ThinkingBlock(thinking="efgh", signature="not counted"),
                    ToolCallBlock(id="not counted", name="read", arguments={"a": 1}),
                ],
                usage={"input": 10**6},
            ),
            5,
            id="text-thinking-and-call",
        ),
        pytest.param(UserMessage(content=[ImageBlock(data="aGk=", mime_type="image/png")]), IMAGE_TOKENS, id="picture"),
    ],
)
def test_a_message_costs_what_reaches_the_model(message, tokens):
    """Ids, signatures, details, usage and what is excluded are free."""
    assert estimate_tokens(message) == tokens


def test_arguments_that_no_encoder_takes_are_counted_all_the_same():
    """Lone surrogates and huge integers in a tool call end no turn."""
    odd = AssistantMessage(content=[ToolCallBlock(id="a", name="x", arguments={"s": "\ud800" * 40, "n": 10**400})])

    assert estimate_tokens(odd) > 100


def test_the_prompt_around_the_messages_is_counted_too():
    """System prompt and tool schemas are part of every call."""
    tools = [{"name": "read", "parameters": {"type": "object"}}, {"name": "write"}]
    schemas = sum(estimate_text(json.dumps(tool, separators=(",", ":"))) for tool in tools)

    assert estimate_tokens.prompt("abcdefgh", tools) == 2 + schemas
    assert estimate_tokens.prompt(None) == 0
    assert estimate_tokens.total([UserMessage(content="abcd"), UserMessage(content="efghi")]) == 3


# -- counting once --------------------------------------------------------------------------------


def test_a_message_is_counted_once():
    """What a message costs is remembered on it: a history that grows costs what is added."""
    counted = []

    def count_text(text: str) -> int:
        counted.append(text)
        return len(text)

    count = TokenCounter(count_text)
    history = [UserMessage(content=f"message {number}") for number in range(3)]

    totals = [count.total(history[:size]) for size in (1, 2, 3, 3)]

    assert totals == [9, 18, 27, 27]
    assert counted == ["message 0", "message 1", "message 2"]


def test_each_counter_gives_its_own_answer():
    """Two counters on one message do not take each other's."""
    message = UserMessage(content="abcdefgh")
    letters, halves = TokenCounter(len), TokenCounter(lambda text: len(text) // 2)

    assert [letters(message), halves(message), letters(message), estimate_tokens(message)] == [8, 4, 8, 2]
    assert letters(attrs.evolve(message, content="ab")) == 2


# -- a way to count that fails --------------------------------------------------------------------


class _PanicError(BaseException):
    """As bindings of Rust raise it: no ``Exception``."""


@pytest.mark.parametrize(
    "error",
    [pytest.param(ValueError("disallowed special token"), id="refusal"), pytest.param(_PanicError(), id="panic")],
)
def test_a_counter_that_raises_is_replaced_by_the_estimate(error):
    """B09: whatever a tokenizer raises, the text has a price near its size."""

    def refuse(text: str) -> int:
        raise error

    message = ToolResultMessage(content="see <|endoftext|> and <|im_start|>", tool_call_id="a")

    assert TokenCounter(refuse)(message) == estimate_tokens(message) > 0


def test_a_counter_that_swallows_its_error_makes_nothing_free():
    """B09: some text never costs nothing."""
    message = UserMessage(content="<|endoftext|>")

    assert TokenCounter(lambda _text: 0)(message) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_counting_passes(error):
    """Ctrl-C is no failure of a tokenizer."""

    def interrupted(text: str) -> int:
        raise error

    with pytest.raises(error):
        TokenCounter(interrupted)(UserMessage(content="x"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("123e4567-e89b-12d3-a456-426614174000", id="uuid"),
        pytest.param("9e107d9d372bb6826bd81d3542a419d6", id="md5"),
        pytest.param("2FD4E1C67A2D28FCED849EE1BB76E7391B93EB12", id="sha1"),
    ],
)
def test_an_id_in_hexadecimal_costs_what_it_is(text):
    """A quarter would undercount it 2.4 times: one token for each 1.7 characters."""
    assert estimate_text(text) == pytest.approx(len(text) / 1.7, abs=1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("test_that_long_names_are_names", id="a-name"),
        pytest.param("-" * 40, id="a-rule"),
        pytest.param("deadbeef", id="short"),
        pytest.param("Internationalisierungsbemuehung", id="a-word"),
    ],
)
def test_what_only_looks_like_an_id_costs_a_quarter(text):
    """Digits must be in it, and nothing beside hexadecimal and hyphens."""
    assert estimate_text(text) == -(-len(text) // 4)
