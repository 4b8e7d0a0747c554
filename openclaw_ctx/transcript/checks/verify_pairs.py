"""
Whether tool calls and their results are as a provider wants them, told of each that is not.

The rules are those of :mod:`.pairing`: no finding but ``call-cut-off``
means that its ``pairs_are_whole``.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs

from openclaw_ctx.contract import (
    JSON,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    Message,
    ToolResultMessage,
)
from openclaw_ctx.transcript.pairing import CUT_OFF, MAX_ID_CHARS

from .findings import Findings

__all__ = ["Other", "Reply", "Result", "Said", "check_pairs", "said_by", "said_on"]


@attrs.frozen
class Reply:
    """An assistant's message, and the ids of its tool calls."""

    calls: tuple[str, ...] = ()
    cut_off: bool = False


@attrs.frozen
class Result:
    """A tool's result, and the call that it names."""

    call: str


@attrs.frozen
class Other:
    """Any other message that a model sees."""


Said: TypeAlias = Reply | Result | Other
"""What pairing asks of a message."""

_OTHER: Final = Other()
_REPLY: Final = Reply()


def said_by(message: Message) -> Said | None:
    """Return what pairing asks of a message; ``None`` where no model sees it."""
    if isinstance(message, ToolResultMessage):
        return Result(message.tool_call_id)
    if isinstance(message, AssistantMessage):
        return Reply(tuple(call.id for call in message.tool_calls), message.stop_reason in CUT_OFF)
    if isinstance(message, BashExecutionMessage) and message.exclude_from_context:
        return None
    if isinstance(message, BranchSummaryMessage) and not message.summary:
        return None
    return _OTHER


def said_on(data: JSON) -> Said | None:
    """Return the same of a whole line, without making its message: that would cost most of a check."""
    kind = data["type"]
    if kind == "branch_summary":
        return _OTHER if data.get("summary") else None
    if kind != "message":
        return _OTHER if kind == "custom_message" else None
    message = data.get("message")
    if type(message) is not dict:
        return _OTHER
    if message.get("excludeFromContext") is True:
        return None
    role = message.get("role")
    if role == AssistantMessage.role:
        content, reason = message.get("content"), message.get("stopReason")
        calls = (
            tuple(call for block in content if (call := _call_id(block)) is not None) if type(content) is list else ()
        )
        return Reply(calls, type(reason) is str and reason in CUT_OFF) if calls else _REPLY
    if role == ToolResultMessage.role:
        call = message.get("toolCallId")
        return Result(call if type(call) is str else "")
    return _OTHER


def _call_id(block: JSON) -> str | None:
    if type(block) is not dict or block.get("type") != "toolCall" or type(block.get("name")) is not str:
        return None
    call = block.get("id")
    return call if type(call) is str else None


def check_pairs(said: Iterable[tuple[int, Said]], findings: Findings) -> None:
    """Tell of each call without its one result, and each result without its call; *said*: with their lines."""
    check = _PairCheck(findings)
    for line, fact in said:
        check.take(line, fact)
    check.close(last=True)


class _PairCheck:
    """Goes by position, as pairing does: ids that were used again keep their own results."""

    def __init__(self, findings: Findings) -> None:
        self._add = findings.add
        self._used: set[str] = set()
        self._open: Counter[str] = Counter()
        self._line, self._reply, self._away = 0, _REPLY, False

    def take(self, line: int, fact: Said) -> None:
        if isinstance(fact, Result):
            self._answer(line, fact.call)
        elif isinstance(fact, Reply):
            self.close(last=False)
            self._line, self._reply, self._away = line, fact, False
            if fact.calls:
                self._ask(line, fact.calls)
        else:
            self._away = True

    def close(self, *, last: bool) -> None:
        """End the last reply's wait for results; *last*: of all."""
        missing = self._open.total()
        if missing:
            code = "call-cut-off" if self._reply.cut_off else "turn-unfinished" if last else "result-missing"
            self._add(code, self._line, count=missing)
        self._open.clear()

    def _ask(self, line: int, calls: tuple[str, ...]) -> None:
        repeated = unusable = 0
        for call in calls:
            repeated += call in self._used
            unusable += not 0 < len(call) <= MAX_ID_CHARS
            self._used.add(call)
        self._open.update(calls)
        if repeated:
            self._add("call-id-repeated", line, count=repeated)
        if unusable:
            self._add("call-id-unusable", line, count=unusable)

    def _answer(self, line: int, call: str) -> None:
        if self._open[call]:
            self._open[call] -= 1
            if self._away:
                self._add("result-moved", line, other=self._line)
        elif call in self._reply.calls:
            self._add("result-duplicate", line, other=self._line)
        else:
            self._add("result-orphaned", line)
