"""Where a history may be cut: never inside a group of a call and its results, and within what may stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.compaction import CompactionPolicy, plan_cut
from openclaw_ctx.compaction.planner import prepare
from openclaw_ctx.transcript import pairs_are_whole, repair_pairs

U, S = UserMessage(content="u"), CompactionSummaryMessage(summary="s")


def calls(*ids: str) -> AssistantMessage:
    """Return an assistant message that calls tools."""
    return AssistantMessage(content=tuple(ToolCallBlock(id=i, name="run") for i in ids))


def result(call_id: str) -> ToolResultMessage:
    """Return a tool's result."""
    return ToolResultMessage(tool_call_id=call_id, content="r")


def one(_message: Message) -> int:
    """Count each message as one token."""
    return 1


def test_ten_parallel_calls_stay_whole():
    """B01: the last six of a call and its ten results would begin with a result: the whole group stays."""
    ids = [f"t{number}" for number in range(10)]
    history = [U, calls(*ids), *map(result, ids)]

    cut = plan_cut(history, keep=6, count=one)

    assert cut == 1
    assert history[cut:] == [calls(*ids), *map(result, ids)]


def test_the_cut_moves_to_the_end_of_a_group_that_does_not_fit():
    """A group of five does not fit beside what follows it: it is folded whole, and less than allowed stays."""
    history = [U, calls("a", "b", "c", "d"), *map(result, "abcd"), U, U]

    assert plan_cut(history, keep=4, count=one) == 6


def test_a_message_between_a_call_and_its_result_is_no_cut():
    """A note that came in while a tool ran does not part the pair."""
    note = CustomMessage(content="n", custom_type="steer")
    history = [U, U, calls("a"), note, result("a"), note]

    for keep in range(1, 7):
        cut = plan_cut(history, keep=keep, count=one)
        assert cut not in {3, 4}
        assert pairs_are_whole(repair_pairs(history[cut:]).messages)


@pytest.mark.parametrize(
    "history,keep,cut",
    [
        pytest.param([], 5, 0, id="nothing"),
        pytest.param([U, U], 5, 0, id="all of it is cheap enough"),
        pytest.param([U, U, U], 3, 0, id="exactly enough"),
        pytest.param([U, U, U], 2, 1, id="one too many"),
        pytest.param([U, U, U], 0, 2, id="nothing may stay, and the newest does"),
        pytest.param([S, U, U], 2, 1, id="an earlier summary may be folded"),
        pytest.param([U, result("x"), result("y")], 1, 0, id="nothing but loose results to the front"),
    ],
)
def test_where_it_cuts(history, keep, cut):
    """Small histories of messages that cost one token each."""
    assert plan_cut(history, keep=keep, count=one) == cut


def test_one_message_that_is_too_large_stays_alone():
    """The newest message is never folded away, whatever it costs."""
    history = [U, AssistantMessage(content="a"), UserMessage(content="x" * 50)]

    assert plan_cut(history, keep=10, count=lambda message: len(message.text)) == 2


def test_it_walks_back_only_as_far_as_it_keeps():
    """A long history costs what stays, not what is folded."""
    looked: list[int] = []

    class Watched(list):
        def __getitem__(self, index):
            looked.append(index)
            return super().__getitem__(index)

    plan_cut(Watched([U] * 10_000), keep=5, count=one)

    assert len(looked) <= 7


@st.composite
def histories(draw):
    """Draw a history of whole groups with notes inside them, and the cost of each message."""
    messages: list[Message] = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from("uastg"), max_size=8))):
        match kind:
            case "u":
                messages.append(UserMessage(content=f"u{number}"))
            case "a":
                messages.append(AssistantMessage(content=f"a{number}"))
            case "s":
                messages.append(CompactionSummaryMessage(summary=f"s{number}"))
            case "t":
                messages.append(result(f"loose{number}"))
            case _:
                ids = [f"c{number}-{i}" for i in range(draw(st.integers(1, 3)))]
                messages.append(calls(*ids))
                for call_id in ids:
                    if draw(st.booleans()):
                        messages.append(CustomMessage(content=f"note {call_id}", custom_type="n"))
                    messages.append(result(call_id))
    costs = {id(message): draw(st.integers(0, 4)) for message in messages}
    return messages, costs


def groups(messages: list[Message]) -> list[tuple[int, int]]:
    """Return (first, last) of each call with its results."""
    found = []
    for start, message in enumerate(messages):
        ids = {block.id for block in getattr(message, "tool_calls", ())}
        ends = [i for i, m in enumerate(messages) if getattr(m, "tool_call_id", None) in ids]
        if ends:
            found.append((start, max(ends)))
    return found


@given(drawn=histories(), keep=st.integers(0, 12))
def test_the_law_of_the_cut(drawn, keep):
    """Never a result, never inside a group; of the cuts that keep no more than allowed the earliest, else the last."""
    history, costs = drawn

    def count(message: Message) -> int:
        return costs[id(message)]

    cut = plan_cut(history, keep=keep, count=count)

    assert not any(first < cut <= last for first, last in groups(history))
    valid = [start for start in range(1, len(history)) if _is_valid(history, start)]
    fitting = [start for start in (0, *valid) if sum(map(count, history[start:])) <= keep]
    assert cut == (min(fitting) if fitting else max(valid, default=0))


def _is_valid(history: list[Message], start: int) -> bool:
    """Tell whether no result behind *start* belongs to an assistant message before it."""
    until = next((i for i in range(start, len(history)) if isinstance(history[i], AssistantMessage)), len(history))
    return not any(isinstance(message, ToolResultMessage) for message in history[start:until])


@given(drawn=histories(), keep=st.integers(0, 12))
def test_the_same_history_is_cut_at_the_same_place(drawn, keep):
    """Deterministic, and a larger allowance never folds more."""
    history, costs = drawn

    cuts = [plan_cut(history, keep=k, count=lambda m: costs[id(m)]) for k in (keep, keep, keep + 1)]

    assert cuts[0] == cuts[1] >= cuts[2]


def test_what_a_user_says_again_before_an_answer_is_summarised_once():
    """A client that sends anew leaves a question several times on record; after an answer it is a question again."""
    again, answer = UserMessage(content="Are you there?"), AssistantMessage(content="Yes.")
    history = [
        again,
        again,
        CustomMessage(content="a note"),
        again,
        answer,
        again,
        UserMessage(content="Well?"),
        answer,
    ]

    planned = prepare(history, count=one, policy=CompactionPolicy(keep_recent_tokens=1), force=True)

    assert planned.folded == (*history[:7],)
    assert planned.history + planned.prefix == (history[0], history[2], *history[4:7])
