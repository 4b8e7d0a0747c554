"""Looking after a folder of sessions: what is old goes, and the index is held against the transcripts."""

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import attrs

from openclaw_ctx.contract import JSON, SessionKey
from openclaw_ctx.errors import SessionBusyError, SessionNotFoundError, TranscriptFormatError
from openclaw_ctx.transcript.checks.findings import Finding, Level
from openclaw_ctx.transcript.lock import WriterLock
from openclaw_ctx.transcript.paths import safe_name
from openclaw_ctx.transcript.transcript import Transcript

from .archive import parse_archive_name
from .file_store import FileStore
from .index import SessionIndex
from .retention import Retention, Step, Superseded, plan_retention
from .store import SessionInfo
from .whole_file import header_of

__all__ = ["carry_out", "plan_prune", "verify_index"]

# A file that was being written when its program was killed; a younger one may still be written.
_TEMPORARY: Final = re.compile(r".+\.[0-9a-f]{8}\.tmp")
_NOTE: Final = ".handover"
_STILL_WRITTEN: Final = timedelta(hours=1)


def plan_prune(store: FileStore, keep: Retention, *, now: datetime) -> Sequence[Step]:
    """
    Return what pruning would do; nothing is done, and nothing written.

    Sessions that somebody writes are left alone with all that they left behind,
    and so is what is in the folder that is no session's. What killed programs
    left goes whatever is kept.
    """
    sessions, archives, left = store.glance(), store.archives(), _superseded(store)
    paths = {info.key: info.path for info in sessions}
    owners = {one.name: one.key for one in left}
    asked: set[SessionKey] = set()
    busy: set[SessionKey] = set()
    while True:
        steps = plan_retention(sessions, archives, left, keep=keep, now=now, busy=busy)
        # Only these are asked, since asking takes a lock that somebody may want. For one that stays another may go.
        touched = {key for step in steps if (key := _owner(step, owners)) is not None and key in paths} - asked
        asked |= touched
        written = {key for key in touched if WriterLock(paths[key]).is_held()}
        if not written:
            return [*_leftovers(store, sessions, now), *steps]
        busy |= written


def carry_out(store: FileStore, step: Step) -> None:
    """
    Do one step of a plan, unless what it was planned for has changed since.

    Raises:
        SessionBusyError: Somebody writes the session, or has written it since.
        SessionNotFoundError: It is gone.
        OSError: The operating system refuses it.
    """
    match step.action:
        case "archive":
            store.archive(SessionKey(step.name), "deleted", size=step.size)
        case "remove-session":
            store.remove(store.archive(SessionKey(step.name), "deleted", size=step.size).name)
        case "remove-archive":
            store.remove(step.name)
        case "remove-superseded":
            _remove_superseded(store, step)
        case "remove-leftover":
            (store.folder / Path(step.name).name).unlink(missing_ok=True)


def verify_index(store: FileStore) -> Sequence[Finding]:
    """
    Return what the index of a store says otherwise than the transcripts; each sentence names the key or file.

    Nothing is written. What a session that goes on meanwhile has more than the
    index says is no finding.
    """
    index = SessionIndex(store.folder)
    entries = index.read()
    findings = [_finding("warning", "index-problem", f"{problem}.") for problem in index.problems]
    named: dict[str, str] = {}
    for key, entry in entries.items():
        findings += _entry_findings(store.folder, key, entry, named)
    sessions = store.glance()
    for info in sessions:
        findings += _info_findings(info, entries.get(info.key))
    findings += [
        _finding("warning", "leftover", f"{step.name!r} is of no use: {step.why}; prune removes it.")
        for step in _leftovers(store, sessions, datetime.now(UTC))
    ]
    return findings


def _owner(step: Step, owners: Mapping[str, SessionKey | None]) -> SessionKey | None:
    """Return whose session a step is about, where it is about one."""
    if step.action in {"archive", "remove-session"}:
        return SessionKey(step.name)
    return owners.get(step.name) if step.action == "remove-superseded" else None


def _remove_superseded(store: FileStore, step: Step) -> None:
    path = next((path for path in store.superseded() if path.name == step.name), None)
    if path is None:
        raise SessionNotFoundError(step.name, str(store.folder), ())
    lock = WriterLock(path)  # of another program, which may not know that the session went on elsewhere
    lock.acquire()
    try:
        if path.stat().st_size != step.size:
            raise SessionBusyError(str(path), "somebody, since this was planned", 0.0)
        path.unlink()
    finally:
        lock.release()


