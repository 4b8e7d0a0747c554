"""An engine is given the parameters that it names, and no others."""
# ruff: noqa: D102 -- what a hook does is in the contract; what an engine under test does, in its class

import attrs
import pytest

from openclaw_ctx import (
    AssembleResult,
    CompactResult,
    EngineInfo,
    IngestResult,
    Registry,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.host import HOOKS
from tests.assembly.recording import open_host

ASKED = UserMessage(content="What is left of the budget?")


class Modest:
    """Names two parameters of assemble, and one of compact."""

    info = EngineInfo(id="modest", name="Modest")

    def __init__(self, context):
        self.given = []

    @hookimpl
    def ingest(self):
        return IngestResult(ingested=True)

    @hookimpl
    def assemble(self, session_id, messages):
        self.given.append(dict(locals()))
        return AssembleResult(messages=messages)

    @hookimpl
    async def compact(self, session_file):
        self.given.append(dict(locals()))
        return CompactResult(ok=True, compacted=False)


class Greedy:
    """Names every parameter of assemble and compact."""

    info = EngineInfo(id="greedy", name="Greedy")

    def __init__(self, context):
        self.given = []

    @hookimpl
    def ingest(self, session_id, session_key, message, is_heartbeat):
        return IngestResult(ingested=True)

    @hookimpl
    def assemble(
        self, session_id, session_key, messages, token_budget, available_tools, citations_mode, model, prompt,
        runtime_settings, runtime_context,
    ):  # fmt: skip
        self.given.append(dict(locals()))
        return AssembleResult(messages=messages)

    @hookimpl
    def compact(
        self, session_id, session_key, session_file, token_budget, force, force_reason, current_token_count,
        compaction_target, custom_instructions, runtime_settings, runtime_context, abort_signal,
    ):  # fmt: skip
        self.given.append(dict(locals()))
        return CompactResult(ok=True, compacted=False)


async def _calls_of(kind, tmp_path):
    """Return what assemble and compact of an engine were given, each as parameter to value."""
    built = []
    engines = {"engine": lambda context: built.append(kind(context)) or built[0]}
    async with open_host(tmp_path, "engine", engines=engines) as host, host.session("talk") as session:
        await session.append(ASKED)
        prompt = await session.assemble(
            budget=4000,
            model="m-1",
            citations_mode="inline",
            tools=[{"name": "grep"}, {"name": "read"}],
            system_prompt="Be brief.",
        )
        assert prompt.substitution is None
        await session.compact(budget=3000, focus="the budget")
        (engine,) = built
        return [{name: value for name, value in given.items() if name != "self"} for given in engine.given]


async def test_only_the_parameters_that_an_engine_names_reach_it(tmp_path):
    """HP1: assemble and compact get what their signatures name, and nothing breaks for what they leave out."""
    assembled, compacted = await _calls_of(Modest, tmp_path)

    assert list(assembled) == ["session_id", "messages"]
    assert [message.text for message in assembled["messages"]] == [ASKED.text]
    assert list(compacted) == ["session_file"]
    assert compacted["session_file"].endswith(".jsonl")


async def test_an_engine_that_names_everything_gets_everything(tmp_path):
    """HP2: each parameter of the contract arrives, with its value."""
    assembled, compacted = await _calls_of(Greedy, tmp_path)

    assert tuple(assembled) == HOOKS["assemble"]
    assert tuple(compacted) == HOOKS["compact"]
    assert assembled["session_key"] == "talk"
    assert assembled["prompt"] == ASKED.text
    assert assembled["model"] == "m-1"
    assert assembled["citations_mode"] == "inline"
    assert assembled["available_tools"] == {"grep", "read"}
    assert 0 < assembled["token_budget"] < 4000
    assert assembled["runtime_settings"].limits.prompt_token_budget == assembled["token_budget"]
    assert assembled["runtime_settings"].model.requested == "m-1"
    assert assembled["runtime_context"].token_budget == assembled["token_budget"]
    assert compacted["token_budget"] == 3000 - (4000 - assembled["token_budget"])
    assert compacted["custom_instructions"] == "the budget"
    assert (compacted["force"], compacted["force_reason"]) == (True, "manual")
    assert compacted["current_token_count"] > 0
    assert compacted["abort_signal"].fired is False


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(TypeError("assemble() got an unexpected keyword argument 'session_key'"), id="a TypeError"),
        pytest.param(ValueError('Unrecognized key(s) in object: "sessionKey"'), id="a schema's refusal"),
    ],
)
async def test_a_failure_that_looks_like_a_validator_s_is_a_failure(tmp_path, error):
    """HP3: exactly one call, one quarantine with operation assemble; nothing is tried again with fewer parameters."""
    calls = []

    class Strict(Modest):
        @hookimpl
        def assemble(self, messages):
            calls.append(messages)
            raise error

    async with open_host(tmp_path, "strict", engines={"strict": Strict}) as host, host.session("talk") as session:
        await session.append(ASKED)

        first, second = await session.assemble(), await session.assemble()

        (row,) = host.quarantines()
    assert len(calls) == 1
    assert (row.record.engine_id, row.record.operation) == ("strict", "assemble")
    assert str(error) in row.record.reason
    assert (first.engine, second.engine) == ("legacy", "legacy")
    assert [message.text for message in first.messages] == [ASKED.text]


@attrs.frozen
class Shared:
    """A frozen engine that names nothing, and has an attribute that no one may set."""

    info = EngineInfo(id="shared", name="Shared", version="7")
    calls: list[str] = attrs.field(factory=list)

    @hookimpl
    def ingest(self):
        return IngestResult(ingested=True)

    @hookimpl
    def assemble(self, messages):
        self.calls.append("assemble")
        return AssembleResult(messages=messages)

    @hookimpl
    def compact(self):
        return CompactResult(ok=True, compacted=False)


async def test_a_frozen_engine_that_a_factory_hands_out_twice_serves_two_hosts(tmp_path):
    """HP4: one instance works behind two guards at a time, unchanged, with its info preserved."""
    shared, registry = Shared(), Registry()
    engines = {"shared": lambda context: shared}
    async with (
        open_host(tmp_path / "a", "shared", engines=engines, registry=registry) as one,
        open_host(tmp_path / "b", "shared", registry=registry) as other,
        one.session("talk") as first,
        other.session("talk") as second,
    ):
        for session in (first, second):
            await session.append(ASKED)

        prompts = [await first.assemble(), await second.assemble(), await first.assemble()]

        assert registry.quarantine.records() == []
    assert [prompt.engine for prompt in prompts] == ["shared"] * 3
    assert shared == Shared(calls=["assemble"] * 3)
    assert shared.info == EngineInfo(id="shared", name="Shared", version="7")
