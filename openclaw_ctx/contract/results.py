"""
What hooks answer.

A plain ``dict`` with the same keys is accepted wherever one of these is
expected, and structured by the host; messages in it are v3 ``message`` objects.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from .frozen import EMPTY, JSON, freeze
from .message import EntryId, Message, SessionId

__all__ = [
    "AssembleResult",
    "BootstrapResult",
    "CommitTurnResult",
    "CompactResult",
    "Compaction",
    "ContextProjection",
    "EngineTool",
    "IngestBatchResult",
    "IngestResult",
    "PromptAuthority",
    "RewriteResult",
    "SubagentPreparation",
]

PromptAuthority: TypeAlias = Literal["assembled", "preassembly_may_overflow"]


@attrs.frozen(kw_only=True)
class BootstrapResult:
    """
    Answer of ``bootstrap``.

    Attributes:
        imported_messages: ``None``: the engine did not look at the history, and
            the host hands over what it missed. A number, 0 too: the engine has
            taken the history upon itself (read it, will read it through
            ``services``, or needs none), and the host hands over nothing old.
    """

    bootstrapped: bool
    imported_messages: int | None = None
    reason: str | None = None


@attrs.frozen(kw_only=True)
class IngestResult:
    """Answer of ``ingest``: false for a duplicate, or where there was nothing to do."""

    ingested: bool


@attrs.frozen(kw_only=True)
class IngestBatchResult:
    """Answer of ``ingest_batch``."""

    ingested_count: int


@attrs.frozen(kw_only=True)
class ContextProjection:
    """For hosts whose backend keeps its own thread: inject once an epoch, reuse until it changes."""

    mode: Literal["per_turn", "thread_bootstrap"]
    epoch: str | None = None
    fingerprint: str | None = None


@attrs.frozen(kw_only=True)
class AssembleResult:
    """
    Answer of ``assemble``: what the model sees.

    Attributes:
        messages: In order. Pairs whole, not empty, the turn's user message in it.
        estimated_tokens: The engine's own estimate of the whole; the host keeps its own beside it.
        system_prompt_addition: Put before the system prompt.
        prompt_authority: ``preassembly_may_overflow`` asks the host to look at
            the unwindowed history too before it trusts the budget.
    """

    messages: Sequence[Message]
    estimated_tokens: int = 0
    system_prompt_addition: str | None = None
    prompt_authority: PromptAuthority = "assembled"
    context_projection: ContextProjection | None = None


@attrs.frozen(kw_only=True)
class Compaction:
    """
    What a compaction made.

    Attributes:
        first_kept_entry_id: The oldest entry that stays; everything before it is
            represented by *summary*.
        tokens_before: Tokens of the context that was compacted.
        session_id: With *session_file*: the successor transcript, if one was begun.
    """

    summary: str | None = None
    first_kept_entry_id: EntryId | None = None
    tokens_before: int = 0
    tokens_after: int | None = None
    details: JSON = attrs.field(default=None, converter=freeze)
    session_id: SessionId | None = None
    session_file: str | None = None


@attrs.frozen(kw_only=True)
class CompactResult:
    """Answer of ``compact``. Not ``compacted`` with ``ok``: nothing needed doing, and that is no failure."""

    ok: bool
    compacted: bool
    reason: str | None = None
    result: Compaction | None = None


@attrs.frozen(kw_only=True)
class RewriteResult:
    """Answer of ``maintain`` and of a transcript rewrite."""

    changed: bool
    bytes_freed: int = 0
    rewritten_entries: int = 0
    reason: str | None = None


# A converter for each, since a generic one leaves type checkers at a loss about what the class takes.
def _rollback(function: Callable[[], Awaitable[None] | None]) -> Callable[[], Awaitable[None]]:
    awaited: Callable[[], Awaitable[None]] = _awaited(function)
    return awaited


def _tool_call(
    function: Callable[[Mapping[str, JSON]], Awaitable[str] | str],
) -> Callable[[Mapping[str, JSON]], Awaitable[str]]:
    awaited: Callable[[Mapping[str, JSON]], Awaitable[str]] = _awaited(function)
    return awaited


def _awaited(function: Any) -> Any:
    """Return *function* as one that is awaited; what is no function is left for the host's check to name."""
    if not callable(function) or inspect.iscoroutinefunction(function):
        return function

    async def awaited(*arguments: Any) -> Any:
        answer = function(*arguments)
        return await answer if inspect.isawaitable(answer) else answer

    return awaited


@attrs.frozen(kw_only=True)
class SubagentPreparation:
    """
    Answer of ``prepare_subagent_spawn``: how to take the preparation back if the spawn fails.

    Attributes:
        rollback: Given as ``def`` or ``async def``; runs in the engine's lane.
    """

    rollback: Callable[[], Awaitable[None]] = attrs.field(converter=_rollback)


@attrs.frozen(kw_only=True)
class CommitTurnResult:
    """Answer of ``commit_turn``, which is atomic and idempotent by its advancement key."""

    status: Literal["committed", "duplicate"]


@attrs.frozen(kw_only=True)
class EngineTool:
    """
    A tool that the engine offers the agent.

    Attributes:
        parameters: JSON Schema of the arguments object.
        call: Takes the arguments object, returns the text of the result. Given as
            ``def`` or ``async def``, always awaited. On a tool that the session returns
            it crosses into the engine's lane, within the deadline of ``tools``, and
            raises ``EngineFailedError`` where the engine's code fails, which bars nobody.
    """

    name: str
    description: str
    parameters: Mapping[str, JSON] = attrs.field(default=EMPTY, converter=freeze)
    call: Callable[[Mapping[str, JSON]], Awaitable[str]] = attrs.field(converter=_tool_call)
