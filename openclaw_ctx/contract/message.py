"""
The messages of a conversation, as frozen values.

One class per role of the JSONL v3 form; what the form allows beyond the named
fields is kept verbatim in ``extra``, and a block or role that nobody knows is
kept whole (:class:`UnknownBlock`, :class:`UnknownMessage`), so that
:mod:`openclaw_ctx.contract.wire` gives back what it was given.

An optional field is ``None`` where the message does not say.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, NewType, TypeAlias

import attrs

from .frozen import EMPTY, JSON, FrozenDict, freeze

__all__ = [
    "AssistantMessage",
    "BashExecutionMessage",
    "Block",
    "BranchSummaryMessage",
    "CompactionSummaryMessage",
    "CustomMessage",
    "EntryId",
    "ImageBlock",
    "Message",
    "SessionId",
    "SessionKey",
    "SystemMessage",
    "TextBlock",
    "ThinkingBlock",
    "ToolCallBlock",
    "ToolResultMessage",
    "UnknownBlock",
    "UnknownMessage",
    "UserMessage",
]

EntryId = NewType("EntryId", str)
"""Names one line of a transcript."""

SessionId = NewType("SessionId", str)
"""Names one transcript."""

SessionKey = NewType("SessionKey", str)
"""The stable name of a conversation, whatever transcript it is in now."""


def _object(value: Mapping[str, JSON]) -> FrozenDict:
    frozen: FrozenDict = freeze(value)
    return frozen


@attrs.frozen(kw_only=True)
class TextBlock:
    """Text. ``bare``: the content was this one string rather than a list of blocks."""

    text: str
    extra: FrozenDict = attrs.field(default=EMPTY, converter=_object)
    bare: bool = attrs.field(default=False, eq=False, repr=False)


@attrs.frozen(kw_only=True)
class ThinkingBlock:
    """What a model thought aloud; ``signature`` lets its provider trust it on replay."""

    thinking: str
    signature: str | None = None
    extra: FrozenDict = attrs.field(default=EMPTY, converter=_object)


@attrs.frozen(kw_only=True)
class ToolCallBlock:
    """A model's wish to run a tool. ``id`` pairs it with its result, by position where ids repeat."""

    id: str
    name: str
    arguments: JSON = attrs.field(default=EMPTY, converter=freeze)
    extra: FrozenDict = attrs.field(default=EMPTY, converter=_object)


@attrs.frozen(kw_only=True)
class ImageBlock:
    """A picture: base64 ``data`` of ``mime_type``."""

    data: str = attrs.field(repr=False)
    mime_type: str
    extra: FrozenDict = attrs.field(default=EMPTY, converter=_object)


@attrs.frozen(kw_only=True)
class UnknownBlock:
    """A block of a type that the contract does not name, kept verbatim."""

    data: JSON = attrs.field(converter=freeze)


Block: TypeAlias = TextBlock | ThinkingBlock | ToolCallBlock | ImageBlock | UnknownBlock


def _blocks(content: str | Sequence[Block]) -> tuple[Block, ...]:
    if isinstance(content, str):
        return (TextBlock(text=content, bare=True),)
    return tuple(content)


@attrs.frozen(kw_only=True)
class _Message:
    """
    What every message has.

    Attributes:
        entry_id: The transcript line that holds it; ``None`` before it is appended.
        timestamp: Milliseconds since the epoch, UTC. Order never follows from it.
        extra: Further fields of the wire form, verbatim.
    """

    role: ClassVar[str]
    entry_id: EntryId | None = None
    timestamp: float | None = None
    extra: FrozenDict = attrs.field(default=EMPTY, converter=_object)
    # A counter's last answer for this value: (what stands for the counter, tokens). Counting is pure and messages are
    # frozen, so whoever counts first counts for everybody; a turn then costs what it adds.
    _counted: tuple[object, int] | None = attrs.field(default=None, init=False, eq=False, repr=False)
    # Whether every field has been found to hold what its type says. Set by the host's check of an engine's answer and
    # by nobody else; a copy with another content begins unchecked.
    _checked: bool = attrs.field(default=False, init=False, eq=False, repr=False)


