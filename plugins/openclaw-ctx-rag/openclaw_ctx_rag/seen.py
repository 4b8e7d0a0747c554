"""
How much of a transcript's file has been seen, and whether that is still what it says.

A transcript only grows. Whoever edits it, or puts an older copy in its place,
changes what was seen: what was indexed of it is then worth nothing.
"""

import hashlib
import os
from pathlib import Path
from typing import Final

__all__ = ["Seen"]

_PIECE_BYTES: Final = 1 << 20


class Seen:
    """
    The bytes of one file that were seen.

    Args:
        note: What :meth:`follow` returned, in this life or an earlier one; ``None``: nothing was seen.
    """

    def __init__(self, note: str | None) -> None:
        self._name, size, self._digest, self._stamp = (note.split("\n") if note else ["", "0", "", ""])[:4]
        self._size = int(size)
        self._hash: hashlib.blake2b | None = None

    def is_what_it_was(self, path: Path) -> bool:
        """Return whether *path* still begins with what was seen of it; of another file nothing was seen."""
        if path.name != self._name:
            return True
        try:
            stamp = _stamp(path.stat())
        except OSError:
            return True  # a store without files: there is nothing that anybody could edit
        return stamp == self._stamp or (self._read(path) and self._digest == self._said())

    def follow(self, path: Path) -> str | None:
        """See what has been appended; return a note of it, or ``None`` where there is no file."""
        try:
            status = path.stat()
        except OSError:
            return None
        if path.name != self._name or self._hash is None:
            if path.name != self._name:
                self._size = 0
            self._name = path.name
            self._read(path)
        self._read_on(path)
        self._digest, self._stamp = self._said(), _stamp(status)
        return "\n".join((self._name, str(self._size), self._digest, self._stamp))

    def _read(self, path: Path) -> bool:
        """Read what was seen once more; return whether there is as much."""
        size, self._size = self._size, 0
        self._hash = hashlib.blake2b(digest_size=16)
        self._read_on(path, size)
        return self._size == size

    def _read_on(self, path: Path, until: int | None = None) -> None:
        assert self._hash is not None  # noqa: S101 -- it was begun
        try:
            with path.open("rb") as file:
                file.seek(self._size)
                while until is None or self._size < until:
                    piece = file.read(_PIECE_BYTES if until is None else min(_PIECE_BYTES, until - self._size))
                    if not piece:
                        return
                    self._hash.update(piece)
                    self._size += len(piece)
        except OSError:
            return

    def _said(self) -> str:
        return "" if self._hash is None else self._hash.hexdigest()


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"
