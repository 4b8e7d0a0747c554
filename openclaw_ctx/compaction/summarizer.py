"""
A history as one summary, by a model: in as many requests as it takes.

Parts of a split history are summarised side by side and merged; the chunks of
a part follow each other, each with the summary so far. A failure is an
exception, never a text that stands for a summary.
"""

import asyncio
import datetime as dt
import random
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

import attrs

from openclaw_ctx.contract import Complete, CompletionRequest, Message, UserMessage
from openclaw_ctx.errors import AbortError, ContextOverflowError, ModelError, ModelTimeoutError
from openclaw_ctx.tokens import estimate_text

from .groups import atomic_groups
from .prompts import MERGE_INSTRUCTIONS, SYSTEM_PROMPT, Asking, with_label
from .stages import Stages, chunk_cap, divide, is_oversized, max_chunk_tokens, plan_stages
from .threads import off_loop

__all__ = ["NO_HISTORY", "Summarizer"]

NO_HISTORY: Final = "No prior history."
"""The summary of nothing; the reference system's words."""

ATTEMPTS: Final = 3
"""How often a chunk is tried; the reference system's."""

FIRST_DELAY_SECONDS: Final = 0.5
LAST_DELAY_SECONDS: Final = 5.0
JITTER: Final = 0.2
"""Waits between tries double from the first to the last, give or take the jitter; the reference system's."""

SIDE_BY_SIDE: Final = 4
"""So many parts are summarised at once; ours: the reference system takes one after the other."""

_LABEL_TOKENS: Final = 8
_PLACEHOLDER_CHARS: Final = 400
# What frameworks and models write in the place of a summary that they did not make.
_PLACEHOLDER: Final = re.compile(
    r"summary (?:is |was )?(?:unavailable|not available)|(?:error|failed) (?:while )?generating (?:a |the )?summary"
    r"|(?:unable|not able) to (?:generate|produce|create|make) (?:a |the )?summary"
    r"|too (?:long|large) to (?:be )?summari[sz]e|could not be summari[sz]ed|due to (?:context|size|length) limits",
    re.IGNORECASE,
)
_OF_TOOLS: Final = frozenset({"assistant", "toolResult"})
_T = TypeVar("_T")


@attrs.frozen(kw_only=True)
class _Partial:
    """What was summarised before a chunk failed, and why that one did."""

    text: str | None
    failure: Exception


