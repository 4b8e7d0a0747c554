"""
What a store of sessions does, whatever it is made of.

A store knows sessions by key. What it opens is a :class:`~.transcript.Transcript`,
over a :class:`~.record.Record` of its own. Everything above a store is written
against these two, and a store that keeps the promises below needs nothing
changed there.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

import attrs

from openclaw_ctx.contract import JSON, EntryId, SessionId, SessionKey
from openclaw_ctx.errors import SessionNotFoundError
from openclaw_ctx.transcript.lines import Line
from openclaw_ctx.transcript.transcript import Transcript

__all__ = ["Archive", "ArchiveReason", "Rotation", "SessionInfo", "SessionStore", "find_session"]

_LEAST_ID_CHARS: Final = 4

ArchiveReason: TypeAlias = Literal["bak", "reset", "deleted"]
"""Why a transcript was put aside: before a repair, for a new beginning, or for good."""


@attrs.frozen(kw_only=True)
class SessionInfo:
    """
    One session, as a list of them shows it.

    Attributes:
        path: Where its transcript is; a name that no file has where the store keeps no files.
        name: The title that the user gave it.
        started_at: When the transcript was begun.
        updated_at: When it was last written.
        messages: How many are on the active branch, summarised ones too.
        compactions: How many boundaries are on the active branch.
        context_tokens: What the last prompt cost, where a host has said.
        size: Bytes of the transcript.
        parent: The key of the session that it was forked from.
        previous: The transcript that this one goes on from: a rotation's or a fork's.
    """

    key: SessionKey
    session_id: SessionId
    path: Path
    name: str | None = None
    started_at: datetime | None = None
    updated_at: datetime | None = None
    messages: int = 0
    compactions: int = 0
    context_tokens: int | None = None
    size: int = 0
    parent: SessionKey | None = None
    previous: str | None = None


@attrs.frozen(kw_only=True)
class Archive:
    """
    A transcript that was put aside, and can be restored.

    Attributes:
        name: Names it within its store.
        key: Whose it was.
        file: What the transcript was called.
        previous: The transcript that it went on from.
    """

    name: str
    key: SessionKey
    session_id: SessionId
    reason: ArchiveReason
    at: datetime
    size: int
    file: str = ""
    previous: str | None = None


@attrs.frozen(kw_only=True)
class Rotation:
    """
    What a rotation came to.

    Attributes:
        reason: Why nothing was done, where ``rotated`` is false.
        compaction_entry_id: The boundary that the successor begins at.
        entries_written: Lines of the successor, its header aside.
        entries_left: Lines that stay in the old transcript alone.
    """

    rotated: bool
    reason: str | None = None
    session_id: SessionId | None = None
    path: Path | None = None
    compaction_entry_id: EntryId | None = None
    leaf_id: EntryId | None = None
    entries_written: int = 0
    entries_left: int = 0


class SessionStore(Protocol):
    """
    Sessions by key. What changes one is whole or not at all, whatever it is cut off by.

    Everything that writes takes the session's lock, and raises
    ``SessionBusyError`` where somebody else has it; nothing here waits.
    """

    def open(self, key: SessionKey, *, cwd: str | None = None) -> Transcript:
        """Open a session for writing; begin it where there is none. One writer at a time."""

    def read(self, key: SessionKey) -> Transcript:
        """
        Open a session for reading, as it is now, whoever writes it.

        Raises:
            SessionNotFoundError: There is none.
        """

    def sessions(self) -> Sequence[SessionInfo]:
        """Return every session, the one written last first."""

    def find(self, name: str) -> SessionKey:
        """
        Return the key of the session that a person means: its key, its id or the beginning of that, its file's name.

        Raises:
            SessionNotFoundError: It is none, or several.
        """

    def create(
        self, key: SessionKey, lines: Iterable[Line], *, header: Mapping[str, JSON] | None = None
    ) -> SessionInfo:
        """
        Make a session of ready lines, each with ``type``, ``id``, ``parentId`` and ``timestamp``.

        Args:
            key: Nobody's yet.
            lines: Every line but the header, parents first, the leaf last; read once. An encoded one, without its
                end, is kept byte by byte.
            header: ``id``, ``timestamp``, ``cwd`` and ``parentSession``, where they are to be kept.

        Raises:
            SessionExistsError: The key is taken.
        """

    def fork(self, key: SessionKey, new_key: SessionKey, *, at: EntryId | None = None) -> SessionInfo:
        """
        Make a session of a branch of another, the active one or that which ends at *at*; the other stays as it is.

        Raises:
            SessionExistsError: The new key is taken.
            SessionNotFoundError: There is no such session.
            EntryNotFoundError: It has no such entry.
        """

    def rotate(self, transcript: Transcript) -> Rotation:
        """
        Go on in a new transcript without what the last compaction stands for; the old one stays as it is.

        *transcript* is open for writing, and is the successor's when this returns.
        Entries keep their ids. Where this raises, nothing has changed.
        """

    def archive(self, key: SessionKey, reason: ArchiveReason) -> Archive:
        """
        Put a session's transcript aside; the key is free.

        Raises:
            SessionNotFoundError: There is none.
        """

    def archives(self) -> Sequence[Archive]:
        """Return what was put aside, the oldest first."""

    def restore(self, name: str, *, key: SessionKey | None = None) -> SessionInfo:
        """
        Bring an archive back under its key, or another.

        Raises:
            SessionExistsError: The key is taken.
            SessionNotFoundError: There is no such archive.
        """

    def remove(self, name: str) -> None:
        """
        Destroy an archive.

        Raises:
            SessionNotFoundError: There is no such archive.
        """

    def note_tokens(self, key: SessionKey, context_tokens: int) -> None:
        """Remember what the last prompt of a session cost, for :meth:`sessions`."""

    def close(self) -> None:
        """Let go of what the store itself holds; transcripts are closed by who opened them."""


def find_session(infos: Sequence[SessionInfo], name: str, *, where: str) -> SessionKey:
    """
    Return the key that a person means by a key or an id, the beginning of one or the end of a key, or a file's name.

    Raises:
        SessionNotFoundError: It is none of *infos*, or several.
    """
    for meant in (
        lambda info: info.key == name,
        lambda info: name in {info.session_id, info.path.name, info.path.stem},
        lambda info: info.key.endswith(f":{name}"),
        lambda info: len(name) >= _LEAST_ID_CHARS and (info.session_id.startswith(name) or info.key.startswith(name)),
    ):
        keys = [info.key for info in infos if meant(info)]
        if len(keys) == 1:
            return keys[0]
        if keys:
            raise SessionNotFoundError(name, where, tuple(sorted(keys)))
    raise SessionNotFoundError(name, where, ())
