"""
What a model thought aloud, as far as a provider takes it back.

A signature is good for the model that made it, and a provider refuses a request
with one that it does not know.
"""

import re
from collections.abc import Mapping
from typing import Final

import attrs

from openclaw_ctx.contract import AssistantMessage, Block, ThinkingBlock, UnknownBlock

from .rules import PromptRules

__all__ = ["has_signed_thinking", "is_thinking", "is_trusted", "refuses_signature", "without_signature"]

_TYPES: Final = frozenset({"thinking", "redacted_thinking"})
_VERSION: Final = re.compile(r"[-@:](?:latest|\d{8}|\d{4}-\d{2}-\d{2})\Z")
# Quotes come and go on the way through gateways.
_REFUSED: Final = re.compile(
    r"""
    \b(?:invalid|corrupted) \W+ signature \W+ in \W+ (?:\w+ \W+)?? (?:redacted_)? thinking \b
    | \b(?:invalid|corrupted) \W+ (?:thought|thinking) [\W_]? signature \b
    | \b(?:thought|thinking) [\W_]? signature \W+ (?:is \W+)? (?:invalid|not \W+ valid) \b
    | \bthinking\.signature \W+ (?:field \W+ required|input \W+ should)
    | thinking \W+ blocks \W+ in \W+ the \W+ latest \W+ assistant \W+ message \W+ cannot \W+ be \W+ modified
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_thinking(block: Block) -> bool:
    """Return whether *block* is thinking, of the contract's kind or of a provider's own."""
    return isinstance(block, ThinkingBlock) or (
        isinstance(block, UnknownBlock) and isinstance(block.data, Mapping) and block.data.get("type") in _TYPES
    )


def has_signed_thinking(message: AssistantMessage) -> bool:
    """Return whether *message* holds thinking that its provider can tell for its own."""
    return any(is_thinking(block) and _is_signed(block) for block in message.content)


def is_trusted(message: AssistantMessage, rules: PromptRules, *, running: bool) -> bool:
    """
    Return whether the signatures in *message* are good for the model that is asked.

    Who does not say which model made it is believed. Models are told apart
    without the provider in front of their names and the date behind them, since
    a provider answers to a name with the name of one version.

    Args:
        message: Any answer.
        rules: Who is asked.
        running: Whether it belongs to the turn that is running: then the provider decides alone, as some refuse a
            tool's result whose call has lost its thinking, and a model may answer under a name of its own.
    """
    if _differ(message.provider, rules.provider):
        return False
    return running or not _differ(_plain(message.model), _plain(rules.model))


def refuses_signature(said: str) -> bool:
    """Return whether a provider says so that it does not know a signature of thinking, or what it stands under."""
    return _REFUSED.search(said) is not None


def without_signature(block: Block) -> Block | None:
    """Return thinking without its signature, itself where it has none; ``None``: nothing else was in it."""
    if not _is_signed(block):
        return block
    if isinstance(block, ThinkingBlock) and not block.extra.get("redacted"):
        return attrs.evolve(block, signature=None)
    return None


def _is_signed(block: Block) -> bool:
    return block.signature is not None if isinstance(block, ThinkingBlock) else True


def _differ(one: str | None, other: str | None) -> bool:
    return bool(one and other) and one != other


def _plain(name: str | None) -> str | None:
    return name and _VERSION.sub("", name.rpartition("/")[2].casefold())
