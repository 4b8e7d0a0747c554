"""A conversation that is open: what is appended, assembled, compacted and closed, whoever the engine is."""
# ruff: noqa: D102 -- what a hook does is in the contract; what an engine under test does, in its class

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from openclaw_ctx import (
    AbortError,
    AbortSignal,
    AssembleResult,
    AssistantMessage,
    BashExecutionMessage,
    BootstrapResult,
    Compaction,
    CompactionSummaryMessage,
    CompactResult,
    CompletionRequest,
    CompletionResult,
    ContextProjection,
    CustomMessage,
    EngineFailedError,
    EngineInfo,
    EngineTool,
    Host,
    HostDescriptor,
    HostIncompatibleError,
    HostRequirements,
    IngestResult,
    Registry,
    Replacement,
    RewriteResult,
    SessionBusyError,
    SessionClosedError,
    SubstitutionRefusedError,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.tokens import estimate_tokens
from openclaw_ctx.transcript import Transcript
from tests.assembly.recording import ByTurn, OneByOne, Record, engine_of, open_host, take_turn


class Plain:
    """Keeps the contract and its context, and sends everything."""

    info = EngineInfo(id="recorder", name="Plain", owns_compaction=True)

    def __init__(self, context: Any) -> None:
        self.services = context.services

    @hookimpl
    def ingest(self):
        return IngestResult(ingested=True)

    @hookimpl
    def assemble(self, messages):
        return AssembleResult(messages=messages)

    @hookimpl
    def compact(self):
        return CompactResult(ok=True, compacted=False)


def engine(**hooks: Any) -> Any:
    """Return a class of engines with these hooks beside, or in place of, the plain ones."""
    return type("Engine", (Plain,), {name: hookimpl(function) for name, function in hooks.items()})


def assembling(result: Any) -> Any:
    """Return a class of engines that assemble ``result(messages)``."""
    return engine(assemble=lambda self, messages: result(messages))


async def fill(session: Any, turns: int = 6) -> None:
    """Append so many turns of about 500 tokens each."""
    for number in range(turns):
        await session.append(UserMessage(content=f"question {number}: " + "please " * 120))
        await session.append(AssistantMessage(content=f"answer {number}: " + "certainly " * 120))


def bytes_of(session: Any) -> bytes:
    """Return what is on disk."""
    return Path(session.transcript.path).read_bytes()


def texts(messages: Any) -> list[str]:
    """Return each message's text."""
    return [message.text for message in messages]


# -- append, close, open ------------------------------------------------------------------------------------------


async def test_what_is_appended_is_on_disk_when_append_returns(tmp_path):
    """The message comes back with its entry's id; whoever reads the file finds it, in order, after the next opening."""
    async with open_host(tmp_path, "legacy") as host:
        async with host.session("talk") as session:
            first = await session.append(UserMessage(content="one"))
            second = await session.append(AssistantMessage(content="two"))

            lines = bytes_of(session).decode().splitlines()
            assert [str(first.entry_id) in lines[1], str(second.entry_id) in lines[2]] == [True, True]
            session_id = session.session_id
        async with host.session("talk") as session:
            assert texts(session.history) == ["one", "two"]
            assert session.session_id == session_id


async def test_every_kind_of_message_comes_back_as_it_was(tmp_path):
    """Tool calls, results, custom messages and commands of the user survive the file."""
    call = ToolCallBlock(id="c1", name="run", arguments={"path": "a.py"})
    messages = [
        UserMessage(content="one"),
        AssistantMessage(content=(TextBlock(text="two"), call), stop_reason="toolUse"),
        ToolResultMessage(tool_call_id="c1", tool_name="run", content="ok", is_error=False),
        CustomMessage(custom_type="note", content="three", display=True),
        BashExecutionMessage(command="ls", output="a.py", exit_code=0),
    ]
    async with open_host(tmp_path, "legacy") as host:
        async with host.session("talk") as session:
            appended = [await session.append(message) for message in messages]
        async with host.session("talk") as session:
            assert list(session.history) == appended


async def test_a_session_that_is_closed_takes_nothing_more(tmp_path):
    """Each operation says that the session is closed; closing again does nothing, and the key can be opened anew."""
    async with open_host(tmp_path, "legacy") as host:
        session = await host.session("talk")
        await session.append(UserMessage(content="one"))
        await session.close()
        await session.close()

        for operation in (
            lambda: session.append(UserMessage(content="two")),
            session.assemble,
            session.end_turn,
            session.compact,
            session.tools,
        ):
            with pytest.raises(SessionClosedError, match="'talk'"):
                await operation()
        async with host.session("talk") as again:
            assert texts(again.history) == ["one"]


async def test_a_host_that_is_closed_opens_nothing(tmp_path):
    """Closing a host closes its sessions and disposes its engine; the second time it does nothing."""
    disposed = []
    engines = {"recorder": engine(dispose=lambda self: disposed.append(1))}
    host = await open_host(tmp_path, engines=engines)
    session = await host.session("talk")
    await session.append(UserMessage(content="one"))
    await session.assemble()

    await host.close()
    await host.close()

    assert disposed == [1]
    with pytest.raises(SessionClosedError):
        await host.session("other")
    with pytest.raises(SessionClosedError):
        await session.append(UserMessage(content="two"))


@pytest.mark.parametrize("same_host", [True, False], ids=["in one host", "in two"])
async def test_a_second_opening_of_a_key_is_refused(tmp_path, same_host):
    """One writer a transcript: the second opening is told who holds it, and the first one goes on."""
    config = {"session": {"writeLock": {"acquireTimeoutMs": 0}}}
    async with (
        open_host(tmp_path, "legacy", config=config) as one,
        open_host(tmp_path, "legacy", config=config) as other,
        one.session("talk") as session,
    ):
        second = one if same_host else other
        with pytest.raises(SessionBusyError):
            await second.session("talk")

        await session.append(UserMessage(content="still here"))
        async with second.session("another") as free:
            assert len(free.history) == 0
        assert texts(session.history) == ["still here"]


async def test_an_opening_waits_for_the_other_writer_to_let_go(tmp_path):
    """Within the configured time the second opening gets the transcript as the first one left it."""
    config = {"session": {"writeLock": {"acquireTimeoutMs": 10_000}}}
    async with open_host(tmp_path, "legacy", config=config) as host:
        first = await host.session("talk")
        waiting = asyncio.ensure_future(_opened(host))
        await first.append(UserMessage(content="one"))
        await first.close()
        second = await waiting

        assert texts(second.history) == ["one"]


async def _opened(host: Host) -> Any:
    return await host.session("talk")


# -- assemble: budget and checks ----------------------------------------------------------------------------------


async def test_the_budget_of_the_messages_leaves_room_for_prompt_and_tools(tmp_path):
    """An engine is told what is left for messages; the estimate counts all three, the engine's addition too."""
    budgets = []
    tools = [{"name": "grep", "description": "search " * 50, "parameters": {"type": "object"}}]
    system_prompt = "Be brief. " * 40

    def assemble(self, messages, token_budget):
        budgets.append(token_budget)
        return AssembleResult(messages=messages, system_prompt_addition="Mind the gap. " * 20, estimated_tokens=5)

    async with (
        open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello " * 100))
        bare = await session.assemble(budget=4000)
        full = await session.assemble(budget=4000, system_prompt=system_prompt, tools=tools)
        free = await session.assemble()

    overhead = estimate_tokens.prompt(system_prompt, tools)
    addition = estimate_tokens.prompt("Mind the gap. " * 20)
    messages = estimate_tokens.total(full.messages)
    assert budgets == [4000, 4000 - overhead, None]
    assert bare.estimated_tokens == messages + addition
    assert full.estimated_tokens == messages + addition + overhead
    assert full.system_prompt == "Mind the gap. " * 20 + "\n\n" + system_prompt
    assert bare.system_prompt == "Mind the gap. " * 20
    assert (full.engine_estimate, full.budget, full.over_budget) == (5, 4000, False)
    assert (free.budget, free.over_budget) == (None, False)


async def test_an_engine_is_never_told_of_less_than_one_token(tmp_path):
    """A system prompt that is larger than the budget leaves one token, and the prompt says that it is over."""
    budgets = []

    def assemble(self, messages, token_budget):
        budgets.append(token_budget)
        return AssembleResult(messages=messages)

    async with (
        open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        prompt = await session.assemble(budget=10, system_prompt="word " * 400)

        assert host.quarantines() == []
    assert budgets == [1]
    assert prompt.over_budget is True


async def test_a_prompt_over_the_budget_is_reported_and_bars_nobody(tmp_path):
    """An engine may count more exactly than the host: it serves on."""
    async with (
        open_host(tmp_path, engines={"recorder": Plain}) as host,
        host.session("talk") as session,
    ):
        await fill(session)
        prompts = [await session.assemble(budget=1000) for _ in range(3)]

        assert host.quarantines() == []
    assert {(prompt.engine, prompt.over_budget) for prompt in prompts} == {("recorder", True)}
    assert prompts[0].estimated_tokens > 1000


@pytest.mark.parametrize("copied", [True, False], ids=["a new list", "the host's own sequence"])
async def test_a_loose_tool_result_is_repaired_and_no_fault(tmp_path, copied):
    """B03: the prompt has no result without its call, the repair is told, the engine is not quarantined."""
    loose = ToolResultMessage(tool_call_id="gone", tool_name="run", content="orphan")

    def result(messages):
        return AssembleResult(messages=[loose, messages[-1]] if copied else messages)

    async with open_host(tmp_path, engines={"recorder": assembling(result)}) as host, host.session("talk") as session:
        if not copied:
            await session.append(loose)
        await session.append(UserMessage(content="what now?"))
        prompt = await session.assemble()

        assert host.quarantines() == []
    assert texts(prompt.messages) == ["what now?"]
    assert prompt.engine == "recorder"
    assert prompt.repairs == ("1 tool result without its call dropped",)


async def test_a_call_without_its_result_gets_one(tmp_path):
    """An engine that dropped the results of a call is mended: a provider would refuse the prompt."""
    call = ToolCallBlock(id="c1", name="run")

    def result(messages):
        return AssembleResult(messages=[m for m in messages if not isinstance(m, ToolResultMessage)])

    async with open_host(tmp_path, engines={"recorder": assembling(result)}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="go"))
        await session.append(AssistantMessage(content=(call,)))
        await session.append(ToolResultMessage(tool_call_id="c1", content="done"))
        prompt = await session.assemble()

    assert [type(message) for message in prompt.messages] == [UserMessage, AssistantMessage, ToolResultMessage]
    assert prompt.messages[2].is_error is True
    assert prompt.repairs == ("1 missing tool result added",)


@pytest.mark.parametrize("empty", [(), []], ids=["a tuple", "a list"])
async def test_no_messages_at_all_is_a_fault(tmp_path, empty):
    """Legacy answers with the whole context, and the engine is quarantined."""
    engines = {"recorder": assembling(lambda messages: AssembleResult(messages=empty))}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        await session.append(UserMessage(content="what now?"))
        prompt = await session.assemble()

        (row,) = host.quarantines()
    assert (prompt.engine, texts(prompt.messages)) == ("legacy", ["what now?"])
    assert (row.record.operation, "no messages" in row.record.reason) == ("assemble", True)


async def test_an_empty_session_may_be_assembled(tmp_path):
    """Of nothing comes nothing, and that is no fault."""
    async with open_host(tmp_path, engines={"recorder": Plain}) as host, host.session("talk") as session:
        prompt = await session.assemble()

        assert host.quarantines() == []
    assert (prompt.engine, list(prompt.messages), prompt.estimated_tokens) == ("recorder", [], 0)


@pytest.mark.parametrize(
    "keep,expected",
    [
        pytest.param(lambda m: [m[0], m[1]], ["one", "two", "three"], id="only what came before"),
        pytest.param(lambda m: m[:2], ["one", "two", "three"], id="a slice of the host's own"),
        pytest.param(lambda m: [m[1], m[3]], ["two", "three", "four"], id="all around it"),
        pytest.param(
            lambda m: [CompactionSummaryMessage(summary="so far")], ["so far", "three"], id="a summary of its own"
        ),
        pytest.param(lambda m: [UserMessage(content="invented")], ["invented", "three"], id="another user's message"),
    ],
)
async def test_the_user_s_message_is_restored(tmp_path, keep, expected):
    """A prompt without the question that is to be answered gets it back in its place; that is told, and no fault."""
    engines = {"recorder": assembling(lambda messages: AssembleResult(messages=keep(messages)))}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        for text, kind in [
            ("one", UserMessage),
            ("two", AssistantMessage),
            ("three", UserMessage),
            ("four", AssistantMessage),
        ]:
            await session.append(kind(content=text))
        prompt = await session.assemble()

        assert host.quarantines() == []
    assert texts(prompt.messages) == expected
    assert prompt.repairs == ("the turn's user message restored",)


async def test_an_earlier_message_of_the_same_words_is_not_the_question(tmp_path):
    """The user said the same before: the older message does not stand for the one to be answered."""
    engines = {"recorder": assembling(lambda messages: AssembleResult(messages=messages[:2]))}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        await session.append(UserMessage(content="continue"))
        await session.append(AssistantMessage(content="done"))
        await session.append(UserMessage(content="continue"))
        prompt = await session.assemble()

    assert texts(prompt.messages) == ["continue", "done", "continue"]


async def test_what_an_engine_asks_of_the_host_reaches_the_caller(tmp_path):
    """Prompt authority and projection are passed on as the engine said them."""
    projection = ContextProjection(mode="thread_bootstrap", epoch="7")

    def result(messages):
        return AssembleResult(
            messages=messages, prompt_authority="preassembly_may_overflow", context_projection=projection
        )

    async with open_host(tmp_path, engines={"recorder": assembling(result)}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="hello"))
        prompt = await session.assemble()

    assert (prompt.prompt_authority, prompt.context_projection) == ("preassembly_may_overflow", projection)


async def test_the_prompt_for_retrieval_is_the_last_user_message_unless_given(tmp_path):
    """An engine that retrieves is told what was asked; behind an answer nothing is being asked."""
    asked = []

    def assemble(self, messages, prompt):
        asked.append(prompt)
        return AssembleResult(messages=messages)

    async with (
        open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="where is it?"))
        await session.assemble()
        await session.assemble(prompt="another wording")
        await session.append(AssistantMessage(content="there"))
        await session.assemble()

    assert asked == ["where is it?", "another wording", None]


