"""
Turns that no user asked for: marked on record, and left out of later prompts where nothing came of them.

The mark is a field of the message's wire form, so it is read again with the transcript.
"""

import itertools
import string
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from openclaw_ctx.contract import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    UserMessage,
)

__all__ = ["HEARTBEAT_OK", "SILENT_REPLY", "filter_heartbeats", "is_heartbeat", "mark_heartbeat"]

HEARTBEAT_OK: Final = "HEARTBEAT_OK"
"""What a model answers to a heartbeat when there is nothing to do; the reference system's."""

SILENT_REPLY: Final = "NO_REPLY"
"""What a model answers when it has nothing to say; the reference system's."""

_MARK: Final = "isHeartbeat"
_AROUND: Final = string.punctuation + string.whitespace
_LONGEST_ACK: Final = 32
_ACKS: Final = frozenset({"", HEARTBEAT_OK, SILENT_REPLY})


def mark_heartbeat(message: UserMessage) -> UserMessage:
    """Return *message*, marked as one that no user wrote; the mark is kept in the transcript."""
    return attrs.evolve(message, extra={**message.extra, _MARK: True})


def is_heartbeat(message: Message) -> bool:
    """Return whether *message* is marked as one that no user wrote."""
    return isinstance(message, UserMessage) and message.extra.get(_MARK) is True


def filter_heartbeats(messages: Sequence[Message]) -> Sequence[Message]:
    """
    Return *messages* without the heartbeats of which nothing came; the same sequence where there are none.

    A heartbeat goes with its reply where that only says so, is silent or is
    missing, and no tool was called. What others put in between stays, and so
    does the last turn, which is the one that is running.
    """
    users = [place for place, message in enumerate(messages) if isinstance(message, UserMessage)]
    gone: set[int] = set()
    for place, end in itertools.pairwise(users):
        if is_heartbeat(messages[place]) and _came_to_nothing(messages[place + 1 : end]):
            gone.add(place)
            gone.update(at for at in range(place + 1, end) if isinstance(messages[at], AssistantMessage))
    if not gone:
        return messages
    return tuple([message for place, message in enumerate(messages) if place not in gone])


def _came_to_nothing(reply: Iterable[Message]) -> bool:
    for message in reply:
        if isinstance(message, ToolResultMessage):
            return False
        if isinstance(message, AssistantMessage) and not all(map(_is_ack, message.content)):
            return False
    return True


def _is_ack(block: Any) -> bool:
    if isinstance(block, TextBlock):
        short = len(block.text) <= _LONGEST_ACK
        return not block.text.strip() or (short and block.text.strip(_AROUND) in _ACKS)
    return isinstance(block, ThinkingBlock)
