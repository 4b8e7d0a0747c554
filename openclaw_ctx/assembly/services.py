"""
What a host does for its engines, as handles that may be called from an engine's lane.

What changes something or costs money asks for a permit, on the host's loop and
right before the work: an engine that was let go, or a call that was given up, is
refused however late it asks. Reading is never refused.
"""

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import attrs

from openclaw_ctx.compaction import CompactionPolicy, compact_transcript
from openclaw_ctx.contract import (
    AbortSignal,
    CompactResult,
    Complete,
    CompletionRequest,
    CompletionResult,
    EntryId,
    Message,
    Progress,
    Replacement,
    RewriteResult,
    Services,
    SessionKey,
)
from openclaw_ctx.errors import ModelUnavailableError, SessionClosedError
from openclaw_ctx.host import Life, Permit, Runner, acting_permit
from openclaw_ctx.log import describe_error
from openclaw_ctx.tokens import TokenCounter
from openclaw_ctx.transcript import Transcript
from openclaw_ctx.transcript import rewrite as rewrite_entries

from .notices import CompactionNotice, CompactionNotices, notice_of

__all__ = ["BackgroundJob", "HostServices"]

_T = TypeVar("_T")


@attrs.frozen(kw_only=True, eq=False)
class BackgroundJob:
    """A job that an engine runs behind its hooks; ``progress()`` is 0 to 1, or ``None`` where it cannot tell."""

    engine_id: str
    name: str
    progress: Progress


class HostServices:
    """The services of one host; :meth:`for_engine` binds them to an engine and its lane."""

    def __init__(
        self,
        *,
        transcript_of: Callable[[SessionKey], Transcript | None],
        count: TokenCounter,
        complete: Complete | None,
        summarize: Complete | None,
        compaction: CompactionPolicy,
        notices: CompactionNotices,
        ended: Callable[[Runner, BaseException | None, str], None],
        rewritten: Callable[[SessionKey], None],
    ) -> None:
        self._here = asyncio.get_running_loop()
        self._transcript_of = transcript_of
        self.count = count
        self._complete = complete
        self._summarize = summarize
        self._compaction = compaction
        self._notices = notices
        self.triggers: dict[SessionKey, str] = {}
        self._ended = ended
        self._rewritten = rewritten
        self.jobs: list[BackgroundJob] = []

    def for_engine(self, engine_id: str, lane: Runner) -> Services:
        """Return the handles for one engine."""
        life = lane.life

        def background(job: Coroutine[Any, Any, object], *, name: str, progress: Progress | None = None) -> None:
            if not inspect.iscoroutine(job):
                problem = f"background takes a coroutine, such as self.build_index(), not {type(job).__name__}"
                raise TypeError(problem)
            try:
                life.permit().require()
            except SessionClosedError:
                job.close()
                raise
            running = BackgroundJob(engine_id=engine_id, name=name, progress=progress or (lambda: None))
            self.jobs.append(running)

            def done(error: BaseException | None) -> None:
                if not isinstance(error, asyncio.CancelledError):
                    reason = "" if error is None else describe_error(error)
                    with contextlib.suppress(RuntimeError):  # the host's loop has ended
                        self._here.call_soon_threadsafe(self._ended, lane, error, reason)
                self.jobs.remove(running)

            lane.background(job, done)

        return Services(
            transcript=_Reader(self),
            delegate_compaction=_Delegate(self, life),
            complete=lambda request: self.ask(request, life.permit()),
            estimate_tokens=self.count,
            rewrite_transcript_entries=lambda key, replacements: self.rewrite(key, replacements, life.permit()),
            background=background,
        )

    async def cross(self, work: Callable[[], Coroutine[Any, Any, _T]], permit: Permit | None = None) -> _T:
        """
        Run *work* on the host's loop, wherever this is called; await it here.

        Raises:
            SessionClosedError: *permit* has been taken away, if only on the way.
        """

        async def permitted() -> _T:
            if permit is not None:
                permit.require()
            return await work()

        if asyncio.get_running_loop() is self._here:
            return await permitted()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(permitted(), self._here))

    def transcript(self, session_key: SessionKey) -> Transcript:
        """Return the open transcript of a session."""
        found = self._transcript_of(session_key)
        if found is None:
            name = f"Session {session_key!r}"
            raise SessionClosedError(name)
        return found

    async def ask(self, request: CompletionRequest, permit: Permit) -> CompletionResult:
        """Ask the host's model."""
        complete = self._complete
        if complete is None:
            raise ModelUnavailableError

        async def ask() -> CompletionResult:
            return await complete(request)

        return await self.cross(ask, permit)

    async def compact(
        self,
        session_key: SessionKey,
        *,
        token_budget: int | None,
        force: bool,
        current_token_count: int | None,
        focus: str | None,
        abort: AbortSignal | None,
    ) -> CompactResult:
        """Compact a session the host's own way, and tell the embedding program of it."""
        transcript = self.transcript(session_key)
        history = transcript.history
        notices: list[CompactionNotice] = []

        async def before(messages: int, tokens: int) -> None:
            trigger = self.triggers.get(session_key, "engine")
            notices.append(notice_of(session_key, transcript, trigger=trigger, messages=messages, tokens=tokens))
            await self._notices.tell_before(notices[0])

        result = await compact_transcript(
            transcript,
            count=self.count,
            policy=self._compaction,
            complete=self._summarize,
            token_budget=token_budget,
            force=force,
            current_token_count=current_token_count,
            focus=focus,
            abort=abort,
            before=before,
        )
        if result.compacted and notices:
            await self._notices.tell_after(notices[0], result, before=history, after=transcript.history)
        return result

    async def rewrite(
        self, session_key: SessionKey, replacements: Sequence[Replacement], permit: Permit
    ) -> RewriteResult:
        """Replace messages of a session's transcript."""
        # Settled before crossing: a sequence of the engine's own runs its code when it is read.
        wanted = tuple(Replacement(entry_id=item.entry_id, message=item.message) for item in replacements)

        async def work() -> RewriteResult:
            result = rewrite_entries(self.transcript(session_key), wanted)
            if result.changed:
                self._rewritten(session_key)
            return result

        return await self.cross(work, permit)


@attrs.frozen
class _Reader:
    _host: HostServices

    async def read(
        self, session_key: SessionKey, *, after: EntryId | None = None, limit: int | None = None
    ) -> Sequence[Message]:
        behind = None if after is None else EntryId("".join(after))  # a plain text, whatever it was

        async def work() -> Sequence[Message]:
            return self._host.transcript(session_key).record(after=behind, limit=limit)

        return await self._host.cross(work)


@attrs.frozen
class _Delegate:
    _host: HostServices
    _life: Life

    async def __call__(
        self,
        session_key: SessionKey,
        *,
        token_budget: int | None = None,
        force: bool = False,
        current_token_count: int | None = None,
        custom_instructions: str | None = None,
    ) -> CompactResult:
        call = acting_permit()

        async def work() -> CompactResult:
            return await self._host.compact(
                session_key,
                token_budget=token_budget,
                force=force,
                current_token_count=current_token_count,
                focus=custom_instructions,
                abort=None if call is None else call.stop,
            )

        return await self._host.cross(work, self._life.permit())
