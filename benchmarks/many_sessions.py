"""Many sessions of one host at once, with a model that takes its time."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from pathlib import Path

from openclaw_ctx.models import ScriptedAnswer, ScriptedModel

from .history import conversation
from .measure import Row, in_turn, seconds_each
from .own_time import LINE_BYTES
from .sessions_on_disk import SessionFile, session_path
from .window_engine import window_host

__all__ = ["many_at_once"]

_MODEL_SECONDS = 0.05
_WINDOW = 32_000
_LEAST_SHARE = 0.9


async def many_at_once(folder: Path, *, sessions: int, messages: int, rounds: int, turns: int) -> AsyncIterator[Row]:
    """Yield what a turn takes where so many sessions, behind so many messages each, run theirs at once."""
    keys = list(map(str, range(sessions)))
    for key in keys:
        SessionFile(messages=messages, size=messages * LINE_BYTES).write(await session_path(folder, key))
    model = ScriptedModel(ScriptedAnswer(text=said.text, delay_seconds=_MODEL_SECONDS) for said in conversation())
    texts = (said.text for said in conversation())

    async with window_host(folder, model=model, context_window=_WINDOW) as host:
        opened = [await host.session(key) for key in keys]

        async def talk(key: int) -> None:
            for text in itertools.islice(texts, turns):
                answered = await opened[key].run(text)
                assert not answered.compactions, answered  # noqa: S101 -- else the row would be about something else
                assert answered.substitution is None, answered.substitution  # noqa: S101 -- the same

        async def ours() -> float:
            began = time.perf_counter()
            await asyncio.gather(*map(talk, range(sessions)))
            await asyncio.gather(*(session.settle() for session in opened))
            seconds = seconds_each(began, turns)
            model.requests.clear()  # which it keeps for tests
            return seconds

        took = (await in_turn({"ours": ours}, rounds=rounds))["ours"]
    ideal = _MODEL_SECONDS * 1_000
    yield Row(
        work=f"a turn of each of {sessions} sessions at once, behind {messages:,} messages, window engine",
        ours_ms=took,
        peer=f"the ideal: a model that takes {ideal:g} ms",
        peer_ms=ideal,
        target=1 / _LEAST_SHARE,
        note=f"throughput: {ideal / took:.1%} of the ideal; at least {_LEAST_SHARE:.0%} are asked for",
    )
