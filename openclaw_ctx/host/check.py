"""
What an engine assembled, held against the history it was given.

What can be repaired is repaired and reported: a tool result without its call, a
user's message that went missing. What cannot is a fault: no messages at all.
"""

from collections.abc import Callable, Sequence

import attrs

from openclaw_ctx.contract import AssembleResult, Message, ToolResultMessage, UserMessage
from openclaw_ctx.transcript import History, repair_pairs

from .results import InvalidResult

__all__ = ["CheckedPrompt", "check_prompt"]


@attrs.frozen(kw_only=True)
class CheckedPrompt:
    """
    Messages that a provider will take.

    Attributes:
        estimated_tokens: By the host's counter, of the messages alone.
        repairs: What was mended, one phrase each; empty where nothing was.
    """

    messages: Sequence[Message]
    estimated_tokens: int
    repairs: tuple[str, ...] = ()


def check_prompt(
    result: AssembleResult, history: Sequence[Message], *, count: Callable[[Message], int]
) -> CheckedPrompt:
    """
    Return what *result* holds, made safe to send.

    Costs what the result holds, whatever the history's length.

    Raises:
        InvalidResult: There is nothing to send although the history has something.
    """
    messages = result.messages
    if isinstance(messages, History) and not messages.is_read_as(history):
        # Its reader is somebody's code, and would run wherever the messages are looked at.
        raise InvalidResult("assemble", "a History that this host did not make")
    if not messages and history:
        raise InvalidResult("assemble", f"no messages, of a history of {len(history)}")
    repairs: list[str] = []
    paired = repair_pairs(messages)
    if paired.changes:
        messages = paired.messages
        repairs.extend(
            f"{number} {what}"
            for number, what in (
                (paired.added, "missing tool result added"),
                (paired.dropped_duplicates, "repeated tool result dropped"),
                (paired.dropped_orphans, "tool result without its call dropped"),
                (paired.moved, "tool result moved behind its call"),
                (paired.renamed, "tool call renamed"),
            )
            if number
        )
    asked = _last_user_message(history)
    if asked is not None and not _holds(messages, asked):
        messages = _with(messages, asked, history)
        repairs.append("the turn's user message restored")
    if not messages and not all(isinstance(message, ToolResultMessage) for message in history):
        raise InvalidResult("assemble", f"tool results without their calls alone, of a history of {len(history)}")
    return CheckedPrompt(messages=messages, estimated_tokens=sum(map(count, messages)), repairs=tuple(repairs))


def _last_user_message(history: Sequence[Message]) -> UserMessage | None:
    return next((message for message in reversed(history) if isinstance(message, UserMessage)), None)


def _holds(messages: Sequence[Message], asked: UserMessage) -> bool:
    """Return whether *asked* is there: itself, or written anew by an engine that keeps no entry ids."""
    return any(
        message is asked
        or (
            isinstance(message, UserMessage)
            and (message.content == asked.content if message.entry_id is None else message.entry_id == asked.entry_id)
        )
        for message in reversed(messages)
    )


def _with(messages: Sequence[Message], asked: Message, history: Sequence[Message]) -> tuple[Message, ...]:
    """Put *asked* before the first message that the history has behind it, else at the end; no pair is parted."""
    later: set[object] = set()
    for message in reversed(history):
        if message is asked:
            break
        later.add(message.entry_id)
    position = next(
        (i for i, m in enumerate(messages) if m.entry_id is not None and m.entry_id in later), len(messages)
    )
    while position < len(messages) and isinstance(messages[position], ToolResultMessage):
        position += 1
    return (*messages[:position], asked, *messages[position:])
