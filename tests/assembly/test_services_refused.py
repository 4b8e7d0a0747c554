"""What an engine asks of its host after it was let go, or in a call that was given up, is refused."""

import asyncio
import threading
from typing import Any

import pytest

from openclaw_ctx import (
    AbortError,
    AbortSignal,
    AssembleResult,
    BootstrapResult,
    CompactResult,
    CompletionRequest,
    CompletionResult,
    EngineFailedError,
    Registry,
    Replacement,
    RewriteResult,
    SessionClosedError,
    UserMessage,
)
from tests.assembly.plain import Plain, bytes_of, engine, fill
from tests.assembly.recording import open_host

_FORGED = UserMessage(content="FORGED")


class _Late:
    """What an engine does once nobody waits for it any more, each service in its turn, and how that went."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.done = threading.Event()
        self.refused: dict[str, str] = {}

    async def try_all(self, services: Any, messages: Any, runtime_context: Any = None) -> None:
        replacements = [Replacement(entry_id=messages[0].entry_id, message=_FORGED)]
        request = CompletionRequest(messages=messages)
        ways = {
            "rewrite": lambda: services.rewrite_transcript_entries("talk", replacements),
            "delegate": lambda: services.delegate_compaction("talk", token_budget=100, force=True),
            "complete": lambda: services.complete(request),
        }
        if runtime_context is not None:
            ways["complete of the call"] = lambda: runtime_context.complete(request)
            if runtime_context.rewrite_transcript_entries is not None:
                ways["rewrite of the call"] = lambda: runtime_context.rewrite_transcript_entries(replacements)
        for name, way in ways.items():
            try:
                await way()
            except SessionClosedError as error:
                self.refused[name] = str(error)
            else:
                self.refused[name] = "not refused"
        self.done.set()


async def _answer(request: CompletionRequest) -> CompletionResult:
    return CompletionResult(text="an answer")


def _say(error: str) -> set[str]:
    return {f"{error} is closed. Open it again to go on."}


async def test_an_engine_that_missed_its_deadline_can_change_nothing_any_more(tmp_path):
    """A blocking hook comes to itself after the engine was barred: each way to write or spend is refused by name."""
    late = _Late()

    def assemble(self, messages, runtime_context):
        late.go_on.wait(10)
        self.task = asyncio.get_running_loop().create_task(late.try_all(self.services, messages, runtime_context))
        return AssembleResult(messages=messages)

    def dispose(self):
        return self.task

    async with (
        open_host(
            tmp_path,
            engines={"recorder": engine(assemble=assemble, dispose=dispose)},
            config={"deadlines": {"assemble": 0.05}},
            model=_answer,
        ) as host,
        host.session("talk") as session,
    ):
        await fill(session, 2)
        before = bytes_of(session)

        prompt = await session.assemble()
        late.go_on.set()
        await asyncio.to_thread(late.done.wait, 10)

        assert prompt.engine == "legacy"
        assert len(late.refused) == 4
        assert set(late.refused.values()) == _say("Engine 'recorder'")
        assert bytes_of(session) == before


@pytest.mark.parametrize("how", ["cancelled", "aborted"])
async def test_a_call_that_was_given_up_can_change_nothing_any_more(tmp_path, how):
    """The engine is not at fault and stays: what goes on of the old call is refused, and the next call may write."""
    late, entered, signal = _Late(), asyncio.Event(), AbortSignal()
    here = asyncio.get_running_loop()

    async def compact(self, session_key, runtime_context):
        if entered.is_set():
            return await self.services.delegate_compaction(session_key, token_budget=500, force=True)
        here.call_soon_threadsafe(entered.set)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await late.try_all(self.services, await self.services.transcript.read(session_key), runtime_context)
        return CompactResult(ok=True, compacted=False)

    async with (
        open_host(tmp_path, engines={"recorder": engine(compact=compact)}, model=_answer) as host,
        host.session("talk") as session,
    ):
        await fill(session)
        before = bytes_of(session)

        compacting = asyncio.ensure_future(session.compact(abort=signal))
        await entered.wait()
        if how == "cancelled":
            compacting.cancel()
        else:
            signal.fire("stop")
        with pytest.raises((asyncio.CancelledError, AbortError)):
            await compacting
        await asyncio.to_thread(late.done.wait, 10)
        untouched = bytes_of(session) == before
        again = await session.compact()

        assert host.quarantines() == []
    assert len(late.refused) == 4
    assert set(late.refused.values()) == _say("A call of engine 'recorder' that was given up")
    assert untouched
    assert (again.engine, again.result.compacted) == ("recorder", True)


async def test_what_crosses_to_the_host_while_the_call_is_given_up_is_refused_there(tmp_path):
    """The permit is looked at once more where the work is done: between asking and doing a call may have ended."""
    asked, done, refused = threading.Event(), threading.Event(), []

    async def compact(self, session_key):
        crossing = asyncio.ensure_future(self.services.delegate_compaction(session_key, force=True))
        await asyncio.sleep(0)  # it is on its way to the host's loop
        asked.set()
        try:
            return await asyncio.shield(crossing)
        except asyncio.CancelledError:
            refused.append(await asyncio.gather(crossing, return_exceptions=True))
            done.set()
            raise

    async with (
        open_host(tmp_path, engines={"recorder": engine(compact=compact)}) as host,
        host.session("talk") as session,
    ):
        await fill(session)
        before = bytes_of(session)
        await session.assemble()

        compacting = asyncio.ensure_future(session.compact())
        await asyncio.sleep(0)  # the call is on its way to the lane
        asked.wait(10)  # with the host's loop held, so that the wish waits behind what is done next
        compacting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await compacting
        await asyncio.to_thread(done.wait, 10)

        assert bytes_of(session) == before
    assert [type(error) for error in refused[0]] == [SessionClosedError]


async def test_dispose_may_read_and_not_write(tmp_path):
    """An engine that is being let go, by its host's end too, can still look, and change nothing."""
    late, read = _Late(), []

    async def dispose(self):
        messages = await self.services.transcript.read("talk")
        read.append(len(messages))
        await late.try_all(self.services, messages)

    async with open_host(tmp_path, engines={"recorder": engine(dispose=dispose)}, model=_answer) as host:
        session = await host.session("talk")
        await fill(session, 2)
        await session.assemble()
        before = bytes_of(session)

    assert read == [4]
    assert len(late.refused) == 3
    assert set(late.refused.values()) == _say("Engine 'recorder'")
    assert bytes_of(session) == before


