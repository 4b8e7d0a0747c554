"""``openclaw-ctx sessions list``: every session, and what was put aside."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from openclaw_ctx.cli.options import json_option, state_option
from openclaw_ctx.cli.speech import clean_text, say, say_json
from openclaw_ctx.transcript import Archive, SessionInfo

from .sources import store_in
from .times import as_ago, as_size, as_time, print_table, relative_times

__all__ = ["command"]

_RIGHT: Final = frozenset({"MESSAGES", "TOKENS", "SIZE"})


@click.command("list")
@click.option("--archived", is_flag=True, help="List what was put aside.")
@json_option
@state_option
def command(archived: bool, as_json: bool, state_dir: Path | None) -> int:  # noqa: FBT001 -- click passes by name
    """
    List sessions, the one written last first.

    TOKENS is what the last prompt cost, where a host has sent one.

    \b
    Examples:
      openclaw-ctx sessions list
      openclaw-ctx sessions list --archived

    Exit codes: 0 listed, 1 the folder cannot be read, 2 usage.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    store = store_in(state_dir)
    folder = clean_text(str(store.folder))
    if archived:
        archives = store.archives()
        if as_json:
            say_json({"folder": folder, "archives": [_archive_as_json(archive) for archive in archives]})
        elif archives:
            _print_archives(archives)
        else:
            say(f"Nothing was put aside in {folder}.")
        return 0
    sessions = store.sessions()
    if as_json:
        say_json({"folder": folder, "sessions": [_as_json(info) for info in sessions]})
    elif sessions:
        _print(sessions)
    else:
        say(f"There are no sessions in {folder}.")
    return 0


def _print(sessions: Sequence[SessionInfo]) -> None:
    now = datetime.now(UTC)
    ago = relative_times()
    rows = [
        (
            clean_text(info.key),
            f"{info.messages:,}",
            "-" if info.context_tokens is None else f"{info.context_tokens:,}",
            as_size(info.size),
            as_ago(info.updated_at, now) if ago else as_time(info.updated_at),
            clean_text(info.name or ""),
        )
        for info in sessions
    ]
    print_table(("KEY", "MESSAGES", "TOKENS", "SIZE", "WRITTEN", "NAME"), rows, right=_RIGHT)


def _print_archives(archives: Sequence[Archive]) -> None:
    now = datetime.now(UTC)
    ago = relative_times()
    rows = [
        (
            clean_text(archive.key),
            archive.reason,
            as_size(archive.size),
            as_ago(archive.at, now) if ago else as_time(archive.at),
            clean_text(archive.name),
        )
        for archive in archives
    ]
    heads = ("KEY", "REASON", "SIZE", "PUT ASIDE", "ARCHIVE")
    print_table(heads, rows, right=_RIGHT, whole=frozenset({"ARCHIVE"}))  # which is typed again for restore


def _as_json(info: SessionInfo) -> dict[str, Any]:
    return {
        "key": clean_text(info.key),
        "session_id": clean_text(info.session_id),
        "name": None if info.name is None else clean_text(info.name),
        "path": clean_text(str(info.path)),
        "started_at": None if info.started_at is None else as_time(info.started_at),
        "updated_at": None if info.updated_at is None else as_time(info.updated_at),
        "messages": info.messages,
        "compactions": info.compactions,
        "context_tokens": info.context_tokens,
        "size": info.size,
        "parent": None if info.parent is None else clean_text(info.parent),
        "previous": None if info.previous is None else clean_text(info.previous),
    }


def _archive_as_json(archive: Archive) -> dict[str, Any]:
    return {
        "archive": clean_text(archive.name),
        "key": clean_text(archive.key),
        "session_id": clean_text(archive.session_id),
        "reason": archive.reason,
        "at": as_time(archive.at),
        "size": archive.size,
    }
