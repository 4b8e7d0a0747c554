"""A silent turn ahead of a compaction, in which the model writes down what is to last."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import attrs

from openclaw_ctx.contract import AbortSignal, Message, ToolResultMessage, UserMessage
from openclaw_ctx.errors import AbortError
from openclaw_ctx.log import clean_text, describe_error
from openclaw_ctx.models import Model, ModelRequest, obeying

from .heartbeat import SILENT_REPLY
from .memory import Memory, MemoryFacts
from .tools import ToolBox

__all__ = [
    "FLUSH_SOFT_THRESHOLD_TOKENS",
    "FORCE_FLUSH_TRANSCRIPT_BYTES",
    "RESERVE_FLOOR",
    "FlushPolicy",
    "FlushResult",
    "flush_is_due",
    "run_flush",
]

FLUSH_SOFT_THRESHOLD_TOKENS: Final = 4_000
"""How far ahead of a compaction notes are written; the reference system's default."""

FORCE_FLUSH_TRANSCRIPT_BYTES: Final = 2 * 1024 * 1024
"""A transcript of this size has notes written whatever its tokens; the reference system's default."""

RESERVE_FLOOR: Final = 20_000
"""Tokens that a compaction keeps free at the least; the reference system's default."""

_PROMPT: Final = (
    "The conversation so far is about to be compacted. Write down now, with the tools you have, what should last: "
    "decisions, preferences, facts, and what is still to be done."
)
_SYSTEM_PROMPT: Final = "This is a turn for memory alone, ahead of a compaction. The user does not see it."
_SAFETY: Final = (
    "Only add to what is written: change and remove nothing.",
    "Take AGENTS.md, SOUL.md, TOOLS.md, MEMORY.md and other files that a session begins with as read-only.",
)
_SILENCE: Final = f"If there is nothing to write, or once it is written, answer {SILENT_REPLY} and nothing else."


@attrs.frozen(kw_only=True)
class FlushPolicy:
    """
    When notes are written, and what the model is told then.

    Attributes:
        soft_threshold_tokens: So far ahead of the point where a compaction is due.
        force_transcript_bytes: Or from this size of the transcript on; 0 for never.
        prompt: Instead of the built-in one; what keeps notes safe is added. ``YYYY-MM-DD`` stands for the day.
        system_prompt: Likewise; it goes behind the agent's own.
    """

    enabled: bool = True
    soft_threshold_tokens: int = FLUSH_SOFT_THRESHOLD_TOKENS
    force_transcript_bytes: int = FORCE_FLUSH_TRANSCRIPT_BYTES
    prompt: str | None = None
    system_prompt: str | None = None


@attrs.frozen(kw_only=True)
class FlushResult:
    """
    What a flush came to.

    Attributes:
        notes: Calls of the memory's tools that succeeded.
        reason: Why the flush ended early, or the failure of a tool that no success came after.
    """

    notes: int
    reason: str | None


def flush_is_due(
    policy: FlushPolicy,
    *,
    tokens: int | None,
    window: int,
    reserve_floor: int,
    transcript_bytes: int,
    compactions: int,
    flushed_at_compaction: int | None,
) -> bool:
    """
    Return whether notes are to be written now: once between two compactions, and only shortly ahead of the next.

    Args:
        policy: The bounds.
        tokens: What the prompt costs; where it is not known, only the transcript's size counts.
        window: The model's.
        reserve_floor: What a compaction keeps free of it.
        transcript_bytes: The file's size.
        compactions: How many there have been.
        flushed_at_compaction: How many there had been at the last flush; ``None`` where there was none.
    """
    if not policy.enabled or flushed_at_compaction == compactions:
        return False
    if 0 < policy.force_transcript_bytes <= transcript_bytes:
        return True
    threshold = window - reserve_floor - policy.soft_threshold_tokens
    return tokens is not None and 0 < threshold <= tokens


