"""
A context that providers take: nothing empty in it, and its pairs whole.

A view, made anew for each prompt: no message is changed and no file is written.
What says nothing is left out of the prompt and stays on record.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar, get_args

import attrs

from openclaw_ctx.contract import (
    AssistantMessage,
    Block,
    CustomMessage,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

from .pairing import CUT_OFF, MAX_ID_CHARS, PairRepair, repair_pairs

__all__ = ["CONTINUE", "NO_OUTPUT", "Repair", "repair_message", "repair_messages"]

CONTINUE: Final = "(continue)"
"""Stands for what a user sent blank; the reference system's."""

NO_OUTPUT: Final = "(no output)"
"""Stands for what a tool gave back empty: its call needs an answer."""

_PHRASES: Final = {
    "left_out": "empty message left out",
    "blanks": "blank text block removed",
    "continued": f"blank user message sent as {CONTINUE}",
    "filled": f"empty tool result sent as {NO_OUTPUT}",
    "added": "missing tool result added",
    "dropped_duplicates": "repeated tool result dropped",
    "dropped_orphans": "tool result without its call dropped",
    "moved": "tool result moved behind its call",
    "renamed": "tool call renamed",
}

_M = TypeVar("_M", bound=Message)

_WITH_CONTENT: Final = (ToolResultMessage, UserMessage, AssistantMessage, CustomMessage, SystemMessage)
_WITHOUT: Final = frozenset(get_args(Message)).difference(_WITH_CONTENT)


@attrs.frozen(kw_only=True)
class Repair(PairRepair):
    """
    Repaired messages, and what was done; all counts 0 where nothing was.

    Attributes:
        left_out: Messages that say nothing: of an assistant, a program or the system.
        blanks: Text blocks without text, beside others in their message.
        continued: Blank messages of a user.
        filled: Empty tool results.
    """

    left_out: int = 0
    blanks: int = 0
    continued: int = 0
    filled: int = 0

    @property
    def changes(self) -> int:
        """How many things were done."""
        return sum(getattr(self, name) for name in _PHRASES)

    @property
    def phrases(self) -> tuple[str, ...]:
        """What was done, one phrase a kind, each with its number."""
        return tuple(f"{number} {phrase}" for name, phrase in _PHRASES.items() if (number := getattr(self, name)))


def repair_messages(messages: Sequence[Message]) -> Repair:
    """
    Return *messages* as a provider takes them: no message and no text block empty, and pairs whole.

    What says nothing goes before pairs are looked at, so that it parts none.
    Messages in order come back as the very sequence that was given, after one
    pass and without a copy; a message that needs nothing stays the same object.
    """
    if _are_in_order(messages):
        return Repair(messages=messages)
    counts = dict.fromkeys(_PHRASES, 0)
    kept = [mended for message in messages if (mended := _mended(message, counts)) is not None]
    paired = repair_pairs(kept)
    filled = paired.messages
    if counts["filled"]:
        # Only now, since a result that is dropped needs no text.
        filled = [_filled(message) for message in filled]
        counts["filled"] = sum(new is not old for new, old in zip(filled, paired.messages, strict=True))
    counts |= {field.name: getattr(paired, field.name) for field in attrs.fields(PairRepair)[1:]}
    repair = Repair(messages=tuple(filled), **counts)
    return repair if repair.changes else Repair(messages=messages)


def repair_message(message: _M) -> _M | None:
    """Return *message* as it goes into a prompt, whatever its neighbours; ``None``: it is left out."""
    counts = dict.fromkeys(_PHRASES, 0)
    mended = _mended(message, counts)
    return None if mended is None else _filled(mended)


def _are_in_order(messages: Sequence[Any]) -> bool:  # noqa: C901, PLR0912 -- calls for each message would double its cost
    """
    Return whether there is nothing to do: pairs are whole, as ``pairs_are_whole`` has it, and everybody says something.

    One loop for both, since it runs over every prompt. A class that is not the
    contract's own is never in order: it is to be looked at closely.
    """
    seen: set[str] = set()
    open_ids: set[str] = set()
    optional: set[str] = set()
    for message in messages:
        kind = type(message)
        if kind is ToolResultMessage:
            if message.tool_call_id in open_ids:
                open_ids.remove(message.tool_call_id)
            elif message.tool_call_id in optional:
                optional.remove(message.tool_call_id)
            else:
                return False
        elif open_ids:
            return False
        elif optional:
            optional = set()
        if kind is AssistantMessage:
            asked = optional if message.stop_reason in CUT_OFF else open_ids
            if not _is_reply(message.content, seen, asked):
                return False
        elif kind in _WITH_CONTENT:
            if not message.content:
                return False
            for block in message.content:
                if type(block) is TextBlock:
                    if not block.text or block.text.isspace():
                        return False
                elif type(block) is ThinkingBlock:
                    return False
        elif kind not in _WITHOUT:
            return False
    return not open_ids


def _is_reply(content: Sequence[Any], seen: set[str], asked: set[str]) -> bool:
    """Return whether *content* says something and its calls have ids of their own, which are added to both sets."""
    speaks = False
    for block in content:
        kind = type(block)
        if kind is TextBlock:
            if not block.text or block.text.isspace():
                return False
        elif kind is ToolCallBlock:
            if block.id in seen or not 0 < len(block.id) <= MAX_ID_CHARS:
                return False
            seen.add(block.id)
            asked.add(block.id)
        elif kind is ThinkingBlock:
            continue
        speaks = True
    return speaks


def _mended(message: _M, counts: dict[str, int]) -> _M | None:
    """Return *message* without what is blank in it; ``None``: nothing is left. A tool result waits for its call."""
    if not isinstance(message, _WITH_CONTENT):
        return message
    blanks = speaks = 0
    for block in message.content:
        if _is_blank(block):
            blanks += 1
        elif not isinstance(block, ThinkingBlock):  # what a model only thought is no answer
            speaks += 1
    if speaks and not blanks:
        return message
    if speaks:
        counts["blanks"] += blanks
        return attrs.evolve(message, content=[block for block in message.content if not _is_blank(block)])
    if isinstance(message, ToolResultMessage):
        counts["filled"] += 1
        return message
    if isinstance(message, UserMessage):
        counts["continued"] += 1
        return attrs.evolve(message, content=CONTINUE)
    counts["left_out"] += 1
    return None


def _filled(message: _M) -> _M:
    if isinstance(message, ToolResultMessage) and not any(map(_speaks, message.content)):
        return attrs.evolve(message, content=NO_OUTPUT)
    return message


def _is_blank(block: Block) -> bool:
    return isinstance(block, TextBlock) and (not block.text or block.text.isspace())


def _speaks(block: Block) -> bool:
    return not isinstance(block, ThinkingBlock) and not _is_blank(block)
