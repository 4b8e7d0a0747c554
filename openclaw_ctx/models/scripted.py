"""A model that answers from a script: for tests, replays and examples; no network, no waiting, no chance."""

import asyncio
import heapq
import itertools
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

import attrs

from openclaw_ctx.contract import AbortSignal, AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCallBlock
from openclaw_ctx.errors import ModelRejectedError

from .client import (
    AnswerEnded,
    Closing,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallReady,
    UsageReported,
    obeying,
    whole_answer,
)

__all__ = ["FakeClock", "ScriptLine", "ScriptedAnswer", "ScriptedModel"]

_WORDS = re.compile(r"\s*\S+\s*")


@attrs.frozen(kw_only=True)
class ScriptedAnswer:
    """
    One answer of a script.

    Attributes:
        text: Comes word by word in a stream.
        thinking: Comes before it.
        tool_calls: Come behind it.
        usage: What the call is said to have cost.
        stop_reason: ``None`` is ``toolUse`` where there are calls, else ``stop``.
        error: Raised instead; in a stream, after what there is to say.
        delay_seconds: Waited for first, by the model's clock.
    """

    text: str = ""
    thinking: str = ""
    tool_calls: Sequence[ToolCallBlock] = ()
    usage: TokenUsage | None = None
    stop_reason: str | None = None
    error: BaseException | None = None
    delay_seconds: float = 0.0


_Line: TypeAlias = str | BaseException | ScriptedAnswer
ScriptLine: TypeAlias = _Line | Callable[[ModelRequest], _Line]
"""A text, an error, an answer, or a function that makes one of them out of the request."""


class ScriptedModel(Closing):
    """
    Answers with the next line of its script, whatever it is asked.

    ``requests`` holds what it was asked, in order. Behind its last line it raises
    ``ModelRejectedError``.
    """

    def __init__(
        self,
        script: Iterable[ScriptLine],
        *,
        model: str = "scripted-1",
        provider: str = "scripted",
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """
        Take a script.

        Args:
            script: May be endless; a line is taken when a request comes.
            model: Stands in messages.
            provider: Stands in messages and errors.
            sleep: Waits; such as ``FakeClock().sleep``.
        """
        self.model = model
        self.provider = provider
        self.requests: list[ModelRequest] = []
        self._lines = iter(script)
        self._sleep = sleep

    async def complete(self, request: ModelRequest, *, abort: AbortSignal | None = None) -> ModelAnswer:
        """Return the next answer; see :class:`Model`."""
        return await whole_answer(self.stream(request, abort=abort))

    async def stream(self, request: ModelRequest, *, abort: AbortSignal | None = None) -> AsyncGenerator[ModelEvent]:
        """Return the next answer as it comes; see :class:`Model`."""
        line = self._next(request)
        async with obeying(abort):
            await self._sleep(line.delay_seconds)
        if line.thinking:
            yield ThinkingDelta(line.thinking)
        for word in _WORDS.findall(line.text) or ([line.text] if line.text else []):
            yield TextDelta(word)
            if abort is not None:
                abort.raise_if_fired()
        if line.error is not None:
            raise line.error
        for call in line.tool_calls:
            yield ToolCallReady(call)
        if line.usage is not None:
            yield UsageReported(line.usage)
        yield AnswerEnded(self._answer(line, request))

    def _next(self, request: ModelRequest) -> ScriptedAnswer:
        self.requests.append(request)
        line = next(self._lines, None)
        if line is None:
            said = f"the script ended before request {len(self.requests)}"
            raise ModelRejectedError(self.provider, request.model or self.model, said)
        if not isinstance(line, str | BaseException | ScriptedAnswer):
            line = line(request)
        if isinstance(line, str):
            return ScriptedAnswer(text=line)
        return ScriptedAnswer(error=line) if isinstance(line, BaseException) else line

    def _answer(self, line: ScriptedAnswer, request: ModelRequest) -> ModelAnswer:
        content: list[Block] = []
        if line.thinking:
            content.append(ThinkingBlock(thinking=line.thinking))
        if line.text:
            content.append(TextBlock(text=line.text))
        content.extend(line.tool_calls)
        message = AssistantMessage(
            content=tuple(content),
            provider=self.provider,
            model=request.model or self.model,
            usage=None if line.usage is None else line.usage.to_wire(),
            stop_reason=line.stop_reason or ("toolUse" if line.tool_calls else "stop"),
        )
        return ModelAnswer(message=message, usage=line.usage)


class FakeClock:
    """A clock that moves when it is told to; who sleeps by it waits for that."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._tickets = itertools.count()
        self._fell_asleep = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has moved on by *seconds*; not at all for none."""
        if seconds > 0:
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._sleepers, (self.now + seconds, next(self._tickets), woken))
            self._fell_asleep.set()
            await woken

    def advance(self, seconds: float) -> None:
        """Move on, and wake who has slept long enough, the earliest first."""
        self.now += seconds
        while self._sleepers and self._sleepers[0][0] <= self.now:
            *_, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)

    async def asleep(self, number: int = 1) -> None:
        """Return once so many sleep, so that moving on will wake them."""
        while self.sleepers < number:
            self._fell_asleep.clear()
            await self._fell_asleep.wait()

    @property
    def sleepers(self) -> int:
        """How many sleep now."""
        return sum(not woken.done() for *_, woken in self._sleepers)
