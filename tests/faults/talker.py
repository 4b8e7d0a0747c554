"""A program that runs turns on a real host, tells what it does, and may be killed at any of it."""

import asyncio
import contextlib
import importlib
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from openclaw_ctx import (
    AssistantMessage,
    ContextOverflowError,
    EngineTool,
    Host,
    ModelTransientError,
    Registry,
    ScriptedAnswer,
    ScriptedModel,
    Session,
    ToolCallBlock,
    TurnBlockedError,
)
from openclaw_ctx.contract import Message
from openclaw_ctx.models import ModelRequest
from openclaw_ctx.runtime import Compacted, Compacting, MessageAppended, TurnEvent
from openclaw_ctx.transcript import FileStore, Rotation, Transcript, pairs_are_whole

from .process import Teller

__all__ = ["KEY", "KINDS", "OCCURRENCES", "Exchange", "converse", "draw", "word_of"]

KEY: Final = "agent:main:main"
KINDS: Final = ("open", "turn", "compact", "rotate", "settle", "close")
OCCURRENCES: Final = 1_000
"""An operation's number is that of its kind, so many times, and how many of the kind were before it."""

WINDOW: Final = 6_000
_CONFIG: Final[Mapping[str, Any]] = {
    "agents": {
        "defaults": {
            "contextLimits": {"toolResultMaxChars": 1_000},
            "compaction": {
                "model": "extractive",
                "reserveTokens": 1_000,
                "reserveTokensFloor": 0,
                "keepRecentTokens": 800,
                "midTurnPrecheck": {"enabled": True},
                "truncateAfterCompaction": True,
            },
        }
    }
}
_TURNS: Final = (3, 6)
_MOST_ROUNDS: Final = 5
_MOST_CALLS: Final = 3
_OVERFLOWS: Final = 0.9  # of the conversations, once
_BREAKS_OFF: Final = 0.06  # of the answers
# What stands together fits into the window, whatever was compacted: what never fits is no matter of being killed.
_SAID_CHARS: Final = (20, 6_000)
_RESULT_CHARS: Final = (40, 6_000)  # longer than is allowed, so that some are cut, in the transcript too
_WORDS: Final = "and so \u2028 é 漢字 on,\n"

# Nothing is imported behind a fork: that takes longer than a conversation.
for _name in ("openclaw_ctx.engines", "openclaw_ctx.compaction", "openclaw_ctx.replay", "structlog", "filelock"):
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)


@attrs.frozen
class Round:
    """
    What the model does once.

    Attributes:
        chars: Of what it says.
        results: How long the result of each tool is that it calls.
        fails: How it fails before that; empty: it does not.
    """

    chars: int
    results: tuple[int, ...]
    fails: str = ""


@attrs.frozen
class Exchange:
    """
    One turn.

    Attributes:
        token: In all that is said in it.
        chars: Of what the user says; ``None``: nothing, what is unanswered is to be answered.
        rounds: The last one has no calls.
    """

    token: str
    chars: int | None
    rounds: tuple[Round, ...]


def draw(seed: int, name: str, *, goes_on: bool = False) -> list[Exchange]:
    """Return a conversation, the same one for a seed; *goes_on*: it begins with what is unanswered."""
    chosen = random.Random(seed)  # noqa: S311 -- to be drawn again
    turns = chosen.randint(*_TURNS)
    overflows = chosen.randrange(turns) if chosen.random() < _OVERFLOWS else None
    return [
        Exchange(
            f"{name}{number}",
            None if goes_on and not number else chosen.randint(*_SAID_CHARS),
            _rounds(chosen, overflows=number == overflows),
        )
        for number in range(turns)
    ]


def converse(folder: Path, exchanges: Sequence[Exchange], teller: Teller) -> None:
    """Have the conversation, and tell of each step before and of each message behind it."""
    logging.disable()  # pytest's handlers write, to /dev/null, which is past the points
    asyncio.run(_converse(folder, exchanges, _Steps(teller)))


def word_of(message: Message) -> list[str]:
    """Return what makes a message the one that it is: its role, the tool calls that it is about, and its text."""
    calls = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
    return [message.role, getattr(message, "tool_call_id", "") or " ".join(calls), message.text]


class _Steps:
    """Tells in which step the work is: one begins where the one before it ends."""

    def __init__(self, teller: Teller) -> None:
        self.teller = teller
        self._counts: Counter[str] = Counter()
        self._kind = ""

    def enter(self, kind: str) -> None:
        self.leave()
        number = OCCURRENCES * KINDS.index(kind) + self._counts[kind]
        self._counts[kind] += 1
        self._kind = kind
        self.teller.begin(number, kind=kind)

    def leave(self) -> None:
        if self._kind:
            self.teller.done(kind=self._kind)
        self._kind = ""

    def hear(self, event: TurnEvent) -> None:
        if isinstance(event, MessageAppended):
            self.teller.say("said", word=word_of(event.message))
        elif isinstance(event, Compacting):
            self.enter("compact")
        elif isinstance(event, Compacted):
            self.teller.say("compacted", trigger=event.trigger, compacted=event.result.compacted)
            self.enter("turn")


