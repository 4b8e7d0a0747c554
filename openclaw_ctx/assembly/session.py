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
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final, get_args

import attrs

from openclaw_ctx.contract import (
    JSON,
    AbortSignal,
    AssembleResult,
    CompactionSummaryMessage,
    CompactResult,
    Complete,
    EngineTool,
    EntryId,
    HostDescriptor,
    Message,
    SessionId,
    SessionKey,
    SystemMessage,
    UserMessage,
)
from openclaw_ctx.errors import SessionBusyError, SessionClosedError
from openclaw_ctx.host import Answer, CheckedPrompt, Guard, InvalidResult, check_prompt, require_host
from openclaw_ctx.log import get_logger
from openclaw_ctx.tokens import TokenCounter
from openclaw_ctx.transcript import History, Rotation, SessionInfo, SessionStore, Transcript, repair_messages

from .answers import CompactedContext, EndedTurn, Prompt
from .courier import Courier
from .facts import CallFacts
from .services import HostServices

__all__ = ["Session", "open_transcript"]

_log = get_logger()

_MESSAGES: Final = get_args(Message)

_LOCK_POLL_SECONDS: Final = 0.05


class Session:
    """
    A conversation that is open for writing. Made by :meth:`Host.session`.

    The host writes the transcript, always; an engine is told of it. What asks
    the engine queues behind each other on one session, and sessions run side by
    side; ``append`` never waits for an engine.

    ``transcript`` is for reading: what is to be in the record goes through
    :meth:`append`.
    """

    def __init__(
        self,
        key: SessionKey,
        transcript: Transcript,
        *,
        store: SessionStore,
        guard: Guard,
        count: TokenCounter,
        descriptor: HostDescriptor,
        workspace_dir: Path,
        services: HostServices,
        model: Complete | None,
        turn_end_seconds: float,
        asked: str,
        registered: "dict[SessionKey, Session]",
    ) -> None:
        self.key = key
        self.transcript = transcript
        self._store = store
        self._guard = guard
        self._count = count
        self._descriptor = descriptor
        self._registered = registered
        self._facts = CallFacts(
            key,
            transcript,
            descriptor=descriptor,
            workspace_dir=workspace_dir,
            services=services,
            model=model,
            asked=asked,
        )
        self._courier = Courier(
            key,
            transcript,
            guard=guard,
            facts=self._facts,
            descriptor=descriptor,
            turn_end_seconds=turn_end_seconds,
            running=lambda: self._running,
        )
        self._running = 0
        # What every prompt carries besides messages: the last assemble's, for calls that are not told.
        self._overhead = 0
        self._repaired: tuple[str, ...] = ()
        self._busy = asyncio.Lock()

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
        if not isinstance(message, _MESSAGES):
            problem = f"append takes a message, such as UserMessage(content='...'), not {type(message).__name__}"
            raise TypeError(problem)
        appended = self.transcript.append(message)
        self._running += 1
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
            prompt: The incoming user text, for retrieval; by default the last message's, where that is the user's.
            system_prompt: Your standing instructions.
            tools: JSON Schemas of the agent's tools, each with a ``name``.
            model: The model that will be asked.
            citations_mode: Passed on to the engine.

        Raises:
            HostIncompatibleError: The engine needs what this host cannot do.
            SubstitutionRefusedError: It cannot answer, and the policy is strict.
        """
        schemas = list(tools)
        overhead = self._overhead = self._count.prompt(system_prompt, schemas)
        token_budget = self._for_messages(budget)
        async with self._busy:
            self._require_open()
            await self._courier.introduce()
            history = self.transcript.history
            arguments = {
                **self._facts.names(),
                **self._facts.run(budget=token_budget, model=model),
                "messages": history,
                "token_budget": token_budget,
                "available_tools": frozenset(str(schema.get("name")) for schema in schemas),
                "citations_mode": citations_mode,
                "model": model,
                "prompt": _prompt_of(history) if prompt is None else prompt,
            }
            answer = await self._guard.call(
                "assemble",
                arguments,
                check=lambda result: (result, check_prompt(result, history, count=self._count)),
            )
        made = self._prompt(answer, system_prompt, overhead=overhead, budget=budget)
        self._store.note_tokens(self.key, made.estimated_tokens)
        self._tell_repairs(made)
        return made

    async def end_turn(self, *, is_heartbeat: bool = False, budget: int | None = None) -> EndedTurn:
        """
        Hand the finished turn over to the engine, and let it tidy up.

        All of it together takes at most ``deadlines.turnEnd`` seconds. The
        transcript is written already: nothing here can lose a message.

        Args:
            is_heartbeat: Whether no user asked for the turn.
            budget: As for :meth:`assemble`; an engine may compact ahead of it.
        """
        until = self._courier.deadline()
        async with self._busy:
            self._require_open()
            serving = await self._courier.introduce()
            size, self._running = self._running, 0
            handed = await self._courier.hand_over_turn(
                serving, size, is_heartbeat=is_heartbeat, budget=self._for_messages(budget), until=until
            )
            maintenance = await self._courier.maintain(until=until)
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
            budget: As for :meth:`assemble`: system prompt and tools of the last prompt come off it.
            force: Compact even where the engine sees no need.
            focus: What the summary should keep.
            trigger: ``manual``, ``budget`` or ``overflow``.
            abort: Stops it; the transcript is left whole.

        Raises:
            EngineFailedError: The engine failed; nothing has been changed, and
                the next call is answered by ``legacy``.
        """
        async with self._busy:
            self._require_open()
            serving = await self._courier.introduce()
            require_host(serving.info, "manual-compact", self._descriptor)
            boundary = self.transcript.boundary_id
            tokens = self._count.total(self.transcript.history)
            budget = self._for_messages(budget)
            arguments = {
                **self._facts.file(),
                **self._facts.run(budget=budget, tokens=tokens, trigger=trigger),
                "token_budget": budget,
                "force": force,
                "force_reason": "manual" if force and trigger == "manual" else None,
                "current_token_count": tokens,
                "compaction_target": "budget",
                "custom_instructions": focus,
            }
            answer = await self._guard.call("compact", arguments, abort=abort, check=self._check_compaction)
            result = self._write_compaction(answer.value, boundary, tokens)
            if result.compacted:
                await self._courier.maintain()
        return CompactedContext(
            result=result, engine=answer.serving.engine_id, substitution=answer.serving.substitution
        )

    async def rotate(self) -> Rotation:
        """
        Go on in a new transcript, without what the last compaction stands for.

        The old one stays as it is, and views of it stay readable. Entries keep
        their ids, so that the engine is told that the session goes on elsewhere,
        and nothing twice.

        Returns:
            Where the session goes on; ``rotated`` false, with the reason, where there is nothing to leave behind.

        Raises:
            OSError: It could not be written; the session goes on where it was.
        """
        async with self._busy:
            self._require_open()
            rotation = self._store.rotate(self.transcript)
            if rotation.rotated:
                self._courier.follow_rewrite()
        return rotation

    async def branch(self, entry_id: EntryId | None) -> None:
        """
        Go on from another entry of the transcript; what followed it stays there, and is not seen. ``None``: anew.

        Raises:
            EntryNotFoundError: There is no such entry.
        """
        async with self._busy:
            self._require_open()
            self.transcript.branch(entry_id)
            self._running = 0

    async def fork(self, new_key: str, *, at: EntryId | None = None) -> SessionInfo:
        """
        Make another session of what is here, or of the branch that ends at *at*; this one stays as it is.

        Raises:
            SessionExistsError: The new key is taken.
            EntryNotFoundError: There is no such entry.
        """
        self._require_open()
        # Of where this session is now, which need not be where its last line is.
        end = self.transcript.leaf_id if at is None else at
        return self._store.fork(self.key, SessionKey(new_key), at=end)

    async def label(self, entry_id: EntryId, label: str | None) -> None:
        """
        Give an entry a name to find it by; ``None`` takes it away.

        Raises:
            EntryNotFoundError: There is no such entry.
        """
        self._require_open()
        self.transcript.append_label(entry_id, label)

    async def rename(self, name: str) -> None:
        """Give the session a title; an empty one takes it away."""
        self._require_open()
        self.transcript.append_session_info(name=name)

    async def append_custom(self, custom_type: str, data: JSON = None) -> EntryId:
        """Write state of your own, which no model sees; return the entry's id."""
        self._require_open()
        return self.transcript.append_custom(custom_type, data)

    async def tools(self) -> Sequence[EngineTool]:
        """Return what the engine offers the agent to call."""
        async with self._busy:
            self._require_open()
            await self._courier.introduce()
            answer = await self._guard.call("tools", {"session_key": self.key})
        return tuple(answer.value)

    async def close(self) -> None:
        """
        Let go of the transcript, behind whatever the engine is still asked.

        A turn that was not ended is handed over when the session is opened again.
        """
        async with self._busy:
            if self._is_open():
                del self._registered[self.key]
                self.transcript.close()

    def follow_rewrite(self) -> None:
        """Note that entries have been written anew."""
        self._courier.follow_rewrite()

    def _for_messages(self, budget: int | None) -> int | None:
        if budget is not None and (type(budget) is not int or budget < 1):
            problem = f"a budget is a whole number of tokens, at least 1, or None; not {budget!r}"
            raise ValueError(problem)
        return None if budget is None else max(1, budget - self._overhead)

    def _is_open(self) -> bool:
        # The same key may have been opened again since.
        return self._registered.get(self.key) is self

    def _require_open(self) -> None:
        if not self._is_open():
            name = f"Session {self.key!r}"
            raise SessionClosedError(name)

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

    def _tell_repairs(self, prompt: Prompt) -> None:
        # A hole in the history is mended at every prompt, and told once.
        if prompt.repairs != self._repaired:
            self._repaired = prompt.repairs
            if prompt.repairs:
                _log.info("prompt.repaired", session=self.key, engine=prompt.engine, repairs=list(prompt.repairs))

    def _check_compaction(self, result: CompactResult) -> CompactResult:
        made = result.result
        kept = made.first_kept_entry_id if made is not None else None
        if made is not None and (made.session_id or made.session_file):
            raise InvalidResult("compact", "a successor transcript, and this host goes on in the one it has")
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
        after = self._count.total(self._context_after(made.summary, made.first_kept_entry_id))
        if after >= before:
            reason = "the summary is not smaller than what it replaces"
            return CompactResult(ok=False, compacted=False, reason=reason)
        self.transcript.append_compaction(
            summary=made.summary,
            first_kept_entry_id=made.first_kept_entry_id,
            tokens_before=made.tokens_before or before,
            details=made.details,
        )
        return attrs.evolve(result, result=attrs.evolve(made, tokens_before=before, tokens_after=after))

    def _context_after(self, summary: str, kept_from: EntryId | None) -> Sequence[Message]:
        """Return what a prompt would hold behind a compaction, repaired as a prompt is."""
        history = self.transcript.history
        kept: list[Message] = []
        for message in reversed(history) if kept_from is not None else ():
            kept.append(message)
            if message.entry_id == kept_from:
                break
        opening = takewhile(lambda message: isinstance(message, SystemMessage), history[: len(history) - len(kept)])
        made = CompactionSummaryMessage(summary=summary)
        return repair_messages((*opening, made, *reversed(kept))).messages


async def open_transcript(store: SessionStore, key: SessionKey, *, timeout_seconds: float, cwd: str) -> Transcript:
    """
    Open a session's transcript, waiting for its other writer without blocking the loop.

    Raises:
        SessionBusyError: The other writer did not let go in time.
    """
    began = time.monotonic()
    transcript: Transcript | None = None
    while transcript is None:
        try:
            transcript = store.open(key, cwd=cwd)
        except SessionBusyError as error:
            if time.monotonic() - began >= timeout_seconds:
                raise SessionBusyError(error.path, error.holder, timeout_seconds) from None
            await asyncio.sleep(_LOCK_POLL_SECONDS)
    for warning in transcript.take_warnings():
        _log.warning("transcript.questioned", session=key, path=str(transcript.path), reason=warning)
    return transcript


def _prompt_of(history: History) -> str | None:
    last = history[-1] if history else None
    return last.text if isinstance(last, UserMessage) else None
