"""
Sessions that others have sent off, from the moment that the engine gets ready for one until it has let go of it.

What a child says and reads is its own: its parent sees of it what the program puts there.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

import attrs

from openclaw_ctx.contract import (
    AssistantMessage,
    EntryId,
    HostDescriptor,
    Message,
    SessionKey,
    SubagentEnd,
    SubagentPreparation,
    ToolResultMessage,
)
from openclaw_ctx.errors import EngineFailedError, SessionClosedError, SessionNotFoundError
from openclaw_ctx.host import Guard, require_host
from openclaw_ctx.log import describe_error, get_logger
from openclaw_ctx.transcript import SessionInfo, SessionStore, Transcript

from .core import SessionCore

__all__ = ["ContextMode", "Spawned", "Subagents"]

_log = get_logger()

ContextMode: TypeAlias = Literal["isolated", "fork"]


@attrs.frozen(kw_only=True, eq=False)
class Spawned:
    """
    A session that was sent off.

    Attributes:
        context_mode: What it began with: ``isolated`` too where a fork was asked for and would have been too large.
        note: Why it is not what was asked for.
    """

    core: SessionCore
    parent_key: SessionKey
    context_mode: ContextMode
    note: str | None
    timer: asyncio.TimerHandle | None = None


class Subagents:
    """
    The children of one host's sessions.

    Args:
        open_core: Opens a session.
        fork_max_tokens: What a fork may begin with; 0: whatever there is.
    """

    def __init__(
        self,
        *,
        guard: Guard,
        store: SessionStore,
        descriptor: HostDescriptor,
        count: Callable[[Message], int],
        open_core: Callable[[SessionKey], Awaitable[SessionCore]],
        fork_max_tokens: int,
    ) -> None:
        self._guard = guard
        self._store = store
        self._descriptor = descriptor
        self._count = count
        self._open_core = open_core
        self._fork_max_tokens = fork_max_tokens
        self._children: dict[SessionKey, Spawned] = {}
        self._ending: dict[SessionKey, SubagentEnd] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._telling: set[asyncio.Task[None]] = set()

    async def spawn(
        self, parent: SessionCore, *, context_mode: ContextMode, agent_id: str | None, ttl_seconds: float | None
    ) -> Spawned:
        """
        Send a session off; see :meth:`Session.spawn`.

        Whatever fails, the child is gone, and what the engine had got ready is taken back.
        """
        parent.require_open()
        key = _child_key(parent.key, agent_id)
        require_host((await parent.serving()).info, "subagent-spawn", self._descriptor)
        forked, note = self._fork(parent, key) if context_mode == "fork" else (None, None)
        preparation: SubagentPreparation | None = None
        try:
            preparation = await self._prepare(parent, key, forked, ttl_seconds)
            parent.require_open()  # else nobody is left to let go of the child
            core = await self._open_core(key)
        except BaseException as error:
            await asyncio.shield(self._take_back(parent, key, preparation, forked, error))
            raise
        timer = None
        if ttl_seconds is not None:
            timer = asyncio.get_running_loop().call_later(ttl_seconds, self._sweep, key)
        child = Spawned(
            core=core,
            parent_key=parent.key,
            context_mode="isolated" if forked is None else "fork",
            note=note,
            timer=timer,
        )
        self._children[key] = child
        return child

    async def end(self, key: SessionKey, reason: SubagentEnd) -> None:
        """
        Close a child and its children, and have the engine told. Does nothing the second time.

        A caller that gives up waiting leaves a child that ends all the same.
        """
        task = self._begin_to_end(key, reason)
        if task is not None:
            await asyncio.shield(task)

    async def release_children(self, parent_key: SessionKey) -> None:
        """Let go of what a session has sent off and not ended."""
        for key in [key for key, child in self._children.items() if child.parent_key == parent_key]:
            await self.end(key, "released")

    async def close(self) -> None:
        """
        Have the engine told of all that is left, and return when it knows.

        What is just ending may wait for calls that are under way: see :meth:`settle`.
        """
        children, self._children = self._children, {}
        for key, child in children.items():
            if child.timer is not None:
                child.timer.cancel()
            self._tell_behind(child, self._ending.get(key, "released"))
        if self._telling:
            await asyncio.wait(set(self._telling))

    async def settle(self) -> None:
        """Return once everything that was about to end has ended."""
        if self._endings:
            await asyncio.wait(set(self._endings))

    def _begin_to_end(self, key: SessionKey, reason: SubagentEnd) -> "asyncio.Task[None] | None":
        child = self._children.get(key)
        if child is None or key in self._ending:
            return None
        if child.timer is not None:
            child.timer.cancel()
        self._ending[key] = reason
        task = asyncio.ensure_future(self._end(child, reason))
        _follow(task, self._endings)
        return task

    async def _end(self, child: Spawned, reason: SubagentEnd) -> None:
        key = child.core.key
        if reason != "completed":
            child.core.stop(f"the subagent was {reason}")
        try:
            await child.core.close()
            await self.release_children(key)
            if reason == "deleted":
                with contextlib.suppress(SessionNotFoundError):  # nothing was said in it
                    self._store.archive(key, "deleted")
        finally:
            del self._ending[key]
            if self._children.pop(key, None) is not None:  # else the host has closed, and told the engine
                self._tell_behind(child, reason)

    def _sweep(self, key: SessionKey) -> None:
        self._begin_to_end(key, "swept")

    async def _prepare(
        self, parent: SessionCore, key: SessionKey, forked: SessionInfo | None, ttl_seconds: float | None
    ) -> SubagentPreparation | None:
        arguments = {
            "parent_session_key": parent.key,
            "child_session_key": key,
            "context_mode": "isolated" if forked is None else "fork",
            "parent_session_id": None if forked is None else parent.transcript.session_id,
            "parent_session_file": None if forked is None else str(parent.transcript.path),
            "child_session_id": None if forked is None else forked.session_id,
            "child_session_file": None if forked is None else str(forked.path),
            "ttl_ms": None if ttl_seconds is None else round(ttl_seconds * 1_000),
            **parent.facts.run(),
        }
        answer = await self._guard.call("prepare_subagent_spawn", arguments)
        prepared: SubagentPreparation | None = answer.value
        return prepared

    def _fork(self, parent: SessionCore, key: SessionKey) -> tuple[SessionInfo | None, str | None]:
        """Return the child's transcript with its parent's context in it; or why it has none."""
        history = parent.transcript.history
        end = _without_open_calls(history)
        if not end:
            return None, "there is nothing to fork yet: it began isolated"
        if self._fork_max_tokens:
            tokens = 0
            for message in reversed(history[:end]):
                tokens += self._count(message)
                if tokens > self._fork_max_tokens:
                    limit = f"{self._fork_max_tokens:,} tokens (session.parentForkMaxTokens)"
                    return None, f"the context to fork is larger than {limit}: it began isolated"
        at = parent.transcript.leaf_id if end == len(history) else _before(parent.transcript, history[end])
        if at is None:
            return None, "the context was compacted while calls were running: it began isolated"
        return self._store.fork(parent.key, key, at=at), None

    async def _take_back(
        self,
        parent: SessionCore,
        key: SessionKey,
        preparation: SubagentPreparation | None,
        forked: SessionInfo | None,
        error: BaseException,
    ) -> None:
        """Undo a spawn that failed; what fails here is noted, for the caller is to see why the spawn did."""
        if preparation is not None:
            try:
                await preparation.rollback()
            except EngineFailedError as failed:
                _log.warning("subagent.rollback_failed", session=key, reason=describe_error(failed))
        elif isinstance(error, asyncio.CancelledError):
            # It was given up while the engine was at it, which may have got as far as to keep something.
            _follow(asyncio.ensure_future(self._tell(parent, key, "released")), self._telling)
        if forked is not None:
            try:
                self._store.remove(self._store.archive(key, "deleted").name)
            except Exception as failed:  # noqa: BLE001 -- a store may be anybody's, and the spawn's error is what counts
                _log.warning("subagent.rollback_failed", session=key, reason=describe_error(failed))

    def _tell_behind(self, child: Spawned, reason: SubagentEnd) -> None:
        _follow(asyncio.ensure_future(self._tell(child.core, child.core.key, reason)), self._telling)

    async def _tell(self, whose: SessionCore, key: SessionKey, reason: SubagentEnd) -> None:
        arguments = {"child_session_key": key, "reason": reason, **whose.facts.run()}
        try:
            await self._guard.call("on_subagent_ended", arguments)
        except (EngineFailedError, SessionClosedError) as error:
            _log.warning("subagent.untold", session=key, reason=describe_error(error))


def _follow(task: "asyncio.Task[None]", among: "set[asyncio.Task[None]]") -> None:
    among.add(task)
    task.add_done_callback(among.discard)


def _child_key(parent_key: SessionKey, agent_id: str | None) -> SessionKey:
    words = parent_key.split(":")
    own = words[1] if words[0] == "agent" and len(words) > 2 else "main"  # noqa: PLR2004 -- agent:<id>:<the rest>
    return SessionKey(f"agent:{agent_id or own}:subagent:{uuid.uuid4()}")


def _before(transcript: Transcript, message: Message) -> EntryId | None:
    """
    Return what stands on record before *message*, which may be a compaction; ``None`` where there is one behind it.

    Without it a fork would have all that it stands for.
    """
    entry_id = message.entry_id
    if entry_id is None or entry_id not in transcript.record(after=transcript.boundary_id).entry_ids:
        return None
    return transcript.parent_on_branch(entry_id)


def _without_open_calls(history: Sequence[Message]) -> int:
    """Return how many messages there are before the round whose tools are running, if they are."""
    answered: set[str] = set()
    for index in range(len(history) - 1, -1, -1):
        message = history[index]
        if isinstance(message, ToolResultMessage):
            answered.add(message.tool_call_id)
            continue
        if isinstance(message, AssistantMessage) and not answered.issuperset(call.id for call in message.tool_calls):
            return index
        break
    return len(history)
