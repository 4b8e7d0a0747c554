"""What a person means by a session: one of the store, or a file in any format that is known."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from openclaw_ctx.assembly import sessions_folder, state_folder
from openclaw_ctx.contract import Message, SessionKey
from openclaw_ctx.transcript import FileStore, MemoryStore, Transcript, header_of, iso_time, lines_of

__all__ = ["OWN_FORMAT", "Source", "begun_at", "is_own", "means_file", "open_source", "store_in"]

OWN_FORMAT: Final = "openclaw-ctx"


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

    def left_out(self) -> list[str]:
        """Return what could not be read of all that has been read until now, a sentence each, once; not cleaned."""
        return [*self.skipped, *self.transcript.take_warnings()]


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
        OSError: The operating system refuses the file.
    """
    if not means_file(name):
        store = store_in(state_dir)
        key = store.find(name)
        source = Source(name=name, transcript=store.read(key), format=OWN_FORMAT, key=key)
    elif is_own(Path(name)):
        source = Source(name=name, transcript=Transcript.read(Path(name)), format=OWN_FORMAT)
    else:
        source = _imported(name)
    with contextlib.closing(source.transcript):
        yield source


def begun_at(messages: Sequence[Message]) -> str | None:
    """Return when a recorded session began, as a header has it: the time of its first message that has one."""
    stamps = (getattr(message, "timestamp", None) for message in messages)
    first = next((stamp for stamp in stamps if stamp is not None), None)
    return None if first is None else iso_time(first)


def means_file(name: str) -> bool:
    """Return whether a name is that of a file rather than a session's: it leads to one, and looks like a path."""
    # A session key may be longer than any path, or hold a NUL: os.path says no, where Path.exists would raise.
    looks_like_path = os.sep in name or "/" in name or bool(Path(name).suffix)
    return looks_like_path and os.path.exists(name)  # noqa: PTH110 -- as above


def is_own(path: Path) -> bool:
    """Return whether a file is a transcript as the store has them, which is OpenClaw's and pi's form too."""
    return bool(header_of(path).get("id"))


def _imported(name: str) -> Source:
    from openclaw_ctx.transcript.importers import import_session  # noqa: PLC0415 -- a dozen modules, for others' files

    imported, memory, key = import_session(Path(name)), MemoryStore(), SessionKey(name)
    header = {"id": imported.session_id, "cwd": imported.cwd, "timestamp": begun_at(imported.messages)}
    memory.create(key, tuple(lines_of(imported.messages)), header=header)
    return Source(name=name, transcript=memory.read(key), format=imported.format, skipped=tuple(imported.skipped))
