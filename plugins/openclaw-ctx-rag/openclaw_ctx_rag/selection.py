"""What of the newest messages a prompt keeps, and which of the older ones it brings back."""

import bisect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from openclaw_ctx import (
    AssistantMessage,
    CompactionSummaryMessage,
    EstimateTokens,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)

from .index import Facts, Hit

__all__ = ["Fill", "Recent", "recent_of", "spread"]

_SUMMARY_SHARE: Final = 4
"""A summary may take one part in so many of the budget."""

_LEAST_TOKENS: Final = 8
"""A budget with less left than this takes nothing more."""

_LONGEST_SHARE: Final = 5
"""One message may take one part in so many of what is there for recall; of longer ones passages come back."""

_LONGEST_TOKENS: Final = 160
"""And so many tokens in any case: less is no message any more."""

_MORE_HITS: Final = 64

_DAY_MILLISECONDS: Final = 86_400_000

_MISSING: Final = ToolResultMessage(content="The result of this tool call is missing from the history.")
"""What the host answers a call with that has no result: a turn was cancelled."""

_LEAST_SAID: Final = 3
"""What the host's words cost for a question or a result without any."""

_SAME_TEXT_TOKENS: Final = 6
"""From here on two equal texts are one said twice; "yes" is another thing each time."""


@attrs.frozen(kw_only=True)
class Recent:
    """
    What a prompt holds whatever is found.

    Attributes:
        head: What leads the context: instructions, a summary.
        messages: The newest turns.
        tokens: What both cost.
        whole: Whether nothing between them is left out.
    """

    head: tuple[Message, ...]
    messages: Sequence[Message]
    tokens: int
    whole: bool


def _head_of(messages: Sequence[Message], budget: int, count: EstimateTokens) -> tuple[Message, ...]:
    """Return what leads the context and stays there: instructions, and a summary that is not too dear."""
    head: list[Message] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            head.append(message)
        elif isinstance(message, CompactionSummaryMessage) and count(message) <= budget / _SUMMARY_SHARE:
            return (*head, message)
        else:
            break
    return tuple(head)


def recent_of(
    messages: Sequence[Message],
    *,
    budget: int,
    count: EstimateTokens,
    share: float = 1.0,
    head: tuple[Message, ...] | None = None,
) -> Recent:
    """
    Return the newest whole turns within *share* of the budget, and the running turn within all of it.

    Args:
        messages: The context, oldest first.
        budget: Tokens.
        count: What a message costs.
        share: 0 to 1.
        head: What leads the prompt, where that is known.
    """
    head = _head_of(messages, budget, count) if head is None else head
    spent = sum(map(count, head))
    most = budget - spent
    start, tokens = _whole_turns(messages, int(most * share), most, count, len(head))
    if start < len(messages) or start == len(head):
        return Recent(head=head, messages=messages[start:], tokens=spent + tokens, whole=start == len(head))
    kept, tokens = _part_of_turn(messages, most, count)
    return Recent(head=head, messages=kept, tokens=spent + tokens, whole=False)


def _whole_turns(
    messages: Sequence[Message], budget: int, most: int, count: EstimateTokens, first: int
) -> tuple[int, int]:
    start, spent, running = len(messages), 0, 0
    index, later = len(messages), None
    for message, cost in _backwards(messages, count):
        if index == first:
            break
        if isinstance(later, UserMessage) and not isinstance(message, UserMessage):
            start, spent = index, running
            if spent >= budget:  # the running turn, which is there whatever its share
                return start, spent
        running += cost
        if running > (budget if start < len(messages) else most):
            return start, spent
        index, later = index - 1, message
    return first, running


def _part_of_turn(messages: Sequence[Message], most: int, count: EstimateTokens) -> tuple[list[Message], int]:
    """Return the running turn's user message and the newest whole groups of it that fit beside it."""
    asked: Message | None = None
    spent = 0
    groups: list[tuple[list[Message], int]] = []
    group: list[Message] = []
    tokens = 0
    for message, cost in _backwards(messages, count):
        if isinstance(message, UserMessage):
            asked, spent = message, cost
            break
        group.append(message)
        tokens += cost
        if not isinstance(message, ToolResultMessage):
            groups.append((group[::-1], tokens))
            group, tokens = [], 0
    if group:
        groups.append((group[::-1], tokens))
    kept: list[list[Message]] = []
    for members, tokens in groups:
        # The newest group goes in whatever it costs: a prompt without it answers nothing.
        if kept and spent + tokens > most:
            break
        kept.append(members)
        spent += tokens
    return [*([] if asked is None else [asked]), *itertools.chain.from_iterable(reversed(kept))], spent


def _backwards(messages: Sequence[Message], count: EstimateTokens) -> Iterator[tuple[Message, int]]:
    """Yield each message with what it costs, the newest first; what the host adds to make pairs whole is counted."""
    missing = count(_MISSING)
    results = 0
    for message in reversed(messages):
        cost = count(message)
        if isinstance(message, ToolResultMessage):
            results += 1
        elif isinstance(message, AssistantMessage):
            cost += missing * max(0, len(message.tool_calls) - results)
            results = 0
        if cost < _LEAST_SAID and isinstance(message, UserMessage | ToolResultMessage) and not message.text.strip():
            cost = _LEAST_SAID
        yield message, cost


