"""``openclaw-ctx sessions import``: sessions of recorded files."""

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

from openclaw_ctx.cli.formats import check_format
from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, complain, say, say_json
from openclaw_ctx.contract import JSON, SessionKey
from openclaw_ctx.errors import TranscriptError, TranscriptFormatError, UnknownFormatError
from openclaw_ctx.transcript import FileStore, SessionInfo, Transcript, lines_as_read, lines_of
from openclaw_ctx.transcript.importers import FORMATS, import_session

from .progress import Track, progress
from .sources import OWN_FORMAT, begun_at, is_own, store_in

__all__ = ["command"]

_EXIT_FAILED, _EXIT_NO_SESSION = 1, 3
_AUTO: Final = "auto"
# What an importer takes for messages alone is a tree that we read as it is.
_OURS: Final = frozenset({_AUTO, "pi"})


@attrs.frozen(kw_only=True)
class _Imported:
    path: Path
    format: str
    info: SessionInfo
    skipped: Sequence[str]


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--key", help="The new session's key, for one file. [default: import:<name of the file>]")
@click.option(
    "--format", "format_", default=_AUTO, metavar="NAME",
    help=f"Format of the files: auto, {', '.join(sorted(FORMATS))}, or one that a plugin adds. [default: auto]",
)  # fmt: skip
@json_option
@state_option
def command(
    files: tuple[Path, ...],
    key: str | None,
    format_: str,
    as_json: bool,  # noqa: FBT001 -- click passes by name
    state_dir: Path | None,
) -> int:
    """
    Make a session of each recorded file, of other programs too; each whole, or not at all.

    A file of ours, OpenClaw's or pi's keeps its branches, ids and lines. A
    session keeps its id, unless another has it.

    \b
    Example:
      openclaw-ctx sessions import ~/.codex/sessions/rollout.jsonl --key redo

    Exit codes: 0 all are imported, 1 one failed, or its key is taken, 2 usage,
    3 a file is no session that is known. The other files are imported all the same.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    check_format(format_)
    # A file that is named twice, by a link too, is one file.
    named: dict[str, Path] = {}
    for path in files:
        named.setdefault(os.path.realpath(path), path)
    paths = list(named.values())
    if key is not None and (len(paths) > 1 or not key.strip()):
        problem = "one key is for one file." if len(paths) > 1 else "a key is not blank."
        raise click.BadParameter(problem, param_hint="--key")
    store = store_in(state_dir)
    code = 0
    done: list[_Imported] = []
    problems: list[str] = []
    for path, name in zip(paths, [key] if key is not None else _keys(paths), strict=True):
        try:
            with progress(path.name, quiet=as_json) as track:
                imported = _import(store, path, SessionKey(name), format_, track)
        except (TranscriptError, OSError) as error:
            problems.append(complain(error))
            is_none = isinstance(error, UnknownFormatError | TranscriptFormatError)
            code = max(code, _EXIT_NO_SESSION if is_none else _EXIT_FAILED)
            continue
        done.append(imported)
        if not as_json:
            _tell(imported)
    if as_json:
        say_json({"imported": [_as_json(imported) for imported in done], "errors": problems})
    return code


def _keys(paths: Sequence[Path]) -> Iterator[str]:
    """Yield a key for each file, none twice; of those with one name the later ones are numbered."""
    stems = {path.stem for path in paths}
    taken: set[str] = set()
    for path in paths:
        numbered = (f"{path.stem}-{number}" for number in itertools.count(2))
        free = (stem for stem in numbered if stem not in taken and stem not in stems)
        stem = path.stem if path.stem not in taken else next(free)
        taken.add(stem)
        yield f"import:{stem}"


def _import(store: FileStore, path: Path, key: SessionKey, format_: str, track: Track) -> _Imported:
    source = Path(os.path.realpath(path))  # a store follows no links; whoever names one means what it leads to
    if format_ in _OURS and is_own(source):
        with contextlib.closing(Transcript.read(source)) as transcript:
            header = transcript.header
            entries = [entry for entry, _ in transcript.entries()]
            lines = lines_as_read(entries, transcript.lines())
            info = store.create(
                key,
                track(lines, len(entries)),
                header={
                    "id": _free_id(store, header.get("id")),
                    "timestamp": header.get("timestamp"),
                    "cwd": header.get("cwd"),
                },
            )
            return _Imported(path=path, format=OWN_FORMAT, info=info, skipped=transcript.take_warnings())
    found = import_session(source, format_)
    made = {"id": _free_id(store, found.session_id), "cwd": found.cwd, "timestamp": begun_at(found.messages)}
    info = store.create(key, track(lines_of(found.messages), len(found.messages)), header=made)
    return _Imported(path=path, format=found.format, info=info, skipped=found.skipped)


def _free_id(store: FileStore, session_id: JSON) -> str | None:
    """Return the id that a source gave its session; ``None``, for a fresh one, where another session has it."""
    if not isinstance(session_id, str) or not session_id:
        return None
    return None if any(info.session_id == session_id for info in store.glance()) else session_id


def _tell(imported: _Imported) -> None:
    messages, source = f"{imported.info.messages:,}", clean_text(str(imported.path))
    say(f"{clean_text(imported.info.key)}: {messages} messages of {source} ({clean_text(imported.format)}).")
    for line in imported.skipped:
        say(f"  {clean_text(line)}")


def _as_json(imported: _Imported) -> dict[str, Any]:
    return {
        "file": clean_text(str(imported.path)),
        "format": clean_text(imported.format),
        "key": clean_text(imported.info.key),
        "session_id": clean_text(imported.info.session_id),
        "messages": imported.info.messages,
        "skipped": [clean_text(line) for line in imported.skipped],
    }
