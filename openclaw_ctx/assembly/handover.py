"""
How far each engine has been told of a session.

A small note beside the transcript: by engine id, the last entry that the
engine was handed, and in which transcript. Written after the engine has taken
what it was given, so a crash in between hands it over again rather than never;
``entry_id`` tells an engine what it has already.
"""

import json
from collections.abc import Callable, Mapping

import attrs

from openclaw_ctx.contract import EntryId, SessionId
from openclaw_ctx.log import describe_error, get_logger
from openclaw_ctx.transcript import Transcript

__all__ = ["HandOver", "Mark"]

_log = get_logger()


@attrs.frozen
class Mark:
    """The last entry that an engine was handed; ``None`` where it met an empty session."""

    session_id: SessionId
    entry_id: EntryId | None


class HandOver:
    """The marks of one session."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._marks: dict[str, Mark] = _read(transcript.note())

    def mark(self, engine_id: str) -> Mark | None:
        """Return how far the engine was told, or ``None`` for one that never met the session."""
        return self._marks.get(engine_id)

    def set(self, engine_id: str, mark: Mark) -> None:
        """Remember how far the engine has been told; whole or not at all."""
        if self._marks.get(engine_id) != mark:
            self._marks[engine_id] = mark
            self._write()

    def follow(self, newest_of: Callable[[EntryId], EntryId]) -> None:
        """Move every mark to the entry that stands for its own, after entries have been written again."""
        moved = {
            name: Mark(mark.session_id, None if mark.entry_id is None else newest_of(mark.entry_id))
            for name, mark in self._marks.items()
        }
        if moved != self._marks:
            self._marks = moved
            self._write()

    def _write(self) -> None:
        rows = {name: {"sessionId": m.session_id, "entryId": m.entry_id} for name, m in self._marks.items()}
        try:
            self._transcript.set_note(json.dumps({"version": 1, "engines": rows}).encode())
        except OSError as error:
            # The turn goes on: an engine that is told twice can bear it, and after a restart it may be.
            _log.warning("handover.unwritten", path=str(self._transcript.path), reason=describe_error(error))


def _read(note: bytes | None) -> dict[str, Mark]:
    # One that makes no sense counts as none: the engine is told again, which it can bear.
    try:
        rows = json.loads(note or b"{}")["engines"]
        return {str(name): _mark(row) for name, row in rows.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _mark(row: Mapping[str, object]) -> Mark:
    entry_id = row["entryId"]
    return Mark(SessionId(str(row["sessionId"])), None if entry_id is None else EntryId(str(entry_id)))
