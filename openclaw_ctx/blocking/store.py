"""A host's store of sessions, by plain calls from any thread."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from openclaw_ctx.contract import JSON, EntryId, SessionKey
from openclaw_ctx.transcript import Archive, ArchiveReason, Line, Rotation, SessionInfo, SessionStore, Transcript

from .thread import LoopThread

__all__ = ["Store"]

_T = TypeVar("_T")


class Store:
    """
    A ``SessionStore`` that is used in its host's thread alone, whoever calls, since a store need not bear two at once.

    A transcript that it opens is the caller's, and one thread's at a time.
    """

    def __init__(self, thread: LoopThread, store: SessionStore) -> None:
        self._thread = thread
        self._store = store

    def open(self, key: SessionKey, *, cwd: str | None = None) -> Transcript:
        """Open a session for writing; begin it where there is none. One writer at a time."""
        return self._call(lambda: self._store.open(key, cwd=cwd), undo=Transcript.close)

    def read(self, key: SessionKey) -> Transcript:
        """Open a session for reading, as it is now, whoever writes it."""
        return self._call(lambda: self._store.read(key), undo=Transcript.close)

    def sessions(self) -> Sequence[SessionInfo]:
        """Return every session, the one written last first."""
        return self._call(self._store.sessions)

    def find(self, name: str) -> SessionKey:
        """Return the key that a person means by a key, an id or the beginning of one, or a file's name."""
        return self._call(lambda: self._store.find(name))

    def create(
        self, key: SessionKey, lines: Iterable[Line], *, header: Mapping[str, JSON] | None = None
    ) -> SessionInfo:
        """Make a session of ready lines: whole, or not at all."""
        return self._call(lambda: self._store.create(key, lines, header=header))

    def fork(self, key: SessionKey, new_key: SessionKey, *, at: EntryId | None = None) -> SessionInfo:
        """Make a session of the active branch of another, up to and with the entry *at*."""
        return self._call(lambda: self._store.fork(key, new_key, at=at))

    def rotate(self, transcript: Transcript) -> Rotation:
        """Go on in a new transcript without what the last compaction stands for. An open session has its own."""
        return self._call(lambda: self._store.rotate(transcript))

    def archive(self, key: SessionKey, reason: ArchiveReason) -> Archive:
        """Put a session's transcript aside; the key is free."""
        return self._call(lambda: self._store.archive(key, reason))

    def archives(self) -> Sequence[Archive]:
        """Return what was put aside, the oldest first."""
        return self._call(self._store.archives)

    def restore(self, name: str, *, key: SessionKey | None = None) -> SessionInfo:
        """Bring an archive back under its key, or another."""
        return self._call(lambda: self._store.restore(name, key=key))

    def remove(self, name: str) -> None:
        """Destroy an archive."""
        self._call(lambda: self._store.remove(name))

    def note_tokens(self, key: SessionKey, context_tokens: int) -> None:
        """Remember what the last prompt of a session cost, for :meth:`sessions`."""
        self._call(lambda: self._store.note_tokens(key, context_tokens))

    def close(self) -> None:
        """Let go of what the store itself holds. The host does so when it is closed."""
        self._call(self._store.close)

    def _call(self, function: Callable[[], _T], *, undo: Callable[[_T], None] | None = None) -> _T:
        return self._thread.call(function, "Host", undo=undo)
