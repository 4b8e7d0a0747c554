"""Settings in, a running host out."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import attrs

from openclaw_ctx.config import (
    LoadedSettings,
    Settings,
    load_settings,
    settings_from,
    structure_engine_config,
)
from openclaw_ctx.contract import (
    EMPTY,
    Complete,
    EngineContext,
    HostDescriptor,
    SessionKey,
)
from openclaw_ctx.errors import SessionBusyError, SessionClosedError
from openclaw_ctx.host import (
    PUBLIC_OWNER,
    EngineFactory,
    Guard,
    HookCall,
    MirrorRow,
    QuarantineMirror,
    QuarantinePolicy,
    Registration,
    Registry,
    Runner,
    Selection,
    default_registry,
    discover,
    select,
)
from openclaw_ctx.log import get_logger
from openclaw_ctx.models import Model, as_complete
from openclaw_ctx.runtime import Memory
from openclaw_ctx.tokens import TokenCounter, estimate_tokens, exact_counter
from openclaw_ctx.transcript import FileStore, SessionStore, Transcript, make_private_folder, safe_name

from .core import SessionCore
from .notices import AfterCompaction, BeforeCompaction, CompactionNotices
from .opening import Opening, open_transcript
from .places import BuiltinEngines, quarantine_folder, sessions_folder, state_folder
from .policy import compaction_from, deadlines_from, flush_from, memory_from, policy_from, turns_from, windows_from
from .reaching import connect_summariser
from .services import BackgroundJob, HostServices
from .session import Session
from .subagents import Subagents
from .wiring import Wiring

__all__ = ["Config", "Host", "counter_from", "with_builtins"]

_log = get_logger()

Config = Path | str | Mapping[str, Any] | Settings | LoadedSettings | None
"""A file, its content, settings; ``None``: the file that the environment or the user's folder has."""

AnyModel: TypeAlias = Model | Complete
"""A model; or a function that answers engines alone, since it cannot run a turn."""


