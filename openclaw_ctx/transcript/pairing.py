"""
Tool calls and their results, made whole.

A provider refuses a conversation in which a result has no call before it or a
call no result behind it. Pairing goes by position, so ids that were used again
later in a session keep their own results; ids that reach a model are unique.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from openclaw_ctx.contract import AssistantMessage, Block, Message, TextBlock, ToolCallBlock, ToolResultMessage

__all__ = ["CUT_OFF", "PairRepair", "pairs_are_whole", "repair_pairs"]

MISSING_RESULT: Final = "The result of this tool call is missing from the history."
MAX_ID_CHARS: Final = 64
"""The shortest limit among providers for a tool call's id."""

CUT_OFF: Final = frozenset({"error", "aborted"})
"""Why a reply stopped that was cut off: its calls never ran, and wait for nothing."""


@attrs.frozen(kw_only=True)
class PairRepair:
    """Repaired messages, and what was done; all counts 0 where nothing was."""

    messages: Sequence[Message]
    added: int = 0
    dropped_duplicates: int = 0
    dropped_orphans: int = 0
    moved: int = 0
    renamed: int = 0

    @property
    def changes(self) -> int:
        """How many messages were added, dropped, moved or renamed."""
        return self.added + self.dropped_duplicates + self.dropped_orphans + self.moved + self.renamed


def pairs_are_whole(messages: Sequence[Message]) -> bool:
    """Return whether nothing needs repair. One pass, no copies."""
    seen: set[str] = set()
    open_ids: set[str] = set()
    optional: set[str] = set()
    for message in messages:
        if isinstance(message, ToolResultMessage):
            answered = message.tool_call_id
            if answered in open_ids:
                open_ids.remove(answered)
            elif answered in optional:
                optional.remove(answered)
            else:
                return False
            continue
        if open_ids:
            return False
        if optional:
            optional = set()
        if not isinstance(message, AssistantMessage):
            continue
        asked = _fresh_calls(message, seen)
        if asked is None:
            return False
        if message.stop_reason in CUT_OFF:
            optional = asked
        else:
            open_ids = asked
    return not open_ids


def _fresh_calls(message: AssistantMessage, seen: set[str]) -> set[str] | None:
    """Return the ids of the message's calls, added to *seen*; ``None`` where one has been used or will not do."""
    # One loop and no copies: this runs over every prompt.
    asked: set[str] = set()
    for block in message.content:
        if isinstance(block, ToolCallBlock):
            if block.id in seen or not 0 < len(block.id) <= MAX_ID_CHARS:
                return None
            seen.add(block.id)
            asked.add(block.id)
    return asked


def repair_pairs(messages: Sequence[Message]) -> PairRepair:
    """
    Return *messages* with every call answered once, directly behind it, and no result without a call.

    A result is looked for up to the next assistant message and moved behind its
    call; a missing one is replaced by an error result that says so. Calls of a
    reply that was cut off get none. Whole messages come back as they are.
    """
    if pairs_are_whole(messages):
        return PairRepair(messages=messages)
    return _Repairer(messages).run()


class _Repairer:
    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._out: list[Message] = []
        self._used: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._counts = dict.fromkeys(("added", "dropped_duplicates", "dropped_orphans", "moved", "renamed"), 0)

    def run(self) -> PairRepair:
        position = 0
        total = len(self._messages)
        while position < total:
            message = self._messages[position]
            position += 1
            if isinstance(message, ToolResultMessage):
                self._counts["dropped_orphans"] += 1
                continue
            if not isinstance(message, AssistantMessage) or not message.tool_calls:
                self._out.append(message)
                continue
            end = position
            while end < total and not isinstance(self._messages[end], AssistantMessage):
                end += 1
            self._pair(message, self._messages[position:end])
            position = end
        return PairRepair(messages=tuple(self._out), **self._counts)

    def _pair(self, call: AssistantMessage, span: Sequence[Message]) -> None:
        waiting = [(place, message) for place, message in enumerate(span) if isinstance(message, ToolResultMessage)]
        others = [message for message in span if not isinstance(message, ToolResultMessage)]
        directly = next((i for i, message in enumerate(span) if not isinstance(message, ToolResultMessage)), len(span))
        answers: list[ToolResultMessage] = []
        content: list[Block] = []
        for block in call.content:
            if not isinstance(block, ToolCallBlock):
                content.append(block)
                continue
            found = next((i for i, (_, result) in enumerate(waiting) if result.tool_call_id == block.id), None)
            fresh = self._fresh_id(block.id, call)
            if found is not None:
                place, answer = waiting.pop(found)
                self._counts["moved"] += place > directly
                answers.append(_named(answer, block, fresh))
            elif call.stop_reason not in CUT_OFF:
                answers.append(_missing(block, fresh))
                self._counts["added"] += 1
            content.append(block if fresh == block.id else attrs.evolve(block, id=fresh))
        known = {block.id for block in call.tool_calls}
        for _, leftover in waiting:
            kind = "dropped_duplicates" if leftover.tool_call_id in known else "dropped_orphans"
            self._counts[kind] += 1
        same = all(a is b for a, b in zip(content, call.content, strict=True))
        self._out.append(call if same else attrs.evolve(call, content=tuple(content)))
        self._out.extend(answers)
        self._out.extend(others)

    def _fresh_id(self, wanted: str, call: AssistantMessage) -> str:
        fresh = wanted if 0 < len(wanted) <= MAX_ID_CHARS else wanted[:40] or "call"
        # The entry id makes the new name the same on every turn, which keeps a provider's cache warm.
        base = fresh[: MAX_ID_CHARS - 16] + (f"_{call.entry_id}"[:9] if call.entry_id else "")
        while fresh in self._used:
            number = self._numbers[base] = self._numbers.get(base, 0) + 1
            fresh = f"{base}_{number}"
        self._used.add(fresh)
        if fresh != wanted:
            self._counts["renamed"] += 1
        return fresh


def _named(result: ToolResultMessage, block: ToolCallBlock, fresh: str) -> ToolResultMessage:
    if result.tool_call_id == fresh and result.tool_name:
        return result
    return attrs.evolve(result, tool_call_id=fresh, tool_name=result.tool_name or block.name)


def _missing(block: ToolCallBlock, fresh: str) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=fresh,
        tool_name=block.name or "unknown",
        is_error=True,
        content=(TextBlock(text=MISSING_RESULT),),
    )
