"""``openclaw-ctx sessions prune``: put old sessions aside, and remove old archives."""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, complain, say, say_json
from openclaw_ctx.errors import TranscriptError
from openclaw_ctx.transcript import FileStore
from openclaw_ctx.transcript.stores.retention import Retention, Step, parse_duration, parse_size
from openclaw_ctx.transcript.stores.upkeep import carry_out, plan_prune

from .sources import store_in
from .times import as_size, print_table

__all__ = ["command"]

_EXIT_FAILED = 1
_SAYS = {
    "archive": "put aside",
    "remove-session": "remove",
    "remove-archive": "remove archive",
    "remove-superseded": "remove rotated",
    "remove-leftover": "remove leftover",
}


class _Parsed(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """Text that a parser of the library understands."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


_DURATION = _Parsed("duration", parse_duration)
_SIZE = _Parsed("size", parse_size)


@click.command("prune")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option(
    "--older-than",
    type=_DURATION,
    default="30d",
    show_default=True,
    help="Put sessions aside that were not written for so long: 30d, 12h, 2w.",
)
@click.option("--keep", type=click.IntRange(min=1), default=500, show_default=True, help="At most so many sessions.")
@click.option(
    "--archives-older-than", type=_DURATION, help="Remove what was put aside so long ago. [default: as --older-than]"
)
@click.option("--max-disk", type=_SIZE, help="What all of it may take, such as 500mb; beyond it the oldest goes.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@state_option
def command(
    dry_run: bool,  # noqa: FBT001 -- click passes by name
    older_than: timedelta,
    keep: int,
    archives_older_than: timedelta | None,
    max_disk: int | None,
    yes: bool,  # noqa: FBT001 -- as above
    as_json: bool,  # noqa: FBT001 -- as above
    state_dir: Path | None,
) -> int:
    """
    Put old sessions aside, and remove for good what was put aside long ago.

    Sessions that are being written are left alone. On a terminal it asks first;
    elsewhere it needs --yes.

    \b
    Examples:
      openclaw-ctx sessions prune --dry-run
      openclaw-ctx sessions prune --older-than 90d --max-disk 2gb --yes

    Exit codes: 0 done, or nothing to do; 1 not wanted, or something could not
    be done; 2 usage.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    store = store_in(state_dir)
    retention = Retention(
        prune_after=older_than,
        max_entries=keep,
        reset_archive_retention=archives_older_than,
        max_disk_bytes=max_disk,
    )
    steps = plan_prune(store, retention, now=datetime.now(UTC))
    if not as_json:
        _print(steps)
    failed: list[str] = []
    done = 0
    wanted = not dry_run and bool(steps)
    if wanted and not yes and (as_json or not _can_ask()):
        failed.append(complain("nobody can be asked here: say --yes, or --dry-run."))
    elif wanted and (yes or _agreed(steps)):
        done = _carry_out(store, steps, failed)
        if not as_json:
            say(f"Done: {done} of {len(steps)}.")
    elif wanted:
        return _EXIT_FAILED
    if as_json:
        say_json({"dry_run": dry_run, "done": done, "steps": [_as_json(step) for step in steps], "errors": failed})
    return _EXIT_FAILED if failed else 0


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _agreed(steps: Sequence[Step]) -> bool:
    removed = sum(step.action != "archive" for step in steps)
    question = f"Do this? {removed} of {len(steps)} are removed for good." if removed else "Do this?"
    return click.confirm(question, err=True)


def _carry_out(store: FileStore, steps: Sequence[Step], failed: list[str]) -> int:
    """Do one step after the other, whatever becomes of them; return how many are done, and add what went wrong."""
    done = 0
    for step in steps:
        try:
            carry_out(store, step)
            done += 1
        except (TranscriptError, OSError) as error:
            failed.append(complain(error))
    return done


def _print(steps: Sequence[Step]) -> None:
    if not steps:
        say("There is nothing to prune.")
        return
    rows = [(_SAYS[step.action], clean_text(step.name), as_size(step.size), clean_text(step.why)) for step in steps]
    print_table(("WHAT", "NAME", "SIZE", "WHY"), rows, right=frozenset({"SIZE"}), widest=60)
    freed = sum(step.size for step in steps if step.action != "archive")
    aside = sum(step.action == "archive" for step in steps)
    say(f"\n{aside} to put aside, {len(steps) - aside} to remove, which frees {as_size(freed)}.")


def _as_json(step: Step) -> dict[str, Any]:
    return {
        "action": step.action,
        "name": clean_text(step.name),
        "size": step.size,
        "why": clean_text(step.why),
    }
