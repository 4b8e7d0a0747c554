"""Old tool results in the requests of a turn, before and after the provider's cache has run out."""

import itertools

from openclaw_ctx import AssistantMessage, Host, Registry, ScriptedModel, ToolCallBlock, ToolResultMessage, UserMessage

_CONFIG = {"agents": {"defaults": {"contextPruning": {"mode": "cache-ttl", "ttl": "1h", "softTrimRatio": 0}}}}


def _results(model):
    return [message.text for message in model.requests[-1].messages if isinstance(message, ToolResultMessage)]


async def test_what_one_request_left_out_is_left_out_of_the_next(tmp_path):
    """The cache holds the shorter prompt then; a longer one would be paid for anew, and would grow back."""
    model = ScriptedModel(itertools.repeat("fine"), provider="anthropic")
    async with (
        Host.open(_CONFIG, state_dir=tmp_path, model=model, registry=Registry()) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="look"))
        await session.append(AssistantMessage(content=(ToolCallBlock(id="c1", name="look", arguments={}),)))
        await session.append(ToolResultMessage(content="word " * 2_000, tool_call_id="c1", tool_name="look"))
        for _ in range(3):
            await session.run("and?")
        standing = host._sessions["talk"].standing
        whole = _results(model)
        standing.last_touch -= 3_600

        await session.run("and an hour later?")
        pruned = _results(model)
        await session.run("and right behind it?")

    assert len(whole[0]) == 10_000
    assert len(pruned[0]) < 4_000
    assert _results(model) == pruned