# -- the index -------------------------------------------------------------------------------------


def _entry_findings(folder: Path, key: str, entry: Mapping[str, JSON], named: dict[str, str]) -> Iterator[Finding]:
    """Yield what is wrong with an entry; *named* remembers whose each transcript is."""
    path = folder / (entry.get("sessionFile") or f"{safe_name(key)}.jsonl")
    if not path.is_file():
        yield _finding("warning", "index-dangling", f"The index has {key!r}, whose transcript is not there.")
        return
    other = named.setdefault(path.name, key)
    if other != key:
        yield _finding("error", "index-shared", f"The index gives {key!r} and {other!r} one transcript.")
        return
    header = header_of(path)
    if header and entry.get("sessionId") not in (None, header.get("id")):
        yield _finding("error", "index-id", f"The index gives {key!r} another session id than its transcript has.")
    owner = header.get("sessionKey")
    if owner is not None and owner != key and isinstance(owner, str):
        yield _finding("error", "index-key", f"The index gives {key!r} the transcript of {owner!r}.")


def _info_findings(info: SessionInfo, entry: Mapping[str, JSON] | None) -> Iterator[Finding]:
    """Yield what the index does not say of a session, or says wrongly."""
    if entry is None:
        text = f"The index lacks {info.key!r}, whose transcript {info.path.name!r} is found all the same."
        yield _finding("warning", "index-lacks", text)
        return
    if entry.get("bytes") != info.size or "messages" not in entry:
        return  # it does not claim to know
    try:
        with contextlib.closing(Transcript.read(info.path)) as transcript:
            tally = transcript.tally(whole=True)
    except (TranscriptFormatError, FileNotFoundError):
        return  # the check of the transcript itself says so
    said, counted = (info.messages, info.compactions), (tally.messages, tally.compactions)
    if said != counted and info.path.stat().st_size == info.size:
        text = f"The index says that {info.key!r} has {said[0]} messages and {said[1]} compactions"
        yield _finding("error", "index-count", f"{text}; it has {counted[0]} and {counted[1]}.")


def _finding(level: Level, code: str, text: str) -> Finding:
    return Finding(level=level, line=None, code=code, text=text)


# -- what others left ------------------------------------------------------------------------------


def _superseded(store: FileStore) -> list[Superseded]:
    usual = {f"{safe_name(info.key)}.jsonl": info.key for info in store.glance()}
    found = []
    for path in store.superseded():
        state, key = _state(path), header_of(path).get("sessionKey")
        if state is not None:
            found.append(
                Superseded(
                    name=path.name,
                    size=state.st_size,
                    key=usual.get(path.name, SessionKey(key) if isinstance(key, str) else None),
                    updated_at=datetime.fromtimestamp(state.st_mtime, UTC),
                )
            )
    return found


@attrs.frozen(kw_only=True)
class _File:
    name: str
    size: int
    age: timedelta


def _leftovers(store: FileStore, sessions: Sequence[SessionInfo], now: datetime) -> list[Step]:
    """Return the steps that remove what nobody needs: files cut off, and notes beside sessions that are gone."""
    archives = store.archives()
    known = {info.key for info in sessions} | {archive.key for archive in archives}
    notes = {f"{safe_name(key)}.jsonl{_NOTE}" for key in known}
    notes |= {f"{named.file}{_NOTE}" for archive in archives if (named := parse_archive_name(archive.name))}
    steps = []
    for file in _plain_files(store.folder, now):
        if file.age <= _STILL_WRITTEN:
            continue
        if _TEMPORARY.fullmatch(file.name):
            why = "left by a program that was killed"
        elif file.name.endswith(_NOTE) and file.name not in notes and not _has_transcript(store.folder, file.name):
            why = "its session is gone"
        else:
            continue
        steps.append(Step(action="remove-leftover", name=file.name, size=file.size, why=why))
    return steps


def _has_transcript(folder: Path, note: str) -> bool:
    return os.path.lexists(folder / note.removesuffix(_NOTE))


def _plain_files(folder: Path, now: datetime) -> Iterator[_File]:
    moment = now if now.tzinfo else now.replace(tzinfo=UTC)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        state = _state(path)
        if state is not None and stat.S_ISREG(state.st_mode):
            age = moment - datetime.fromtimestamp(state.st_mtime, UTC)
            yield _File(name=path.name, size=state.st_size, age=age)


def _state(path: Path) -> os.stat_result | None:
    """Return what the operating system says of a file; ``None`` where it has gone meanwhile."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
