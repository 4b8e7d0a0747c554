"""What is folded together: a call with all its results, whatever a user said in between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import AssistantMessage, Message, ToolCallBlock, ToolResultMessage, UserMessage
from openclaw_ctx.compaction.groups import atomic_groups

U = UserMessage(content="u")
A = AssistantMessage(content="a")


def calls(*ids: str, stop: str | None = None) -> AssistantMessage:
    """Return an assistant message that calls tools."""
    return AssistantMessage(content=tuple(ToolCallBlock(id=i, name="run") for i in ids), stop_reason=stop)


def result(call_id: str) -> ToolResultMessage:
    """Return a tool's result."""
    return ToolResultMessage(tool_call_id=call_id, content="r")


@pytest.mark.parametrize(
    "messages,sizes",
    [
        pytest.param([], [], id="nothing"),
        pytest.param([U, A, U], [1, 1, 1], id="messages without calls are alone"),
        pytest.param([U, calls("a", "b"), result("b"), result("a"), U], [1, 3, 1], id="results in any order"),
        pytest.param([calls("a"), U, result("a"), U], [3, 1], id="a user turn before the result belongs to it"),
        pytest.param([calls("a"), result("a"), result("a")], [2, 1], id="a second result is alone"),
        pytest.param([calls("a", "b"), result("a"), result(""), result("b")], [3, 1], id="a result without id closes"),
        pytest.param([calls("a", stop="error"), U], [1, 1], id="a reply that failed waits for nothing"),
        pytest.param([calls("a", stop="aborted"), result("a")], [1, 1], id="nor does one that was aborted"),
        pytest.param([calls("a"), U, A, result("a")], [2, 1, 1], id="the next reply ends the waiting"),
        pytest.param([U, calls("a"), U], [1, 2], id="a call at the end waits"),
        pytest.param([calls("a", "a"), result("a"), result("a"), U], [3, 1], id="B05: two calls of one id"),
        pytest.param(
            [calls("c"), result("c"), U, calls("c"), result("c")], [2, 1, 2], id="B05: an id that was used again"
        ),
    ],
)
def test_what_belongs_together(messages, sizes):
    """Groups of small histories."""
    assert [len(group) for group in atomic_groups(messages)] == sizes


def test_b01_ten_parallel_calls_are_one_group():
    """B01: the call and its ten results stand or go together."""
    ids = [f"t{number}" for number in range(10)]

    assert [len(group) for group in atomic_groups([U, calls(*ids), *map(result, ids)])] == [1, 11]


messages_drawn = st.lists(
    st.one_of(
        st.just(U),
        st.just(A),
        st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(lambda ids: calls(*ids)),
        st.sampled_from(["a", "b", "c", ""]).map(result),
    ),
    max_size=12,
)


@given(messages=messages_drawn)
def test_the_law_of_groups(messages: list[Message]):
    """Every message is in one group, in order; a reply begins one; and a result is never parted from its call."""
    groups = atomic_groups(messages)

    assert [place for group in groups for place in group] == list(range(len(messages)))
    assert all(len(group) for group in groups)
    for group in groups:
        inside = [messages[place] for place in group]
        assert not any(isinstance(message, AssistantMessage) for message in inside[1:])
        if len(inside) > 1:
            assert isinstance(inside[0], AssistantMessage)
            assert inside[0].tool_calls
