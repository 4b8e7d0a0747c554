"""Invented replays of any size, and a terminal that is a string."""

import io
import random
from collections.abc import Callable

import pytest
from rich.console import Console

from openclaw_ctx.replay.measures import Call, Run


def _make_run(
    *,
    calls: int,
    engine: str = "window",
    budget: int | None = 8_000,
    answered_by: str | None = None,
    substitution: str | None = None,
    calls_per_turn: int = 4,
    hooks: tuple[str, ...] = ("assemble", "after_turn"),
    most_tokens: int | None = None,
) -> Run:
    chance = random.Random(f"{engine!a} {budget} {calls}")  # noqa: S311 -- invented numbers, the same ones each time
    made = []
    for number in range(1, calls + 1):
        messages = 2 * number
        summarised = chance.randint(0, messages)
        kept = chance.randint(0, messages - summarised)
        made.append(
            Call(
                turn=(number - 1) // calls_per_turn + 1,
                call=number,
                prompt_tokens=chance.randint(100, most_tokens or 7_999),
                budget=budget,
                kept=kept,
                left_out=messages - summarised - kept,
                summarised=summarised,
                compactions=int(chance.random() < 0.1),
                milliseconds={hook: chance.random() * 3 for hook in hooks},
                engine=answered_by or engine,
            )
        )
    return Run(
        engine=engine,
        budget=budget,
        calls=tuple(made),
        turns=made[-1].turn if made else 0,
        messages=2 * calls,
        substitution=substitution,
        repairs=0,
        seconds=calls / 100,
    )


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Run]:
    """Return what invents a run of so many calls."""
    return _make_run


@pytest.fixture(scope="session")
def terminal() -> Callable[..., Console]:
    """Return what makes a console of so many columns; ``console.file.getvalue()`` is what it shows."""

    def make(width: int = 80, *, colour: bool = False, encoding: str = "utf-8") -> Console:
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding) if encoding != "utf-8" else io.StringIO()
        return Console(file=stream, width=width, force_terminal=colour, color_system="truecolor" if colour else None)

    return make
