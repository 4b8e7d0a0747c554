"""A hand-over that failed or was given up is made up for, once and in order."""

import asyncio
import contextlib

import pytest

from openclaw_ctx import (
    AssistantMessage,
    BootstrapResult,
    UserMessage,
    hookimpl,
)
from tests.assembly.recording import ByTurn, InBatches, OneByOne, Record, engine_of, open_host, take_turn
from tests.assembly.transcripts import write_transcript

KINDS = [pytest.param(kind, id=kind.__doc__.split(".")[0].lower()) for kind in (OneByOne, InBatches, ByTurn)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [1, 2, 3], ids=["the first", "the second", "the third"])
async def test_an_engine_that_fails_in_a_turn_s_hand_over_is_told_the_rest_later(tmp_path, kind, stop):
    """One by one, what was taken before the failure is not told again; the rest of the turn is, once it is back."""
    record = Record()

    class Stumbling(kind):  # type: ignore[misc, valid-type]
        @hookimpl
        def ingest(self, message, is_heartbeat):
            if len(self.record.seen) + 1 == stop:
                self.record.note("stumble")
                message = "stumbled"
                raise RuntimeError(message)
            return super().ingest(message, is_heartbeat)

        if kind is not OneByOne:

            @hookimpl
            def ingest_batch(self, messages, is_heartbeat):
                message = "stumbled"
                raise RuntimeError(message)

        if kind is ByTurn:

            @hookimpl
            def after_turn(self, messages):
                message = "stumbled"
                raise RuntimeError(message)

    engines = {"recorder": engine_of(Stumbling, record)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two", "three")
        taken = list(record.seen)
        host.register_engine("recorder", engine_of(kind, record), refresh=True)
        await take_turn(talk, "four")

    assert taken == (["one", "two", "three"][: stop - 1] if kind is OneByOne else [])
    assert record.seen == ["one", "two", "three", "four"]


@pytest.mark.parametrize("kind", [OneByOne, InBatches], ids=["one by one", "in batches"])
async def test_an_import_that_breaks_off_goes_on_where_it_stopped(tmp_path, kind):
    """What was taken of a long history is not told again after the engine is back."""
    texts = [f"message {number}" for number in range(1100)]
    write_transcript(tmp_path, *texts)
    record = Record()

    class Stumbling(kind):  # type: ignore[misc, valid-type]
        @hookimpl
        def ingest(self, message, is_heartbeat):
            self._stumble()
            return super().ingest(message, is_heartbeat)

        if kind is InBatches:

            @hookimpl
            def ingest_batch(self, messages, is_heartbeat):
                self._stumble()
                return super().ingest_batch(messages, is_heartbeat)

        def _stumble(self) -> None:
            if len(self.record.seen) >= 600:
                message = "stumbled"
                raise RuntimeError(message)

    async with (
        open_host(tmp_path, engines={"recorder": engine_of(Stumbling, record)}) as host,
        host.session("talk") as talk,
    ):
        await talk.assemble()
        taken = len(record.seen)
        host.register_engine("recorder", engine_of(kind, record), refresh=True)
        await talk.assemble()

    assert taken == {OneByOne: 600, InBatches: 1000}[kind]
    assert record.seen == texts
    assert record.reasons == ["import", "catch_up"]


@pytest.mark.parametrize(
    "kind,operation",
    [
        pytest.param(OneByOne, "bootstrap", id="bootstrap, one by one"),
        pytest.param(InBatches, "bootstrap", id="bootstrap, in batches"),
        pytest.param(ByTurn, "bootstrap", id="bootstrap, by turn"),
        pytest.param(OneByOne, "ingest", id="ingest"),
        pytest.param(InBatches, "ingest_batch", id="ingest_batch"),
        pytest.param(ByTurn, "after_turn", id="after_turn"),
    ],
)
async def test_a_failure_that_bars_nobody_loses_nothing(tmp_path, kind, operation):
    """With two failures allowed the engine serves on after one; what it did not take then is told later, in order."""
    record = Record()
    plugins = {"quarantine": {"failures": 2}}
    write_transcript(tmp_path, "one", "two")
    async with (
        open_host(tmp_path, engines={"recorder": engine_of(kind, record)}, plugins=plugins) as host,
        host.session("talk") as talk,
    ):
        await talk.append(UserMessage(content="three"))
        if operation == "bootstrap":
            record.failing = {operation}
        await talk.assemble()
        record.failing = {operation} - {"bootstrap"}
        await talk.append(AssistantMessage(content="four"))
        await talk.end_turn()
        record.failing = set()
        await take_turn(talk, "five", "six")
        await take_turn(talk, "seven")

        assert host.quarantines() == []
    assert record.seen == ["one", "two", "three", "four", "five", "six", "seven"]


@pytest.mark.parametrize("operation", ["bootstrap", "ingest_batch"])
async def test_a_turn_is_not_told_before_the_history_that_it_follows(tmp_path, operation):
    """The engine meets the session at a turn's end and fails once: neither skipped nor told out of order."""
    record = Record(failing={operation})
    write_transcript(tmp_path, "one", "two")
    async with (
        open_host(
            tmp_path, engines={"recorder": engine_of(ByTurn, record)}, plugins={"quarantine": {"failures": 2}}
        ) as host,
        host.session("talk") as talk,
    ):
        await talk.append(UserMessage(content="three"))
        await talk.end_turn()
        record.failing = set()
        await take_turn(talk, "four")

        assert host.quarantines() == []
    assert record.seen == ["one", "two", "three", "four"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_meeting_that_the_caller_gave_up_is_held_again(tmp_path, kind):
    """Cancelling the first assemble while the engine meets the session loses no history: it is met again."""
    write_transcript(tmp_path, "one", "two")
    record, entered = Record(), asyncio.Event()
    here = asyncio.get_running_loop()

    class Slow(kind):  # type: ignore[misc, valid-type]
        @hookimpl
        async def bootstrap(self, reason, previous_session_id):
            if not entered.is_set():
                here.call_soon_threadsafe(entered.set)
                await asyncio.Event().wait()
            self.record.meetings.append((reason, previous_session_id))
            return BootstrapResult(bootstrapped=True)

    async with open_host(tmp_path, engines={"recorder": engine_of(Slow, record)}) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="three"))
        first = asyncio.ensure_future(talk.assemble())
        await entered.wait()
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        await talk.assemble()
        await talk.end_turn()

        assert host.quarantines() == []
    assert record.seen == ["one", "two", "three"]
    assert record.reasons == ["import"]