class _Store(FileStore):
    """A store that tells when it rotates."""

    def __init__(self, folder: Path, steps: _Steps) -> None:
        super().__init__(folder)
        self._steps = steps

    def rotate(self, transcript: Transcript) -> Rotation:
        self._steps.enter("rotate")
        rotation = super().rotate(transcript)
        self._steps.enter("compact")
        return rotation


async def _converse(folder: Path, exchanges: Sequence[Exchange], steps: _Steps) -> None:
    steps.enter("open")
    async with _opened(folder, steps) as session:
        for exchange in exchanges:
            steps.enter("turn")
            await _exchange(session, exchange, steps)
            steps.enter("settle")
            await session.settle()
        steps.enter("close")
    steps.leave()


@contextlib.asynccontextmanager
async def _opened(folder: Path, steps: _Steps) -> AsyncIterator[Session]:
    store = _Store(folder / "sessions", steps)
    async with (
        Host.open(
            _CONFIG,
            state_dir=folder,
            store=store,
            workspace_dir=folder,
            registry=Registry(),
            engine_path=(),
            sleep=_at_once,
        ) as host,
        host.session(KEY) as session,
    ):
        yield session


async def _exchange(session: Session, exchange: Exchange, steps: _Steps) -> None:
    """Run one turn, and tell whether it was blocked, and what was wrong with what the model was asked."""
    asked = f"{exchange.token} asks"
    goes_on = exchange.chars is None and _is_unanswered(session)
    model = ScriptedModel(_lines(exchange))
    tool = EngineTool(name="look", description="Looks.", parameters={"type": "object"}, call=_look)
    try:
        await session.run(
            None if goes_on else _text(asked, exchange.chars or len(asked)),
            model=model,
            context_window=WINDOW,
            tools=[tool],
            on_event=steps.hear,
        )
    except TurnBlockedError as error:
        steps.teller.say("blocked", reason=str(error))
    steps.teller.say("turned", broken=[_broken(request) for request in model.requests])


def _is_unanswered(session: Session) -> bool:
    last = session.history[-1] if session.history else None
    return last is not None and (not isinstance(last, AssistantMessage) or bool(last.tool_calls))


def _broken(request: ModelRequest) -> str:
    """Return what is wrong with a request; nothing for one that a provider takes."""
    if not request.messages:
        return "nobody says anything in it"
    return "" if pairs_are_whole(request.messages) else "calls and results are not in pairs"


def _lines(exchange: Exchange) -> Iterator[ScriptedAnswer]:
    for number, said in enumerate(exchange.rounds):
        token = f"{exchange.token}.{number}"
        if said.fails == "overflow":
            yield ScriptedAnswer(error=ContextOverflowError("scripted", "s", "prompt is too long", None, None))
        elif said.fails:
            yield ScriptedAnswer(text="half an", error=ModelTransientError("scripted", "s", "it broke off"))
        calls = [
            ToolCallBlock(id=f"call-{token}-{place}", name="look", arguments={"at": f"{token}-{place}", "chars": chars})
            for place, chars in enumerate(said.results)
        ]
        yield ScriptedAnswer(text=_text(f"{token} answers", said.chars), tool_calls=calls)


async def _look(arguments: Mapping[str, Any]) -> str:
    return _text(f"{arguments['at']} shows", arguments["chars"])


def _text(token: str, chars: int) -> str:
    return f"{token} {_WORDS * (chars // len(_WORDS))}"[: max(chars, len(token))]


def _rounds(chosen: random.Random, *, overflows: bool) -> tuple[Round, ...]:
    """Return what the model does in a turn: it calls tools a few times, and answers."""
    count = chosen.randrange(_MOST_ROUNDS)
    where = chosen.randint(0, count) if overflows else None
    rounds = []
    for number in range(count + 1):
        calls = chosen.randint(1, _MOST_CALLS) if number < count else 0
        fails = "overflow" if number == where else "transient" if chosen.random() < _BREAKS_OFF else ""
        results = tuple(chosen.randint(*_RESULT_CHARS) for _ in range(calls))
        rounds.append(Round(chosen.randint(*_SAID_CHARS), results, fails))
    return tuple(rounds)


async def _at_once(seconds: float) -> None:
    """Wait for nothing."""