class Host:
    """
    Runs the context engine that the configuration selects, for any number of sessions.

    Open it with :meth:`open`, inside a running event loop, and use it from that
    loop. Nothing is imported or built before the first session asks for it.

    ``store`` has all sessions: lists them, forks them, puts them aside.
    """

    def __init__(
        self,
        loaded: LoadedSettings,
        *,
        descriptor: HostDescriptor,
        state_dir: Path,
        store: SessionStore | None,
        workspace_dir: Path,
        registry: Registry,
        model: AnyModel | None,
        summary_model: AnyModel | None,
        connected: Model | None,
        context_window: int | None,
        memory: Memory | None,
        before_compaction: BeforeCompaction | None,
        after_compaction: AfterCompaction | None,
        observe: Callable[[HookCall], None] | None,
        engine_path: Sequence[str] | None,
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        settings = loaded.settings
        asked_model, complete = _both(model)
        # An engine that needs a model is told before it is called that there is none.
        self.descriptor = descriptor if model is not None else _without_model(descriptor)
        self.state_dir = state_dir
        self.store = FileStore(sessions_folder(state_dir), durable=settings.session.durable) if store is None else store
        self.workspace_dir = workspace_dir
        self.findings = loaded.findings
        self._settings = settings
        self._engine_path = engine_path
        self._registry = registry
        self._sessions: dict[SessionKey, SessionCore] = {}
        self._count = counter_from(settings)
        self._policy = policy_from(settings)
        self._closed = False
        self._connected = connected
        self._mirror = QuarantineMirror(quarantine_folder(state_dir))
        registry.quarantine.attach(self._mirror)
        self._guard = Guard(
            registry,
            select=self.selection,
            make_context=self._make_context,
            deadlines=deadlines_from(settings),
            policy=QuarantinePolicy(
                failures=settings.plugins.quarantine.failures,
                probation_seconds=settings.plugins.quarantine.probation_seconds,
            ),
            strict=self._policy.strict,
            observe=observe,
        )
        notices = CompactionNotices(before=before_compaction, after=after_compaction)
        window_of = windows_from(settings)
        summary_model = connected if summary_model is None else summary_model
        copies = settings.agents.defaults.compaction.model == "extractive" and summary_model is None
        summariser = asked_model if summary_model is None else summary_model
        window = window_of(
            getattr(summariser, "provider", None),
            getattr(summariser, "model", None),
            context_window if summary_model is None else None,
        )
        self._services = HostServices(
            transcript_of=self._transcript_of,
            count=self._count,
            complete=complete,
            summarize=None if copies else _both(summary_model)[1] or complete,
            compaction=compaction_from(settings, window, self.workspace_dir, summariser=summariser),
            notices=notices,
            ended=self._guard.note_job,
            rewritten=lambda key: self._sessions[key].follow_rewrite(),
        )
        self._wiring = Wiring(
            store=self.store,
            guard=self._guard,
            count=self._count,
            descriptor=self.descriptor,
            workspace_dir=self.workspace_dir,
            services=self._services,
            complete=complete,
            model=asked_model,
            turn_end_seconds=settings.deadlines.turn_end,
            asked=self._policy.asked,
            registered=self._sessions,
            turns=turns_from(settings),
            window_of=window_of,
            context_window=context_window,
            memory=memory_from(settings, self.workspace_dir) if memory is None else memory,
            flush=flush_from(settings),
            notices=notices,
            rotates=settings.agents.defaults.compaction.truncate_after_compaction,
            history_limit=settings.session.history_limit,
            sleep=sleep,
        )
        self._subagents = Subagents(
            guard=self._guard,
            store=self.store,
            descriptor=self.descriptor,
            count=self._count,
            open_core=self._open_core,
            fork_max_tokens=settings.session.parent_fork_max_tokens,
        )
        for finding in loaded.findings:
            _log.warning("config.questioned", finding=finding)

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
        model: AnyModel | None = None,
        summary_model: AnyModel | None = None,
        context_window: int | None = None,
        memory: Memory | None = None,
        before_compaction: BeforeCompaction | None = None,
        after_compaction: AfterCompaction | None = None,
        observe: Callable[[HookCall], None] | None = None,
        engine_path: Sequence[str] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> "Opening[Host]":
        """
        Open a host: ``async with Host.open(config) as host:``, or await it and close it yourself.

        Args:
            config: A path, a mapping with the file's content, or settings.
            host: What the embedding program can do; the embedded runner by default.
            state_dir: For transcripts and records; else ``OPENCLAW_CTX_STATE_DIR``, else the user's state folder.
            store: Where sessions are kept; files in the state folder by default.
            workspace_dir: What the agent works on; told to engines.
            registry: Another registry than the process's own.
            model: Answers users in :meth:`Session.run`, engines in ``services.complete``, and
                summarises. A function that completes does the latter two. It stays yours to close.
            summary_model: Summarises in its place, and in that of the model which the configuration
                names for it; without any of them, summaries are copied from the conversation, and
                no model is asked.
            context_window: Tokens that *model* takes; by default what the configuration says of
                it, else 200,000.
            memory: Instead of what ``plugins.slots.memory`` names.
            before_compaction: Told of each compaction that the host is about to make.
            after_compaction: Told of each that was made.
            observe: Told of every hook call: operation, engine, seconds, outcome.
            engine_path: Where to look for installed engines; ``sys.path`` by default.
            sleep: Waits before a model is asked again.

        Raises:
            ConfigError: The configuration cannot be used.
        """

        async def opened() -> "Host":
            loaded = _loaded(config)
            return cls(
                loaded,
                descriptor=host or HostDescriptor.embedded(),
                state_dir=state_folder(state_dir),
                store=store,
                workspace_dir=Path(workspace_dir or Path.cwd()),
                registry=with_builtins(registry or default_registry()),
                model=model,
                summary_model=summary_model,
                connected=None if summary_model is not None else await connect_summariser(loaded),
                context_window=context_window,
                memory=memory,
                before_compaction=before_compaction,
                after_compaction=after_compaction,
                observe=observe,
                engine_path=engine_path,
                sleep=sleep,
            )

        return Opening(opened)

    def register_engine(self, engine_id: str, factory: EngineFactory, *, refresh: bool = False) -> Registration:
        """
        Offer an engine of the embedding program under *engine_id*; the slot still selects.

        Raises:
            RegistryError: The id is core's or somebody else's.
        """
        return self._registry.register(engine_id, factory, owner=PUBLIC_OWNER, refresh=refresh)

    def session(self, key: str) -> "Opening[Session]":
        """
        Open the conversation of a stable name, begin it where it is new.

        Raises:
            SessionBusyError: Another program, or another opening here, is writing it.
        """
        if not isinstance(key, str) or not key.strip():  # type: ignore[redundant-expr]
            problem = f"a session key is a name such as 'agent:main:main', not {key!r}"
            raise ValueError(problem)
        return Opening(lambda: self._open_session(SessionKey(key)))

    def selection(self) -> Selection:
        """Return what the slot comes to, and why. Imports and builds nothing."""
        return select(self._policy, self._registry, discover(self._engine_path))

    def quarantines(self) -> list[MirrorRow]:
        """Return what this process has barred, and what other live processes have."""
        return self._registry.quarantine.rows()

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has been called."""
        return self._closed

    @property
    def background_jobs(self) -> tuple[BackgroundJob, ...]:
        """What engines are doing behind their hooks."""
        return tuple(self._services.jobs)

    async def close(self) -> None:
        """Dispose the engine and close every session. Does nothing the second time."""
        if self._closed:
            return
        self._closed = True
        for session in list(self._sessions.values()):
            session.stop("the host is closed")
        await self._subagents.close()
        try:
            # First, since calls that are under way end with it; an engine may still read while it is disposed.
            await self._guard.close()
        finally:
            for session in list(self._sessions.values()):
                await session.close()
            await self._subagents.settle()
            self._registry.quarantine.detach(self._mirror)
            self.store.close()
            if self._connected is not None:
                await self._connected.close()

    async def _open_session(self, key: SessionKey) -> Session:
        return Session(await self._open_core(key), self._subagents)

    async def _open_core(self, key: SessionKey) -> SessionCore:
        if self._closed:
            raise SessionClosedError("Host")
        if key in self._sessions:
            path = self._sessions[key].transcript.path
            raise SessionBusyError(str(path), "this very host, which has it open", 0.0)
        transcript = await open_transcript(
            self.store,
            key,
            timeout_seconds=self._settings.session.acquire_timeout_seconds,
            cwd=str(self.workspace_dir),
        )
        if self.closed:  # while it waited for another writer
            transcript.close()
            raise SessionClosedError("Host")
        core = self._sessions[key] = SessionCore(key, transcript, self._wiring)
        return core

    def _transcript_of(self, key: SessionKey) -> Transcript | None:
        session = self._sessions.get(key)
        return None if session is None else session.transcript

    def _make_context(self, engine_id: str, factory: Any, lane: Runner) -> EngineContext:
        entry = self._settings.plugins.entries.get(engine_id)
        config = EMPTY if entry is None else entry.config
        config_class = getattr(factory, "config_class", None)
        if config_class is not None:
            config = structure_engine_config(config, config_class, engine_id=engine_id)
        return EngineContext(
            engine_id=engine_id,
            config=config,
            state_dir=make_private_folder(self.state_dir / "engines" / safe_name(engine_id)),
            workspace_dir=self.workspace_dir,
            services=self._services.for_engine(engine_id, lane),
        )


def _both(model: AnyModel | None) -> tuple[Model | None, Complete | None]:
    """Return what runs turns, and what answers engines."""
    if model is None:
        return None, None
    if hasattr(model, "stream"):
        asked = cast("Model", model)
        return asked, as_complete(asked)
    return None, model


def _without_model(descriptor: HostDescriptor) -> HostDescriptor:
    left = tuple(name for name in descriptor.capabilities if name != "runtime-llm-complete")
    return attrs.evolve(descriptor, capabilities=left)


def with_builtins(registry: Registry) -> Registry:
    """Register the built-in engines where they are missing: every path that runs an engine passes here."""
    for builtin in BuiltinEngines().registrations():
        if registry.get(builtin.engine_id) is None:
            registry.register(builtin.engine_id, builtin.factory, owner=builtin.owner, refresh=True)
    return registry


def counter_from(settings: Settings) -> TokenCounter:
    """Return the counter that the settings name."""
    counter = settings.tokens.counter
    return estimate_tokens if counter == "estimate" else exact_counter(counter)


def _loaded(config: Config) -> LoadedSettings:
    if isinstance(config, LoadedSettings):
        return config
    if isinstance(config, Settings):
        return LoadedSettings(settings=config)
    if config is None or isinstance(config, str | Path):
        return load_settings(None if config is None else Path(config))
    return settings_from(config)
