"""The text of a summary, from what was prepared: by a model or without one, plain or safeguarded."""

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from openclaw_ctx.contract import AssistantMessage, Message, UserMessage
from openclaw_ctx.models import summarize_extractively
from openclaw_ctx.transcript import CUT_OFF

from .audit import audit_summary, retry_instructions
from .extracts import recent_turns_text, shortened_request, tool_failures_text
from .groups import atomic_groups
from .identifiers import find_identifiers
from .planner import Preparation, has_conversation
from .policy import CompactionPolicy
from .prompts import PREFIX_FORMAT, Asking, focus_text, identifier_text, operator_text
from .prune import plan_prune
from .safeguard import finish_summary, safeguard_instructions, structured_fallback
from .stored import Facts, final_text
from .summarizer import NO_HISTORY, Summarizer
from .threads import off_loop

__all__ = ["MOST_QUALITY_RETRIES", "MOST_RECENT_TURNS", "PREFIX_SHARE", "SUMMARY_SHARE", "Writer", "summary_tokens"]

SUMMARY_SHARE: Final = 0.8
"""What share of the reserved tokens a summary may take; the reference system's."""

PREFIX_SHARE: Final = 0.5
"""The same for the beginning of a turn that is cut in two; the reference system's."""

MOST_RECENT_TURNS: Final = 12
"""So many turns are kept word by word at most; the reference system's."""

MOST_QUALITY_RETRIES: Final = 3
"""So often a summary that fails its audit is made again at most; the reference system's."""

_FEEDBACK_CHARS: Final = 2_000
_FILES_SHARE: Final = 4


def summary_tokens(policy: CompactionPolicy, share: float) -> int:
    """Return what an answer of the summariser may cost, at least one token."""
    reserved = max(1, int(share * policy.reserve_tokens))
    return reserved if policy.max_output_tokens is None else max(1, min(reserved, policy.max_output_tokens))


