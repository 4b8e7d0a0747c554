"""``openclaw-ctx sessions import``: sessions of recorded files."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, complain, say, say_json
from openclaw_ctx.contract import JSON, SessionKey
from openclaw_ctx.errors import SessionNotFoundError, TranscriptError, UnknownFormatError
from openclaw_ctx.transcript import FileStore, SessionInfo, Transcript, lines_of
from openclaw_ctx.transcript.importers import import_session
from openclaw_ctx.transcript.verify import verify_file

from .sources import OWN_FORMAT, is_own, store_in

__all__ = ["command"]

_EXIT_FAILED, _EXIT_NO_SESSION = 1, 3


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--key", help="The new session's key, for one file. [default: import:<name of the file>]")
@click.option("--format", "format_name", default="auto", show_default=True, help="Format of the files.")
@json_option
@state_option
def command(
    files: tuple[Path, ...],
    key: str | None,
    format_name: str,
    as_json: bool,  # noqa: FBT001 -- click passes by name
    state_dir: Path | None,
) -> int:
    """
    Make a session of each recorded file, of other programs too; each whole, or not at all.

    A file of ours, OpenClaw's or pi's keeps its branches, ids and lines.

    \b
    Example:
      openclaw-ctx sessions import ~/.codex/sessions/rollout.jsonl --key refactoring

    Exit codes: 0 all are imported, 1 one failed, or its key is taken, 2 usage,
    3 a file is no session that is known. The other files are imported all the same.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    if key is not None and len(files) > 1:
        problem = "one key is for one file."
        raise click.BadParameter(problem, param_hint="--key")
    store = store_in(state_dir)
    code = 0
    done: list[dict[str, Any]] = []
    problems: list[str] = []
    for path, name in zip(files, _keys(files, key), strict=True):
        try:
            format_of, info, skipped = _import(store, path, SessionKey(name), format_name)
        except (TranscriptError, OSError) as error:
            problems.append(complain(error))
            code = max(code, _EXIT_NO_SESSION if isinstance(error, UnknownFormatError) else _EXIT_FAILED)
            continue
        done.append(_as_json(path, info, format_of, skipped))
        if not as_json:
            say(f"{clean_text(info.key)}: {info.messages:,} messages of {clean_text(str(path))} ({format_of}).")
            for line in skipped:
                say(f"  skipped {clean_text(line)}")
    if as_json:
        say_json({"imported": done, "errors": problems})
    return code


def _keys(files: tuple[Path, ...], key: str | None) -> Iterator[str]:
    seen: dict[str, int] = {}
    for path in files:
        stem = path.stem
        seen[stem] = seen.get(stem, 0) + 1
        yield key or (f"import:{stem}" if seen[stem] == 1 else f"import:{stem}-{seen[stem]}")


def _import(
    store: FileStore, path: Path, key: SessionKey, format_name: str
) -> tuple[str, SessionInfo, tuple[str, ...]]:
    if is_own(path) and format_name == "auto":
        with contextlib.closing(Transcript.read(path)) as transcript:
            header: Mapping[str, JSON] = transcript.header
            lines = [data for _, data in transcript.entries()]
            skipped = tuple(transcript.take_warnings())
        info = store.create(
            key, lines, header={**header, "id": _free_id(store, header.get("id")), "parentSession": None}
        )
        return OWN_FORMAT, info, skipped
    imported = import_session(path, format_name)
    header = {"id": _free_id(store, imported.session_id), "cwd": imported.cwd}
    info = store.create(key, tuple(lines_of(imported.messages)), header=header)
    return imported.format, info, tuple(imported.skipped)


def _doubts(path: Path) -> tuple[str, ...]:
    errors = [finding for finding in verify_file(path).findings if finding.level == "error"]
    if not errors:
        return ()
    return (f"nothing, but {len(errors)} things are wrong with it: 'openclaw-ctx sessions repair' makes a whole copy",)


def _free_id(store: FileStore, session_id: JSON) -> str | None:
    """Return the id that a source gave its session; ``None``, for a fresh one, where another session has it."""
    if not isinstance(session_id, str) or not session_id:
        return None
    with contextlib.suppress(SessionNotFoundError):
        store.find(session_id)
        return None
    return session_id


def _as_json(path: Path, info: SessionInfo, format_of: str, skipped: tuple[str, ...]) -> dict[str, Any]:
    return {
        "file": clean_text(str(path)),
        "format": format_of,
        "key": clean_text(info.key),
        "session_id": clean_text(info.session_id),
        "messages": info.messages,
        "skipped": [clean_text(line) for line in skipped],
    }
