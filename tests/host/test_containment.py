"""Whatever a hook does, the turn is answered, and the engine that did it is barred by name."""

import asyncio

import pytest

from openclaw_ctx import AbortSignal, AssistantMessage, EngineFailedError, UserMessage
from tests.host.faulty import lanes, wait_for


def hook(body: str, *, sync: bool = False) -> str:
    """Return an engine whose ``assemble`` has this body."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return (
        f"class Engine(Plain):\n    @hookimpl\n    {'' if sync else 'async '}def assemble(self, messages):\n{lines}\n"
    )


ENGINES = {
    "good": "class Engine(Plain): ...",
    "raises": hook("raise ValueError('no such index')", sync=True),
    "raises-late": hook("await asyncio.sleep(0)\nraise ValueError('no such index')"),
    "exits": hook("sys.exit('done here')", sync=True),
    "exits-late": hook("await asyncio.sleep(0)\nsys.exit('done here')"),
    "exits-in-task": hook("await asyncio.create_task(asyncio.to_thread(sys.exit, 'done here'))"),
    "exits-in-awaited-task": hook("async def job(): sys.exit('done here')\nawait asyncio.create_task(job())"),
    "exits-in-group": hook(
        "async def job(): sys.exit('done here')\nasync with asyncio.TaskGroup() as group: group.create_task(job())"
    ),
    "exits-behind": hook(
        "async def job(): sys.exit('done here')\n"
        "self.job = asyncio.create_task(job())\n"
        "for _ in range(5): await asyncio.sleep(0)\n"
        "return AssembleResult(messages=messages)"
    ),
    "dies-behind": hook(
        "async def job(): raise ValueError('api_key=sk-ant-REDACTED\\nall is well')\n"
        "asyncio.create_task(job())\nfor _ in range(5): await asyncio.sleep(0)\nimport gc; gc.collect()\n"
        "return AssembleResult(messages=messages)"
    ),
    "base-exception": "class Odd(BaseException): ...\n" + hook("raise Odd('neither here nor there')"),
    "no-text": "class Mute(Exception):\n    def __str__(self): raise RuntimeError('no words')\n    __repr__ = __str__\n"
    + hook("raise Mute"),
    "exits-as-text": "class Mute(Exception):\n    def __str__(self): sys.exit(1)\n    __repr__ = __str__\n"
    + hook("raise Mute"),
    "group": hook("raise ExceptionGroup('two at once', [ValueError('one'), OSError('two')])"),
    "base-group": hook("raise BaseExceptionGroup('two at once', [SystemExit(1), OSError('two')])"),
    "stop-iteration": hook("raise StopIteration", sync=True),
    "stop-iteration-late": hook("raise StopIteration"),
    "stop-async-iteration": hook("raise StopAsyncIteration"),
    "generator-exit": hook("raise GeneratorExit", sync=True),
    "generator-exit-late": hook("raise GeneratorExit"),
    "cancels": hook("raise asyncio.CancelledError", sync=True),
    "cancels-late": hook("asyncio.current_task().cancel()\nawait asyncio.sleep(0)"),
    "timeout-error": hook("raise TimeoutError('of its own')"),
    "recursion": "def again(): return again()\n" + hook("again()"),
    "own-abort": "from openclaw_ctx import AbortError\n" + hook("raise AbortError('as it liked')"),
    "stops-its-loop": hook(
        "asyncio.get_running_loop().stop()\nawait asyncio.sleep(0)\nreturn AssembleResult(messages=messages)"
    ),
    "closes-its-loop": hook("asyncio.get_running_loop().close()"),
    "interrupted": hook("raise KeyboardInterrupt", sync=True),
    "interrupted-late": hook("await asyncio.sleep(0)\nraise KeyboardInterrupt"),
    "blocks": hook("gate.wait()\nlog.append('returned')\nreturn AssembleResult(messages=messages)", sync=True),
    "blocks-async": hook("gate.wait()\nlog.append('returned')\nraise ValueError('late')"),
    "waits": hook("await asyncio.Event().wait()"),
    "swallows": hook(
        "while not gate.is_set():\n"
        "    try: await asyncio.sleep(0.01)\n"
        "    except asyncio.CancelledError: log.append('swallowed')\n"
        "log.append('returned')\nreturn AssembleResult(messages=[])"
    ),
    "text-blocks": "class Slow(Exception):\n    def __str__(self): gate.wait(); return 'at last'\n"
    + hook("raise Slow"),
    "blocks-in-thread": hook(
        "await asyncio.to_thread(gate.wait)\nlog.append('returned')\nreturn AssembleResult(messages=[])"
    ),
    "holds-the-lane": """
