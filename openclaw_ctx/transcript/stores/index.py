"""
``sessions.json``: which transcript is whose, and what a list of sessions shows.

The transcripts are the truth. The index saves reading them all, and where it is
gone or damaged it is made anew of their headers. Its form is the reference
system's, and what another program keeps in it stays.
"""

import contextlib
import errno
import io
import os
import random
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import attrs

from openclaw_ctx.contract import JSON
from openclaw_ctx.errors import SessionBusyError
from openclaw_ctx.log import clean_text
from openclaw_ctx.transcript.entry import decode_json, encode_json
from openclaw_ctx.transcript.lock import WriterLock
from openclaw_ctx.transcript.paths import SAFELY, make_private_folder, move_file, replace_file, safe_name

from .archive import is_transcript_name
from .whole_file import describe_file, header_of, holds_line

__all__ = ["Entries", "SessionIndex", "primary_transcripts", "rebuild"]

Entries: TypeAlias = dict[str, dict[str, JSON]]
"""What the index says of each session, by its key."""

_Answer = TypeVar("_Answer")
_Signature: TypeAlias = tuple[int, int, int]

_NAME: Final = "sessions.json"
_NUMBERS: Final = frozenset({"sessionStartedAt", "updatedAt", "compactionCount", "contextTokens", "messages", "bytes"})
_TEXTS: Final = frozenset({"sessionId", "name", "forkedFromParent", "previousFile"})
_CHECKED: Final = _NUMBERS | _TEXTS | {"sessionFile"}
_MOST: Final = 253_402_300_799_999  # the last millisecond that a datetime has
_BUSY_SECONDS: Final = 5.0
# Within the coarsest tick of a file system (two seconds, on FAT) another write may have left the same time.
_SETTLED_NS: Final = 2_000_000_000


@attrs.frozen
class _Seen:
    signature: _Signature | None
    entries: Entries
    problems: list[str]