@attrs.frozen(kw_only=True, eq=False)
class Summarizer:
    """
    Asks a model for summaries.

    Attributes:
        complete: Asks the model once; tries nothing twice.
        count: Tokens of one message.
        window: Tokens that the model can take.
        max_tokens: Bounds an answer.
        sleep: Waits between tries.
        purpose: Stands on every request.
    """

    complete: Complete
    count: Callable[[Message], int]
    window: int
    max_tokens: int
    sleep: Callable[[float], Awaitable[object]]
    purpose: str

    async def summarize(self, messages: Sequence[Message], asking: Asking, previous: str | None = None) -> str:
        """
        Return the summary of *messages*, with what *previous* says.

        Raises:
            Exception: What the model's last try raised. Of a chunk behind the first one it is not
                raised: the summary then says which chunks are missing.
        """
        if not messages:
            return previous or NO_HISTORY
        plan, costs = await off_loop(len(messages), self._plan, messages, asking, previous)
        if plan.kind == "split":
            return await self._merged(messages, costs, plan.parts, asking, previous)
        if plan.kind == "whole":
            try:
                return await self._with_fallback(messages, costs, plan.parts, asking, previous, whole=True)
            except ContextOverflowError:
                plan = attrs.evolve(plan, parts=await off_loop(len(messages), self._chunks, messages, costs))
        return await self._with_fallback(messages, costs, plan.parts, asking, previous)

    def _plan(self, messages: Sequence[Message], asking: Asking, previous: str | None) -> tuple[Stages, list[int]]:
        costs = [self.count(message) for message in messages]
        said = estimate_text(asking.instructions(has_previous=bool(previous))) + estimate_text(previous or "")
        request = sum(costs) + _LABEL_TOKENS * len(costs) + said + estimate_text(SYSTEM_PROMPT)
        groups = atomic_groups(messages)
        plan = plan_stages(groups, costs, window=self.window, request_tokens=request, answer_tokens=self.max_tokens)
        return plan, costs

    def _chunks(self, messages: Sequence[Message], costs: Sequence[int]) -> tuple[range, ...]:
        limit = chunk_cap(max_chunk_tokens(costs, window=self.window))
        return divide(atomic_groups(messages), costs, most_tokens=limit)

    async def _merged(
        self,
        messages: Sequence[Message],
        costs: Sequence[int],
        parts: Sequence[range],
        asking: Asking,
        previous: str | None,
    ) -> str:
        """Summarise *parts* side by side, each as if nothing had been before it, and merge what comes of it."""
        free = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(part: range) -> tuple[str, str]:
            async with free:
                inside, of_each = messages[part.start : part.stop], costs[part.start : part.stop]
                chunks = await off_loop(len(inside), self._chunks, inside, of_each)
                when = await off_loop(len(inside), _when, inside)
                return when, await self._with_fallback(inside, of_each, chunks, asking, None)

        summaries = await _all([one(part) for part in parts])
        labelled = [
            UserMessage(content=with_label(place, len(parts), when, summary))
            for place, (when, summary) in enumerate(summaries)
        ]
        of_each = [self.count(message) for message in labelled]
        chunks = self._chunks(labelled, of_each)
        return await self._with_fallback(labelled, of_each, chunks, asking.with_rules(MERGE_INSTRUCTIONS), previous)

    async def _with_fallback(
        self,
        messages: Sequence[Message],
        costs: Sequence[int],
        chunks: Sequence[range],
        asking: Asking,
        previous: str | None,
        *,
        whole: bool = False,
    ) -> str:
        """Summarise chunk by chunk; where that fails, once more without what is too large to be summarised."""
        made = await self._in_sequence(messages, chunks, asking, previous)
        if isinstance(made, str):
            return made
        if whole and isinstance(made.failure, ContextOverflowError):
            raise made.failure
        small, notes = await off_loop(len(messages), _without_oversized, messages, costs, self.window)
        if small and len(small) < len(messages):
            fewer = await off_loop(len(small), self._chunks, small, [self.count(message) for message in small])
            again = await self._in_sequence(small, fewer, asking, previous)
            if isinstance(again, str):
                return "\n\n".join((again, *notes))
            text = None if again.text is None else "\n\n".join((again.text, *notes))
            made = attrs.evolve(again, text=text or made.text)
        if made.text is None:
            raise made.failure
        return made.text

    async def _in_sequence(
        self, messages: Sequence[Message], chunks: Sequence[range], asking: Asking, previous: str | None
    ) -> str | _Partial:
        """Summarise one chunk after the other, each with the summary so far."""
        summary = previous
        for done, chunk in enumerate(chunks):
            try:
                summary = await self._tried(messages[chunk.start : chunk.stop], asking, summary)
            except (ModelTimeoutError, TimeoutError):
                raise
            except Exception as failure:  # noqa: BLE001 -- a model of anybody's may raise anything
                if not done:
                    return _Partial(text=None, failure=failure)
                note = (
                    f"[Partial summary: chunks 1-{done} of {len(chunks)} were summarized. "
                    f"Chunks {done + 1}-{len(chunks)} could not be processed.]"
                )
                return _Partial(text=f"{summary}\n\n{note}", failure=failure)
        return summary or NO_HISTORY

    async def _tried(self, messages: Sequence[Message], asking: Asking, previous: str | None) -> str:
        """Ask, and ask again where the failure passes."""
        prompt = await off_loop(len(messages), asking.prompt, messages, previous)
        for attempt in range(1, ATTEMPTS):
            try:
                return await self._ask(prompt)
            except (ModelTimeoutError, TimeoutError):
                raise
            except (ModelError, AbortError) as failure:
                if isinstance(failure, ModelError) and not failure.retryable:
                    raise
                await self.sleep(_delay(attempt, getattr(failure, "retry_after_seconds", None)))
        return await self._ask(prompt)

    async def _ask(self, prompt: str) -> str:
        request = CompletionRequest(
            messages=(UserMessage(content=prompt),),
            system_prompt=SYSTEM_PROMPT,
            max_tokens=self.max_tokens,
            purpose=self.purpose,
        )
        text = (await self.complete(request)).text.strip()
        if not text:
            problem = "the model answered with an empty summary"
            raise ValueError(problem)
        if text == NO_HISTORY or (len(text) <= _PLACEHOLDER_CHARS and _PLACEHOLDER.search(text)):
            problem = f"the model answered with a text in place of a summary: {text!r}"
            raise ValueError(problem)
        return text


def _without_oversized(
    messages: Sequence[Message], costs: Sequence[int], window: int
) -> tuple[list[Message], list[str]]:
    """Return the messages that can be summarised, and a note for each that is too large; what users said stays."""
    small: list[Message] = []
    notes: list[str] = []
    for group in atomic_groups(messages):
        large = [place for place in group if is_oversized(costs[place], window=window)]
        notes += [
            f"[Large {messages[place].role} (~{round(costs[place] / 1000)}K tokens) omitted from summary]"
            for place in large
        ]
        parted = any(messages[place].role in _OF_TOOLS for place in large)
        small += [
            messages[place]
            for place in group
            if place not in large and not (parted and messages[place].role in _OF_TOOLS)
        ]
    return small, notes


def _delay(attempt: int, asked: float | None) -> float:
    """Return how long to wait behind a try: doubled each time, at least what the provider asks, never over 5 s."""
    doubled = FIRST_DELAY_SECONDS * (1 << (attempt - 1))
    varied = doubled * (1 + random.uniform(-JITTER, JITTER))  # noqa: S311 -- spreads requests, guards nothing
    return min(max(varied, asked or 0.0), LAST_DELAY_SECONDS)


def _when(messages: Sequence[Message]) -> str:
    """Return the time range of messages as a person reads it, in UTC; nothing where they have no times."""
    times = [stamp for message in messages if (stamp := _moment(message.timestamp)) is not None]
    if not times:
        return ""
    first, last = (f"{moment:%Y-%m-%d %H:%M}" for moment in (min(times), max(times)))
    return first if first == last else f"{first} to {last}"


def _moment(timestamp: float | None) -> dt.datetime | None:
    try:
        return dt.datetime.fromtimestamp(timestamp / 1000, dt.UTC) if timestamp else None
    except (OverflowError, ValueError, OSError):
        return None


async def _all(works: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Return what all give, in order; the first failure ends the others, and is raised when they have ended."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
