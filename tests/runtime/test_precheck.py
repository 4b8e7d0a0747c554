"""Whether a prompt fits, estimated warily; and which way makes it fit."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    CompactionSummaryMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownMessage,
    UserMessage,
)
from openclaw_ctx.contract import UnknownBlock
from openclaw_ctx.runtime import precheck as rules
from openclaw_ctx.runtime.precheck import estimate_pressure, precheck


def pressure(*messages, system_prompt=None, prompt=None, tools=()):
    """Return what these press with."""
    return estimate_pressure(messages, system_prompt=system_prompt, prompt=prompt, tools=tools)


def text(chars, *, blocks=False):
    """Return a user's message."""
    return UserMessage(content=(TextBlock(text="x" * chars),) if blocks else "x" * chars)


def result(chars):
    """Return a tool's result, without an id, so that only its text costs."""
    return ToolResultMessage(content="x" * chars)


def test_the_constants_are_the_reference_systems():
    """Each as it is written there."""
    assert (rules.CHARS_PER_TOKEN, rules.CHARS_PER_RESULT_TOKEN, rules.CHARS_PER_JSON_TOKEN) == (4, 2, 3)
    assert (rules.TOKENS_PER_MESSAGE, rules.TOKENS_PER_BLOCK, rules.UNREADABLE_JSON_TOKENS) == (12, 6, 256)
    assert (rules.SAFETY_MARGIN, rules.TRUNCATION_BUFFER_TOKENS, rules.TRUNCATION_FACTOR) == (1.2, 512, 1.5)


@pytest.mark.parametrize(
    "message,tokens",
    [
        pytest.param(text(400), 12 + 100, id="text"),
        pytest.param(text(400, blocks=True), 12 + 6 + 100, id="text in a block"),
        pytest.param(result(400), 12 + 200, id="a tool result is twice as dense"),
        pytest.param(ToolResultMessage(content="", tool_call_id="c" * 6, tool_name="run"), 12 + 3, id="identifiers"),
        pytest.param(AssistantMessage(content=(ThinkingBlock(thinking="x" * 40),)), 12 + 6 + 10, id="thinking"),
        pytest.param(
            AssistantMessage(content=(ToolCallBlock(id="c1", name="t", arguments={"p": "abcd"}),)),
            12 + 6 + (3 + len('{"p":"abcd"}')) / 3,
            id="a call is JSON",
        ),
        pytest.param(
            AssistantMessage(content=(ToolCallBlock(id="c1", name="t", arguments={"p": "\ud800"}),)),
            12 + 6 + 1 + 256,
            id="arguments that are no JSON",
        ),
        pytest.param(UserMessage(content=(ImageBlock(data="A" * 9_000, mime_type="image/png"),)), 2_018, id="picture"),
        pytest.param(
            UserMessage(content=(UnknownBlock(data={"type": "image_url", "url": "A" * 9_000}),)),
            2_018,
            id="foreign one",
        ),
        pytest.param(CompactionSummaryMessage(summary="x" * 40), 22, id="a summary"),
        pytest.param(BashExecutionMessage(command="ls", output="x" * 35), 22, id="a command"),
        pytest.param(BashExecutionMessage(command="ls", exclude_from_context=True), 0, id="a command that is not sent"),
        pytest.param(UnknownMessage(data={"role": "x"}), 12 + 3, id="a message that nobody knows"),
        pytest.param(UserMessage(content="漢" * 40), 12 + 30, id="three bytes are more than a character"),
        pytest.param(ToolResultMessage(content="漢" * 40), 12 + 30, id="but are not counted twice in a result"),
        pytest.param(UserMessage(content="\ud800" * 4), 12 + 3, id="half a character"),
    ],
)
def test_what_a_message_costs(message, tokens):
    """Written as tokens without the margin."""
    assert pressure(message) == math.ceil(round(tokens * 1.2, 6))


