"""``openclaw-ctx sessions export``: a session as a file of its own."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from openclaw_ctx.cli.options import state_option
from openclaw_ctx.cli.speech import clean_text, say
from openclaw_ctx.transcript.export import FORMATS, export

from .sources import open_source

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

    Exit codes: 0 written, 1 it could not be, 2 usage, 3 a file is no session.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    with open_source(name, state_dir) as source:
        pieces = export(source.transcript, format_name)
        if output == _STANDARD_OUTPUT:
            _print(pieces)
            return
        path = Path(output)
        if not force and os.path.lexists(path):
            problem = f"{output!r} exists; name another file, or say --force."
            raise click.BadParameter(problem, param_hint="--output")
        from openclaw_ctx.transcript.whole_file import write_pieces_to  # noqa: PLC0415 -- needed for a file alone

        write_pieces_to(path, pieces)
    say(f"Written to {clean_text(output)}.", error=True)


def _print(pieces: Iterator[bytes]) -> None:
    # Bytes, since a file of ours has to come out as it is; a terminal gets no foreign control characters.
    if sys.stdout.isatty():
        for piece in pieces:
            for line in piece.decode("utf-8", "replace").removesuffix("\n").split("\n"):
                say(clean_text(line, limit=len(line) * 8 + 80))
        return
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