# -- runtime settings and context ---------------------------------------------------------------------------------


async def test_every_call_is_told_the_run_that_it_is_in(tmp_path):
    """Runtime settings hold the host, the selection and the limits; the context holds the folder and the budget."""
    given: dict[str, tuple[Any, Any]] = {}

    def note(operation, answer=None):
        def hook(self, runtime_settings, runtime_context):
            given[operation] = (runtime_settings, runtime_context)
            return answer

        return hook

    def assemble(self, messages, runtime_settings, runtime_context):
        given["assemble"] = (runtime_settings, runtime_context)
        return AssembleResult(messages=messages)

    hooks = {
        "bootstrap": note("bootstrap", BootstrapResult(bootstrapped=True)),
        "after_turn": note("after_turn"),
        "maintain": note("maintain", RewriteResult(changed=False)),
        "compact": note("compact", CompactResult(ok=True, compacted=False)),
        "assemble": assemble,
    }
    async with (
        open_host(tmp_path, engines={"recorder": engine(**hooks)}, host=HostDescriptor.codex()) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        await session.assemble(budget=900, model="m-1")
        await session.end_turn(budget=800)
        await session.compact(budget=700, trigger="overflow")

    assert set(given) == set(hooks)
    for settings, context in given.values():
        assert settings.schema_version == 1
        assert (settings.execution_host.id, settings.runtime.mode) == ("codex-app-server", "normal")
        assert settings.context_engine_selection.selected_id == "recorder"
        assert settings.context_engine_selection.source == "configured"
        assert (context.cwd, context.workspace_dir) == (str(tmp_path), str(tmp_path))
        assert context.complete is None
    budgets = {operation: settings.limits.prompt_token_budget for operation, (settings, _) in given.items()}
    assert budgets == {"bootstrap": None, "assemble": 900, "after_turn": 800, "maintain": None, "compact": 700}
    assert given["assemble"][0].model.requested == "m-1"
    assert given["compact"][1].trigger == "overflow"
    assert given["compact"][1].current_token_count > 0
    rewriting = {operation: context.rewrite_transcript_entries is not None for operation, (_, context) in given.items()}
    assert rewriting == {
        "bootstrap": False,
        "assemble": False,
        "compact": False,
        "after_turn": True,
        "maintain": True,
    }, "rewriting is for after the turn"


@pytest.mark.parametrize(
    "needs,operation",
    [
        pytest.param({"agent-run": "telepathy"}, "assemble", id="an agent's run"),
        pytest.param({"agent-run": "telepathy"}, "end_turn", id="a turn's end"),
        pytest.param({"agent-run": "telepathy"}, "tools", id="tools"),
        pytest.param({"manual-compact": "telepathy"}, "compact", id="a compaction"),
    ],
)
async def test_a_host_that_cannot_do_what_the_engine_needs_is_told_so(tmp_path, needs, operation):
    """It fails closed, every time, before any hook is called; the engine is not quarantined for it."""
    called = []

    class Picky(Plain):
        info = EngineInfo(
            id="picky",
            name="Picky",
            host_requirements={
                name: HostRequirements(required_capabilities=[capability]) for name, capability in needs.items()
            },
        )

        @hookimpl
        def bootstrap(self):
            called.append("bootstrap")
            return BootstrapResult(bootstrapped=True)

        @hookimpl
        def compact(self):
            called.append("compact")
            return CompactResult(ok=True, compacted=False)

    async with open_host(tmp_path, engines={"recorder": Picky}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="hello"))
        for _ in range(2):
            with pytest.raises(HostIncompatibleError, match="telepathy"):
                await getattr(session, operation)()

        assert host.quarantines() == []
    assert called == (["bootstrap"] if operation == "compact" else [])


