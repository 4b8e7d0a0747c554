"""What says nothing, and what lost its other half, reaches no model and stops no turn, whoever assembles."""

import json
from typing import Any

import attrs
import pytest

from openclaw_ctx import (
    AssembleResult,
    AssistantMessage,
    Compaction,
    CompactionSummaryMessage,
    CompactResult,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.tokens import estimate_tokens
from openclaw_ctx.transcript import Transcript, pairs_are_whole
from openclaw_ctx.transcript.pairing import MISSING_RESULT
from tests.assembly.plain import Plain, assembling, engine, texts
from tests.assembly.recording import open_host
from tests.assembly.transcripts import transcript_path

ENGINES = {
    "legacy": ("legacy", {}),
    "the test's own, all of it": ("recorder", {"recorder": Plain}),
    "the test's own, made anew": (
        "recorder",
        {"recorder": assembling(lambda messages: AssembleResult(messages=[*messages]))},
    ),
}
each_engine = pytest.mark.parametrize("slot,engines", ENGINES.values(), ids=ENGINES)


def calls(*call_ids: str) -> AssistantMessage:
    """Return a reply that calls tools."""
    return AssistantMessage(content=[ToolCallBlock(id=one, name="read") for one in call_ids], stop_reason="toolUse")


def result(call_id: str, text: str = "") -> ToolResultMessage:
    """Return a tool's answer."""
    return ToolResultMessage(tool_call_id=call_id, tool_name="read", content=text)


def asked(text: str) -> UserMessage:
    """Return a question."""
    return UserMessage(content=text)


# -- empty messages ------------------------------------------------------------------------------------------------


@each_engine
@pytest.mark.parametrize(
    "empty",
    [
        pytest.param(AssistantMessage(content=[], stop_reason="error", error_message="503"), id="stopped-by-an-error"),
        pytest.param(AssistantMessage(content=[TextBlock(text="")]), id="one-empty-text-block"),
        pytest.param(AssistantMessage(content=[ThinkingBlock(thinking="hm", signature="s")]), id="a-thought-alone"),
        pytest.param(AssistantMessage(), id="no-content"),
    ],
)
async def test_an_empty_reply_is_left_out_and_stays_on_record(tmp_path, slot, engines, empty: AssistantMessage) -> None:
    """B72: the next request goes through, the prompt says what was left out, and the error can still be read."""
    async with open_host(tmp_path, slot, engines=engines) as host, host.session("talk") as session:
        for message in (asked("one"), empty, asked("two")):
            await session.append(message)
        prompt = await session.assemble()

        assert texts(prompt.messages) == ["one", "two"]
        assert prompt.repairs == ("1 empty message left out",)
        assert prompt.estimated_tokens == estimate_tokens.total([asked("one"), asked("two")])
        assert session.transcript.record()[1].error_message == empty.error_message
        assert (prompt.engine, host.quarantines()) == (slot, [])


@each_engine
async def test_a_message_without_a_content_field_crashes_nothing(tmp_path, slot, engines) -> None:
    """B72: as another program left it on disk: it counts as empty, and its line stays as it was."""
    path = transcript_path(tmp_path)
    bodies = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "stopReason": "error", "errorMessage": "503"},
        {"role": "assistant", "content": None},
        {"role": "user"},
    ]
    lines = [
        {"type": "message", "id": f"e{n}", "parentId": f"e{n - 1}" if n else None, "message": body}
        for n, body in enumerate(bodies)
    ]
    Transcript.open(path).close()
    path.write_text("".join(json.dumps(one) + "\n" for one in ({"type": "session", "version": 3, "id": "s"}, *lines)))
    before = path.read_bytes()

    async with open_host(tmp_path, slot, engines=engines) as host, host.session("talk") as session:
        prompt = await session.assemble()

        assert texts(prompt.messages) == ["one", "(continue)"]
        assert prompt.repairs == ("2 empty message left out", "1 blank user message sent as (continue)")
        assert path.read_bytes() == before
        assert host.quarantines() == []


