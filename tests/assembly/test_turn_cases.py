"""Cases that broke other runtimes, each in a turn that the host runs with an engine in its slot."""

import asyncio
import threading

import pytest

from openclaw_ctx import (
    AbortSignal,
    AssembleResult,
    Compaction,
    CompactionSummaryMessage,
    CompactResult,
    ContextOverflowError,
    ContextProjection,
    EngineInfo,
    EngineTool,
    HostDescriptor,
    HostIncompatibleError,
    HostRequirements,
    RateLimitedError,
    ScriptedAnswer,
    ScriptedModel,
    TokenUsage,
    ToolCallBlock,
    TurnBlockedError,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.runtime import Compacted, ModelAsked
from tests.assembly.plain import bytes_of, engine, fill, texts
from tests.assembly.recording import ByTurn, InBatches, OneByOne, Record, engine_of, open_host
from tests.assembly.transcripts import transcript_path

KINDS = [pytest.param(kind, id=kind.__doc__.split(".")[0].lower()) for kind in (OneByOne, InBatches, ByTurn)]
WINDOW = 32_000
FULL = ScriptedAnswer(text="a full window", usage=TokenUsage(input=WINDOW // 2))
OVERFLOW = ContextOverflowError("scripted", "scripted-1", "prompt is too long", None, None)


async def no_wait(seconds):
    """Wait for nothing."""


def host_with(folder, made, script, **options):
    """Return a host with *made* in its slot and a model that answers from *script*."""
    options.setdefault("sleep", no_wait)
    return open_host(folder, engines={"recorder": made}, model=ScriptedModel(script), **options)


def compacting(answer, asked=None):
    """Return a class of engines that leave compaction to the host's judgement, and answer it so."""

    def compact(self, runtime_context):
        if asked is not None:
            asked.append(runtime_context.trigger)
        return answer

    made = engine(compact=compact)
    made.info = EngineInfo(id="recorder", name="Recorder")
    return made


# -- an engine that has nothing to compact -------------------------------------------------------------------------

WORDS = [
    "below_threshold",
    "already compacted",
    "no claimable pending summary nodes",
    "nothing to do",
    "the summary failed an audit of the guard and timed out",
    "",
    None,
]


@pytest.mark.parametrize("reason", WORDS, ids=[word or repr(word) for word in WORDS])
async def test_nothing_to_do_ahead_of_a_full_window_lets_the_turn_go_on(tmp_path, reason):
    """B12: no word of the reason counts: the model is asked, nobody is barred, nobody told of a compaction."""
    told, asked = [], []
    made = compacting(CompactResult(ok=True, compacted=False, reason=reason), asked)
    options = {"before_compaction": told.append, "after_compaction": told.append}
    async with host_with(tmp_path, made, [FULL, "fine"], **options) as host, host.session("talk") as talk:
        await talk.run("hello", context_window=WINDOW)
        session_id, before = talk.session_id, bytes_of(talk)
        result = await talk.run("and?", context_window=WINDOW)

        assert (result.text, result.engine, result.compactions) == ("fine", "recorder", 0)
        assert bytes_of(talk).startswith(before)
        assert talk.session_id == session_id
        assert host.quarantines() == []
    assert asked == ["budget"]
    assert told == []


@pytest.mark.parametrize("reason", WORDS, ids=[word or repr(word) for word in WORDS])
async def test_nothing_to_do_in_a_file_that_is_too_large_rotates_nothing(tmp_path, reason):
    """B12: the file is the same one behind it, and holds what it held."""
    config = {"agents": {"defaults": {"compaction": {"maxActiveTranscriptBytes": "1kb"}}}}
    made = compacting(CompactResult(ok=True, compacted=False, reason=reason))
    async with host_with(tmp_path, made, ["fine"], config=config) as host, host.session("talk") as talk:
        await fill(talk)
        session_id, before = talk.session_id, bytes_of(talk)
        result = await talk.run("hello")

        assert result.text == "fine"
        assert talk.session_id == session_id
        assert bytes_of(talk).startswith(before)
        assert len(talk.history) == 14
        assert host.quarantines() == []


async def test_nothing_to_do_where_the_provider_refused_the_prompt_gives_the_turn_up(tmp_path):
    """B12: a prompt that really is too large is decided by the overflow, and the engine is barred for nothing."""
    made = compacting(CompactResult(ok=True, compacted=False, reason="below threshold"))
    async with host_with(tmp_path, made, [OVERFLOW, "fine"]) as host, host.session("talk") as talk:
        with pytest.raises(TurnBlockedError) as blocked:
            await talk.run("hello", context_window=WINDOW)

        assert blocked.value.kind == "context_overflow"
        assert host.quarantines() == []
        assert (await talk.run(None, context_window=WINDOW)).text == "fine"


# -- a compaction that is none -------------------------------------------------------------------------------------


async def test_a_summary_that_is_larger_than_the_history_is_not_stored_nor_tried_again_at_once(tmp_path):
    """B11: reported as not compacted; the turn goes on, and the next one does not ask for the same again."""
    asked, events = [], []
    large = Compaction(summary="much " * 4_000)
    made = compacting(CompactResult(ok=True, compacted=True, result=large), asked)
    script = [FULL, FULL, FULL]
    async with host_with(tmp_path, made, script) as host, host.session("talk") as talk:
        await talk.run("hello", context_window=WINDOW)
        before, session_id = bytes_of(talk), talk.session_id
        result = await talk.run("and?", context_window=WINDOW, on_event=events.append)
        await talk.run("and now?", context_window=WINDOW)

        assert result.compactions == 0
        assert talk.transcript.boundary_id is None
        assert bytes_of(talk).startswith(before)
        assert talk.session_id == session_id
        assert host.quarantines() == []
    (compacted,) = [event.result for event in events if isinstance(event, Compacted)]
    assert (compacted.ok, compacted.compacted) == (False, False)
    assert "not smaller" in compacted.reason
    assert asked == ["budget"]


LIMITED = RateLimitedError("s", "s-1", "429: the quota of this key is used up", 0.0)


@pytest.mark.parametrize(
    "summary,cause",
    [
        pytest.param(LIMITED, "the quota of this key is used up", id="429 on every try"),
        pytest.param("", "empty", id="an empty text"),
        pytest.param("  \n ", "empty", id="a blank text"),
    ],
)
async def test_a_summary_that_fails_deletes_nothing_and_shows_its_cause(tmp_path, summary, cause):
    """B13: the bytes stay, the whole history is in the next prompt, and a later turn tries again."""
    model, summaries = ScriptedModel([OVERFLOW, OVERFLOW, "fine"]), ScriptedModel([summary] * 40)
    async with (
        open_host(tmp_path, "legacy", model=model, summary_model=summaries, sleep=no_wait) as host,
        host.session("talk") as talk,
    ):
        await fill(talk)
        before = bytes_of(talk)
        with pytest.raises(TurnBlockedError) as blocked:
            await talk.run("and?", context_window=WINDOW)

        assert blocked.value.kind == "compaction_failure"
        assert cause in str(blocked.value)
        assert bytes_of(talk).startswith(before)
        assert talk.transcript.boundary_id is None
        assert len(talk.history) == 13
        assert len((await talk.assemble()).messages) == 13
        summaries._lines = iter(["They talked."] * 40)
        assert (await talk.run(None, context_window=WINDOW)).compactions >= 1
        assert isinstance(talk.history[0], CompactionSummaryMessage)


# -- an engine that does not come to an end ------------------------------------------------------------------------


class Stuck:
    """Where an engine hangs until it is let go; asked in the engine's lane."""

    def __init__(self):
        self._loop = asyncio.get_running_loop()
        self.arrived = asyncio.Event()
        self._gate = threading.Event()

    def hang(self):
        """Block the thread."""
        self._loop.call_soon_threadsafe(self.arrived.set)
        self._gate.wait()

    def let_go(self):
        """Let everybody go."""
        self._gate.set()


def _stuck_in(operation, stuck, record):
    """Return a factory of engines that hang in *operation*; of ``ingest``, in the third message of the second turn."""

    class Hanging(OneByOne):
        @hookimpl
        def ingest(self, message, is_heartbeat):
            if operation == "ingest" and len(self.record.seen) == 4:
                stuck.hang()
            return super().ingest(message, is_heartbeat)

        if operation != "ingest":

            @hookimpl
            def after_turn(self, messages, pre_prompt_message_count):
                if operation == "after_turn":
                    stuck.hang()
                self.record.note("after_turn", messages[pre_prompt_message_count:])

        if operation == "maintain":

            @hookimpl
            def maintain(self):
                if self.record.seen:
                    stuck.hang()
                return {"changed": False}

    return engine_of(Hanging, record)


@pytest.mark.parametrize("operation", ["after_turn", "maintain", "ingest"])
async def test_a_turn_behind_one_whose_end_hangs_is_answered(tmp_path, operation, caplog):
    """B28: the first answer is out, the queued turn runs, and what comes too late from the engine disturbs nobody."""
    record, stuck = Record(), Stuck()
    call = ScriptedAnswer(tool_calls=(ToolCallBlock(id="c", name="look", arguments={}),))
    look = EngineTool(name="look", description="", parameters={}, call=lambda arguments: "rain")
    made = _stuck_in(operation, stuck, record)
    deadlines = {"afterTurn": 0.5, "maintain": 0.5, "ingest": 0.5}
    script = ["zero", call, "first", "second"] if operation == "ingest" else ["first", "second"]
    async with host_with(tmp_path, made, script, config={"deadlines": deadlines}) as host:
        async with host.session("talk") as talk:
            if operation == "ingest":
                await talk.run("nought")
            first, second = await asyncio.gather(talk.run("one", tools=[look]), talk.run("two"))
            await talk.settle()

            assert stuck.arrived.is_set()
            assert (first.text, second.text) == ("first", "second")
            assert (first.engine, second.engine) == ("recorder", "legacy")
            assert [row.record.operation for row in host.quarantines()] == [operation]
            assert texts(talk.history)[-2:] == ["two", "second"]
        stuck.let_go()
    if operation == "ingest":
        (stopped,) = [message for message in caplog.messages if message.startswith("handover.stopped")]
        assert "operation=ingest message=3 messages=4" in stopped


async def test_a_compaction_that_ends_behind_its_deadline_is_thrown_away(tmp_path):
    """B31: what was said meanwhile is kept, the late summary is stored nowhere, and the turn is answered."""
    stuck, events = Stuck(), []

    def compact(self):
        stuck.hang()
        return CompactResult(ok=True, compacted=True, result=Compaction(summary="too late"))

    made = engine(compact=compact)
    config = {"deadlines": {"compact": 0.5}}
    options = {"config": config, "summary_model": ScriptedModel(["They talked."] * 20)}
    async with host_with(tmp_path, made, [OVERFLOW, "fine"], **options) as host, host.session("talk") as talk:
        await fill(talk)
        running = asyncio.ensure_future(talk.run("and?", context_window=WINDOW, on_event=events.append))
        await stuck.arrived.wait()
        await talk.append(UserMessage(content="meanwhile"))
        result = await running
        stuck.let_go()
        await talk.settle()
        prompt = await talk.assemble()

        (row,) = host.quarantines()
    assert result.text == "fine"
    assert row.record.operation == "compact"
    assert [event.result.ok for event in events if isinstance(event, Compacted)] == [False, True]
    assert "meanwhile" in texts(prompt.messages)
    assert "too late" not in bytes_of(talk).decode()


# -- what an engine is told of a turn ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_loop_is_told_once_in_order(tmp_path, kind):
    """B32: three rounds of tools: the union of what the engine was given is the turn, and nothing in its middle."""
    record = Record()
    told_at = []

    async def run(arguments):
        told_at.append(len(record.seen))
        return f"result {len(told_at)}"

    tool = EngineTool(name="run", description="", parameters={}, call=run)
    calls = [
        ScriptedAnswer(text=f"call {n}", tool_calls=(ToolCallBlock(id=f"c{n}", name="run", arguments={}),))
        for n in (1, 2, 3)
    ]
    script = [*calls, "done", "bye"]
    async with host_with(tmp_path, engine_of(kind, record), script) as host, host.session("talk") as talk:
        await talk.run("do it", tools=[tool])
        await talk.run("thanks")
        await talk.settle()
        on_record = texts(talk.transcript.record())

    rounds = [text for n in (1, 2, 3) for text in (f"call {n}", f"result {n}")]
    assert record.seen == on_record == ["do it", *rounds, "done", "thanks", "bye"]
    assert told_at == [0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_key_that_goes_on_in_another_file_is_told_nothing_again(tmp_path, kind):
    """B33: four hundred messages, a restart with a new session id: the old id and why, three new messages, no more."""
    record = Record()
    made = engine_of(kind, record)
    async with host_with(tmp_path, made, []) as host, host.session("talk") as talk:
        old = talk.session_id
        await fill(talk, 200)
        await talk.end_turn()
    path = transcript_path(tmp_path)
    path.rename(path.with_name(path.name + ".reset-1"))
    async with host_with(tmp_path, made, ["hello"]) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="hi"))
        await talk.run("anybody?")
        await talk.settle()

        assert talk.session_id != old
        assert host.quarantines() == []
    assert record.meetings == [("new", None), ("reset", old)]
    assert record.seen[400:] == ["hi", "anybody?", "hello"]


async def test_a_rotation_ahead_of_a_turn_is_a_continuation(tmp_path):
    """B33: where the host itself goes on in another file, the reason is another one, and nothing is told twice."""
    record = Record()
    config = {"agents": {"defaults": {"compaction": {"maxActiveTranscriptBytes": "4kb"}}}}

    class Delegating(ByTurn):
        @hookimpl
        async def compact(self, session_key):
            return await self.services.delegate_compaction(session_key, token_budget=1_000, force=True)

    def make(context):
        made = Delegating(record)
        made.services = context.services
        return made

    options = {"config": config, "summary_model": ScriptedModel(["They talked."] * 20)}
    async with host_with(tmp_path, make, ["fine"], **options) as host, host.session("talk") as talk:
        await fill(talk)
        await talk.end_turn()
        old = talk.session_id
        result = await talk.run("and?", context_window=WINDOW)
        await talk.settle()

        assert result.compactions == 1
        assert talk.session_id != old
        assert host.quarantines() == []
    assert record.meetings == [("new", None), ("continuation", old)]
    assert record.seen[12:] == ["and?", "fine"]


# -- a backend that keeps its own thread ---------------------------------------------------------------------------


def projecting():
    """Return a class of engines that need such a backend, and tell it what to keep."""

    def assemble(self, messages):
        projection = ContextProjection(mode="thread_bootstrap", epoch="7", fingerprint="f00d")
        return AssembleResult(messages=messages, context_projection=projection)

    made = engine(assemble=assemble)
    needs = HostRequirements(required_capabilities=["thread-bootstrap-projection"], unsupported_message="Use Codex.")
    made.info = EngineInfo(id="recorder", name="Recorder", host_requirements={"agent-run": needs})
    return made


async def test_a_host_that_keeps_its_own_thread_gets_the_projection_back(tmp_path):
    """In ``Prompt``, whoever asks; a turn that the host runs sends the messages and shows the projection."""
    asked = []
    descriptor = HostDescriptor.codex()
    async with host_with(tmp_path, projecting(), ["fine"], host=descriptor) as host, host.session("talk") as talk:
        result = await talk.run("hi", on_event=asked.append)
        prompt = await talk.assemble()

    (event,) = [event for event in asked if isinstance(event, ModelAsked)]
    expected = ContextProjection(mode="thread_bootstrap", epoch="7", fingerprint="f00d")
    assert result.text == "fine"
    assert event.prompt.context_projection == prompt.context_projection == expected
    assert texts(event.prompt.messages) == ["hi"]


@pytest.mark.parametrize(
    "descriptor",
    [
        pytest.param(HostDescriptor.embedded(), id="the embedded runner"),
        pytest.param(HostDescriptor.cli("mine"), id="a command line"),
        pytest.param(HostDescriptor(id="mine", label="Mine", capabilities=()), id="one that can do nothing"),
    ],
)
async def test_a_host_without_a_thread_of_its_own_is_refused_before_anything_begins(tmp_path, descriptor):
    """No model is asked, nothing is written, nobody is barred, and the error says what is lacking and what to do."""
    model = ScriptedModel(["fine"])
    async with (
        open_host(tmp_path, engines={"recorder": projecting()}, model=model, host=descriptor) as host,
        host.session("talk") as talk,
    ):
        before = bytes_of(talk) if talk.transcript.path.exists() else b""
        for _ in range(2):
            with pytest.raises(HostIncompatibleError, match=r"thread-bootstrap-projection.*Use Codex\."):
                await talk.run("hi", abort=AbortSignal())

        assert (bytes_of(talk) if talk.transcript.path.exists() else b"") == before
        assert not len(talk.history)
        assert host.quarantines() == []
    assert model.requests == []