@attrs.define(kw_only=True)
class Fill:
    """
    Takes groups of messages while they fit, the best first.

    Attributes:
        budget: Tokens.
        facts: Of all messages.
        before: Messages from this number on are in the prompt already.
        cost_cut: What a message that is longer than ``longest`` costs once it is cut.
        day_cost: What the line with the day of a message costs, by number.
        gap_cost: What the line of a gap costs.
        members: Where on the branch that is which was taken, by its group, the best first.
        longest: Tokens that one message may take.
    """

    budget: int
    facts: Facts
    before: int
    cost_cut: Callable[[int], int]
    day_cost: Callable[[int], int]
    gap_cost: int
    members: dict[int, range] = attrs.field(init=False, factory=dict)
    longest: int = attrs.field(init=False)
    _branch: NDArray[Any] = attrs.field(init=False)
    _refused: set[int] = attrs.field(init=False, factory=set)
    _spans: list[range] = attrs.field(init=False, factory=list)
    _texts: set[int] = attrs.field(init=False, factory=set)

    @longest.default
    def _longest_of_budget(self) -> int:
        return max(_LONGEST_TOKENS, self.budget // _LONGEST_SHARE)

    @_branch.default
    def _branch_of_facts(self) -> NDArray[Any]:
        # What was rewritten or left stands between what is on the branch, in its very groups.
        return np.flatnonzero(self.facts.active[: self.before])

    @property
    def most_hits(self) -> int:
        """How many hits are worth looking at: more than fit, since some are passed over."""
        return _MORE_HITS + self.budget // _LEAST_TOKENS

    def take(self, hits: Sequence[Hit]) -> None:
        """Take of *hits* what fits; what does not is passed over, for something smaller may."""
        left = self.budget
        numbers = [hit.number for hit in hits]
        facts = self.facts
        tokens, groups, texts = (column[numbers].tolist() for column in (facts.tokens, facts.group, facts.digest))
        for number, cost, group, text in zip(numbers, tokens, groups, texts, strict=True):
            if left < _LEAST_TOKENS:
                break
            if min(cost, self.longest) > left or group in self.members or number >= self.before:
                continue
            if group in self._refused or (cost >= _SAME_TEXT_TOKENS and text in self._texts):
                continue
            members = self._members_of(number)
            whole = self._cost_of(members, left)
            if whole > left:
                self._refused.add(group)
                continue
            left -= whole
            bisect.insort(self._spans, members, key=_start_of)
            self._texts.add(text)
            self.members[group] = members

    def leave_to(self, before: int) -> None:
        """Give back what begins at number *before* or later: the prompt has it already."""
        self.before = before
        self.members = {
            group: members for group, members in self.members.items() if self._branch[members.start] < before
        }

    def numbers(self, members: range) -> list[int]:
        """Return the numbers of messages that were taken."""
        numbers: list[int] = self._branch[members.start : members.stop].tolist()
        return numbers

    def day_of(self, place: int) -> int:
        """Return the day of a message by its place on the branch, counted from the epoch; 0: unknown."""
        return int(self.facts.timestamp[self._branch[place]] // _DAY_MILLISECONDS)

    def _cost_of(self, members: range, most: int) -> int:
        """Return what a group costs with its lines; something above *most* where it is more."""
        total = self._lines_for(members)
        for number in self.numbers(members):
            if total > most:
                break
            cost = int(self.facts.tokens[number])
            total += cost if cost <= self.longest else self.cost_cut(number)
        return total

    def _lines_for(self, members: range) -> int:
        """Return what the lines cost that come with a group, less what those behind it no longer do."""
        place = bisect.bisect_left(self._spans, members.start, key=_start_of)
        before = self._spans[place - 1] if place else None
        own = self._line_before(members, before)
        if place == len(self._spans):
            return own
        behind = self._spans[place]
        return own + self._line_before(behind, members) - self._line_before(behind, before)

    def _line_before(self, members: range, before: range | None) -> int:
        new_day = self.begins_day(members, before)
        if new_day is None:
            return 0
        return self.day_cost(int(self._branch[members.start])) if new_day else self.gap_cost

    def begins_day(self, members: range, before: range | None) -> bool | None:
        """Return whether another day begins behind *before*; ``None`` where what follows it follows at once."""
        day = self.day_of(members.start)
        if before is None:
            return day != 0
        if day != self.day_of(before.start):
            return True
        return None if before.stop == members.start else False

    def _members_of(self, number: int) -> range:
        groups, branch = self.facts.group, self._branch
        group = groups[number]
        start = end = int(np.searchsorted(branch, number))
        while start and groups[branch[start - 1]] == group:
            start -= 1
        while end < len(branch) and groups[branch[end]] == group:
            end += 1
        return range(start, end)


def spread(fill: Fill) -> list[tuple[bool | None, range]]:
    """
    Return what was taken in the order of the conversation.

    Each with whether another day begins with it; ``None`` where it follows on, without a gap.
    """
    found: list[tuple[bool | None, range]] = []
    before = None
    for members in sorted(fill.members.values(), key=_start_of):
        found.append((fill.begins_day(members, before), members))
        before = members
    return found


def _start_of(members: range) -> int:
    return members.start
