"""The order of turns: merged where a provider wants it, no call without a result, nothing said twice."""

from collections import Counter

import attrs
import pytest

from openclaw_ctx.contract import (
    AssistantMessage,
    CustomMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.runtime import validate as rules
from openclaw_ctx.runtime.heartbeat import is_heartbeat, mark_heartbeat
from openclaw_ctx.runtime.validate import (
    Merges,
    broke_off,
    omit_unanswered,
    without_broken_end,
    without_repeats,
)

OMITTED = TextBlock(text="[tool calls omitted]")
WORDS = TextBlock(text="words")
PLAIN = ThinkingBlock(thinking="hm")
SIGNED = ThinkingBlock(thinking="hm", signature="c2ln")
U = UserMessage(content="u", entry_id="u1")


def call(call_id, name="read"):
    """Return a tool call."""
    return ToolCallBlock(id=call_id, name=name)


def result(call_id, name="read"):
    """Return a tool's result."""
    return ToolResultMessage(tool_call_id=call_id, tool_name=name, content="42")


def reply(*blocks, **facts):
    """Return an answer."""
    return AssistantMessage(content=blocks, **facts)


def omitted(*messages):
    """Return messages without unanswered calls, and how many went."""
    notes = Counter()
    return omit_unanswered(messages, notes), notes["tool call without a result omitted"]


def test_the_placeholder_is_the_reference_systems():
    """In its words."""
    assert rules.CALLS_OMITTED == "[tool calls omitted]"


@pytest.mark.parametrize(
    "before,after",
    [
        pytest.param(reply(call("1")), reply(OMITTED), id="nothing but the call"),
        pytest.param(reply(WORDS, call("1")), reply(WORDS), id="beside words"),
        pytest.param(reply(PLAIN, call("1")), reply(PLAIN, OMITTED), id="beside a thought"),
        pytest.param(reply(SIGNED, call("1")), reply(OMITTED), id="beside a signed thought"),
        pytest.param(reply(SIGNED, WORDS, call("1")), reply(WORDS), id="beside both"),
        pytest.param(reply(call("1"), stop_reason="error"), reply(stop_reason="error"), id="it failed"),
        pytest.param(reply(call("1"), stop_reason="aborted"), reply(stop_reason="aborted"), id="it was cut off"),
    ],
)
def test_a_call_that_nobody_answered_is_omitted(before, after):
    """An answer that was calls alone says so; one that was cut off is left empty, for the repair to drop."""
    assert omitted(U, before, U) == ((U, after, U), 1)


def test_a_result_counts_up_to_the_next_answer():
    """One behind that belongs to nobody."""
    messages = (reply(call("1")), reply(WORDS), result("1"))

    assert omitted(*messages) == ((reply(OMITTED), reply(WORDS), result("1")), 1)


def test_each_result_answers_one_call():
    """Of two calls by one id, one was answered; an id used again later has a result of its own."""
    twice = (reply(call("1"), call("1")), result("1"), reply(call("1")), result("1"))

    messages, number = omitted(*twice)

    assert number == 1
    assert messages == (reply(call("1")), result("1"), reply(call("1")), result("1"))


def test_signed_thinking_is_whole_or_gone():
    """One call without a result, or with that of another tool, takes all calls along."""
    partly = reply(SIGNED, WORDS, call("1"), call("2"))
    whole = (partly, result("1"), result("2", name=None))

    assert omit_unanswered(whole, Counter()) is whole
    assert omitted(partly, result("1")) == ((reply(WORDS), result("1")), 2)
    assert omitted(partly, result("1"), result("2", name="write"))[0][0] == reply(WORDS)


def test_a_result_by_another_name_is_a_result_without_signed_thinking():
    """Nobody has vouched for the name."""
    messages = (reply(call("1")), result("1", name="write"))

    assert omit_unanswered(messages, Counter()) is messages


@pytest.mark.parametrize("api", ["openai", "other"])
def test_others_take_any_order(api):
    """The same sequence comes back."""
    messages = [U, U, reply(WORDS), reply(WORDS), U]

    assert Merges().merge(messages, api, Counter()) is messages


def test_gemini_wants_one_answer_in_a_row():
    """Users may speak twice."""
    first = reply(WORDS, usage={"input": 1}, entry_id="a1", stop_reason="stop")
    second = reply(call("1"), usage={"input": 2}, entry_id="a2", stop_reason="toolUse", timestamp=5)
    notes = Counter()

    merged = Merges().merge([U, U, first, second, result("1")], "gemini", notes)

    assert merged == (U, U, attrs.evolve(second, content=(WORDS, call("1"))), result("1"))
    assert notes == {"neighbouring assistant message merged": 1}


def test_anthropic_wants_one_message_of_the_user_too():
    """Blocks one behind the other; the last one's entry stands for all."""
    picture = ImageBlock(data="aGk=", mime_type="image/png")
    last = UserMessage(content=[picture], entry_id="u3", extra={"channel": "x"})

    merged = Merges().merge([U, attrs.evolve(U, content="v"), last, reply(WORDS)], "anthropic", Counter())

    expected = (TextBlock(text="u"), TextBlock(text="v"), picture)
    assert merged == (attrs.evolve(last, content=expected), reply(WORDS))


def test_what_stands_between_parts_neighbours():
    """Only messages of one kind in a row are merged, and results never."""
    messages = [U, CustomMessage(content="note"), U, reply(call("1"), call("2")), result("1"), result("2")]

    assert Merges().merge(messages, "anthropic", Counter()) is messages


def test_calls_before_the_last_answer_have_no_results():
    """They would stand between the two."""
    broken = reply(WORDS, call("1"), stop_reason="error")

    (merged, _) = Merges().merge([broken, reply(call("2")), result("2")], "gemini", Counter())

    assert merged.content == (WORDS, call("2"))
    assert merged.stop_reason is None


def test_a_merged_answer_is_of_whoever_signed_in_it():
    """Else its signatures would be taken for those of the other."""
    ours = reply(SIGNED, WORDS, provider="here", model="big")
    theirs = reply(WORDS, provider="there", model="small", stop_reason="stop")

    later = attrs.evolve(ours, model="big-2")

    (merged,) = Merges().merge([ours, later, theirs], "anthropic", Counter())

    assert (merged.provider, merged.model, merged.stop_reason) == ("here", "big-2", "stop")


def test_a_user_who_spoke_beside_a_heartbeat_spoke():
    """The merged message is a heartbeat where all of it is."""
    beat = mark_heartbeat(attrs.evolve(U, extra={"channel": "clock"}))

    (mixed,) = Merges().merge([U, beat], "anthropic", Counter())
    (beats,) = Merges().merge([beat, beat], "anthropic", Counter())

    assert not is_heartbeat(mixed)
    assert mixed.extra == {"channel": "clock"}
    assert is_heartbeat(beats)


def test_the_same_neighbours_make_the_same_object():
    """So that whatever is remembered of it stays good."""
    merges, messages = Merges(), [U, attrs.evolve(U), reply(WORDS)]

    first = merges.merge(messages, "anthropic", Counter())
    again = merges.merge([*messages, U], "anthropic", Counter())

    assert again[0] is first[0]


def test_what_is_said_twice_in_a_row_is_said_once():
    """The last one stays, since later turns name it; something in between makes it another matter."""
    twice, notes = [attrs.evolve(U, entry_id="x"), attrs.evolve(U, entry_id="y"), U], Counter()
    other = [U, attrs.evolve(U, content="u "), reply(WORDS), U, CustomMessage(content="note"), U]

    assert without_repeats([*twice, *other[1:]], notes) == tuple(other)
    assert notes == {"repeated user message left out": 2}
    assert without_repeats(other, notes) is other


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_a_broken_reply_ends_no_prompt(stop):
    """The model is asked for it again; with a result behind it, it is no end."""
    broken, notes = reply(WORDS, stop_reason=stop), Counter()
    going_on = [U, reply(call("1"), stop_reason=stop), result("1")]

    assert without_broken_end([U, broken, broken], notes) == [U]
    assert notes == {"broken reply at the end left out": 2}
    assert without_broken_end(going_on, notes) is going_on
    assert without_broken_end([], notes) == []
    assert [broke_off(message) for message in (broken, reply(WORDS, stop_reason="stop"), U)] == [True, False, False]
