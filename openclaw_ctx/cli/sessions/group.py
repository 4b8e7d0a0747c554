"""The group of the commands about sessions."""

from typing import Final

import click

from openclaw_ctx.cli.lazy import LazyGroup

__all__ = ["command"]

_COMMANDS: Final = {
    "list": ("openclaw_ctx.cli.sessions.list_them", "List sessions, or what was put aside."),
    "show": ("openclaw_ctx.cli.sessions.show", "Print the end of a conversation, or all of it."),
    "tree": ("openclaw_ctx.cli.sessions.tree", "Draw a session's branches."),
    "export": ("openclaw_ctx.cli.sessions.export", "Write a session to a file of its own."),
    "import": ("openclaw_ctx.cli.sessions.import_files", "Make sessions of recorded files, of other programs too."),
    "verify": ("openclaw_ctx.cli.sessions.verify", "Check sessions or files, line by line."),
    "repair": ("openclaw_ctx.cli.sessions.repair", "Write a repaired copy of a damaged session."),
    "compact": ("openclaw_ctx.cli.sessions.compact", "Make a session's context smaller."),
    "archive": ("openclaw_ctx.cli.sessions.archive", "Put a session aside; its key is free."),
    "restore": ("openclaw_ctx.cli.sessions.restore", "Bring an archived session back."),
    "prune": ("openclaw_ctx.cli.sessions.prune", "Put old sessions aside, and remove old archives."),
}


@click.group("sessions", cls=LazyGroup, modules=_COMMANDS)
def command() -> None:
    """
    List, read, check, move and put aside sessions.

    A session goes by its key, its id or the beginning of that, or its file's
    name; most commands take the path of a file instead, in any format that
    replay knows.

    \b
    Examples:
      openclaw-ctx sessions list
      openclaw-ctx sessions show kitchen -n 5
      openclaw-ctx sessions verify

    Exit codes: 0 done, 1 something is wrong or failed, 2 usage, 3 a file is no
    session.
    """  # noqa: D301 -- click keeps the lines below a real backspace