class Engine(Plain):
    @hookimpl
    async def assemble(self, session_key, messages):
        if session_key == "first":
            entered.set()
            await asyncio.Event().wait()
        raise ValueError("the second breaks it")
""",
    "once-interrupted": """
class Engine(Plain):
    @hookimpl
    async def assemble(self, messages):
        log.append("called")
        if len(log) == 1:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                log.append("let go")
        return AssembleResult(messages=messages)
""",
    "meets": """
met = asyncio.Event()
class Engine(Plain):
    @hookimpl
    async def assemble(self, session_key, messages):
        log.append((session_key, threading.current_thread().name))
        if session_key == "first":
            await met.wait()
        met.set()
        return AssembleResult(messages=messages)
""",
    "one-thread-free": """
class Engine(Plain):
    @hookimpl
    async def assemble(self, messages):
        await asyncio.to_thread(log.append, "warm")
        loop = asyncio.get_running_loop()
        stuck = loop.run_in_executor(None, gate.wait)
        await loop.run_in_executor(None, log.append, "done")
        return AssembleResult(messages=messages)
""",
    "background": """
class Engine(Plain):
    @hookimpl
    async def assemble(self, messages):
        log.append("assembled")
        return AssembleResult(messages=messages)
    @hookimpl
    async def ingest(self, message):
        async def job():
            asyncio.get_running_loop().call_soon(entered.set)
            raise OSError("the index is full")
        self.context.services.background(job(), name="index")
        return IngestResult(ingested=True)
""",
    "busy-behind": """
class Engine(Plain):
    @hookimpl
    async def assemble(self, messages):
        async def job():
            try:
                await asyncio.Event().wait()
            finally:
                log.append("let go")
        self.context.services.background(job(), name="index")
        await asyncio.sleep(0)
        entered.set()
        gate.wait()
        raise ValueError("and yet")
""",
    "compact-raises": """
class Engine(Plain):
    info = EngineInfo(id="acme", name="Acme", owns_compaction=True)
    @hookimpl
    async def compact(self):
        raise OSError("halfway through")
""",
    "compact-hangs": """
class Engine(Plain):
    @hookimpl
    async def compact(self):
        gate.wait()