@attrs.frozen(kw_only=True, eq=False)
class Writer:
    """
    Writes the summary of what was prepared.

    Attributes:
        count: Tokens of one message.
        summarizer: Asks for the history; ``None``: no model is asked, lines are copied.
        focus: What the user wants kept.
        facts: What is stored beside the summary.
        earlier: What the compaction before this one stored.
    """

    policy: CompactionPolicy
    count: Callable[[Message], int]
    summarizer: Summarizer | None
    prepared: Preparation
    focus: str | None
    facts: Facts
    earlier: Facts

    async def write(self) -> str:
        """
        Return the summary as it is stored.

        Raises:
            Exception: What the model raised.
            ValueError: What it answered is no summary, or fails the audit.
        """
        if self.policy.mode == "safeguard":
            return await self._safeguarded()
        if self.summarizer is None:
            return await self._copied()
        summary = await self._history(self._asking(), self.summarizer)
        turn = await self._prefix(self.summarizer)
        return final_text(summary, turn=turn, facts=self.facts, room=self.prepared.room)

    def _asking(self) -> Asking:
        rules = (identifier_text(self.policy), operator_text(self.policy), focus_text(self.focus))
        return Asking(max_chars=self.prepared.room).with_rules(*rules)

    async def _copied(self) -> str:
        made = self.prepared
        return await off_loop(
            len(made.folded), summarize_extractively, made.folded, max_chars=made.room, focus=self.focus
        )

    async def _history(self, asking: Asking, summarizer: Summarizer) -> str:
        """Return the summary of what is folded whole; the oldest part first, where what stays fills the window."""
        made = self.prepared
        history, previous = made.history, made.previous
        if previous is not None:
            # Files are carried on as facts: no model need copy their names.
            previous = previous.removesuffix(self.earlier.files(made.room // _FILES_SHARE))
        first = await off_loop(len(history), self._ahead, history)
        if first:
            previous = await summarizer.summarize(history[:first], asking, previous)
            history = history[first:]
        if not history and made.prefix:
            return previous or NO_HISTORY
        return await summarizer.summarize(history, asking, previous)

    def _ahead(self, history: Sequence[Message]) -> int:
        return plan_prune(
            atomic_groups(history),
            [self.count(message) for message in history],
            kept_tokens=self.prepared.kept_tokens,
            window=self.policy.context_window,
            share=self.policy.max_history_share,
        )

    async def _prefix(self, summarizer: Summarizer) -> str:
        """Return the summary of the beginning of a turn that is cut in two; nothing where none is."""
        prefix = self.prepared.prefix
        if not prefix:
            return ""
        shorter = attrs.evolve(summarizer, max_tokens=summary_tokens(self.policy, PREFIX_SHARE))
        room = self.prepared.room // 2
        return await shorter.summarize(prefix, attrs.evolve(self._asking(), form=PREFIX_FORMAT, max_chars=room))

    # -- safeguard ----------------------------------------------------------------------------------

    async def _safeguarded(self) -> str:
        made = self.prepared
        said = (*made.history, *made.prefix)
        recent, failures = await off_loop(len(said), self._extracts, said)
        body, turn = "", ""
        if not has_conversation(said):
            # Nothing was said in what is folded: what was known stays known, and the boundary ends the asking.
            body = structured_fallback(made.previous)
        elif self.summarizer is None:
            body = await self._copied()
        elif made.history:
            turn = await self._prefix(self.summarizer)
            body = await self._audited(said, self.summarizer, turn, recent_turns_kept=bool(recent))
        else:
            # The sections are asked of the turn itself where nothing was before it.
            whole = attrs.evolve(self, prepared=attrs.evolve(made, history=said, prefix=()))
            body = await whole._audited(said, self.summarizer, "", recent_turns_kept=bool(recent))  # noqa: SLF001 -- its own class
        return finish_summary(
            body,
            split_turn=turn,
            recent_turns=recent,
            tool_failures=failures,
            files=self.facts.files(made.room // _FILES_SHARE),
            workspace_rules=self.policy.workspace_rules,
            max_chars=made.room,
        )

    def _extracts(self, said: Sequence[Message]) -> tuple[str, str]:
        turns = min(self.policy.recent_turns, MOST_RECENT_TURNS)
        recent = recent_turns_text(said, turns=turns, max_chars=self.prepared.room // 2) if turns > 0 else ""
        return recent, tool_failures_text(said)

    async def _audited(
        self, said: Sequence[Message], summarizer: Summarizer, turn: str, *, recent_turns_kept: bool
    ) -> str:
        """Return a summary with the fixed sections that passes, with *turn*; asked for again where it does not."""
        policy, room = self.policy, self.prepared.room
        latest, identifiers, retained = await off_loop(len(said), self._expected, said)
        form = safeguard_instructions(
            policy_instructions=identifier_text(policy),
            custom_instructions=policy.custom_instructions,
            latest_ask=latest,
            recent_turns_kept=recent_turns_kept,
        )
        asking = Asking(form=form, max_chars=room).with_rules(focus_text(self.focus))
        reasons: tuple[str, ...] = ()
        for _attempt in range(1 + max(0, min(policy.quality_retries, MOST_QUALITY_RETRIES))):
            feedback = retry_instructions(reasons, max_chars=_FEEDBACK_CHARS) if reasons else ""
            summary = await self._history(asking.with_rules(feedback), summarizer)
            if policy.quality_retries < 0:
                return summary
            reasons = audit_summary(
                f"{summary}\n\n{turn}".rstrip(),
                identifiers=identifiers,
                latest_ask=latest,
                retained_asks=retained,
                check_identifiers=policy.identifier_policy == "strict",
            )
            if not reasons:
                return summary
        problem = f"the summary failed its audit: {', '.join(reasons)}"
        raise ValueError(problem)

    def _expected(self, said: Sequence[Message]) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
        """Return what a summary is audited for: the latest request, identifiers, and requests that were answered."""
        latest = self.facts.request
        # What nobody has answered may well be pending.
        end = next((i for i in range(len(said), 0, -1) if _is_answer(said[i - 1])), 0)
        asked = [message.text for message in said[:end] if isinstance(message, UserMessage) and message.text.strip()]
        turns = max(0, min(self.policy.recent_turns, MOST_RECENT_TURNS))
        retained = asked[len(asked) - min(turns, len(asked)) :]
        return latest, find_identifiers(said), tuple(text for text in retained if shortened_request(text) != latest)


def _is_answer(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and message.stop_reason not in CUT_OFF and not message.tool_calls
