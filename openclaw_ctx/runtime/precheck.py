"""
Whether a prompt fits, before it is sent; and what would make it fit.

The estimate is wary: it has a margin, and takes tool results for twice as
dense as prose. It decides about nothing but this.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import attrs
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
    ToolResultMessage,
    UnknownMessage,
    UserMessage,
)
from openclaw_ctx.tokens import IMAGE_TOKENS, estimate_tokens

from .truncation import reducible_chars
from .window import prompt_budget

__all__ = ["Precheck", "Route", "estimate_pressure", "precheck"]

Route: TypeAlias = Literal["fits", "compact_only", "truncate_tool_results_only", "compact_then_truncate"]

CHARS_PER_TOKEN: Final = 4
"""Of text; the reference system's."""

CHARS_PER_RESULT_TOKEN: Final = 2
"""Of text in a tool result; the reference system's."""

CHARS_PER_JSON_TOKEN: Final = 3
"""Of arguments, schemas and identifiers; the reference system's."""

TOKENS_PER_MESSAGE: Final = 12
"""What stands between two messages; the reference system's."""

TOKENS_PER_BLOCK: Final = 6
"""What stands around a block; the reference system's. Content that is one string has none."""

UNREADABLE_JSON_TOKENS: Final = 256
"""What cannot be written as JSON costs; the reference system's."""

SAFETY_MARGIN: Final = 1.2
"""What the sum is multiplied with; the reference system's."""

TRUNCATION_BUFFER_TOKENS: Final = 512
"""What cutting results must free beyond the overflow; the reference system's."""

TRUNCATION_FACTOR: Final = 1.5
"""Or so many times the overflow, where that is more; the reference system's."""

# Costs are summed in twelfths of a token, which all the ratios divide, so that the sum is exact and rounded once.
_UNITS: Final = 12
_TEXT: Final = _UNITS // CHARS_PER_TOKEN
_RESULT: Final = _UNITS // CHARS_PER_RESULT_TOKEN
_JSON: Final = _UNITS // CHARS_PER_JSON_TOKEN
_MESSAGE: Final = _UNITS * TOKENS_PER_MESSAGE
_BLOCK: Final = _UNITS * TOKENS_PER_BLOCK
_IMAGE: Final = _UNITS * IMAGE_TOKENS
_UNREADABLE: Final = _UNITS * UNREADABLE_JSON_TOKENS
_UNITS_PER_WARY_TOKEN: Final = round(_UNITS / SAFETY_MARGIN)

_WITHOUT_CONTENT: Final = (BashExecutionMessage, BranchSummaryMessage, CompactionSummaryMessage, UnknownMessage)


@attrs.frozen(kw_only=True)
class Precheck:
    """
    Whether a prompt fits, and the way to make it.

    Attributes:
        route: What is to be done.
        estimated_tokens: Of the prompt, with the margin.
        prompt_budget: What it may take.
        overflow_tokens: What is too much; 0 where it fits.
        reducible_chars: What cutting tool results would free; not looked at where the prompt fits, and 0 then.
    """

    route: Route
    estimated_tokens: int
    prompt_budget: int
    overflow_tokens: int
    reducible_chars: int


def precheck(
    messages: Sequence[Message],
    *,
    system_prompt: str | None,
    prompt: str | None = None,
    tools: Iterable[Mapping[str, JSON]] = (),
    window: int,
    reserve: int,
    unwindowed: Sequence[Message] | None = None,
    cap_chars: int,
) -> Precheck:
    """
    Hold a prompt against the window.

    Args:
        messages: What would be sent.
        system_prompt: The same.
        prompt: What the user says, where it is not in *messages* yet.
        tools: Schemas, as they would be sent.
        window: Tokens of the model's window.
        reserve: Tokens for the answer.
        unwindowed: The history that *messages* were chosen from, where the engine does not vouch for its choice: the
            larger of the two counts.
        cap_chars: What one tool result may have, and all of them together, once they are cut.
    """
    tools = tuple(tools)
    budget = prompt_budget(window, reserve=reserve)
    estimated = estimate_pressure(messages, system_prompt=system_prompt, prompt=prompt, tools=tools)
    if unwindowed is not None:
        whole = estimate_pressure(unwindowed, system_prompt=system_prompt, prompt=prompt, tools=tools)
        if whole > estimated:
            estimated, messages = whole, unwindowed
    overflow = max(0, estimated - budget)
    reducible = reducible_chars(messages, cap=cap_chars) if overflow else 0
    return Precheck(
        route=_route(overflow, reducible),
        estimated_tokens=estimated,
        prompt_budget=budget,
        overflow_tokens=overflow,
        reducible_chars=reducible,
    )


