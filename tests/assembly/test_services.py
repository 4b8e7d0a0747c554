"""What a host does for an engine, each service used from inside the engine's lane."""

import asyncio
import threading

import pytest

from openclaw_ctx import (
    AssembleResult,
    AssistantMessage,
    BootstrapResult,
    CompactionSummaryMessage,
    CompletionRequest,
    CompletionResult,
    Replacement,
    RewriteResult,
    SessionClosedError,
    UserMessage,
)
from openclaw_ctx.tokens import estimate_tokens
from tests.assembly.plain import bytes_of, engine, fill, texts
from tests.assembly.recording import open_host

# -- services, each used from inside the engine's lane -------------------------------------------------------------


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
    assert "No model is configured" in row.record.reason


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
    fail = threading.Event()

    def bootstrap(self):
        async def job():
            await asyncio.to_thread(fail.wait, 10)
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
        fail.set()
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