async def test_requirements_that_are_met_are_no_hindrance(tmp_path):
    """The embedded runner can do what it says."""

    class Modest(Plain):
        info = EngineInfo(
            id="m",
            name="M",
            host_requirements={"agent-run": HostRequirements(required_capabilities=["compact", "bootstrap"])},
        )

    async with open_host(tmp_path, engines={"recorder": Modest}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="hello"))

        assert (await session.assemble()).engine == "recorder"


# -- compaction ---------------------------------------------------------------------------------------------------


def compacting(**result: Any) -> Any:
    """Return a class of engines that keep the newest two messages and say *result* of it."""

    async def compact(self, session_key):
        record = await self.services.transcript.read(session_key)
        kept = result.pop("kept", record[-2].entry_id)
        made = Compaction(**{"summary": "What was said.", "first_kept_entry_id": kept, **result})
        return CompactResult(ok=True, compacted=True, result=made)

    return engine(compact=compact)


async def test_what_an_engine_summarised_is_written_by_the_host(tmp_path):
    """The context begins with the summary and what the engine kept; the record keeps every message."""
    async with open_host(tmp_path, engines={"recorder": compacting()}) as host, host.session("talk") as session:
        await fill(session)
        record, before = list(session.transcript.record()), estimate_tokens.total(session.history)
        done = await session.compact()
        prompt = await session.assemble()

        assert texts(session.history) == ["What was said.", *texts(record[-2:])]
        assert list(session.transcript.record()) == record
        assert texts(prompt.messages) == texts(session.history)
        assert done.result.result.tokens_before == before
        assert done.result.result.tokens_after == estimate_tokens.total(session.history)
        assert host.quarantines() == []
    assert (done.engine, done.substitution, done.result.compacted) == ("recorder", None, True)


