"""Turns on a real host and real files, with a model that answers from a script."""

import asyncio
import itertools
from contextlib import asynccontextmanager

import attrs
import pytest

from openclaw_ctx import (
    AbortError,
    AbortSignal,
    AssembleResult,
    AssistantMessage,
    CompactionSummaryMessage,
    CompactResult,
    ContextOverflowError,
    ContextWindowTooSmallError,
    EngineFailedError,
    EngineInfo,
    EngineTool,
    Host,
    ImageBlock,
    ModelTimeoutError,
    ModelTransientError,
    ModelUnavailableError,
    RateLimitedError,
    Registry,
    ScriptedAnswer,
    ScriptedModel,
    ToolCallBlock,
    ToolResultMessage,
    TurnBlockedError,
    UserMessage,
)
from openclaw_ctx.models import TokenUsage
from openclaw_ctx.runtime import Compacted, Compacting, ModelAsked, ModelRetried, TurnAnswered
from openclaw_ctx.runtime.recovery import MAX_OVERFLOW_COMPACTION_ATTEMPTS, MAX_TIMEOUT_COMPACTION_ATTEMPTS
from openclaw_ctx.runtime.tools import CANCELLED, CUT_SHORT
from openclaw_ctx.tokens import estimate_tokens
from openclaw_ctx.transcript import Transcript, pairs_are_whole
from tests.assembly.plain import engine
from tests.assembly.recording import open_host

OVERFLOW = ContextOverflowError("scripted", "scripted-1", "prompt is too long", None, None)


class Waits:
    """Stands for waiting, and keeps how long was asked for."""

    def __init__(self):
        self.seconds = []

    async def __call__(self, seconds):
        """Wait for nothing."""
        self.seconds.append(seconds)


@asynccontextmanager
async def talk(folder, script, *, config=None, key="talk", **options):
    """Yield an open session with a scripted model, and the model."""
    model = ScriptedModel(script)
    waits = Waits()
    options.setdefault("summary_model", ScriptedModel(itertools.repeat("They talked about many things.")))
    async with (
        Host.open(config or {}, state_dir=folder, model=model, registry=Registry(), sleep=waits, **options) as host,
        host.session(key) as session,
    ):
        session.model, session.waits, session.host = model, waits, host
        yield session


