"""What the model sees is within what was asked for, whole, and told where it was mended."""

import pytest

from openclaw_ctx import (
    AssembleResult,
    AssistantMessage,
    CompactionSummaryMessage,
    ContextProjection,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.tokens import estimate_tokens
from tests.assembly.plain import Plain, assembling, engine, fill, texts
from tests.assembly.recording import open_host

# -- assemble: budget and checks -----------------------------------------------------------------------------------


async def test_the_budget_of_the_messages_leaves_room_for_prompt_and_tools(tmp_path):
    """An engine is told what is left for messages; the estimate counts all three, the engine's addition too."""
    budgets = []
    tools = [{"name": "grep", "description": "search " * 50, "parameters": {"type": "object"}}]
    system_prompt = "Be brief. " * 40

    def assemble(self, messages, token_budget):
        budgets.append(token_budget)
        return AssembleResult(messages=messages, system_prompt_addition="Mind the gap. " * 20, estimated_tokens=5)

    async with (
        open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello " * 100))
        bare = await session.assemble(budget=4000)
        full = await session.assemble(budget=4000, system_prompt=system_prompt, tools=tools)
        free = await session.assemble()

    overhead = estimate_tokens.prompt(system_prompt, tools)
    addition = estimate_tokens.prompt("Mind the gap. " * 20)
    messages = estimate_tokens.total(full.messages)
    assert budgets == [4000, 4000 - overhead, None]
    assert bare.estimated_tokens == messages + addition
    assert full.estimated_tokens == messages + addition + overhead
    assert full.system_prompt == "Mind the gap. " * 20 + "\n\n" + system_prompt
    assert bare.system_prompt == "Mind the gap. " * 20
    assert (full.engine_estimate, full.budget, full.over_budget) == (5, 4000, False)
    assert (free.budget, free.over_budget) == (None, False)


async def test_an_engine_is_never_told_of_less_than_one_token(tmp_path):
    """A system prompt that is larger than the budget leaves one token, and the prompt says that it is over."""
    budgets = []

    def assemble(self, messages, token_budget):
        budgets.append(token_budget)
        return AssembleResult(messages=messages)

    async with (
        open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        prompt = await session.assemble(budget=10, system_prompt="word " * 400)

        assert host.quarantines() == []
    assert budgets == [1]
    assert prompt.over_budget is True


async def test_a_prompt_over_the_budget_is_reported_and_bars_nobody(tmp_path):
    """An engine may count more exactly than the host: it serves on."""
    async with (
        open_host(tmp_path, engines={"recorder": Plain}) as host,
        host.session("talk") as session,
    ):
        await fill(session)
        prompts = [await session.assemble(budget=1000) for _ in range(3)]

        assert host.quarantines() == []
    assert {(prompt.engine, prompt.over_budget) for prompt in prompts} == {("recorder", True)}
    assert prompts[0].estimated_tokens > 1000


@pytest.mark.parametrize("copied", [True, False], ids=["a new list", "the host's own sequence"])
async def test_a_loose_tool_result_is_repaired_and_no_fault(tmp_path, copied):
    """B03: the prompt has no result without its call, the repair is told, the engine is not quarantined."""
    loose = ToolResultMessage(tool_call_id="gone", tool_name="run", content="orphan")

    def result(messages):
        return AssembleResult(messages=[loose, messages[-1]] if copied else messages)

    async with open_host(tmp_path, engines={"recorder": assembling(result)}) as host, host.session("talk") as session:
        if not copied:
            await session.append(loose)
        await session.append(UserMessage(content="what now?"))
        prompt = await session.assemble()

        assert host.quarantines() == []
    assert texts(prompt.messages) == ["what now?"]
    assert prompt.engine == "recorder"
    assert prompt.repairs == ("1 tool result without its call dropped",)


async def test_a_call_without_its_result_gets_one(tmp_path):
    """An engine that dropped the results of a call is mended: a provider would refuse the prompt."""
    call = ToolCallBlock(id="c1", name="run")

    def result(messages):
        return AssembleResult(messages=[m for m in messages if not isinstance(m, ToolResultMessage)])

    async with open_host(tmp_path, engines={"recorder": assembling(result)}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="go"))
        await session.append(AssistantMessage(content=(call,)))
        await session.append(ToolResultMessage(tool_call_id="c1", content="done"))
        prompt = await session.assemble()

    assert [type(message) for message in prompt.messages] == [UserMessage, AssistantMessage, ToolResultMessage]
    assert prompt.messages[2].is_error is True
    assert prompt.repairs == ("1 missing tool result added",)


@pytest.mark.parametrize("empty", [(), []], ids=["a tuple", "a list"])
async def test_no_messages_at_all_is_a_fault(tmp_path, empty):
    """Legacy answers with the whole context, and the engine is quarantined."""
    engines = {"recorder": assembling(lambda messages: AssembleResult(messages=empty))}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        await session.append(UserMessage(content="what now?"))
        prompt = await session.assemble()

        (row,) = host.quarantines()
    assert (prompt.engine, texts(prompt.messages)) == ("legacy", ["what now?"])
    assert (row.record.operation, "no messages" in row.record.reason) == ("assemble", True)


async def test_an_empty_session_may_be_assembled(tmp_path):
    """Of nothing comes nothing, and that is no fault."""
    async with open_host(tmp_path, engines={"recorder": Plain}) as host, host.session("talk") as session:
        prompt = await session.assemble()

        assert host.quarantines() == []
    assert (prompt.engine, list(prompt.messages), prompt.estimated_tokens) == ("recorder", [], 0)


@pytest.mark.parametrize(
    "keep,expected",
    [
        pytest.param(lambda m: [m[0], m[1]], ["one", "two", "three"], id="only what came before"),
        pytest.param(lambda m: m[:2], ["one", "two", "three"], id="a slice of the host's own"),
        pytest.param(lambda m: [m[1], m[3]], ["two", "three", "four"], id="all around it"),
        pytest.param(
            lambda m: [CompactionSummaryMessage(summary="so far")], ["so far", "three"], id="a summary of its own"
        ),
        pytest.param(lambda m: [UserMessage(content="invented")], ["invented", "three"], id="another user's message"),
    ],
)
async def test_the_user_s_message_is_restored(tmp_path, keep, expected):
    """A prompt without the question that is to be answered gets it back in its place; that is told, and no fault."""
    engines = {"recorder": assembling(lambda messages: AssembleResult(messages=keep(messages)))}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        for text, kind in [
            ("one", UserMessage),
            ("two", AssistantMessage),
            ("three", UserMessage),
            ("four", AssistantMessage),
        ]:
            await session.append(kind(content=text))
        prompt = await session.assemble()

        assert host.quarantines() == []
    assert texts(prompt.messages) == expected
    assert prompt.repairs == ("the turn's user message restored",)


async def test_an_earlier_message_of_the_same_words_is_not_the_question(tmp_path):
    """The user said the same before: the older message does not stand for the one to be answered."""
    engines = {"recorder": assembling(lambda messages: AssembleResult(messages=messages[:2]))}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        await session.append(UserMessage(content="continue"))
        await session.append(AssistantMessage(content="done"))
        await session.append(UserMessage(content="continue"))
        prompt = await session.assemble()

    assert texts(prompt.messages) == ["continue", "done", "continue"]


async def test_what_an_engine_asks_of_the_host_reaches_the_caller(tmp_path):
    """Prompt authority and projection are passed on as the engine said them."""
    projection = ContextProjection(mode="thread_bootstrap", epoch="7")

    def result(messages):
        return AssembleResult(
            messages=messages, prompt_authority="preassembly_may_overflow", context_projection=projection
        )

    async with open_host(tmp_path, engines={"recorder": assembling(result)}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="hello"))
        prompt = await session.assemble()

    assert (prompt.prompt_authority, prompt.context_projection) == ("preassembly_may_overflow", projection)


async def test_the_prompt_for_retrieval_is_the_last_user_message_unless_given(tmp_path):
    """An engine that retrieves is told what was asked; behind an answer nothing is being asked."""
    asked = []

    def assemble(self, messages, prompt):
        asked.append(prompt)
        return AssembleResult(messages=messages)

    async with (
        open_host(tmp_path, engines={"recorder": engine(assemble=assemble)}) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="where is it?"))
        await session.assemble()
        await session.assemble(prompt="another wording")
        await session.append(AssistantMessage(content="there"))
        await session.assemble()

    assert asked == ["where is it?", "another wording", None]