@each_engine
async def test_an_empty_result_stays_for_its_call(tmp_path, slot, engines) -> None:
    """B72: its call needs it, so it goes out with a placeholder; the record keeps what the tool gave back."""
    async with open_host(tmp_path, slot, engines=engines) as host, host.session("talk") as session:
        for message in (asked("go"), calls("a"), result("a")):
            await session.append(message)
        prompt = await session.assemble()

        assert texts(prompt.messages) == ["go", "", "(no output)"]
        assert prompt.messages[:2] == tuple(session.history[:2])
        assert prompt.repairs == ("1 empty tool result sent as (no output)",)
        assert texts(session.transcript.record()) == ["go", "", ""]


@each_engine
async def test_a_blank_question_asks_to_continue(tmp_path, slot, engines) -> None:
    """A turn without words is a turn: it is answered, once, under the entry that asked."""
    async with open_host(tmp_path, slot, engines=engines) as host, host.session("talk") as session:
        for message in (asked("one"), AssistantMessage(content="well"), asked("  ")):
            await session.append(message)
        prompt = await session.assemble()

        assert texts(prompt.messages) == ["one", "well", "(continue)"]
        assert prompt.messages[2].entry_id == session.history[2].entry_id
        assert prompt.repairs == ("1 blank user message sent as (continue)",)


async def test_a_blank_question_that_an_engine_left_out_is_restored(tmp_path) -> None:
    """An engine that drops what is blank: the turn's message is put back as one that a provider takes."""
    engines = {"recorder": assembling(lambda m: AssembleResult(messages=[one for one in m if one.text.strip()]))}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        for message in (asked("one"), AssistantMessage(content="well"), asked("")):
            await session.append(message)
        prompt = await session.assemble()

        assert host.quarantines() == []
    assert texts(prompt.messages) == ["one", "well", "(continue)"]
    assert prompt.repairs == ("the turn's user message restored",)


@each_engine
async def test_a_picture_without_words_is_sent_as_it_is(tmp_path, slot, engines) -> None:
    """Nothing is put into the user's mouth, and the blank beside the picture goes."""
    picture = ImageBlock(data="aGk=", mime_type="image/png")
    async with open_host(tmp_path, slot, engines=engines) as host, host.session("talk") as session:
        await session.append(UserMessage(content=[TextBlock(text=""), picture]))
        prompt = await session.assemble()

    assert prompt.messages[0].content == (picture,)
    assert prompt.repairs == ("1 blank text block removed",)


@each_engine
async def test_every_later_request_goes_through(tmp_path, slot, engines) -> None:
    """B72: a session that holds every kind of empty message goes on for turns, after it was opened again too."""
    empties = [
        AssistantMessage(stop_reason="error"),
        AssistantMessage(content=" "),
        AssistantMessage(content=[ThinkingBlock(thinking="hm")]),
    ]
    async with open_host(tmp_path, slot, engines=engines) as host:
        for number, empty in enumerate(empties):
            async with host.session("talk") as session:
                await session.append(asked(f"question {number}"))
                await session.append(empty)
                await session.append(calls(f"c{number}"))
                await session.append(result(f"c{number}"))
                prompt = await session.assemble()
                await session.append(AssistantMessage(content=f"answer {number}"))
                await session.end_turn()
            assert pairs_are_whole(prompt.messages)
            assert not any(says_nothing(message) for message in prompt.messages)
            assert len(prompt.messages) == 4 * number + 3
        assert host.quarantines() == []


def says_nothing(message: Any) -> bool:
    """Return whether a provider would refuse a message for what it lacks."""
    return not message.text.strip() and not getattr(message, "tool_calls", ())


