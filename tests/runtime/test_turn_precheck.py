"""What a turn does about a prompt that would be too long, before it is sent."""

from openclaw_ctx import AssistantMessage, ToolCallBlock, ToolResultMessage, UserMessage
from openclaw_ctx.runtime import Compacting
from openclaw_ctx.runtime.truncation import is_cut
from tests.runtime.test_turn import talk


async def _read(session, *sizes):
    """Let the model have read so many files of so many characters."""
    for number, size in enumerate(sizes):
        call = ToolCallBlock(id=f"c{number}", name="read", arguments={})
        await session.append(UserMessage(content=f"read file {number}"))
        await session.append(AssistantMessage(content=(call,), stop_reason="toolUse"))
        await session.append(ToolResultMessage(content="word " * (size // 5), tool_call_id=call.id, tool_name="read"))
        await session.append(AssistantMessage(content="done", stop_reason="stop"))


def _results(messages):
    return [message.text for message in messages if isinstance(message, ToolResultMessage)]


async def test_one_long_result_is_short_in_the_request_and_whole_in_the_transcript(tmp_path):
    """A request never holds more of one result than its cap, so that nothing has to be written anew for it."""
    events = []
    async with talk(tmp_path, ["fine"], context_window=200_000) as session:
        await _read(session, 700_000)
        await session.run("and?", on_event=events.append)

        (sent,) = _results(session.model.requests[0].messages)
        assert len(sent) == 64_000
        assert [len(text) for text in _results(session.transcript.record())] == [700_000]
        assert not any(isinstance(event, Compacting) for event in events)


async def test_results_that_are_too_long_together_are_cut_and_nothing_is_compacted(tmp_path):
    """Where cutting them frees half as much again as is too much, the oldest give way, in the transcript."""
    events = []
    async with talk(tmp_path, ["fine"], context_window=200_000) as session:
        await _read(session, *[53_000] * 6)
        await session.run("and?", on_event=events.append)

        sent = _results(session.model.requests[0].messages)
        assert sum(map(len, sent)) <= 64_000
        assert [is_cut(text) for text in sent] == [True] * 5 + [False]
        assert not any(isinstance(event, Compacting) for event in events)
