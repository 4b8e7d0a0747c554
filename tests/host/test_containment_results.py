"""What an engine answers is believed only as far as it can be checked, and what it was given stays as it was."""

import asyncio

import pytest

from openclaw_ctx import AssistantMessage, EngineFailedError, TextBlock, ToolCallBlock, ToolResultMessage, UserMessage


def has(name: str, parameters: str, body: str) -> str:
    """Return an engine with one more hook, plain ``def``."""
    return f"class Engine(Plain):\n    @hookimpl\n    def {name}(self{parameters}):\n        {body}\n"


def assembles(*body: str, before: str = "") -> str:
    """Return an engine whose ``assemble`` has these lines."""
    lines = "\n".join(f"        {line}" for line in body)
    return f"{before}\nclass Engine(Plain):\n    @hookimpl\n    async def assemble(self, messages):\n{lines}\n"


LAZY = """
from collections.abc import Sequence
class Lazy(Sequence):
    def __init__(self, messages): self.messages = messages
    def __len__(self): return len(self.messages)
    def __getitem__(self, index):
        log.append(threading.current_thread().name)
        return self.act(index)
    def act(self, index): return self.messages[index]
class Moody(Lazy):
    def act(self, index): raise LookupError("the index has moved")
class Stuck(Lazy):
    def act(self, index):
        gate.wait()
        return self.messages[index]
"""
SUBCLASSES = """
import attrs
from openclaw_ctx import AssembleResult, ContextProjection, UserMessage
@attrs.frozen(kw_only=True)
class Mine(AssembleResult):
    score: float = 0.5
    def __getattribute__(self, name):
        log.append(threading.current_thread().name)
        return object.__getattribute__(self, name)
class Text(UserMessage):
    @property
    def text(self): raise RuntimeError("not today")
"""

WRONG = {
    "none": ("return None", "None, not AssembleResult"),
    "text": ("return 'hello'", "str, not AssembleResult"),
    "other-result": ("return IngestResult(ingested=True)", "IngestResult, not AssembleResult"),
    "messages-alone": ("return messages", "History, not AssembleResult"),
    "integers": ("return AssembleResult(messages=[1, 2])", "expected messages, and found 1"),
    "texts": ("return AssembleResult(messages=['Hello'])", "expected messages, and found a str"),
    "one-text": ("return AssembleResult(messages='Hello')", "expected a sequence of messages, not a str"),
    "generator": ("return AssembleResult(messages=(m for m in messages))", "not a generator"),
    "nothing": ("return AssembleResult(messages=[])", "no messages, of a history of 1"),
    "text-estimate": (
        "return AssembleResult(messages=messages, estimated_tokens='12')",
        "estimated_tokens: expected int",
    ),
    "true-estimate": ("return AssembleResult(messages=messages, estimated_tokens=True)", "expected int, not True"),
    "number-addition": ("return AssembleResult(messages=messages, system_prompt_addition=5)", "system_prompt_addition"),
    "authority": ("return AssembleResult(messages=messages, prompt_authority='mine')", "prompt_authority"),
    "projection": (
        "return AssembleResult(messages=messages, context_projection=ContextProjection(mode='sometimes'))",
        "ContextProjection.mode",
    ),
    "content-of-integers": ("return AssembleResult(messages=[UserMessage(content=(1, 2))])", "UserMessage.content"),
    "text-of-integer": (
        "return AssembleResult(messages=[UserMessage(content=(TextBlock(text=5),))])",
        "TextBlock.text: expected str, not 5",
    ),
    "call-of-objects": (
        "return {'messages': [AssistantMessage(content=[ToolCallBlock(id='1', name='read', arguments={1: 2})])]}",
        "ToolCallBlock.arguments: a key that is 1",
    ),
    "subclass": ("return AssembleResult(messages=[Text()])", "found a Text"),
    "dict-unknown-key": ("return {'messages': messages, 'estimatedTokens': 3}", "a dict with 'estimatedTokens'"),
    "dict-without": ("return {'estimated_tokens': 3}", "a dict without 'messages'"),
    "dict-wrong-type": ("return {'messages': messages, 'estimated_tokens': None}", "expected int, not None"),
    "dict-wrong-projection": (
        "return {'messages': messages, 'context_projection': {'mode': 'per_turn', 'epoc': '1'}}",
        "a dict with 'epoc', which ContextProjection does not have",
    ),
    "dict-no-message": ("return {'messages': [{'text': 'Hello'}]}", "a message without a 'role'"),
    "dict-odd-content": (
        "return {'messages': [{'role': 'user', 'content': 5}]}",
        "'content' of a message of role 'user'",
    ),
    "dict-keys-are-odd": ("return {1: messages}", "a dict with '1'"),
    "sequence-raises": ("return AssembleResult(messages=Moody(messages))", "LookupError: the index has moved"),
}
ENGINES = {
    **{f"wrong-{name}": assembles(body, before=LAZY + SUBCLASSES) for name, (body, _) in WRONG.items()},
    "dict": assembles(
        "return {'messages': messages, 'estimated_tokens': 12, 'system_prompt_addition': 'Be brief.',",
        "        'context_projection': {'mode': 'thread_bootstrap', 'epoch': '3'}}",
    ),
    "wire": assembles(
        "return {'messages': [{'role': 'compactionSummary', 'summary': 'They met.', 'tokensBefore': 900},",
        "    {'role': 'user', 'content': [{'type': 'text', 'text': 'Hello'}]}, *messages]}",
    ),
    "list": assembles(
        "self.kept = list(messages)", "log.append(self.kept)", "return AssembleResult(messages=self.kept)"
    ),
    "lazy": assembles("return AssembleResult(messages=Lazy(messages))", before=LAZY),
    "stuck": assembles("return AssembleResult(messages=Stuck(messages))", before=LAZY),
    "my-result": assembles("return Mine(messages=messages, score=0.9)", before=SUBCLASSES),
    "over-budget": assembles("return AssembleResult(messages=messages, estimated_tokens=1)"),
}

