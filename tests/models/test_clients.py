"""The providers' clients against real HTTP: answers, streams, failures, keys, giving up."""

import asyncio
import contextlib
import logging
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from openclaw_ctx.contract import AbortSignal, CompletionRequest, TextBlock, ThinkingBlock, ToolCallBlock, UserMessage
from openclaw_ctx.errors import (
    AbortError,
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRejectedError,
    ModelTimeoutError,
    ModelTransientError,
    RateLimitedError,
)
from openclaw_ctx.models import (
    AnswerEnded,
    AnthropicModel,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    OpenAICompatibleModel,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    UsageReported,
    as_complete,
)
from tests.models.clients import KEY, LANGUAGES, client, gather
from tests.models.provider import (
    CutStream,
    Hang,
    Provider,
    Reply,
    Request,
    Stream,
    anthropic_error,
    chunks,
    completion,
    event,
    events,
    message,
    openai_error,
    tool_use,
)
from tests.models.wordings import FIELD_OVERFLOWS, OVERFLOWS, RATES

pytestmark = pytest.mark.parametrize("language", LANGUAGES)

HELLO = ModelRequest(messages=[UserMessage(content="Hello?")], system_prompt="Be brief.", max_tokens=50)
WEATHER = {"name": "weather", "description": "Tell it", "parameters": {"type": "object", "properties": {"at": {}}}}

_WHOLE = {
    "openai": lambda: Reply(completion("Hello.")),
    "anthropic": lambda: Reply(message({"type": "text", "text": "Hello."})),
}
_STREAMED = {
    "openai": lambda: chunks({"role": "assistant", "content": "Hel"}, {"content": "lo."}),
    "anthropic": lambda: events({"type": "text", "text": "Hello."}),
}


def _error(language: str, status: int, said: str, kind: str, headers: Any = None) -> Reply:
    body = openai_error(said, code=kind) if language == "openai" else anthropic_error(kind, said)
    return Reply(body, status, headers or {})


def _key_of(asked: Request) -> str:
    """Return the key that was sent; the header depends on the package's version."""
    return (asked.headers.get("x-api-key") or asked.headers["authorization"]).removeprefix("Bearer ")


async def _collect(model: Any, request: ModelRequest, abort: AbortSignal | None = None) -> list[ModelEvent]:
    return [found async for found in model.stream(request, abort=abort)]


async def _whole(model: Any, abort: AbortSignal | None = None) -> ModelAnswer:
    answer: ModelAnswer = await model.complete(HELLO, abort=abort)
    return answer


async def _streamed(model: Any, abort: AbortSignal | None = None) -> list[ModelEvent]:
    return await _collect(model, HELLO, abort)


both_ways = pytest.mark.parametrize("ask", [_whole, _streamed])


async def test_an_answer_comes_whole_with_what_it_cost_and_who_gave_it(provider: Provider, language: str) -> None:
    """Usage in a transcript's words, cached input apart; the model as the provider names it."""
    provider.will(_WHOLE[language]())

    async with client(language, provider) as model:
        answer = await model.complete(HELLO)

    assert answer.message.text == "Hello."
    assert answer.message.stop_reason == "stop"
    assert answer.message.provider == language
    assert answer.message.model in {"gpt-test-2026-01-01", "claude-test-20260101"}
    assert answer.usage is not None
    assert (answer.usage.prompt, answer.usage.output, answer.usage.total) == (100, 7, 107)
    assert answer.message.usage == answer.usage.to_wire()
    assert answer.reported_usage
    assert answer.left_out == ()


async def test_an_answer_comes_as_it_is_said_and_ends_with_all_of_it(provider: Provider, language: str) -> None:
    """Deltas add up to the answer, which is the one that comes whole."""
    provider.will(Stream(_STREAMED[language]()), _WHOLE[language]())

    async with client(language, provider) as model:
        found = await _collect(model, HELLO)
        whole = await model.complete(HELLO)

    assert "".join(item.text for item in found if isinstance(item, TextDelta)) == "Hello."
    assert sum(isinstance(item, TextDelta) for item in found) == 2
    assert [item for item in found if isinstance(item, UsageReported)][-1] == UsageReported(whole.usage)
    ended = found[-1]
    assert isinstance(ended, AnswerEnded)
    assert ended.answer.message == whole.message
    assert sum(isinstance(item, AnswerEnded) for item in found) == 1


