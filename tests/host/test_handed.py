"""Functions that an engine hands out run in its lane, within a deadline, and what they raise is contained."""

import asyncio
import threading
from typing import Any

import pytest

from openclaw_ctx import EngineFailedError, EngineTool, SubagentPreparation, hookimpl
from openclaw_ctx.host import Guard
from tests.host.guarded import Plain, call, guard_of, records_of


@pytest.fixture
async def closing():
    """Close each guard that is put in here."""
    guards: list[Guard] = []
    yield lambda guard: guards.append(guard) or guard
    for guard in guards:
        await guard.close()


async def _tool(closing: Any, function: Any, **options: Any) -> tuple[Guard, EngineTool]:
    def tools(self):
        return [EngineTool(name="recall", description="Look it up.", call=function)]

    guard = closing(guard_of(type("Offers", (Plain,), {"tools": hookimpl(tools)}), **options))
    (tool,) = (await call(guard, "tools")).value
    return guard, tool


def _def(arguments):
    return f"{threading.current_thread().name}: {arguments['q']}"


async def _async_def(arguments):
    await asyncio.sleep(0)
    return _def(arguments)


@pytest.mark.parametrize("function", [pytest.param(_def, id="def"), pytest.param(_async_def, id="async def")])
async def test_a_tool_runs_where_its_engine_runs(closing, function):
    """What the engine opened stays in one thread; whoever has the tool awaits it, however it is written."""
    _, tool = await _tool(closing, function)

    text = await tool.call({"q": "x"})

    assert text == "engine-engine: x"


async def test_a_tool_that_blocks_is_given_up(closing):
    """The host's loop goes on meanwhile, and the caller gets an error that names engine and tool."""
    leave = threading.Event()
    guard, tool = await _tool(closing, lambda arguments: leave.wait(10), deadlines={"tools": 0.05})

    with pytest.raises(EngineFailedError, match=r"'tool:recall': no answer within 0\.05 s") as caught:
        await tool.call({})
    leave.set()

    assert (caught.value.engine_id, caught.value.owner) == ("engine", "plugin:acme")
    assert records_of(guard) == []


def _raise(error: BaseException) -> Any:
    def function(arguments):
        raise error

    return function


@pytest.mark.parametrize(
    "function,reason",
    [
        pytest.param(_raise(ValueError("no such thing")), "no such thing", id="an error"),
        pytest.param(_raise(SystemExit(3)), "SystemExit", id="an exit"),
        pytest.param(_raise(asyncio.CancelledError()), "CancelledError", id="a cancellation out of nowhere"),
        pytest.param(lambda arguments: 7, "answered int", id="no text"),
        pytest.param(lambda arguments: arguments.clear(), "belongs to the host", id="changing what it is given"),
    ],
)
async def test_a_tool_that_fails_tells_its_caller_and_bars_nobody(closing, function, reason):
    """That a tool fails is the agent's daily bread: the engine serves on."""
    guard, tool = await _tool(closing, function)

    with pytest.raises(EngineFailedError, match=reason) as caught:
        await tool.call({"q": "x"})

    assert caught.value.operation == "tool:recall"
    assert records_of(guard) == []
    assert (await call(guard, "assemble")).serving.engine_id == "engine"


async def test_a_caller_that_gives_a_tool_up_is_cancelled(closing):
    """Cancellation passes at once, and is nobody's failure."""
    entered, leave = threading.Event(), threading.Event()

    def function(arguments):
        entered.set()
        leave.wait(10)

    guard, tool = await _tool(closing, function)
    running = asyncio.ensure_future(tool.call({}))
    await asyncio.to_thread(entered.wait, 10)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    leave.set()
    assert records_of(guard) == []


async def test_a_tool_of_an_engine_that_was_let_go_says_so(closing):
    """At once, rather than after a deadline in a lane that has ended."""
    guard, tool = await _tool(closing, _def)
    await guard.close()

    with pytest.raises(EngineFailedError, match="the engine was let go"):
        await tool.call({"q": "x"})


async def test_a_text_of_a_class_of_the_engine_s_comes_out_as_plain_text(closing):
    """What the host holds runs none of the engine's code."""

    class Text(str):
        __slots__ = ()

        def __len__(self):
            raise AssertionError

    _, tool = await _tool(closing, lambda arguments: Text("found"))

    text = await tool.call({})

    assert type(text) is str
    assert text == "found"


async def test_the_way_back_from_a_preparation_runs_in_the_lane(closing):
    """Within the deadline of the preparation, and contained as a tool is."""
    ran: list[str] = []

    def rollback():
        ran.append(threading.current_thread().name)
        if len(ran) > 1:
            raise SystemExit

    def prepare_subagent_spawn(self):
        return SubagentPreparation(rollback=rollback)

    guard = closing(guard_of(type("P", (Plain,), {"prepare_subagent_spawn": hookimpl(prepare_subagent_spawn)})))
    preparation = (await call(guard, "prepare_subagent_spawn")).value
    await preparation.rollback()
    with pytest.raises(EngineFailedError, match="'rollback': SystemExit"):
        await preparation.rollback()

    assert ran == ["engine-engine", "engine-engine"]
    assert records_of(guard) == []
