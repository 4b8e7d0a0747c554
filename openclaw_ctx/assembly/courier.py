"""
Tells the engine of a session: what it missed, and each turn that ends.

What was handed over is remembered, so that after a switch to another engine and
back, a quarantine, a restart or an import, an engine is told what it missed,
once.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from openclaw_ctx.contract import (
    LEGACY_ENGINE_ID,
    AbortSignal,
    AssistantMessage,
    BootstrapReason,
    EntryId,
    HostDescriptor,
    Message,
    RewriteResult,
    SessionId,
    SessionKey,
    UserMessage,
)
from openclaw_ctx.host import Guard, Serving, require_host
from openclaw_ctx.log import get_logger
from openclaw_ctx.transcript import CUT_OFF, History, Transcript

from .facts import CallFacts
from .handover import HandOver, Mark

__all__ = ["Courier"]

_log = get_logger()

_SLICE_MESSAGES: Final = 500
_LEAST_SECONDS: Final = 0.05
_TIME_IS_UP: Final = "deadlines.turnEnd is used up"


class Courier:
    """
    Hands one session's messages to whoever answers for it.

    *running* tells how many of the newest messages are the running turn's, and
    no history yet; it is asked when the engine is there, for building one takes time.
    """

    def __init__(
        self,
        key: SessionKey,
        transcript: Transcript,
        *,
        guard: Guard,
        facts: CallFacts,
        descriptor: HostDescriptor,
        turn_end_seconds: float,
        running: Callable[[], int],
    ) -> None:
        self._key = key
        self._transcript = transcript
        self._guard = guard
        self._facts = facts
        self._descriptor = descriptor
        self._turn_end_seconds = turn_end_seconds
        self._running = running
        self._handover = HandOver(transcript)
        self._met: tuple[str, int, SessionId] | None = None

    async def introduce(self) -> Serving:
        """
        See that whoever answers knows the session and has been told what it missed; return who it is.

        Raises:
            HostIncompatibleError: It needs what this host cannot do.
            SubstitutionRefusedError: It cannot answer, and nobody may in its place.
        """
        serving = await self._guard.serving()
        met = (serving.engine_id, serving.generation, self._transcript.session_id)
        if met == self._met:
            return serving
        require_host(serving.info, "agent-run", self._descriptor)
        # Forgotten until it has been told everything: a caller may give up halfway, and a policy may forgive a failure.
        self._met = None
        if serving.engine_id != LEGACY_ENGINE_ID:
            if not await self._bootstrap(serving):
                return await self._guard.serving()
            serving = await self._guard.serving()
        self._met = met
        return serving

    async def hand_over_turn(
        self,
        serving: Serving,
        size: int,
        *,
        is_heartbeat: bool,
        budget: int | None,
        until: float,
        summary: str | None = None,
    ) -> int:
        """Hand a turn of *size* messages over; return how many the engine took, within what is left of the time."""
        if not size or serving.engine_id == LEGACY_ENGINE_ID:
            return 0
        if self._met is None:
            return 0  # it has not been told what came before; the turn is told with that
        turn = self._untold(serving, size)
        met, self._met = self._met, None
        if _advances_durably(serving):
            taken, untold = await self._commit(serving, turn, until=until)
            self._met = None if untold else met
            return taken
        if "after_turn" in serving.implemented:
            messages, before = self._with_turn(turn)
            arguments = {
                **self._facts.file(),
                **self._facts.run(budget=budget, ended=True),
                "messages": messages,
                "pre_prompt_message_count": before,
                "auto_compaction_summary": summary,
                "is_heartbeat": is_heartbeat,
                "token_budget": budget,
            }
            answer = await self._guard.call("after_turn", arguments, seconds=_remaining(until))
            taken = len(turn) if answer.serving.substitution is None else 0
        else:
            taken = await self._ingest(turn, is_heartbeat=is_heartbeat, until=until)
        if taken:
            self._mark(serving.engine_id, turn[taken - 1].entry_id)
        if taken == len(turn):
            self._met = met
        return taken

    def follow_rewrite(self) -> None:
        """Find the marks again after entries have been written anew: nobody is told of them twice."""
        self._handover.follow(self._transcript.newest_of)

    async def maintain(
        self, *, until: float | None = None, deferred: bool = False, abort: AbortSignal | None = None
    ) -> RewriteResult | None:
        """Let the engine tidy up, within what is left of the time; *deferred*: it may compact as well."""
        until = until or self.deadline()
        if "maintain" not in (await self._guard.serving()).implemented:
            return None
        if _is_up(until):
            # Handing over has used the time: a call that must fail would bar an engine for nothing.
            _log.warning("maintenance.skipped", session=self._key, reason=_TIME_IS_UP)
            return None
        arguments = {**self._facts.file(), **self._facts.run(ended=True, deferred=deferred)}
        answer = await self._guard.call("maintain", arguments, seconds=_remaining(until), abort=abort)
        result: RewriteResult = answer.value
        return result

    @property
    def flushed_behind(self) -> tuple[EntryId | None] | None:
        """Behind which compaction memory was flushed, in this process or an earlier one; ``None``: it never was."""
        return self._handover.flushed_behind

    def note_flush(self) -> None:
        """Remember that memory has been flushed since the last compaction."""
        self._handover.note_flush()

    def deadline(self) -> float:
        """Return when all work after a turn that ends now must be done, by the monotonic clock."""
        return time.monotonic() + self._turn_end_seconds

    async def _bootstrap(self, serving: Serving) -> bool:
        """Introduce the session; return whether the engine has been told all that it missed."""
        session_id = self._transcript.session_id
        mark = self._handover.mark(serving.engine_id)
        known, missed, reason = self._missed(mark, self._running())
        elsewhere = mark is not None and mark.session_id != session_id
        arguments = {
            **self._facts.file(),
            **self._facts.run(),
            "reason": reason,
            "previous_session_id": mark.session_id if mark is not None and elsewhere else None,
        }
        answer = await self._guard.call("bootstrap", arguments)
        if answer.serving.substitution is not None:
            return False
        if answer.value.imported_messages is None:
            taken = await self._hand_over(serving, missed)
            if taken < len(missed):
                return False
        if not _advances_durably(serving) or answer.value.imported_messages is not None:
            self._mark(serving.engine_id, missed[-1].entry_id if missed else known)
        elif mark is self._handover.mark(serving.engine_id):
            self._mark(serving.engine_id, known)  # nothing was committed, and it has met the session all the same
        await self.maintain()
        return True

    def _untold(self, serving: Serving, size: int) -> History:
        """Return what follows the engine's mark: the turn, and whatever somebody else wrote into it."""
        mark = self._handover.mark(serving.engine_id)
        if mark is None or mark.entry_id is None or mark.session_id != self._transcript.session_id:
            record = self._transcript.record()
            return record if mark is not None and mark.entry_id is None else record[len(record) - size :]
        return self._transcript.record(after=self._transcript.nearest_on_branch(mark.entry_id))

    def _missed(self, mark: Mark | None, running: int) -> tuple[EntryId | None, Sequence[Message], BootstrapReason]:
        """Return what an engine was told last, what it was not told, and what that makes this meeting."""
        known = None
        if mark is not None and mark.entry_id is not None:
            # A rotation keeps the ids of entries, so that what was told before it is found behind it too.
            known = self._transcript.nearest_on_branch(mark.entry_id)
        untold = self._transcript.record(after=known)
        missed = untold[: max(0, len(untold) - running)]
        if mark is None:
            return known, missed, "import" if missed else "new"
        if mark.session_id != self._transcript.session_id:
            return known, missed, "continuation" if "parentSession" in self._transcript.header else "reset"
        return known, missed, "catch_up" if missed else "resume"

    async def _hand_over(self, serving: Serving, messages: Sequence[Message]) -> int:
        """Tell the engine of past messages, in slices that each have a deadline; return how many it took."""
        if _advances_durably(serving):
            _, untold = await self._commit(serving, messages, until=None)
            return 0 if untold else len(messages)
        for start in range(0, len(messages), _SLICE_MESSAGES):
            part = messages[start : start + _SLICE_MESSAGES]
            taken = await self._ingest(part, is_heartbeat=False, until=None)
            if taken:
                self._mark(serving.engine_id, part[taken - 1].entry_id)
            if taken < len(part):
                return start + taken
        return len(messages)

    async def _ingest(self, messages: Sequence[Message], *, is_heartbeat: bool, until: float | None) -> int:
        """Hand messages over as a batch where the engine takes one, else one by one; return how many it took."""
        base = {**self._facts.names(), **self._facts.run(), "is_heartbeat": is_heartbeat}
        if "ingest_batch" in (await self._guard.serving()).implemented:
            arguments = {**base, "messages": messages}
            answer = await self._guard.call("ingest_batch", arguments, seconds=_remaining(until))
            return len(messages) if answer.serving.substitution is None else 0
        for index, message in enumerate(messages):
            if until is not None and _is_up(until):
                self._met = None  # the rest is told as missed
                self._log_stop("ingest", index, len(messages), _TIME_IS_UP)
                return index
            answer = await self._guard.call("ingest", {**base, "message": message}, seconds=_remaining(until))
            if answer.serving.substitution is not None:
                self._log_stop("ingest", index, len(messages), answer.serving.substitution)
                return index
        return len(messages)

    async def _commit(self, serving: Serving, messages: Sequence[Message], *, until: float | None) -> tuple[int, bool]:
        """
        Commit the accepted turns among *messages*, each by a key that stays the same.

        What stands behind the last of them stays untold: it may become a turn yet.

        Returns:
            How many messages were committed, and whether some stay that have to be: it failed, or the time is up.
        """
        taken = 0
        for start, stop in accepted_turns(messages):
            if until is not None and _is_up(until):
                self._log_stop("commit_turn", taken, len(messages), _TIME_IS_UP)
                return taken, True
            turn = messages[start:stop]
            first, last = turn[0].entry_id, turn[-1].entry_id
            arguments = {
                **self._facts.names(),
                **self._facts.run(ended=True),
                "advancement_key": f"{self._transcript.session_id}:{first}:{last}",
                "messages": turn,
            }
            answer = await self._guard.call("commit_turn", arguments, seconds=_remaining(until))
            if answer.serving.substitution is not None:
                return taken, True
            self._mark(serving.engine_id, last)
            taken += len(turn)
        return taken, False

    def _log_stop(self, operation: str, index: int, total: int, reason: str) -> None:
        _log.warning(
            "handover.stopped", session=self._key, operation=operation, message=index + 1, messages=total, reason=reason
        )

    def _with_turn(self, turn: Sequence[Message]) -> tuple[Sequence[Message], int]:
        """Return the context with the turn at its end, and where the turn begins."""
        history = self._transcript.history
        before = len(history) - len(turn)
        if before >= 0 and history[before:].entry_ids == [message.entry_id for message in turn]:
            return history, before
        # A compaction inside the turn has folded some of it: what was said still belongs to it.
        own = {message.entry_id for message in turn}
        prefix = [message for message in history if message.entry_id not in own]
        return (*prefix, *turn), len(prefix)

    def _mark(self, engine_id: str, entry_id: EntryId | None) -> None:
        self._handover.set(engine_id, Mark(self._transcript.session_id, entry_id))


def accepted_turns(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """
    Return where each accepted turn begins and ends: from the user's message to the answer that ends it.

    A reply that was cut off ends no turn. What the user says begins another,
    whatever came before it: what has no answer by then was never accepted, and
    belongs to no turn.
    """
    turns: list[tuple[int, int]] = []
    start: int | None = None
    for index, message in enumerate(messages):
        if isinstance(message, UserMessage):
            start = index
        elif start is not None and isinstance(message, AssistantMessage) and _answers(message):
            turns.append((start, index + 1))
            start = None
    return turns


def _answers(message: AssistantMessage) -> bool:
    return message.stop_reason not in CUT_OFF and not message.tool_calls


def _advances_durably(serving: Serving) -> bool:
    return serving.info.turn_advancement is not None and "commit_turn" in serving.implemented


def _remaining(until: float | None) -> float | None:
    return None if until is None else max(_LEAST_SECONDS, until - time.monotonic())


def _is_up(until: float) -> bool:
    return until - time.monotonic() < _LEAST_SECONDS