async def test_a_request_says_what_was_asked(provider: Provider, language: str) -> None:
    """Model, system prompt, tools, bound and further options, in the provider's words."""
    provider.will(_WHOLE[language](), _WHOLE[language]())
    request = ModelRequest(messages=HELLO.messages, model="other", system_prompt="Be brief.", tools=[WEATHER])

    async with client(language, provider, options={"temperature": 0}) as model:
        await model.complete(request)
        await model.complete(HELLO)

    named, plain = (asked.body for asked in provider.requests)
    assert (named["model"], plain["max_tokens"], plain["temperature"]) == ("other", 50, 0)
    assert "tools" not in plain
    if language == "openai":
        assert named["messages"][0] == {"role": "system", "content": "Be brief."}
        assert named["tools"] == [{"type": "function", "function": WEATHER}]
        assert "max_tokens" not in named
    else:
        assert [block["text"] for block in named["system"]] == ["Be brief."]
        assert named["tools"][0]["input_schema"] == WEATHER["parameters"]
        assert named["max_tokens"] == 8_192
    assert _key_of(provider.requests[0]) == KEY


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
async def test_tool_calls_come_with_their_arguments(provider: Provider, language: str, *, streaming: bool) -> None:
    """In order, each whole, with text before them."""
    calls = [("call_1", '{"at": "Ulm"}'), ("call_2", "")]
    if language == "openai":
        told = [
            {"index": n, "id": i, "type": "function", "function": {"name": "weather", "arguments": a}}
            for n, (i, a) in enumerate(calls)
        ]
        start = [{**call, "function": {**call["function"], "arguments": ""}} for call in told]
        pieces = [
            {"content": "I look."},
            {"tool_calls": start},
            {"tool_calls": [{"index": 0, "function": {"arguments": '{"at"'}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": ': "Ulm"}'}}]},
        ]
        lines = chunks(*pieces, finish="tool_calls")
        reply = Reply(completion("I look.", finish="tool_calls", tool_calls=told))
    else:
        blocks = [
            {"type": "text", "text": "I look."},
            tool_use("call_1", "weather", at="Ulm"),
            tool_use("call_2", "weather"),
        ]
        lines, reply = events(*blocks, stop="tool_use"), Reply(message(*blocks, stop="tool_use"))
    provider.will(Stream(lines) if streaming else reply)

    async with client(language, provider) as model:
        found = await _collect(model, HELLO) if streaming else [AnswerEnded(await model.complete(HELLO))]

    ended = found[-1]
    assert isinstance(ended, AnswerEnded)
    expected = (
        ToolCallBlock(id="call_1", name="weather", arguments={"at": "Ulm"}),
        ToolCallBlock(id="call_2", name="weather", arguments={}),
    )
    assert ended.answer.message.content == (TextBlock(text="I look."), *expected)
    assert ended.answer.message.stop_reason == "toolUse"
    if streaming:
        assert [item.call for item in found if isinstance(item, ToolCallReady)] == list(expected)


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
async def test_thinking_comes_before_the_answer(provider: Provider, language: str, *, streaming: bool) -> None:
    """With its signature, where the provider signs."""
    if language == "openai":
        lines = chunks({"reasoning_content": "Hm, "}, {"reasoning_content": "well."}, {"content": "Yes."})
        reply = Reply(completion("Yes.", reasoning_content="Hm, well."))
    else:
        blocks = [{"type": "thinking", "thinking": "Hm, well.", "signature": "c2ln"}, {"type": "text", "text": "Yes."}]
        lines, reply = events(*blocks), Reply(message(*blocks))
    provider.will(Stream(lines) if streaming else reply)

    async with client(language, provider) as model:
        found = await _collect(model, HELLO) if streaming else [AnswerEnded(await model.complete(HELLO))]

    thought = ThinkingBlock(thinking="Hm, well.", signature=None if language == "openai" else "c2ln")
    assert found[-1].answer.message.content == (thought, TextBlock(text="Yes."))
    if streaming:
        assert "".join(item.text for item in found if isinstance(item, ThinkingDelta)) == "Hm, well."


@pytest.mark.parametrize(
    "openai_reason,anthropic_reason,expected",
    [("length", "max_tokens", "length"), ("content_filter", "refusal", "error"), ("stop", "pause_turn", "stop")],
)
async def test_why_it_stopped_is_told_in_a_transcripts_words(
    provider: Provider, language: str, openai_reason: str, anthropic_reason: str, expected: str
) -> None:
    """What was withheld is an error with the provider's own word, and what was said stays."""
    text = {"type": "text", "text": "Well"}
    provider.will(
        Reply(
            completion("Well", finish=openai_reason) if language == "openai" else message(text, stop=anthropic_reason)
        )
    )

    async with client(language, provider) as model:
        answer = await model.complete(HELLO)

    assert answer.message.stop_reason == expected
    assert answer.message.text == "Well"
    reason = openai_reason if language == "openai" else anthropic_reason
    assert (reason in (answer.message.error_message or "")) == (expected == "error")


_FAILURES: list[tuple[int, str, str, type[ModelError], bool]] = [
    (400, "prompt is too long: 203456 tokens > 200000 maximum", "invalid_request_error", ContextOverflowError, False),
    (401, "The model supports only 256K context", "authentication_error", ContextOverflowError, False),
    (413, "Request exceeds the maximum size", "request_too_large", ContextOverflowError, False),
    (413, "Limit 8000, Requested 15000, allowance full", "rate_limit_exceeded", ContextOverflowError, False),
    (413, "Limit 8000, Requested 3000, allowance full", "rate_limit_exceeded", RateLimitedError, True),
    (429, "Too many tokens per minute", "rate_limit_error", RateLimitedError, True),
    (401, "invalid x-api-key", "authentication_error", ModelAuthError, False),
    (403, "Your key may not use this model", "permission_error", ModelAuthError, False),
    (402, "Your credit balance is too low", "billing_error", ModelAuthError, False),
    (404, "model: gpt-9", "not_found_error", ModelRejectedError, False),
    (400, "Unsupported parameter", "invalid_request_error", ModelRejectedError, False),
    (500, "Internal server error", "api_error", ModelTransientError, True),
    (529, "Overloaded", "overloaded_error", ModelTransientError, True),
    (504, "Gateway timeout", "timeout_error", ModelTimeoutError, True),
]


@both_ways
@pytest.mark.parametrize("status,said,kind,expected,retryable", _FAILURES)
async def test_a_refusal_is_told_by_its_class(
    provider: Provider,
    language: str,
    ask: Callable[..., Any],
    status: int,
    said: str,
    kind: str,
    expected: type[ModelError],
    retryable: bool,  # noqa: FBT001 -- a column of the table
) -> None:
    """One request and no second one; the words, the provider and the model are in it."""
    provider.will(_error(language, status, said, kind))

    async with client(language, provider) as model:
        with pytest.raises(ModelError) as caught:
            await ask(model)

    error: Any = caught.value
    assert type(error) is expected
    assert error.retryable is retryable
    assert said in error.said
    assert error.provider == language
    assert error.model in {"gpt-test", "claude-test"}
    assert len(provider.requests) == 1


async def test_every_wording_is_known_in_a_real_answer(provider: Provider, language: str) -> None:
    """As the body of a 400, and of a 429 for what waits."""
    too_long = [*OVERFLOWS.values(), *FIELD_OVERFLOWS.values()]
    provider.will(*(_error(language, 400, said, "invalid_request_error") for said in too_long))
    provider.will(*(_error(language, 429, said, "rate_limit_error") for said in RATES.values()))
    kinds = []

    async with client(language, provider) as model:
        for _ in (*too_long, *RATES):
            with pytest.raises(ModelError) as caught:
                await model.complete(HELLO)
            kinds.append(type(caught.value))

    assert kinds == [ContextOverflowError] * len(too_long) + [RateLimitedError] * len(RATES)


async def test_an_overflow_has_its_numbers_and_a_rate_limit_its_time(provider: Provider, language: str) -> None:
    """Read from the words and from the header."""
    provider.will(
        _error(language, 400, "prompt is too long: 203456 tokens > 200000 maximum", "invalid_request_error"),
        _error(language, 429, "slow down", "rate_limit_error", {"retry-after": "17"}),
    )

    async with client(language, provider) as model:
        with pytest.raises(ContextOverflowError) as overflow:
            await model.complete(HELLO)
        with pytest.raises(RateLimitedError) as limited:
            await model.complete(HELLO)

    assert (overflow.value.observed_tokens, overflow.value.limit) == (203_456, 200_000)
    assert limited.value.retry_after_seconds == 17


@both_ways
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply("<html>Bad gateway</html>", content_type="text/html"), id="a-page"),
        pytest.param(Reply('{"id": "x", "choi'), id="torn-json"),
        pytest.param(Reply({}), id="nothing-in-it"),
        pytest.param(Reply("", status=502), id="an-empty-502"),
        pytest.param(Reply("<html>nginx</html>", status=503, content_type="text/html"), id="a-page-with-503"),
        pytest.param(Reply("[1, 2]", status=500), id="an-array-with-500"),
    ],
)
async def test_what_is_no_answer_is_a_failure_that_passes(
    provider: Provider, language: str, ask: Callable[..., Any], reply: Reply
) -> None:
    """A proxy's page, half an answer, nothing."""
    provider.will(reply)

    async with client(language, provider) as model:
        with pytest.raises(ModelTransientError):
            await ask(model)


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(lambda lines: CutStream(lines[:-3]), id="broken-off"),
        pytest.param(lambda lines: CutStream([]), id="broken-off-at-once"),
        pytest.param(lambda lines: Stream(lines[:2]), id="ended-early"),
        pytest.param(lambda lines: Stream([]), id="empty"),
        pytest.param(lambda lines: Stream([lines[0], "event: message_delta\ndata: {torn\n\n"]), id="no-json"),
    ],
)
async def test_a_stream_that_does_not_end_as_an_answer_is_a_failure_that_passes(
    provider: Provider, language: str, cut: Callable[[list[str]], Any]
) -> None:
    """What has come is told until then; no answer is made of it."""
    provider.will(cut(_STREAMED[language]()))
    found: list[ModelEvent] = []

    async with client(language, provider) as model:
        with pytest.raises(ModelTransientError) as caught:
            await gather(model.stream(HELLO), found)

    assert not any(isinstance(item, AnswerEnded) for item in found)
    assert caught.value.__context__ is None


