"""
Old tool results left out of one request, once the provider's cache has run out anyway.

The transcript keeps them. While the cache lasts nothing is touched: to change
what it holds costs more than to send it. So what was pruned once stays pruned,
the same way, until the cache has run out again.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

import attrs
import msgspec

from openclaw_ctx.contract import (
    JSON,
    AssistantMessage,
    Block,
    EntryId,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownMessage,
    UserMessage,
)

from .truncation import whole_end, whole_start

__all__ = ["PromptPruner", "PruningPolicy", "prune"]

IMAGE_CHARS: Final = 8_000
"""What a picture counts as; the reference system's."""

UNKNOWN_CHARS: Final = 256
"""What nobody can measure counts as: an unknown role or block, unreadable JSON; the reference system's."""

CHARS_PER_TOKEN: Final = 4
"""The reference system's, here."""

IMAGE_REMOVED: Final = "[image removed during context pruning]"
"""Stands for a picture in a result that is shortened; the reference system's."""

_TRIMMED: Final = re.compile(r"\n\n\[pruned: the first \d+ and last \d+ of \d+ characters\]\Z")
_NOTE_CHARS: Final = 120


@attrs.frozen(kw_only=True)
class PruningPolicy:
    """
    When and what to prune; the defaults are the reference system's.

    Attributes:
        ttl_seconds: How long the provider's cache lasts; 0 never prunes.
        keep_last_assistants: Results from this many answers back on are left alone.
        soft_trim_ratio: The share of the window from which on results are shortened.
        hard_clear_ratio: The share from which on, and down to which, they are cleared.
        min_prunable_tool_chars: Results that have less together are not cleared.
        soft_trim_max_chars: A longer result is shortened.
        head: Characters kept of its beginning.
        tail: Characters kept of its end.
        hard_clear: Whether results are cleared at all.
        placeholder: Stands for a cleared one.
        allow: Tools whose results may be pruned, with ``*`` for anything; empty for all.
        deny: Tools whose results may not, whatever *allow* says.
    """

    mode: Literal["off", "cache-ttl"] = "off"
    ttl_seconds: float = 300.0
    keep_last_assistants: int = 3
    soft_trim_ratio: float = 0.3
    hard_clear_ratio: float = 0.5
    min_prunable_tool_chars: int = 50_000
    soft_trim_max_chars: int = 4_000
    head: int = 1_500
    tail: int = 1_500
    hard_clear: bool = True
    placeholder: str = "[Old tool result content cleared]"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class PromptPruner:
    """
    Prunes the prompts of one session.

    A result is known again by its entry id; one that has none, since an engine
    made it, is pruned in one prompt only.
    """

    def __init__(self) -> None:
        self._left: dict[EntryId, tuple[Block, ...]] = {}

    def prune(
        self,
        messages: Sequence[Message],
        *,
        policy: PruningPolicy,
        window: int,
        last_touch: float | None,
        now: float,
        cache_capable: bool,
    ) -> tuple[Sequence[Message], bool]:
        """Return the messages to send, and whether they were pruned anew; see :func:`prune`."""
        if cache_capable and last_touch is not None and now - last_touch < policy.ttl_seconds:
            return self._as_before(messages), False
        left, pruned = prune(
            messages, policy=policy, window=window, last_touch=last_touch, now=now, cache_capable=cache_capable
        )
        changed = [new for old, new in zip(messages, left, strict=True) if new is not old] if pruned else ()
        self._left = {m.entry_id: m.content for m in changed if isinstance(m, ToolResultMessage) and m.entry_id}
        return left, pruned

    def _as_before(self, messages: Sequence[Message]) -> Sequence[Message]:
        if not self._left:
            return messages
        return tuple([self._left_of(one) if isinstance(one, ToolResultMessage) else one for one in messages])

    def _left_of(self, result: ToolResultMessage) -> ToolResultMessage:
        left = self._left.get(result.entry_id) if result.entry_id is not None else None
        return result if left is None else attrs.evolve(result, content=left)


def prune(
    messages: Sequence[Message],
    *,
    policy: PruningPolicy,
    window: int,
    last_touch: float | None,
    now: float,
    cache_capable: bool,
) -> tuple[Sequence[Message], bool]:
    """
    Return the messages to send, and whether any was pruned; the same sequence where none was.

    Nothing in front of the user's first message is touched: a program put it there.

    Args:
        messages: Oldest first.
        policy: When and what.
        window: Tokens of the model's window.
        last_touch: When the provider's cache was used last, in seconds; ``None`` where nobody knows, and nothing is
            pruned then. After a pruning the caller counts from now.
        now: By the same clock.
        cache_capable: Whether the provider has a cache of this kind.
    """
    if policy.mode == "off" or not cache_capable or last_touch is None or policy.ttl_seconds <= 0 or window <= 0:
        return messages, False
    if now - last_touch < policy.ttl_seconds:
        return messages, False
    places = _candidates(messages, policy)
    if not places:
        return messages, False
    room = window * CHARS_PER_TOKEN
    total = sum(map(_chars, messages))
    pruned: dict[int, ToolResultMessage] = {}
    if total >= policy.soft_trim_ratio * room:
        total -= _trim(messages, places, pruned, policy)
        if policy.hard_clear:
            _clear(messages, places, pruned, policy, excess=total - policy.hard_clear_ratio * room)
    if not pruned:
        return messages, False
    return tuple([pruned.get(place, message) for place, message in enumerate(messages)]), True


