"""``openclaw-ctx sessions restore``: bring an archive back."""

from pathlib import Path

import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, say, say_json
from openclaw_ctx.contract import SessionKey
from openclaw_ctx.errors import SessionNotFoundError
from openclaw_ctx.transcript import FileStore

from .sources import store_in

__all__ = ["command"]


@click.command("restore")
@click.argument("name", metavar="ARCHIVE")
@click.option("--key", help="The key to bring it back under. [default: the one that it had]")
@json_option
@state_option
def command(name: str, key: str | None, as_json: bool, state_dir: Path | None) -> int:  # noqa: FBT001 -- click passes by name
    """
    Bring an archived session back. ARCHIVE is its name, or the key of the only one that was put aside under it.

    \b
    Example:
      openclaw-ctx sessions restore kitchen --key kitchen-before

    Exit codes: 0 restored, 1 there is no such archive, or the key is taken,
    2 usage.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    store = store_in(state_dir)
    info = store.restore(_archive_named(store, name), key=None if key is None else SessionKey(key))
    if as_json:
        say_json({"key": clean_text(info.key), "messages": info.messages, "path": clean_text(str(info.path))})
    else:
        say(f"{clean_text(info.key)} is back, with {info.messages:,} messages.")
    return 0


def _archive_named(store: FileStore, name: str) -> str:
    archives = store.archives()
    if any(archive.name == name for archive in archives):
        return name
    of_key = [archive.name for archive in archives if archive.key == name]
    if len(of_key) != 1:
        raise SessionNotFoundError(name, str(store.folder), of_key)
    return of_key[0]