async def fill(session, *, turns, chars):
    """Say so much in the session, without asking anybody."""
    for number in range(turns):
        await session.append(UserMessage(content=f"request {number} " + "word " * (chars // 5)))
        await session.append(AssistantMessage(content=f"answer {number} " + "word " * (chars // 5), stop_reason="stop"))


def said(session):
    """Return role and text of everything on record."""
    return [(message.role, message.text) for message in session.transcript.record()]


def look_up(answer="sunny"):
    """Return a tool that answers for a city."""

    async def call(arguments):
        return f"{answer} in {arguments['city']}"

    return EngineTool(name="weather", description="Tells the weather.", parameters={"type": "object"}, call=call)


def calling(name="weather", number=1):
    """Return an answer that calls a tool."""
    call = ToolCallBlock(id=f"call-{number}", name=name, arguments={"city": "Rome"})
    return ScriptedAnswer(text="", tool_calls=(call,))


async def test_a_turn_is_what_was_said_and_what_was_answered(tmp_path):
    """Both are in the transcript once the answer is returned."""
    async with talk(tmp_path, ["hello there"]) as session:
        result = await session.run("hi")

        assert result.text == "hello there"
        assert said(session) == [("user", "hi"), ("assistant", "hello there")]


async def test_tools_run_and_their_results_go_back_to_the_model(tmp_path):
    """A round for each time that the model is asked."""
    events = []
    async with talk(tmp_path, [calling(), "It is sunny."]) as session:
        result = await session.run("weather?", tools=[look_up()], on_event=events.append)

        assert (result.text, result.rounds) == ("It is sunny.", 2)
        assert [role for role, _ in said(session)] == ["user", "assistant", "toolResult", "assistant"]
        assert said(session)[2] == ("toolResult", "sunny in Rome")
        assert isinstance(events[-1], TurnAnswered)


async def test_calls_of_an_answer_that_had_no_more_room_are_not_run_and_have_results(tmp_path):
    """Whoever reads the record finds whole pairs, and the model why there is nothing in them."""
    cut = attrs.evolve(calling(), text="I will", stop_reason="length")
    async with talk(tmp_path, [cut, "well"]) as session:
        result = await session.run("weather?", tools=[look_up()])

        assert (result.text, result.message.stop_reason) == ("I will", "length")
        assert said(session)[1:] == [("assistant", "I will"), ("toolResult", CUT_SHORT)]
        assert session.history[-1].is_error
        assert pairs_are_whole(tuple(session.transcript.record()))
        assert (await session.run("and?")).text == "well"
        assert pairs_are_whole(session.model.requests[-1].messages)


async def test_a_tool_may_answer_with_more_than_a_text(tmp_path):
    """A failure in its own words, or a picture; whose call it answers is filled in."""
    picture = ImageBlock(data="aGk=", mime_type="image/png")

    async def call(arguments):
        return ToolResultMessage(tool_call_id="?", entry_id="x", is_error=True, content=(picture,), details={"a": 1})

    tool = EngineTool(name="weather", description="", parameters={}, call=call)
    async with talk(tmp_path, [calling(), "sorry"]) as session:
        await session.run("weather?", tools=[tool])

        result = session.transcript.record()[2]
        assert (result.tool_call_id, result.tool_name) == ("call-1", "weather")
        assert (result.is_error, result.content, result.details) == (True, (picture,), {"a": 1})
        assert result.entry_id != "x"


async def test_a_tool_that_fails_tells_the_model(tmp_path):
    """So does a tool that is not there; neither ends the turn."""

    async def fail(arguments):
        raise KeyError("no such city")  # noqa: TRY003 -- what is raised does not matter

    broken = EngineTool(name="weather", description="", parameters={}, call=fail)
    async with talk(tmp_path, [calling(), calling("nope", 2), "sorry"]) as session:
        await session.run("weather?", tools=[broken])

        results = [m for m in session.history if isinstance(m, ToolResultMessage)]
        assert [result.is_error for result in results] == [True, True]
        assert "no such city" in results[0].text
        assert "no tool 'nope'" in results[1].text


async def test_without_a_model_a_turn_says_so(tmp_path):
    """And writes nothing."""
    async with Host.open({}, state_dir=tmp_path, registry=Registry()) as host, host.session("talk") as session:
        with pytest.raises(ModelUnavailableError):
            await session.run("hi")

        assert not len(session.history)


async def test_overflow_compacts_and_asks_again(tmp_path):
    """The turn goes on; the user's message is there once, and what was folded is in a summary."""
    events = []
    async with talk(tmp_path, [OVERFLOW, "fine"]) as session:
        await fill(session, turns=30, chars=2_000)
        result = await session.run("and now?", on_event=events.append, context_window=32_000)

        assert result.text == "fine"
        assert result.compactions >= 1
        assert [text for role, text in said(session)].count("and now?") == 1
        assert isinstance(session.history[0], CompactionSummaryMessage)
        assert any(isinstance(event, Compacting) for event in events)
        assert any(isinstance(event, Compacted) and event.result.compacted for event in events)


async def test_the_window_that_a_provider_names_is_believed(tmp_path):
    """The next prompts stay below it, whatever was configured."""
    told = ContextOverflowError("scripted", "scripted-1", "prompt is too long: 50000 tokens > 16000", 50_000, 16_000)
    async with talk(tmp_path, [told, "fine", "again"]) as session:
        await fill(session, turns=30, chars=2_000)
        await session.run("one", context_window=200_000)
        await session.run("two", context_window=200_000)

        costs = [sum(len(m.text) // 4 for m in request.messages) for request in session.model.requests]
        assert costs[1] < 16_000
        assert costs[2] < 16_000


async def test_a_turn_that_never_fits_is_given_up_after_three_compactions(tmp_path):
    """The error says what to do, and the session goes on from where it was."""
    async with talk(tmp_path, [OVERFLOW] * 20) as session:
        await fill(session, turns=30, chars=2_000)
        with pytest.raises(TurnBlockedError) as blocked:
            await session.run("and now?", context_window=32_000)

        assert blocked.value.kind in {"context_overflow", "compaction_failure"}
        assert blocked.value.attempts <= MAX_OVERFLOW_COMPACTION_ATTEMPTS == 3
        assert "/new" in str(blocked.value)
        session.model._lines = iter(["better"])
        assert (await session.run(None, context_window=32_000)).text == "better"


async def test_long_tool_results_give_way_where_compacting_does_not_help(tmp_path):
    """They are cut in the transcript, once, and the model is asked again."""
    long = EngineTool(name="weather", description="", parameters={}, call=lambda arguments: "x" * 200_000)
    async with talk(tmp_path, [calling(), OVERFLOW, "fine"]) as session:
        result = await session.run("weather?", tools=[long], context_window=32_000)

        assert result.text == "fine"
        sent = session.model.requests[-1].messages
        assert all(len(m.text) < 40_000 for m in sent)
        assert pairs_are_whole(sent)


async def test_failures_that_pass_are_waited_for(tmp_path):
    """Nothing of them is in the transcript, and what the provider asks to wait is waited."""
    limited = RateLimitedError("scripted", "scripted-1", "slow down", 7.0)
    broken = ModelTransientError("scripted", "scripted-1", "broke off")
    events = []
    async with talk(tmp_path, [ScriptedAnswer(text="half an", error=broken), limited, "fine"]) as session:
        result = await session.run("hi", on_event=events.append)

        assert result.text == "fine"
        assert said(session) == [("user", "hi"), ("assistant", "fine")]
        assert session.waits.seconds[1] >= 7.0
        assert sum(isinstance(event, ModelRetried) for event in events) == 2


async def test_a_rate_limit_is_no_overflow(tmp_path):
    """No compaction, and the transcript's bytes as they were but for what was said."""
    limited = RateLimitedError("scripted", "scripted-1", "tokens per minute", None)
    async with talk(tmp_path, [limited] * 10) as session:
        await fill(session, turns=5, chars=500)
        with pytest.raises(RateLimitedError):
            await session.run("hi")

        assert session.transcript.boundary_id is None
        assert len(session.waits.seconds) == 3


async def test_silence_under_a_full_window_compacts_first(tmp_path):
    """Twice at most; below 65 % of the window it is waited for like any other failure."""
    silent = ModelTimeoutError("scripted", "scripted-1", "no answer")
    config = {"agents": {"defaults": {"compaction": {"enabled": False}}}}
    async with talk(tmp_path, [silent, "fine"], config=config) as s:
        await fill(s, turns=20, chars=4_300)
        result = await s.run("hi", context_window=64_000)

        assert result.text == "fine"
        assert s.transcript.boundary_id is not None
    assert MAX_TIMEOUT_COMPACTION_ATTEMPTS == 2


async def test_the_context_is_compacted_before_the_window_is_full(tmp_path):
    """The model never sees a prompt beyond the window's budget."""
    async with talk(tmp_path, ["one", "two"]) as session:
        await fill(session, turns=40, chars=2_000)
        result = await session.run("hi", context_window=32_000)

        assert result.compactions == 1
        assert sum(len(m.text) // 4 for m in session.model.requests[0].messages) < 32_000 - 16_384


async def test_a_window_too_small_to_work_in_is_refused(tmp_path):
    """Before anything is written."""
    async with talk(tmp_path, ["one"]) as session:
        with pytest.raises(ContextWindowTooSmallError):
            await session.run("hi", context_window=2_000)

        assert not len(session.history)


async def test_a_cancelled_turn_leaves_whole_pairs_and_goes_on(tmp_path):
    """Calls that were running have results that say so; the next turn is answered."""
    started = asyncio.Event()

    async def hang(arguments):
        started.set()
        await asyncio.Event().wait()

    stuck = EngineTool(name="weather", description="", parameters={}, call=hang)
    async with talk(tmp_path, [calling(), "fine"]) as session:
        turn = asyncio.ensure_future(session.run("weather?", tools=[stuck]))
        await started.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

        assert said(session)[-1] == ("toolResult", CANCELLED)
        assert (await session.run("and?")).text == "fine"
        path = session.transcript.path
    read = Transcript.read(path)
    assert pairs_are_whole(tuple(read.history))
    read.close()


async def test_an_abort_ends_the_turn_and_keeps_what_was_said(tmp_path):
    """What had come of the answer is kept as one that was cut off."""
    abort = AbortSignal()

    def stop(event):
        if type(event).__name__ == "TextDelta":
            abort.fire("enough")

    async with talk(tmp_path, ["one two three four", "fine"]) as session:
        with pytest.raises(AbortError):
            await session.run("hi", on_event=stop, abort=abort)

        assert session.history[-1].stop_reason == "aborted"
        assert (await session.run("go on")).text == "fine"


async def test_turns_of_one_session_queue_and_those_of_two_do_not(tmp_path):
    """The second turn of a session sees the first one's answer."""
    async with talk(tmp_path, ["first", "second"]) as session:
        await asyncio.gather(session.run("one"), session.run("two"))

        assert [text for _, text in said(session)] == ["one", "first", "two", "second"]


async def test_what_was_said_before_a_crash_is_answered_once(tmp_path):
    """``run(None)`` answers what is unanswered, and the message is there once."""
    async with talk(tmp_path, ["late"]) as session:
        await session.append(UserMessage(content="hello?"))
        result = await session.run(None)

        assert result.text == "late"
        assert said(session) == [("user", "hello?"), ("assistant", "late")]
        assert [m.text for m in session.model.requests[0].messages] == ["hello?"]


async def test_a_summary_that_fails_leaves_the_history_in_the_prompt(tmp_path):
    """The summarising model raises every time: bytes as they were, and the turn is answered all the same."""
    failing = ScriptedModel([RateLimitedError("s", "s", "429", 0.0)] * 50)
    async with talk(tmp_path, ["fine"], summary_model=failing) as session:
        await fill(session, turns=4, chars=1_000)
        before = session.transcript.path.read_bytes()
        compacted = await session.compact(budget=1_000)

        assert not compacted.result.ok
        assert session.transcript.path.read_bytes() == before
        assert (await session.run("hi")).text == "fine"
        assert len(session.model.requests[0].messages) == 9


async def test_the_same_call_again_and_again_behind_a_compaction_ends_the_turn(tmp_path):
    """Three times the same call with the same result is a loop."""
    calls = [calling(number=number) for number in range(1, 9)]
    async with talk(tmp_path, [OVERFLOW, *calls]) as session:
        await fill(session, turns=30, chars=2_000)
        with pytest.raises(TurnBlockedError) as blocked:
            await session.run("weather?", tools=[look_up()], context_window=32_000)

        assert blocked.value.kind == "compaction_loop_persisted"


async def test_who_asks_three_times_is_answered_three_times_behind_a_compaction(tmp_path):
    """A loop is what a model does by itself: each question may well need the same call."""
    script = [OVERFLOW, calling(number=1), "sunny", calling(number=2), "still", calling(number=3), "as before"]
    async with talk(tmp_path, script) as session:
        await fill(session, turns=20, chars=2_000)

        texts = [(await session.run(said, tools=[look_up()])).text for said in ("weather?", "still?", "and now?")]

        assert texts == ["sunny", "still", "as before"]


async def test_notices_tell_of_a_compaction_before_and_after(tmp_path):
    """Once each; what they raise keeps nothing from happening."""
    told = []

    def before(notice):
        told.append(("before", notice.result))
        raise RuntimeError

    options = {"before_compaction": before, "after_compaction": lambda notice: told.append(("after", notice))}
    async with talk(tmp_path, [], **options) as session:
        await fill(session, turns=20, chars=2_000)
        compacted = await session.compact(budget=4_000)

        assert compacted.result.compacted
    assert [name for name, _ in told] == ["before", "after"]
    assert told[1][1].compacted_count > 0
    assert told[1][1].summary_length > 0


async def test_nothing_to_compact_tells_nobody_and_keeps_the_turn_going(tmp_path):
    """An engine's "nothing to do" is no failure, whatever words it uses."""
    assert CompactResult(ok=True, compacted=False, reason="below threshold").ok
    told = []
    async with talk(tmp_path, ["fine"], before_compaction=told.append, after_compaction=told.append) as session:
        await session.append(UserMessage(content="short"))
        compacted = await session.compact()

        assert compacted.result.ok
        assert not compacted.result.compacted
        assert (await session.run("hi")).text == "fine"
    assert told == []


async def test_notes_of_earlier_days_reach_the_model_and_are_written_before_a_compaction(tmp_path):
    """The memory slot: what is there is said in the system prompt, and a full window asks for more to be written."""
    config = {"plugins": {"slots": {"memory": "notes"}}}
    write = ToolCallBlock(id="note-1", name="memory_append", arguments={"text": "The user's dog is called Rex."})
    script = [ScriptedAnswer(tool_calls=(write,)), "NO_REPLY", "fine", "Rex"]
    async with talk(tmp_path / "state", script, config=config, workspace_dir=tmp_path) as session:
        await fill(session, turns=40, chars=2_000)
        result = await session.run("my dog is called Rex", context_window=32_000)
        assert result.text == "fine"

        await session.run("what is my dog called?", context_window=32_000)
        assert "Rex" in session.model.requests[-1].system_prompt
        assert [text for _, text in said(session)].count("NO_REPLY") == 0
    assert "Rex" in next((tmp_path / "memory").glob("*.md")).read_text()


async def test_a_compaction_that_takes_too_long_is_given_up(tmp_path):
    """``timeoutSeconds`` bounds it; the bytes are as they were, and the error says what was too slow."""
    slow = ScriptedModel([ScriptedAnswer(text="too late", delay_seconds=60.0)] * 9)
    config = {"agents": {"defaults": {"compaction": {"timeoutSeconds": 0.05}}}}
    async with talk(tmp_path, [], config=config, summary_model=slow) as session:
        await fill(session, turns=20, chars=2_000)
        before = session.transcript.path.read_bytes()
        with pytest.raises(EngineFailedError):
            await session.compact(budget=4_000)

        assert session.transcript.path.read_bytes() == before


async def test_summaries_are_copied_where_the_configuration_says_so(tmp_path):
    """``model: "extractive"``: the host's model answers users, and is not asked for a summary."""
    config = {"agents": {"defaults": {"compaction": {"model": "extractive"}}}}
    async with talk(tmp_path, [], config=config, summary_model=None) as session:
        await fill(session, turns=20, chars=2_000)
        compacted = await session.compact(budget=4_000)

        assert compacted.result.compacted
        assert session.model.requests == []


async def test_a_rotation_does_not_bring_back_what_was_folded_to_make_room(tmp_path):
    """Compacting ahead once is enough, however long the last reply was."""
    compaction = {"model": "extractive", "truncateAfterCompaction": True, "keepRecentTokens": 800}
    config = {"agents": {"defaults": {"compaction": {**compaction, "reserveTokensFloor": 0}}}}
    tokens = []

    def hear(event):
        if isinstance(event, Compacting):
            tokens.append(event.tokens)
            assert len(tokens) < 20, tokens

    async with talk(tmp_path, [OVERFLOW, "ok", "fine"], config=config, summary_model=None) as session:
        await fill(session, turns=3, chars=2_000)
        await session.run("short", context_window=6_000)
        await session.append(UserMessage(content="tell me"))
        await session.append(AssistantMessage(content="word " * 4_000, stop_reason="stop"))

        result = await session.run("and now?", context_window=6_000, on_event=hear)

        assert result.text == "fine"
        assert result.compactions == len(tokens) == 1


async def test_compacting_ahead_happens_once_a_round_whatever_it_brings(tmp_path):
    """A compaction that helps too little makes no turn compact for ever: what still does not fit is an overflow."""
    triggers = []

    def hear(event):
        if isinstance(event, Compacting):
            triggers.append(event.trigger)

    def assemble(self, messages):
        return AssembleResult(messages=messages if len(triggers) < 2 else messages[-1:], prompt_authority="assembled")

    made = engine(compact=lambda self: CompactResult(ok=True, compacted=True), assemble=assemble)
    made.info = EngineInfo(id="recorder", name="Recorder")
    async with (
        open_host(tmp_path, "recorder", engines={"recorder": made}, model=ScriptedModel(["fine"])) as host,
        host.session("talk") as session,
    ):
        await fill(session, turns=3, chars=12_000)

        result = await session.run("short", context_window=20_000, on_event=hear)

        assert (result.text, triggers) == ("fine", ["budget", "overflow"])
        assert host.quarantines() == []


def budgets(events):
    """Return what each prompt might cost."""
    return [event.prompt.budget for event in events if isinstance(event, ModelAsked)]


def counting(times):
    """Return an answer whose prompt a provider counts so many times as high as the host."""
    return lambda request: ScriptedAnswer(
        text="fine", usage=TokenUsage(input=int(times * sum(map(estimate_tokens, request.messages))))
    )


async def test_a_wild_count_of_a_provider_costs_a_part_of_the_budget_and_not_for_ever(tmp_path):
    """A quarter is left; and all of it, by steps, once the provider counts as the host does."""
    wild = ContextOverflowError("scripted", "scripted-1", "203456 tokens > 200000", 203_456, None)
    events = []
    async with talk(tmp_path, [wild, *[counting(1)] * 9]) as session:
        await fill(session, turns=8, chars=2_000)
        for _ in range(9):
            await session.run("and?", context_window=32_000, on_event=events.append)

    full, least, *later = budgets(events)
    assert least == full // 4
    assert later == sorted(later)
    assert later[0] < full == later[-1]
    assert sum(isinstance(event, Compacting) for event in events) == 1


async def test_a_budget_stays_small_while_the_provider_counts_more(tmp_path):
    """What it counts of an answered prompt bears out what it said of the one that was too long."""
    refused = ContextOverflowError("scripted", "scripted-1", "too long", 16_000, None)
    events = []
    async with talk(tmp_path, [refused, *[counting(2)] * 4]) as session:
        await fill(session, turns=8, chars=4_000)
        for _ in range(4):
            await session.run("and?", context_window=32_000, on_event=events.append)

    full, *later = budgets(events)
    assert max(later) <= 0.6 * full


async def test_a_small_window_is_told_of_once(tmp_path, caplog):
    """Not with each turn of a session; another window is another matter."""
    async with talk(tmp_path, ["one", "two", "three"]) as session:
        for window in (6_000, 6_000, 5_000):
            await session.run("hi", context_window=window)

    told = [record.message for record in caplog.records if record.message.startswith("window.small")]
    assert ["(6000" in line for line in told] == [True, False]
