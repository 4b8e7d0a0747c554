"""Turns against a provider on this machine, which speaks the real wire formats and fails as the real ones do."""

import itertools
import json
from contextlib import asynccontextmanager

import pytest

from openclaw_ctx import (
    AssistantMessage,
    EngineTool,
    Host,
    ModelAuthError,
    ModelRejectedError,
    ModelTimeoutError,
    ModelTransientError,
    RateLimitedError,
    Registry,
    TurnBlockedError,
    UserMessage,
)
from openclaw_ctx.models import TextDelta
from openclaw_ctx.runtime import Compacted, ModelRetried
from openclaw_ctx.runtime.recovery import MAX_OVERFLOW_COMPACTION_ATTEMPTS
from openclaw_ctx.runtime.turn import MAX_RETRIES
from openclaw_ctx.transcript import pairs_are_whole
from openclaw_ctx.transcript.checks import verify_file
from tests.models.clients import KEY, LANGUAGES, client
from tests.models.provider import (
    CutStream,
    Hang,
    Reply,
    Stream,
    anthropic_error,
    chunks,
    completion,
    event,
    events,
    message,
    openai_error,
    running,
    tool_use,
)
from tests.models.wordings import FIELD_OVERFLOWS, OVERFLOWS, RATES

both = pytest.mark.parametrize("language", LANGUAGES)
WINDOW = 32_000
TURNS = 10
COPIED = {"agents": {"defaults": {"compaction": {"model": "extractive", "keepRecentTokens": 1_500}}}}
"""Summaries are copied, so that the provider is asked by turns alone."""

# What Anthropic says itself, or who speaks its language for it; the others speak OpenAI's.
ANTHROPICS = {
    "anthropic",
    "bedrock",
    "exceed-context-limit",
    "input-length-and-context",
    "max-tokens-and-context",
    "prompt-too-long",
    "request-exceeds-the-maximum-size",
    "request_too_large",
    "sum-without-marks",
}
WORDINGS = [
    pytest.param(language, said, id=f"{name} by {language.values[0]}", marks=language.marks)
    for name, said in {**OVERFLOWS, **FIELD_OVERFLOWS}.items()
    for language in LANGUAGES
    if language.values[0] == "openai" or name in ANTHROPICS
]
SUPPORTS_LESS = "The model supports only 256K context"


class Waits:
    """Stands for waiting, and keeps how long was asked for."""

    def __init__(self):
        self.seconds = []

    async def __call__(self, seconds):
        """Wait for nothing."""
        self.seconds.append(seconds)


@asynccontextmanager
async def talk(folder, language, *replies, config=COPIED, timeout_seconds=5.0, window=WINDOW):
    """Yield an open session whose model is at the provider, which answers with *replies*."""
    waits = Waits()
    async with (
        running() as provider,
        client(language, provider, timeout_seconds=timeout_seconds) as model,
        Host.open(
            config, state_dir=folder, model=model, registry=Registry(), context_window=window, sleep=waits
        ) as host,
        host.session("talk") as session,
    ):
        provider.will(*replies)
        session.provider, session.waits = provider, waits
        yield session


