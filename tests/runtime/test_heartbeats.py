"""Turns that nobody asked for, run by a host: who is told of it, what they leave behind, what bounds them."""

import asyncio
import itertools

import pytest

from openclaw_ctx import (
    AssistantMessage,
    CompactResult,
    EngineInfo,
    EngineTool,
    ScriptedAnswer,
    ScriptedModel,
    ToolCallBlock,
    UserMessage,
)
from openclaw_ctx.runtime.heartbeat import HEARTBEAT_OK, is_heartbeat
from tests.assembly.plain import engine
from tests.assembly.recording import ByTurn, InBatches, OneByOne, Record, engine_of, open_host

CAP = 64 * 1024
CAPPED = {"agents": {"defaults": {"compaction": {"maxActiveTranscriptBytes": CAP}}}}
KINDS = [pytest.param(kind, id=kind.__doc__.split(".")[0].lower()) for kind in (OneByOne, InBatches, ByTurn)]


def look(chars=600):
    """Return a tool that looks around, and says so much."""
    return EngineTool(name="look", description="Looks.", parameters={}, call=lambda arguments: "quiet " * (chars // 6))


def looking():
    """Return the answers of a model that looks around at each heartbeat, and finds nothing."""
    for number in itertools.count():
        yield ScriptedAnswer(tool_calls=(ToolCallBlock(id=f"c{number}", name="look", arguments={"at": number}),))
        yield HEARTBEAT_OK


@pytest.mark.parametrize("kind", KINDS)
async def test_an_engine_can_tell_a_heartbeat_turn(tmp_path, kind):
    """B70: true of all its messages, those of a tool loop too, and false of the user's next turn."""
    record = Record()
    script = [*itertools.islice(looking(), 2), "hello"]
    async with (
        open_host(tmp_path, engines={"recorder": engine_of(kind, record)}, model=ScriptedModel(script)) as host,
        host.session("talk") as talk,
    ):
        await talk.run("tick", tools=[look(6)], is_heartbeat=True)
        await talk.run("hi")
        await talk.settle()

        assert [is_heartbeat(message) for message in talk.transcript.record()] == [True, *[False] * 5]
    assert list(zip(record.seen, record.flags, strict=True)) == [
        ("tick", True),
        ("", True),
        ("quiet ", True),
        (HEARTBEAT_OK, True),
        ("hi", False),
        ("hello", False),
    ]


async def test_what_came_to_nothing_is_not_sent_again(tmp_path):
    """An idle heartbeat is on record and in no later prompt; one that did something is in all of them."""
    model = ScriptedModel([HEARTBEAT_OK, "Your train is late.", "yes"])
    async with open_host(tmp_path, "legacy", model=model) as host, host.session("talk") as talk:
        await talk.run("tick", is_heartbeat=True)
        await talk.run("tock", is_heartbeat=True)
        await talk.run("really?")

        assert len(talk.history) == 6
    assert [message.text for message in model.requests[-1].messages] == ["tock", "Your train is late.", "really?"]


async def test_a_cap_that_cannot_be_kept_is_warned_of(tmp_path, caplog):
    """B68: an engine that has nothing to compact: every turn is answered, and the log says what is too large."""
    made = engine(compact=lambda self: CompactResult(ok=True, compacted=False, reason="nothing to do"))
    made.info = EngineInfo(id="recorder", name="Recorder")
    async with (
        open_host(tmp_path, engines={"recorder": made}, model=ScriptedModel(looking()), config=CAPPED) as host,
        host.session("talk") as talk,
    ):
        await talk.append(UserMessage(content="word " * (CAP // 4)))
        await talk.append(AssistantMessage(content="noted", stop_reason="stop"))
        before = talk.transcript.path
        result = await talk.run("tick", tools=[look(6)], is_heartbeat=True)

        assert result.text == HEARTBEAT_OK
        assert talk.transcript.path == before
    (warned,) = [message for message in caplog.messages if message.startswith("transcript.too_large")]
    assert f"limit={CAP}" in warned


async def test_a_heartbeat_waits_for_the_user_s_turn(tmp_path):
    """Both are turns of one session: what is said in the one is not in the middle of the other."""
    model = ScriptedModel(["for you", HEARTBEAT_OK])
    async with open_host(tmp_path, "legacy", model=model) as host, host.session("talk") as talk:
        await asyncio.gather(talk.run("hi"), talk.run("tick", is_heartbeat=True))

        assert [message.text for message in talk.history] == ["hi", "for you", "tick", HEARTBEAT_OK]