async def run_flush(
    model: Model,
    memory: Memory,
    facts: MemoryFacts,
    messages: Sequence[Message],
    *,
    policy: FlushPolicy,
    system_prompt: str | None,
    abort: AbortSignal | None,
    now: datetime,
    model_name: str | None = None,
    max_rounds: int = 4,
) -> FlushResult:
    """
    Let the model write notes about *messages*, and return how many it wrote.

    Silent: nothing of it reaches the transcript, and no tool but the memory's can be
    called. A failure is the result's reason; notes written before it stay.

    Args:
        model: Is asked, and nobody else if it fails.
        memory: Its tools write.
        facts: For whom.
        messages: The conversation as the model would see it.
        policy: Its prompts; whether a flush is due is not asked again.
        system_prompt: The agent's own.
        abort: Ends the flush, and the turn with it.
        now: In the user's time zone.
        model_name: The provider's name of the model; ``None`` is the client's own.
        max_rounds: Requests to the model; calls of the last one are still run.

    Raises:
        AbortError: *abort* has fired; or the very exception that it was fired with.
    """
    if abort is not None:
        abort.raise_if_fired()
    try:
        box = ToolBox(memory.tools(facts), ())
    except AbortError:
        raise
    except Exception as error:  # noqa: BLE001 -- a memory may be anybody's code, and no turn ends for it
        return FlushResult(notes=0, reason=describe_error(error))
    if not box.names:
        return FlushResult(notes=0, reason=_why_nothing_is_written(facts.workspace_dir))
    request = ModelRequest(
        messages=(*messages, UserMessage(content=_prompt(policy, now))),
        model=model_name,
        system_prompt=_system_prompt(policy, system_prompt, now),
        tools=box.schemas,
    )
    results: list[ToolResultMessage] = []
    try:
        reason = await _converse(model, request, box, results, abort=abort, max_rounds=max_rounds)
    except Exception as error:  # noqa: BLE001 -- whatever a model raises, the turn behind it goes on
        if abort is not None:
            abort.raise_if_fired()
        reason = describe_error(error)
    return FlushResult(notes=sum(not result.is_error for result in results), reason=reason)


async def _converse(
    model: Model,
    request: ModelRequest,
    box: ToolBox,
    results: list[ToolResultMessage],
    *,
    abort: AbortSignal | None,
    max_rounds: int,
) -> str | None:
    """Put what the tools give into *results*, and return what went wrong in the end."""
    for _ in range(max_rounds):
        answer = (await model.complete(request, abort=abort)).message
        if answer.stop_reason == "error":
            return clean_text(answer.error_message or "the provider withheld the answer")
        if not answer.tool_calls:
            break
        done = len(results)
        async with obeying(abort):
            await box.run(answer.tool_calls, tell=lambda _event: None, take=results.append)
        if abort is not None:
            abort.raise_if_fired()
        request = attrs.evolve(request, messages=(*request.messages, answer, *results[done:]))
    failed = bool(results) and bool(results[-1].is_error)
    return clean_text(results[-1].text) if failed else None


def _why_nothing_is_written(workspace: Path) -> str | None:
    """Return what keeps a memory from offering tools; ``None`` where it just has none."""
    if not workspace.is_dir():
        return "the workspace is missing"
    if not os.access(workspace, os.W_OK | os.X_OK):
        return "the workspace is read-only"
    return None


def _prompt(policy: FlushPolicy, now: datetime) -> str:
    moment = f"Current time: {now.isoformat(sep=' ', timespec='minutes')} ({now.tzname() or 'local time'})"
    return f"{_hinted(policy.prompt, _PROMPT, now)}\n{moment}"


def _system_prompt(policy: FlushPolicy, own: str | None, now: datetime) -> str:
    added = _hinted(policy.system_prompt, _SYSTEM_PROMPT, now)
    return f"{own}\n\n{added}" if own else added


def _hinted(custom: str | None, default: str, now: datetime) -> str:
    """Return the text with the hints that it lacks, so that no custom prompt does without them."""
    text = (custom or "").strip() or default
    lines = [text.replace("YYYY-MM-DD", now.date().isoformat())]
    lines += [hint for hint in _SAFETY if hint not in text]
    if SILENT_REPLY not in text:
        lines.append(_SILENCE)
    return "\n".join(lines)
