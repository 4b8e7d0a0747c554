"""
How far each engine has been told of a session, and memory been flushed.

A small note beside the transcript: by engine id, the last entry that the
engine was handed, and in which transcript; and the compaction behind which
memory was flushed. Written after the engine has taken
what it was given, so a crash in between hands it over again rather than never;
``entry_id`` tells an engine what it has already.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

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
        note = _loaded(transcript.note())
        self._marks: dict[str, Mark] = _marks(note)
        self._flushed: Mark | None = _flushed(note)

    def mark(self, engine_id: str) -> Mark | None:
        """Return how far the engine was told, or ``None`` for one that never met the session."""
        return self._marks.get(engine_id)

    def set(self, engine_id: str, mark: Mark) -> None:
        """Remember how far the engine has been told; whole or not at all."""
        if self._marks.get(engine_id) != mark:
            self._marks[engine_id] = mark
            self._write()

    @property
    def flushed_behind(self) -> tuple[EntryId | None] | None:
        """The compaction, if any, behind which memory was flushed; ``None``: it never was."""
        flushed = self._flushed
        if flushed is None or (flushed.entry_id is None and flushed.session_id != self._transcript.session_id):
            return None  # of a session that was put aside
        return (flushed.entry_id,)

    def note_flush(self) -> None:
        """Remember that memory has been flushed since the last compaction."""
        self._flushed = Mark(self._transcript.session_id, self._transcript.boundary_id)
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
        note: dict[str, object] = {"version": 1, "engines": {name: _row(mark) for name, mark in self._marks.items()}}
        if self._flushed is not None:
            note["flushed"] = _row(self._flushed)
        try:
            self._transcript.set_note(json.dumps(note).encode())
        except OSError as error:
            # The turn goes on: an engine that is told twice can bear it, and after a restart it may be.
            _log.warning("handover.unwritten", path=str(self._transcript.path), reason=describe_error(error))


def _loaded(note: bytes | None) -> object:
    # One that makes no sense counts as none: the engine is told again, which it can bear.
    try:
        return json.loads(note or b"{}")
    except ValueError:
        return {}


def _marks(note: Any) -> dict[str, Mark]:
    try:
        return {str(name): _mark(row) for name, row in note["engines"].items()}
    except (KeyError, TypeError, AttributeError):
        return {}


def _flushed(note: Any) -> Mark | None:
    try:
        return _mark(note["flushed"])
    except (KeyError, TypeError):
        return None


def _row(mark: Mark) -> dict[str, str | None]:
    return {"sessionId": mark.session_id, "entryId": mark.entry_id}


def _mark(row: Mapping[str, object]) -> Mark:
    entry_id = row["entryId"]
    return Mark(SessionId(str(row["sessionId"])), None if entry_id is None else EntryId(str(entry_id)))
