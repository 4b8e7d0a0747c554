"""Whether a host can do what an engine needs for an operation. Lacking it is no fault of the engine."""

from typing import Literal, TypeAlias

import attrs

from openclaw_ctx.contract import EngineInfo, HostDescriptor, HostRequirements
from openclaw_ctx.errors import HostIncompatibleError

__all__ = ["HostCompatibility", "HostOperation", "evaluate_host", "require_host"]

HostOperation: TypeAlias = Literal["agent-run", "manual-compact", "subagent-spawn"]


@attrs.frozen(kw_only=True)
class HostCompatibility:
    """The answer, the engine's requirements, and what of them the host lacks, in the engine's order."""

    ok: bool
    requirements: HostRequirements | None
    missing_capabilities: tuple[str, ...]


def evaluate_host(info: EngineInfo, operation: HostOperation, host: HostDescriptor) -> HostCompatibility:
    """Hold what the engine needs for *operation* against what *host* can do."""
    requirements = info.host_requirements.get(operation)
    required = requirements.required_capabilities if requirements else ()
    missing = tuple(name for name in required if name not in host.capabilities)
    return HostCompatibility(ok=not missing, requirements=requirements, missing_capabilities=missing)


def require_host(info: EngineInfo, operation: HostOperation, host: HostDescriptor) -> None:
    """
    Do nothing where the host will do.

    Raises:
        HostIncompatibleError: It lacks something; the engine's own message ends the sentence.
    """
    found = evaluate_host(info, operation, host)
    if found.ok or found.requirements is None:
        return
    raise HostIncompatibleError(
        engine_id=info.id,
        operation=operation,
        host_label=host.label,
        missing=found.missing_capabilities,
        required=found.requirements.required_capabilities,
        capabilities=host.capabilities,
        guidance=found.requirements.unsupported_message,
    )