def test_system_prompt_and_tools_are_counted():
    """A blank system prompt costs nothing; schemas are JSON."""
    assert pressure(system_prompt="x" * 400) == math.ceil(112 * 1.2)
    assert pressure(system_prompt=" \n") == 0
    assert pressure(tools=[{"name": "x" * 19}]) == 12


def test_the_prompt_costs_the_same_wherever_it_is():
    """Beside the messages, or the last of them; even one that says nothing."""
    for said in ("", "x", "x" * 401):
        assert pressure(text(9), prompt=said) == pressure(text(9), UserMessage(content=said))


def check(*messages, window=10_000, reserve=2_000, cap=16_000, **more):
    """Hold messages against a window whose prompt may have 8,000 tokens."""
    return precheck(messages, system_prompt=None, window=window, reserve=reserve, cap_chars=cap, **more)


def test_a_prompt_that_just_fits():
    """Exactly the budget is not too much; one character more is."""
    fits = check(text((8_000 * 10 // 12 - 12) * 4))
    over = check(text((8_000 * 10 // 12 - 12) * 4 + 4))

    assert (fits.route, fits.overflow_tokens, fits.prompt_budget) == ("fits", 0, 8_000)
    assert (over.route, over.overflow_tokens) == ("compact_only", over.estimated_tokens - 8_000)
    assert over.overflow_tokens > 0


def test_text_can_only_be_compacted():
    """There is no result to cut."""
    assert check(text(40_000)).route == "compact_only"


def test_one_long_result_is_cut():
    """Cutting it frees much more than there is too much."""
    found = check(result(100_000), window=60_000, reserve=8_000, cap=16_000)

    assert found.route == "truncate_tool_results_only"
    assert found.reducible_chars == 84_000


def test_a_result_that_is_not_enough_is_cut_after_a_compaction():
    """Where both are needed, both are done."""
    found = check(text(60_000), result(20_000))

    assert found.route == "compact_then_truncate"
    assert found.reducible_chars == 4_000


@pytest.mark.parametrize(
    "overflow,reducible,route",
    [
        pytest.param(0, 9_999, "fits", id="fits"),
        pytest.param(1, 0, "compact_only", id="nothing to cut"),
        pytest.param(100, 400 + 2_048, "truncate_tool_results_only", id="the overflow and the buffer"),
        pytest.param(100, 400 + 2_047, "compact_then_truncate", id="one character less"),
        pytest.param(10_000, 60_000, "truncate_tool_results_only", id="half as much again"),
        pytest.param(10_000, 59_999, "compact_then_truncate", id="not quite half as much again"),
    ],
)
def test_the_ways(overflow, reducible, route):
    """Cutting alone must free the overflow in characters and 2,048 more, or half as much again."""
    assert rules._route(overflow, reducible) == route


def test_the_larger_history_counts_where_the_engine_does_not_vouch():
    """What it chose may be small, while what it chose from bursts the window; there is cut."""
    chosen, whole = (text(40),), (text(40), result(200_000))

    found = precheck(chosen, system_prompt=None, window=32_000, reserve=8_000, unwindowed=whole, cap_chars=16_000)
    kept = precheck(whole, system_prompt=None, window=32_000, reserve=8_000, unwindowed=chosen, cap_chars=16_000)

    assert found == kept
    assert found.reducible_chars == 184_000


def test_tools_may_be_an_iterator():
    """They are counted for both histories."""
    tools = [{"name": "x" * 1_000}]
    whole = (text(400),)

    once = precheck((), system_prompt=None, tools=iter(tools), window=32_000, reserve=0, unwindowed=whole, cap_chars=9)

    assert once.estimated_tokens == pressure(*whole, tools=tools)


@given(sizes=st.lists(st.integers(0, 30), max_size=6), cut=st.integers(0, 6))
def test_the_law_of_the_pressure(sizes, cut):
    """More messages never press less, and each part rounded by itself is at most a token more than the whole."""
    messages = [result(size) if size % 2 else text(size) for size in sizes]

    whole, left, right = pressure(*messages), pressure(*messages[:cut]), pressure(*messages[cut:])

    assert max(left, right) <= whole <= left + right <= whole + 1
