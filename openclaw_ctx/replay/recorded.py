"""A recording that is played back: its replies as a model's, its tool results as its tools'."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from openclaw_ctx.contract import (
    JSON,
    AbortSignal,
    AssistantMessage,
    EngineTool,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.errors import ContextOverflowError, ModelRejectedError
from openclaw_ctx.models import AnswerEnded, ModelAnswer, ModelEvent, ModelRequest, whole_answer
from openclaw_ctx.tokens import TokenCounter

__all__ = ["NOT_RECORDED", "RecordedModel", "RecordedTools", "Recording"]

NOT_RECORDED: Final = "The recording holds no result of this call."
"""Answers a call whose result was not recorded."""


class Recording:
    """The messages of a session, each taken once, mostly in order."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._next = 0
        self._taken: set[int] = set()

    @property
    def done(self) -> int:
        """How many have been taken."""
        return len(self._taken) + self._next

    def peek(self) -> Message | None:
        """Return the next message that was not taken; ``None`` at the end."""
        while self._next in self._taken:
            self._taken.remove(self._next)
            self._next += 1
        return self._messages[self._next] if self._next < len(self._messages) else None

    def take(self) -> Message:
        """Return the next message, and go on to the one behind it. A reply comes without its usage."""
        message = self.peek()
        if message is None:
            problem = "the recording has ended"
            raise IndexError(problem)
        self._next += 1
        # What a provider counted then, it counted of another prompt.
        return attrs.evolve(message, usage=None) if isinstance(message, AssistantMessage) else message

    def take_result(self, call_id: str) -> ToolResultMessage | None:
        """Return the result of a call of the reply that was taken last, ahead of its turn; ``None``: there is none."""
        for place in range(self._next, len(self._messages)):
            message = self._messages[place]
            if isinstance(message, AssistantMessage | UserMessage):
                return None
            if place not in self._taken and isinstance(message, ToolResultMessage) and message.tool_call_id == call_id:
                self._taken.add(place)
                return message
        return None


class RecordedModel:
    """
    Answers with the recording's next reply, whatever it is asked.

    The reply is passed on as it was recorded, blocks of every kind included, which
    no script of texts could hold.

    Attributes:
        tokens: What the last request cost.
    """

    provider: Final = "recording"
    model: Final = "recorded"

    def __init__(self, recording: Recording, *, count: TokenCounter, limit: int | None) -> None:
        """
        Play *recording* back.

        Args:
            recording: Its next message is a reply whenever the model is asked.
            count: Counts a request.
            limit: Refuses longer requests, as a provider would.
        """
        self.tokens = 0
        self._recording = recording
        self._count = count
        self._limit = limit

    async def complete(self, request: ModelRequest, *, abort: AbortSignal | None = None) -> ModelAnswer:
        """Return the next reply; see :class:`openclaw_ctx.models.Model`."""
        return await whole_answer(self.stream(request, abort=abort))

    async def stream(self, request: ModelRequest, *, abort: AbortSignal | None = None) -> AsyncGenerator[ModelEvent]:
        """Return the next reply, in one piece; see :class:`openclaw_ctx.models.Model`."""
        if abort is not None:
            abort.raise_if_fired()
        self.tokens = self._count.total(request.messages) + self._count.prompt(request.system_prompt, request.tools)
        if self._limit is not None and self.tokens > self._limit:
            said = f"{self.tokens} tokens are more than the {self._limit} of the budget"
            raise ContextOverflowError(self.provider, self.model, said, observed_tokens=self.tokens)
        if not isinstance(self._recording.peek(), AssistantMessage):
            raise ModelRejectedError(self.provider, self.model, "the recording has no reply here")
        message = self._recording.take()
        assert isinstance(message, AssistantMessage)  # noqa: S101 -- it was looked at
        if message.stop_reason == "length" and isinstance(self._recording.peek(), ToolResultMessage):
            # A turn of this host runs no call of an answer that had no more room; the recording's agent did.
            message = attrs.evolve(message, stop_reason="toolUse")
        yield AnswerEnded(ModelAnswer(message=message, usage=None))

    async def close(self) -> None:
        """Do nothing: there is no connection."""


class RecordedTools:
    """
    Every tool that the recording calls: a name, and the results that were recorded.

    A tool is told arguments and no call, so :meth:`note` is to be told of each call right before it runs.
    """

    def __init__(self, recording: Recording, messages: Iterable[Message]) -> None:
        self._recording = recording
        self._call_id = ""
        names = {
            call.name: None
            for message in messages
            if isinstance(message, AssistantMessage)
            for call in message.tool_calls
        }
        answer: Any = self._answer  # an agent's own tool may answer with more than a text
        self.tools = tuple(EngineTool(name=name, description="", call=answer) for name in names)

    def note(self, call: ToolCallBlock) -> None:
        """Note which call is about to run."""
        self._call_id = call.id

    async def _answer(self, _arguments: Mapping[str, JSON]) -> str | ToolResultMessage:
        result = self._recording.take_result(self._call_id)
        return NOT_RECORDED if result is None else result
