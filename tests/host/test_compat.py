"""What an engine needs of a host is asked before an operation; lacking it is no fault of the engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import CAPABILITIES, EngineInfo, HostDescriptor, HostIncompatibleError, HostRequirements
from openclaw_ctx.host import evaluate_host, require_host

NAMES = st.lists(st.sampled_from([*CAPABILITIES, "telepathy"]), max_size=5)


def needs(*capabilities: str, message: str | None = None, operation: str = "agent-run") -> EngineInfo:
    """Return the info of an engine that needs *capabilities* for *operation*."""
    requirements = HostRequirements(required_capabilities=capabilities, unsupported_message=message)
    return EngineInfo(id="picky", name="Picky", host_requirements={operation: requirements})


def test_an_engine_that_needs_nothing_runs_on_any_host():
    """HC1: an empty list of requirements is met by a generic CLI backend, which can do least."""
    found = evaluate_host(needs(), "agent-run", HostDescriptor.cli("acme"))

    assert (found.ok, found.missing_capabilities) == (True, ())
    require_host(needs(), "agent-run", HostDescriptor.cli("acme"))


@pytest.mark.parametrize("capability", ["assemble-before-prompt", "runtime-llm-complete"])
def test_a_generic_cli_backend_is_refused_for_what_it_lacks(capability):
    """HC2: the sentence opens with the engine's id, the operation and the backend's label."""
    with pytest.raises(HostIncompatibleError) as caught:
        require_host(needs(capability), "agent-run", HostDescriptor.cli("acme"))

    assert str(caught.value).startswith(
        'Context engine "picky" cannot run operation "agent-run" on CLI backend "acme". '
    )
    assert f"Missing host capabilities: {capability}." in str(caught.value)


def test_what_is_missing_is_told_without_raising():
    """HC3: the evaluation gives the answer, the requirements and the missing list, in the engine's order."""
    info = needs("telepathy", "compact", "levitation")

    found = evaluate_host(info, "agent-run", HostDescriptor.embedded())

    assert found.ok is False
    assert found.missing_capabilities == ("telepathy", "levitation")
    assert found.requirements is info.host_requirements["agent-run"]


@pytest.mark.parametrize("host", [HostDescriptor.embedded(), HostDescriptor.codex()], ids=lambda host: host.id)
def test_the_embedded_runner_and_codex_assemble_before_the_prompt(host):
    """HC4: both accept an engine that needs assemble-before-prompt."""
    require_host(needs("assemble-before-prompt"), "agent-run", host)


def test_only_codex_projects_into_a_foreign_thread():
    """HC5: codex accepts thread-bootstrap-projection, and the embedded runner does not have it."""
    info = needs("thread-bootstrap-projection")

    require_host(info, "agent-run", HostDescriptor.codex())

    assert evaluate_host(info, "agent-run", HostDescriptor.embedded()).ok is False


def test_the_refusal_reads_like_the_reference_s():
    """The whole sentence of REFERENCE 1.1, with the engine's own guidance behind a space."""
    info = needs("telepathy", "compact", message="Use the desktop program.", operation="manual-compact")

    with pytest.raises(HostIncompatibleError) as caught:
        require_host(
            info, "manual-compact", HostDescriptor(id="x", label="X host", capabilities=("compact", "maintain"))
        )

    assert str(caught.value) == (
        'Context engine "picky" cannot run operation "manual-compact" on X host. '
        "Missing host capabilities: telepathy. "
        "Required capabilities: telepathy, compact. "
        "Host capabilities: compact, maintain. "
        "Use the desktop program."
    )


def test_a_host_that_can_do_nothing_says_none():
    """The literal ``(none)`` stands for an empty list, and no guidance leaves no blank behind."""
    with pytest.raises(HostIncompatibleError) as caught:
        require_host(needs("compact"), "agent-run", HostDescriptor(id="x", label="X", capabilities=()))

    assert str(caught.value).endswith("Required capabilities: compact. Host capabilities: (none).")


def test_requirements_of_one_operation_say_nothing_of_another():
    """An engine that needs something for manual compaction runs an agent without it."""
    info = needs("telepathy", operation="manual-compact")

    assert evaluate_host(info, "agent-run", HostDescriptor.embedded()).requirements is None
    require_host(info, "agent-run", HostDescriptor.embedded())


def test_a_list_given_for_a_cli_backend_replaces_its_defaults():
    """An explicit list replaces the generic one rather than extending it."""
    backend = HostDescriptor.cli("acme", capabilities=["assemble-before-prompt"])

    assert backend.capabilities == ("assemble-before-prompt",)
    assert (backend.id, backend.label) == ("cli:acme", 'CLI backend "acme"')
    assert evaluate_host(needs("bootstrap"), "agent-run", backend).ok is False


@given(required=NAMES, offered=NAMES)
def test_missing_is_required_without_offered_in_the_engine_s_order(required, offered):
    """The law of the evaluation, and that the assertion raises exactly where it is not ok."""
    host = HostDescriptor(id="x", label="X", capabilities=offered)

    found = evaluate_host(needs(*required), "agent-run", host)

    assert found.missing_capabilities == tuple(name for name in required if name not in set(offered))
    assert found.ok is (set(required) <= set(offered))
    if found.ok:
        require_host(needs(*required), "agent-run", host)
    else:
        with pytest.raises(HostIncompatibleError):
            require_host(needs(*required), "agent-run", host)
