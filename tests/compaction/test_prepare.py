"""What is folded, and what stays: between turns, or through one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    SystemMessage,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.compaction import CompactionPolicy
from openclaw_ctx.compaction.planner import Declined, Preparation, prepare
from openclaw_ctx.compaction.threads import SMALL
from openclaw_ctx.compaction.writing import (
    MOST_QUALITY_RETRIES,
    MOST_RECENT_TURNS,
    PREFIX_SHARE,
    SUMMARY_SHARE,
    summary_tokens,
)
from openclaw_ctx.transcript import repair_pairs

U, A, S = UserMessage(content="u"), AssistantMessage(content="a"), SystemMessage(content="s")
CALL = AssistantMessage(content=(ToolCallBlock(id="c", name="run"),))
RESULT = ToolResultMessage(tool_call_id="c", content="r")
EARLIER = CompactionSummaryMessage(summary="before")


def one(_message: Message) -> int:
    """Count each message as one token."""
    return 1


def prepared(history: list[Message], keep: int, **options) -> Preparation | Declined:
    """Prepare by a policy that keeps so much."""
    return prepare(history, count=one, policy=CompactionPolicy(keep_recent_tokens=keep), **options)


def test_the_defaults_are_the_reference_s():
    """Each has the value that is written."""
    policy = CompactionPolicy()

    assert (policy.keep_recent_tokens, policy.reserve_tokens, policy.max_history_share) == (20_000, 16_384, 0.5)
    assert (policy.context_window, policy.recent_turns, policy.quality_retries) == (200_000, 3, 1)
    assert (policy.mode, policy.identifier_policy) == ("default", "strict")
    assert (SUMMARY_SHARE, PREFIX_SHARE, MOST_RECENT_TURNS, MOST_QUALITY_RETRIES, SMALL) == (0.8, 0.5, 12, 3, 64)


@pytest.mark.parametrize(
    "policy,tokens",
    [
        (CompactionPolicy(), (13_107, 8_192)),
        (CompactionPolicy(max_output_tokens=9000), (9000, 8_192)),
        (CompactionPolicy(reserve_tokens=0), (1, 1)),
    ],
)
def test_an_answer_has_a_share_of_the_reserve(policy, tokens):
    """0.8 for a history, half for the beginning of a turn, and no more than the model can."""
    assert (summary_tokens(policy, SUMMARY_SHARE), summary_tokens(policy, PREFIX_SHARE)) == tokens


@pytest.mark.parametrize(
    "history,keep,sizes",
    [
        pytest.param([U, A, U, A], 2, (2, 0, 2), id="between turns"),
        pytest.param([U, A, U, A], 1, (2, 1, 1), id="through a turn"),
        pytest.param([U, A, U, CALL, RESULT, A], 3, (2, 1, 3), id="a group stays whole"),
        pytest.param([EARLIER, U, A, U, A], 2, (2, 0, 2), id="an earlier summary is none of the history"),
        pytest.param([S, S, U, A, U, A], 2, (2, 0, 2), id="standing instructions are not folded"),
        pytest.param([U, A, CustomMessage(content="n"), A, A], 1, (2, 2, 1), id="a note begins a turn"),
        pytest.param([U, A, BashExecutionMessage(command="ls"), A], 1, (2, 1, 1), id="and so does a command"),
        pytest.param([U, A, BranchSummaryMessage(summary="b"), A], 1, (2, 1, 1), id="and a branch's summary"),
        pytest.param([EARLIER, A, A, A], 1, (2, 0, 1), id="an earlier summary begins none"),
    ],
)
def test_what_is_folded(history, keep, sizes):
    """Messages of history, of the beginning of a turn, and those that stay."""
    made = prepared(history, keep)

    assert isinstance(made, Preparation)
    assert (len(made.history), len(made.prefix), len(made.kept)) == sizes
    assert made.previous == ("before" if EARLIER in history else None)


def test_a_large_prompt_shrinks_what_stays():
    """By as much as the caller measured more than the messages cost, down to one token."""
    history = [U, A] * 10

    kept = [
        len(prepared(history, 8, force=True, current_token_count=measured).kept) for measured in (None, 5, 20, 40, 9999)
    ]

    assert kept == [8, 8, 8, 4, 1]


histories = st.lists(st.sampled_from(["u", "a", "n", "e", "g", "o"]), min_size=1, max_size=10)


@given(
    kinds=histories,
    keep=st.integers(1, 12),
    budget=st.none() | st.integers(1, 30),
    measured=st.none() | st.integers(0, 40),
)
def test_the_law_of_preparation(kinds, keep, budget, measured):
    """All of it once and in order; no result without its call in what stays."""
    history: list[Message] = [S]
    for number, kind in enumerate(kinds):
        name = f"c{number}"
        group = {
            "u": [UserMessage(content=name)],
            "a": [A],
            "n": [CustomMessage(content="n")],
            "e": [EARLIER],
            "o": [ToolResultMessage(tool_call_id="lost", content="r")],
            "g": [
                AssistantMessage(content=(ToolCallBlock(id=name, name="run"),)),
                UserMessage(content=f"{name} too"),
                ToolResultMessage(tool_call_id=name, content="r"),
            ],
        }[kind]
        history.extend(group)

    made = prepared(history, keep, token_budget=budget, force=True, current_token_count=measured)

    if isinstance(made, Declined):
        return
    assert (*made.standing, *made.folded, *made.kept) == tuple(history)
    without = tuple(message for message in made.folded if not isinstance(message, CompactionSummaryMessage))
    assert (*made.history, *made.prefix) == without
    assert made.kept
    assert made.kept_tokens == len(made.kept)
    orphans = sum(message == ToolResultMessage(tool_call_id="lost", content="r") for message in made.kept)
    assert repair_pairs(made.kept).dropped_orphans <= orphans