CHANGES = {
    "pop": "messages.pop()",
    "delete": "del messages[:90]",
    "clear": "messages.clear()",
    "assign": "messages[0] = messages[1]",
    "edit-text": "messages[0].content[0].text = 'something else'",
    "edit-content": "messages[0].content = ()",
    "edit-arguments": "messages[1].content[0].arguments['path'] = '/etc/passwd'",
    "grow-nested-list": "messages[1].content[0].arguments['lines'].append(3)",
    "update-arguments": "messages[1].content[0].arguments.update(path='/')",
    "new-attribute": "messages[0].seen = True",
    "append-block": "messages[0].content += (TextBlock(text='and more'),)",
    "edit-details": "messages[2].details['rows'].sort()",
}
ENGINES |= {
    f"{name}-and-goes-on": assembles(change, "return AssembleResult(messages=messages)")
    for name, change in CHANGES.items()
}
ENGINES |= {
    f"{name}-and-raises": assembles(
        "try:", f"    {change}", "except Exception:", "    pass", "raise ValueError('on top of it')"
    )
    for name, change in CHANGES.items()
}

ENGINES |= {
    "ingest-number": has("ingest", ", message", "return 1"),
    "ingest-text": has("ingest", ", message", "return IngestResult(ingested='yes')"),
    "ingest-mutates": has("ingest", ", message", "message.content = ()"),
    "batch-mutates": has("ingest_batch", ", messages", "messages.pop()"),
    "after-turn-mutates": has("after_turn", ", messages", "messages.pop()"),
    "after-turn-says": has("after_turn", ", messages", "return {'any': 'thing'}"),
    "maintain-lies": has("maintain", "", "return {'changed': 'yes'}"),
    "bootstrap-lies": has("bootstrap", "", "return True"),
    "tools-lie": has("tools", "", "return [{'name': 'search'}]"),
}

