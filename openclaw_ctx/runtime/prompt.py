"""
What was assembled, as the provider takes it.

It runs on what goes to the model, and not on all that was ever said; what a
message came to is remembered, so that a turn costs what it adds and one look at
each message that was seen before.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from openclaw_ctx.contract import AssistantMessage, EntryId, Message, UserMessage
from openclaw_ctx.transcript import CUT_OFF, repair_messages

from .heartbeat import filter_heartbeats, is_heartbeat
from .rules import PromptRules
from .sanitize import Sanitized, sanitize
from .validate import Merges, broke_off, omit_unanswered, without_broken_end, without_repeats

__all__ = ["PreparedPrompt", "PromptPipeline", "PromptRules"]

_SPARE: Final = 1_000


@attrs.frozen(kw_only=True)
class PreparedPrompt:
    """
    Messages that a provider will take.

    Attributes:
        messages: The very sequence that was given where nothing was to be done.
        changes: What was done, a phrase for each kind with its number; none where nothing was.
    """

    messages: Sequence[Message]
    changes: tuple[str, ...] = ()


class PromptPipeline:
    """Prepares the prompts of one session; for one thread at a time."""

    def __init__(self) -> None:
        self._rules: PromptRules | None = None
        self._refused: frozenset[EntryId] = frozenset()
        # Both hold the messages that they know, so that no id of theirs is given to another one.
        self._sound: dict[int, Message] = {}
        self._changed: dict[tuple[int, bool], tuple[Message, Sanitized]] = {}
        self._merges = Merges()

    def prepare(
        self, messages: Sequence[Message], rules: PromptRules, *, refused: frozenset[EntryId] = frozenset()
    ) -> PreparedPrompt:
        """
        Return *messages* sanitised, whole in their pairs, without idle heartbeats, in the provider's order.

        The last message of the user is always in it. A message that needs nothing
        stays the same object; one that was changed is the same one at the next
        prompt. Preparing what was prepared changes nothing.

        Args:
            messages: Oldest first, as the engine assembled them.
            rules: What the provider takes. Where they change, every message is looked at anew.
            refused: Messages whose thinking goes without its signature, since the provider has refused one of them;
                where there are any, this holds for all messages without an entry id, too.
        """
        if rules != self._rules or refused != self._refused:
            self._rules, self._refused = rules, refused
            self._sound, self._changed = {}, {}
        notes: Counter[str] = Counter()
        clean = self._sanitized(messages, rules, notes)
        unordered, interrupted = _look(clean)
        if interrupted and rules.api == "anthropic":
            clean = omit_unanswered(clean, notes)
        repaired = repair_messages(clean)
        if repaired.added and rules.api == "anthropic":
            repaired = repair_messages(omit_unanswered(clean, notes))
        prepared = repaired.messages
        if unordered or prepared is not messages or (prepared and broke_off(prepared[-1])):
            prepared = self._ordered(prepared, rules, notes)
        changes = tuple(f"{number} {phrase}" for phrase, number in notes.items() if number)
        return PreparedPrompt(messages=prepared, changes=(*changes, *repaired.phrases))

    def _sanitized(self, messages: Sequence[Message], rules: PromptRules, notes: Counter[str]) -> Sequence[Message]:
        self._forget(messages)
        sound = self._sound
        places = [place for place, message in enumerate(messages) if id(message) not in sound]
        if not places:
            return messages
        turn = _start_of_turn(messages)
        changed: dict[tuple[int, bool], tuple[Message, Sanitized]] = {}
        came_to: dict[int, Message | None] = {}
        for place in places:
            message, running = messages[place], place > turn
            key = id(message), running
            known = self._changed.get(key) or (message, self._sanitize(message, rules, running=running))
            cleaned = known[1]
            if cleaned.message is not message:
                came_to[place] = cleaned.message
                notes.update(cleaned.notes)
            elif not running or self._sanitize(message, rules, running=False).message is message:
                sound[id(message)] = message
                continue
            changed[key] = known
        self._changed = changed
        if not came_to:
            return messages
        result = (came_to.get(place, message) for place, message in enumerate(messages))
        return tuple([message for message in result if message is not None])

    def _sanitize(self, message: Message, rules: PromptRules, *, running: bool) -> Sanitized:
        refused = self._refused
        strips = bool(refused) and (message.entry_id is None or message.entry_id in refused)
        return sanitize(message, rules, running=running, strip_signatures=strips)

    def _forget(self, messages: Sequence[Message]) -> None:
        """Let go of messages that are in no prompt any more, once they are more than those that are."""
        if len(self._sound) > 2 * len(messages) + _SPARE:
            self._sound = {id(message): message for message in messages if id(message) in self._sound}

    def _ordered(self, messages: Sequence[Message], rules: PromptRules, notes: Counter[str]) -> Sequence[Message]:
        kept = filter_heartbeats(messages)
        notes["message of an idle heartbeat left out"] += len(messages) - len(kept)
        kept = without_repeats(without_broken_end(kept, notes), notes)
        return self._merges.merge(kept, rules.api, notes)


def _start_of_turn(messages: Sequence[Message]) -> int:
    """Return where the user spoke last, -1 where nobody did."""
    return next((at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], UserMessage)), -1)


def _look(messages: Iterable[Any]) -> tuple[bool, bool]:
    """Return whether *messages* hold heartbeats or neighbours of one role, and whether calls of a broken reply."""
    unordered = interrupted = False
    before: type | None = None
    for message in messages:
        kind = type(message)
        if kind is AssistantMessage:
            unordered = unordered or before is kind
            interrupted = interrupted or (message.stop_reason in CUT_OFF and bool(message.tool_calls))
        elif kind is UserMessage:
            unordered = unordered or before is kind or bool(message.extra and is_heartbeat(message))
        before = kind
    return unordered, interrupted
