"""
The lines of a transcript in a file: JSONL version 3, which only ever grows.

An append is one ``write``; once it returns, the kernel has it (``durable``: the
disk has it). The file itself changes otherwise in two cases, each after a copy:
what a crash left at its end is cut off, and an old version is written anew.
"""

import secrets
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from openclaw_ctx.contract import JSON, Message
from openclaw_ctx.errors import ReadOnlyTranscriptError, TranscriptFormatError

from .entry import Entry, encode_json, read_entry
from .load import VERSION, Loaded, Tail, load
from .lock import WriterLock
from .paths import make_private_folder, replace_file
from .record_file import RecordFile, write_new_file
from .tail import load_tail

__all__ = ["FileRecord"]

_SMALL_BYTES: Final = 1 << 20
"""What a file of up to this size holds is read whole: that takes milliseconds."""


class FileRecord:
    """A :class:`~.record.Record` in a file, held by its one writer."""

    def __init__(
        self,
        path: Path,
        *,
        lock: WriterLock | None = None,
        durable: bool = False,
        note_path: Path | None = None,
        read_only: bool = False,
    ) -> None:
        self._lock = lock
        self._durable = durable
        self._read_only = read_only
        self._note_path = note_path or path.with_name(path.name + ".handover")
        self._retired: weakref.WeakSet[RecordFile] = weakref.WeakSet()
        self._size = 0
        self._torn: Tail | None = None
        self._unfinished = False
        self._outdated = ""
        self._keeps_lines = True
        self._file = RecordFile(path, read_only=read_only)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        durable: bool = False,
        timeout_seconds: float = 0.0,
        note_path: Path | None = None,
    ) -> "FileRecord":
        """
        Open *path* for writing; where there is no file, an empty one is made.

        Raises:
            SessionBusyError: Another writer holds it.
            TranscriptFormatError: The path is a symbolic link or no plain file.
            OSError: The operating system refuses folder or file; it names the one.
        """
        make_private_folder(path.parent)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise TranscriptFormatError(str(path), "it is not a plain file, and a transcript never follows links")
        lock = WriterLock(path)
        lock.acquire(timeout_seconds=timeout_seconds)
        try:
            return cls(path, lock=lock, durable=durable, note_path=note_path)
        except BaseException:
            lock.release()
            raise

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def read(self) -> Callable[[Entry], Message]:
        """Reads messages in the file that was loaded last."""
        return self._file.message

    @property
    def size(self) -> int:
        """Bytes of the file, as it was read or written last."""
        return self._size

    def is_at_path(self) -> bool:
        """Return whether the file that is open is still the one at the path."""
        try:
            return self._file.size_on_disk() is not None
        except FileNotFoundError:
            return False

    def load(self, *, whole: bool) -> Loaded:
        """Return what is in the file."""
        tail = None if whole else load_tail(self._file.file, least_bytes=_SMALL_BYTES)
        loaded = load(self._file.file) if tail is None else tail
        self._size, self._torn, self._unfinished = loaded.size, loaded.torn, loaded.unfinished
        self._outdated = loaded.outdated
        self._keeps_lines = loaded.version > 1 and not loaded.rechained
        return loaded

    def refresh(self) -> Loaded | None:
        """Return what is in the file at the path, where it is longer, or another."""
        size = self._file.size_on_disk()
        if size == self._size:
            return None
        if size is None or self._outdated:
            fresh = RecordFile(self.path, read_only=self._read_only)
            self._retire_file()
            self._file = fresh
        return self.load(whole=False)

    def prepare(self, header: Mapping[str, JSON], entries: Sequence[Entry]) -> bool:
        """Cut off what a crash left, and write an old version anew; false: somebody writes there, so look again."""
        if self._read_only:
            raise ReadOnlyTranscriptError(str(self.path))
        if self._outdated:
            self._rewrite_as_current(header, entries)
        if self._torn is not None:
            torn = self._torn
            self._keep_copy("torn", torn.offset, torn.length)
            if self._file.size_on_disk() != self._size:
                # It was no crash: a program that knows of no lock was in the middle of its line, and has gone on.
                return False
            self._file.truncate(torn.offset)
            self._size, self._torn = torn.offset, None
        return True

    def append(self, header: Mapping[str, JSON], lines: Sequence[Mapping[str, JSON]]) -> list[Entry]:
        """Write lines behind the last one, in one write; the next opening takes back what a kill left of several."""
        prefix = b"\n" if self._unfinished else b""
        if not self._size:
            prefix = encode_json(header) + b"\n"
        encoded = [encode_json(_numbered(line, len(lines) - at)) for at, line in enumerate(lines, 1)]
        offset = self._size + len(prefix)
        data = prefix + b"\n".join(encoded) + b"\n"
        self._file.append(data, size=self._size)
        before = self._size
        if self._durable:
            self._sync(before)
        self._size, self._unfinished = before + len(data), False
        entries = []
        for text in encoded:
            entry = read_entry(text)
            entry.offset, entry.length = offset, len(text)
            offset += len(text) + 1
            entries.append(entry)
        return entries

    def _sync(self, before: int) -> None:
        """Return when the disk has what was written; or take it back and raise: nobody is told that it is safe."""
        try:
            self._file.sync(folder_too=not before)
        except BaseException:
            self._file.truncate(before)
            raise

    def data(self, entry: Entry) -> JSON:
        """Return all that is on the line of an entry."""
        return self._file.data(entry)

    def line(self, entry: Entry) -> bytes:
        """Return the line of an entry."""
        return self._file.line(entry)

    def note(self) -> bytes | None:
        """Return what the file beside the transcript holds."""
        try:
            return self._note_path.read_bytes()
        except OSError:
            return None

    def set_note(self, value: bytes) -> None:
        """Write the file beside the transcript."""
        replace_file(self._note_path, value)

    def retire(self) -> None:
        """Let go of the lock; the file is open for as long as somebody holds a view of it."""
        self._retire_file()
        if self._lock is not None:
            self._lock.release()

    def close(self) -> None:
        """Let go of file and lock."""
        for file in (self._file, *self._retired):
            file.close()
        if self._lock is not None:
            self._lock.release()

    def _retire_file(self) -> None:
        # Views that were handed out read on where their messages are; the last of them takes the file along.
        weakref.finalize(self._file, self._file.file.close)
        self._retired.add(self._file)

    def _rewrite_as_current(self, header: Mapping[str, JSON], entries: Sequence[Entry]) -> None:
        """Write the file anew as version 3: a copy, a temporary file, a rename."""
        self._keep_copy(self._outdated, 0, self._size)
        said = header.get("version")
        current = {**header, "version": max(VERSION, said) if isinstance(said, int) else VERSION}
        moved: list[tuple[Entry, int, int]] = []
        size = 0

        def lines() -> Iterator[bytes]:
            nonlocal size
            first = encode_json(current) + b"\n"
            size = len(first)
            yield first
            for entry in entries:
                line = self._current_line(entry)
                moved.append((entry, size, len(line)))
                size += len(line) + 1
                yield line + b"\n"

        temporary = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}.tmp")
        write_new_file(temporary, lines())
        self._file.replace_by(temporary, moved)
        self._size, self._outdated, self._torn, self._unfinished = size, "", None, False

    def _current_line(self, entry: Entry) -> bytes:
        """Return an entry's line in the newest version; its own bytes where there is nothing to change."""
        line = self._file.line(entry)
        if self._keeps_lines and b'"hookMessage"' not in line:
            return line
        data = self._file.data(entry) | {"id": entry.id, "parentId": entry.parent_id}
        if entry.first_kept_id is not None:
            data["firstKeptEntryId"] = entry.first_kept_id
        data.pop("firstKeptEntryIndex", None)
        if isinstance(data.get("message"), dict) and data["message"].get("role") == "hookMessage":
            data["message"] = data["message"] | {"role": "custom"}
        return encode_json(data)

    def _keep_copy(self, why: str, offset: int, length: int) -> None:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
        copy = self.path.with_name(f"{self.path.name}.{why}-{stamp}-{secrets.token_hex(4)}")
        write_new_file(copy, self._file.pieces(offset, length))


def _numbered(line: Mapping[str, JSON], more: int) -> Mapping[str, JSON]:
    """Return *line* with how many are written with it and stand behind it."""
    if more:
        return {**line, "more": more}
    return {key: value for key, value in line.items() if key != "more"} if "more" in line else line
