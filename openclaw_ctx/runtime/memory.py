"""What a turn asks of a memory: sections for the prompt, and tools for the turn that writes notes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import attrs

from openclaw_ctx.contract import EngineTool, SessionId, SessionKey

__all__ = ["Memory", "MemoryFacts"]


@attrs.frozen(kw_only=True)
class MemoryFacts:
    """
    For whom a memory speaks.

    Attributes:
        available_tools: What the agent may call in the run.
        citations_mode: How the configuration wants sources named; ``None`` where it does not say.
    """

    session_key: SessionKey
    session_id: SessionId
    workspace_dir: Path
    available_tools: frozenset[str]
    citations_mode: str | None


class Memory(Protocol):
    """
    Something that remembers beyond one conversation.

    One memory may serve many sessions at once. What it raises ends no turn: it
    is logged, and the turn goes on without it.
    """

    async def prompt_sections(self, facts: MemoryFacts) -> Sequence[str]:
        """Return what belongs into the system prompt; asked once a run."""

    def tools(self, facts: MemoryFacts) -> Sequence[EngineTool]:
        """Return what the model may call to write down what a compaction will fold away; none, and it is not asked."""
