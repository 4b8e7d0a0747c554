"""Blocking hosts for tests, and the threads that they have."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openclaw_ctx import AssembleResult, CompletionRequest, ModelUnavailableError, Registry, blocking
from tests.assembly.plain import engine

__all__ = ["THREAD", "asking", "opened", "threads"]

THREAD = "openclaw-ctx-host"


def opened(
    state_dir: Path,
    slot: str = "legacy",
    *,
    engines: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    **options: Any,
) -> blocking.Host:
    """Open a blocking host that knows *engines* and no installed one."""
    registry = Registry()
    for engine_id, factory in (engines or {}).items():
        registry.register(engine_id, factory, owner="public")
    return blocking.Host.open(
        {"plugins": {"slots": {"contextEngine": slot}}, **(config or {})},
        state_dir=state_dir,
        workspace_dir=state_dir,
        registry=registry,
        engine_path=[],
        **options,
    )


def threads(name: str = THREAD) -> list[threading.Thread]:
    """Return the threads that hosts have here."""
    return [thread for thread in threading.enumerate() if thread.name == name]


def asking() -> Any:
    """Return a class of engines that put the model's answer into the system prompt."""

    async def assemble(self, messages):
        try:
            answer = (await self.services.complete(CompletionRequest(messages=messages))).text
        except (ValueError, ModelUnavailableError, RuntimeError) as error:
            answer = f"{type(error).__name__}: {error}"
        return AssembleResult(messages=messages, system_prompt_addition=answer)

    return engine(assemble=assemble)
