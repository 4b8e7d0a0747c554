"""
One conversation: its transcript, and the engine that serves it.

For people who bring their own loop::

    await session.append(UserMessage(content="..."))
    prompt = await session.assemble(budget=8_000)
    ...                                    # ask a model with prompt.messages
    await session.append(AssistantMessage(...))
    await session.end_turn()
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from openclaw_ctx.contract import (
    JSON,
    LEGACY_ENGINE_ID,
    AbortSignal,
    AssembleResult,
    BootstrapReason,
    CompactionSummaryMessage,
    CompactResult,
    Complete,
    ContextProjection,
    EngineTool,
    EntryId,
    HostDescriptor,
    Message,
    PromptAuthority,
    RewriteResult,
    RuntimeContext,
    RuntimeSettings,
    SessionId,
    SessionKey,
    UserMessage,
    build_runtime_settings,
)
from openclaw_ctx.errors import SessionBusyError, SessionClosedError
from openclaw_ctx.host import Answer, CheckedPrompt, Guard, InvalidResult, Serving, check_prompt, require_host
from openclaw_ctx.log import get_logger
from openclaw_ctx.tokens import TokenCounter
from openclaw_ctx.transcript import History, Transcript

from .handover import HandOver, Mark
from .services import HostServices

__all__ = ["CompactedContext", "EndedTurn", "Prompt", "Session"]

_log = get_logger()

_SLICE_MESSAGES: Final = 500
_LOCK_POLL_SECONDS: Final = 0.05


@attrs.frozen(kw_only=True)
class Prompt:
    """
    What to send to the model.

    Attributes:
        system_prompt: Yours, with what the engine puts before it; ``None`` where there is neither.
        estimated_tokens: By the host's counter: messages, system prompt and tool schemas.
        engine_estimate: What the engine itself says of its messages; 0 where it does not.
        engine: Who assembled it.
        substitution: Why that is not the engine which the slot asks for.
        repairs: What the host had to mend in the engine's answer.
    """

    messages: Sequence[Message]
    system_prompt: str | None
    estimated_tokens: int
    engine_estimate: int
    budget: int | None
    engine: str
    substitution: str | None
    repairs: tuple[str, ...]
    prompt_authority: PromptAuthority
    context_projection: ContextProjection | None

    @property
    def over_budget(self) -> bool:
        """Whether it costs more than the budget: compact, then assemble again."""
        return self.budget is not None and self.estimated_tokens > self.budget


@attrs.frozen(kw_only=True)
class CompactedContext:
    """What a compaction came to, who did it, and why that was not the engine asked for."""

    result: CompactResult
    engine: str
    substitution: str | None


@attrs.frozen(kw_only=True)
class EndedTurn:
    """What was handed over at a turn's end, to whom, and what its maintenance did."""

    handed_over: int
    engine: str
    substitution: str | None
    maintenance: RewriteResult | None


