"""What happens in a turn while it runs, for whoever shows it to people."""

from typing import TypeAlias

import attrs

from openclaw_ctx.contract import AssistantMessage, CompactResult, Message, ToolCallBlock, ToolResultMessage
from openclaw_ctx.models import TextDelta, ThinkingDelta, ToolCallReady, UsageReported

from .answers import Prompt

__all__ = [
    "Compacted",
    "Compacting",
    "MessageAppended",
    "ModelAsked",
    "ModelRetried",
    "ToolEnded",
    "ToolStarted",
    "TurnAnswered",
    "TurnEvent",
]


@attrs.frozen(kw_only=True)
class MessageAppended:
    """A message of the turn is in the transcript: from here on it survives a crash."""

    message: Message


@attrs.frozen(kw_only=True)
class ModelAsked:
    """
    A request goes to the model. Text that came for an earlier one, and was not appended, is void.

    Attributes:
        tokens: What the request costs, by the host's counter.
        window: Of the model.
        prompt: What the engine assembled.
    """

    tokens: int
    window: int
    prompt: Prompt


@attrs.frozen(kw_only=True)
class ModelRetried:
    """The model failed in a way that passes, or that a changed request mends; it is asked again after *seconds*."""

    reason: str
    seconds: float


@attrs.frozen(kw_only=True)
class Compacting:
    """The context is being made smaller; *trigger* is as in ``Session.compact``."""

    trigger: str
    tokens: int


@attrs.frozen(kw_only=True)
class Compacted:
    """What that came to."""

    trigger: str
    result: CompactResult


@attrs.frozen(kw_only=True)
class ToolStarted:
    """A tool runs."""

    call: ToolCallBlock


@attrs.frozen(kw_only=True)
class ToolEnded:
    """It has answered."""

    call: ToolCallBlock
    result: ToolResultMessage


@attrs.frozen(kw_only=True)
class TurnAnswered:
    """The answer is there; what is left is the work behind the turn."""

    message: AssistantMessage


TurnEvent: TypeAlias = (
    MessageAppended
    | ModelAsked
    | TextDelta
    | ThinkingDelta
    | ToolCallReady
    | UsageReported
    | ModelRetried
    | Compacting
    | Compacted
    | ToolStarted
    | ToolEnded
    | TurnAnswered
)
