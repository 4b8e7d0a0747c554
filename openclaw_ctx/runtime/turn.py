"""
One turn: from what the user said to the model's answer.

Each round asks the engine what the model should see, makes that fit for the
provider, asks the model, and runs the tools that it calls. Whatever happens, the
transcript is left whole: what was appended stays, and the session goes on.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs

from openclaw_ctx.contract import (
    LEGACY_ENGINE_ID,
    AbortSignal,
    AssistantMessage,
    EntryId,
    Message,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.errors import (
    ContextOverflowError,
    ModelError,
    ModelTimeoutError,
    RateLimitedError,
    TurnBlockedError,
)
from openclaw_ctx.log import describe_error, get_logger
from openclaw_ctx.models import (
    AnswerEnded,
    Model,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    TextDelta,
    TokenUsage,
    obeying,
    whole_answer,
)

from .answers import Prompt, TurnResult
from .events import MessageAppended, ModelAsked, ModelRetried, TurnAnswered, TurnEvent
from .flushing import Flush
from .policy import Standing, TurnPolicy
from .precheck import Precheck, precheck
from .recovery import Recovery
from .rules import PromptRules
from .seat import Seat
from .thinking import has_signed_thinking, refuses_signature
from .tools import ToolBox, cut_short
from .truncation import result_cap_chars, truncate_results
from .usage import context_tokens
from .window import Window, check_window, effective_reserve, prompt_budget, should_compact

__all__ = ["Turn", "TurnRequest"]

MAX_RETRIES: Final = 3
"""How often the same request is sent again after a failure that passes."""

_FIRST_WAIT_SECONDS: Final = 1.0
_LONGEST_WAIT_SECONDS: Final = 60.0
_JITTER: Final = 0.2
_SHRINK: Final = 0.8
_LEAST_SHARE: Final = 0.25
_PRECHECK_SAID: Final = "Context overflow: prompt too large for the model (precheck)."

_log = get_logger()


@attrs.frozen(kw_only=True, eq=False)
class TurnRequest:
    """
    What a turn is about.

    Attributes:
        message: What the user says; ``None`` answers what is unanswered in the transcript.
        window: Of the model.
        rules: What the model's provider takes.
        caches: Whether the provider keeps a prompt cache that pruning would spoil while it is warm.
        flush: Lets memory write before a compaction; ``None`` where there is no memory.
    """

    message: UserMessage | None
    model: Model
    model_name: str | None
    window: Window
    rules: PromptRules
    tools: ToolBox
    abort: AbortSignal
    caches: bool = False
    flush: Flush | None = None
    system_prompt: str | None = None
    max_tokens: int | None = None
    citations_mode: str | None = None


class Turn:
    """Runs one turn on a session; used once."""

    def __init__(
        self,
        seat: Seat,
        request: TurnRequest,
        *,
        policy: TurnPolicy,
        standing: Standing,
        count: Callable[[Message], int],
        tell: Callable[[TurnEvent], None],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._seat = seat
        self._request = request
        self._policy = policy
        self._standing = standing
        self._count = count
        self._tell = tell
        self._sleep = sleep
        self._now = now
        self._partial: list[str] = []
        self._vain = False
        self._cap_chars = result_cap_chars(self._window, configured=policy.tool_result_max_chars)
        self._recovery = Recovery(seat, standing=standing, abort=request.abort, tell=tell, cap_chars=self._cap_chars)

    @property
    def _window(self) -> int:
        """Tokens; what a provider has said of itself counts more than what was configured."""
        tokens, limit = self._request.window.tokens, self._standing.limit
        return tokens if limit is None else min(tokens, limit)

    @property
    def _reserve(self) -> int:
        policy = self._policy
        return effective_reserve(self._window, reserve_tokens=policy.reserve_tokens, floor=policy.reserve_tokens_floor)

    @property
    def _budget(self) -> int:
        return max(1, int(prompt_budget(self._window, reserve=self._reserve) * self._standing.share))

    async def run(self) -> TurnResult:
        """
        Return the answer, which is in the transcript by then.

        Raises:
            TurnBlockedError: The conversation does not fit the model, whatever was tried.
            ContextWindowTooSmallError: The model leaves no room to work in.
            HostIncompatibleError: The engine needs what this host cannot do; nothing has been written.
            ModelError: The model gave no answer, and asking again does not help.
            AbortError: The caller's signal has fired; or the very exception that it was fired with.
        """
        warning = check_window(self._request.window)
        if warning and warning != self._standing.warned:
            self._standing.warned = warning
            _log.warning("window.small", session=self._seat.key, reason=warning)
        await self._seat.serving()
        if self._request.message is not None:
            self._append(self._request.message)
            self._standing.loop_guard.disarm()
        try:
            return await self._answer()
        except BaseException:
            self._keep_partial()
            raise

    async def _answer(self) -> TurnResult:
        await self._heed_bytes()
        for number in range(1, self._policy.max_rounds + 1):
            answer, prompt = await self._round(first=number == 1)
            message = self._append(answer.message)
            assert isinstance(message, AssistantMessage)  # noqa: S101 -- it was appended as one
            self._standing.measured = (message.entry_id, self._seat.transcript.boundary_id)
            if not message.tool_calls or message.stop_reason in {"error", "aborted", "length"}:
                for result in cut_short(message.tool_calls) if message.stop_reason == "length" else ():
                    self._take(result)
                self._tell(TurnAnswered(message=message))
                return TurnResult(
                    message=message,
                    engine=prompt.engine,
                    substitution=prompt.substitution,
                    usage=answer.usage,
                    rounds=number,
                    compactions=self._recovery.compactions,
                    summary=self._recovery.summary,
                )
            await self._request.tools.run(
                message.tool_calls, tell=self._tell, take=self._take, abort=self._request.abort
            )
            self._guard_against_loops(message)
        raise TurnBlockedError(
            self._seat.key, "retry_limit", self._recovery.attempts, f"{self._policy.max_rounds} rounds"
        )

    async def _round(self, *, first: bool) -> tuple[ModelAnswer, Prompt]:
        """Ask the model once, however often it takes to make the prompt fit."""
        retries = 0
        ahead = False
        while True:
            self._request.abort.raise_if_fired()
            prompt = await self._assemble()
            if not ahead and await self._compacted_ahead(prompt):
                ahead = True  # whatever it brought: what still does not fit is overflow, which ends
                continue
            messages = self._fit(prompt)
            if (first or self._policy.mid_turn_precheck) and await self._mended(messages, prompt):
                continue
            try:
                return await self._ask(messages, prompt), prompt
            except ContextOverflowError as error:
                await self._after_overflow(error, prompt)
            except ModelTimeoutError as error:
                mended = await self._recovery.after_timeout(
                    budget=self._budget, tokens=prompt.estimated_tokens, window=self._window
                )
                retries = await self._wait(error, 0 if mended else retries)
            except ModelError as error:
                if self._distrusted(error, prompt):
                    continue
                if not error.retryable:
                    raise
                retries = await self._wait(error, retries)

    # -- what the model sees ----------------------------------------------------------------------

    async def _assemble(self) -> Prompt:
        request = self._request
        self._standing.budget = self._budget
        async with obeying(request.abort):  # an engine may take as long as its deadline
            return await self._seat.assemble(
                budget=self._budget,
                system_prompt=request.system_prompt,
                tools=request.tools.schemas,
                model=request.model_name,
                citations_mode=request.citations_mode,
            )

    def _fit(self, prompt: Prompt) -> Sequence[Message]:
        """Return the messages as the provider takes them, pruned and their tool results bounded."""
        standing, request = self._standing, self._request
        messages = standing.pipeline.prepare(prompt.messages, request.rules, refused=standing.refused).messages
        messages = truncate_results(messages, cap=self._cap_chars)
        messages, pruned = standing.pruner.prune(
            messages,
            policy=self._policy.pruning,
            window=self._window,
            last_touch=standing.last_touch,
            now=self._now(),
            cache_capable=request.caches,
        )
        if pruned:
            _log.info("prompt.pruned", session=self._seat.key, engine=prompt.engine)
        return messages

    async def _compacted_ahead(self, prompt: Prompt) -> bool:
        """Compact before the window is full; return whether to assemble anew."""
        if self._vain or not self._policy.compaction_enabled:
            return False
        tokens = max(prompt.estimated_tokens, self._count_prompt(prompt.messages))
        flush = self._request.flush
        if flush is not None and await flush.run_if_due(
            prompt.messages,
            standing=self._standing,
            boundary=self._seat.transcript.boundary_id,
            tokens=tokens,
            window=self._window,
            reserve_floor=self._policy.reserve_tokens_floor,
            transcript_bytes=self._seat.transcript.size,
            abort=self._request.abort,
        ):
            self._seat.note_flush()
        if not should_compact(tokens, window=self._window, reserve=self._window - self._budget):
            return False
        if tokens < self._standing.waits_above or (await self._seat.serving()).info.owns_compaction:
            return False
        compacted = await self._recovery.ahead(budget=self._budget, tokens=tokens)
        self._vain = not compacted
        return compacted

    def _count_prompt(self, messages: Sequence[Message]) -> int:
        """Return what *messages* fill by the last answer's usage; none from before a compaction."""
        transcript = self._seat.transcript
        boundary = transcript.boundary_id

        def is_current(answer: AssistantMessage) -> bool:
            if self._standing.measured == (answer.entry_id, boundary):
                return True
            return answer.entry_id is not None and answer.entry_id in transcript.record(after=boundary).entry_ids

        # Where no compaction is on record, a summary that opens the prompt is an engine's own.
        return context_tokens(messages, count=self._count, current=None if boundary is None else is_current)

    async def _heed_bytes(self) -> None:
        """Compact a transcript that has grown too large, whatever began the turn."""
        most = self._policy.max_transcript_bytes
        if not most:
            return
        size = self._seat.transcript.size
        if size < most:
            return
        tokens = self._count_context()
        if tokens < self._standing.waits_above:
            return
        # The window may have room for it all, so it is half of the messages that goes.
        budget = min(self._budget, max(1, tokens // 2) + self._standing.overhead)
        if not await self._recovery.ahead(budget=budget, tokens=tokens, rotate=True):
            _log.warning("transcript.too_large", session=self._seat.key, bytes=size, limit=most)

    def _count_context(self) -> int:
        return sum(map(self._count, self._seat.transcript.history))

    # -- when it does not fit ---------------------------------------------------------------------

    async def _mended(self, messages: Sequence[Message], prompt: Prompt) -> bool:
        """Hold a prompt against the window before it is sent; return whether to assemble anew."""
        if not await self._is_to_be_checked(prompt):
            return False
        unwindowed = self._seat.transcript.history if prompt.prompt_authority != "assembled" else None
        check: Precheck = precheck(
            messages,
            system_prompt=prompt.system_prompt,
            tools=self._request.tools.schemas,
            window=self._window,
            reserve=self._reserve,
            unwindowed=unwindowed,
            cap_chars=self._cap_chars,
        )
        if check.route == "fits":
            return False
        _log.info(
            "prompt.too_long",
            session=self._seat.key,
            engine=prompt.engine,
            operation=check.route,
            tokens=check.estimated_tokens,
            budget=check.prompt_budget,
        )
        if check.route == "truncate_tool_results_only" and self._recovery.truncate_only():
            return True
        await self._recovery.after_overflow(
            budget=self._budget,
            tokens=check.estimated_tokens,
            said=_PRECHECK_SAID,
            truncate=check.route == "compact_then_truncate",
        )
        return True

    async def _is_to_be_checked(self, prompt: Prompt) -> bool:
        """
        Return whether the host looks itself whether the prompt fits.

        An engine that kept to its budget is believed: the estimate here has a margin
        that every well filled budget would break. So is one that compacts by itself.
        """
        if prompt.prompt_authority != "assembled":
            return True
        if (await self._seat.serving()).info.owns_compaction:
            return False
        return prompt.engine == LEGACY_ENGINE_ID or prompt.over_budget

    async def _after_overflow(self, error: ContextOverflowError, prompt: Prompt) -> None:
        """Learn from what the provider said of the prompt, then make it fit."""
        standing = self._standing
        observed = error.observed_tokens
        if observed is not None and prompt.estimated_tokens > 0:
            # A count out of all proportion to ours tells of the provider, or of another prompt.
            observed = min(observed, max(self._window + 1, int(prompt.estimated_tokens / _LEAST_SHARE)))
        if error.limit is not None and 0 < error.limit < self._window:
            standing.limit = error.limit
        elif observed is not None and observed > prompt.estimated_tokens > 0:
            standing.share = max(_LEAST_SHARE, min(standing.share, prompt.estimated_tokens / observed))
        elif observed is None:
            standing.share = max(_LEAST_SHARE, standing.share * _SHRINK)
        await self._recovery.after_overflow(
            budget=self._budget,
            tokens=self._window + 1 if observed is None else observed,
            said=error.said,
        )

    def _trust_count(self, usage: TokenUsage | None, prompt: Prompt) -> None:
        """Use more of the budget again, by a step, where the provider counts what it answered as it is counted here."""
        if usage is not None and usage.prompt > 0:
            standing = self._standing
            borne_out = min(1.0, standing.share / _SHRINK, prompt.estimated_tokens / usage.prompt)
            standing.share = max(standing.share, borne_out)

    def _distrusted(self, error: ModelError, prompt: Prompt) -> bool:
        """Return whether the provider refused a signature, and there is one that was not taken away before."""
        if not refuses_signature(str(getattr(error, "said", ""))):
            return False
        signed = [m for m in prompt.messages if isinstance(m, AssistantMessage) and has_signed_thinking(m)]
        refused = self._standing.refused.union(message.entry_id or EntryId("") for message in signed)
        if refused == self._standing.refused:
            return False
        self._standing.refused = refused
        self._tell(ModelRetried(reason=describe_error(error), seconds=0.0))
        return True

    # -- asking -----------------------------------------------------------------------------------

    async def _ask(self, messages: Sequence[Message], prompt: Prompt) -> ModelAnswer:
        request = self._request
        self._partial.clear()
        self._tell(ModelAsked(tokens=prompt.estimated_tokens, window=self._window, prompt=prompt))
        asked = ModelRequest(
            messages=messages,
            model=request.model_name,
            system_prompt=prompt.system_prompt,
            tools=request.tools.schemas,
            max_tokens=request.max_tokens,
        )
        answer = await whole_answer(request.model.stream(asked, abort=request.abort), tell=self._hear)
        self._partial.clear()
        self._standing.last_touch = self._now()
        self._trust_count(answer.usage, prompt)
        self._seat.note_answer(answer)
        return answer

    def _hear(self, event: ModelEvent) -> None:
        if isinstance(event, TextDelta):
            self._partial.append(event.text)
        if not isinstance(event, AnswerEnded):  # which is the answer, and no news of it
            self._tell(event)

    async def _wait(self, error: ModelError, retries: int) -> int:
        """Wait before the model is asked again; return how often it has been now. Raises *error* when it is enough."""
        if retries >= MAX_RETRIES:
            raise error
        asked = error.retry_after_seconds if isinstance(error, RateLimitedError) else None
        if asked is not None and asked > _LONGEST_WAIT_SECONDS:
            raise error
        seconds = _FIRST_WAIT_SECONDS * 2**retries if asked is None else asked
        seconds *= 1 + random.uniform(0, _JITTER)  # noqa: S311 -- so that many sessions do not come back at once
        self._tell(ModelRetried(reason=describe_error(error), seconds=seconds))
        async with obeying(self._request.abort):
            await self._sleep(seconds)
        return retries + 1

    # -- what is written --------------------------------------------------------------------------

    def _append(self, message: Message) -> Message:
        appended = self._seat.append(message)
        self._tell(MessageAppended(message=appended))
        return appended

    def _take(self, result: ToolResultMessage) -> None:
        self._append(result)

    def _keep_partial(self) -> None:
        """Keep what the model had said by the time that it was cut off."""
        text = "".join(self._partial)
        self._partial.clear()
        if text.strip():
            request = self._request
            self._append(
                AssistantMessage(
                    content=(TextBlock(text=text),),
                    provider=request.rules.provider,
                    model=request.model_name or request.rules.model,
                    stop_reason="aborted",
                )
            )

    def _guard_against_loops(self, message: AssistantMessage) -> None:
        history = self._seat.transcript.history
        results: dict[str, str] = {}
        for said in reversed(history):
            if not isinstance(said, ToolResultMessage):
                break
            results[said.tool_call_id] = said.text
        for call in message.tool_calls:
            if self._standing.loop_guard.saw(call.name, call.arguments, results.get(call.id, "")):
                said_last = f"{call.name} was called with the same arguments and answered the same"
                raise TurnBlockedError(self._seat.key, "compaction_loop_persisted", self._recovery.attempts, said_last)
