"""What an engine says of itself, and what a host says that it can do."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import attrs

__all__ = [
    "CAPABILITIES",
    "EngineInfo",
    "HostDescriptor",
    "HostRequirements",
    "TurnAdvancement",
    "TurnMaintenanceMode",
]

CAPABILITIES: tuple[str, ...] = (
    "bootstrap",
    "assemble-before-prompt",
    "reference-context",
    "after-turn",
    "maintain",
    "compact",
    "runtime-llm-complete",
    "thread-bootstrap-projection",
)
"""The capabilities that hosts speak of; an engine may require others, and then none of these hosts will do."""

_WITHOUT_PROJECTION = CAPABILITIES[:-1]
_CLI_DEFAULT = ("bootstrap", "after-turn", "maintain")

TurnMaintenanceMode: TypeAlias = Literal["foreground", "background"]
TurnAdvancement: TypeAlias = Literal["atomic-idempotent-v1"]


def _names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(names)


@attrs.frozen(kw_only=True)
class HostRequirements:
    """What one operation needs of the host; *unsupported_message* ends the error where it is lacking."""

    required_capabilities: tuple[str, ...] = attrs.field(default=(), converter=_names)
    unsupported_message: str | None = None


@attrs.frozen(kw_only=True)
class EngineInfo:
    """
    What an engine says of itself. Read once, when the engine has been built.

    Attributes:
        id: Need not be the id that it was registered under.
        owns_compaction: The host's automatic compaction is off; the engine
            compacts in ``after_turn`` or when it likes. Its ``compact`` is still
            what the host calls on request and on overflow.
        turn_maintenance_mode: Whether ``maintain`` after a turn may run behind it.
        turn_advancement: ``atomic-idempotent-v1`` says that ``commit_turn`` takes a turn
            whole or not at all, and once for each key. Turns are then told by it, and by no other hook.
        host_requirements: By operation: ``agent-run``, ``manual-compact``,
            ``subagent-spawn``. Checked before an operation; lacking one is no fault.
        contract: The contract version that it was written for, such as ``1.0``;
            a host that keeps an older one refuses to build it.
    """

    id: str
    name: str
    version: str | None = None
    owns_compaction: bool = False
    turn_maintenance_mode: TurnMaintenanceMode = "foreground"
    turn_advancement: TurnAdvancement | None = None
    host_requirements: Mapping[str, HostRequirements] = attrs.field(factory=dict)
    contract: str | None = None


@attrs.frozen(kw_only=True)
class HostDescriptor:
    """
    Who runs the engine: an id, a label for people, and what it can do.

    The classmethods give the hosts of the reference system.
    """

    id: str
    label: str
    capabilities: tuple[str, ...] = attrs.field(default=_WITHOUT_PROJECTION, converter=_names)

    @classmethod
    def embedded(cls) -> "HostDescriptor":
        """Return the embedded runner: everything except a projection into a foreign thread."""
        return cls(id="openclaw-embedded", label="OpenClaw embedded runner")

    @classmethod
    def codex(cls) -> "HostDescriptor":
        """Return the Codex app-server harness: everything."""
        return cls(id="codex-app-server", label="Codex app-server harness", capabilities=CAPABILITIES)

    @classmethod
    def cli(cls, backend_id: str, *, capabilities: Sequence[str] | None = None) -> "HostDescriptor":
        """Return a command-line backend; *capabilities* replace its few defaults."""
        return cls(
            id=f"cli:{backend_id}",
            label=f'CLI backend "{backend_id}"',
            capabilities=_CLI_DEFAULT if capabilities is None else capabilities,
        )