async def fill(session, *, turns=TURNS, chars=1_500):
    """Say so much in the session, without asking anybody; return what is on record then."""
    for number in range(turns):
        await session.append(UserMessage(content=f"request {number} " + "word " * (chars // 5)))
        await session.append(AssistantMessage(content=f"answer {number} " + "word " * (chars // 5), stop_reason="stop"))
    return said(session)


def said(session):
    """Return role and text of everything on record."""
    return [(message.role, message.text) for message in session.transcript.record()]


def problems(session):
    """Return what is wrong with the session's file."""
    return list(verify_file(session.transcript.path).findings)


def lines(language, text):
    """Return the events of an answer."""
    if language == "openai":
        return chunks({"role": "assistant", "content": text[:2]}, {"content": text[2:]})
    return events({"type": "text", "text": text})


def streamed(language, text):
    """Return an answer as it is streamed."""
    return Stream(lines(language, text))


def call_lines(language, call_id="call_1", city="Rome"):
    """Return the events of an answer that calls a tool."""
    if language == "anthropic":
        return events(tool_use(call_id, "weather", city=city), stop="tool_use")
    function = {"name": "weather", "arguments": json.dumps({"city": city})}
    call = {"index": 0, "id": call_id, "type": "function", "function": function}
    return chunks({"role": "assistant", "tool_calls": [call]}, finish="tool_calls")


def refusal(language, status, text, kind="invalid_request_error", headers=None):
    """Return a provider's error."""
    body = openai_error(text, code=kind) if language == "openai" else anthropic_error(kind, text)
    return Reply(body, status, headers or {})


def sizes(session):
    """Return how large each request was."""
    return [len(json.dumps(asked.body["messages"])) for asked in session.provider.requests]


def weather(answers):
    """Return a tool that takes note of each call."""

    async def call(arguments):
        answers.append(arguments["city"])
        return f"sunny in {arguments['city']}"

    return EngineTool(name="weather", description="Tells the weather.", parameters={"type": "object"}, call=call)


# -- too long --------------------------------------------------------------------------------------


@pytest.mark.parametrize("language,wording", WORDINGS)
async def test_every_wording_of_too_long_compacts_once_and_is_answered(tmp_path, language, wording):
    """The next request is smaller, and all that was said is on record, once."""
    replies = refusal(language, 400, wording), streamed(language, "fine")
    async with talk(tmp_path, language, *replies) as session:
        before = await fill(session)
        result = await session.run("and now?")

        assert (result.text, result.compactions) == ("fine", 1)
        assert said(session) == [*before, ("user", "and now?"), ("assistant", "fine")]
        assert problems(session) == []
        assert session.waits.seconds == []
        first, second = sizes(session)
        assert second < first


@both
@pytest.mark.parametrize(
    "status,wording,kind",
    [
        pytest.param(401, SUPPORTS_LESS, "authentication_error", id="a 401 that is no question of keys"),
        pytest.param(413, "Request exceeds the maximum size", "request_too_large", id="413"),
        pytest.param(422, "prompt is too long", "invalid_request_error", id="422"),
        pytest.param(500, "Context overflow: prompt too large for the model.", "api_error", id="500"),
        pytest.param(
            413, "Limit 8000, Requested 15000, allowance full", "rate_limit_exceeded", id="more than a minute holds"
        ),
    ],
)
async def test_too_long_is_known_by_its_words_whatever_its_status(tmp_path, language, status, wording, kind):
    """A limit per minute that the request exceeds by itself is no matter of waiting."""
    replies = refusal(language, status, wording, kind), streamed(language, "fine")
    async with talk(tmp_path, language, *replies) as session:
        before = await fill(session)
        result = await session.run("and now?")

        assert (result.text, result.compactions) == ("fine", 1)
        assert said(session) == [*before, ("user", "and now?"), ("assistant", "fine")]
        assert session.waits.seconds == []


PAGE = "<html><head><title>413 Request Entity Too Large</title></head><body>nginx</body></html>"
TOO_LONG = "prompt is too long: 9000 tokens > 8000 maximum"


@both
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply(PAGE, 413, content_type="text/html"), id="a page of a proxy"),
        pytest.param(Reply("", 413), id="nothing but a status"),
        pytest.param(Reply({"error": TOO_LONG}, 400), id="a text in the place of an object"),
        pytest.param(Reply({"message": TOO_LONG}, 400), id="no error object"),
        pytest.param(Reply({"detail": [{"msg": TOO_LONG}]}, 422), id="a list of details"),
        pytest.param(Reply([{"error": {"code": 400, "message": TOO_LONG}}], 400), id="an object in a list"),
        pytest.param(Reply(TOO_LONG, 400, content_type="text/plain"), id="plain text"),
    ],
)
async def test_too_long_is_known_in_whatever_body_a_gateway_wraps_it(tmp_path, language, reply):
    """The words count, wherever they stand."""
    async with talk(tmp_path, language, reply, streamed(language, "fine")) as session:
        before = await fill(session)
        result = await session.run("and now?")

        assert (result.text, result.compactions) == ("fine", 1)
        assert said(session) == [*before, ("user", "and now?"), ("assistant", "fine")]
        assert session.waits.seconds == []


@both
async def test_too_long_may_be_told_within_a_stream(tmp_path, language):
    """The status was 200, and part of an answer had come: it is void."""
    body = refusal(language, 400, "prompt is too long: 203456 tokens > 200000 maximum").body
    last = event(body) if language == "anthropic" else f"data: {json.dumps(body)}\n\n"
    cut = Stream([*lines(language, "half an answer")[:-3], last])
    async with talk(tmp_path, language, cut, streamed(language, "fine")) as session:
        before = await fill(session)
        result = await session.run("and now?")

        assert (result.text, result.compactions) == ("fine", 1)
        assert said(session) == [*before, ("user", "and now?"), ("assistant", "fine")]


@both
async def test_too_long_in_the_middle_of_a_turn_keeps_calls_and_results_together(tmp_path, language):
    """The provider refuses what stands alone; the tool is not run again."""
    cities = []
    calls = [Stream(call_lines(language, f"call_{number}", f"city {number}")) for number in range(3)]
    too_long = refusal(language, 400, "prompt is too long: 203456 tokens > 200000 maximum")
    async with talk(tmp_path, language, *calls, too_long, streamed(language, "sunny")) as session:
        await fill(session)
        result = await session.run("weather?", tools=[weather(cities)])

        assert (result.text, result.rounds, result.compactions) == ("sunny", 4, 1)
        assert cities == ["city 0", "city 1", "city 2"]
        assert pairs_are_whole(tuple(session.transcript.record()))
        assert [role for role, _ in said(session)[-8:]] == ["user", *["assistant", "toolResult"] * 3, "assistant"]
        assert problems(session) == []


@both
async def test_the_model_of_the_turn_writes_the_summary_too(tmp_path, language):
    """Without an own model for it; the summary stands in the next request."""
    text = "## Goal\nThey count words."
    summary = Reply(completion(text) if language == "openai" else message({"type": "text", "text": text}))
    replies = refusal(language, 400, "prompt is too long"), streamed(language, "fine")
    config = {"agents": {"defaults": {"compaction": {"keepRecentTokens": 1_500}}}}
    async with talk(tmp_path, language, *replies, config=config) as session:
        session.provider.whole = summary
        await fill(session)
        result = await session.run("and now?")

        assert (result.text, result.compactions) == ("fine", 1)
        assert "They count words." in result.summary
        assert "They count words." in json.dumps(session.provider.requests[-1].body)


@both
async def test_what_never_fits_is_given_up_and_says_what_to_do(tmp_path, language):
    """At most three compactions; nothing is lost, and ``run(None)`` answers once the model takes it."""
    too_long = refusal(language, 400, "prompt is too long: 203456 tokens > 200000 maximum")
    async with talk(tmp_path, language, *[too_long] * 9) as session:
        before = await fill(session)
        with pytest.raises(TurnBlockedError) as blocked:
            await session.run("and now?")

        assert 1 <= blocked.value.attempts <= MAX_OVERFLOW_COMPACTION_ATTEMPTS
        for advice in ("/new", "larger window", "fork", "compact"):
            assert advice in str(blocked.value)
        assert said(session) == [*before, ("user", "and now?")]
        session.provider.replies[:] = [streamed(language, "better")]
        assert (await session.run(None)).text == "better"
        assert said(session) == [*before, ("user", "and now?"), ("assistant", "better")]
        assert problems(session) == []


# -- too much for now ------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    "status,wording,kind",
    [
        *(pytest.param(429, words, "rate_limit_error", id=name) for name, words in RATES.items()),
        pytest.param(413, "Too large, tokens per minute", "rate_limit_error", id="413 too large"),
        pytest.param(
            413, "Limit 8000, Requested 3000, allowance full", "rate_limit_exceeded", id="413 within a minute"
        ),
    ],
)
async def test_a_limit_per_time_is_waited_for(tmp_path, language, status, wording, kind):
    """No compaction, and nothing in the transcript but what was said."""
    replies = refusal(language, status, wording, kind), streamed(language, "fine")
    async with talk(tmp_path, language, *replies) as session:
        before = await fill(session)
        result = await session.run("and now?")

        assert (result.text, result.compactions) == ("fine", 0)
        assert len(session.waits.seconds) == 1
        assert session.transcript.boundary_id is None
        assert said(session) == [*before, ("user", "and now?"), ("assistant", "fine")]
        assert sizes(session)[0] == sizes(session)[1]


@both
async def test_a_provider_says_how_long_to_wait(tmp_path, language):
    """It is waited that long, and not longer than a fifth more."""
    limited = refusal(language, 429, "slow down", "rate_limit_error", {"retry-after": "17"})
    async with talk(tmp_path, language, limited, streamed(language, "fine")) as session:
        await session.run("hi")

        assert 17 <= session.waits.seconds[0] <= 17 * 1.2


@both
async def test_a_wait_that_nobody_has_the_patience_for_ends_the_turn(tmp_path, language):
    """The error says how long it would be; the message stays unanswered, for another time."""
    limited = refusal(language, 429, "come back tomorrow", "rate_limit_error", {"retry-after": "3600"})
    async with talk(tmp_path, language, limited, streamed(language, "fine")) as session:
        with pytest.raises(RateLimitedError) as caught:
            await session.run("hi")

        assert caught.value.retry_after_seconds == 3_600
        assert session.waits.seconds == []
        assert (await session.run(None)).text == "fine"
        assert said(session) == [("user", "hi"), ("assistant", "fine")]


# -- what passes -----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    "status,wording,kind",
    [
        pytest.param(500, "Internal server error", "api_error", id="500"),
        pytest.param(502, "", "api_error", id="502"),
        pytest.param(529, "Overloaded", "overloaded_error", id="529"),
    ],
)
async def test_a_failure_of_the_provider_is_tried_again(tmp_path, language, status, wording, kind):
    """Three times, each wait longer; nothing of it is in the transcript."""
    broken = refusal(language, status, wording, kind)
    told = []
    async with talk(tmp_path, language, *[broken] * MAX_RETRIES, streamed(language, "fine")) as session:
        await session.run("hi", on_event=told.append)

        assert said(session) == [("user", "hi"), ("assistant", "fine")]
        assert session.waits.seconds == sorted(session.waits.seconds)
        assert sum(isinstance(each, ModelRetried) for each in told) == MAX_RETRIES == 3
        assert session.transcript.boundary_id is None


@both
async def test_a_provider_that_goes_on_failing_ends_the_turn_and_keeps_what_was_said(tmp_path, language):
    """The message waits for its answer."""
    broken = refusal(language, 500, "Internal server error", "api_error")
    async with talk(tmp_path, language, *[broken] * (MAX_RETRIES + 1), streamed(language, "fine")) as session:
        with pytest.raises(ModelTransientError):
            await session.run("hi")

        assert said(session) == [("user", "hi")]
        assert (await session.run(None)).text == "fine"
        assert said(session) == [("user", "hi"), ("assistant", "fine")]


@both
@pytest.mark.parametrize("is_half", [False, True], ids=["without a word", "in an answer"])
async def test_silence_under_a_full_window_compacts_and_asks_again(tmp_path, language, is_half):
    """What had come of the answer is void."""
    hang = Hang(lines(language, "half an answer")[:-3] if is_half else ())
    compaction = {**COPIED["agents"]["defaults"]["compaction"], "reserveTokens": 4_000, "reserveTokensFloor": 0}
    config = {"agents": {"defaults": {"compaction": compaction}}}
    told = []
    replies = hang, streamed(language, "fine")
    async with talk(tmp_path, language, *replies, config=config, timeout_seconds=0.3, window=64_000) as session:
        before = await fill(session, turns=20, chars=4_300)
        result = await session.run("hi", on_event=told.append)

        assert (result.text, result.compactions) == ("fine", 1)
        assert [each.trigger for each in told if isinstance(each, Compacted)] == ["timeout_recovery"]
        assert said(session) == [*before, ("user", "hi"), ("assistant", "fine")]


@both
async def test_silence_under_a_window_with_room_is_waited_for_like_any_failure(tmp_path, language):
    """Nothing is compacted; four times silent, and the turn ends."""
    silent = [Hang()] * (MAX_RETRIES + 1)
    async with talk(tmp_path, language, *silent, streamed(language, "fine"), timeout_seconds=0.1) as session:
        before = await fill(session, turns=2)
        with pytest.raises(ModelTimeoutError):
            await session.run("hi")

        assert len(session.waits.seconds) == MAX_RETRIES
        assert said(session) == [*before, ("user", "hi")]
        assert session.transcript.boundary_id is None


@both
@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(lambda found: CutStream(found[:-2]), id="broken off"),
        pytest.param(lambda found: Stream(found[:-3]), id="ended early"),
        pytest.param(lambda found: CutStream([]), id="broken off at once"),
    ],
)
async def test_an_answer_that_breaks_off_is_asked_for_again(tmp_path, language, cut):
    """What had come of it was told, and is not in the transcript."""
    told = []
    replies = cut(lines(language, "half an answer")), streamed(language, "fine")
    async with talk(tmp_path, language, *replies) as session:
        result = await session.run("hi", on_event=told.append)

        assert result.text == "fine"
        retried = next(place for place, each in enumerate(told) if isinstance(each, ModelRetried))
        heard = "".join(each.text for each in told[retried:] if isinstance(each, TextDelta))
        assert heard == "fine"
        assert said(session) == [("user", "hi"), ("assistant", "fine")]
        assert problems(session) == []