async def test_an_error_within_a_stream_is_told_by_its_class(provider: Provider, language: str) -> None:
    """The status was 200, so the object alone says it."""
    first = _STREAMED[language]()[0]
    if language == "openai":
        body = openai_error("prompt is too long: 5 tokens > 4 maximum")
        lines = [first, "data: " + str(body).replace("'", '"').replace("None", "null") + "\n\n"]
    else:
        lines = [first, event(anthropic_error("invalid_request_error", "prompt is too long: 5 tokens > 4 maximum"))]
    provider.will(Stream(lines))

    async with client(language, provider) as model:
        with pytest.raises(ContextOverflowError) as caught:
            await _collect(model, HELLO)

    assert caught.value.observed_tokens == 5


@both_ways
async def test_no_answer_in_time_is_a_timeout(provider: Provider, language: str, ask: Callable[..., Any]) -> None:
    """The wait is for the next byte, whenever that is due."""
    provider.will(Hang(_STREAMED[language]()[:1]) if ask is _streamed else Hang())

    async with client(language, provider, timeout_seconds=0.2) as model:
        with pytest.raises(ModelTimeoutError) as caught:
            await ask(model)

    assert caught.value.retryable


async def test_an_endpoint_that_nobody_serves_is_a_failure_that_passes(language: str) -> None:
    """The next try may find it."""
    async with client(language, Provider(url="http://127.0.0.1:9")) as model:
        with pytest.raises(ModelTransientError) as caught:
            await model.complete(HELLO)

    assert KEY not in str(caught.value)