def _trim(
    messages: Sequence[Message], places: Sequence[int], pruned: dict[int, ToolResultMessage], policy: PruningPolicy
) -> int:
    """Shorten what is long; return how many characters that saves."""
    saved = 0
    for place in places:
        old = messages[place]
        assert isinstance(old, ToolResultMessage)  # noqa: S101 -- only results are candidates
        new = _trimmed(old, policy)
        if new is not old:
            pruned[place] = new
            saved += _chars(old) - _chars(new)
    return saved


def _clear(
    messages: Sequence[Message],
    places: Sequence[int],
    pruned: dict[int, ToolResultMessage],
    policy: PruningPolicy,
    *,
    excess: float,
) -> None:
    """Clear the oldest, until what remains is below the share of the window."""
    sizes = {place: _chars(pruned.get(place, messages[place])) for place in places}
    if excess < 0 or sum(sizes.values()) < policy.min_prunable_tool_chars:
        return
    for place in places:
        saved = sizes[place] - len(policy.placeholder)
        if excess < 0:
            return
        if saved > 0:
            old = messages[place]
            assert isinstance(old, ToolResultMessage)  # noqa: S101 -- only results are candidates
            pruned[place] = attrs.evolve(old, content=(TextBlock(text=policy.placeholder),))
            excess -= saved


def _candidates(messages: Sequence[Message], policy: PruningPolicy) -> list[int]:
    """Return where results stand that may be pruned, oldest first."""
    cutoff = _cutoff(messages, policy.keep_last_assistants)
    allowed, denied = _names(policy.allow), _names(policy.deny)
    places: list[int] = []
    asked = False
    for place, message in enumerate(messages):
        if place >= cutoff:
            break
        if isinstance(message, UserMessage):
            asked = True
        elif asked and isinstance(message, ToolResultMessage):
            name = (message.tool_name or "").strip().casefold()
            if (allowed is None or allowed.fullmatch(name)) and not (denied and denied.fullmatch(name)):
                places.append(place)
    return places


def _cutoff(messages: Sequence[Message], keep: int) -> int:
    """Return where the answers begin that are kept, 0 where there are fewer."""
    place = len(messages)
    if keep <= 0:
        return place
    for message in reversed(messages):
        place -= 1
        if isinstance(message, AssistantMessage):
            keep -= 1
            if not keep:
                return place
    return 0


def _names(patterns: Sequence[str]) -> re.Pattern[str] | None:
    named = [pattern.strip().casefold() for pattern in patterns if pattern.strip()]
    if not named:
        return None
    return re.compile("|".join(".*".join(map(re.escape, name.split("*"))) for name in named), re.DOTALL)


def _trimmed(message: ToolResultMessage, policy: PruningPolicy) -> ToolResultMessage:
    blocks: list[Block] = [
        TextBlock(text=IMAGE_REMOVED) if isinstance(block, ImageBlock) else block for block in message.content
    ]
    pictures = any(isinstance(block, ImageBlock) for block in message.content)
    text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    short = text if len(text) <= policy.soft_trim_max_chars or _is_trimmed(text) else _shortened(text, policy)
    if short is not text:
        rest = [block for block in blocks if not isinstance(block, TextBlock)]
        return attrs.evolve(message, content=(TextBlock(text=short), *rest))
    return attrs.evolve(message, content=tuple(blocks)) if pictures else message


def _is_trimmed(text: str) -> bool:
    return _TRIMMED.search(text, max(0, len(text) - _NOTE_CHARS)) is not None


def _shortened(text: str, policy: PruningPolicy) -> str:
    head = whole_end(text, min(max(0, policy.head), len(text)))
    tail = whole_start(text, max(head, len(text) - max(0, policy.tail)))
    note = f"\n\n[pruned: the first {head} and last {len(text) - tail} of {len(text)} characters]"
    short = f"{text[:head]}\n...\n{text[tail:]}{note}"
    return short if len(short) < len(text) else text


def _chars(message: Message) -> int:
    """Return what a message counts as in characters."""
    if isinstance(message, UnknownMessage):
        return UNKNOWN_CHARS
    content = getattr(message, "content", None)
    if content is None:
        return len(message.text)
    chars = 0
    for block in content:
        chars += len(block.text) if isinstance(block, TextBlock) else _block_chars(block)
    return chars


def _block_chars(block: Block) -> int:
    match block:
        case ThinkingBlock():
            return len(block.thinking)
        case ImageBlock():
            return IMAGE_CHARS
        case ToolCallBlock():
            return _json_chars(block.arguments)
        case _:
            return UNKNOWN_CHARS


def _json_chars(value: JSON) -> int:
    try:
        return len(msgspec.json.encode(value).decode())
    except (TypeError, ValueError, OverflowError, RecursionError):  # lone surrogates, huge integers, deep nesting
        return UNKNOWN_CHARS
