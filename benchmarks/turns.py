"""A session's turns through a host: what ends one, and the first prompt of a large session."""

import itertools
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from openclaw_ctx import (
    AssembleResult,
    BootstrapResult,
    CompactResult,
    EngineInfo,
    Host,
    IngestResult,
    Message,
    Opening,
    Registry,
    Session,
    hookimpl,
)
from openclaw_ctx.host import PUBLIC_OWNER

from .history import as_message, conversation
from .measure import Row, Sample, in_turn, seconds_each
from .newest import INSTANT_MS
from .sessions_on_disk import SessionFile, session_path

__all__ = ["first_prompts", "turn_ends"]

_LARGE = "large"
_LINE_BYTES = 600
_TURN = 4  # user, call, result, answer
_TURNS = 20


class _Listening:
    """An engine that is told of turns, and looks at what is new in them."""

    info = EngineInfo(id="listening", name="Listening")

    @hookimpl
    def bootstrap(self) -> BootstrapResult:
        """Need nothing of what was."""
        return BootstrapResult(bootstrapped=True, imported_messages=0)

    @hookimpl
    def ingest(self, message: Message) -> IngestResult:  # noqa: ARG002 -- what a real one names
        """Take the message."""
        return IngestResult(ingested=True)

    @hookimpl
    def after_turn(self, messages: Sequence[Message], pre_prompt_message_count: int) -> None:
        """Look at the turn."""
        assert len(list(messages[pre_prompt_message_count:])) == _TURN  # noqa: S101 -- else it would be fast for nothing

    @hookimpl
    def assemble(self, messages: Sequence[Message]) -> AssembleResult:
        """Return everything."""
        return AssembleResult(messages=messages)

    @hookimpl
    def compact(self) -> CompactResult:
        """Do nothing."""
        return CompactResult(ok=True, compacted=False)


async def turn_ends(folder: Path, *, short: int, long: int, rounds: int) -> AsyncIterator[Row]:
    """Yield what the end of a turn takes behind a long history, beside a short one."""
    for number in (short, long):
        path = await session_path(folder, str(number))
        SessionFile(messages=number, size=number * _LINE_BYTES).write(path)
    async with _listening_host(folder) as host:
        sides = {str(number): _ending(await host.session(str(number))) for number in (short, long)}
        took = await in_turn(sides, rounds=rounds)
    yield Row(
        work=f"end_turn behind {long:,} messages, after_turn told of {_TURN}",
        ours_ms=took[str(long)],
        peer=f"behind {short:,}",
        peer_ms=took[str(short)],
        target=1.3,
    )


async def first_prompts(folder: Path, shape: SessionFile, *, rounds: int) -> AsyncIterator[Row]:
    """Yield what the first prompt of a session takes whose engine has met it before: host, session, engine and all."""
    path = await session_path(folder, _LARGE)
    shape.write(path)

    async def sample() -> float:
        began = time.perf_counter()
        async with _listening_host(folder) as host, host.session(_LARGE) as session:
            prompt = await session.assemble()
            seconds = seconds_each(began)
            assert len(prompt.messages) == shape.in_context, prompt.substitution  # noqa: S101 -- else it shows nothing
        return seconds

    took = await in_turn({"ours": sample}, rounds=rounds)
    size = f"{shape.size / 1_000_000:.0f} MB, compacted near its end"
    work = f"the first prompt of {size}: host, session, engine, {shape.in_context} messages"
    yield Row(work=work, ours_ms=took["ours"], peer=f"{INSTANT_MS:g} ms", peer_ms=INSTANT_MS)
    path.unlink()


def _listening_host(folder: Path) -> Opening[Host]:
    registry = Registry()
    registry.register("listening", lambda _context: _Listening(), owner=PUBLIC_OWNER)
    config = {"plugins": {"slots": {"contextEngine": "listening"}}}
    return Host.open(config, state_dir=folder, registry=registry, engine_path=())


def _ending(session: Session) -> Sample:
    said = map(as_message, conversation())

    async def sample() -> float:
        seconds = 0.0
        for _ in range(_TURNS):
            for message in itertools.islice(said, _TURN):
                await session.append(message)
            began = time.perf_counter()
            ended = await session.end_turn()
            seconds += seconds_each(began, _TURNS)
            assert ended.handed_over == _TURN, ended.substitution  # noqa: S101 -- else it would be fast for nothing
        return seconds

    return sample
