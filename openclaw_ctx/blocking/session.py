"""One conversation, by plain calls."""

import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import attrs

from openclaw_ctx import assembly, contract
from openclaw_ctx.assembly import ContextMode
from openclaw_ctx.contract import JSON, AbortSignal, EntryId, Message, SessionId, SessionKey, SubagentEnd, UserMessage
from openclaw_ctx.errors import SessionClosedError
from openclaw_ctx.models import Model
from openclaw_ctx.runtime import CompactedContext, EndedTurn, Prompt, TurnEvent, TurnResult
from openclaw_ctx.transcript import History, Rotation, SessionInfo, Transcript

from .thread import LoopThread

__all__ = ["EngineTool", "Session", "Subagent"]

_T = TypeVar("_T")


@attrs.frozen(kw_only=True)
class EngineTool:
    """A tool that the engine offers the agent: as ``openclaw_ctx.EngineTool``, and ``call`` returns the text itself."""

    name: str
    description: str
    parameters: Mapping[str, JSON]
    call: Callable[[Mapping[str, JSON]], str]


class Session:
    """
    A conversation that is open for writing. Made by :meth:`Host.session`.

    What a method does is in the documentation of its namesake in ``openclaw_ctx.Session``.
    """

    def __init__(self, host: object, thread: LoopThread, session: assembly.Session) -> None:
        self.key: SessionKey = session.key
        self._host = host  # kept, so that it is not garbage while somebody holds a session of it
        self._thread = thread
        self._session = session
        self._name = f"Session {session.key!r}"

    @property
    def transcript(self) -> Transcript:
        """The record, for reading: what is to be in it goes through :meth:`append`."""
        return self._session.transcript

    @property
    def session_id(self) -> SessionId:
        """Names the transcript."""
        return self._session.session_id

    @property
    def history(self) -> History:
        """The context as it stands: the last summary and what follows it."""
        return self._session.history

    def append(self, message: Message) -> Message:
        """Write *message* to the transcript; return it with its entry id. It survives a crash from here on."""
        return self._run_at_once(lambda: self._session.append(message))

    def run(
        self,
        message: str | UserMessage | None,
        *,
        model: Model | None = None,
        model_name: str | None = None,
        context_window: int | None = None,
        system_prompt: str | None = None,
        tools: Sequence[contract.EngineTool] = (),
        max_tokens: int | None = None,
        is_heartbeat: bool = False,
        citations_mode: str | None = None,
        on_event: Callable[[TurnEvent], None] | None = None,
        abort: AbortSignal | None = None,
    ) -> TurnResult:
        """Run one turn: append *message*, ask the model until it answers; *on_event* is called in the host's thread."""
        return self._run(
            lambda: self._session.run(
                message,
                model=model,
                model_name=model_name,
                context_window=context_window,
                system_prompt=system_prompt,
                tools=tools,
                max_tokens=max_tokens,
                is_heartbeat=is_heartbeat,
                citations_mode=citations_mode,
                on_event=on_event,
                abort=abort,
            )
        )

    def settle(self) -> None:
        """Return once the work behind the last turn is done: hand-over and maintenance."""
        self._run(self._session.settle)

    def assemble(
        self,
        *,
        budget: int | None = None,
        prompt: str | None = None,
        system_prompt: str | None = None,
        tools: Iterable[Mapping[str, JSON]] = (),
        model: str | None = None,
        citations_mode: str | None = None,
    ) -> Prompt:
        """Return what the model should see now, within *budget* tokens if the engine can."""
        return self._run(
            lambda: self._session.assemble(
                budget=budget,
                prompt=prompt,
                system_prompt=system_prompt,
                tools=tools,
                model=model,
                citations_mode=citations_mode,
            )
        )

    def end_turn(self, *, is_heartbeat: bool = False, budget: int | None = None) -> EndedTurn:
        """Hand the finished turn over to the engine, and let it tidy up; at most ``deadlines.turnEnd`` seconds."""
        return self._run(lambda: self._session.end_turn(is_heartbeat=is_heartbeat, budget=budget))

    def compact(
        self,
        *,
        budget: int | None = None,
        force: bool = True,
        focus: str | None = None,
        trigger: str = "manual",
        abort: AbortSignal | None = None,
    ) -> CompactedContext:
        """Make the context smaller. *abort*, fired from another thread, stops it; the transcript is left whole."""
        return self._run(
            lambda: self._session.compact(budget=budget, force=force, focus=focus, trigger=trigger, abort=abort)
        )

    def rotate(self) -> Rotation:
        """Go on in a new transcript, without what the last compaction stands for; the old one stays as it is."""
        return self._run(self._session.rotate)

    def branch(self, entry_id: EntryId | None) -> None:
        """Go on from another entry of the transcript; what followed it stays there, and is not seen. ``None``: anew."""
        self._run(lambda: self._session.branch(entry_id))

    def fork(self, new_key: str, *, at: EntryId | None = None) -> SessionInfo:
        """Make another session of what is here, up to and with the entry *at*; this one stays as it is."""
        return self._run_at_once(lambda: self._session.fork(new_key, at=at))

    def spawn(
        self, *, context_mode: ContextMode = "isolated", agent_id: str | None = None, ttl_seconds: float | None = None
    ) -> "Subagent":
        """Send off another session, to do a part of the work by itself; leaving its ``with`` block ends it."""
        spawned = self._run(
            lambda: self._session.spawn(context_mode=context_mode, agent_id=agent_id, ttl_seconds=ttl_seconds)
        )
        return Subagent(self._host, self._thread, spawned)

    def label(self, entry_id: EntryId, label: str | None) -> None:
        """Give an entry a name to find it by; ``None`` takes it away."""
        self._run_at_once(lambda: self._session.label(entry_id, label))

    def rename(self, name: str) -> None:
        """Give the session a title; an empty one takes it away."""
        self._run_at_once(lambda: self._session.rename(name))

    def append_custom(self, custom_type: str, data: JSON = None) -> EntryId:
        """Write state of your own, which no model sees; return the entry's id."""
        return self._run_at_once(lambda: self._session.append_custom(custom_type, data))

    def tools(self) -> Sequence[EngineTool]:
        """Return what the engine offers the agent to call. Calling one blocks, within ``deadlines.tools``."""
        return tuple(map(self._plain_tool, self._run(self._session.tools)))

    def close(self) -> None:
        """Let go of the transcript, behind whatever the engine is still asked. Does nothing the second time."""
        if not self._thread.is_over:
            with contextlib.suppress(SessionClosedError):  # the host was closed meanwhile, and this with it
                self._run(self._session.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _plain_tool(self, tool: contract.EngineTool) -> EngineTool:
        def call(arguments: Mapping[str, JSON]) -> str:
            return self._run(lambda: tool.call(arguments))

        return EngineTool(name=tool.name, description=tool.description, parameters=tool.parameters, call=call)

    def _run(self, work: Callable[[], Awaitable[_T]]) -> _T:
        return self._thread.run(work, self._name)

    def _run_at_once(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        return self._thread.run_at_once(work, self._name)


class Subagent(Session):
    """A session that another one has sent off. Made by :meth:`Session.spawn`."""

    def __init__(self, host: object, thread: LoopThread, session: assembly.Subagent) -> None:
        super().__init__(host, thread, session)
        self.parent_key: SessionKey = session.parent_key
        self.context_mode: ContextMode = session.context_mode
        self.note: str | None = session.note
        self._subagent = session

    def end(self, reason: SubagentEnd = "completed") -> None:
        """Close it, behind its running turn, and have the engine told why; does nothing the second time."""
        if not self._thread.is_over:
            with contextlib.suppress(SessionClosedError):  # the host was closed meanwhile, and this with it
                self._run(lambda: self._subagent.end(reason))

    def close(self) -> None:
        """Let go of it, whether or not its work is done."""
        self.end("released")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end("completed" if kind is None else "released")