""",
}


@pytest.mark.parametrize(
    "engine_id,reason",
    [
        pytest.param("raises", "ValueError: no such index", id="def raises"),
        pytest.param("raises-late", "ValueError: no such index", id="async def raises"),
        pytest.param("exits", "SystemExit: done here", id="sys.exit in def"),
        pytest.param("exits-late", "SystemExit: done here", id="sys.exit in async def"),
        pytest.param("exits-in-task", "SystemExit: done here", id="sys.exit in a thread it awaits"),
        pytest.param("exits-in-awaited-task", "SystemExit: done here", id="sys.exit in a task it awaits"),
        pytest.param("exits-in-group", "SystemExit: done here", id="sys.exit in a task group"),
        pytest.param("base-exception", "Odd: neither here nor there", id="neither Exception nor exit"),
        pytest.param("no-text", "Mute: (its text cannot be read", id="an error whose text raises"),
        pytest.param("exits-as-text", "Mute: (its text cannot be read", id="an error whose text exits"),
        pytest.param("group", "ValueError: one; OSError: two", id="an exception group"),
        pytest.param("base-group", "SystemExit: 1; OSError: two", id="a group with an exit in it"),
        pytest.param("stop-iteration", "StopIteration", id="StopIteration in def"),
        pytest.param("stop-iteration-late", "StopIteration", id="StopIteration in async def"),
        pytest.param("stop-async-iteration", "StopAsyncIteration", id="StopAsyncIteration"),
        pytest.param("generator-exit", "GeneratorExit", id="GeneratorExit in def"),
        pytest.param("generator-exit-late", "GeneratorExit", id="GeneratorExit in async def"),
        pytest.param("cancels", "CancelledError", id="CancelledError that nobody asked for"),
        pytest.param("cancels-late", "CancelledError", id="its own task cancelled"),
        pytest.param("timeout-error", "TimeoutError: of its own", id="a TimeoutError of its own"),
        pytest.param("recursion", "RecursionError", id="endless recursion"),
        pytest.param("own-abort", "as it liked", id="an abort that nobody asked for"),
        pytest.param("closes-its-loop", "RuntimeError", id="closes its loop"),
    ],
)
async def test_what_a_hook_raises_bars_the_engine_and_legacy_answers(open_host, engine_id, reason):
    """Whatever it is, it stays in the lane: the same call is answered, and the record says what and where."""
    async with open_host(engine_id) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble()

        (row,) = host.quarantines()
        again = await session.assemble()
    assert (prompt.engine, again.engine) == ("legacy", "legacy")
    assert [message.text for message in prompt.messages] == ["Hello"]
    assert prompt.substitution.startswith("assemble failed: ")
    assert again.substitution.startswith("quarantined during assemble: ")
    for told in (prompt.substitution, again.substitution, row.record.reason):
        assert reason in told
    assert (row.record.engine_id, row.record.operation) == (engine_id, "assemble")
    assert row.record.owner == f"plugin:acme-{engine_id}"


@pytest.mark.parametrize(
    "engine_id,returned",
    [
        pytest.param("blocks", ["returned"], id="a def that blocks"),
        pytest.param("blocks-async", ["returned"], id="an async def that blocks"),
        pytest.param("text-blocks", [], id="an error whose text blocks"),
        pytest.param("waits", [], id="an async def that waits for ever"),
        pytest.param("swallows", ["swallowed", "returned"], id="swallowed cancellation"),
        pytest.param("blocks-in-thread", [], id="blocked in a thread that it awaits"),
    ],
)
async def test_a_hook_that_does_not_return_is_left_behind_at_its_deadline(open_host, base, engine_id, returned):
    """The caller has its answer while the engine still hangs, and what the engine says later is thrown away."""
    async with open_host(engine_id, deadlines={"assemble": 0.1}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble()

        assert "returned" not in base.log
        base.gate.set()
        (row,) = host.quarantines()
    assert prompt.engine == "legacy"
    assert prompt.substitution == "assemble failed: no answer within 0.1 s"
    assert (row.record.operation, row.record.reason) == ("assemble", "no answer within 0.1 s")
    assert [message.text for message in prompt.messages] == ["Hello"]
    await asyncio.to_thread(wait_for, lanes())
    assert list(dict.fromkeys(base.log)) == returned


async def test_calls_of_other_sessions_are_answered_when_their_engine_is_barred(open_host, base):
    """A call that was under way in the lane need not wait for its own deadline to be answered by legacy."""
    async with (
        open_host("holds-the-lane", deadlines={"assemble": 3600}) as host,
        host.session("first") as first,
        host.session("second") as second,
        asyncio.timeout(10),
    ):
        waiting = asyncio.ensure_future(first.assemble())
        await asyncio.to_thread(base.entered.wait, 10)

        broken = await second.assemble()
        prompt = await waiting

        (row,) = host.quarantines()
    assert (broken.engine, prompt.engine) == ("legacy", "legacy")
    assert "the second breaks it" in row.record.reason


async def test_two_sessions_run_side_by_side_in_the_engine_s_lane(open_host, base):
    """One session's call waits in the lane until another's has come by; both are answered by the engine."""
    async with (
        open_host("meets") as host,
        host.session("first") as first,
        host.session("second") as second,
        asyncio.timeout(10),
    ):
        prompts = await asyncio.gather(first.assemble(), second.assemble())

        (_, one), (_, other) = sorted(base.log)
        assert host.quarantines() == []
    assert [prompt.engine for prompt in prompts] == ["meets", "meets"]
    assert one == other == "engine-meets"


@pytest.mark.parametrize("engine_id", ["interrupted", "interrupted-late"])
async def test_a_keyboard_interrupt_reaches_the_caller(open_host, engine_id):
    """It is the user's wish, not the engine's fault."""
    async with open_host(engine_id) as host, host.session("talk") as session:
        with pytest.raises(KeyboardInterrupt):
            await session.assemble()

        assert host.quarantines() == []


async def test_the_caller_s_cancellation_is_no_fault_of_the_engine(open_host, base):
    """It reaches the caller and stops the hook; the engine answers the next call."""
    async with open_host("once-interrupted") as host, host.session("talk") as session, asyncio.timeout(10):
        call = asyncio.ensure_future(session.assemble())
        await asyncio.to_thread(base.entered.wait, 10)

        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        prompt = await session.assemble()

        assert host.quarantines() == []
        assert base.log == ["called", "let go", "called"]
    assert (prompt.engine, prompt.substitution) == ("once-interrupted", None)


async def test_an_exit_in_a_task_that_nobody_awaits_hurts_nobody(open_host, caplog):
    """The hook that began the task still answers, and the log has the exit."""
    async with open_host("exits-behind") as host, host.session("talk") as session:
        prompt = await session.assemble()

        assert host.quarantines() == []
    assert prompt.engine == "exits-behind"
    assert any("lane.disturbed" in message and "SystemExit: done here" in message for message in caplog.messages)


async def test_a_task_that_fails_unseen_says_so_in_one_clean_line(open_host, caplog):
    """B62, B64: asyncio would print its error as it is, over many lines."""
    async with open_host("dies-behind") as host, host.session("talk") as session:
        prompt = await session.assemble()
    assert prompt.engine == "dies-behind"
    (record,) = [record for record in caplog.records if "ValueError" in record.getMessage()]
    assert record.name == "openclaw_ctx"
    assert "\n" not in record.getMessage()
    assert "sk-ant" not in caplog.text


async def test_an_engine_that_stops_its_loop_goes_on(open_host):
    """The lane is the host's: it ends when the host says so."""
    async with open_host("stops-its-loop") as host, host.session("talk") as session, asyncio.timeout(10):
        first = await session.assemble()
        second = await session.assemble()
    assert (first.engine, second.engine) == ("stops-its-loop", "stops-its-loop")


