"""Sessions that others send off: what they begin with, what the engine is told, and what is left when it fails."""
# ruff: noqa: D102 -- what a hook does is in the contract; what an engine under test does, in its class

import asyncio
import itertools
import math
from contextlib import asynccontextmanager

import attrs
import pytest

from openclaw_ctx import (
    AbortError,
    AssembleResult,
    AssistantMessage,
    CompactionSummaryMessage,
    CompactResult,
    EngineFailedError,
    EngineInfo,
    EngineTool,
    Host,
    HostIncompatibleError,
    HostRequirements,
    IngestResult,
    Registry,
    ScriptedAnswer,
    ScriptedModel,
    SessionBusyError,
    SessionClosedError,
    SubagentPreparation,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.transcript import pairs_are_whole


@attrs.define
class Told:
    """What an engine was told of subagents and messages, and how it is to behave."""

    prepared: list[dict] = attrs.field(factory=list)
    ended: list[tuple[str, str]] = attrs.field(factory=list)
    seen: dict[str, list[str]] = attrs.field(factory=dict)
    rolled_back: int = 0
    answer: object = None
    fails: BaseException | None = None
    hangs: asyncio.Event | None = None
    waits: bool = False
    started: bool = False


class Keeper:
    """Keeps what each session said, and shows a session its own."""

    def __init__(self, told, requirements):
        self.told = told
        self.info = EngineInfo(id="keeper", name="Keeper", host_requirements=requirements)

    @hookimpl
    def ingest(self, session_key, message):
        self.told.seen.setdefault(session_key, []).append(message.text)
        return IngestResult(ingested=True)

    @hookimpl
    def assemble(self, messages):
        return AssembleResult(messages=messages, estimated_tokens=1)

    @hookimpl
    def compact(self):
        return CompactResult(ok=True, compacted=False, reason="nothing to do")

    @hookimpl
    async def prepare_subagent_spawn(
        self,
        parent_session_key,
        child_session_key,
        context_mode,
        parent_session_id,
        parent_session_file,
        child_session_id,
        child_session_file,
        ttl_ms,
    ):
        told = dict(locals())
        del told["self"]
        self.told.prepared.append(told)
        if self.told.hangs is not None:
            self.told.started = True
            await asyncio.sleep(60)
        while self.told.waits:
            self.told.started = True
            await asyncio.sleep(0.005)
        if self.told.fails is not None:
            raise self.told.fails
        return self.told.answer

    @hookimpl
    def on_subagent_ended(self, child_session_key, reason):
        self.told.ended.append((child_session_key, reason))


@asynccontextmanager
async def family(folder, script=(), *, config=None, key="agent:main:main", requirements=None, **options):
    """Yield host, parent session, and what the engine in the slot was told."""
    told = Told()
    settings = {"plugins": {"slots": {"contextEngine": "keeper"}}, **(config or {})}
    model = ScriptedModel(script)
    async with Host.open(settings, state_dir=folder, model=model, registry=Registry(), **options) as host:
        host.register_engine("keeper", lambda _: Keeper(told, requirements or {}))
        async with host.session(key) as parent:
            parent.model = model
            yield host, parent, told


def keys_of(host):
    """Return the keys of all sessions in the store."""
    return sorted(info.key for info in host.store.sessions())


async def until(condition):
    """Return once *condition* holds."""
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it never came to that")


def rollback_of(told):
    """Return a preparation that counts how often it is taken back."""

    def rollback():
        told.rolled_back += 1

    return SubagentPreparation(rollback=rollback)


async def test_a_child_begins_with_nothing_and_keeps_its_words_to_itself(tmp_path):
    """Isolated by default: parent and child have a transcript each, under keys of one agent."""
    async with family(tmp_path, ["yes", "child says so"]) as (host, parent, told):
        await parent.run("hello")
        async with parent.spawn() as child:
            answer = await child.run("do a part")
        await parent.settle()

        assert answer.text == "child says so"
        assert child.key.startswith("agent:main:subagent:")
        assert (child.parent_key, child.context_mode, child.note) == (parent.key, "isolated", None)
        assert [message.text for message in parent.history] == ["hello", "yes"]
        assert told.seen == {parent.key: ["hello", "yes"], child.key: ["do a part", "child says so"]}
        assert keys_of(host) == sorted([parent.key, child.key])


async def test_the_engine_gets_ready_without_ids_where_the_child_is_isolated(tmp_path):
    """There is nothing of the parent's in it to find."""
    async with family(tmp_path) as (_, parent, told), parent.spawn(ttl_seconds=90) as child:
        assert told.prepared == [
            {
                "parent_session_key": parent.key,
                "child_session_key": child.key,
                "context_mode": "isolated",
                "parent_session_id": None,
                "parent_session_file": None,
                "child_session_id": None,
                "child_session_file": None,
                "ttl_ms": 90_000,
            }
        ]


async def test_a_fork_begins_with_what_its_parent_sees(tmp_path):
    """The engine is told where both are; the parent is as it was."""
    async with family(tmp_path, ["yes", "forked answer"]) as (_, parent, told):
        await parent.run("hello")
        before = parent.session_id
        async with parent.spawn(context_mode="fork") as child:
            await child.run("go on")

            assert [message.text for message in child.history] == ["hello", "yes", "go on", "forked answer"]
            (prepared,) = told.prepared
            assert prepared["context_mode"] == child.context_mode == "fork"
            assert prepared["parent_session_id"] == before == parent.session_id
            assert prepared["parent_session_file"] == str(parent.transcript.path)
            assert prepared["child_session_id"] == child.session_id
            assert prepared["child_session_file"] == str(child.transcript.path)
        assert [message.text for message in parent.history] == ["hello", "yes"]


def calls(call_id):
    """Return a reply that calls a tool."""
    return AssistantMessage(content=(ToolCallBlock(id=call_id, name="look", arguments={}),))


async def test_a_fork_behind_a_compaction_in_the_turn_has_the_summary_and_not_what_it_stands_for(tmp_path):
    """Also where the next reply is the very call that sends the child off."""
    async with family(tmp_path) as (_, parent, _told):
        for number in range(5):
            await parent.append(UserMessage(content=f"question {number}"))
        kept = await parent.append(UserMessage(content="look"))
        await parent.append(calls("call-1"))
        await parent.append(ToolResultMessage(tool_call_id="call-1", tool_name="look", content=(TextBlock(text="a"),)))
        parent.transcript.append_compaction(summary="so far", first_kept_entry_id=kept.entry_id, tokens_before=100)
        await parent.append(calls("call-2"))

        async with parent.spawn(context_mode="fork") as child:
            assert [message.entry_id for message in child.history] == [m.entry_id for m in parent.history[:-1]]
            assert isinstance(child.history[0], CompactionSummaryMessage)


async def test_no_fork_begins_with_a_call_that_was_running_when_the_context_was_compacted(tmp_path):
    """Its summary stands behind the call, and cannot be had without it."""
    async with family(tmp_path) as (_, parent, _told):
        await parent.append(UserMessage(content="look"))
        call = await parent.append(calls("call-1"))
        parent.transcript.append_compaction(summary="so far", first_kept_entry_id=call.entry_id, tokens_before=100)

        async with parent.spawn(context_mode="fork") as child:
            assert child.context_mode == "isolated"
            assert "compacted while calls were running" in child.note


async def test_a_parent_too_large_to_fork_sends_an_isolated_child_with_a_note(tmp_path):
    """`session.parentForkMaxTokens` bounds it; the spawn does not fail for that."""
    config = {"session": {"parentForkMaxTokens": 20}}
    async with family(tmp_path, ["yes"], config=config) as (_, parent, told):
        await parent.append(UserMessage(content="word " * 100))
        async with parent.spawn(context_mode="fork") as child:
            assert child.context_mode == told.prepared[0]["context_mode"] == "isolated"
            assert "20 tokens (session.parentForkMaxTokens)" in child.note
            assert len(child.history) == 0


async def test_without_a_limit_a_fork_may_be_of_any_size(tmp_path):
    """0 says that there is none."""
    config = {"session": {"parentForkMaxTokens": 0}}
    async with family(tmp_path, config=config) as (_, parent, _told):
        await parent.append(UserMessage(content="word " * 500_000))
        async with parent.spawn(context_mode="fork") as child:
            assert child.context_mode == "fork"


async def test_a_fork_of_nothing_begins_isolated(tmp_path):
    """Spawning as the very first action of a process works: the engine is built for it."""
    async with family(tmp_path) as (_, parent, told), parent.spawn(context_mode="fork") as child:
        assert child.context_mode == "isolated"
        assert "nothing to fork" in child.note
        assert len(told.prepared) == 1


def delegating(parent, seen, *, mode="fork"):
    """Return a tool that has a child do the work, and answers with what it said."""

    async def call(arguments):
        async with parent.spawn(context_mode=mode) as child:
            seen.append([(message.role, message.text) for message in child.history])
            return (await child.run(arguments["task"])).text

    return EngineTool(name="delegate", description="Has it done.", parameters={"type": "object"}, call=call)


def calls_delegate(task):
    """Return an answer that calls the tool."""
    call = ToolCallBlock(id="call-1", name="delegate", arguments={"task": task})
    return ScriptedAnswer(text="", tool_calls=(call,))


async def test_a_tool_of_a_turn_sends_a_child_off_and_its_answer_comes_back(tmp_path):
    """The fork is of what stood before the call: a call that waits for the child is nothing for the child to see."""
    seen = []
    async with family(tmp_path, [calls_delegate("count"), "there are 7", "It is 7."]) as (_, parent, told):
        answer = await parent.run("how many?", tools=[delegating(parent, seen)])
        await parent.settle()

        assert answer.text == "It is 7."
        assert seen == [[("user", "how many?")]]
        assert pairs_are_whole(parent.history)
        assert [text for text in told.seen[parent.key] if text] == ["how many?", "there are 7", "It is 7."]
        assert [reason for _, reason in told.ended] == ["completed"]


async def test_a_child_sees_nothing_of_its_parent_and_leaves_nothing_in_it(tmp_path):
    """A killed child's scratch work is its own; the parent's id and messages are what they were (case B48)."""
    async with family(tmp_path, itertools.repeat("noted")) as (host, parent, told):
        await parent.run("mine")
        before = parent.session_id
        child = await parent.spawn()
        for number in range(5):
            await child.append(AssistantMessage(content=f"scratch {number}"))
        await child.end_turn()
        first = await parent.assemble()
        await child.end("deleted")
        second = await parent.assemble()

        assert parent.session_id == before
        assert [m.text for m in first.messages] == [m.text for m in second.messages] == ["mine", "noted"]
        await until(lambda: told.ended == [(child.key, "deleted")])
        assert told.seen[child.key] == [f"scratch {number}" for number in range(5)]
        assert keys_of(host) == [parent.key]
        assert [(archive.key, archive.reason) for archive in host.store.archives()] == [(child.key, "deleted")]


async def test_leaving_the_block_is_completed_and_failing_in_it_is_released(tmp_path):
    """How a child ended is what its parent's program did."""
    async with family(tmp_path) as (_, parent, told):
        async with parent.spawn() as done:
            pass
        with pytest.raises(ZeroDivisionError):
            async with parent.spawn() as dropped:
                1 / 0  # noqa: B018 -- raises

        await until(lambda: told.ended == [(done.key, "completed"), (dropped.key, "released")])


async def test_an_ended_child_is_closed_and_told_of_once(tmp_path):
    """Ending again, closing again: nothing."""
    async with family(tmp_path) as (_, parent, told):
        child = await parent.spawn()
        await child.end()
        await child.end("deleted")
        await child.close()

        with pytest.raises(SessionClosedError):
            await child.append(UserMessage(content="more"))
    assert told.ended == [(child.key, "completed")]


async def test_a_child_to_which_nothing_was_said_can_be_deleted(tmp_path):
    """There is no transcript to put aside, and nothing wrong with that."""
    async with family(tmp_path) as (host, parent, told):
        child = await parent.spawn()
        await child.end("deleted")

        assert keys_of(host) == []
        await until(lambda: told.ended == [(child.key, "deleted")])


async def test_a_child_ends_though_nobody_waits_for_it_any_more(tmp_path):
    """Whoever ends it may be cancelled while its turn runs: it is closed behind that turn all the same."""
    async with family(tmp_path, [ScriptedAnswer(text="done", delay_seconds=0.05)]) as (host, parent, told):
        child = await parent.spawn()
        running = asyncio.ensure_future(child.run("think"))
        await until(lambda: len(child.history) == 1)
        ending = asyncio.ensure_future(child.end())
        await asyncio.sleep(0)
        ending.cancel()

        assert (await running).text == "done"
        await until(lambda: told.ended == [(child.key, "completed")])
        async with host.session(child.key) as again:
            assert [message.text for message in again.history] == ["think", "done"]


async def test_closing_the_host_tells_once_of_a_child_that_is_just_ending(tmp_path):
    """With the reason that was given, and without waiting for its turn."""
    async with family(tmp_path, [ScriptedAnswer(text="late", delay_seconds=60)]) as (host, parent, told):
        child = await parent.spawn()
        running = asyncio.ensure_future(child.run("think long"))
        await until(lambda: len(child.history) == 1)
        ending = asyncio.ensure_future(child.end())
        await asyncio.sleep(0)
        await asyncio.wait_for(host.close(), 20)

        with pytest.raises(AbortError, match="the host is closed"):
            await running
        await ending
        assert told.ended == [(child.key, "completed")]


async def test_when_its_time_is_up_a_childs_turn_is_stopped_and_it_is_swept(tmp_path):
    """Its parent goes on; what it had said stays on record."""
    async with family(tmp_path, [ScriptedAnswer(text="late", delay_seconds=60), "and on"]) as (host, parent, told):
        child = await parent.spawn(ttl_seconds=0.05)

        with pytest.raises(AbortError, match="swept"):
            await child.run("think long")

        await until(lambda: told.ended == [(child.key, "swept")])
        assert (await parent.run("go on")).text == "and on"
        async with host.session(child.key) as again:
            assert [message.text for message in again.history] == ["think long"]


async def test_an_ended_child_is_not_swept(tmp_path):
    """The clock stops with it."""
    async with family(tmp_path) as (_, parent, told):
        async with parent.spawn(ttl_seconds=0.01):
            pass
        await asyncio.sleep(0.05)

        assert [reason for _, reason in told.ended] == ["completed"]


async def test_closing_a_parent_lets_go_of_its_children_and_theirs(tmp_path):
    """Nobody is left to hear what they find."""
    async with family(tmp_path) as (host, parent, told):
        child = await parent.spawn()
        grandchild = await child.spawn()
        await parent.close()

        assert grandchild.key != child.key
        await until(lambda: sorted(told.ended) == sorted([(child.key, "released"), (grandchild.key, "released")]))
        async with host.session(child.key) as again:
            assert len(again.history) == 0


async def test_closing_the_host_tells_the_engine_before_it_is_disposed(tmp_path):
    """An engine that holds something for a child gets to let go of it."""
    async with family(tmp_path) as (host, parent, told):
        child = await parent.spawn()
        await host.close()

        assert told.ended == [(child.key, "released")]


async def test_a_preparation_that_fails_fails_the_spawn(tmp_path):
    """The engine's error is what the caller sees; it is barred, and no fork is left behind."""
    async with family(tmp_path, ["yes"]) as (host, parent, told):
        await parent.run("hello")
        told.fails = OSError("disk full")

        with pytest.raises(EngineFailedError, match="disk full"):
            await parent.spawn(context_mode="fork")

        assert keys_of(host) == [parent.key]
        assert not host.store.archives()
        assert [row.record.operation for row in host.quarantines()] == ["prepare_subagent_spawn"]
        assert told.ended == []
        async with parent.spawn():
            pass  # legacy has nothing to get ready


class Undo:
    """Anything that can be taken back will do."""

    def __init__(self, told):
        self.told = told

    async def rollback(self):
        self.told.rolled_back += 1


@pytest.mark.parametrize("make", [lambda _: None, rollback_of, Undo], ids=["nothing", "the contract's", "its own"])
async def test_an_engine_answers_nothing_or_how_to_take_it_back(tmp_path, make):
    """Whatever has a ``rollback`` that can be called is a preparation (case B46)."""
    async with family(tmp_path) as (host, parent, told):
        told.answer = make(told)
        async with parent.spawn():
            pass

        assert host.quarantines() == []
        assert told.rolled_back == 0


@pytest.mark.parametrize("answer", [{"child_id": "7"}, {"rollback": "later"}, 7, "ready"])
async def test_any_other_answer_is_refused_with_its_shape_named(tmp_path, answer):
    """A plain dict with ids has nothing to take back with (case B46)."""
    async with family(tmp_path) as (_, parent, told):
        told.answer = answer

        with pytest.raises(EngineFailedError, match=r"prepare_subagent_spawn.*(SubagentPreparation|rollback)"):
            await parent.spawn()


def busy(host, monkeypatch):
    """Have the store refuse to open whatever is a subagent's."""
    opened = host.store.open

    def refuse(key, **options):
        if "subagent" in key:
            raise SessionBusyError("somewhere", "somebody", 0.0)
        return opened(key, **options)

    monkeypatch.setattr(host.store, "open", refuse)


@pytest.mark.parametrize("breaks", [False, True], ids=["taken back", "cannot be taken back"])
async def test_a_child_that_cannot_be_opened_has_its_preparation_taken_back(tmp_path, monkeypatch, breaks):
    """The error that the spawn had is what the caller sees, also where taking back fails (case B46)."""
    config = {"session": {"writeLock": {"acquireTimeoutMs": 1}}}
    async with family(tmp_path, ["yes"], config=config) as (host, parent, told):
        await parent.run("hello")

        def rollback():
            told.rolled_back += 1
            if breaks:
                message = "cannot"
                raise TypeError(message)

        told.answer = SubagentPreparation(rollback=rollback)
        busy(host, monkeypatch)

        with pytest.raises(SessionBusyError):
            await parent.spawn(context_mode="fork")

        assert told.rolled_back == 1
        assert keys_of(host) == [parent.key]
        assert told.ended == []


async def test_a_spawn_that_is_given_up_leaves_nothing(tmp_path):
    """The engine may have kept something by then: it is told that the child is let go of."""
    async with family(tmp_path) as (host, parent, told):
        await parent.append(UserMessage(content="hello"))
        told.hangs = asyncio.Event()
        spawning = asyncio.ensure_future(asyncio.wait_for(parent.spawn(context_mode="fork"), 60))
        await until(lambda: told.started)
        spawning.cancel()

        with pytest.raises(asyncio.CancelledError):
            await spawning

        await until(lambda: [reason for _, reason in told.ended] == ["released"])
        assert keys_of(host) == [parent.key]
        assert host.quarantines() == []


async def test_a_parent_that_is_closed_meanwhile_gets_no_child(tmp_path):
    """Nobody would let go of it."""
    async with family(tmp_path) as (host, parent, told):
        told.waits = True
        spawning = asyncio.ensure_future(asyncio.wait_for(parent.spawn(), 60))
        await until(lambda: told.started)
        await parent.close()
        told.waits = False

        with pytest.raises(SessionClosedError):
            await spawning
        assert told.ended == []
        assert keys_of(host) == []


async def test_an_engine_that_needs_more_than_the_host_has_sends_nobody_off(tmp_path):
    """Refused before anything is written, and no fault of the engine's."""
    requirements = {"subagent-spawn": HostRequirements(required_capabilities=("telepathy",))}
    async with family(tmp_path, requirements=requirements) as (host, parent, told):
        await parent.append(UserMessage(content="hello"))

        with pytest.raises(HostIncompatibleError, match="telepathy"):
            await parent.spawn(context_mode="fork")

        assert told.prepared == []
        assert keys_of(host) == [parent.key]
        assert host.quarantines() == []


@pytest.mark.parametrize(
    "wrong", [{"context_mode": "shared"}, {"ttl_seconds": 0}, {"ttl_seconds": -1}, {"ttl_seconds": math.inf}]
)
async def test_what_cannot_be_meant_is_refused_at_once(tmp_path, wrong):
    """With the value in the sentence."""
    async with family(tmp_path) as (_, parent, _told):
        with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
            parent.spawn(**wrong)


async def test_another_agent_takes_no_fork(tmp_path):
    """What one agent sees is not handed to another behind its back; isolated it may be any agent's."""
    async with family(tmp_path) as (_, parent, _told):
        with pytest.raises(ValueError, match="fork"):
            parent.spawn(context_mode="fork", agent_id="ops")
        async with parent.spawn(agent_id="ops") as child:
            assert child.key.startswith("agent:ops:subagent:")


async def test_a_childs_tool_cannot_run_a_turn_of_the_parent_that_waits_for_it(tmp_path):
    """It would wait for itself: it is told so."""
    async with family(tmp_path, [calls_delegate("a"), calls_delegate("b"), "child", "parent"]) as (_, parent, _told):
        problems = []

        async def ask_parent(_):
            try:
                await parent.run("and you?")
            except RuntimeError as error:
                problems.append(str(error))
            return "could not"

        inner = EngineTool(name="delegate", description="", parameters={"type": "object"}, call=ask_parent)

        async def delegate(arguments):
            async with parent.spawn() as child:
                return (await child.run(arguments["task"], tools=[inner])).text

        outer = EngineTool(name="delegate", description="", parameters={"type": "object"}, call=delegate)
        answer = await asyncio.wait_for(parent.run("go", tools=[outer]), 20)

        assert answer.text == "parent"
        assert "a turn of this session is running here" in problems[0]


async def test_what_a_tool_leaves_behind_runs_turns_once_its_own_is_over(tmp_path):
    """A reminder is due long after the turn that it was asked for in: it queues like whatever comes from outside."""
    remind = ToolCallBlock(id="call-1", name="remind", arguments={})
    script = [ScriptedAnswer(tool_calls=(remind,)), "I will.", ScriptedAnswer(text="busy", delay_seconds=0.05), "now"]
    async with family(tmp_path, script) as (_, parent, _told):
        due = asyncio.Event()
        left = []

        async def fall_due():
            await due.wait()
            return (await parent.run("the reminder")).text

        async def leave(_):
            left.append(asyncio.ensure_future(fall_due()))
            return "noted"

        tool = EngineTool(name="remind", description="", parameters={"type": "object"}, call=leave)
        await parent.run("remind me", tools=[tool])
        other = asyncio.ensure_future(parent.run("another turn"))
        await until(lambda: parent.history[-1].text == "another turn")
        due.set()

        assert await asyncio.wait_for(left[0], 20) == "now"
        assert (await other).text == "busy"


async def test_children_work_side_by_side(tmp_path):
    """Sessions of one host do not wait for each other."""
    script = [ScriptedAnswer(text="one", delay_seconds=0.05), ScriptedAnswer(text="two", delay_seconds=0.05)]
    async with family(tmp_path, script) as (_, parent, _told):

        async def work(task):
            async with parent.spawn() as child:
                return (await child.run(task)).text

        assert sorted(await asyncio.gather(work("a"), work("b"))) == ["one", "two"]
