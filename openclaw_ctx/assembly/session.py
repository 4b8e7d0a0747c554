"""
One conversation: its transcript, and the engine that serves it.

Bring a model, and let the host run the turns::

    answer = await session.run("...", model=model, tools=[...])

Or bring your own loop::

    await session.append(UserMessage(content="..."))
    prompt = await session.assemble(budget=8_000)
    ...                                    # ask a model with prompt.messages
    await session.append(AssistantMessage(...))
    await session.end_turn()
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, get_args

from openclaw_ctx.contract import (
    JSON,
    AbortSignal,
    EngineTool,
    EntryId,
    Message,
    SessionId,
    SessionKey,
    SubagentEnd,
    UserMessage,
)
from openclaw_ctx.models import Model
from openclaw_ctx.runtime import CompactedContext, EndedTurn, Prompt, TurnEvent, TurnResult
from openclaw_ctx.transcript import History, Rotation, SessionInfo, Transcript

from .core import SessionCore
from .opening import Opening
from .running import run_turn
from .subagents import ContextMode, Spawned, Subagents

__all__ = ["Session", "Subagent"]

_MESSAGES: Final = get_args(Message)


class Session:
    """
    A conversation that is open for writing. Made by :meth:`Host.session`.

    The host writes the transcript, always; an engine is told of it. Turns of one
    session queue behind each other, as does what asks the engine, and sessions
    run side by side; ``append`` never waits for an engine.

    ``transcript`` is for reading: what is to be in the record goes through
    :meth:`append`.
    """

    def __init__(self, core: SessionCore, subagents: Subagents) -> None:
        self.key: SessionKey = core.key
        self.transcript: Transcript = core.transcript
        self._core = core
        self._subagents = subagents

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
        self._core.require_open()
        if not isinstance(message, _MESSAGES):
            problem = f"append takes a message, such as UserMessage(content='...'), not {type(message).__name__}"
            raise TypeError(problem)
        return self._core.append(message)

    async def run(
        self,
        message: str | UserMessage | None,
        *,
        model: Model | None = None,
        model_name: str | None = None,
        context_window: int | None = None,
        system_prompt: str | None = None,
        tools: Sequence[EngineTool] = (),
        max_tokens: int | None = None,
        is_heartbeat: bool = False,
        citations_mode: str | None = None,
        on_event: Callable[[TurnEvent], None] | None = None,
        abort: AbortSignal | None = None,
    ) -> TurnResult:
        """
        Run one turn: append *message*, ask the model until it answers, run the tools that it calls.

        Returns once the answer is in the transcript. The engine is told of the turn
        behind that, within ``deadlines.turnEnd``; the next turn waits for it, and
        :meth:`settle` does. A turn that is cancelled, aborted or fails leaves what was
        said in the transcript: ``run(None)`` goes on from there.

        Args:
            message: What the user says; ``None`` answers what is unanswered.
            model: Who is asked; the host's by default.
            model_name: The provider's name of the model; the client's own by default.
            context_window: Tokens that the model takes; by default what the configuration
                says of it, else 200,000.
            system_prompt: Your standing instructions.
            tools: What the model may call, beside what the engine offers.
            max_tokens: Bounds each answer.
            is_heartbeat: Whether no user asked for the turn.
            citations_mode: Passed on to the engine.
            on_event: Told of what happens, as it happens, on the host's loop.
            abort: Stops the turn when it fires.

        Raises:
            TurnBlockedError: The conversation does not fit the model, whatever was tried.
            ModelError: The model gave no answer; see the class.
            HostIncompatibleError: The engine needs what this host cannot do; nothing was written.
            AbortError: *abort* has fired; or the very exception that it was fired with.
        """
        if self._core.runs_here:
            problem = "a turn of this session is running here: a tool cannot run another one on it"
            raise RuntimeError(problem)
        async with self._core.turn():
            result = await run_turn(
                self._core,
                message,
                model=model,
                model_name=model_name,
                context_window=context_window,
                system_prompt=system_prompt,
                tools=tools,
                max_tokens=max_tokens,
                is_heartbeat=is_heartbeat,
                citations_mode=citations_mode,
                on_event=on_event or (lambda _: None),
                abort=abort,
            )
            self._core.finish_behind(is_heartbeat=is_heartbeat, summary=result.summary)
        return result

    async def settle(self) -> None:
        """Return once the work behind the last turn is done: hand-over and maintenance."""
        await self._core.settle()

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
        return await self._core.assemble(
            budget=budget,
            prompt=prompt,
            system_prompt=system_prompt,
            tools=tools,
            model=model,
            citations_mode=citations_mode,
        )

    async def end_turn(self, *, is_heartbeat: bool = False, budget: int | None = None) -> EndedTurn:
        """
        Hand the finished turn over to the engine, and let it tidy up.

        All of it together takes at most ``deadlines.turnEnd`` seconds. The
        transcript is written already: nothing here can lose a message.

        Args:
            is_heartbeat: Whether no user asked for the turn.
            budget: As for :meth:`assemble`; an engine may compact ahead of it.
        """
        return await self._core.end_turn(is_heartbeat=is_heartbeat, budget=budget)

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
        Make the context smaller, behind the turn that is running.

        Args:
            budget: As for :meth:`assemble`: system prompt and tools of the last prompt come off it.
            force: Compact even where the engine sees no need.
            focus: What the summary should keep.
            trigger: ``manual``, ``budget``, ``overflow`` or ``timeout_recovery``.
            abort: Stops it; the transcript is left whole.

        Raises:
            EngineFailedError: The engine failed; nothing has been changed, and
                the next call is answered by ``legacy``.
        """
        async with self._core.between_turns():
            return await self._core.compact(budget=budget, force=force, focus=focus, trigger=trigger, abort=abort)

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
        return await self._core.rotate()

    async def branch(self, entry_id: EntryId | None) -> None:
        """
        Go on from another entry of the transcript; what followed it stays there, and is not seen. ``None``: anew.

        Raises:
            EntryNotFoundError: There is no such entry.
        """
        await self._core.branch(entry_id)

    async def fork(self, new_key: str, *, at: EntryId | None = None) -> SessionInfo:
        """
        Make another session of what is here, or of the branch that ends at *at*; this one stays as it is.

        Raises:
            SessionExistsError: The new key is taken.
            EntryNotFoundError: There is no such entry.
        """
        self._core.require_open()
        # Of where this session is now, which need not be where its last line is.
        end = self.transcript.leaf_id if at is None else at
        return self._core.wiring.store.fork(self.key, SessionKey(new_key), at=end)

    def spawn(
        self, *, context_mode: ContextMode = "isolated", agent_id: str | None = None, ttl_seconds: float | None = None
    ) -> "Opening[Subagent]":
        """
        Send off another session, to do a part of the work by itself: ``async with session.spawn() as child:``.

        It can be used inside a tool of this session's turn. What the child says stays
        in its own transcript; return to the model, or append, what is to be known of it here.

        Args:
            context_mode: ``isolated``, or ``fork``: it begins with what this session's model sees, up to
                ``session.parentForkMaxTokens``; where that is more, it begins isolated and says so in ``note``.
            agent_id: The agent of its key, where it is isolated; this session's by default.
            ttl_seconds: After these its turn is stopped, and it ends as ``swept``.

        Raises:
            EngineFailedError: The engine could not get ready for it; there is no child.
            HostIncompatibleError: The engine needs what this host cannot do.
        """
        if context_mode not in get_args(ContextMode):
            problem = f"context_mode is 'isolated' or 'fork', not {context_mode!r}"
            raise ValueError(problem)
        if ttl_seconds is not None and not 0 < ttl_seconds < math.inf:
            problem = f"ttl_seconds is a number above 0, or None where there is no end; not {ttl_seconds!r}"
            raise ValueError(problem)
        if agent_id is not None and (context_mode == "fork" or not agent_id or ":" in agent_id):
            problem = f"agent_id is a name without a colon, and a fork stays with its parent's: {agent_id!r}"
            raise ValueError(problem)

        async def spawned() -> Subagent:
            child = await self._subagents.spawn(
                self._core, context_mode=context_mode, agent_id=agent_id, ttl_seconds=ttl_seconds
            )
            return Subagent(child, self._subagents)

        return _Spawning(spawned)

    async def label(self, entry_id: EntryId, label: str | None) -> None:
        """
        Give an entry a name to find it by; ``None`` takes it away.

        Raises:
            EntryNotFoundError: There is no such entry.
        """
        self._core.require_open()
        self.transcript.append_label(entry_id, label)

    async def rename(self, name: str) -> None:
        """Give the session a title; an empty one takes it away."""
        self._core.require_open()
        self.transcript.append_session_info(name=name)

    async def append_custom(self, custom_type: str, data: JSON = None) -> EntryId:
        """Write state of your own, which no model sees; return the entry's id."""
        self._core.require_open()
        return self.transcript.append_custom(custom_type, data)

    async def tools(self) -> Sequence[EngineTool]:
        """Return what the engine offers the agent to call."""
        return await self._core.tools()

    async def close(self) -> None:
        """
        Let go of the transcript, behind the turn that is running and whatever the engine is still asked.

        A turn that was not ended is handed over when the session is opened again.
        What it has sent off is let go of.
        """
        await self._core.close()
        await self._subagents.release_children(self.key)


class Subagent(Session):
    """
    A session that another one has sent off. Made by :meth:`Session.spawn`.

    Attributes:
        parent_key: Who sent it.
        context_mode: What it began with: ``isolated`` too where a fork was asked for and there was none to make.
        note: Why it is not what was asked for.
    """

    def __init__(self, spawned: Spawned, subagents: Subagents) -> None:
        super().__init__(spawned.core, subagents)
        self.parent_key: SessionKey = spawned.parent_key
        self.context_mode: ContextMode = spawned.context_mode
        self.note: str | None = spawned.note

    async def end(self, reason: SubagentEnd = "completed") -> None:
        """
        Close it, behind its running turn, and have the engine told why; does nothing the second time.

        Args:
            reason: ``completed``, or one that stops a running turn: ``released``, ``swept``, or ``deleted``,
                which puts the transcript aside too.
        """
        await self._subagents.end(self.key, reason)

    async def close(self) -> None:
        """Let go of it, whether or not its work is done."""
        await self.end("released")


class _Spawning(Opening[Subagent]):
    """A subagent about to be sent off; leaving the block ends it."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.end("completed" if kind is None else "released")
