"""
The protocol that every model keeps: a request in, an answer out, whole or as it comes.

A model is told nothing but the request: it keeps no conversation, and tries
nothing twice. What a failure means is told by the class of the ``ModelError``.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Protocol, Self, TypeAlias

import attrs

from openclaw_ctx.contract import (
    JSON,
    AbortSignal,
    AssistantMessage,
    Complete,
    CompletionRequest,
    CompletionResult,
    Message,
    ToolCallBlock,
    freeze,
)

__all__ = [
    "AnswerEnded",
    "Closing",
    "Model",
    "ModelAnswer",
    "ModelEvent",
    "ModelRequest",
    "TextDelta",
    "ThinkingDelta",
    "TokenUsage",
    "ToolCallReady",
    "UsageReported",
    "as_complete",
    "obeying",
    "whole_answer",
]


@attrs.frozen(kw_only=True)
class ModelRequest:
    """
    One question to a model.

    Attributes:
        messages: Oldest first, as an engine assembled them.
        model: The provider's name of the model; ``None`` is the client's own.
        tools: Each with ``name``, ``description`` and ``parameters``, a JSON Schema;
            one with a ``type`` of the provider's own goes as it is.
        max_tokens: Bounds the answer, thinking included.
    """

    messages: Sequence[Message]
    model: str | None = None
    system_prompt: str | None = None
    tools: Sequence[Mapping[str, JSON]] = ()
    max_tokens: int | None = None


@attrs.frozen(kw_only=True)
class TokenUsage:
    """What a call cost, in the provider's tokens. ``input`` is what was neither read from its cache nor put into it."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def prompt(self) -> int:
        """All that was sent, cached or not: what fills the window."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        """Prompt and answer."""
        return self.prompt + self.output

    def to_wire(self) -> dict[str, JSON]:
        """Return it as the ``usage`` of a transcript's message, in the reference system's words."""
        return {
            "input": self.input,
            "output": self.output,
            "cacheRead": self.cache_read,
            "cacheWrite": self.cache_write,
            "totalTokens": self.total,
        }


@attrs.frozen(kw_only=True)
class ModelAnswer:
    """
    What a model answered.

    Attributes:
        message: Ready to be appended: provider, the model's name as the provider
            gives it, usage and stop reason (``stop``, ``length``, ``toolUse``;
            ``error`` where the provider withheld the rest, with its words for it).
        usage: ``None`` where the provider did not count.
        reported_usage: The provider's own counts, verbatim.
        left_out: What of the request this provider cannot be sent, a phrase each.
    """

    message: AssistantMessage
    usage: TokenUsage | None = None
    reported_usage: JSON = attrs.field(default=None, converter=freeze)
    left_out: tuple[str, ...] = ()


@attrs.frozen
class TextDelta:
    """More of the answer's text."""

    text: str


@attrs.frozen
class ThinkingDelta:
    """More of what the model thinks aloud."""

    text: str


@attrs.frozen
class ToolCallReady:
    """A tool call, whole."""

    call: ToolCallBlock


@attrs.frozen
class UsageReported:
    """The provider's count so far; a later one replaces it."""

    usage: TokenUsage


@attrs.frozen
class AnswerEnded:
    """The last event of a stream, once, with everything that came before it."""

    answer: ModelAnswer


ModelEvent: TypeAlias = TextDelta | ThinkingDelta | ToolCallReady | UsageReported | AnswerEnded


class Model(Protocol):
    """
    Something that answers.

    A request may be made while others run. A caller that is cancelled, or whose
    signal fires, leaves no request behind. Use a model in one event loop.
    """

    async def complete(self, request: ModelRequest, *, abort: AbortSignal | None = None) -> ModelAnswer:
        """
        Return the answer once it is whole.

        Raises:
            ModelError: There is none; the class says why, and whether to try again.
            AbortError: *abort* has fired; or the very exception that it was fired with.
        """

    def stream(self, request: ModelRequest, *, abort: AbortSignal | None = None) -> AsyncGenerator[ModelEvent]:
        """
        Return the answer as it comes; the last event is an ``AnswerEnded``.

        A stream that ends without one raises what :meth:`complete` raises. Who
        leaves early closes it (``contextlib.aclosing``), which ends the request.
        """

    async def close(self) -> None:
        """Let go of connections. The model is not used afterwards."""


class Closing:
    """Gives a model ``async with``."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of connections."""


def as_complete(model: Model, *, name: str | None = None, max_tokens: int | None = None) -> Complete:
    """
    Return *model* as what ``Host.open(model=...)`` takes, so that engines can ask it.

    They get the answer's text, and its usage in a transcript's words. The model stays the caller's to close.

    Args:
        model: Is asked without tools.
        name: The provider's name of the model; ``None`` is the client's own.
        max_tokens: Bounds an answer for which the engine sets no bound.
    """

    async def complete(request: CompletionRequest) -> CompletionResult:
        answer = await model.complete(
            ModelRequest(
                messages=request.messages,
                model=name,
                system_prompt=request.system_prompt,
                max_tokens=max_tokens if request.max_tokens is None else request.max_tokens,
            )
        )
        return CompletionResult(text=answer.message.text, usage=answer.message.usage)

    return complete


async def whole_answer(
    events: AsyncGenerator[ModelEvent], *, tell: Callable[[ModelEvent], None] | None = None
) -> ModelAnswer:
    """Return what the last event of a stream holds, and close the stream; *tell* is told of the events before it."""
    async with contextlib.aclosing(events):
        async for event in events:
            if isinstance(event, AnswerEnded):
                return event.answer
            if tell is not None:
                tell(event)
    problem = "the model's stream ended without an AnswerEnded, which is a bug of the model's"
    raise RuntimeError(problem)


@contextlib.asynccontextmanager
async def obeying(abort: AbortSignal | None) -> AsyncGenerator[None]:
    """
    Cancel what runs in the block when *abort* fires, and raise what it was fired with.

    The task itself is not cancelled, and a cancellation from elsewhere passes.
    """
    if abort is None:
        yield
        return
    abort.raise_if_fired()
    loop = asyncio.get_running_loop()
    # A timeout that nobody has set cancels the block and not the task, which is what is needed here.
    scope = asyncio.timeout(None)
    try:
        async with scope:

            def stop() -> None:
                with contextlib.suppress(RuntimeError):  # the block has ended meanwhile
                    scope.reschedule(loop.time())

            forget = abort.on_fire(lambda: loop.call_soon_threadsafe(stop))
            try:
                yield
            finally:
                forget()
    except TimeoutError:
        if not scope.expired():
            raise
        raise abort.error() from None
