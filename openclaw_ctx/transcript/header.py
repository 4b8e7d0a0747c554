"""What a transcript begins with: who it is, since when, and what it goes on from."""

import contextlib
import os
import secrets
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Final

from openclaw_ctx.contract import JSON, SessionId, SessionKey

from .load import VERSION

__all__ = ["iso_time", "new_header", "new_session_id"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def new_header(
    *,
    session_id: SessionId | None = None,
    cwd: str | None = None,
    key: SessionKey | None = None,
    parent: str | None = None,
    forked_from: SessionKey | None = None,
) -> dict[str, JSON]:
    """
    Return the first line of a new transcript.

    Args:
        session_id: A fresh one by default.
        cwd: The folder that the session works in; the process's by default.
        key: The session key, by which an index is made again that was lost.
        parent: The transcript that this one goes on from.
        forked_from: The key of the session that this one branches off.
    """
    folder = os.getcwd() if cwd is None else cwd  # noqa: PTH109 -- text goes into the header
    return {
        "type": "session",
        "version": VERSION,
        "id": session_id or new_session_id(),
        "timestamp": iso_time(),
        "cwd": folder,
        **({} if key is None else {"sessionKey": key}),
        **({} if parent is None else {"parentSession": parent}),
        **({} if forked_from is None else {"forkedFrom": forked_from}),
    }


def new_session_id() -> SessionId:
    """Return a UUID of version 7: its order is that of time."""
    stamp = (time.time_ns() // 1_000_000) & ((1 << 48) - 1)
    value = (stamp << 80) | (0x7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return SessionId(str(uuid.UUID(int=value)))


def iso_time(milliseconds: float | None = None) -> str:
    """Return a moment, now by default, as lines have it; one that no calendar has is now too."""
    moment = datetime.now(UTC)
    if milliseconds is not None:
        with contextlib.suppress(OverflowError, ValueError):
            moment = _EPOCH + timedelta(milliseconds=int(milliseconds))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
