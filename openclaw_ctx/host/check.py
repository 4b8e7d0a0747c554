"""
What an engine assembled, held against the history it was given.

What can be repaired is repaired and reported: a tool result without its call, a
message that says nothing, a user's message that went missing. What cannot is a
fault: no messages at all.
"""

from collections.abc import Callable, Sequence

import attrs

from openclaw_ctx.contract import AssembleResult, Message, ToolResultMessage, UserMessage
from openclaw_ctx.transcript import History, repair_message, repair_messages

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
    repaired = repair_messages(messages)
    messages, repairs = repaired.messages, repaired.phrases
    asked = _last_user_message(history)
    if asked is not None:
        sent = repair_message(asked) or asked
        if not _holds(messages, asked, sent):
            place = _place_of(asked, messages, history)
            messages = (*messages[:place], sent, *messages[place:])
            repairs = (*repairs, "the turn's user message restored")
    if not messages and any(_can_be_sent(message) for message in history):
        what = "empty messages" if repaired.left_out else "tool results without their calls"
        raise InvalidResult("assemble", f"{what} alone, of a history of {len(history)}")
    return CheckedPrompt(messages=messages, estimated_tokens=sum(map(count, messages)), repairs=repairs)


def _last_user_message(history: Sequence[Message]) -> UserMessage | None:
    return next((message for message in reversed(history) if isinstance(message, UserMessage)), None)


def _can_be_sent(message: Message) -> bool:
    return not isinstance(message, ToolResultMessage) and repair_message(message) is not None


def _holds(messages: Sequence[Message], asked: UserMessage, sent: UserMessage) -> bool:
    """
    Return whether *asked* is there: itself, or written anew by an engine that keeps no entry ids.

    Args:
        messages: After the repair.
        asked: As the history has it.
        sent: As it goes into a prompt.
    """
    return any(
        message is asked
        or (
            isinstance(message, UserMessage)
            and (message.content == sent.content if message.entry_id is None else message.entry_id == asked.entry_id)
        )
        for message in reversed(messages)
    )


def _place_of(asked: Message, messages: Sequence[Message], history: Sequence[Message]) -> int:
    """Return where *asked* goes: before the first that the history has behind it, else to the end; it parts no pair."""
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
    return position