@both_ways
async def test_cancelling_leaves_no_request_behind(provider: Provider, language: str, ask: Callable[..., Any]) -> None:
    """The cancellation passes as it is, the connection is closed, and the model answers again."""
    provider.will(Hang(_STREAMED[language]()[:1]) if ask is _streamed else Hang(), _WHOLE[language]())

    async with client(language, provider) as model:
        asking = asyncio.create_task(ask(model))
        await provider.asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await provider.hung_up.wait()

        assert (await model.complete(HELLO)).message.text == "Hello."


@both_ways
async def test_a_signal_ends_a_request_and_nothing_else(
    provider: Provider, language: str, ask: Callable[..., Any]
) -> None:
    """It raises what it was fired with; the task goes on, uncancelled."""
    provider.will(Hang(_STREAMED[language]()[:1]) if ask is _streamed else Hang())
    abort = AbortSignal()

    async with client(language, provider) as model:
        asking = asyncio.create_task(ask(model, abort))
        await provider.asked.wait()
        abort.fire("enough")
        with pytest.raises(AbortError, match="enough"):
            await asking
        await provider.hung_up.wait()

    assert not asking.cancelled()


@both_ways
async def test_a_signal_that_has_fired_asks_nobody(provider: Provider, language: str, ask: Callable[..., Any]) -> None:
    """With the very exception that it was fired with."""
    abort = AbortSignal()
    abort.fire(KeyError("mine"))

    async with client(language, provider) as model:
        with pytest.raises(KeyError, match="mine"):
            await ask(model, abort)

    assert provider.requests == []