@both
async def test_a_tool_call_that_breaks_off_is_not_made(tmp_path, language):
    """The call is made once it has come whole."""
    cities = []
    cut = CutStream(call_lines(language, city="Rom")[:-3])
    whole = Stream(call_lines(language, "call_2", "Rome"))
    async with talk(tmp_path, language, cut, whole, streamed(language, "sunny")) as session:
        await session.run("weather?", tools=[weather(cities)])

        assert cities == ["Rome"]
        assert [role for role, _ in said(session)] == ["user", "assistant", "toolResult", "assistant"]


@both
async def test_an_answer_that_breaks_off_again_and_again_ends_the_turn_and_the_session_goes_on(tmp_path, language):
    """What came last is kept as an answer that was cut off, which the provider takes back."""
    cut = CutStream(lines(language, "half an answer")[:-2])
    async with talk(tmp_path, language, *[cut] * (MAX_RETRIES + 1), streamed(language, "fine")) as session:
        with pytest.raises(ModelTransientError):
            await session.run("hi")

        assert said(session) == [("user", "hi"), ("assistant", "half an answer")]
        assert session.history[-1].stop_reason == "aborted"
        assert (await session.run("go on")).text == "fine"
        assert problems(session) == []


# -- what does not pass ----------------------------------------------------------------------------


