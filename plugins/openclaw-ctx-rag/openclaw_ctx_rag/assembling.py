"""One prompt: the newest turns, and before them what was found for the question."""

import functools
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from openclaw_ctx import AssembleResult, EntryId, EstimateTokens, Message, UserMessage

from .documents import date_of, message_of
from .excerpts import shortened
from .following import Followed
from .index import Facts, Vectors
from .pairing import call_ids, paired
from .rendering import GAP, addition, end_line, marker
from .selection import Fill, Recent, recent_of, spread
from .terms import count_terms, query_terms

__all__ = ["Assembly"]

_LEFT_PART: Final = 8
"""More than one part in so many of what there is for recall is worth filling otherwise."""


@attrs.frozen(kw_only=True, eq=False)
class Assembly:
    """
    What one prompt is made of.

    Attributes:
        followed: The session's index.
        messages: The context that the host would send.
        budget: Tokens that the messages may cost.
        count: What a message costs.
        code: That of the line where the past ends.
    """

    followed: Followed
    messages: Sequence[Message]
    budget: int
    count: EstimateTokens
    code: str

    def question(self) -> str:
        """Return what the user said last, where the host does not tell."""
        return next((message.text for message in reversed(self.messages) if isinstance(message, UserMessage)), "")

    def newest(self, share: float = 1.0) -> Recent:
        """Return the newest turns within *share* of the budget."""
        return recent_of(self.messages, budget=self.budget, count=self.count, share=share)

    def without_recall(self, recent: Recent) -> AssembleResult:
        """Return a prompt of the newest turns alone; the very context where that is all of it."""
        messages = self.messages if recent.whole else (*recent.head, *recent.messages)
        return AssembleResult(messages=messages, estimated_tokens=recent.tokens)

    def with_recall(self, recent: Recent, question: str, vector: Vectors | None) -> AssembleResult | None:
        """Return a prompt with what was found for *question*, in the order in which it was said; nothing: no prompt."""
        said = addition(self.code)
        end = end_line(self.code)
        text_cost = _text_cost(self.count)
        budget = self.budget - recent.tokens - self.count(end) - text_cost(said)
        index = self.followed.index
        facts = index.facts()
        wanted = frozenset(query_terms(question))

        @functools.cache
        def cut(number: int) -> Message:
            ((entry_id, wire),) = index.read([number])
            message = message_of(EntryId(entry_id), wire)
            return shortened(message, fill.longest, wanted=wanted, terms=count_terms, estimate=text_cost)

        fill = Fill(
            budget=budget,
            facts=facts,
            before=self._first_recent(recent, len(facts.tokens)),
            cost_cut=lambda number: self.count(cut(number)),
            day_cost=lambda number: text_cost(_day_line(facts, number)),
            gap_cost=text_cost(GAP),
        )
        if fill.before and budget > 0:
            fill.take(index.search(question, vector=vector, limit=fill.most_hits))
        recalled = self._within(fill, cut, recent)
        if not recalled:
            return None
        left = budget - sum(map(self.count, recalled))
        if left > budget // _LEFT_PART:
            # Little was found: more of the newest turns instead, whose part of what was found goes with them.
            recent = recent_of(self.messages, budget=recent.tokens + left, count=self.count, head=recent.head)
            fill.leave_to(self._first_recent(recent, len(facts.tokens)))
            recalled = self._within(fill, cut, recent)
            if not recalled:
                return None
        messages = (*recent.head, *recalled, end, *recent.messages)
        return AssembleResult(
            messages=messages, estimated_tokens=sum(map(self.count, messages)), system_prompt_addition=said
        )

    def _first_recent(self, recent: Recent, end: int) -> int:
        """Return the number from which on the prompt has everything already."""
        numbers = (
            self.followed.index.number_of(message.entry_id)
            for message in recent.messages
            if message.entry_id is not None
        )
        return next((number for number in numbers if number is not None), end)

    def _within(self, fill: Fill, cut: Callable[[int], Message], recent: Recent) -> list[Message]:
        """Return what was taken with its lines; without the last of it, where days in disorder make too many lines."""
        while fill.members:
            recalled = self._rendered(fill, cut, recent)
            if sum(map(self.count, recalled)) <= fill.budget:
                return recalled
            fill.members.popitem()
        return []

    def _rendered(self, fill: Fill, cut: Callable[[int], Message], recent: Recent) -> list[Message]:
        facts = fill.facts
        used = call_ids(recent.messages)
        rendered: list[Message] = []
        for new_day, members in spread(fill):
            numbers = fill.numbers(members)
            group = [
                message_of(EntryId(entry_id), wire) if facts.tokens[number] <= fill.longest else cut(number)
                for number, (entry_id, wire) in zip(numbers, self.followed.index.read(numbers), strict=True)
            ]
            if new_day is not None:
                rendered.append(marker(_day_line(facts, numbers[0]) if new_day else GAP))
            rendered += paired(group, used)
        return rendered


def _day_line(facts: Facts, number: int) -> str:
    day = date_of(float(facts.timestamp[number]))
    return f"[{day}]" if day else GAP


def _text_cost(count: EstimateTokens) -> Callable[[str], int]:
    return lambda text: count(UserMessage(content=text)) if text else 0
