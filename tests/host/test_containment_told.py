"""An engine is told of everything, whoever gave up halfway."""

import asyncio
from types import ModuleType

import pytest

from openclaw_ctx import UserMessage

ENGINES = {
    "boot": """
class Engine(Plain):
    @hookimpl
    async def bootstrap(self, reason):
        log.append(reason)
        if len(log) == 1:
            entered.set()
            await asyncio.Event().wait()
        return BootstrapResult(bootstrapped=True)
    @hookimpl
    def ingest(self, message):
        log.append(message.text)
        return IngestResult(ingested=True)
""",
    "turns": """
class Engine(Plain):
    @hookimpl
    async def after_turn(self, messages, pre_prompt_message_count):
        if not entered.is_set():
            entered.set()
            await asyncio.Event().wait()
        log.append([m.text for m in messages[pre_prompt_message_count:]])
    @hookimpl
    def ingest(self, message):
        log.append(message.text)
        return IngestResult(ingested=True)
""",
    "fails-once": """
class Engine(Plain):
    @hookimpl
    async def after_turn(self, messages, pre_prompt_message_count):
        if not entered.is_set():
            entered.set()
            raise ValueError("once")
        log.append([m.text for m in messages[pre_prompt_message_count:]])
    @hookimpl
    def ingest(self, message):
        log.append(message.text)
        return IngestResult(ingested=True)
""",
}


async def test_a_bootstrap_that_the_caller_gave_up_is_begun_again(open_host, base: ModuleType) -> None:
    """Decision 7: the next call introduces the session anew, and hands over what there is."""
    async with open_host("boot") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))
        call = asyncio.ensure_future(session.assemble())
        await asyncio.to_thread(base.entered.wait, 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        await session.assemble()

        assert base.log == ["new", "new"]


async def test_a_turn_whose_end_the_caller_gave_up_is_told_as_missed(open_host, base: ModuleType) -> None:
    """Decision 7: the turn is not lost to the engine, and comes before the next one."""
    async with open_host("turns") as host, host.session("talk") as session:
        await session.append(UserMessage(content="one"))
        call = asyncio.ensure_future(session.end_turn())
        await asyncio.to_thread(base.entered.wait, 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await session.append(UserMessage(content="two"))

        await session.end_turn()

        assert base.log == ["one", ["two"]]


async def test_a_turn_that_a_forgiven_failure_cost_is_told_as_missed(open_host, base: ModuleType) -> None:
    """A policy that forgives a failure must not leave a gap in the engine's index."""
    async with open_host("fails-once", quarantine={"failures": 3}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="one"))
        await session.end_turn()
        await session.append(UserMessage(content="two"))

        await session.end_turn()

        assert base.log == ["one", ["two"]]