async def test_a_blocked_thread_leaves_the_engine_s_others_free(open_host, base):
    """What an engine runs by asyncio.to_thread does not queue behind what blocks there."""
    async with open_host("one-thread-free", deadlines={"assemble": 5}) as host, host.session("talk") as session:
        prompt = await session.assemble()

        assert base.log == ["warm", "done"]
    assert prompt.engine == "one-thread-free"


async def test_a_background_job_that_fails_bars_the_engine(open_host, base):
    """It is not called again: the next turn is answered by legacy, which says why."""
    async with open_host("background") as host, host.session("talk") as session, asyncio.timeout(10):
        await session.append(UserMessage(content="Hello"))
        assert (await session.assemble()).engine == "background"
        await session.end_turn()
        await asyncio.to_thread(base.entered.wait, 10)

        prompt = await session.assemble()

        (row,) = host.quarantines()
        assert base.log == ["assembled"]
    assert prompt.engine == "legacy"
    assert "OSError: the index is full" in prompt.substitution
    assert (row.record.operation, row.record.owner) == ("background", "plugin:acme-background")


async def test_background_jobs_end_with_their_engine(open_host, base):
    """They are cancelled when it is barred, and listed no longer."""
    async with open_host("busy-behind") as host, host.session("talk") as session, asyncio.timeout(10):
        call = asyncio.ensure_future(session.assemble())
        await asyncio.to_thread(base.entered.wait, 10)
        assert [job.name for job in host.background_jobs] == ["index"]

        base.gate.set()
        prompt = await call
        await asyncio.to_thread(wait_for, lanes())

        assert (prompt.engine, host.background_jobs, base.log) == ("legacy", (), ["let go"])
        (row,) = host.quarantines()
    assert row.record.operation == "assemble"


async def test_a_compaction_that_raises_is_the_caller_s_to_see(open_host):
    """B25: legacy does not compact in the same call; it does in the next, and says that it does."""
    async with open_host("compact-raises") as host, host.session("talk") as session:
        for turn in range(20):
            await session.append(UserMessage(content=f"Question {turn}: " + "what then? " * 40))
            await session.append(AssistantMessage(content=f"Answer {turn}: " + "nothing much. " * 40))
        await session.assemble()
        before = session.transcript.path.read_bytes()
        assert (await host._guard.serving()).info.owns_compaction

        with pytest.raises(EngineFailedError) as caught:
            await session.compact(budget=500)

        assert session.transcript.path.read_bytes() == before
        serving = await host._guard.serving()
        assert (serving.engine_id, serving.info.id, serving.info.owns_compaction) == ("legacy", "legacy", False)
        compacted = await session.compact(budget=500)
        (row,) = host.quarantines()
    assert (caught.value.engine_id, caught.value.operation) == ("compact-raises", "compact")
    assert isinstance(caught.value.__cause__, OSError)
    assert "halfway through" in caught.value.reason
    assert (compacted.engine, compacted.result.compacted) == ("legacy", True)
    assert "halfway through" in compacted.substitution
    assert row.record.operation == "compact"


async def test_a_compaction_that_hangs_is_the_caller_s_to_see(open_host):
    """B25: at its deadline, with the engine named."""
    async with open_host("compact-hangs", deadlines={"compact": 0.1}) as host, host.session("talk") as session:
        with pytest.raises(EngineFailedError, match=r"no answer within 0\.1 s"):
            await session.compact()

        assert (await session.compact()).engine == "legacy"


async def test_an_aborted_compaction_bars_nobody(open_host):
    """The caller's abort reaches the caller, though the engine hangs, and the engine stays in its place."""
    async with open_host("compact-hangs") as host, host.session("talk") as session, asyncio.timeout(10):
        abort = AbortSignal()
        call = asyncio.ensure_future(session.compact(abort=abort))
        await asyncio.sleep(0)
        abort.fire(LookupError("enough"))

        with pytest.raises(LookupError, match="enough"):
            await call

        assert host.quarantines() == []