async def test_a_job_goes_on_when_the_call_that_began_it_is_given_up(tmp_path):
    """Work behind the hooks is the engine's, and no call's: it may write for as long as the engine serves."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    here = asyncio.get_running_loop()
    results: asyncio.Queue[RewriteResult] = asyncio.Queue()

    async def maintain(self, session_key):
        async def job():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(go_on.wait(), here))
            first = (await self.services.transcript.read(session_key))[0]
            replacement = Replacement(entry_id=first.entry_id, message=UserMessage(content="shorter"))
            result = await self.services.rewrite_transcript_entries(session_key, [replacement])
            here.call_soon_threadsafe(results.put_nowait, result)

        self.services.background(job(), name="tidy")
        here.call_soon_threadsafe(begun.set)
        await asyncio.Event().wait()

    async with (
        open_host(tmp_path, engines={"recorder": engine(maintain=maintain)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="a long question"))
        ending = asyncio.ensure_future(session.end_turn())
        await begun.wait()
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        go_on.set()
        async with asyncio.timeout(10):
            result = await results.get()

        assert session.history[0].text == "shorter"
    assert result.changed


async def test_no_job_is_begun_by_a_call_that_was_given_up(tmp_path):
    """It would outlive the refusal; the coroutine is closed, so that nobody hears of one never awaited."""
    raised, done = [], threading.Event()

    async def job():
        raise AssertionError

    async def compact(self):
        try:
            await asyncio.Event().wait()
        finally:
            try:
                self.services.background(job(), name="late")
            except SessionClosedError as error:
                raised.append(error)
            done.set()

    async with (
        open_host(
            tmp_path, engines={"recorder": engine(compact=compact)}, config={"deadlines": {"compact": 0.05}}
        ) as host,
        host.session("talk") as session,
    ):
        await fill(session, 1)
        with pytest.raises(EngineFailedError):
            await session.compact()
        await asyncio.to_thread(done.wait, 10)

        assert host.background_jobs == ()
    assert len(raised) == 1


async def test_a_thread_that_works_for_a_call_may_do_what_the_call_may(tmp_path):
    """An engine that blocks in a thread and asks from there is known there too."""

    async def maintain(self, runtime_context, session_key):
        loop = asyncio.get_running_loop()
        first = (await self.services.transcript.read(session_key))[0]

        def block():
            replacement = Replacement(entry_id=first.entry_id, message=UserMessage(content="shorter"))
            rewriting = runtime_context.rewrite_transcript_entries([replacement])
            return asyncio.run_coroutine_threadsafe(rewriting, loop).result(10)

        return await loop.run_in_executor(None, block)

    async with (
        open_host(tmp_path, engines={"recorder": engine(maintain=maintain)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="a long question"))
        ended = await session.end_turn()

    assert ended.maintenance is not None
    assert ended.maintenance.changed


async def test_a_job_of_an_engine_that_was_let_go_bars_no_successor(tmp_path):
    """Cancelled at the old engine's end, it fails; the engine registered in its place has done nothing wrong."""
    cleaned, registry = threading.Event(), Registry()

    def bootstrap(self):
        async def job():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cleaned.set()
                message = "cleaning up went wrong"
                raise RuntimeError(message) from None

        self.services.background(job(), name="import")
        return BootstrapResult(bootstrapped=True, imported_messages=0)

    def assemble(self, messages):
        message = "broke"
        raise RuntimeError(message)

    first = engine(bootstrap=bootstrap, assemble=assemble)
    async with (
        open_host(tmp_path, engines={"recorder": first}, registry=registry) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        barred = await session.assemble()
        host.register_engine("recorder", Plain, refresh=True)
        served = await session.assemble()
        await asyncio.to_thread(cleaned.wait, 10)
        async with asyncio.timeout(10):
            while host.background_jobs:  # noqa: ASYNC110 -- it ends in the engine's thread, unannounced
                await asyncio.sleep(0)
        still = await session.assemble()

    assert [barred.engine, served.engine, still.engine] == ["legacy", "recorder", "recorder"]
    assert registry.quarantine.records() == []


async def test_a_job_that_fails_as_its_host_closes_bars_nobody(tmp_path):
    """The registry outlives the host, and an engine is not at fault for being ended."""
    registry = Registry()

    def bootstrap(self):
        async def job():
            try:
                await asyncio.Event().wait()
            finally:
                message = "cleaning up went wrong"
                raise RuntimeError(message)

        self.services.background(job(), name="import")
        return BootstrapResult(bootstrapped=True, imported_messages=0)

    async with (
        open_host(tmp_path, engines={"recorder": engine(bootstrap=bootstrap)}, registry=registry) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        await session.assemble()
    async with asyncio.timeout(10):
        while host.background_jobs:  # noqa: ASYNC110 -- as above
            await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert registry.quarantine.records() == []


async def test_a_job_that_fails_while_its_engine_is_being_built_bars_it(tmp_path):
    """The factory began it: the engine is as broken as if a hook had."""
    registry = Registry()

    class Eager(Plain):
        def __init__(self, context):
            async def job():
                message = "the import broke"
                raise RuntimeError(message)

            super().__init__(context)
            context.services.background(job(), name="import")

    async with (
        open_host(tmp_path, engines={"recorder": Eager}, registry=registry) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        await session.assemble()
        async with asyncio.timeout(10):
            while not registry.quarantine.records():  # noqa: ASYNC110 -- as above
                await asyncio.sleep(0)
        prompt = await session.assemble()

    (record,) = registry.quarantine.records()
    assert (prompt.engine, record.operation, record.owner) == ("legacy", "background", "public")
