"""A provider that refuses a signature of thinking is asked again without it, once."""

import pytest

from openclaw_ctx import AssistantMessage, ModelRejectedError, TextBlock, ThinkingBlock, UserMessage
from openclaw_ctx.runtime import ModelRetried
from tests.runtime.test_turn import talk

REFUSED = ModelRejectedError("scripted", "scripted-1", "messages.1.content.0: Invalid `signature` in `thinking` block")


async def _think(session):
    await session.append(UserMessage(content="think"))
    await session.append(
        AssistantMessage(
            content=(ThinkingBlock(thinking="hm", signature="c2ln"), TextBlock(text="thought")),
            provider="scripted",
            model="scripted-1",
        )
    )


def _signatures(request):
    return [block.signature for m in request.messages for block in m.content if isinstance(block, ThinkingBlock)]


async def test_it_is_asked_again_without_the_signatures(tmp_path):
    """The thought stays, and the session as it is on record; later turns are not refused again."""
    events = []
    async with talk(tmp_path, [REFUSED, "fine", "fine again"]) as session:
        await _think(session)
        result = await session.run("and?", on_event=events.append)
        await session.run("and again?")

        assert result.text == "fine"
        assert [_signatures(request) for request in session.model.requests] == [["c2ln"], [None], [None]]
        assert [event.seconds for event in events if isinstance(event, ModelRetried)] == [0.0]
        assert session.waits.seconds == []
        assert session.transcript.record()[1].content[0].signature == "c2ln"


async def test_what_was_signed_since_keeps_its_signature(tmp_path):
    """The provider made it in answer to what it takes; some refuse a call's result without it."""
    async with talk(tmp_path, [REFUSED, "fine", "fine again"]) as session:
        await _think(session)
        await session.run("and?")
        await _think(session)
        await session.run("and again?")

        assert _signatures(session.model.requests[-1]) == [None, "c2ln"]


@pytest.mark.parametrize("thinks", [True, False], ids=["again", "without any"])
async def test_a_second_refusal_is_the_end(tmp_path, thinks):
    """Nothing is left to take away."""
    async with talk(tmp_path, [REFUSED] * 3) as session:
        if thinks:
            await _think(session)
        with pytest.raises(ModelRejectedError):
            await session.run("and?")

        assert len(session.model.requests) == 1 + thinks
