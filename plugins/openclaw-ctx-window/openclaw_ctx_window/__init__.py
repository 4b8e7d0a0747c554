"""
A context engine that keeps the newest whole turns.

The smallest engine that is worth using, and an example of how one is written.
"""

from collections.abc import Sequence
from itertools import takewhile

import attrs

from openclaw_ctx import (
    AssembleResult,
    BootstrapResult,
    CompactionSummaryMessage,
    CompactResult,
    EngineContext,
    EngineInfo,
    IngestResult,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
    hookimpl,
)

__all__ = ["WindowConfig", "WindowEngine"]

_SUMMARY_SHARE = 4
"""A summary may take one part in so many of the budget."""


@attrs.frozen(kw_only=True)
class WindowConfig:
    """``plugins.entries.window.config``: *max_turns* bounds the turns kept, whatever the budget."""

    max_turns: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(1)))


class WindowEngine:
    """Walks back from the newest message, a turn at a time, until the budget is spent."""

    config_class = WindowConfig
    info = EngineInfo(id="window", name="Window", version="0.1.0", contract="1.0")

    def __init__(self, context: EngineContext) -> None:
        self._max_turns = context.config.max_turns
        self._count = context.services.estimate_tokens

    @hookimpl
    def bootstrap(self) -> BootstrapResult:
        """Ask for nothing old: there is no index."""
        return BootstrapResult(bootstrapped=True, imported_messages=0)

    @hookimpl
    def ingest(self) -> IngestResult:
        """Take nothing: what a prompt needs comes with ``assemble``."""
        return IngestResult(ingested=False)

    @hookimpl
    def after_turn(self) -> None:
        """Do nothing, once, rather than nothing for each message."""

    @hookimpl
    def assemble(self, messages: Sequence[Message], token_budget: int | None) -> AssembleResult:
        """Return the newest whole turns within the budget; costs what it keeps."""
        if token_budget is None and self._max_turns is None:
            return AssembleResult(messages=messages)
        budget = token_budget if token_budget is not None else float("inf")
        head = self._head(messages, budget)
        budget -= sum(map(self._count, head))
        start, spent = self._whole_turns(messages, budget, end=len(head))
        if start < len(messages) or start == len(head):
            kept = messages[start:]
        else:
            kept, spent = self._part_of_turn(messages, budget)
        if head:
            kept = (*head, *kept)
        return AssembleResult(messages=kept, estimated_tokens=int(spent) + sum(map(self._count, head)))

    @hookimpl
    def compact(self) -> CompactResult:
        """Say that nothing needs doing: a window leaves out, it does not summarise."""
        return CompactResult(ok=True, compacted=False, reason="a window leaves out what does not fit")

    def _head(self, messages: Sequence[Message], budget: float) -> tuple[Message, ...]:
        """Return the standing instructions, and the summary where that leaves room."""
        head = tuple(takewhile(lambda message: isinstance(message, SystemMessage), messages))
        first = messages[len(head)] if len(head) < len(messages) else None
        if isinstance(first, CompactionSummaryMessage) and self._count(first) <= budget / _SUMMARY_SHARE:
            return (*head, first)
        return head

    def _whole_turns(self, messages: Sequence[Message], budget: float, *, end: int) -> tuple[int, float]:
        """Return where the kept turns begin, and what they cost; the end of *messages* where none fits."""
        start, spent, running, turns = len(messages), 0.0, 0.0, 0
        index, later = len(messages), None
        # Iterated, not indexed: this walk is what a prompt costs.
        for message in reversed(messages):
            if index == end:
                break
            if isinstance(later, UserMessage) and not isinstance(message, UserMessage):
                # The first of the user messages that stand together has just been passed: a turn begins there.
                start, spent, turns = index, running, turns + 1
                if turns == self._max_turns:
                    return start, spent
            running += self._count(message)
            if running > budget:
                return start, spent
            index, later = index - 1, message
        # Everything fits; what stands before the first user message belongs to no turn.
        if isinstance(later, UserMessage) or self._max_turns is None or turns < self._max_turns:
            start, spent = end, running
        return start, spent

    def _part_of_turn(self, messages: Sequence[Message], budget: float) -> tuple[tuple[Message, ...], float]:
        """Return the running turn's user message and the newest whole groups of it that fit beside it."""
        asked, groups = _turn_in_groups(messages)
        opening = [] if asked is None else [asked]
        spent = float(sum(map(self._count, opening)))
        kept: list[Message] = []
        for group in groups:
            cost = sum(map(self._count, group))
            # The newest group goes in whatever it costs: a prompt without it answers nothing.
            if kept and spent + cost > budget:
                break
            kept[:0] = group
            spent += cost
        return (*opening, *kept), spent


def _turn_in_groups(messages: Sequence[Message]) -> tuple[Message | None, list[list[Message]]]:
    """Return the newest user message, and what follows it in groups that must stay whole, newest first."""
    groups: list[list[Message]] = []
    group: list[Message] = []
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return message, [*groups, group] if group else groups
        group.insert(0, message)
        if not isinstance(message, ToolResultMessage):
            groups.append(group)
            group = []
    return None, groups
