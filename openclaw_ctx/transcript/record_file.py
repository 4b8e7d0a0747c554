"""
The open file of a transcript: lines read where they are, records appended whole.

Reading is for any thread at any time until :meth:`RecordFile.close`; writing is
for one at a time, which the transcript sees to.
"""

import contextlib
import errno
import io
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from openclaw_ctx.contract import JSON, Message, UnknownMessage
from openclaw_ctx.errors import SessionClosedError, TranscriptFormatError

from .entry import Entry, decode_json, message_of
from .paths import SAFELY, move_file, write_pieces

__all__ = ["RecordFile", "sync_folder", "write_new_file"]

_PIECE_BYTES: Final = 1 << 20
_FLAGS: Final = getattr(os, "O_CLOEXEC", 0) | SAFELY
_WRITING: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT


class RecordFile:
    """A file that is read in pieces and grows at its end; never a symbolic link."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open *path*; for writing it is made, empty and private, where there is none."""
        self.path = path
        self._read_only = read_only
        self._text = str(path)
        self._name = f"Transcript {self._text!r}"
        self._lock = threading.Lock()
        self._file: io.FileIO | None = self._opened()

    @property
    def file(self) -> io.FileIO:
        """
        The file itself, for reading it from its beginning.

        Raises:
            SessionClosedError: It was closed.
        """
        if self._file is None:
            raise SessionClosedError(self._name)
        return self._file

    def size_on_disk(self) -> int | None:
        """
        Return how long the file at the path is now; ``None`` where another file has taken the path.

        Raises:
            FileNotFoundError: Nothing is there any more.
        """
        state = os.stat(self._text)  # noqa: PTH116 -- half the cost of Path.stat, and once an append
        return state.st_size if (state.st_dev, state.st_ino) == self._identity else None

    def message(self, entry: Entry) -> Message:
        """Return the message of *entry*, read at the first time."""
        if entry.message is None:
            data = self.data(entry)
            try:
                entry.message = message_of(data, entry.id)
            except RecursionError:
                entry.message = UnknownMessage(data={"type": entry.type}, entry_id=entry.id)
        message: Message = entry.message
        return message

    def data(self, entry: Entry) -> JSON:
        """Return all that is on the line of *entry*; a line that cannot be read whole says so."""
        line = self.line(entry)
        try:
            return decode_json(line)
        except ValueError as error:
            return {"type": entry.type, "id": entry.id, "parentId": entry.parent_id, "unreadable": str(error)}

    def line(self, entry: Entry) -> bytes:
        """Return the bytes of the line of *entry*."""
        # Without the lock a descriptor could be another file's by the time that it is read, and an
        # entry's offset that of the file before it was written anew.
        with self._lock:
            return _read_at(self.file.fileno(), entry.length, entry.offset)

    def pieces(self, offset: int, length: int) -> Iterator[bytes]:
        """Yield *length* bytes from *offset* on, in pieces."""
        while length > 0:
            with self._lock:
                piece = _read_at(self.file.fileno(), min(length, _PIECE_BYTES), offset)
            if not piece:
                return
            yield piece
            offset, length = offset + len(piece), length - len(piece)

    def append(self, data: bytes, *, size: int) -> None:
        """
        Write *data* behind the first *size* bytes, whole or not at all.

        Raises:
            OSError: The disk would not take it; the file is as it was.
        """
        descriptor = self.file.fileno()
        try:
            written = os.write(descriptor, data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._text) from error
        if written != len(data):
            os.truncate(descriptor, size)
            problem = f"the disk took {written} of {len(data)} bytes, which were removed again"
            raise OSError(errno.ENOSPC, problem, self._text)

    def truncate(self, size: int) -> None:
        """Cut off what stands behind the first *size* bytes."""
        os.truncate(self.file.fileno(), size)

    def sync(self, *, folder_too: bool = False) -> None:
        """Return when the disk has what was written; *folder_too*: and the file's name."""
        _sync(self.file.fileno())
        if folder_too:
            sync_folder(self.path.parent)

    def replace_by(self, temporary: Path, moved: Sequence[tuple[Entry, int, int]]) -> None:
        """
        Put *temporary* in the file's place and go on in it.

        Args:
            temporary: In the same folder.
            moved: Entries, and where they are in the new file; views of them stay readable.
        """
        with self._lock:
            # Windows replaces no open file.
            self.file.close()
            self._file = None
            try:
                move_file(temporary, self.path)
            except OSError:
                self._file = self._opened()
                temporary.unlink(missing_ok=True)
                raise
            self._file = self._opened()
            for entry, offset, length in moved:
                entry.offset, entry.length = offset, length
        sync_folder(self.path.parent)

    def close(self) -> None:
        """Let go of the file; what was not read yet cannot be read any more."""
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                file.close()

    def _opened(self) -> io.FileIO:
        try:
            descriptor = os.open(self._text, _FLAGS | (os.O_RDONLY if self._read_only else _WRITING), 0o600)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise TranscriptFormatError(self._text, "it is a symbolic link, which is never followed") from error
            raise
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            os.close(descriptor)
            raise TranscriptFormatError(self._text, "it is not a plain file, which alone is ever read")
        self._identity = (state.st_dev, state.st_ino)
        # FileIO keeps Windows from translating line ends.
        return io.FileIO(descriptor, "r" if self._read_only else "r+")


def _seek_and_read(descriptor: int, length: int, offset: int) -> bytes:
    """Do what ``pread`` does where there is none; for use under a lock."""
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, length)


def write_new_file(path: Path, pieces: Iterable[bytes]) -> None:
    """
    Write *pieces* to *path*, private and on the disk when this returns; nothing is left of it on failure.

    Raises:
        FileExistsError: There is such a file, which is not touched.
        OSError: The disk would not take it.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            write_pieces(descriptor, pieces)
            _sync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def sync_folder(folder: Path) -> None:
    """Return when the disk has the names in *folder*, where it can tell."""
    with contextlib.suppress(OSError):  # Windows opens no folders, and some file systems sync none
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_read_at: Callable[[int, int, int], bytes] = getattr(os, "pread", _seek_and_read)
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