@attrs.frozen(kw_only=True)
class _ContentMessage(_Message):
    content: tuple[Block, ...] = attrs.field(default=(), converter=_blocks)

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines; no thinking, calls or pictures."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))


@attrs.frozen(kw_only=True)
class UserMessage(_ContentMessage):
    """What the user said; it opens a turn."""

    role: ClassVar[str] = "user"


@attrs.frozen(kw_only=True)
class SystemMessage(_ContentMessage):
    """Standing instructions; not part of any turn."""

    role: ClassVar[str] = "system"


@attrs.frozen(kw_only=True)
class AssistantMessage(_ContentMessage):
    """
    What the model answered: text, thinking, tool calls.

    Attributes:
        usage: Token counts, in the words of whoever wrote the message.
        stop_reason: ``stop``, ``length``, ``toolUse``, ``error`` or ``aborted`` in the v3 form.
        error_message: What went wrong when *stop_reason* is ``error``.
    """

    role: ClassVar[str] = "assistant"
    provider: str | None = None
    model: str | None = None
    usage: JSON = attrs.field(default=None, converter=freeze)
    stop_reason: str | None = None
    error_message: str | None = None

    @property
    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """The tool calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCallBlock))


@attrs.frozen(kw_only=True)
class ToolResultMessage(_ContentMessage):
    """What a tool gave back. ``details`` is for people and never reaches a model."""

    role: ClassVar[str] = "toolResult"
    tool_call_id: str = ""
    tool_name: str | None = None
    is_error: bool | None = None
    details: JSON = attrs.field(default=None, converter=freeze)


@attrs.frozen(kw_only=True)
class CustomMessage(_ContentMessage):
    """A message that a program put in; the model sees it as the user's."""

    role: ClassVar[str] = "custom"
    custom_type: str = ""
    display: bool | None = None
    details: JSON = attrs.field(default=None, converter=freeze)


@attrs.frozen(kw_only=True)
class BashExecutionMessage(_Message):
    """A command that the user ran beside the conversation."""

    role: ClassVar[str] = "bashExecution"
    command: str = ""
    output: str = ""
    exit_code: int | None = None
    exclude_from_context: bool | None = None

    @property
    def text(self) -> str:
        """Command and output."""
        return f"$ {self.command}\n{self.output}"


@attrs.frozen(kw_only=True)
class _SummaryMessage(_Message):
    summary: str = ""

    @property
    def text(self) -> str:
        """The summary."""
        return self.summary


@attrs.frozen(kw_only=True)
class CompactionSummaryMessage(_SummaryMessage):
    """Stands for the history before a compaction. ``tokens_before``: what that history cost."""

    role: ClassVar[str] = "compactionSummary"
    tokens_before: int | None = None


@attrs.frozen(kw_only=True)
class BranchSummaryMessage(_SummaryMessage):
    """Stands for a branch that was left; ``from_id`` is the entry it was left at."""

    role: ClassVar[str] = "branchSummary"
    from_id: EntryId | None = None


@attrs.frozen(kw_only=True)
class UnknownMessage(_Message):
    """A message of a role that the contract does not name, kept verbatim."""

    role: ClassVar[str] = "unknown"
    data: JSON = attrs.field(default=EMPTY, converter=freeze)

    @property
    def text(self) -> str:
        """Nothing: what an unknown message means is unknown."""
        return ""


Message: TypeAlias = (
    UserMessage
    | AssistantMessage
    | ToolResultMessage
    | SystemMessage
    | CustomMessage
    | BashExecutionMessage
    | CompactionSummaryMessage
    | BranchSummaryMessage
    | UnknownMessage
)
