"""
The order of turns that a provider takes.

Gemini wants no two answers in a row; Anthropic neither that nor two messages of
the user, and no call without its result. Others take any order. For all of them
a message that the user sent twice with nothing in between is sent once, and a
reply that broke off ends no prompt: the model is asked for it again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import attrs

from openclaw_ctx.contract import (
    AssistantMessage,
    Block,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.transcript import CUT_OFF

from .heartbeat import is_heartbeat
from .rules import TurnApi
from .thinking import has_signed_thinking, is_thinking

__all__ = ["CALLS_OMITTED", "Merges", "broke_off", "omit_unanswered", "without_broken_end", "without_repeats"]

CALLS_OMITTED: Final = "[tool calls omitted]"
"""Stands for an answer that was calls alone, of which none was answered; the reference system's."""

_MERGED: Final[dict[str, tuple[type, ...]]] = {
    "anthropic": (AssistantMessage, UserMessage),
    "gemini": (AssistantMessage,),
}


def broke_off(message: Message) -> bool:
    """Return whether *message* is a reply that was cut off."""
    return isinstance(message, AssistantMessage) and message.stop_reason in CUT_OFF


def omit_unanswered(messages: Sequence[Message], notes: Counter[str]) -> Sequence[Message]:
    """
    Return *messages* without the calls that nobody answered before the next answer.

    A message that was calls alone says so in their place, and is left empty where
    it was cut off. One with signed thinking loses all its calls and its thinking,
    since a provider takes it whole or not at all.
    """
    out: list[Message] = []
    changed = False
    for place, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and message.tool_calls:
            told = _told(message, _results_behind(messages, place), notes)
            changed = changed or told is not message
            out.append(told)
        else:
            out.append(message)
    return tuple(out) if changed else messages


def without_broken_end(messages: Sequence[Message], notes: Counter[str]) -> Sequence[Message]:
    """Return *messages* up to the last that is no reply which was cut off."""
    end = len(messages)
    while end and broke_off(messages[end - 1]):
        end -= 1
    if end == len(messages):
        return messages
    notes["broken reply at the end left out"] += len(messages) - end
    return messages[:end]


def without_repeats(messages: Sequence[Message], notes: Counter[str]) -> Sequence[Message]:
    """Return *messages* with the last alone of what a user said twice in a row, word for word."""
    kept = [
        message
        for place, message in enumerate(messages)
        if not (isinstance(message, UserMessage) and _is_said_again(message, messages, place + 1))
    ]
    if len(kept) == len(messages):
        return messages
    notes["repeated user message left out"] += len(messages) - len(kept)
    return tuple(kept)


class Merges:
    """Makes one message of neighbours, and the same one for the same neighbours at the next prompt."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], tuple[Sequence[Message], Message]] = {}

    def merge(self, messages: Sequence[Message], api: TurnApi, notes: Counter[str]) -> Sequence[Message]:
        """Return *messages* with neighbours merged as *api* wants them; their pairs are whole before and after."""
        kinds = _MERGED.get(api, ())
        used: dict[tuple[int, ...], tuple[Sequence[Message], Message]] = {}
        out: list[Message] = []
        for kind, group in groupby(messages, type):
            run = list(group)
            if len(run) == 1 or kind not in kinds:
                out.extend(run)
                continue
            # The run is held with what it came to, so that no id in the key is given to another message.
            key = tuple(map(id, run))
            used[key] = self._made.get(key) or (run, _merged(run))
            out.append(used[key][1])
            notes[f"neighbouring {run[0].role} message merged"] += len(run) - 1
        self._made = used
        return tuple(out) if used else messages


def _merged(run: Sequence[Any]) -> Message:
    return _merged_users(run) if isinstance(run[-1], UserMessage) else _merged_answers(run)


def _merged_users(run: Sequence[UserMessage]) -> UserMessage:
    last = run[-1]
    content = tuple([block for message in run for block in message.content])
    if is_heartbeat(last) and not all(map(is_heartbeat, run)):
        # What a user said as well is no heartbeat.
        plain = {key: value for key, value in last.extra.items() if key != "isHeartbeat"}
        return attrs.evolve(last, content=content, extra=plain)
    return attrs.evolve(last, content=content)


def _merged_answers(run: Sequence[AssistantMessage]) -> AssistantMessage:
    """Return one answer with the last one's facts; calls before the last have no results, as those would part them."""
    last = run[-1]
    content = [block for message in run[:-1] for block in message.content if not isinstance(block, ToolCallBlock)]
    # Signatures that are left are good: who made them is told by a message that has some.
    maker = next((message for message in reversed(run) if has_signed_thinking(message)), last)
    return attrs.evolve(last, content=(*content, *last.content), provider=maker.provider, model=maker.model)


def _is_said_again(message: UserMessage, messages: Sequence[Message], place: int) -> bool:
    following = messages[place] if place < len(messages) else None
    return isinstance(following, UserMessage) and following.content == message.content


def _results_behind(messages: Sequence[Message], place: int) -> Iterator[ToolResultMessage]:
    for at in range(place + 1, len(messages)):
        message = messages[at]
        if isinstance(message, AssistantMessage):
            return
        if isinstance(message, ToolResultMessage):
            yield message


def _told(message: AssistantMessage, results: Iterable[ToolResultMessage], notes: Counter[str]) -> AssistantMessage:
    answers: dict[str, list[str]] = {}
    for result in results:
        answers.setdefault(result.tool_call_id, []).append((result.tool_name or "").strip())
    signed = has_signed_thinking(message)
    kept: list[Block] = []
    omitted = 0
    for block in message.content:
        if isinstance(block, ToolCallBlock):
            names = answers.get(block.id)
            if not names or (names.pop(0) not in {"", block.name} and signed):
                omitted += 1
                continue
        kept.append(block)
    if not omitted:
        return message
    if signed:
        omitted = len(message.tool_calls)
        kept = [block for block in kept if not isinstance(block, ToolCallBlock) and not is_thinking(block)]
    notes["tool call without a result omitted"] += omitted
    if not broke_off(message) and all(map(is_thinking, kept)):
        kept.append(TextBlock(text=CALLS_OMITTED))
    return attrs.evolve(message, content=tuple(kept))
