"""An engine for another contract is refused in words that say how to get out."""

import pytest

from openclaw_ctx import AssembleResult, CompactResult, EngineInfo, IngestResult, hookimpl
from openclaw_ctx.contract import CONTRACT_VERSION
from openclaw_ctx.errors import EngineContractError
from openclaw_ctx.host import build_hooks

_MAJOR, _MINOR = map(int, CONTRACT_VERSION.split("."))


class Plain:
    """An engine that does nothing."""

    info = EngineInfo(id="plain", name="Plain")

    @hookimpl
    def ingest(self):
        """Take nothing."""
        return IngestResult(ingested=False)

    @hookimpl
    def assemble(self, messages):
        """Return everything."""
        return AssembleResult(messages=messages)

    @hookimpl
    def compact(self):
        """Do nothing."""
        return CompactResult(ok=True, compacted=False)


class _NewHook(Plain):
    @hookimpl
    def after_rotation(self):
        """Stand for a hook of tomorrow."""


class _NewHookIfThereIsOne(Plain):
    @hookimpl(optionalhook=True)
    def after_rotation(self):
        """Stand for a hook of tomorrow, and say so."""


class _NewParameter(Plain):
    @hookimpl
    def assemble(self, messages, cache_hints):
        """Want a parameter of tomorrow."""


def _written_for(contract):
    engine = Plain()
    engine.info = EngineInfo(id="plain", name="Plain", contract=contract)
    return engine


def _refusal(engine):
    with pytest.raises(EngineContractError) as caught:
        build_hooks("plain", engine)
    return caught.value


@pytest.mark.parametrize("contract", [None, CONTRACT_VERSION, f"{_MAJOR}.0", f"{_MAJOR - 1}.9"])
def test_an_engine_for_this_contract_or_an_older_one_is_built(contract):
    """Hooks are added, so what was written for less is served."""
    assert build_hooks("plain", _written_for(contract)).info.contract == contract


@pytest.mark.parametrize("contract", [f"{_MAJOR}.{_MINOR + 1}", f"{_MAJOR + 1}.0", f"{_MAJOR}.10"])
def test_an_engine_for_a_newer_contract_is_refused_with_both_versions(contract):
    """Compared as numbers: 1.10 is newer than 1.9."""
    (problem,) = _refusal(_written_for(contract)).problems

    assert problem == (
        f"it was written for contract {contract}, and this host keeps {CONTRACT_VERSION}: require a newer openclaw-ctx"
    )


@pytest.mark.parametrize("contract", ["1", "1.0.0", "one", "", "1.x"])
def test_a_contract_that_is_no_version_is_refused(contract):
    """The author is shown one that is."""
    (problem,) = _refusal(_written_for(contract)).problems

    assert problem == f"info.contract is {contract!r}, not a version such as {CONTRACT_VERSION!r}"


def test_an_unknown_hook_is_refused_with_the_way_out_and_the_way_out_works():
    """Marked as optional, a hook of a newer contract is passed over by an older host."""
    error = _refusal(_NewHook())

    assert "after_rotation() is no hook of contract" in str(error)
    assert "mark it @hookimpl(optionalhook=True), or require a newer openclaw-ctx" in str(error)
    assert build_hooks("plain", _NewHookIfThereIsOne()).implemented == {"ingest", "assemble", "compact"}


def test_an_unknown_parameter_is_refused_with_the_way_out():
    """There is no optional parameter: the engine has to ask for the host that has it."""
    error = _refusal(_NewParameter())

    assert "assemble(cache_hints)" in str(error)
    assert "require a newer openclaw-ctx" in str(error)
    assert "help(openclaw_ctx.EngineSpec)" in str(error)
