"""The host's speed: a guarded call, a prompt, an append, an opening, the command's start."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pluggy

import openclaw_ctx
from openclaw_ctx import (
    AbortSignal,
    AssembleResult,
    CompactResult,
    EngineInfo,
    Host,
    IngestResult,
    Message,
    Registry,
    Session,
    ToolResultMessage,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.config import DeadlineSettings
from openclaw_ctx.contract import PROJECT, EngineSpec
from openclaw_ctx.host import PUBLIC_OWNER, Discovery, Guard, Policy, QuarantinePolicy, select

from .history import as_langchain, as_message, as_openai_item, conversation
from .measure import (
    NOT_INSTALLED,
    Options,
    Row,
    Sample,
    file_system,
    import_peer,
    in_memory,
    in_turn,
    on_cores,
    seconds_each,
)
from .sessions_on_disk import session_path, write_transcript
from .transcript import opening
from .window_engine import window_host

__all__ = ["rows"]

BUDGET = 8_000
_KEY = "conversation"


@attrs.frozen(kw_only=True)
class _Sizes:
    short: int = 1_000
    middle: int = 10_000
    long: int = 100_000
    distributions: int = 300
    rounds: int = 15
    batch: int = 50
    calls: int = 500
    dear_rounds: int = 7

    @classmethod
    def of(cls, options: Options) -> "_Sizes":
        if not options.quick:
            return cls()
        return cls(short=40, middle=80, long=200, distributions=5, rounds=1, batch=4, calls=4, dear_rounds=1)


async def rows(options: Options) -> AsyncIterator[Row]:
    """Yield the rows, in the order of the page that sets their targets."""
    sizes = _Sizes.of(options)
    for works in (
        _guarded_call(options, sizes),
        _prompts(options, sizes),
        _appends(options, sizes),
        opening(options.folder, messages=sizes.long, rounds=sizes.dear_rounds),
        _starts(options, sizes),
    ):
        async for row in works:
            yield attrs.evolve(row, judged=not options.quick)


# -- one guarded call -----------------------------------------------------------------------------


class _Idle:
    """An engine that answers at once, so that what is left is the cost of asking it."""

    info = EngineInfo(id="idle", name="Idle")

    @hookimpl
    async def ingest(self, message: Message) -> IngestResult:  # noqa: ARG002 -- what a real one names
        """Take the message."""
        return IngestResult(ingested=True)

    @hookimpl
    def assemble(self, messages: Sequence[Message]) -> AssembleResult:
        """Return everything."""
        return AssembleResult(messages=messages)

    @hookimpl
    def compact(self) -> CompactResult:
        """Do nothing."""
        return CompactResult(ok=True, compacted=False)


async def _guarded_call(options: Options, sizes: _Sizes) -> AsyncIterator[Row]:
    work, peer = "one guarded hook call through the lane", "bare pluggy, the same async hook"
    took = await _call_in_turn(sizes)
    yield Row(work=work, ours_ms=took["ours"], peer=peer, peer_ms=took["peer"], target=20)
    if len(options.cores) > 1:
        with on_cores(options.cores):
            took = await _call_in_turn(sizes)
        note = "caller and lane may be on two cores, and waking the other one costs as much as the rest"
        yield Row(work=f"{work}, on any core", ours_ms=took["ours"], peer=peer, peer_ms=took["peer"], note=note)


async def _call_in_turn(sizes: _Sizes) -> dict[str, float]:
    registry = Registry()
    registry.register("idle", lambda _context: _Idle(), owner=PUBLIC_OWNER)
    guard = Guard(
        registry,
        select=lambda: select(Policy(slot="idle"), registry, Discovery()),
        make_context=lambda *_: None,
        deadlines=DeadlineSettings().seconds(),
        policy=QuarantinePolicy(),
    )
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(EngineSpec)
    manager.register(_Idle())
    arguments = {
        "session_id": "1",
        "session_key": _KEY,
        "message": UserMessage(content="What does a call cost?"),
        "is_heartbeat": False,
    }
    signal = AbortSignal()

    def checked(result: IngestResult) -> IngestResult:
        return result

    async def ours() -> float:
        began = time.perf_counter()
        for _ in range(sizes.calls):
            await guard.call("ingest", arguments, abort=signal, seconds=5.0, check=checked)
        return seconds_each(began, sizes.calls)

    async def peer() -> float:
        hook, times = manager.hook.ingest, 16 * sizes.calls  # so that both sides are interrupted as often
        began = time.perf_counter()
        for _ in range(times):
            await hook(**arguments)
        return seconds_each(began, times)

    try:
        served = await guard.serving()
        assert served.engine_id == "idle", served.substitution  # noqa: S101 -- else the row would be about another engine
        return await in_turn({"ours": ours, "peer": peer}, rounds=sizes.rounds)
    finally:
        await guard.close()


# -- prompts --------------------------------------------------------------------------------------


async def _prompts(options: Options, sizes: _Sizes) -> AsyncIterator[Row]:
    folder = options.folder / "prompts"
    for size in (sizes.short, sizes.middle, sizes.long):
        write_transcript(await session_path(folder, str(size)), size)
    langchain = import_peer("langchain_core.messages")
    peer = "LangChain trim_messages, approximate counter"
    note = "" if langchain is not None else NOT_INSTALLED
    trims: dict[str, Sample] = {} if langchain is None else {"peer": _trimming(langchain, sizes)}

    async with window_host(folder) as host:
        sessions = {size: await host.session(str(size)) for size in (sizes.short, sizes.middle, sizes.long)}
        turns = {size: _turns(session, size) for size, session in sessions.items()}
        took = await in_turn({"ours": turns[sizes.middle], **trims}, rounds=sizes.rounds)
        growth = await in_turn({"long": turns[sizes.long], "short": turns[sizes.short]}, rounds=sizes.rounds)
    yield Row(
        work=f"a prompt of {BUDGET:,} tokens out of {sizes.middle:,} messages, window engine, whole session",
        ours_ms=took["ours"],
        peer=peer,
        peer_ms=took.get("peer"),
        target=0.01,
        note=note,
    )
    yield Row(
        work=f"the same out of {sizes.long:,} messages",
        ours_ms=growth["long"],
        peer=f"ours out of {sizes.short:,} messages",
        peer_ms=growth["short"],
        target=2,
    )
    cold = await in_turn({"ours": _first_prompt(folder, sizes.middle), **trims}, rounds=sizes.dear_rounds)
    yield Row(
        work=f"the first prompt after opening {sizes.middle:,} messages: engine built, messages read from disk",
        ours_ms=cold["ours"],
        peer=peer,
        peer_ms=cold.get("peer"),
        note=note,
    )


def _trimming(langchain: Any, sizes: _Sizes) -> Sample:
    said = conversation()
    messages = [as_langchain(langchain, next(said)) for _ in range(sizes.middle)]
    how = {"strategy": "last", "token_counter": "approximate", "max_tokens": BUDGET}

    async def trim() -> float:
        messages.append(as_langchain(langchain, next(said)))
        began = time.perf_counter()
        kept = langchain.trim_messages(messages, **how)
        seconds = seconds_each(began)
        assert kept  # noqa: S101 -- else it would be fast for nothing
        return seconds

    return trim


def _turns(session: Session, size: int) -> Sample:
    """
    Assemble in steady state: whenever a model would be asked, with what was said since appended before.

    That is after the user's message and after a tool's result. Appending is not
    counted, since it has a row of its own.
    """
    said = itertools.islice(conversation(), size, None)
    prompts = 20

    async def sample() -> float:
        seconds, made = 0.0, 0
        while made < prompts:
            message = as_message(next(said))
            if isinstance(message, UserMessage):
                await session.end_turn()
            await session.append(message)
            if not isinstance(message, UserMessage | ToolResultMessage):
                continue
            made += 1
            began = time.perf_counter()
            prompt = await session.assemble(budget=BUDGET)
            seconds += seconds_each(began)
            assert prompt.engine == "window", prompt.substitution  # noqa: S101 -- else the row would be about another
        return seconds / prompts

    return sample


def _first_prompt(folder: Path, size: int) -> Sample:
    async def sample() -> float:
        async with window_host(folder) as host, host.session(str(size)) as session:
            began = time.perf_counter()
            prompt = await session.assemble(budget=BUDGET)
            seconds = seconds_each(began)
            assert prompt.engine == "window", prompt.substitution  # noqa: S101 -- else the row would be about another
            return seconds

    return sample


# -- stores ---------------------------------------------------------------------------------------


async def _appends(options: Options, sizes: _Sizes) -> AsyncIterator[Row]:
    peer = "OpenAI Agents SDK SQLiteSession, WAL, synchronous FULL"
    agents = import_peer("agents")
    works = (
        ("append one message, acknowledged", "append", "ours", 0.25),
        ("append one message, durable", "append", "durable", 0.8),
        ("append one message and read the last 20, acknowledged", "read", "ours", 0.5),
        ("append one message and read the last 20, durable", "read", "durable", None),
    )
    disk = f"on {file_system(options.folder)}, behind {sizes.middle:,} messages"
    if in_memory(options.folder):
        for work, _, _, target in works:
            note = f"refused: {options.folder} is on {file_system(options.folder)}, which is no disk; choose with --dir"
            yield Row(work=work, ours_ms=None, peer=peer, peer_ms=None, target=target, note=note)
        return
    note = disk if agents is not None else f"{disk}; {NOT_INSTALLED}"
    async with contextlib.AsyncExitStack() as stack:
        sides: dict[str, _OurAppending | _TheirAppending] = {}
        for name, durable in (("ours", False), ("durable", True)):
            folder = options.folder / f"appends-{name}"
            write_transcript(await session_path(folder, _KEY), sizes.middle)
            config = {"session": {"durable": durable}}
            host = await stack.enter_async_context(Host.open(config, state_dir=folder, registry=Registry()))
            sides[name] = _OurAppending(await stack.enter_async_context(host.session(_KEY)), sizes)
        if agents is not None:
            theirs = _TheirAppending(agents, options.folder / "appends.sqlite3", sizes)
            stack.callback(theirs.session.close)
            await theirs.fill()
            sides["peer"] = theirs
        took = {
            "append": await in_turn({name: side.append for name, side in sides.items()}, rounds=sizes.rounds),
            "read": await in_turn({name: side.append_and_read for name, side in sides.items()}, rounds=sizes.rounds),
        }
    for work, kind, side, target in works:
        ms = took[kind]
        yield Row(work=work, ours_ms=ms[side], peer=peer, peer_ms=ms.get("peer"), target=target, note=note)


class _OurAppending:
    """A session behind a long conversation, about to go on."""

    def __init__(self, session: Session, sizes: _Sizes) -> None:
        self._session = session
        self._batch = sizes.batch
        self._said = map(as_message, itertools.islice(conversation(), sizes.middle, None))

    async def append(self) -> float:
        messages = list(itertools.islice(self._said, self._batch))
        began = time.perf_counter()
        for message in messages:
            await self._session.append(message)
        return seconds_each(began, self._batch)

    async def append_and_read(self) -> float:
        messages = list(itertools.islice(self._said, self._batch))
        began = time.perf_counter()
        for message in messages:
            await self._session.append(message)
            list(self._session.history[-20:])
        return seconds_each(began, self._batch)


class _TheirAppending:
    """The same conversation in the peer's store."""

    def __init__(self, agents: Any, path: Path, sizes: _Sizes) -> None:
        self.session = agents.SQLiteSession(_KEY, path)
        self._sizes = sizes
        self._said = map(as_openai_item, conversation())

    async def fill(self) -> None:
        await self.session.add_items(list(itertools.islice(self._said, self._sizes.middle)))

    async def append(self) -> float:
        items = list(itertools.islice(self._said, self._sizes.batch))
        began = time.perf_counter()
        for item in items:
            await self.session.add_items([item])
        return seconds_each(began, self._sizes.batch)

    async def append_and_read(self) -> float:
        items = list(itertools.islice(self._said, self._sizes.batch))
        began = time.perf_counter()
        for item in items:
            await self.session.add_items([item])
            await self.session.get_items(limit=20)
        return seconds_each(began, self._sizes.batch)