async def test_a_signal_that_stays_quiet_changes_nothing(provider: Provider, language: str) -> None:
    """And holds nothing afterwards."""
    provider.will(Stream(_STREAMED[language]()))
    abort = AbortSignal()

    async with client(language, provider) as model:
        found = await _collect(model, HELLO, abort)

    assert isinstance(found[-1], AnswerEnded)
    assert not abort._callbacks


async def test_a_stream_that_is_left_early_ends_its_request(provider: Provider, language: str) -> None:
    """Closing it is enough."""
    provider.will(Hang(_STREAMED[language]()[:4]))

    async with client(language, provider) as model:
        async with contextlib.aclosing(model.stream(HELLO)) as stream:
            async for item in stream:
                if isinstance(item, TextDelta):
                    break
        await provider.hung_up.wait()


@both_ways
async def test_the_key_is_in_nothing_that_anybody_reads(
    provider: Provider, language: str, ask: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Not in the error (though the provider says it back), its trace, its pickle, a repr, or a log at its noisiest."""
    caplog.set_level(logging.DEBUG)
    provider.will(_error(language, 401, f"Nobody knows {KEY} here.", "authentication_error"))

    async with client(language, provider) as model:
        with pytest.raises(ModelAuthError) as caught:
            await ask(model)
        shown = repr(model)

    error = caught.value
    assert "Nobody knows" in error.said
    assert error.__cause__ is None
    assert error.__context__ is None
    texts = ["".join(traceback.format_exception(error)), str(pickle.dumps(error)), shown, caplog.text]
    assert not [text for text in texts if KEY in text]


async def test_a_model_answers_an_engine(provider: Provider, language: str) -> None:
    """By the one call that engines know."""
    provider.will(_WHOLE[language]())

    async with client(language, provider) as model:
        complete = as_complete(model, max_tokens=99)
        result = await complete(CompletionRequest(messages=HELLO.messages, system_prompt="Sum up."))

    assert result.text == "Hello."
    assert result.usage is not None
    assert result.usage["totalTokens"] == 107
    assert provider.requests[0].body["max_tokens"] == 99


async def test_requests_may_run_side_by_side(provider: Provider, language: str) -> None:
    """Each gets its answer."""
    provider.will(*(_WHOLE[language]() for _ in range(5)))

    async with client(language, provider) as model:
        answers = await asyncio.gather(*(model.complete(HELLO) for _ in range(5)))

    assert [answer.message.text for answer in answers] == ["Hello."] * 5


async def test_a_key_comes_from_the_environment(
    provider: Provider, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the name that everybody uses; an argument goes before it."""
    monkeypatch.setenv(f"{language.upper()}_API_KEY", "the-key-of-the-environment")
    monkeypatch.setenv(f"{language.upper()}_BASE_URL", provider.url + ("/v1" if language == "openai" else ""))
    provider.will(_WHOLE[language](), _WHOLE[language]())
    kind: Any = OpenAICompatibleModel if language == "openai" else AnthropicModel

    async with kind("m") as model, kind("m", api_key=KEY) as other:
        await model.complete(HELLO)
        await other.complete(HELLO)

    assert [_key_of(asked) for asked in provider.requests] == ["the-key-of-the-environment", KEY]


def test_without_a_key_nothing_is_sent_to_the_provider_itself(language: str) -> None:
    """It says which variable to set."""
    kind: Any = OpenAICompatibleModel if language == "openai" else AnthropicModel

    with pytest.raises(ModelAuthError, match=f"{language.upper()}_API_KEY"):
        kind("m")


async def test_an_endpoint_of_ones_own_may_need_no_key(provider: Provider, language: str) -> None:
    """A local server, say."""
    provider.will(_WHOLE[language]())

    async with client(language, provider, api_key=None) as model:
        await model.complete(HELLO)

    assert len(provider.requests) == 1
