"""``openclaw-ctx sessions repair``: a copy of a damaged session without its damage."""

import contextlib
from pathlib import Path

import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, say, say_json
from openclaw_ctx.errors import TranscriptFormatError
from openclaw_ctx.transcript.mend import Mended, mend_file

from .sources import is_own, means_file, store_in

__all__ = ["command"]


@click.command("repair")
@click.argument("name", metavar="KEY|FILE")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the copy. [default: <name>.repaired.jsonl, beside a file, else here]",
)
@click.option("--apply", "in_place", is_flag=True, help="Put it in the session's place; the old file is put aside.")
@json_option
@state_option
def command(name: str, output: Path | None, in_place: bool, as_json: bool, state_dir: Path | None) -> int:  # noqa: FBT001 -- click passes by name
    """
    Write a repaired copy of a damaged session, and say what was done to it.

    The session itself stays as it is; --apply puts the copy in its place, and the
    old file aside, from where restore brings it back. What was said is kept; a
    session of another program is to be imported instead.

    \b
    Examples:
      openclaw-ctx sessions repair kitchen --apply
      openclaw-ctx sessions repair broken.jsonl -o whole.jsonl

    Exit codes: 0 repaired, or nothing to repair; 1 it failed; 2 usage.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    is_file = means_file(name)
    if in_place and (is_file or output is not None):
        problem = "it puts a session of the store in its place: name its key, and no -o."
        raise click.BadParameter(problem, param_hint="--apply")
    if in_place:
        store = store_in(state_dir)
        key = store.find(name)
        mended, archive = store.repair(key)
        _tell(key, mended, None if archive is None else f"put aside as {archive.name}", None, as_json=as_json)
        return 0
    path, default = Path(name), Path(name).with_name(f"{Path(name).stem}.repaired.jsonl")
    if not is_file:
        store = store_in(state_dir)
        with contextlib.closing(store.read(store.find(name))) as transcript:
            path = transcript.path
        default = Path(f"{path.stem}.repaired.jsonl")
    elif not is_own(path) and not _could_be_own(path):
        raise TranscriptFormatError(name, "it is another program's; 'openclaw-ctx sessions import' takes those.")
    mended = mend_file(path)
    target = output or default
    if mended.done:
        mended.write(target)
    _tell(name, mended, None, target if mended.done else None, as_json=as_json)
    return 0


def _could_be_own(path: Path) -> bool:
    """Return whether no importer of another program takes the file, which may be ours without its first line."""
    from openclaw_ctx.errors import TranscriptError  # noqa: PLC0415 -- these three are needed for odd files alone
    from openclaw_ctx.transcript.importers import import_session  # noqa: PLC0415

    try:
        return import_session(path).format == "pi"
    except TranscriptError:
        return True


def _tell(name: str, mended: Mended, aside: str | None, target: Path | None, *, as_json: bool) -> None:
    if as_json:
        say_json(
            {
                "name": clean_text(name),
                "entries": mended.entries,
                "done": [clean_text(phrase) for phrase in mended.done],
                "written": None if target is None else clean_text(str(target)),
                "aside": None if aside is None else clean_text(aside),
            }
        )
        return
    if not mended.done:
        say(f"{clean_text(name)}: nothing to repair.")
        return
    say(f"{clean_text(name)}: {mended.entries:,} entries.")
    for phrase in mended.done:
        say(f"  {clean_text(phrase)}")
    say(
        f"Written to {clean_text(str(target))}."
        if target is not None
        else f"The old file was {clean_text(aside or '')}."
    )
