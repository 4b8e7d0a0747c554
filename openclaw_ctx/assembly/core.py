"""
What one open session is made of: its transcript, whoever is told of it, and what keeps its turns apart.

:class:`Session` is the door to it; a turn that runs here is lent it as its seat.
"""

import asyncio
import contextlib
import contextvars
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

from openclaw_ctx.contract import (
    JSON,
    AbortSignal,
    AssembleResult,
    EngineTool,
    EntryId,
    Message,
    PromptCache,
    Replacement,
    RewriteResult,
    SessionKey,
    UserMessage,
)
from openclaw_ctx.errors import SessionClosedError
from openclaw_ctx.host import Answer, CheckedPrompt, Serving, check_prompt
from openclaw_ctx.log import describe_error, get_logger
from openclaw_ctx.models import ModelAnswer
from openclaw_ctx.runtime import (
    BackgroundMaintenance,
    CompactedContext,
    EndedTurn,
    Prompt,
    Standing,
    TurnLimit,
)
from openclaw_ctx.transcript import Rotation, Transcript
from openclaw_ctx.transcript import rewrite as rewrite_entries

from .compactor import Compactor
from .courier import Courier
from .facts import CallFacts
from .wiring import Wiring

__all__ = ["SessionCore"]

_log = get_logger()

_inside: contextvars.ContextVar[tuple[object, ...]] = contextvars.ContextVar("openclaw_ctx_turns", default=())
"""
The turns that the running code was begun in, a subagent's inside its parent's: what tools ask of them does not wait.

A task that a tool leaves behind keeps them when they are long over.
"""