class SessionIndex:
    """
    The index of a folder of transcripts, for any thread.

    An entry's keys: ``sessionId``, ``sessionFile``, ``sessionStartedAt`` and
    ``updatedAt`` (milliseconds since the epoch), ``compactionCount``,
    ``contextTokens``, ``messages``, ``bytes``, ``name``, ``forkedFromParent`` (a key),
    ``previousFile``; none is sure to be there. What is shown of them can be used
    as it is: numbers are whole, not negative, and make dates; ``sessionFile`` is the
    bare name of a transcript of this folder. What cannot be used stays in the file.

    Attributes:
        problems: What was wrong with the file when it was read last.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / _NAME
        self._seen: _Seen | None = None
        self.problems: list[str] = []

    def read(self) -> Entries:
        """
        Return the entries, which are the caller's but for what is nested in them; nothing is written.

        The file is parsed again only where it has changed, or did so in the last
        two seconds. Without one that can be read this costs a look into every transcript.

        Raises:
            OSError: The operating system refuses it.
        """
        seen, state = self._seen, _state(self._path)
        if seen is None or state is None or seen.signature != _signature(state):
            raw, signature = self._load()
            entries, problems = self._shown(rebuild(self._folder) if raw is None else raw)
            if raw is None and state is not None:
                problems.insert(0, f"{_NAME} holds no JSON object, so the transcripts were asked")
            seen = self._seen = _Seen(signature, entries, problems)
        self.problems = list(seen.problems)
        return {key: dict(entry) for key, entry in seen.entries.items()}

    def update(self, change: Callable[[Entries], _Answer], *, wait_seconds: float = _BUSY_SECONDS) -> _Answer:
        """
        Let *change* alter the entries, and write what it altered; return what it returns.

        One at a time among all threads and processes, so it must be quick, and
        call nothing of this index. Where it raises nothing is written. Keys and
        entries that it leaves alone keep what the file says.

        Raises:
            SessionBusyError: Others had the index for *wait_seconds*.
            OSError: It could not be written; it is as it was.
        """
        make_private_folder(self._folder)
        with self._locked(wait_seconds):
            found, _ = self._load()
            raw = rebuild(self._folder) if found is None else found
            known = encode_json(raw)
            entries, _ = self._shown(raw)
            before = {key: dict(entry) for key, entry in entries.items()}
            answer = change(entries)
            data = encode_json(_merged(raw, before, entries))
            if found is None and _state(self._path) is not None:
                stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
                move_file(self._path, self._path.with_name(f"{_NAME}.corrupt-{stamp}-{secrets.token_hex(4)}"))
            if data != known or (found is None and raw):
                replace_file(self._path, data + b"\n")
        return answer

    @contextlib.contextmanager
    def _locked(self, wait_seconds: float) -> Iterator[None]:
        lock, began = WriterLock(self._path), time.monotonic()
        while True:
            try:
                lock.acquire()
                break
            except SessionBusyError as error:
                waited = time.monotonic() - began
                if waited >= wait_seconds:
                    raise SessionBusyError(str(self._path), error.holder, round(waited, 1)) from None
            time.sleep(random.uniform(0.001, 0.01))  # noqa: S311 -- lest two that wait keep step
        try:
            yield
        finally:
            lock.release()

    def _load(self) -> tuple[dict[str, JSON] | None, _Signature | None]:
        """Return the object in the file, if there is one; and how to know the file again, once it is settled."""
        try:
            with _open(self._path) as file:
                state, data = os.fstat(file.fileno()), file.read()
        except FileNotFoundError:
            return None, None
        except OSError:
            if _is_plain(self._path):
                raise
            return None, None
        try:
            value = decode_json(data)
        except ValueError:
            return None, None
        if not isinstance(value, dict):
            return None, None
        return value, _signature(state) if time.time_ns() - state.st_mtime_ns > _SETTLED_NS else None

    def _shown(self, raw: dict[str, JSON]) -> tuple[Entries, list[str]]:
        """Return what of the entries can be used, and what cannot; *raw* stays as it is."""
        entries: Entries = {}
        problems: list[str] = []
        folders = {self._folder.absolute(), self._folder.resolve()}
        for key, entry in raw.items():
            if not isinstance(entry, dict):
                problems.append(f"entry {clean_text(repr(key))} is no object")
                continue
            shown = {name: _usable(name, value, folders) for name, value in entry.items()}
            for name, value in shown.items():
                # The reference system says of a fork only that it is one.
                if value is None and entry[name] is not None and (name, entry[name]) != ("forkedFromParent", True):
                    said = clean_text(f"entry {key!r}: {name} is {entry[name]!r}", limit=300)
                    problems.append(f"{said}, which is of no use")
            shown = {name: value for name, value in shown.items() if value is not None or name not in _CHECKED}
            if "sessionFile" not in shown and isinstance(shown.get("sessionId"), str):
                usual = f"{shown['sessionId']}.jsonl"
                if is_transcript_name(usual) and _is_plain(self._folder / usual):
                    shown["sessionFile"] = usual
            entries[key] = shown
        return entries, problems


def primary_transcripts(folder: Path) -> list[Path]:
    """Return the sessions' transcripts in *folder*, by name: plain files, and no archives, copies or other records."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return [folder / name for name in sorted(names) if is_transcript_name(name)]


def rebuild(folder: Path) -> Entries:
    """
    Return entries for the transcripts of *folder*, made of their first lines; one without a key goes by its stem.

    Where a session was rotated, its last transcript counts: a header that has
    ``parentSession`` and ``parentBytes`` is the successor of that file, unless the
    file has grown since, for then the session went on in it. No clock is
    trusted. Empty files are no sessions yet.
    """
    by_key: dict[str, list[_Found]] = {}
    others: list[_Found] = []
    for path in primary_transcripts(folder):
        found = _look(path)
        if found is not None:
            key = found.header.get("sessionKey")
            files = by_key.setdefault(key, []) if isinstance(key, str) and key else others
            files.append(found)
    entries: Entries = {}
    for key, files in by_key.items():
        current, *strangers = _current(files, usual=f"{safe_name(key)}.jsonl")
        entries[key] = current.entry
        others += strangers
    for found in others:
        key = found.name.removesuffix(".jsonl")
        while key in entries:
            key += ".jsonl"
        entries[key] = found.entry
    return entries


@attrs.frozen(kw_only=True, eq=False)
class _Found:
    """A transcript, with the file that it is the successor of; without that one's size it is not known to be one."""

    name: str
    size: int
    header: dict[str, JSON]
    entry: dict[str, JSON]
    parent: str | None
    parent_bytes: int

    @property
    def made_of(self) -> tuple[int, int, str]:
        """Puts the successors of one file in order: that only grows, so the last one was made of most of it."""
        return self.parent_bytes, self.size, self.name