COMPACTS = {
    "compact-none": ("return None", "None, not CompactResult"),
    "compact-true": ("return True", "bool, not CompactResult"),
    "compact-summary": (
        "return CompactResult(ok=True, compacted=True, result=Compaction(summary=5))",
        "Compaction.summary: expected str",
    ),
    "compact-details": (
        "return CompactResult(ok=True, compacted=True, result=Compaction(summary='So.', details=object()))",
        "Compaction.details: expected what JSON can say",
    ),
    "compact-foreign-entry": (
        "return {'ok': True, 'compacted': True, 'result': {'summary': 'So.', 'first_kept_entry_id': 'nowhere'}}",
        "not on the active branch",
    ),
}
ENGINES |= {name: has("compact", "", body) for name, (body, _) in COMPACTS.items()}
ENGINES["compact-dict"] = has(
    "compact",
    "",
    "return {'ok': True, 'compacted': True, 'result': {'summary': 'They talked.', 'details': {'turns': 3}}}",
)


@pytest.mark.parametrize("name", [pytest.param(name, id=name.replace("-", " ")) for name in WRONG])
async def test_a_wrong_answer_is_a_fault_and_legacy_answers(open_host, name):
    """The record names what was wrong with it; the turn is answered within the same call."""
    async with open_host(f"wrong-{name}") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble()

        (row,) = host.quarantines()
    assert prompt.engine == "legacy"
    assert [message.text for message in prompt.messages] == ["Hello"]
    assert row.record.operation == "assemble"
    assert WRONG[name][1] in row.record.reason
    assert WRONG[name][1] in prompt.substitution


async def test_a_plain_dict_is_an_answer(open_host):
    """It is structured into the contract's class, what is nested in it too."""
    async with open_host("dict") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble(system_prompt="You are kind.")

        assert host.quarantines() == []
    assert (prompt.engine, prompt.engine_estimate) == ("dict", 12)
    assert prompt.system_prompt == "Be brief.\n\nYou are kind."
    assert (prompt.context_projection.mode, prompt.context_projection.epoch) == ("thread_bootstrap", "3")
    assert [message.text for message in prompt.messages] == ["Hello"]


async def test_messages_in_a_dict_may_be_v3_objects(open_host):
    """They become the contract's messages, beside such as are already."""
    async with open_host("wire") as host, host.session("talk") as session:
        await session.append(UserMessage(content="How are you?"))

        prompt = await session.assemble()
    assert prompt.engine == "wire"
    assert [type(message).__name__ for message in prompt.messages] == [
        "CompactionSummaryMessage",
        "UserMessage",
        "UserMessage",
    ]
    assert [message.text for message in prompt.messages] == ["They met.", "Hello", "How are you?"]


async def test_a_prompt_does_not_change_with_the_engine_s_list(open_host, base):
    """What the engine returned is the host's: a list that it keeps and empties later empties no prompt."""
    async with open_host("list") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))
        prompt = await session.assemble()

        base.log[0].clear()

        assert [message.text for message in prompt.messages] == ["Hello"]


async def test_a_sequence_of_the_engine_s_own_is_read_in_its_lane(open_host, base):
    """Reading it runs the engine's code, which is why no other thread does."""
    async with open_host("lazy") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))
        prompt = await session.assemble()

        assert [message.text for message in prompt.messages] == ["Hello"]

        assert set(base.log) == {"engine-lazy"}
    assert prompt.engine == "lazy"


