"""``openclaw-ctx sessions export``: a session as a file of its own."""

import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from openclaw_ctx.cli.options import state_option
from openclaw_ctx.cli.speech import clean_text, say, warn
from openclaw_ctx.transcript.export import FORMATS, export

from .sources import Source, open_source

__all__ = ["command"]

_STANDARD_OUTPUT: Final = "-"


@click.command("export")
@click.argument("name", metavar="KEY|FILE")
@click.option("-o", "--output", default=_STANDARD_OUTPUT, metavar="FILE", help="Where to; - is standard output.")
@click.option("--format", "format_name", type=click.Choice(sorted(FORMATS)), default="jsonl", show_default=True)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@state_option
def command(name: str, output: str, format_name: str, force: bool, state_dir: Path | None) -> None:  # noqa: FBT001 -- click passes by name
    """
    Write a session to a file of its own, or to standard output.

    jsonl is the session as it is, with every branch, and import takes it back;
    json the messages of the active branch; markdown the same to be read.

    \b
    Examples:
      openclaw-ctx sessions export kitchen -o kitchen.jsonl
      openclaw-ctx sessions export kitchen --format markdown | less

    Exit codes: 0 written, 1 it could not be, 2 usage, 3 a file is no session
    that is known.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    with open_source(name, state_dir) as source:
        pieces = export(source.transcript, format_name)
        if output == _STANDARD_OUTPUT:
            _print(pieces)
        else:
            _write(pieces, Path(output), source, force=force)
        warn(source.left_out())
    if output != _STANDARD_OUTPUT:
        say(f"Written to {clean_text(output)}.", error=True)


def _print(pieces: Iterable[bytes]) -> None:
    # Bytes, since a file of ours has to come out as it is; a terminal gets no foreign control characters.
    if sys.stdout.isatty():
        for piece in pieces:
            for line in piece.decode("utf-8", "replace").removesuffix("\n").split("\n"):
                say(clean_text(line, limit=len(line) * 8 + 80))
        return
    sys.stdout.buffer.writelines(pieces)
    sys.stdout.buffer.flush()


def _write(pieces: Iterable[bytes], path: Path, source: Source, *, force: bool) -> None:
    """Write a file whole, or not at all, once it is sure that nothing is lost by it; into a pipe or device at once."""
    if not path.absolute().parent.is_dir():
        _refuse(f"{str(path.parent)!r} is no folder.")
    if _takes_a_stream(path):
        with path.open("wb") as stream:
            stream.writelines(pieces)
        return
    if path.is_dir():
        _refuse(f"{str(path)!r} is a folder; name a file in it.")
    if not force and os.path.lexists(path):
        _refuse(f"{str(path)!r} exists; name another file, or say --force.")
    if path.exists() and source.transcript.path.exists() and path.samefile(source.transcript.path):
        _refuse(f"{str(path)!r} is the session itself; name another file.")
    from openclaw_ctx.transcript.stores.whole_file import write_pieces_to  # noqa: PLC0415 -- needed for a file alone

    write_pieces_to(path, pieces)


def _refuse(problem: str) -> None:
    raise click.BadParameter(problem, param_hint="--output")


def _takes_a_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)
