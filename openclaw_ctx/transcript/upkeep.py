"""Looking after a folder of sessions: what is old goes, and the index is held against the transcripts."""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from openclaw_ctx.contract import JSON, SessionKey
from openclaw_ctx.errors import SessionBusyError

from .file_store import FileStore
from .findings import Finding, Level
from .index import Entries, SessionIndex
from .lock import WriterLock
from .retention import Retention, Step, Superseded, plan_retention
from .whole_file import header_of

__all__ = ["carry_out", "plan_prune", "verify_index"]

# A file that was being written when its program was killed; a younger one may still be written.
_TEMPORARY: Final = re.compile(r".+\.[0-9a-f]{8}\.tmp")
_STILL_WRITTEN_SECONDS: Final = 3600


def plan_prune(store: FileStore, keep: Retention, *, now: datetime) -> Sequence[Step]:
    """
    Return what pruning would do; nothing is done.

    Sessions that somebody writes are left alone, and what is in the folder that
    is no session's too.
    """
    sessions, archives = store.sessions(), store.archives()
    left = [*_superseded(store), *_temporary(store.folder)]
    steps = plan_retention(sessions, archives, left, keep=keep, now=now)
    touched = {step.name for step in steps} | {str(one.key) for one in left}
    busy = frozenset(info.key for info in sessions if info.key in touched and _is_written(info.path))
    return plan_retention(sessions, archives, left, keep=keep, now=now, busy=busy) if busy else steps


def carry_out(store: FileStore, step: Step) -> None:
    """
    Do one step of a plan.

    Raises:
        SessionBusyError: Somebody began to write the session.
        SessionNotFoundError: It is gone.
        OSError: The operating system refuses it.
    """
    match step.action:
        case "archive":
            store.archive(SessionKey(step.name), "deleted")
        case "remove-session":
            store.remove(store.archive(SessionKey(step.name), "deleted").name)
        case "remove-archive":
            store.remove(step.name)
        case "remove-superseded" | "remove-leftover":
            (store.folder / Path(step.name).name).unlink()


def verify_index(store: FileStore) -> Sequence[Finding]:
    """Return what the index of a store says otherwise than the transcripts; each sentence names the key or file."""
    index = SessionIndex(store.folder)
    entries = index.read()
    findings = [_finding("warning", "index-problem", f"{problem}.") for problem in index.problems]
    named: dict[str, str] = {}
    for key, entry in entries.items():
        findings += _entry_findings(store.folder, key, entry, named)
    findings += _count_findings(store, entries)
    findings += [
        _finding("warning", "leftover", f"{one.name!r} was left by a program that was killed; prune removes it.")
        for one in _temporary(store.folder)
    ]
    return findings


def _entry_findings(folder: Path, key: str, entry: Mapping[str, JSON], named: dict[str, str]) -> Iterator[Finding]:
    """Yield what is wrong with an entry; *named* remembers whose each transcript is."""
    file = str(entry.get("sessionFile"))
    path = folder / file
    if not path.is_file():
        yield _finding("warning", "index-dangling", f"The index has {key!r}, whose transcript is not there.")
        return
    if file in named:
        yield _finding("error", "index-shared", f"The index gives {key!r} and {named[file]!r} one transcript.")
    named[file] = key
    header = header_of(path)
    if path.stat().st_size and entry.get("sessionId") not in {None, header.get("id")}:
        yield _finding("error", "index-id", f"The index gives {key!r} another session id than its transcript has.")
    owner = header.get("sessionKey")
    if owner not in {None, key}:
        yield _finding("error", "index-key", f"The index gives {key!r} the transcript of {owner!r}.")


def _count_findings(store: FileStore, entries: Entries) -> Iterator[Finding]:
    for info in store.sessions():
        entry = entries.get(info.key, {})
        if entry.get("bytes") != info.size or "messages" not in entry:
            continue  # it does not claim to know
        said = entry["messages"], entry.get("compactionCount", 0)
        with contextlib.closing(store.read(info.key)) as transcript:
            counted = len(transcript.record()), transcript.tally().compactions
        if said != counted:
            text = f"The index says that {info.key!r} has {said[0]} messages and {said[1]} compactions"
            yield _finding("error", "index-count", f"{text}; it has {counted[0]} and {counted[1]}.")


def _finding(level: Level, code: str, text: str) -> Finding:
    return Finding(level=level, line=None, code=code, text=text)


def _superseded(store: FileStore) -> list[Superseded]:
    found = []
    for path in store.superseded():
        state, key = path.stat(), header_of(path).get("sessionKey")
        found.append(
            Superseded(
                name=path.name,
                size=state.st_size,
                key=SessionKey(key) if isinstance(key, str) else None,
                updated_at=datetime.fromtimestamp(state.st_mtime, UTC),
            )
        )
    return found


def _temporary(folder: Path) -> list[Superseded]:
    if not folder.is_dir():
        return []
    return [
        Superseded(
            name=path.name,
            size=path.stat().st_size,
            updated_at=datetime.fromtimestamp(path.stat().st_mtime, UTC),
            leftover=True,
        )
        for path in sorted(folder.iterdir())
        if _TEMPORARY.fullmatch(path.name) and time.time() - path.stat().st_mtime > _STILL_WRITTEN_SECONDS
    ]


def _is_written(path: Path) -> bool:
    lock = WriterLock(path)
    try:
        lock.acquire()
    except SessionBusyError:
        return True
    lock.release()
    return False
