"""Quarantines with and without a mirror, and a clock that a test sets."""

from pathlib import Path
from typing import Any

from openclaw_ctx.host import Quarantine, QuarantineMirror, QuarantinePolicy, QuarantineRecord

__all__ = ["Clock", "fail", "mirrored"]

ONCE = QuarantinePolicy()


class Clock:
    """Time that passes when a test says so; call it for the time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def fail(quarantine: Quarantine, engine_id: str = "window", **changes: Any) -> QuarantineRecord:
    """Note a failure of an engine."""
    facts = {"owner": "plugin:acme", "operation": "assemble", "reason": "it broke", "policy": ONCE, **changes}
    return quarantine.record(engine_id, **facts)


def mirrored(folder: Path, *, clock: Clock | None = None) -> Quarantine:
    """Return a quarantine with a mirror, as one process has it."""
    quarantine = Quarantine() if clock is None else Quarantine(clock=clock)
    quarantine.attach(QuarantineMirror(folder))
    return quarantine
