"""
How many tokens a message costs, estimated without a vocabulary.

Text costs a quarter of its weighted characters, rounded up: a character counts
as its UTF-8 bytes, and Chinese, Japanese and Korean ones as four, which is one
token each. That is the reference system's rule; over it lies one of our own,
since a quarter undercounts base64 and hexadecimal ids by 2.5 times: runs of 48
and more characters of the base64 alphabets cost one token per 1.45 characters,
shorter ones of 24 and more hexadecimal digits and hyphens (UUIDs, digests) one
per 1.7, both measured against o200k_base. Still undercounted by 2.6 times:
hexadecimal dumps in columns, and base64 of less than 48 characters, which
cannot be told from long names.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from openclaw_ctx.contract import (
    JSON,
    BashExecutionMessage,
    Block,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    UnknownBlock,
    UnknownMessage,
)

__all__ = ["IMAGE_TOKENS", "CountText", "TokenCounter", "estimate_text", "estimate_tokens"]

CountText: TypeAlias = Callable[[str], int]

CHARS_PER_TOKEN: Final = 4
CHARS_PER_RUN_TOKEN: Final = 1.45
CHARS_PER_HEX_TOKEN: Final = 1.7
IMAGE_TOKENS: Final = 2_000
"""What a picture costs, however it is spelled and whatever its size."""

_PAYLOAD_CHARS: Final = 1_024
_LONG_RUN: Final = 48
_SHORTEST_RUN: Final = 24
_RUN = re.compile(r"[A-Za-z0-9+/=_-]{24,}")
# A digit must be in it. What stands around it does not matter, so that no text gets cheaper by growing.
_HEX = re.compile(r"(?=[A-Fa-f-]*\d)[0-9A-Fa-f-]{24,}")
# Hangul Jamo; CJK radicals to Yi; Hangul syllables; compatibility ideographs and forms; planes 2 and 3.
_WIDE = re.compile(
    r"[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)
_BASE64 = {ord(c): None for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-\r\n"}
_IMAGE_TYPES: Final = frozenset({"image", "image_url", "input_image"})


def estimate_text(text: str) -> int:
    """Return the tokens of *text*; 0 for none, never 0 for some."""
    if text.isascii():
        weight = len(text)
    else:
        weight = len(text.encode("utf-8", "surrogatepass")) + sum(map(_extra_weight, _WIDE.findall(text)))
    if len(text) < _SHORTEST_RUN:
        return math.ceil(weight / CHARS_PER_TOKEN)
    runs = ids = 0
    for run in _RUN.findall(text):
        if len(run) >= _LONG_RUN:
            runs += len(run)
        else:
            ids += sum(map(len, _HEX.findall(run)))
    rest = (weight - runs - ids) / CHARS_PER_TOKEN
    return math.ceil(rest + runs / CHARS_PER_RUN_TOKEN + ids / CHARS_PER_HEX_TOKEN)


def _extra_weight(char: str) -> int:
    return 1 if char <= "\uffff" else 0  # three bytes of UTF-8 below the line, four above it


class TokenCounter:
    """
    Counts the tokens of messages by a way to count text; the default estimates.

    What a message costs is remembered on it, so counting a history again costs
    what was added. Counters are told apart by identity: use one for a host.
    """

    __slots__ = ("_count_text", "_mark")

    def __init__(self, count_text: CountText = estimate_text) -> None:
        self._count_text = count_text
        # Stands for this counter on the messages that it has counted: those are pickled, and counters need not be.
        self._mark = object()

    def __call__(self, message: Message) -> int:
        """Return the tokens of *message*, remembered."""
        counted = message._counted  # noqa: SLF001 -- the message's field for exactly this
        if counted is not None and counted[0] is self._mark:
            return counted[1]
        tokens = self._count(message)
        object.__setattr__(message, "_counted", (self._mark, tokens))
        return tokens

    def total(self, messages: Iterable[Message]) -> int:
        """Return the tokens of all *messages*."""
        return sum(map(self, messages))

    def prompt(self, system_prompt: str | None, tools: Iterable[Mapping[str, JSON]] = ()) -> int:
        """Return the tokens of what every call carries besides messages: system prompt and tool schemas."""
        return self._text(system_prompt or "") + sum(self._json(tool) for tool in tools)

    def _count(self, message: Message) -> int:
        match message:
            case BashExecutionMessage():
                return 0 if message.exclude_from_context else self._text(message.command + message.output)
            case BranchSummaryMessage() | CompactionSummaryMessage():
                return self._text(message.summary)
            case UnknownMessage():
                return self._json(message.data)
            case _:
                return sum(map(self._block, message.content))

    def _block(self, block: Block) -> int:
        match block:
            case TextBlock():
                return self._text(block.text)
            case ThinkingBlock():
                return self._text(block.thinking)
            case ToolCallBlock():
                return self._text(block.name) + self._json(block.arguments)
            case ImageBlock():
                return IMAGE_TOKENS
            case UnknownBlock():
                kind = block.data.get("type") if isinstance(block.data, Mapping) else None
                return IMAGE_TOKENS if kind in _IMAGE_TYPES else self._json(block.data)

    def _text(self, text: str) -> int:
        if not text:
            return 0
        try:
            # Never 0 for some text: a tokenizer that swallows its own error would make it free.
            return max(1, self._count_text(text))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001 -- a tokenizer may refuse any text, in Rust by a panic; no turn ends for it
            return estimate_text(text)

    def _json(self, value: JSON) -> int:
        text, payloads = _without_payloads(value)
        return self._text(text) + payloads * IMAGE_TOKENS


estimate_tokens: Final = TokenCounter()
"""The default counter: an estimate, from no vocabulary."""


def _without_payloads(value: JSON) -> tuple[str, int]:
    """Return *value* as JSON text with embedded files left out, and how many they were."""
    if isinstance(value, str):
        return ("", 1) if _is_payload(value) else (value, 0)
    payloads = 0

    def lighten(item: JSON) -> JSON:
        nonlocal payloads
        if isinstance(item, str):
            if not _is_payload(item):
                return item
            payloads += 1
            return ""
        if isinstance(item, Mapping):
            return {key: lighten(part) for key, part in item.items()}
        if isinstance(item, list | tuple):
            return [lighten(part) for part in item]
        return item

    light = lighten(value)
    try:
        return msgspec.json.encode(light).decode(), payloads
    except (TypeError, ValueError, UnicodeEncodeError, OverflowError):  # lone surrogates, huge integers
        return repr(light), payloads


def _is_payload(text: str) -> bool:
    if len(text) < _PAYLOAD_CHARS:
        return False
    if text.startswith("data:") and ";base64," in text[:256]:
        return True
    run = _RUN.match(text)
    # Base64 as mail wraps it has a newline each 76 characters; anything with blanks is prose or code.
    if run is None or run.end() < _LONG_RUN:
        return False
    return run.end() == len(text) or not text.translate(_BASE64).strip()
