"""A conversation that is open: what is appended stays, who holds it, and what every call is told."""

import asyncio
from typing import Any

import pytest

from openclaw_ctx import (
    AssembleResult,
    AssistantMessage,
    BashExecutionMessage,
    BootstrapResult,
    CompactResult,
    CustomMessage,
    EngineInfo,
    EngineTool,
    Host,
    HostDescriptor,
    HostIncompatibleError,
    HostRequirements,
    Registry,
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
from openclaw_ctx.transcript import Transcript
from tests.assembly.plain import Plain, bytes_of, engine, fill, texts
from tests.assembly.recording import ByTurn, OneByOne, Record, engine_of, open_host, take_turn

# -- append, close, open -------------------------------------------------------------------------------------------


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


# -- runtime settings and context ----------------------------------------------------------------------------------


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


# -- tools, strict policy ------------------------------------------------------------------------------------------


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
        text = await tool.call({"q": "x"})
    async with open_host(tmp_path / "b", engines={"recorder": Plain}) as host, host.session("talk") as session:
        none = await session.tools()

    assert (tool.name, tool.parameters, text) == ("recall", {"type": "object"}, "talk: x")
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


# -- the built-in engine -------------------------------------------------------------------------------------------


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
