"""``openclaw-ctx sessions repair``: a copy of a damaged session without its damage."""

import os
import secrets
from pathlib import Path

import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, say, say_json
from openclaw_ctx.errors import TranscriptError, TranscriptFormatError
from openclaw_ctx.transcript.checks.mend import Mended, mend_file
from openclaw_ctx.transcript.importers import import_session
from openclaw_ctx.transcript.stores.store import find_session
from openclaw_ctx.transcript.stores.whole_file import copy_file

from .progress import progress
from .sources import is_own, means_file, store_in

__all__ = ["command"]


@click.command("repair")
@click.argument("name", metavar="KEY|FILE")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the copy. [default: <name>.repaired.jsonl in the current folder]",
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
        key = find_session(store.glance(), name, where=str(store.folder))
        with progress(name, quiet=as_json):
            mended, archive = store.repair(key)
        _tell(name, mended, aside=None if archive is None else archive.name, as_json=as_json)
        return 0
    path = Path(os.path.realpath(name)) if is_file else _path_of(name, state_dir)
    target = output or Path(Path(name if is_file else path.name).with_suffix(".repaired.jsonl").name)
    with progress(name, quiet=as_json):
        mended = _mended(name, path) if is_file else mend_file(path)
        if mended.done:
            _write(mended, target)
    _tell(name, mended, target=target if mended.done else None, as_json=as_json)
    return 0


def _path_of(name: str, state_dir: Path | None) -> Path:
    """Return the transcript of a session of the store."""
    store = store_in(state_dir)
    sessions = store.glance()
    key = find_session(sessions, name, where=str(store.folder))
    return next(info.path for info in sessions if info.key == key)


def _mended(name: str, path: Path) -> Mended:
    """
    Return a file's repair.

    Raises:
        TranscriptFormatError: It is another program's, or no session at all.
    """
    if is_own(path):
        return mend_file(path)
    if not path.is_file():
        raise TranscriptFormatError(name, "it is not a plain file, which alone is ever read.")
    # It may be ours all the same, without its first line.
    try:
        is_foreign = import_session(path).format != "pi"
    except TranscriptError:
        is_foreign = False
    if is_foreign:
        raise TranscriptFormatError(name, "it is another program's; 'openclaw-ctx sessions import' takes those.")
    mended = mend_file(path)
    if not mended.entries:
        raise TranscriptFormatError(name, "nothing of a session is in it.")
    return mended


def _write(mended: Mended, target: Path) -> None:
    """Write a repaired copy: whole, or not at all, and over nothing."""
    if os.path.lexists(target):
        problem = f"{str(target)!r} exists; name another file."
        raise click.BadParameter(problem, param_hint="--output")
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        mended.write(temporary)
        copy_file(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _tell(
    name: str, mended: Mended, *, target: Path | None = None, aside: str | None = None, as_json: bool = False
) -> None:
    if as_json:
        say_json(
            {
                "session": clean_text(name),
                "entries": mended.entries,
                "done": [clean_text(phrase) for phrase in mended.done],
                "written": None if target is None else clean_text(str(target)),
                "archive": None if aside is None else clean_text(aside),
            }
        )
        return
    if not mended.done:
        say(f"{clean_text(name)}: nothing to repair.")
        return
    say(f"{clean_text(name)}: {mended.entries:,} entries.")
    for phrase in mended.done:
        say(f"  {clean_text(phrase)}")
    if target is not None:
        say(f"Written to {clean_text(str(target))}.")
    if aside is not None:
        say(f"The old file was put aside as {clean_text(aside)}.")
