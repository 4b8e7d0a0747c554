"""Settings in, a running host out, by plain calls."""

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from openclaw_ctx import assembly
from openclaw_ctx.assembly import AfterCompaction, BackgroundJob, BeforeCompaction, Config
from openclaw_ctx.contract import Complete, HostDescriptor
from openclaw_ctx.host import EngineFactory, HookCall, MirrorRow, Registration, Registry, Selection
from openclaw_ctx.models import Model
from openclaw_ctx.runtime import Memory
from openclaw_ctx.transcript import SessionStore

from .model import PlainComplete, awaited
from .session import Session
from .store import Store
from .thread import LoopThread

__all__ = ["Host"]


class Host:
    """
    Runs the context engine that the configuration selects, for any number of sessions, from any number of threads.

    Open it with :meth:`open`. What a method does is in the documentation of its
    namesake in ``openclaw_ctx.Host``. Close it, or leave its ``with`` block: a host
    that is forgotten keeps no process alive, but disposes its engine late or not at all.

    ``store`` has all sessions: lists them, forks them, puts them aside.
    """

    def __init__(self, thread: LoopThread, host: assembly.Host) -> None:
        self.descriptor = host.descriptor
        self.state_dir = host.state_dir
        self.store: SessionStore = Store(thread, host.store)
        self.workspace_dir = host.workspace_dir
        self.findings = host.findings
        self._thread = thread
        self._host = host
        weakref.finalize(self, thread.abandon, host.close).atexit = False

    @classmethod
    def open(
        cls,
        config: Config = None,
        *,
        host: HostDescriptor | None = None,
        state_dir: Path | str | None = None,
        store: SessionStore | None = None,
        workspace_dir: Path | str | None = None,
        registry: Registry | None = None,
        model: Model | Complete | PlainComplete | None = None,
        summary_model: Model | Complete | PlainComplete | None = None,
        context_window: int | None = None,
        memory: Memory | None = None,
        before_compaction: BeforeCompaction | None = None,
        after_compaction: AfterCompaction | None = None,
        observe: Callable[[HookCall], None] | None = None,
        engine_path: Sequence[str] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> Self:
        """
        Open a host and start its thread; see ``openclaw_ctx.Host.open``.

        Args:
            config: A path, a mapping with the file's content, or settings.
            host: What the embedding program can do; the embedded runner by default.
            state_dir: For transcripts and records.
            store: Where sessions are kept; files in the state folder by default. Used in the host's thread.
            workspace_dir: What the agent works on; told to engines.
            registry: Another registry than the process's own.
            model: Runs turns, answers engines and summarises; or a function that does the latter two: a plain
                one, in a thread for each call, or an async one, on the host's loop.
            summary_model: Summarises in its place.
            context_window: Tokens that *model* takes.
            memory: Instead of what ``plugins.slots.memory`` names.
            before_compaction: Told of each compaction that is about to be made, in the host's thread.
            after_compaction: Told of each that was made, there too.
            observe: Told of every hook call, in the host's thread: it cannot call the host.
            engine_path: Where to look for installed engines; ``sys.path`` by default.
            sleep: Waits before a model is asked again.

        Raises:
            ConfigError: The configuration cannot be used.
            RuntimeError: An event loop runs in this thread.
        """
        thread = LoopThread()
        try:
            opened = thread.run(
                lambda: assembly.Host.open(
                    config,
                    host=host,
                    state_dir=state_dir,
                    store=store,
                    workspace_dir=workspace_dir,
                    registry=registry,
                    model=None if model is None else awaited(model),
                    summary_model=None if summary_model is None else awaited(summary_model),
                    context_window=context_window,
                    memory=memory,
                    before_compaction=before_compaction,
                    after_compaction=after_compaction,
                    observe=observe,
                    engine_path=engine_path,
                    sleep=sleep,
                ),
                "Host",
                undo=assembly.Host.close,
            )
        except BaseException:
            thread.end()
            raise
        return cls(thread, opened)

    def register_engine(self, engine_id: str, factory: EngineFactory, *, refresh: bool = False) -> Registration:
        """Offer an engine of the embedding program under *engine_id*; the slot still selects."""
        return self._host.register_engine(engine_id, factory, refresh=refresh)

    def session(self, key: str) -> Session:
        """
        Open the conversation of a stable name, begin it where it is new.

        Raises:
            SessionBusyError: Another program, or another opening here, is writing it.
        """
        opened = self._thread.run(lambda: self._host.session(key), "Host", undo=assembly.Session.close)
        return Session(self, self._thread, opened)

    def selection(self) -> Selection:
        """Return what the slot comes to, and why. Imports and builds nothing."""
        return self._host.selection()

    def quarantines(self) -> list[MirrorRow]:
        """Return what this process has barred, and what other live processes have."""
        return self._host.quarantines()

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has been called."""
        return self._host.closed

    @property
    def background_jobs(self) -> tuple[BackgroundJob, ...]:
        """What engines are doing behind their hooks."""
        return self._host.background_jobs

    def close(self) -> None:
        """
        Dispose the engine, close every session, end the thread. Does nothing the second time.

        In a child that was forked it does nothing at all: the host is the parent's.
        """
        self._thread.close(self._host.close, "Host")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