async def test_empty_messages_alone_are_an_engine_s_fault(tmp_path) -> None:
    """There is something to send, and the engine sent none of it: legacy answers."""
    engines = {"recorder": assembling(lambda messages: AssembleResult(messages=messages[:1]))}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        await session.append(AssistantMessage(stop_reason="error"))
        await session.append(AssistantMessage(content="hello"))
        prompt = await session.assemble()

        (row,) = host.quarantines()
    assert (prompt.engine, texts(prompt.messages)) == ("legacy", ["hello"])
    assert "empty messages alone" in row.record.reason


# -- a cut inside a group ------------------------------------------------------------------------------------------


async def parallel(session: Any) -> list[Message]:
    """Append a long conversation, then a question, ten parallel calls and their results of about 100 tokens each."""
    for number in range(6):
        await session.append(asked(f"question {number}: " + "please " * 120))
        await session.append(AssistantMessage(content=f"answer {number}: " + "certainly " * 120))
    await session.append(asked("ten at once"))
    group = [calls(*(f"t{n}" for n in range(10))), *(result(f"t{n}", f"out {n} " + "word " * 75) for n in range(10))]
    return [await session.append(message) for message in group]


@pytest.mark.parametrize("budget", [800, 1200, 1700, 2300, 3000, 4000])
async def test_a_cut_inside_parallel_calls_keeps_the_group_whole(tmp_path, budget: int) -> None:
    """B01: wherever the budget would cut, the call keeps all of its ten results, and nothing needs mending."""
    async with open_host(tmp_path, "legacy") as host, host.session("talk") as session:
        group = await parallel(session)
        done = await session.compact(budget=budget)
        prompt = await session.assemble()

        assert done.result.compacted
        assert isinstance(prompt.messages[0], CompactionSummaryMessage)
        assert not isinstance(prompt.messages[1], ToolResultMessage)
        assert list(prompt.messages) == list(session.history)
        assert list(session.history[-11:]) == group
        assert prompt.repairs == ()
        assert done.result.result.tokens_after == prompt.estimated_tokens == estimate_tokens.total(prompt.messages)


async def test_an_engine_that_keeps_the_last_six_sends_no_loose_result(tmp_path) -> None:
    """B01: what its cut tore apart is mended and told; the first message kept is never a result."""
    engines = {"recorder": assembling(lambda messages: AssembleResult(messages=messages[-6:]))}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        await parallel(session)
        prompt = await session.assemble()

        assert host.quarantines() == []
    assert texts(prompt.messages) == ["ten at once"]
    assert prompt.repairs == ("6 tool result without its call dropped", "the turn's user message restored")
    assert prompt.estimated_tokens == estimate_tokens.total(prompt.messages)


def keeping(position: int) -> Any:
    """Return a class of engines whose compaction keeps the record from a message on."""

    async def compact(self, session_key):
        record = await self.services.transcript.read(session_key)
        made = Compaction(summary="What was said.", first_kept_entry_id=record[position].entry_id)
        return CompactResult(ok=True, compacted=True, result=made)

    return engine(compact=compact)


async def answered_by_the_host(session: Any) -> None:
    """Append a call, the placeholder for its result that a host made, and a turn behind them."""
    await session.append(asked("one: " + "please " * 300))
    await session.append(calls("a"))
    await session.append(attrs.evolve(result("a", MISSING_RESULT), is_error=True))
    await session.append(asked("two"))
    await session.append(AssistantMessage(content="well"))


async def test_a_placeholder_that_outlived_its_call_is_dropped(tmp_path) -> None:
    """B02: an engine's compaction keeps from the result on: the model sees no result, and tokens are those it sees."""
    async with open_host(tmp_path, engines={"recorder": keeping(2)}) as host, host.session("talk") as session:
        await answered_by_the_host(session)
        done = await session.compact()
        prompt, again = await session.assemble(), await session.assemble()

        assert done.result.compacted
        assert host.quarantines() == []
    assert texts(prompt.messages) == ["What was said.", "two", "well"]
    assert prompt.repairs == again.repairs == ("1 tool result without its call dropped",)
    assert prompt.estimated_tokens == estimate_tokens.total(prompt.messages)
    assert list(again.messages) == list(prompt.messages)