@pytest.mark.parametrize("kind", [InBatches, ByTurn], ids=["in batches", "by turn"])
async def test_a_turn_s_end_that_the_caller_gave_up_is_told_with_the_next(tmp_path, kind):
    """Cancelling end_turn loses nothing: the engine is told that turn's messages before the next ones."""
    record, entered = Record(), asyncio.Event()
    here = asyncio.get_running_loop()

    class Slow(kind):  # type: ignore[misc, valid-type]
        if kind is ByTurn:

            @hookimpl
            async def after_turn(self, messages, pre_prompt_message_count, is_heartbeat):
                await _hold()
                super().after_turn(messages, pre_prompt_message_count, is_heartbeat)
        else:

            @hookimpl
            async def ingest_batch(self, messages, is_heartbeat):
                await _hold()
                return super().ingest_batch(messages, is_heartbeat)

    async def _hold() -> None:
        if not entered.is_set():
            here.call_soon_threadsafe(entered.set)
            await asyncio.Event().wait()

    async with open_host(tmp_path, engines={"recorder": engine_of(Slow, record)}) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="one"))
        await talk.assemble()
        ending = asyncio.ensure_future(talk.end_turn())
        await entered.wait()
        ending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ending
        await take_turn(talk, "two")
        await take_turn(talk, "three")

        assert host.quarantines() == []
    assert record.seen == ["one", "two", "three"]