def estimate_pressure(
    messages: Iterable[Message],
    *,
    system_prompt: str | None,
    prompt: str | None,
    tools: Iterable[Mapping[str, JSON]] = (),
) -> int:
    """
    Return the tokens that a prompt presses on the window with.

    A character of text that is not ASCII counts as its bytes, which the
    reference system does not do: three characters of Chinese would be less than
    a token. What :func:`~openclaw_ctx.tokens.estimate_tokens` knows better,
    files in blocks that nobody names, is left to it. Nothing is remembered.

    Args:
        messages: What would be sent.
        system_prompt: The same; a blank one costs nothing.
        prompt: What the user says; ``None`` where it is in *messages*.
        tools: Schemas, as they would be sent.
    """
    units = 0
    for message in messages:
        if isinstance(message, ToolResultMessage):
            units += _result_units(message)
        elif isinstance(message, _WITHOUT_CONTENT):
            units += _plain_units(message)
        else:
            units += _MESSAGE
            for block in message.content:
                if isinstance(block, TextBlock):
                    text = block.text
                    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
                    units += size * _TEXT if block.bare else size * _TEXT + _BLOCK
                else:
                    units += _BLOCK + _block_units(block)
    if system_prompt is not None and system_prompt.strip():
        units += _MESSAGE + _size(system_prompt) * _TEXT
    if prompt is not None:
        units += _MESSAGE + _size(prompt) * _TEXT
    units += sum(map(_json_units, tools))
    return -(-units // _UNITS_PER_WARY_TOKEN)


def _route(overflow: int, reducible: int) -> Route:
    if not overflow:
        return "fits"
    if not reducible:
        return "compact_only"
    chars = overflow * CHARS_PER_TOKEN
    if reducible >= max(chars + TRUNCATION_BUFFER_TOKENS * CHARS_PER_TOKEN, TRUNCATION_FACTOR * chars):
        return "truncate_tool_results_only"
    return "compact_then_truncate"


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _result_units(message: ToolResultMessage) -> int:
    units = _MESSAGE + (len(message.tool_call_id) + len(message.tool_name or "")) * _JSON
    for block in message.content:
        if isinstance(block, TextBlock):
            # Twice as dense is what a digit is; a character of three bytes is so already.
            text = block.text
            units += max(len(text) * _RESULT, _size(text) * _TEXT) + (0 if block.bare else _BLOCK)
        else:
            units += _BLOCK + _block_units(block)
    return units


def _plain_units(message: Message) -> int:
    match message:
        case BashExecutionMessage():
            return 0 if message.exclude_from_context else _MESSAGE + _size(message.text) * _TEXT
        case BranchSummaryMessage() | CompactionSummaryMessage():
            return _MESSAGE + _size(message.summary) * _TEXT
        case _:
            return _MESSAGE + estimate_tokens(message) * _UNITS


def _block_units(block: Block) -> int:
    match block:
        case TextBlock():
            return _size(block.text) * _TEXT
        case ThinkingBlock():
            return _size(block.thinking) * _TEXT
        case ToolCallBlock():
            return (len(block.id) + len(block.name)) * _JSON + _json_units(block.arguments)
        case ImageBlock():
            return _IMAGE
        case _:
            return estimate_tokens(UserMessage(content=(block,))) * _UNITS


def _json_units(value: JSON) -> int:
    try:
        return len(msgspec.json.encode(value)) * _JSON
    except (TypeError, ValueError, OverflowError, RecursionError):  # lone surrogates, huge integers, deep nesting
        return _UNREADABLE