@pytest.mark.parametrize("position", [1, 3], ids=["from-the-call-on", "from-the-next-question-on"])
async def test_a_tail_of_whole_pairs_is_sent_as_it_is(tmp_path, position: int) -> None:
    """B02: a placeholder with its call is a pair like any other: what is sent is what was kept, and tokens agree."""
    async with open_host(tmp_path, engines={"recorder": keeping(position)}) as host, host.session("talk") as session:
        await answered_by_the_host(session)
        kept = list(session.history[position:])
        done = await session.compact()
        prompt = await session.assemble()

        assert host.quarantines() == []
    assert list(prompt.messages[1:]) == kept
    assert prompt.repairs == ()
    assert done.result.result.tokens_after == prompt.estimated_tokens


# -- standing instructions -----------------------------------------------------------------------------------------


def last(count: int) -> Any:
    """Return a class of engines that keep the newest *count* messages."""
    return assembling(lambda messages: AssembleResult(messages=messages[len(messages) - count :]))


@pytest.mark.parametrize("keep,engine_id", [(5, "recorder"), (1, "recorder"), (0, "legacy")])
async def test_the_system_prompt_is_there_once_however_little_is_kept(tmp_path, keep: int, engine_id: str) -> None:
    """B73: it is no message that an engine could trim; an engine that keeps nothing is stood in for."""
    async with open_host(tmp_path, engines={"recorder": last(keep)}) as host, host.session("talk") as session:
        for number in range(20):
            await session.append(asked(f"U{number}"))
            await session.append(AssistantMessage(content=f"A{number}"))
        prompt = await session.assemble(system_prompt="S")

    kept = [f"{who}{number}" for number in range(20) for who in "UA"][-keep:]
    expected = kept if "U19" in kept else ["U19", *kept]
    assert (prompt.engine, prompt.system_prompt) == (engine_id, "S")
    assert texts(prompt.messages) == expected


async def test_what_follows_the_system_prompt_is_never_a_tool_result(tmp_path) -> None:
    """B73: the newest five begin with a result: it is gone, and the rest is there."""
    async with open_host(tmp_path, engines={"recorder": last(5)}) as host, host.session("talk") as session:
        for message in (asked("one"), calls("a"), result("a", "out"), asked("two"), AssistantMessage(content="three")):
            await session.append(message)
        for message in (asked("four"), AssistantMessage(content="five")):
            await session.append(message)
        prompt = await session.assemble(system_prompt="S")

        assert host.quarantines() == []
    assert texts(prompt.messages) == ["two", "three", "four", "five"]
    assert (prompt.system_prompt, prompt.repairs) == ("S", ("1 tool result without its call dropped",))


@pytest.mark.parametrize("budget", [500, 1000, 3000])
async def test_a_native_compaction_leaves_the_system_prompt_and_no_loose_result(tmp_path, budget: int) -> None:
    """B73: behind the summary comes no tool result, wherever the cut fell."""
    async with open_host(tmp_path, "legacy") as host, host.session("talk") as session:
        for number in range(8):
            await session.append(asked(f"question {number}: " + "please " * 60))
            await session.append(calls(f"c{number}"))
            await session.append(result(f"c{number}", "word " * 120))
            await session.append(AssistantMessage(content=f"answer {number}"))
        await session.compact(budget=budget)
        prompt = await session.assemble(budget=budget, system_prompt="S")

        assert isinstance(prompt.messages[0], CompactionSummaryMessage)
        assert list(prompt.messages) == list(session.history)
    assert prompt.system_prompt == "S"
    assert pairs_are_whole(prompt.messages)
    assert prompt.repairs == ()
