"""``openclaw-ctx sessions restore``: bring an archive back."""

from collections.abc import Sequence
from pathlib import Path

import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, complain, say, say_json
from openclaw_ctx.contract import SessionKey
from openclaw_ctx.transcript import Archive

from .sources import store_in

__all__ = ["command"]

_EXIT_FAILED = 1


@click.command("restore")
@click.argument("name", metavar="ARCHIVE")
@click.option("--key", help="The key to bring it back under. [default: the one that it had]")
@json_option
@state_option
def command(name: str, key: str | None, as_json: bool, state_dir: Path | None) -> int:  # noqa: FBT001 -- click passes by name
    """
    Bring an archived session back.

    ARCHIVE is its name, as list --archived shows it, or the key of the only one
    that was put aside under it.

    \b
    Example:
      openclaw-ctx sessions restore kitchen --key kitchen-before

    Exit codes: 0 restored, 1 there is no such archive, or the key is taken,
    2 usage.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    if key is not None and not key.strip():
        problem = "a session's key is not blank."
        raise click.BadParameter(problem, param_hint="--key")
    store = store_in(state_dir)
    found = _named(store.archives(), name)
    if len(found) != 1:
        _complain_of(name, found, folder=store.folder)
        return _EXIT_FAILED
    archive = found[0]
    info = store.restore(archive.name, key=None if key is None else SessionKey(key))
    if as_json:
        data = {"archive": archive.name, "key": info.key, "messages": info.messages, "path": str(info.path)}
        say_json({name: clean_text(value) if isinstance(value, str) else value for name, value in data.items()})
    else:
        noun = "message" if info.messages == 1 else "messages"
        say(f"{clean_text(info.key)} is back, with {info.messages:,} {noun}.")
    return 0


def _named(archives: Sequence[Archive], name: str) -> Sequence[Archive]:
    by_name = [archive for archive in archives if archive.name == name]
    of_key = [archive for archive in archives if archive.key == name]
    # What a rotation left behind was put aside with the transcript that goes on from it.
    former = {archive.previous for archive in of_key}
    return by_name or [archive for archive in of_key if archive.file not in former] or of_key


def _complain_of(name: str, found: Sequence[Archive], *, folder: Path) -> None:
    if not found:
        shown = "'openclaw-ctx sessions list --archived' shows what there is."
        complain(f"There is no archive {name!r} in {str(folder)!r}. {shown}")
        return
    names = "\n".join(f"  {archive.name}" for archive in found)
    complain(f"{len(found)} archives were put aside as {name!r}; say which, the newest is the last:\n{names}")