@both
@pytest.mark.parametrize("status", [401, 403])
async def test_a_bad_key_is_told_at_once_and_not_shown(tmp_path, language, status):
    """One request; the provider is named, the key is not, and the message stays for another try."""
    denied = refusal(language, status, f"invalid x-api-key {KEY}", "authentication_error")
    async with talk(tmp_path, language, denied, streamed(language, "fine")) as session:
        before = await fill(session)
        with pytest.raises(ModelAuthError) as caught:
            await session.run("hi")

        assert language in str(caught.value)
        assert KEY not in str(caught.value)
        assert (len(session.provider.requests), session.waits.seconds) == (1, [])
        assert said(session) == [*before, ("user", "hi")]
        assert session.transcript.boundary_id is None
        assert (await session.run(None)).text == "fine"


@both
@pytest.mark.parametrize(
    "wording",
    [
        pytest.param("input exceeds maximum file size", id="a file that is too large"),
        pytest.param("Unsupported parameter: temperature", id="a parameter"),
    ],
)
async def test_a_request_that_is_refused_for_another_reason_is_not_tried_again(tmp_path, language, wording):
    """Nor compacted: the provider's words are in the error, and the transcript is as it was."""
    replies = itertools.repeat(refusal(language, 400, wording), 2)
    async with talk(tmp_path, language, *replies) as session:
        before = await fill(session)
        with pytest.raises(ModelRejectedError, match=wording):
            await session.run("hi")

        assert (len(session.provider.requests), session.waits.seconds) == (1, [])
        assert said(session) == [*before, ("user", "hi")]
        assert session.transcript.boundary_id is None
