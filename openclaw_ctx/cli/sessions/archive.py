"""``openclaw-ctx sessions archive``: put a session aside."""

from pathlib import Path
from typing import get_args

import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, say, say_json
from openclaw_ctx.transcript import ArchiveReason

from .sources import store_in

__all__ = ["command"]


@click.command("archive")
@click.argument("name", metavar="KEY")
@click.option(
    "--reason", type=click.Choice(get_args(ArchiveReason)), default="deleted", show_default=True, help="Why; kept."
)
@json_option
@state_option
def command(name: str, reason: ArchiveReason, as_json: bool, state_dir: Path | None) -> int:  # noqa: FBT001 -- click passes by name
    """
    Put a session aside. Its key is free, and nothing is lost: restore brings it back.

    Transcripts that the session has left behind in rotations are put aside with it.

    \b
    Example:
      openclaw-ctx sessions archive kitchen --reason reset

    Exit codes: 0 put aside, 1 there is no such session, or somebody writes it,
    2 usage.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    store = store_in(state_dir)
    key = store.find(name)
    archive = store.archive(key, reason)
    if as_json:
        say_json({"key": clean_text(key), "archive": clean_text(archive.name), "reason": reason})
    else:
        say(f"{clean_text(key)} was put aside as {clean_text(archive.name)}.")
    return 0
