"""Old tool results left out of a request once the provider's cache has run out, and never before."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownMessage,
    UserMessage,
)
from openclaw_ctx.contract import UnknownBlock
from openclaw_ctx.runtime import pruning as rules
from openclaw_ctx.runtime.pruning import PromptPruner, PruningPolicy, prune
from openclaw_ctx.transcript import pairs_are_whole

ON = PruningPolicy(mode="cache-ttl")
EAGER = attrs.evolve(ON, keep_last_assistants=0, soft_trim_ratio=0.0)
CLEARED = "[Old tool result content cleared]"
PICTURE = ImageBlock(data="aGk=", mime_type="image/png")
U, A = UserMessage(content="u"), AssistantMessage(content="a")


def result(chars, *, name="run", more=()):
    """Return a tool's result; its beginning and its end can be told from its middle."""
    text = "h" * min(chars, 1_500) + "m" * max(0, chars - 3_000) + "t" * max(0, min(1_500, chars - 1_500))
    return ToolResultMessage(content=(TextBlock(text=text), *more), tool_call_id="c1", tool_name=name, entry_id="e1")


def pruned(messages, policy=ON, *, window=10_000, last_touch=0.0, now=300.0, cache_capable=True):
    """Prune for a window of 40,000 characters, five minutes after the cache was used."""
    return prune(messages, policy=policy, window=window, last_touch=last_touch, now=now, cache_capable=cache_capable)


LONG = [U, A, result(30_000), A, A, A]


def test_the_constants_are_the_reference_systems():
    """Each as it is written there."""
    assert PruningPolicy() == PruningPolicy(
        mode="off",
        ttl_seconds=300.0,
        keep_last_assistants=3,
        soft_trim_ratio=0.3,
        hard_clear_ratio=0.5,
        min_prunable_tool_chars=50_000,
        soft_trim_max_chars=4_000,
        head=1_500,
        tail=1_500,
        hard_clear=True,
        placeholder=CLEARED,
        allow=(),
        deny=(),
    )
    assert (rules.IMAGE_CHARS, rules.UNKNOWN_CHARS, rules.CHARS_PER_TOKEN) == (8_000, 256, 4)
    assert rules.IMAGE_REMOVED == "[image removed during context pruning]"


@pytest.mark.parametrize(
    "policy,facts",
    [
        pytest.param(PruningPolicy(), {}, id="it is off"),
        pytest.param(ON, {"cache_capable": False}, id="the provider has no such cache"),
        pytest.param(ON, {"last_touch": None}, id="nobody knows when the cache was used"),
        pytest.param(ON, {"now": 299.9}, id="the cache lasts"),
        pytest.param(ON, {"now": -5.0}, id="the clock was set back"),
        pytest.param(attrs.evolve(ON, ttl_seconds=0.0), {}, id="a cache that lasts for no time"),
        pytest.param(ON, {"window": 0}, id="nobody knows the window"),
        pytest.param(ON, {"window": 1_000_000}, id="there is room"),
        pytest.param(attrs.evolve(ON, keep_last_assistants=5), {}, id="fewer answers than are kept"),
        pytest.param(attrs.evolve(ON, keep_last_assistants=4), {}, id="the answer before the result is kept"),
        pytest.param(attrs.evolve(ON, deny=("RUN",)), {}, id="its tool is denied"),
    ],
)
def test_when_nothing_is_pruned(policy, facts):
    """The same sequence comes back."""
    assert pruned(LONG, policy, **facts) == (LONG, False)
    assert pruned(LONG, policy, **facts)[0] is LONG


def test_a_long_result_is_shortened():
    """Its beginning and its end stay, and it is said how much there was."""
    messages, was = pruned(LONG)

    text = messages[2].text
    assert was
    assert (text.count("h"), text.count("m" * 10), text.count("t" * 1_500)) == (1_500 + 2, 0, 1)
    assert text.endswith("[pruned: the first 1500 and last 1500 of 30000 characters]")
    assert attrs.evolve(messages[2], content=()) == attrs.evolve(LONG[2], content=())
    assert [m for m in messages if m is not messages[2]] == [m for m in LONG if m is not LONG[2]]


def test_a_result_of_four_thousand_characters_is_short():
    """One more is long."""
    assert not pruned([U, result(4_000)], EAGER)[1]
    assert pruned([U, result(4_001)], EAGER)[1]


