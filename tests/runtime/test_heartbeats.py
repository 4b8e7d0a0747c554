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
from openclaw_ctx.transcript import Transcript, pairs_are_whole
from tests.assembly.plain import engine
from tests.assembly.recording import ByTurn, InBatches, OneByOne, Record, engine_of, open_host

CAP = 64 * 1024
CAPPED = {"agents": {"defaults": {"compaction": {"maxActiveTranscriptBytes": CAP}}}}
BEATS = 500
WINDOW = 32_000
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


@pytest.mark.parametrize(
    "slot,beats,instructions",
    [
        pytest.param("legacy", BEATS, "", id="legacy"),
        pytest.param("recorder", 120, "", id="an engine that delegates"),
        pytest.param("legacy", 120, "Mind the clock. " * 1_000, id="legacy behind long instructions"),
    ],
)
async def test_five_hundred_heartbeats_keep_to_the_size_of_the_file(tmp_path, slot, beats, instructions):
    """B68: whatever began the turn, a file over the cap is compacted and left: none outgrows the cap by a turn."""
    largest, files = 0, set()
    model, summaries = ScriptedModel(looking()), ScriptedModel(itertools.repeat("All was quiet."))

    async def compact(self, session_key, token_budget):
        return await self.services.delegate_compaction(session_key, token_budget=token_budget, force=True)

    made = engine(compact=compact)
    made.info = EngineInfo(id="recorder", name="Recorder")
    async with (
        open_host(
            tmp_path,
            slot,
            engines={"recorder": made},
            model=model,
            summary_model=summaries,
            config=CAPPED,
        ) as host,
        host.session("talk") as talk,
    ):
        for number in range(beats):
            result = await talk.run(
                f"tick {number}",
                tools=[look()],
                is_heartbeat=True,
                context_window=WINDOW,
                system_prompt=instructions or None,
            )
            assert result.text == HEARTBEAT_OK
            largest = max(largest, talk.transcript.path.stat().st_size)
            files.add(talk.transcript.path)
        await talk.settle()
        assert talk.history[-4].text == f"tick {beats - 1}"
        assert host.quarantines() == []

    assert largest < CAP + 8 * 1024
    assert len(files) > 1 + beats // 120
    for path in files:
        read = Transcript.read(path)
        assert pairs_are_whole(tuple(read.history))
        read.close()


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
