"""Keeps a session's index level with its transcript: what was missed, rewritten, left or lost."""

import asyncio
import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from openclaw_ctx import (
    BootstrapReason,
    EntryId,
    EstimateTokens,
    History,
    Message,
    Services,
    SessionKey,
    ToolResultMessage,
)

from .documents import documents_of, is_searched
from .index import HistoryIndex, IndexDamagedError
from .seen import Seen
from .sqlite_index import SqliteIndex

__all__ = ["INLINE_MESSAGES", "Followed", "delete_index", "path_of"]

INLINE_MESSAGES: Final = 1_000
"""A history of so many is indexed while the session is met; a longer one behind it."""

_SLICE_MESSAGES: Final = 256


def path_of(folder: Path, session_key: SessionKey) -> Path:
    """Return where a session's index is: no part of the name is foreign text."""
    digest = hashlib.blake2b(session_key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return folder / f"session-{digest}.sqlite"


def delete_index(path: Path) -> None:
    """Remove an index, and the files that belong to it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


class Followed:
    """One session's index, and how far it has come."""

    def __init__(self, folder: Path, session_key: SessionKey, services: Services) -> None:
        self.key = session_key
        self._path = path_of(folder, session_key)
        self._read = services.transcript.read
        self._count: EstimateTokens = services.estimate_tokens
        self.index: HistoryIndex = self._open()
        self._seen = Seen(self.index.note())
        self._importing = False
        self._more = False
        self._run = 0
        self.total = 0
        self.closed = False

    @property
    def is_importing(self) -> bool:
        """Whether a long history is being taken, behind the turns."""
        return self._importing

    def progress(self) -> float | None:
        """Return how far the import has come, 0 to 1."""
        return min(1.0, len(self.index) / self.total) if self.total else None

    def forget(self) -> None:
        """
        Begin with an empty index; what was in it is in the transcript.

        Nothing is taken before that has been read: :meth:`take_now` or :meth:`begin_import` is due.
        """
        self._run += 1
        self._importing = True
        with contextlib.suppress(Exception):
            self.index.close()
        delete_index(self._path)
        self.index = self._open()
        self._seen = Seen(None)

    def is_of(self, file: str) -> bool:
        """Return whether what was indexed is what the transcript's *file* still says; an edited one does not."""
        return self._seen.is_what_it_was(Path(file))

    def see(self, file: str) -> None:
        """Note that the transcript's *file* has been followed up to its end."""
        note = None if self._importing else self._seen.follow(Path(file))
        if note is not None:
            self.index.set_note(note)

    async def meet(self, reason: BootstrapReason) -> Sequence[Message]:
        """Hold the index against the transcript; return what it has not, for :meth:`take_now` or an import."""
        record = await self._read(self.key)
        if not len(self.index):
            return record
        newest = self.index.newest()
        ids = _ids_of(record)
        place = None if newest is None else _last_place(ids, newest)
        # What stands behind the newest and is known was left once, and has been gone back to.
        if place is None or self._knows_any(ids[place + 1 :]):
            place = self._follow_branch(record, ids, reason) - 1
        return record[place + 1 :]

    def take(self, messages: Sequence[Message]) -> int:
        """Index *messages*, which follow what is indexed; return how many were new."""
        if self._importing:
            self._more = True  # the import comes by them
            return 0
        return self._add(messages)

    def take_now(self, messages: Sequence[Message]) -> int:
        """Index what :meth:`meet` has just returned; an import that runs has nothing more to do."""
        self._run += 1
        self._importing = False
        return self._add(messages)

    def begin_import(self) -> int:
        """Take nothing but by :meth:`take_behind` from here on; return what that is to be given."""
        self._run += 1
        self._importing = True
        return self._run

    async def take_behind(self, messages: Sequence[Message], run: int) -> None:
        """
        Index a long history in slices, and what has come meanwhile; a kill in between loses none of it.

        It ends early where another way of indexing has begun since.
        """
        try:
            self.total = len(self.index) + len(messages)
            while self._run == run and (len(messages) or self._more):
                self._more = False
                for start in range(0, len(messages), _SLICE_MESSAGES):
                    if self._run != run:
                        return
                    self._add(messages[start : start + _SLICE_MESSAGES])
                    await asyncio.sleep(0)
                messages = await self.meet("resume")
        finally:
            if self._run == run:
                self._importing = False

    async def level(self, messages: Sequence[Message], *, all_told: bool = False) -> Sequence[Message]:
        """
        See that the index is of the branch that *messages* are of; return what it has not, for whoever called.

        Costs what the running turn has, as long as the conversation only went on.

        Args:
            messages: The context, or its beginning.
            all_told: Whether all of them should be indexed; otherwise a turn is running at their end.
        """
        if self._importing or not len(self.index):
            return ()
        newest = self.index.newest()
        for start in range(len(messages), 0, -_SLICE_MESSAGES):
            part = messages[max(0, start - _SLICE_MESSAGES) : start]
            ids = _ids_of(part)
            for place in range(len(ids) - 1, -1, -1):
                entry_id = ids[place]
                if entry_id is None:
                    continue
                if entry_id == newest:
                    return ()
                if self.index.number_of(entry_id) is not None or (all_told and is_searched(part[place])):
                    return await self._missing()
        return await self._missing()

    def close(self) -> None:
        """Let go of the file."""
        self.closed = True
        self.index.close()

    async def _missing(self) -> Sequence[Message]:
        missing = await self.meet("resume")
        return () if self._importing else missing

    def _knows_any(self, ids: Sequence[EntryId | None]) -> bool:
        return any(entry_id is not None and self.index.number_of(entry_id) is not None for entry_id in ids)

    def _follow_branch(self, record: Sequence[Message], ids: Sequence[EntryId | None], reason: BootstrapReason) -> int:
        """Mark what is on the branch; return where in *ids* that begins which is to be indexed."""
        numbers = {entry_id: number for number, entry_id in enumerate(self.index.entry_ids())}
        known = [(place, numbers[entry_id]) for place, entry_id in enumerate(ids) if entry_id in numbers]
        if not known:
            if reason != "continuation":  # which goes on without what a summary stands for: that is still found
                self.index.set_active(range(len(numbers)), active=False)
            return 0
        on_branch = [number for _, number in known]
        between = set(range(known[-1][0])).difference(place for place, _ in known)
        # Numbers that are not in the order of the conversation, or would not be once what is missing had its own.
        if on_branch != sorted(on_branch) or any(is_searched(record[place]) for place in between):
            self.index.rebuild()
            return 0
        # What lies before the first is on its branch whatever happened behind it, and may be in an older transcript.
        self.index.set_active(range(on_branch[0], len(numbers)), active=False)
        self.index.set_active(on_branch, active=True)
        return known[-1][0] + 1

    def _add(self, messages: Sequence[Message]) -> int:
        if not len(messages):
            return 0
        group = self._open_group() if isinstance(messages[0], ToolResultMessage) else None
        return self.index.add(documents_of(messages, count=self._count, open_group=group))

    def _open_group(self) -> str | None:
        """Return the group that is open at the end: results may come in another slice than their calls."""
        newest = self.index.newest()
        number = None if newest is None else self.index.number_of(newest)
        if number is None:
            return None
        ((group, _),) = self.index.read([int(self.index.facts().group[number])])
        return group

    def _open(self) -> HistoryIndex:
        try:
            return SqliteIndex.open(self._path)
        except IndexDamagedError:
            delete_index(self._path)
            return SqliteIndex.open(self._path)


def _ids_of(messages: Sequence[Message]) -> Sequence[EntryId | None]:
    return messages.entry_ids if isinstance(messages, History) else [message.entry_id for message in messages]


def _last_place(ids: Sequence[EntryId | None], entry_id: str) -> int | None:
    return next((place for place in range(len(ids) - 1, -1, -1) if ids[place] == entry_id), None)
