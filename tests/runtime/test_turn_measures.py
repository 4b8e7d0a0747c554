"""How full a turn takes the context to be, behind a compaction too."""

import pytest

from openclaw_ctx import AssistantMessage, ScriptedAnswer, UserMessage
from openclaw_ctx.models import TokenUsage
from openclaw_ctx.runtime import Compacting
from tests.runtime.test_turn import fill, talk

_WINDOW = 30_000
_CONFIG = {"agents": {"defaults": {"compaction": {"keepRecentTokens": 1_000}}}}


def _measured(tokens):
    return ScriptedAnswer(text="fine", usage=TokenUsage(input=tokens))


async def _compactions(session, said):
    events = []
    await session.run(said, on_event=events.append)
    return [event.trigger for event in events if isinstance(event, Compacting)]


@pytest.mark.parametrize("reopened", [False, True], ids=["in one process", "in another process"])
async def test_what_the_provider_counted_behind_a_compaction_counts(tmp_path, reopened):
    """An answer since then measured the prompt as it is; the estimate would have found room."""
    script = [_measured(25_000), "fine"]
    async with talk(tmp_path, script, config=_CONFIG, context_window=_WINDOW) as session:
        await fill(session, turns=6, chars=2_000)
        assert (await session.compact()).result.compacted
        assert await _compactions(session, "and now?") == []
        if not reopened:
            assert await _compactions(session, "and then?") == ["budget"]
            return
    async with talk(tmp_path, ["fine"], config=_CONFIG, context_window=_WINDOW) as session:
        assert await _compactions(session, "and then?") == ["budget"]


async def test_what_it_counted_before_a_compaction_does_not(tmp_path):
    """What was kept measured a prompt that is gone: a turn behind a compaction makes no second one."""
    async with talk(tmp_path, ["fine"], config=_CONFIG, context_window=_WINDOW) as session:
        await fill(session, turns=6, chars=2_000)
        await session.append(UserMessage(content="how much?"))
        await session.append(AssistantMessage(content="much", stop_reason="stop", usage={"totalTokens": 25_000}))
        assert (await session.compact()).result.compacted
        assert session.transcript.history[-1].text == "much"

        assert await _compactions(session, "and now?") == []