# -- the command ----------------------------------------------------------------------------------

# What an installer writes as the console script.
_SCRIPT = "import sys; from openclaw_ctx.cli.main import main; sys.argv[0] = 'openclaw-ctx'; sys.exit(main())"
_ENGINES = 5


async def _starts(options: Options, sizes: _Sizes) -> AsyncIterator[Row]:
    site, home = options.folder / "site", options.folder / "home"
    _write_distributions(site, sizes.distributions)
    home.mkdir()
    package = Path(openclaw_ctx.__file__).parent.parent
    environment = {name: value for name, value in os.environ.items() if name != "OPENCLAW_CTX_CONFIG"}
    # A new user's: no configuration, and no variable that names one, for that would be worth a warning.
    environment |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "OPENCLAW_CTX_STATE_DIR": str(home / "state")}
    config = home / "openclaw-ctx" / "openclaw.json"

    def process(*arguments: str, path: Sequence[Path] = (), lines: int = 0) -> Sample:
        own = {**environment, "PYTHONPATH": os.pathsep.join(map(str, (package, *path)))}

        async def sample() -> float:
            began = time.perf_counter()
            ended = subprocess.run(  # noqa: ASYNC221 -- nothing else may run meanwhile
                [sys.executable, "-c", *arguments], env=own, cwd=home, check=True, capture_output=True
            )
            seconds = seconds_each(began)
            assert ended.stdout.count(b"\n") >= lines, ended.stdout  # noqa: S101 -- else it would be fast for nothing
            return seconds

        return sample

    took = await in_turn(
        {"ours": process(_SCRIPT, "--version", lines=1), "peer": process("import attrs, pluggy")}, rounds=sizes.rounds
    )
    yield Row(
        work="openclaw-ctx --version",
        ours_ms=took["ours"],
        peer="a process that imports attrs and pluggy",
        peer_ms=took["peer"],
        target=2.5,
    )
    engines = process(_SCRIPT, "engines", path=[site], lines=_ENGINES)
    entry_points = process("import importlib.metadata; importlib.metadata.entry_points()", path=[site])
    took = await in_turn({"ours": engines, "peer": entry_points}, rounds=sizes.rounds)
    work, peer = (
        f"openclaw-ctx engines, {sizes.distributions} more distributions installed",
        "a process that calls importlib.metadata.entry_points()",
    )
    yield Row(work=work, ours_ms=took["ours"], peer=peer, peer_ms=took["peer"], target=1.5)
    config.parent.mkdir()
    config.write_text(json.dumps({"plugins": {"slots": {"contextEngine": "acme_000"}}}), encoding="utf-8")
    took = await in_turn({"ours": engines, "peer": entry_points}, rounds=sizes.rounds)
    yield Row(work=f"{work}, with a configuration file", ours_ms=took["ours"], peer=peer, peer_ms=took["peer"])


def _write_distributions(site: Path, number: int) -> None:
    """Write what an installer leaves of *number* distributions; every third has entry points, five offer engines."""
    said = conversation()
    for index in range(number):
        name = f"acme_{index:03}"
        folder = site / f"{name}-1.{index}.dist-info"
        folder.mkdir(parents=True)
        headers = f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.{index}\nRequires-Python: >=3.11\n"
        description = "\n\n".join(next(said).text for _ in range(8))
        folder.joinpath("METADATA").write_text(f"{headers}\n{description}\n", encoding="utf-8")
        folder.joinpath("RECORD").write_text(f"{name}/__init__.py,,\n" * 20, encoding="utf-8")
        entry_points = ""
        if index % 3 == 0:
            entry_points += f"[console_scripts]\n{name} = {name}.cli:main\n"
        if index < _ENGINES:
            entry_points += f"[openclaw_ctx.engines]\n{name} = {name}.engine:Engine\n"
        if entry_points:
            folder.joinpath("entry_points.txt").write_text(entry_points, encoding="utf-8")
