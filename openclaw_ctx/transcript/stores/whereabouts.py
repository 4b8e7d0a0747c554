"""Which transcript of a folder is whose, whatever the index knows of it."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from openclaw_ctx.contract import JSON, SessionKey
from openclaw_ctx.transcript.paths import safe_name

from .archive import is_transcript_name
from .index import Entries, SessionIndex, primary_transcripts, rebuild
from .whole_file import describe_file, header_of, holds_line

__all__ = ["Whereabouts", "first_name", "key_in", "names_in"]

# What a rotation calls its file: a time and a session id.
_SUCCESSOR: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9-]+Z_[0-9a-f-]{36}\.jsonl")


class Whereabouts:
    """
    Finds transcripts by key.

    The index tells; where it knows nothing of a rotation, the successor itself
    does, for its header says how long the old transcript was.
    """

    def __init__(self, folder: Path, index: SessionIndex) -> None:
        self._folder = folder
        self._index = index
        self._origins: dict[str, tuple[JSON, JSON]] = {}  # headers never change

    def path_of(self, key: SessionKey) -> Path:
        """Return the transcript that counts; where a session has none, where to begin it."""
        entries = self._index.read()
        entry = entries.get(key, {})
        path = self.file_of(key, entry)
        if path.name == entry.get("sessionFile") or path.exists():
            return self._followed(path, self._successors())
        # Whoever wrote the index may have known nothing of a rotation, and other programs' files know no key.
        if any(key_in(stray) == key for stray in self._strays(entries)):
            return self.file_of(key, self.entries().get(key, {}))
        usual = self._folder / f"{key}.jsonl"
        is_usual = is_transcript_name(usual.name) and holds_line(usual) and key_in(usual) is None
        return usual if is_usual else path

    def file_of(self, key: str, entry: Mapping[str, JSON]) -> Path:
        """Return the transcript that an entry of the index means: where there is none, the session's first one."""
        named = entry.get("sessionFile")
        if isinstance(named, str) and (self._folder / named).exists():
            return self._folder / named
        return self._folder / first_name(key)

    def _followed(self, path: Path, successors: Mapping[str, Sequence[tuple[str, int]]]) -> Path:
        """Return the last transcript that goes on from *path*, each from one in which nothing was said since."""
        seen: set[str] = set()
        while path.name in successors and path.name not in seen:
            seen.add(path.name)
            size = _size_of(path)
            children = [self._folder / name for name, made_of in successors[path.name] if made_of == size]
            if not children:
                break
            path = max(children, key=lambda child: (_size_of(child), child.name))
        return path

    def _successors(self) -> dict[str, list[tuple[str, int]]]:
        """Return what rotations wrote, by the transcript that it goes on from, with the size that this had then."""
        found: dict[str, list[tuple[str, int]]] = {}
        for name in names_in(self._folder):
            if not _SUCCESSOR.fullmatch(name):
                continue
            if name not in self._origins:
                header = header_of(self._folder / name)
                if not header:
                    continue  # it is being copied here, perhaps
                self._origins[name] = header.get("parentSession"), header.get("parentBytes")
            parent, made_of = self._origins[name]
            if isinstance(parent, str) and type(made_of) is int:
                found.setdefault(parent, []).append((name, made_of))
        return found

    def entries(self) -> Entries:
        """Return the index, with an entry for each transcript that it does not know, and each naming what counts."""
        entries = self._index.read()
        if self._strays(entries):
            files = {entry.get("sessionFile") for entry in entries.values()}
            there = {key for key, entry in entries.items() if self.file_of(key, entry).name in files}
            files.update(map(first_name, there))
            for key, entry in rebuild(self._folder).items():
                if key not in there and entry.get("sessionFile") not in files:
                    # What was counted was counted in another file.
                    entries[key] = {**entries.get(key, {}), **entry, "bytes": None}
            successors = self._successors()
            paths = {key: self.file_of(key, entry) for key, entry in entries.items()}
            current = {path.name for path in paths.values() if self._followed(path, successors) == path}
            for key, path in paths.items():
                if (last := self._followed(path, successors)) == path:
                    continue
                if last.name in current:
                    del entries[key]  # a former transcript of another entry's, which bore no key
                    continue
                entries[key] = {**entries[key], **describe_file(last, header_of(last)), "bytes": None}
        return entries

    def _strays(self, entries: Entries) -> list[Path]:
        """Return transcripts that the index does not know."""
        known = {entry.get("sessionFile") for entry in entries.values()} | set(map(first_name, entries))
        return [path for path in primary_transcripts(self._folder) if path.name not in known]

    def superseded_of(self, key: SessionKey, current: Path) -> list[Path]:
        """Return the transcripts of a session besides the one that counts."""
        first = first_name(key)
        others = {entry.get("sessionFile") for name, entry in self._index.read().items() if name != key}
        former: list[str] = []
        header = header_of(current)
        while "parentBytes" in header and header.get("parentSession") not in {None, current.name, *former}:
            former.append(str(header["parentSession"]))
            header = header_of(self._folder / former[-1]) if is_transcript_name(former[-1]) else {}
        return [
            path
            for path in primary_transcripts(self._folder)
            if path != current
            and path.name not in others
            and (path.name == first or path.name in former or key_in(path) == key)
        ]

    def superseded(self) -> Sequence[Path]:
        """
        Return transcripts that belong to a session and are not the one that counts: what rotations left behind.

        One that merely bears a session's key, and that nobody rotated, is a session of its own.
        """
        entries = self.entries()
        current = {self.file_of(key, entry).name for key, entry in entries.items()}
        first = {first_name(key) for key in entries}
        left = [path for path in primary_transcripts(self._folder) if path.name not in current]
        successors = self._successors()
        return [
            path
            for path in left
            if path.name in first or key_in(path) in entries or self._followed(path, successors) != path
        ]


def key_in(path: Path) -> str | None:
    """Return whose a transcript says that it is."""
    key = header_of(path).get("sessionKey")
    return key if isinstance(key, str) else None


def first_name(key: str) -> str:
    """Return what the first transcript of a session is called."""
    return f"{safe_name(key)}.jsonl"


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none where there is no folder."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 -- names are what archives are known by
    except FileNotFoundError:
        return []


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