async def test_a_sequence_that_blocks_is_left_behind_at_the_deadline(open_host):
    """An answer that takes for ever to read is none."""
    async with open_host("stuck", deadlines={"assemble": 0.1}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble()
    assert (prompt.engine, prompt.substitution) == ("legacy", "assemble failed: no answer within 0.1 s")


async def test_a_subclass_of_a_result_is_read_as_its_base_in_the_lane(open_host, base):
    """Reading a field may run the engine's code; what the host holds is the contract's own class."""
    async with open_host("my-result") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble()

        assert host.quarantines() == []
        assert set(base.log) == {"engine-my-result"}
    assert prompt.engine == "my-result"


async def test_a_prompt_over_the_budget_bars_nobody(open_host):
    """It is the engine's, and says that it is over: an engine may count more exactly than the host."""
    async with open_host("over-budget") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello " * 200))

        prompt = await session.assemble(budget=10)

        assert host.quarantines() == []
    assert (prompt.engine, prompt.substitution) == ("over-budget", None)
    assert prompt.over_budget


@pytest.mark.parametrize("name", list(CHANGES))
@pytest.mark.parametrize("then", ["goes-on", "raises"])
async def test_what_an_engine_is_given_cannot_be_changed(open_host, name, then):
    """B24: the attempt is an ordinary fault; legacy has every message as it was, in order, and so has the file."""
    async with open_host(f"{name}-and-{then}") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Read it"))
        call = ToolCallBlock(id="1", name="read", arguments={"path": "a.py", "lines": [1, 2]})
        await session.append(AssistantMessage(content=(call,)))
        await session.append(ToolResultMessage(tool_call_id="1", content="x = 1", details={"rows": [2, 1]}))
        for turn in range(97):
            await session.append(UserMessage(content=f"message {turn}"))
        before, written = list(session.history), session.transcript.path.read_bytes()

        prompt = await session.assemble()

        (row,) = host.quarantines()
        assert list(session.history) == before
        assert session.transcript.path.read_bytes() == written
    assert prompt.engine == "legacy"
    assert list(prompt.messages) == before
    assert prompt.messages[1].content[0].arguments == {"path": "a.py", "lines": [1, 2]}
    assert prompt.messages[0].content == (TextBlock(text="Read it"),)
    assert row.record.operation == "assemble"
    assert ("on top of it" in row.record.reason) == (then == "raises")


@pytest.mark.parametrize(
    "engine_id,operation",
    [
        pytest.param("ingest-number", "ingest", id="ingest answers a number"),
        pytest.param("ingest-text", "ingest", id="ingest answers text for a boolean"),
        pytest.param("ingest-mutates", "ingest", id="ingest edits the message"),
        pytest.param("batch-mutates", "ingest_batch", id="ingest_batch shortens the turn"),
        pytest.param("after-turn-mutates", "after_turn", id="after_turn shortens the history"),
        pytest.param("maintain-lies", "maintain", id="maintain answers text for a boolean"),
        pytest.param("bootstrap-lies", "bootstrap", id="bootstrap answers a boolean"),
    ],
)
async def test_a_fault_at_the_end_of_a_turn_loses_no_message(open_host, engine_id, operation):
    """The host has written the turn already; the next one is answered by legacy."""
    async with open_host(engine_id) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))
        await session.assemble()
        await session.append(AssistantMessage(content="Good morning"))

        ended = await session.end_turn()

        (row,) = host.quarantines()
        prompt = await session.assemble()
    assert (ended.engine, ended.handed_over) == ("legacy", 0)
    assert row.record.operation == operation
    assert [message.text for message in prompt.messages] == ["Hello", "Good morning"]


async def test_what_after_turn_answers_matters_to_nobody(open_host):
    """The contract expects nothing of it."""
    async with open_host("after-turn-says") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        ended = await session.end_turn()

        assert host.quarantines() == []
    assert (ended.engine, ended.handed_over) == ("after-turn-says", 1)


async def test_tools_that_are_incomplete_are_a_fault(open_host):
    """The agent is offered none, and the missing fields are named."""
    async with open_host("tools-lie") as host, host.session("talk") as session:
        assert await session.tools() == ()

        (row,) = host.quarantines()
    assert row.record.operation == "tools"
    assert "a dict without 'description', 'call'" in row.record.reason


@pytest.mark.parametrize("engine_id", list(COMPACTS))
async def test_a_wrong_compaction_reaches_the_caller_and_changes_nothing(open_host, engine_id):
    """B25: nothing of it is written, and legacy does not compact in the same call."""
    async with open_host(engine_id) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello " * 500))
        await session.assemble()
        before = session.transcript.path.read_bytes()

        with pytest.raises(EngineFailedError) as caught:
            await session.compact()

        assert session.transcript.path.read_bytes() == before
        (row,) = host.quarantines()
    assert caught.value.operation == row.record.operation == "compact"
    assert COMPACTS[engine_id][1] in str(caught.value)


async def test_a_compaction_told_as_a_dict_is_written(open_host):
    """Its summary stands for the history from then on."""
    async with open_host("compact-dict") as host, host.session("talk") as session, asyncio.timeout(10):
        await session.append(UserMessage(content="Hello " * 500))

        compacted = await session.compact()

        assert host.quarantines() == []
        assert [message.text for message in session.history] == ["They talked."]
    assert compacted.result.compacted
    assert compacted.result.result.details == {"turns": 3}