class SessionCore:
    """
    One open session.

    Attributes:
        standing: What it keeps from turn to turn.
        facts: What its hook calls are told.
        stopped: Fires when the host ends the turn that is running.
    """

    def __init__(self, key: SessionKey, transcript: Transcript, wiring: Wiring) -> None:
        self.key = key
        self.transcript = transcript
        self.wiring = wiring
        self.standing = Standing()
        self.stopped = AbortSignal()
        self.facts = CallFacts(
            key,
            transcript,
            descriptor=wiring.descriptor,
            workspace_dir=wiring.workspace_dir,
            services=wiring.services,
            model=wiring.complete,
            asked=wiring.asked,
        )
        self._courier = Courier(
            key,
            transcript,
            guard=wiring.guard,
            facts=self.facts,
            descriptor=wiring.descriptor,
            turn_end_seconds=wiring.turn_end_seconds,
            running=lambda: self._running,
        )
        self.standing.flushed_behind = self._courier.flushed_behind
        self._maintenance = BackgroundMaintenance(self._maintain_behind, session=key)
        self._compactor = Compactor(
            key, transcript, wiring=wiring, facts=self.facts, courier=self._courier, put_off=self._put_off
        )
        self._limit = TurnLimit(wiring.history_limit)
        self._running = 0
        self._deferred = False
        self._repaired: tuple[str, ...] = ()
        self._busy = asyncio.Lock()
        self._turns = asyncio.Lock()
        self._mark: object | None = None
        self._ending: asyncio.Task[None] | None = None

    # -- turns ------------------------------------------------------------------------------------

    @property
    def runs_here(self) -> bool:
        """Whether the running code belongs to this session's turn, and that is not over."""
        return self._mark is not None and self._mark in _inside.get()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold the session for one turn, and until :meth:`finish_behind` has done its work where that is asked for."""
        await self._turns.acquire()
        self._ending = None
        try:
            with self._marked():
                self.require_open()
                yield
        finally:
            if self._ending is None:
                self._turns.release()

    @contextlib.asynccontextmanager
    async def between_turns(self) -> AsyncIterator[None]:
        """Hold turns off; what a turn's own tools ask for is part of the turn."""
        if self.runs_here:
            yield
            return
        async with self._turns:
            yield

    def finish_behind(self, *, is_heartbeat: bool, summary: str | None) -> None:
        """Tell the engine of the turn that was answered, behind whoever waited for it; the next turn waits."""
        self._ending = asyncio.ensure_future(self._finish(is_heartbeat=is_heartbeat, summary=summary))

    async def settle(self) -> None:
        """Return once the work behind the last turn is done."""
        async with self.between_turns():
            pass
        await self._maintenance.settle()

    def stop(self, reason: str) -> None:
        """End the turn that is running, soon."""
        self.stopped.fire(reason)

    # -- what a turn asks for ----------------------------------------------------------------------

    def append(self, message: Message) -> Message:
        """Write *message*, waiting for nothing; return it with its entry id."""
        self.require_open()
        appended = self.transcript.append(message)
        self._running += 1
        return appended

    async def serving(self) -> Serving:
        """Return who answers, introduced to the session."""
        async with self._busy:
            self.require_open()
            return await self._courier.introduce()

    async def assemble(
        self,
        *,
        budget: int | None,
        system_prompt: str | None,
        tools: Iterable[Mapping[str, JSON]],
        model: str | None,
        citations_mode: str | None,
        prompt: str | None = None,
    ) -> Prompt:
        """Return what the model should see now; see :meth:`Session.assemble`."""
        schemas = list(tools)
        overhead = self.standing.overhead = self.wiring.count.prompt(system_prompt, schemas)
        token_budget = self._for_messages(budget)
        async with self._busy:
            self.require_open()
            await self._courier.introduce()
            history = self._limit.cut(self.transcript.history)
            arguments = {
                **self.facts.names(),
                **self.facts.run(budget=token_budget, model=model),
                "messages": history,
                "token_budget": token_budget,
                "available_tools": frozenset(str(schema.get("name")) for schema in schemas),
                "citations_mode": citations_mode,
                "model": model,
                "prompt": _prompt_of(history) if prompt is None else prompt,
            }
            answer = await self.wiring.guard.call(
                "assemble",
                arguments,
                check=lambda result: (result, check_prompt(result, history, count=self.wiring.count)),
            )
        made = self._prompt(answer, system_prompt, overhead=overhead, budget=budget)
        self.wiring.store.note_tokens(self.key, made.estimated_tokens)
        self._tell_repairs(made)
        return made

    async def compact(
        self,
        *,
        budget: int | None,
        trigger: str,
        tokens: int | None = None,
        force: bool = True,
        focus: str | None = None,
        abort: AbortSignal | None = None,
        rotate: bool = False,
    ) -> CompactedContext:
        """Compact, in the middle of a turn as well; *tokens* is what the caller measured."""
        async with self._busy:
            self.require_open()
            return await self._compactor.compact(
                await self._courier.introduce(),
                budget=self._for_messages(budget),
                force=force,
                focus=focus,
                trigger=trigger,
                tokens=tokens,
                abort=abort,
                rotate=rotate,
            )

    def rewrite(self, replacements: Sequence[Replacement]) -> RewriteResult:
        """Write messages of the transcript anew."""
        result = rewrite_entries(self.transcript, replacements)
        if result.changed:
            self.follow_rewrite()
        return result

    def note_answer(self, answer: ModelAnswer) -> None:
        """Keep what the provider said of its cache."""
        usage = answer.usage
        if usage is not None:
            before = self.facts.prompt_cache
            touched = before.last_cache_touch_at if before is not None else None
            if usage.cache_read or usage.cache_write:
                touched = time.time() * 1_000
            self.facts.prompt_cache = PromptCache(last_call_usage=usage.to_wire(), last_cache_touch_at=touched)

    def note_flush(self) -> None:
        """Keep that memory has been flushed since the last compaction, for who opens the session next."""
        self._courier.note_flush()

    # -- what a session asks for -------------------------------------------------------------------

    async def end_turn(self, *, is_heartbeat: bool, budget: int | None, summary: str | None = None) -> EndedTurn:
        """Hand the finished turn over to the engine, and let it tidy up; see :meth:`Session.end_turn`."""
        until = self._courier.deadline()
        async with self._busy:
            self.require_open()
            serving = await self._courier.introduce()
            size, self._running = self._running, 0
            handed = await self._courier.hand_over_turn(
                serving,
                size,
                is_heartbeat=is_heartbeat,
                budget=self._for_messages(budget),
                until=until,
                summary=summary,
            )
            maintenance = None
            if serving.info.turn_maintenance_mode == "background":
                self._maintenance.request()
            else:
                maintenance = await self._courier.maintain(until=until)
            serving = await self.wiring.guard.serving()
        return EndedTurn(
            handed_over=handed,
            engine=serving.engine_id,
            substitution=serving.substitution,
            maintenance=maintenance,
        )

    async def tools(self) -> Sequence[EngineTool]:
        """Return what the engine offers the agent to call."""
        async with self._busy:
            self.require_open()
            await self._courier.introduce()
            answer = await self.wiring.guard.call("tools", {"session_key": self.key, **self.facts.run()})
        return tuple(answer.value)

    async def rotate(self) -> Rotation:
        """Go on in a new transcript; see :meth:`Session.rotate`."""
        async with self.between_turns(), self._busy:
            self.require_open()
            return self._compactor.rotate()

    async def branch(self, entry_id: EntryId | None) -> None:
        """Go on from another entry of the transcript; see :meth:`Session.branch`."""
        async with self.between_turns(), self._busy:
            self.require_open()
            self.transcript.branch(entry_id)
            self._running = 0

    async def close(self) -> None:
        """Let go of the transcript, behind whatever is under way."""
        await self._maintenance.stop("the session is closed")
        async with self.between_turns(), self._busy:
            if self._is_open():
                del self.wiring.registered[self.key]
                self.transcript.close()

    def follow_rewrite(self) -> None:
        """Note that entries have been written anew."""
        self._courier.follow_rewrite()

    def require_open(self) -> None:
        """
        Do nothing while the session is open.

        Raises:
            SessionClosedError: It is not.
        """
        if not self._is_open():
            name = f"Session {self.key!r}"
            raise SessionClosedError(name)

    @contextlib.contextmanager
    def _marked(self) -> Iterator[None]:
        """Let what is called here be known by :attr:`runs_here`, until this is over."""
        self._mark = mark = object()
        token = _inside.set((*_inside.get(), mark))
        try:
            yield
        finally:
            _inside.reset(token)
            self._mark = None

    def _is_open(self) -> bool:
        # The same key may have been opened again since.
        return self.wiring.registered.get(self.key) is self

    async def _finish(self, *, is_heartbeat: bool, summary: str | None) -> None:
        try:
            with self._marked():
                await self.end_turn(is_heartbeat=is_heartbeat, budget=self.standing.budget, summary=summary)
        except SessionClosedError:
            pass  # it is told of the turn when the session is opened again
        except Exception as error:  # noqa: BLE001 -- the turn has been answered, and whoever asked has gone
            _log.warning("turn_end.failed", session=self.key, reason=describe_error(error))
        finally:
            self._turns.release()

    async def _maintain_behind(self, abort: AbortSignal) -> object:
        deferred, self._deferred = self._deferred, False
        return await self._courier.maintain(deferred=deferred, abort=abort)

    def _put_off(self) -> None:
        self._deferred = True
        self._maintenance.request()

    def _for_messages(self, budget: int | None) -> int | None:
        if budget is not None and (type(budget) is not int or budget < 1):
            problem = f"a budget is a whole number of tokens, at least 1, or None; not {budget!r}"
            raise ValueError(problem)
        # Calls that are not told what a prompt carries besides messages take the last one's.
        return None if budget is None else max(1, budget - self.standing.overhead)

    def _prompt(self, answer: Answer, system_prompt: str | None, *, overhead: int, budget: int | None) -> Prompt:
        result: AssembleResult
        checked: CheckedPrompt
        result, checked = answer.value
        addition = result.system_prompt_addition
        if addition:
            system_prompt = f"{addition}\n\n{system_prompt}" if system_prompt else addition
            overhead += self.wiring.count.prompt(addition)
        return Prompt(
            messages=checked.messages,
            system_prompt=system_prompt,
            estimated_tokens=checked.estimated_tokens + overhead,
            engine_estimate=result.estimated_tokens,
            budget=budget,
            engine=answer.serving.engine_id,
            substitution=answer.serving.substitution,
            repairs=checked.repairs,
            prompt_authority=result.prompt_authority,
            context_projection=result.context_projection,
        )

    def _tell_repairs(self, prompt: Prompt) -> None:
        # A hole in the history is mended at every prompt, and told once.
        if prompt.repairs != self._repaired:
            self._repaired = prompt.repairs
            if prompt.repairs:
                _log.info("prompt.repaired", session=self.key, engine=prompt.engine, repairs=list(prompt.repairs))


def _prompt_of(history: Sequence[Message]) -> str | None:
    last = history[-1] if history else None
    return last.text if isinstance(last, UserMessage) else None