def test_a_share_of_three_tenths_is_enough():
    """12,000 characters of 40,000; one less is not."""
    policy = attrs.evolve(ON, keep_last_assistants=0)

    assert pruned([U, result(11_999)], policy)[1]
    assert not pruned([U, result(11_998)], policy)[1]


def test_what_a_program_put_before_the_user_is_not_touched():
    """It read those files on purpose."""
    assert not pruned([result(30_000), U, A, A, A])[1]
    assert not pruned([result(30_000)], EAGER)[1]


def test_results_behind_the_third_last_answer_are_not_touched():
    """They are what the model is working with."""
    recent = [U, A, A, result(30_000), A, result(30_000), A, result(30_000)]

    messages, was = pruned(recent)

    assert not was
    assert messages is recent


def test_pictures_go_with_what_is_shortened():
    """A note stands for each; a short result loses them too."""
    messages, was = pruned([U, result(10, more=(PICTURE,)), result(20_000)], EAGER)

    assert was
    assert messages[1].text.endswith("[image removed during context pruning]")
    assert PICTURE not in messages[1].content


OLD = [U, *[result(3_900) for _ in range(15)]]


def test_the_oldest_are_cleared_until_there_is_room():
    """Down to less than half of the window, and not one more."""
    messages, was = pruned(OLD, EAGER)

    texts = [message.text for message in messages[1:]]
    cleared = texts.count(CLEARED)
    assert was
    assert texts == [CLEARED] * cleared + [OLD[1].text] * (15 - cleared)
    assert sum(map(len, texts)) + 1 < 20_000 <= sum(map(len, texts)) + 1 + 3_900 - len(CLEARED)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(attrs.evolve(EAGER, hard_clear=False), id="it is off"),
        pytest.param(attrs.evolve(EAGER, min_prunable_tool_chars=58_501), id="too little would be won"),
        pytest.param(attrs.evolve(EAGER, hard_clear_ratio=1.5), id="there is room"),
    ],
)
def test_when_nothing_is_cleared(policy):
    """What is short stays as it is."""
    assert pruned(OLD, policy) == (OLD, False)


def test_shortening_comes_first():
    """Where that makes room enough nothing is cleared."""
    messages, was = pruned([U, *[result(30_000) for _ in range(3)]], attrs.evolve(EAGER, min_prunable_tool_chars=0))

    assert was
    assert all("[pruned:" in message.text for message in messages[1:])


@pytest.mark.parametrize(
    "allow,deny,name,may",
    [
        pytest.param((), (), "anything", True, id="no filter"),
        pytest.param(("read", "web_*"), (), "web_fetch", True, id="a star"),
        pytest.param(("read", "web_*"), (), "webfetch", False, id="not in the list"),
        pytest.param((" READ ",), (), "Read", True, id="case and blanks"),
        pytest.param(("*",), ("re*d",), "read", False, id="deny wins"),
        pytest.param(("r.ad",), (), "read", False, id="only a star is special"),
        pytest.param(("read",), (), None, False, id="a result without a name"),
        pytest.param((" ",), (), "read", True, id="a blank name is none"),
    ],
)
def test_the_filter(allow, deny, name, may):
    """Whose results may be pruned."""
    assert pruned([U, result(30_000, name=name)], attrs.evolve(EAGER, allow=allow, deny=deny))[1] is may


@pytest.mark.parametrize(
    "message,chars",
    [
        pytest.param(UserMessage(content=(TextBlock(text="abc"), PICTURE)), 8_003, id="a picture"),
        pytest.param(
            AssistantMessage(
                content=(ThinkingBlock(thinking="ab"), ToolCallBlock(id="c", name="run", arguments={"p": "é"}))
            ),
            2 + len('{"p":"é"}'),
            id="thinking and a call",
        ),
        pytest.param(
            AssistantMessage(content=(ToolCallBlock(id="c", name="run", arguments={"p": "\ud800"}),)), 256, id="no JSON"
        ),
        pytest.param(UnknownMessage(data={"role": "x"}), 256, id="an unknown role"),
        pytest.param(UserMessage(content=(UnknownBlock(data={"type": "x"}),)), 256, id="an unknown block"),
        pytest.param(BashExecutionMessage(command="ls", output="a"), 6, id="a command"),
    ],
)
def test_what_a_message_counts_as(message, chars):
    """It is a character more that makes the context too full."""
    result_chars = 5_000
    just = attrs.evolve(EAGER, soft_trim_ratio=(1 + result_chars + chars) / 40_000)
    over = attrs.evolve(EAGER, soft_trim_ratio=(1.5 + result_chars + chars) / 40_000)

    assert pruned([U, message, result(result_chars)], just)[1]
    assert not pruned([U, message, result(result_chars)], over)[1]


