"""The model that answers from a script."""

import asyncio

import pytest

from openclaw_ctx.contract import AbortSignal, CompletionRequest, ToolCallBlock, UserMessage
from openclaw_ctx.errors import AbortError, ModelRejectedError, RateLimitedError
from openclaw_ctx.models import (
    AnswerEnded,
    FakeClock,
    ModelRequest,
    ScriptedAnswer,
    ScriptedModel,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallReady,
    UsageReported,
    as_complete,
)
from tests.models.clients import gather

ASKED = ModelRequest(messages=[UserMessage(content="Hello?")])
CALL = ToolCallBlock(id="a", name="read", arguments={"path": "x"})


async def test_it_says_its_lines_in_order_and_remembers_what_it_was_asked():
    """Texts, functions of the request, errors; then it has no more to say."""
    busy = RateLimitedError("scripted", "m", "busy", 3.0)
    model = ScriptedModel(["One.", lambda request: f"You said {request.messages[0].text}", busy])

    texts = [(await model.complete(ASKED)).message.text for _ in range(2)]
    with pytest.raises(RateLimitedError) as caught:
        await model.complete(ASKED)
    with pytest.raises(ModelRejectedError, match="before request 4"):
        await model.complete(ASKED)

    assert texts == ["One.", "You said Hello?"]
    assert caught.value is busy
    assert model.requests == [ASKED] * 4


async def test_a_stream_comes_in_words_and_ends_with_the_answer():
    """Thinking, words, calls, usage, end; the words add up to the letter."""
    usage = TokenUsage(input=5, output=2)
    line = ScriptedAnswer(text=" Two  words\n", thinking="Hm.", tool_calls=[CALL], usage=usage)
    model = ScriptedModel([line, line])

    found = [item async for item in model.stream(ASKED)]

    whole = await model.complete(ASKED)
    assert [type(item) for item in found] == [
        ThinkingDelta,
        TextDelta,
        TextDelta,
        ToolCallReady,
        UsageReported,
        AnswerEnded,
    ]
    assert "".join(item.text for item in found if isinstance(item, TextDelta)) == " Two  words\n"
    assert found[-1] == AnswerEnded(whole)
    assert whole.message.stop_reason == "toolUse"
    assert whole.message.usage["totalTokens"] == 7


async def test_an_error_in_a_stream_comes_after_what_was_said():
    """As a stream that breaks off."""
    model = ScriptedModel([ScriptedAnswer(text="Half", error=ConnectionError("cut"))])
    found = []

    with pytest.raises(ConnectionError):
        await gather(model.stream(ASKED), found)

    assert found == [TextDelta("Half")]


async def test_it_waits_by_the_clock_that_it_is_given():
    """No second passes in a test; the earliest wakes first."""
    clock = FakeClock()
    slow, slower = (ScriptedModel([ScriptedAnswer(text="x", delay_seconds=s)], sleep=clock.sleep) for s in (2, 5))
    asking = [asyncio.create_task(model.complete(ASKED)) for model in (slower, slow)]
    await clock.asleep(2)

    clock.advance(2)
    await asking[1]
    still = not asking[0].done()
    clock.advance(3)
    await asking[0]

    assert still
    assert (clock.now, clock.sleepers) == (5, 0)


@pytest.mark.parametrize("fired_early", [True, False])
async def test_a_signal_ends_the_wait(fired_early):
    """At once, also where it fired before."""
    clock, abort = FakeClock(), AbortSignal()
    model = ScriptedModel([ScriptedAnswer(text="x", delay_seconds=60)], sleep=clock.sleep)
    if fired_early:
        abort.fire("no")
    asking = asyncio.create_task(model.complete(ASKED, abort=abort))
    if not fired_early:
        await clock.asleep()

    abort.fire("enough")

    with pytest.raises(AbortError, match="no" if fired_early else "enough"):
        await asking
    assert clock.sleepers == 0


async def test_a_signal_between_two_words_ends_the_stream():
    """The word after it is not said."""
    abort = AbortSignal()
    stream = ScriptedModel(["one two three"]).stream(ASKED, abort=abort)

    first = await anext(stream)
    abort.fire()

    with pytest.raises(AbortError):
        await anext(stream)
    assert first == TextDelta("one ")


async def test_a_timeout_of_the_callers_own_is_no_abort():
    """Only the signal's cancellation becomes the signal's error."""
    clock = FakeClock()
    model = ScriptedModel([ScriptedAnswer(text="x", delay_seconds=60)], sleep=clock.sleep)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await model.complete(ASKED, abort=AbortSignal())


async def test_a_timeout_error_from_within_is_no_abort():
    """It passes as it is."""
    model = ScriptedModel([TimeoutError("mine")])

    with pytest.raises(TimeoutError, match="mine"):
        await model.complete(ASKED, abort=AbortSignal())


async def test_engines_ask_it_as_they_ask_any_model():
    """Bounds of the engine go before those of the program."""
    model = ScriptedModel(["Short."] * 2)
    complete = as_complete(model, name="other", max_tokens=100)

    result = await complete(CompletionRequest(messages=ASKED.messages, system_prompt="s", max_tokens=7))
    await complete(CompletionRequest(messages=ASKED.messages))

    assert result.text == "Short."
    assert [(asked.model, asked.system_prompt, asked.max_tokens) for asked in model.requests] == [
        ("other", "s", 7),
        ("other", None, 100),
    ]
