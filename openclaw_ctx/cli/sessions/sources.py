"""What a person means by a session: one of the store, or a file in any format that is known."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import attrs

from openclaw_ctx.assembly import sessions_folder, state_folder
from openclaw_ctx.contract import SessionKey
from openclaw_ctx.transcript import FileStore, MemoryStore, Transcript, header_of, lines_of
from openclaw_ctx.transcript.importers import import_session

__all__ = ["OWN_FORMAT", "Source", "is_own", "means_file", "open_source", "store_in"]

OWN_FORMAT = "openclaw-ctx"


@attrs.frozen(kw_only=True)
class Source:
    """
    A session that is open for reading.

    Attributes:
        name: What was asked for.
        key: Of a session of the store.
        format: ``openclaw-ctx``, which is OpenClaw's and pi's too, or the importer's name.
        skipped: What an importer left out.
    """

    name: str
    transcript: Transcript
    format: str
    key: SessionKey | None = None
    skipped: tuple[str, ...] = ()


def store_in(state_dir: Path | None) -> FileStore:
    """Return the sessions of a state folder."""
    return FileStore(sessions_folder(state_folder(state_dir)))


@contextlib.contextmanager
def open_source(name: str, state_dir: Path | None) -> Iterator[Source]:
    """
    Open what *name* means: a file, where there is one and the name looks like a path; else a session of the store.

    Raises:
        SessionNotFoundError: It is no session, or several.
        UnknownFormatError: It is a file that no importer knows.
    """
    if means_file(name):
        path = Path(name)
        if is_own(path):
            source = Source(name=name, transcript=Transcript.read(path), format=OWN_FORMAT)
        else:
            imported, memory, key = import_session(path), MemoryStore(), SessionKey(name)
            header = {"id": imported.session_id, "cwd": imported.cwd}
            memory.create(key, tuple(lines_of(imported.messages)), header=header)
            source = Source(
                name=name, transcript=memory.read(key), format=imported.format, skipped=tuple(imported.skipped)
            )
    else:
        store = store_in(state_dir)
        key = store.find(name)
        source = Source(name=name, transcript=store.read(key), format=OWN_FORMAT, key=key)
    with contextlib.closing(source.transcript):
        yield source


def means_file(name: str) -> bool:
    """Return whether a name is that of a file rather than a session's: it leads to one, and looks like a path."""
    path = Path(name)
    return (os.sep in name or "/" in name or bool(path.suffix)) and path.exists()


def is_own(path: Path) -> bool:
    """Return whether a file is a transcript as the store has them, which is OpenClaw's and pi's form too."""
    return bool(header_of(path).get("id"))