@st.composite
def conversations(draw):
    """Draw calls with results of any length, between what people say."""
    messages = []
    for number in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            messages.append(U)
        messages.append(AssistantMessage(content=(ToolCallBlock(id=f"c{number}", name="run"),)))
        text = draw(st.sampled_from(["x", "e\u0301", "\ud83d\ude00"])) * draw(st.integers(0, 200))
        blocks = [TextBlock(text=text), *[PICTURE] * draw(st.integers(0, 1))]
        messages.append(ToolResultMessage(content=blocks, tool_call_id=f"c{number}", tool_name="run"))
    return messages


@given(
    messages=conversations(),
    keep=st.integers(0, 3),
    window=st.integers(1, 300),
    size=st.integers(0, 150),
    ends=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    hard=st.booleans(),
)
def test_the_law_of_pruning(messages, keep, window, size, ends, hard):
    """Only results before the kept answers change; none gets longer; pairs stay; a second time changes nothing."""
    policy = PruningPolicy(
        mode="cache-ttl",
        keep_last_assistants=keep,
        min_prunable_tool_chars=0,
        soft_trim_max_chars=size,
        head=ends[0],
        tail=ends[1],
        hard_clear=hard,
    )

    left, was = pruned(messages, policy, window=window)

    answers = [place for place, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    cutoff = len(messages) if not keep else answers[-keep] if len(answers) >= keep else 0
    assert was is (left is not messages)
    assert pairs_are_whole(left)
    for place, (old, new) in enumerate(zip(messages, left, strict=True)):
        if new is old:
            continue
        assert isinstance(old, ToolResultMessage)
        assert place < cutoff
        assert U in messages[:place]
        assert rules._chars(new) < rules._chars(old)
        assert attrs.evolve(new, content=()) == attrs.evolve(old, content=())
    assert pruned(left, policy, window=window) == (left, False)


def test_what_was_pruned_stays_so_while_the_cache_lasts():
    """The next request begins with the very same bytes, and what came since is whole; then it is pruned anew."""
    pruner, facts = PromptPruner(), {"policy": ON, "window": 10_000, "cache_capable": True}
    fresh = attrs.evolve(result(30_000), entry_id="e2")

    first, was_first = pruner.prune(LONG, last_touch=0.0, now=300.0, **facts)
    warm, was_warm = pruner.prune([*LONG, fresh, A, A, A], last_touch=300.0, now=599.0, **facts)
    cold, was_cold = pruner.prune([*LONG, fresh, A, A, A], last_touch=300.0, now=600.0, **facts)

    assert (was_first, was_warm, was_cold) == (True, False, True)
    assert warm[: len(first)] == first
    assert warm[len(first)] is fresh
    assert cold[: len(first)] == first
    assert "[pruned:" in cold[len(first)].text


def test_a_result_that_was_written_anew_is_another_one():
    """Its entry has another id, and what it holds now is not what was pruned."""
    pruner, facts = PromptPruner(), {"policy": ON, "window": 10_000, "cache_capable": True}
    pruner.prune(LONG, last_touch=0.0, now=300.0, **facts)
    rewritten = [attrs.evolve(m, entry_id="e9") if isinstance(m, ToolResultMessage) else m for m in LONG]

    assert pruner.prune(rewritten, last_touch=300.0, now=301.0, **facts)[0] == tuple(rewritten)


def test_a_provider_without_a_cache_is_sent_all_of_it():
    """Another model may take a turn of the session."""
    pruner = PromptPruner()
    pruner.prune(LONG, policy=ON, window=10_000, last_touch=0.0, now=300.0, cache_capable=True)

    assert pruner.prune(LONG, policy=ON, window=10_000, last_touch=300.0, now=301.0, cache_capable=False)[0] is LONG
