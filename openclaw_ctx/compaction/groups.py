"""Messages that are folded together or not at all: a call, its results, and what was said in between."""

from collections import Counter
from collections.abc import Sequence

from openclaw_ctx.contract import AssistantMessage, Message, ToolResultMessage
from openclaw_ctx.transcript import CUT_OFF

__all__ = ["atomic_groups"]


def atomic_groups(messages: Sequence[Message]) -> list[range]:
    """
    Return the places of *messages* in groups: every one once, in order.

    A group is a message alone, or an assistant's with calls and all up to the
    last of their results, what a user said meanwhile included. A result
    without an id ends its group; so does the next assistant's message, since
    results are looked for no further. A reply that was cut off waits for nothing.
    """
    groups: list[range] = []
    start = 0
    waiting: Counter[str] = Counter()
    for place, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            if start < place:
                groups.append(range(start, place))
                start = place
            calls = () if message.stop_reason in CUT_OFF else message.tool_calls
            waiting = Counter(call.id for call in calls)
        elif waiting and isinstance(message, ToolResultMessage):
            if message.tool_call_id in waiting:
                waiting -= Counter((message.tool_call_id,))
            elif not message.tool_call_id:
                waiting = Counter()
        if not waiting:
            groups.append(range(start, place + 1))
            start = place + 1
    if start < len(messages):
        groups.append(range(start, len(messages)))
    return groups
