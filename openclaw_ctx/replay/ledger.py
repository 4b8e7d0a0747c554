"""What is noted of one run while it is played."""

import time
from collections.abc import Mapping, Sequence

import attrs

from openclaw_ctx.assembly import CompactionNotice, Session
from openclaw_ctx.contract import CompactionSummaryMessage, CompactResult, EntryId, Message
from openclaw_ctx.errors import TurnBlockedError
from openclaw_ctx.host import HookCall
from openclaw_ctx.log import clean_text
from openclaw_ctx.runtime import Prompt

from .compactions import Compaction, GivenUp
from .measures import Call
from .summaries import Summaries

__all__ = ["Ledger"]


@attrs.frozen(kw_only=True)
class _Begun:
    """A compaction that is under way; ``asked`` says whether the host asked for it, and will say that it has ended."""

    trigger: str
    tokens: int
    since: float
    requests: int
    asked: bool


class Ledger:
    """
    Notes calls, compactions, hooks' time, and turns that were given up.

    Attributes:
        turn: The one that is running, counted from 1.
        record: Every message that is in the transcript.
        engine: Who answered last.
    """

    def __init__(self, *, budget: int | None, summaries: Summaries, engine: str) -> None:
        self.turn = 0
        self.record: set[EntryId | None] = set()
        self.engine = engine
        self.calls: list[Call] = []
        self.compactions: list[Compaction] = []
        self.given_up: list[GivenUp] = []
        self.repairs = 0
        self.substitution: str | None = None
        self._budget = budget
        self._summaries = summaries
        self._seconds: dict[str, float] = {}
        self._begun: _Begun | None = None
        self._made = 0
        self._asked: Call | None = None
        self._repairs = 0

    def saw(self, call: HookCall) -> None:
        """Add up what a hook took."""
        self._seconds[call.operation] = self._seconds.get(call.operation, 0.0) + call.seconds

    def note_substitution(self, substitution: str | None) -> None:
        """Keep the first reason why another engine answered."""
        if self.substitution is None and substitution is not None:
            self.substitution = clean_text(substitution)

    def ask(self, prompt: Prompt, session: Session) -> None:
        """Note a prompt that the model is asked with; it is a call once it is answered."""
        kept = self._kept(prompt.messages, session)
        folded = any(isinstance(message, CompactionSummaryMessage) for message in prompt.messages)
        away = len(self.record) - kept
        summarised = min(away, session.transcript.summarised_count) if folded else 0
        self.engine = prompt.engine
        self._asked = Call(
            turn=self.turn,
            call=len(self.calls) + 1,
            prompt_tokens=prompt.estimated_tokens,
            budget=self._budget,
            kept=kept,
            left_out=away - summarised,
            summarised=summarised,
            compactions=0,
            milliseconds={},
            engine=prompt.engine,
        )
        self._repairs = len(prompt.repairs)

    def answer(self, *, tokens: int | None = None) -> None:
        """Note that the last prompt was answered; *tokens* is what it cost where that is not what was estimated."""
        if self._asked is None:
            return
        asked, self._asked, made, self._made = self._asked, None, self._made, 0
        self.repairs += self._repairs
        cost = asked.prompt_tokens if tokens is None else tokens
        self.calls.append(attrs.evolve(asked, prompt_tokens=cost, compactions=made, milliseconds=self._take()))

    def note_message(self, message: Message) -> None:
        """Note a message that is in the transcript now."""
        self.record.add(message.entry_id)

    def note_turn_end(self) -> None:
        """Add what came behind the turn's last call to it: it belongs there."""
        if self.calls:
            last, made = self.calls[-1], self._made
            self._made = 0
            self.calls[-1] = attrs.evolve(
                last,
                milliseconds=_added(last.milliseconds, self._take()),
                compactions=last.compactions + made,
            )

    def give_up(self, error: TurnBlockedError) -> None:
        """Note that the running turn came to nothing."""
        self.given_up.append(GivenUp(turn=self.turn, kind=error.kind, reason=error.said))

    # -- compactions ------------------------------------------------------------------------------

    def begin(self, trigger: str, tokens: int, *, asked: bool = True) -> None:
        """Note that a compaction begins."""
        self._begun = _Begun(
            trigger=trigger, tokens=tokens, since=time.perf_counter(), requests=self._summaries.requests, asked=asked
        )

    def end(self, result: CompactResult, session: Session) -> None:
        """Note what it came to; where there was nothing to do, nothing."""
        begun, self._begun = self._begun, None
        if begun is None or (result.ok and not result.compacted):
            return
        kept = self._kept(session.history, session)
        made, requests = result.result, self._summaries.requests - begun.requests
        summary = None if made is None else made.summary
        self._made += result.compacted
        self.compactions.append(
            Compaction(
                turn=self.turn,
                call=len(self.calls) + begun.asked,
                trigger=begun.trigger,
                compacted=result.compacted,
                reason=result.reason,
                measured=begun.tokens,
                tokens_before=begun.tokens if made is None else made.tokens_before or begun.tokens,
                tokens_after=None if made is None else made.tokens_after,
                seconds=time.perf_counter() - begun.since,
                summarised_by=self._summaries.wrote(summary, requests, engine=self.engine)
                if result.compacted
                else None,
                requests=requests,
                kept=kept,
                messages=len(self.record),
            )
        )

    def began_behind(self, notice: CompactionNotice) -> None:
        """Note a compaction that no host asked for; one that it did is noted already."""
        if self._begun is None or not self._begun.asked:
            self.begin(notice.trigger, notice.token_count, asked=False)

    def ended_behind(self, notice: CompactionNotice, session: Session) -> None:
        """Note what it came to."""
        if self._begun is not None and not self._begun.asked and notice.result is not None:
            self.end(notice.result, session)

    def _kept(self, messages: Sequence[Message], session: Session) -> int:
        """
        Return how many of *messages* are of the record.

        Where some have been written anew, as a tool result is that was cut, the
        record's entries are learned anew.
        """
        known = self.record
        kept = sum([message.entry_id in known for message in messages])
        strangers = (m for m in messages if m.entry_id is not None and m.entry_id not in known)
        if kept == len(messages) or all(isinstance(message, CompactionSummaryMessage) for message in strangers):
            return kept
        self.record = known = {message.entry_id for message in session.transcript.record()}
        return sum(message.entry_id in known for message in messages)

    def _take(self) -> dict[str, float]:
        """Return milliseconds by hook since the last time."""
        seconds, self._seconds = self._seconds, {}
        return {operation: taken * 1000 for operation, taken in seconds.items()}


def _added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in (*first, *second)}