_Successors: TypeAlias = dict[str | None, list[_Found]]


def _look(path: Path) -> _Found | None:
    """Return what a transcript says of itself; ``None`` where it holds no line yet, or is gone meanwhile."""
    header = header_of(path)
    if not header and not holds_line(path):
        return None
    try:
        entry = describe_file(path, header)
    except FileNotFoundError:
        return None
    if not entry["bytes"]:
        return None
    if not isinstance(entry["sessionId"], str):
        entry["sessionId"] = path.stem
    parent, parent_bytes = header.get("parentSession"), header.get("parentBytes")
    if not isinstance(parent, str) or type(parent_bytes) is not int or parent_bytes < 0:
        parent, parent_bytes = None, 0
    return _Found(
        name=path.name, size=entry["bytes"], header=header, entry=entry, parent=parent, parent_bytes=parent_bytes
    )


def _current(files: list[_Found], *, usual: str) -> list[_Found]:
    """Return which of the files of one key is its session now, and then those that have nothing to do with it."""
    there = {file.name for file in files}
    successors: _Successors = {}
    for file in files:
        successors.setdefault(file.parent, []).append(file)
    starts = list(successors.get(None, ()))
    reached: set[_Found] = set()
    for parent, siblings in successors.items():
        if parent not in there:
            starts += [] if parent is None else [max(siblings, key=lambda file: file.made_of)]
            _reach(siblings, successors, reached)
    for file in sorted(files, key=lambda file: file.made_of, reverse=True):
        if file not in reached:  # in a ring, or behind one
            starts.append(file)
            _reach([file], successors, reached)
    ends = {_last(start, successors) for start in starts}
    return sorted(
        ends, key=lambda file: (file.parent is not None, file.name == usual, file.size, file.name), reverse=True
    )


def _reach(files: list[_Found], successors: _Successors, reached: set[_Found]) -> None:
    """Add the files, and all that follow them, to *reached*."""
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += successors.get(file.name, ())


def _last(file: _Found, successors: _Successors) -> _Found:
    """Return what a session that began in *file* is in now."""
    passed: set[_Found] = set()
    adopted = [file]
    while adopted:
        file = max(adopted, key=lambda one: one.made_of)
        passed.add(file)
        adopted = [one for one in successors.get(file.name, ()) if one.parent_bytes == file.size and one not in passed]
    return file


def _usable(name: str, value: JSON, folders: set[Path]) -> JSON:
    """Return the value of an entry's key as it can be used, ``None`` where it cannot."""
    if name == "sessionFile":
        return _own_name(value, folders)
    if name in _NUMBERS:
        return int(value) if type(value) in {int, float} and 0 <= value <= _MOST else None
    if name in _TEXTS:
        return value if isinstance(value, str) and value else None
    return value


def _own_name(value: JSON, folders: set[Path]) -> str | None:
    """Return the bare name of a transcript, as an entry has it or as an absolute path; nothing is looked up."""
    if not isinstance(value, str) or is_transcript_name(value):
        return value if isinstance(value, str) else None
    path = Path(value)
    return path.name if path.parent in folders and is_transcript_name(path.name) else None


def _merged(raw: dict[str, JSON], before: Entries, after: Entries) -> dict[str, JSON]:
    """Return *raw* with what *after* has otherwise than *before*, which is how it was shown."""
    merged = {key: entry for key, entry in raw.items() if key in after or key not in before}
    for key, entry in after.items():
        shown = before.get(key)
        if shown is None:
            merged[key] = entry
        elif entry != shown:
            kept = {name: value for name, value in raw[key].items() if name in entry or name not in shown}
            merged[key] = kept | {
                name: entry[name] for name in entry if name not in shown or entry[name] != shown[name]
            }
    return merged


def _state(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_plain(path: Path) -> bool:
    state = _state(path)
    return state is not None and stat.S_ISREG(state.st_mode)


def _signature(state: os.stat_result) -> _Signature:
    return state.st_mtime_ns, state.st_size, state.st_ino


def _open(path: Path) -> io.FileIO:
    """Open a plain file for reading; a link is never followed, and a FIFO never waited for."""
    file = open(path, "rb", buffering=0, opener=_open_safely)  # noqa: SIM115 -- the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))
    return file


def _open_safely(name: str, flags: int) -> int:
    return os.open(name, flags | SAFELY)
