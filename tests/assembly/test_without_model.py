"""A host without a model says so before an engine needs one."""

import pytest

from openclaw_ctx import (
    CompletionResult,
    EngineInfo,
    HostDescriptor,
    HostIncompatibleError,
    HostRequirements,
    UserMessage,
)
from tests.assembly.plain import Plain
from tests.assembly.recording import open_host


class _Asks(Plain):
    info = EngineInfo(
        id="recorder",
        name="Asks",
        host_requirements={"agent-run": HostRequirements(required_capabilities=["runtime-llm-complete"])},
    )


async def _answer(request):
    return CompletionResult(text="an answer")


@pytest.mark.parametrize("descriptor", [None, HostDescriptor.codex()], ids=["by default", "as described"])
async def test_an_engine_that_needs_a_model_is_told_before_it_is_called(tmp_path, descriptor):
    """What a descriptor claims holds where the host was given a model; else the capability is missing, by name."""
    async with (
        open_host(tmp_path, engines={"recorder": _Asks}, host=descriptor) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        with pytest.raises(HostIncompatibleError, match="Missing host capabilities: runtime-llm-complete"):
            await session.assemble()

        assert "runtime-llm-complete" not in host.descriptor.capabilities
        assert host.quarantines() == []


async def test_with_a_model_the_engine_runs(tmp_path):
    """The same engine, and a host that can do what it needs."""
    async with (
        open_host(tmp_path, engines={"recorder": _Asks}, model=_answer) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        prompt = await session.assemble()

        assert "runtime-llm-complete" in host.descriptor.capabilities
    assert prompt.engine == "recorder"
