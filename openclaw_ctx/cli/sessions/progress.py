"""How far a long piece of work has come, on a terminal only."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from openclaw_ctx.log import clean_text

__all__ = ["Track", "progress"]

_T = TypeVar("_T")


class Track(Protocol):
    """Passes things on one by one, and shows how many have passed."""

    def __call__(self, things: Iterable[_T], total: int) -> Iterable[_T]:
        """Return *things*, of which there are *total*."""


@contextmanager
def progress(name: str, *, quiet: bool) -> Iterator[Track]:
    """
    Show that work on *name* goes on, on stderr and only where that is a terminal.

    What is said to stdout meanwhile would stand in its way.
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield _pass_on
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(clean_text(name, limit=40), total=None)

        def track(things: Iterable[_T], total: int) -> Iterable[_T]:
            return bar.track(things, total=total, task_id=task)

        yield track


def _pass_on(things: Iterable[_T], total: int) -> Iterable[_T]:  # noqa: ARG001 -- nobody looks on
    return things