async def test_a_compaction_outlives_the_session(tmp_path):
    """Opened again, the context is the compacted one."""
    async with open_host(tmp_path, engines={"recorder": compacting()}) as host:
        async with host.session("talk") as session:
            await fill(session)
            await session.compact()
            compacted = texts(session.history)
        async with host.session("talk") as session:
            assert texts(session.history) == compacted
            assert len(session.transcript.record()) == 12


async def test_an_unknown_first_kept_entry_is_a_fault_and_the_file_stays(tmp_path):
    """The engine is quarantined, the call raises, and not a byte has changed; legacy compacts the next time."""
    engines = {"recorder": compacting(kept="nowhere")}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        await fill(session)
        before = bytes_of(session)

        with pytest.raises(EngineFailedError, match="first_kept_entry_id"):
            await session.compact(budget=1500)
        after = bytes_of(session)
        (row,) = host.quarantines()
        next_one = await session.compact(budget=1500)

    assert after == before
    assert row.record.operation == "compact"
    assert (next_one.engine, next_one.result.compacted) == ("legacy", True)


async def test_a_compaction_that_does_not_shrink_is_not_written(tmp_path):
    """B11: a summary that is larger than what it stands for changes nothing, and is told."""
    engines = {"recorder": compacting(summary="far too much " * 5000)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        await fill(session)
        before, history = bytes_of(session), texts(session.history)

        done = await session.compact()

        assert bytes_of(session) == before
        assert texts(session.history) == history
        assert host.quarantines() == []
    assert (done.result.ok, done.result.compacted) == (False, False)
    assert "not smaller" in str(done.result.reason)


@pytest.mark.parametrize("summary", [None, ""], ids=["none", "empty"])
async def test_a_compaction_without_a_summary_writes_nothing(tmp_path, summary):
    """Decision 16: history is never replaced by nothing."""
    engines = {"recorder": compacting(summary=summary)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        await fill(session)
        before = bytes_of(session)

        await session.compact()

        assert bytes_of(session) == before
        assert len(session.history) == 12


@pytest.mark.parametrize("reason", ["below_threshold", "below threshold", "no claimable pending summary nodes"])
async def test_nothing_to_do_is_no_failure(tmp_path, reason):
    """B12: whatever the words, ok without compacted is a verdict: nothing written, nobody barred, the turn goes on."""
    hook = lambda self: CompactResult(ok=True, compacted=False, reason=reason)  # noqa: E731 -- a hook in one line
    async with (
        open_host(tmp_path, engines={"recorder": engine(compact=hook)}) as host,
        host.session("talk") as session,
    ):
        await fill(session, 1)
        before = bytes_of(session)
        done = await session.compact(force=False, trigger="budget")
        prompt = await session.assemble()

        assert bytes_of(session) == before
        assert host.quarantines() == []
    assert (done.result.ok, done.result.compacted, done.result.reason) == (True, False, reason)
    assert prompt.engine == "recorder"


async def test_a_failed_compaction_raises_and_leaves_the_bytes(tmp_path):
    """B13's kind, CT20: the cause is shown, nothing is replaced, the whole history is in the next prompt."""

    def compact(self):
        message = "429 from the summariser"
        raise RuntimeError(message)

    async with (
        open_host(tmp_path, engines={"recorder": engine(compact=compact)}) as host,
        host.session("talk") as session,
    ):
        await fill(session)
        before = bytes_of(session)
        with pytest.raises(EngineFailedError, match="429 from the summariser"):
            await session.compact()
        prompt = await session.assemble()

        assert bytes_of(session) == before
    assert (prompt.engine, len(prompt.messages)) == ("legacy", 12)


async def test_an_aborted_compaction_raises_and_leaves_the_bytes(tmp_path):
    """The signal reaches the engine; the reason is raised, nobody is barred, and an append goes through at once."""
    entered, seen = threading.Event(), threading.Event()

    async def compact(self, abort_signal):
        entered.set()
        await abort_signal.wait()
        seen.set()
        abort_signal.raise_if_fired()

    signal = AbortSignal()
    async with (
        open_host(tmp_path, engines={"recorder": engine(compact=compact)}) as host,
        host.session("talk") as session,
    ):
        await fill(session)
        before = bytes_of(session)
        running = asyncio.ensure_future(session.compact(abort=signal))
        await asyncio.to_thread(entered.wait, 10)
        signal.fire("the user pressed stop")
        with pytest.raises(AbortError, match="the user pressed stop"):
            await running

        assert bytes_of(session) == before
        await session.append(UserMessage(content="another thing"))
        assert (await session.assemble()).engine == "recorder"
        assert host.quarantines() == []


async def test_a_signal_that_has_fired_keeps_a_compaction_from_beginning(tmp_path):
    """Neither the engine nor the host compacts."""
    called = []
    signal = AbortSignal()
    signal.fire("too late")
    hook = lambda self: called.append(1)  # noqa: E731 -- a hook in one line
    async with (
        open_host(tmp_path, engines={"recorder": engine(compact=hook)}) as host,
        host.session("talk") as session,
    ):
        await fill(session)
        before = bytes_of(session)
        with pytest.raises(AbortError, match="too late"):
            await session.compact(abort=signal)

        assert bytes_of(session) == before
    assert called == []


async def test_legacy_compacts_by_the_host(tmp_path):
    """The built-in engine delegates: an extractive summary, within the budget afterwards."""
    async with open_host(tmp_path, "legacy") as host, host.session("talk") as session:
        await fill(session, 12)
        done = await session.compact(budget=2000, focus="question 3")

        assert done.engine == "legacy"
        assert done.result.compacted
        assert isinstance(session.history[0], CompactionSummaryMessage)
        assert "question 3" in session.history[0].summary
        assert estimate_tokens.total(session.history) <= 2000
        assert len(session.transcript.record()) == 24


async def test_the_engine_may_tidy_up_after_a_compaction(tmp_path):
    """``maintain`` follows a compaction that was written, and none that was not."""
    calls = []

    def maintain(self):
        calls.append("maintain")
        return RewriteResult(changed=False)

    class Tidy(compacting()):  # type: ignore[misc]
        pass

    Tidy.maintain = hookimpl(maintain)
    async with open_host(tmp_path, engines={"recorder": Tidy}) as host, host.session("talk") as session:
        await fill(session)
        await session.assemble()
        calls.clear()
        await session.compact()

    assert calls == ["maintain"]


# -- tools, strict policy -----------------------------------------------------------------------------------------


async def test_an_engine_offers_tools(tmp_path):
    """What the engine offers the agent to call, as it says it; an engine without the hook offers none."""

    def tools(self, session_key):
        return [
            EngineTool(
                name="recall",
                description="Look it up.",
                parameters={"type": "object"},
                call=lambda arguments: f"{session_key}: {arguments['q']}",
            )
        ]

    async with (
        open_host(tmp_path / "a", engines={"recorder": engine(tools=tools)}) as host,
        host.session("talk") as session,
    ):
        (tool,) = await session.tools()
    async with open_host(tmp_path / "b", engines={"recorder": Plain}) as host, host.session("talk") as session:
        none = await session.tools()

    assert (tool.name, tool.parameters, tool.call({"q": "x"})) == ("recall", {"type": "object"}, "talk: x")
    assert none == ()


async def test_a_strict_policy_refuses_a_substitute(tmp_path):
    """``plugins.slotPolicy: strict``: a clear error instead of another engine, and the transcript is written still."""
    async with (
        open_host(tmp_path, "nobody", plugins={"slotPolicy": "strict"}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        for _ in range(2):
            with pytest.raises(SubstitutionRefusedError, match="'nobody' is not registered"):
                await session.assemble()

        assert texts(session.history) == ["hello"]


async def test_operations_on_one_session_queue_and_sessions_run_side_by_side(tmp_path):
    """Two assembles of one session never overlap; two sessions' do."""
    running: dict[str, int] = {}
    most: dict[str, int] = {"talk": 0, "all": 0}
    met = asyncio.Event()

    async def assemble(self, session_key, messages):
        running[session_key] = running.get(session_key, 0) + 1
        most["talk"] = max(most["talk"], running.get("talk", 0))
        most["all"] = max(most["all"], sum(running.values()))
        if len(running) == 2:
            met.set()
        await met.wait()
        running[session_key] -= 1
        return AssembleResult(messages=messages)

    async with (
        open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host,
        host.session("talk") as one,
        host.session("other") as other,
    ):
        for session in (one, other):
            await session.append(UserMessage(content="hello"))
        prompts = await asyncio.gather(one.assemble(), one.assemble(), other.assemble())

    assert [prompt.engine for prompt in prompts] == ["recorder"] * 3
    assert most == {"talk": 1, "all": 2}


# -- services, each used from inside the engine's lane ------------------------------------------------------------


async def test_an_engine_reads_the_record_from_where_it_stopped(tmp_path):
    """``transcript.read``: after an entry, at most so many, summarised messages too; an unknown entry: everything."""
    read: dict[str, list[str]] = {}

    async def assemble(self, session_key, messages):
        reader = self.services.transcript
        everything = await reader.read(session_key)
        read["all"] = texts(everything)
        read["after"] = texts(await reader.read(session_key, after=everything[1].entry_id))
        read["limited"] = texts(await reader.read(session_key, after=everything[0].entry_id, limit=2))
        read["unknown"] = texts(await reader.read(session_key, after="nowhere", limit=1))
        read["last"] = texts(await reader.read(session_key, after=everything[-1].entry_id))
        return AssembleResult(messages=messages)

    async with (
        open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host,
        host.session("talk") as session,
    ):
        for text in ("one", "two", "three", "four"):
            await session.append(UserMessage(content=text))
        session.transcript.append_compaction(
            summary="so far", first_kept_entry_id=session.history[2].entry_id, tokens_before=9
        )
        prompt = await session.assemble()

    assert texts(prompt.messages) == ["so far", "three", "four"]
    assert read == {
        "all": ["one", "two", "three", "four"],
        "after": ["three", "four"],
        "limited": ["two", "three"],
        "unknown": ["one"],
        "last": [],
    }


async def test_an_engine_counts_as_the_host_does(tmp_path):
    """``estimate_tokens``: the host's own counter, callable in the lane."""
    counted = []

    def assemble(self, messages):
        counted.extend(map(self.services.estimate_tokens, messages))
        return AssembleResult(messages=messages, estimated_tokens=sum(counted))

    async with (
        open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host,
        host.session("talk") as session,
    ):
        await fill(session, 2)
        prompt = await session.assemble()

    assert counted == [estimate_tokens(message) for message in prompt.messages]
    assert prompt.engine_estimate == prompt.estimated_tokens > 0


async def test_an_engine_lets_the_host_compact(tmp_path):
    """``delegate_compaction`` from the lane: the host writes it once, and the answer is the host's."""

    async def compact(self, session_key, token_budget, force, current_token_count):
        return await self.services.delegate_compaction(
            session_key, token_budget=token_budget, force=force, current_token_count=current_token_count
        )

    async with (
        open_host(tmp_path, engines={"recorder": engine(compact=compact)}) as host,
        host.session("talk") as session,
    ):
        await fill(session, 12)
        lines = bytes_of(session).count(b"\n")
        done = await session.compact(budget=2000)

        assert bytes_of(session).count(b"\n") == lines + 1
        assert isinstance(session.history[0], CompactionSummaryMessage)
        assert host.quarantines() == []
    assert (done.engine, done.result.compacted) == ("recorder", True)


@pytest.mark.parametrize("by", ["services", "runtime_context"])
async def test_an_engine_rewrites_entries_after_the_turn(tmp_path, by):
    """From ``maintain``, by either handle: the context shows the replacement, the file keeps what was said."""

    async def maintain(self, session_key, runtime_context):
        record = await self.services.transcript.read(session_key)
        if len(record) < 2:
            return RewriteResult(changed=False)
        replacements = [Replacement(entry_id=record[0].entry_id, message=UserMessage(content="short"))]
        if by == "services":
            return await self.services.rewrite_transcript_entries(session_key, replacements)
        return await runtime_context.rewrite_transcript_entries(replacements)

    async with (
        open_host(tmp_path, engines={"recorder": engine(maintain=maintain)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="long output"))
        await session.assemble()
        await session.append(AssistantMessage(content="seen"))
        ended = await session.end_turn()

        assert texts(session.history) == ["short", "seen"]
        assert b"long output" in bytes_of(session)
        assert host.quarantines() == []
    assert ended.maintenance is not None
    assert (ended.maintenance.changed, ended.maintenance.rewritten_entries) == (True, 1)


async def test_an_engine_asks_the_host_s_model(tmp_path):
    """``complete`` runs on the host's loop, by either handle, and its answer comes back into the lane."""
    asked: list[tuple[str, bool]] = []
    here = asyncio.get_running_loop()

    async def model(request: CompletionRequest) -> CompletionResult:
        asked.append((request.messages[0].text, asyncio.get_running_loop() is here))
        return CompletionResult(text=f"about {request.messages[0].text}", usage={"output": 2})

    async def assemble(self, messages, runtime_context):
        request = CompletionRequest(messages=messages, purpose="test")
        first = await self.services.complete(request)
        second = await runtime_context.complete(request)
        return AssembleResult(messages=messages, system_prompt_addition=f"{first.text}, {second.text}")

    async with (
        open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}, model=model) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="the weather"))
        prompt = await session.assemble()

        assert host.quarantines() == []
    assert prompt.system_prompt == "about the weather, about the weather"
    assert asked == [("the weather", True)] * 2


async def test_without_a_model_asking_is_an_error_that_says_so(tmp_path):
    """An engine that asks all the same fails with a sentence for whoever runs it."""

    async def assemble(self, messages):
        await self.services.complete(CompletionRequest(messages=messages))

    async with (
        open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        prompt = await session.assemble()

        (row,) = host.quarantines()
    assert prompt.engine == "legacy"
    assert "No model is configured for engines" in row.record.reason


async def test_an_engine_works_behind_its_hooks(tmp_path):
    """``background``: the hook returns at once, the job is listed with its progress, and ends in its own time."""
    go_on, ended = asyncio.Event(), asyncio.Event()
    here = asyncio.get_running_loop()

    def bootstrap(self, session_key):
        async def job():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(go_on.wait(), here))
            await self.services.transcript.read(session_key)
            here.call_soon_threadsafe(ended.set)

        self.services.background(job(), name="import", progress=lambda: 0.25)
        return BootstrapResult(bootstrapped=True, imported_messages=0)

    async with (
        open_host(tmp_path, engines={"recorder": engine(bootstrap=bootstrap)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        prompt = await session.assemble()
        jobs = [(job.engine_id, job.name, job.progress()) for job in host.background_jobs]
        go_on.set()
        await ended.wait()
        await session.assemble()

        assert host.background_jobs == ()
        assert host.quarantines() == []
    assert prompt.engine == "recorder"
    assert jobs == [("recorder", "import", 0.25)]


async def test_a_job_that_fails_bars_its_engine(tmp_path):
    """The next prompt is legacy's, and the engine is not reached again; the record says background."""
    called = []
    failed = asyncio.Event()
    here = asyncio.get_running_loop()

    def bootstrap(self):
        async def job():
            here.call_soon_threadsafe(failed.set)
            message = "the import broke"
            raise RuntimeError(message)

        self.services.background(job(), name="import")
        return BootstrapResult(bootstrapped=True)

    def assemble(self, messages):
        called.append(1)
        return AssembleResult(messages=messages)

    async with (
        open_host(tmp_path, engines={"recorder": engine(bootstrap=bootstrap, assemble=assemble)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        await session.assemble()
        await failed.wait()
        async with asyncio.timeout(10):
            while not host.quarantines():  # noqa: ASYNC110 -- the record is made in the engine's thread, unannounced
                await asyncio.sleep(0)
        called.clear()
        prompt = await session.assemble()

        (row,) = host.quarantines()
        assert host.background_jobs == ()
    assert (prompt.engine, called) == ("legacy", [])
    assert row.record.operation == "background"
    assert "the import broke" in row.record.reason


async def test_a_session_that_is_not_open_cannot_be_read(tmp_path):
    """A service of a session that was closed says so to the engine; it does not open what nobody asked for."""
    errors = []

    async def assemble(self, messages):
        try:
            await self.services.transcript.read("never opened")
        except SessionClosedError as error:
            errors.append(str(error))
        return AssembleResult(messages=messages)

    async with (
        open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        assert (await session.assemble()).engine == "recorder"

    assert len(errors) == 1
    assert "never opened" in errors[0]


# -- the built-in engine ------------------------------------------------------------------------------------------


async def test_legacy_sends_the_context_as_it_is(tmp_path):
    """The very sequence of the host, unrepaired where it is whole, no file beside the transcript."""
    async with open_host(tmp_path, "legacy") as host, host.session("talk") as session:
        await fill(session, 2)
        prompt = await session.assemble(budget=10_000)
        ended = await session.end_turn()

        assert list(prompt.messages) == list(session.history)
        assert host.quarantines() == []
    assert (prompt.engine, prompt.substitution, prompt.repairs, prompt.engine_estimate) == ("legacy", None, (), 0)
    assert (ended.engine, ended.handed_over, ended.maintenance) == ("legacy", 0, None)
    assert list((tmp_path / "sessions").glob("*.handover")) == []


async def test_one_registry_serves_many_hosts(tmp_path):
    """Two hosts with states of their own share an engine's registration and keep their sessions apart."""
    record, registry = Record(), Registry()
    engines = {"recorder": engine_of(ByTurn, record)}
    async with (
        open_host(tmp_path / "a", engines=engines, registry=registry) as one,
        open_host(tmp_path / "b", registry=registry) as other,
        one.session("talk") as first,
        other.session("talk") as second,
    ):
        await take_turn(first, "a1")
        await take_turn(second, "b1")

        assert (texts(first.history), texts(second.history)) == (["a1"], ["b1"])
    assert record.seen == ["a1", "b1"]
    assert record.reasons == ["new", "new"]
    assert Transcript.open(first.transcript.path).close() is None


async def test_an_engine_with_its_own_settings_is_handed_them(tmp_path):
    """``plugins.entries.<id>.config`` reaches the factory, frozen, with the engine's folder and id."""
    contexts = []

    def make(context):
        contexts.append(context)
        return OneByOne(Record())

    plugins = {"entries": {"recorder": {"config": {"depth": 3, "names": ["a"]}}}}
    async with (
        open_host(tmp_path, engines={"recorder": make}, plugins=plugins) as host,
        host.session("talk") as session,
    ):
        await session.assemble()

    (context,) = contexts
    assert context.config == {"depth": 3, "names": ["a"]}
    with pytest.raises(TypeError):
        context.config["depth"] = 4
    assert context.engine_id == "recorder"
    assert tmp_path in context.state_dir.parents
    assert context.workspace_dir == tmp_path
