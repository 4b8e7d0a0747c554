"""The calls and results of a group that comes back: whole, and under ids of their own."""

from collections.abc import Sequence
from typing import Final

import attrs

from openclaw_ctx import AssistantMessage, Block, Message, ToolCallBlock, ToolResultMessage

__all__ = ["call_ids", "paired"]

_LONGEST_ID: Final = 64
"""What providers take."""

_KEPT_ID: Final = 30


def call_ids(messages: Sequence[Message]) -> set[str]:
    """Return the ids of all calls among *messages*."""
    return {call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls}


def paired(group: Sequence[Message], used: set[str]) -> list[Message]:
    """
    Return *group* without calls that were never answered and results that nobody called for.

    A turn that was cancelled leaves such calls. Ids that are used already are
    written anew: weak models count from 1 in every turn.

    Args:
        group: One tool group, in its order.
        used: Ids of the prompt's other calls; those of this group are added.
    """
    answered = {message.tool_call_id for message in group if isinstance(message, ToolResultMessage)}
    waiting: dict[str, str] = {}
    kept: list[Message] = []
    for message in group:
        if isinstance(message, ToolResultMessage):
            fresh = waiting.pop(message.tool_call_id, None)
            if fresh is not None:
                same = fresh == message.tool_call_id
                kept.append(message if same else attrs.evolve(message, tool_call_id=fresh))
        elif isinstance(message, AssistantMessage) and message.tool_calls:
            called = _called(message, answered, waiting, used)
            if called.content:
                kept.append(called)
        else:
            kept.append(message)
    return kept


def _called(message: AssistantMessage, answered: set[str], waiting: dict[str, str], used: set[str]) -> AssistantMessage:
    content: list[Block] = []
    for block in message.content:
        if not isinstance(block, ToolCallBlock):
            content.append(block)
        elif block.id in answered and block.id not in waiting:
            waiting[block.id] = fresh = _fresh(block.id, str(message.entry_id), used)
            content.append(block if fresh == block.id else attrs.evolve(block, id=fresh))
    same = len(content) == len(message.content) and all(map(lambda a, b: a is b, content, message.content))
    return message if same else attrs.evolve(message, content=content)


def _fresh(wanted: str, entry_id: str, used: set[str]) -> str:
    fresh, number = wanted, 0
    while fresh in used or not 0 < len(fresh) <= _LONGEST_ID:
        number += 1
        fresh = f"{wanted[:_KEPT_ID] or 'call'}_{entry_id[:16]}_{number}"
    used.add(fresh)
    return fresh
