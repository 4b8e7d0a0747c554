"""A compaction shrinks the context, or the file stays as it was."""

import asyncio
import threading
from typing import Any

import pytest

from openclaw_ctx import (
    AbortError,
    AbortSignal,
    Compaction,
    CompactionSummaryMessage,
    CompactResult,
    EngineFailedError,
    RewriteResult,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.tokens import estimate_tokens
from tests.assembly.plain import bytes_of, engine, fill, texts
from tests.assembly.recording import open_host

# -- compaction ----------------------------------------------------------------------------------------------------


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