class Session:
    """
    A conversation that is open for writing. Made by :meth:`Host.session`.

    The host writes the transcript, always; an engine is told of it. Operations
    on one session queue behind each other; sessions run side by side.
    """

    def __init__(
        self,
        key: SessionKey,
        transcript: Transcript,
        *,
        guard: Guard,
        count: TokenCounter,
        descriptor: HostDescriptor,
        workspace_dir: Path,
        services: HostServices,
        model: Complete | None,
        turn_end_seconds: float,
        asked: str,
        registered: dict[SessionKey, "Session"],
    ) -> None:
        self.key = key
        self.transcript = transcript
        self._guard = guard
        self._count = count
        self._descriptor = descriptor
        self._workspace_dir = workspace_dir
        self._services = services
        self._model = model
        self._turn_end_seconds = turn_end_seconds
        self._asked = asked
        self._registered = registered
        self._handover = HandOver(transcript.path)
        self._turn: list[EntryId] = []
        self._met: tuple[str, int] | None = None
        self._settings: tuple[tuple[object, ...], RuntimeSettings] | None = None
        self._busy = asyncio.Lock()

    @classmethod
    async def open(
        cls, key: SessionKey, *, path: Path, durable: bool, timeout_seconds: float, **parts: Any
    ) -> "Session":
        """Open the transcript at *path*, waiting for its other writer without blocking the loop."""
        until = time.monotonic() + timeout_seconds
        transcript: Transcript | None = None
        while transcript is None:
            try:
                transcript = Transcript.open(path, durable=durable, cwd=str(parts["workspace_dir"]))
            except SessionBusyError as error:
                if time.monotonic() >= until:
                    raise SessionBusyError(error.path, error.holder, timeout_seconds) from None
                await asyncio.sleep(_LOCK_POLL_SECONDS)
        for warning in transcript.take_warnings():
            _log.warning("transcript.questioned", session=key, path=str(path), reason=warning)
        session = cls(key, transcript, **parts)
        session._registered[key] = session
        return session

    @property
    def session_id(self) -> SessionId:
        """Names the transcript."""
        return self.transcript.session_id

    @property
    def history(self) -> History:
        """The context as it stands: the last summary and what follows it."""
        return self.transcript.history

    async def append(self, message: Message) -> Message:
        """Write *message* to the transcript; return it with its entry id. It survives a crash from here on."""
        self._require_open()
        appended = self.transcript.append(message)
        if appended.entry_id is not None:
            self._turn.append(appended.entry_id)
        return appended

    async def assemble(
        self,
        *,
        budget: int | None = None,
        prompt: str | None = None,
        system_prompt: str | None = None,
        tools: Iterable[Mapping[str, JSON]] = (),
        model: str | None = None,
        citations_mode: str | None = None,
    ) -> Prompt:
        """
        Return what the model should see now.

        Args:
            budget: Tokens that messages, system prompt and tool schemas may cost together.
            prompt: The incoming user text, for retrieval; the last user message by default.
            system_prompt: Your standing instructions.
            tools: JSON Schemas of the agent's tools, each with a ``name``.
            model: The model that will be asked.
            citations_mode: Passed on to the engine.

        Raises:
            HostIncompatibleError: The engine needs what this host cannot do.
            SubstitutionRefusedError: It cannot answer, and the policy is strict.
        """
        schemas = list(tools)
        overhead = self._count.prompt(system_prompt, schemas)
        token_budget = None if budget is None else max(1, budget - overhead)
        async with self._busy:
            await self._introduce()
            history = self.transcript.history
            answer = await self._guard.call(
                "assemble",
                {
                    "session_id": self.session_id,
                    "session_key": self.key,
                    "messages": history,
                    "token_budget": token_budget,
                    "available_tools": frozenset(str(schema.get("name")) for schema in schemas),
                    "citations_mode": citations_mode,
                    "model": model,
                    "prompt": _prompt_of(history) if prompt is None else prompt,
                    "runtime_settings": self._runtime_settings(budget=token_budget, model=model),
                    "runtime_context": self._context(token_budget=token_budget),
                },
                check=lambda result: (result, check_prompt(result, history, count=self._count)),
            )
        return self._prompt(answer, system_prompt, overhead=overhead, budget=budget)

    async def end_turn(self, *, is_heartbeat: bool = False, budget: int | None = None) -> EndedTurn:
        """
        Hand the finished turn over to the engine, and let it tidy up.

        All of it together takes at most ``deadlines.turnEnd`` seconds. The
        transcript is written already: nothing here can lose a message.
        """
        until = time.monotonic() + self._turn_end_seconds
        async with self._busy:
            turn, self._turn = self._turn, []
            serving = await self._introduce(before=len(turn))
            handed = await self._hand_over_turn(serving, len(turn), is_heartbeat, budget, until) if turn else 0
            maintenance = await self._maintain(until)
            serving = await self._guard.serving()
        return EndedTurn(
            handed_over=handed,
            engine=serving.engine_id,
            substitution=serving.substitution,
            maintenance=maintenance,
        )

    async def compact(
        self,
        *,
        budget: int | None = None,
        force: bool = True,
        focus: str | None = None,
        trigger: str = "manual",
        abort: AbortSignal | None = None,
    ) -> CompactedContext:
        """
        Make the context smaller.

        Args:
            budget: Tokens that the context may cost afterwards.
            force: Compact even where the engine sees no need.
            focus: What the summary should keep.
            trigger: ``manual``, ``budget`` or ``overflow``.
            abort: Stops it; the transcript is left whole.

        Raises:
            EngineFailedError: The engine failed; nothing has been changed, and the next call is answered by ``legacy``.
        """
        async with self._busy:
            serving = await self._introduce()
            require_host(serving.info, "manual-compact", self._descriptor)
            boundary = self.transcript.boundary_id
            tokens = self._count.total(self.transcript.history)
            answer = await self._guard.call(
                "compact",
                {
                    "session_id": self.session_id,
                    "session_key": self.key,
                    "session_file": str(self.transcript.path),
                    "token_budget": budget,
                    "force": force,
                    "force_reason": "manual" if force and trigger == "manual" else None,
                    "current_token_count": tokens,
                    "compaction_target": "budget",
                    "custom_instructions": focus,
                    "runtime_settings": self._runtime_settings(budget=budget, model=None),
                    "runtime_context": self._context(token_budget=budget, tokens=tokens, trigger=trigger),
                    "abort_signal": abort or AbortSignal(),
                },
                abort=abort,
                check=self._check_compaction,
            )
            result = self._write_compaction(answer.value, boundary, tokens)
            if result.compacted:
                await self._maintain(time.monotonic() + self._turn_end_seconds)
        return CompactedContext(
            result=result, engine=answer.serving.engine_id, substitution=answer.serving.substitution
        )

    async def tools(self) -> Sequence[EngineTool]:
        """Return what the engine offers the agent to call."""
        async with self._busy:
            await self._introduce()
            answer = await self._guard.call("tools", {"session_key": self.key})
        return tuple(answer.value)

    async def close(self) -> None:
        """Let go of the transcript. A turn that was not ended is handed over when the session is opened again."""
        if self._registered.pop(self.key, None) is not None:
            self.transcript.close()

    # -- meeting the engine -----------------------------------------------------------------------

    async def _introduce(self, *, before: int | None = None) -> Serving:
        """
        See that whoever answers knows the session, and has been told what it missed.

        *before*: how many messages of the running turn are not history yet.
        """
        self._require_open()
        serving = await self._guard.serving()
        met = (serving.engine_id, serving.generation)
        if met == self._met:
            return serving
        require_host(serving.info, "agent-run", self._descriptor)
        self._met = met
        if serving.engine_id == LEGACY_ENGINE_ID:
            return serving
        running = len(self._turn) if before is None else before
        await self._bootstrap(serving, running)
        return await self._guard.serving()

    async def _bootstrap(self, serving: Serving, running: int) -> None:
        mark = self._handover.mark(serving.engine_id)
        missed, reason = self._missed(mark, running)
        previous = mark.session_id if mark is not None and mark.session_id != self.session_id else None
        answer = await self._guard.call(
            "bootstrap",
            {
                "session_id": self.session_id,
                "session_key": self.key,
                "session_file": str(self.transcript.path),
                "reason": reason,
                "previous_session_id": previous,
                "runtime_settings": self._runtime_settings(budget=None, model=None),
                "runtime_context": self._context(),
            },
        )
        if answer.serving.substitution is not None:
            return
        if answer.value.imported_messages is None and not await self._hand_over(missed):
            return
        self._mark(serving.engine_id, missed[-1].entry_id if missed else (mark.entry_id if mark else None))
        await self._maintain(time.monotonic() + self._turn_end_seconds)

    def _missed(self, mark: Mark | None, running: int) -> tuple[Sequence[Message], BootstrapReason]:
        """Return what an engine with this mark has not been told, and what that makes this meeting."""
        record = self.transcript.record()
        past = record[: len(record) - running]
        if mark is None:
            return past, "import" if past else "new"
        if mark.session_id != self.session_id:
            return past, "continuation"
        if mark.entry_id is None:
            return past, "catch_up" if past else "resume"
        known = self.transcript.nearest_on_branch(mark.entry_id)
        missed: Sequence[Message] = self.transcript.record(after=known) if known is not None else record
        missed = missed[: max(0, len(missed) - running)]
        return missed, "catch_up" if missed else "resume"

    async def _hand_over(self, messages: Sequence[Message]) -> bool:
        """Tell the engine of past messages, in slices; return whether it took them all."""
        for start in range(0, len(messages), _SLICE_MESSAGES):
            part = messages[start : start + _SLICE_MESSAGES]
            taken = await self._ingest(part, is_heartbeat=False, until=None)
            if taken < len(part):
                return False
        return True

    # -- the end of a turn ------------------------------------------------------------------------

    async def _hand_over_turn(
        self,
        serving: Serving,
        size: int,
        is_heartbeat: bool,
        budget: int | None,
        until: float,
    ) -> int:
        record = self.transcript.record()
        turn = record[len(record) - size :]
        if serving.engine_id == LEGACY_ENGINE_ID:
            return 0
        if self._guard.implements("after_turn"):
            messages, before = self._with_turn(turn)
            answer = await self._guard.call(
                "after_turn",
                {
                    "session_id": self.session_id,
                    "session_key": self.key,
                    "session_file": str(self.transcript.path),
                    "messages": messages,
                    "pre_prompt_message_count": before,
                    "auto_compaction_summary": None,
                    "is_heartbeat": is_heartbeat,
                    "token_budget": budget,
                    "runtime_settings": self._runtime_settings(budget=budget, model=None),
                    "runtime_context": self._context(token_budget=budget, ended=True),
                },
                seconds=_remaining(until),
            )
            taken = len(turn) if answer.serving.substitution is None else 0
        else:
            taken = await self._ingest(turn, is_heartbeat=is_heartbeat, until=until)
        if taken:
            self._mark(serving.engine_id, turn[taken - 1].entry_id)
        return taken

    async def _ingest(self, messages: Sequence[Message], *, is_heartbeat: bool, until: float | None) -> int:
        """Hand messages over as a batch where the engine takes one, else one by one; return how many it took."""
        base = {"session_id": self.session_id, "session_key": self.key, "is_heartbeat": is_heartbeat}
        if not messages:
            return 0
        if self._guard.implements("ingest_batch"):
            arguments = {**base, "messages": messages}
            answer = await self._guard.call("ingest_batch", arguments, seconds=_remaining(until))
            return len(messages) if answer.serving.substitution is None else 0
        for index, message in enumerate(messages):
            answer = await self._guard.call("ingest", {**base, "message": message}, seconds=_remaining(until))
            if answer.serving.substitution is not None:
                _log.warning(
                    "handover.stopped", session=self.key, operation="ingest", message=index + 1, messages=len(messages)
                )
                return index
        return len(messages)

    def _with_turn(self, turn: Sequence[Message]) -> tuple[Sequence[Message], int]:
        """Return the context with the turn at its end, and where the turn begins."""
        history = self.transcript.history
        before = len(history) - len(turn)
        if before >= 0 and history[before:].entry_ids == [message.entry_id for message in turn]:
            return history, before
        # A compaction inside the turn has folded some of it: what was said still belongs to it.
        own = {message.entry_id for message in turn}
        prefix = [message for message in history if message.entry_id not in own]
        return (*prefix, *turn), len(prefix)

    async def _maintain(self, until: float) -> RewriteResult | None:
        if not self._guard.implements("maintain"):
            return None
        answer = await self._guard.call(
            "maintain",
            {
                "session_id": self.session_id,
                "session_key": self.key,
                "session_file": str(self.transcript.path),
                "runtime_settings": self._runtime_settings(budget=None, model=None),
                "runtime_context": self._context(ended=True),
                "abort_signal": AbortSignal(),
            },
            seconds=_remaining(until),
        )
        result: RewriteResult = answer.value
        return result

    def _mark(self, engine_id: str, entry_id: EntryId | None) -> None:
        self._handover.set(engine_id, Mark(self.session_id, entry_id))

    # -- compaction -------------------------------------------------------------------------------

    def _check_compaction(self, result: CompactResult) -> CompactResult:
        kept = result.result.first_kept_entry_id if result.result is not None else None
        if result.compacted and kept is not None and not self.transcript.has_entry(kept):
            raise InvalidResult("compact", "a first_kept_entry_id that is not on the active branch")
        return result

    def _write_compaction(self, result: CompactResult, boundary: EntryId | None, before: int) -> CompactResult:
        """Write what an engine summarised by itself; what the host compacted for it is written already."""
        made = result.result
        if not (result.ok and result.compacted and made is not None and made.summary):
            return result
        if self.transcript.boundary_id != boundary:
            return result
        kept = self._tokens_from(made.first_kept_entry_id)
        after = self._count(CompactionSummaryMessage(summary=made.summary)) + kept
        if after >= before:
            return CompactResult(ok=False, compacted=False, reason="the summary is not smaller than what it replaces")
        self.transcript.append_compaction(
            summary=made.summary,
            first_kept_entry_id=made.first_kept_entry_id,
            tokens_before=made.tokens_before or before,
            details=made.details,
        )
        return attrs.evolve(result, result=attrs.evolve(made, tokens_before=before, tokens_after=after))

    def _tokens_from(self, entry_id: EntryId | None) -> int:
        if entry_id is None:
            return 0
        tokens = 0
        for message in reversed(self.transcript.history):
            tokens += self._count(message)
            if message.entry_id == entry_id:
                break
        return tokens

    def _require_open(self) -> None:
        if self.key not in self._registered:
            name = f"Session {self.key!r}"
            raise SessionClosedError(name)

    # -- what every call is told ------------------------------------------------------------------

    def _runtime_settings(self, *, budget: int | None, model: str | None) -> RuntimeSettings:
        key = (budget, model)
        if self._settings is None or self._settings[0] != key:
            built = build_runtime_settings(
                self._descriptor,
                requested_model=model,
                resolved_model=model,
                selected_engine_id=self._asked,
                prompt_token_budget=budget,
            )
            self._settings = (key, built)
        return self._settings[1]

    def _context(
        self,
        *,
        token_budget: int | None = None,
        tokens: int | None = None,
        trigger: str | None = None,
        ended: bool = False,
    ) -> RuntimeContext:
        rewriting: Callable[..., Any] | None = None
        if ended:
            services, key = self._services, self.key
            rewriting = lambda replacements: services.rewrite(key, replacements)  # noqa: E731 -- bound to this session
        return RuntimeContext(
            cwd=str(self._workspace_dir),
            workspace_dir=str(self._workspace_dir),
            token_budget=token_budget,
            current_token_count=tokens,
            trigger=trigger,
            rewrite_transcript_entries=rewriting,
            complete=None if self._model is None else self._services.ask,
        )

    def _prompt(self, answer: Answer, system_prompt: str | None, *, overhead: int, budget: int | None) -> Prompt:
        result: AssembleResult
        checked: CheckedPrompt
        result, checked = answer.value
        addition = result.system_prompt_addition
        if addition:
            system_prompt = f"{addition}\n\n{system_prompt}" if system_prompt else addition
            overhead += self._count.prompt(addition)
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


def _prompt_of(history: History) -> str | None:
    last = history[-1] if history else None
    return last.text if isinstance(last, UserMessage) else None


def _remaining(until: float | None) -> float | None:
    return None if until is None else max(0.001, until - time.monotonic())
