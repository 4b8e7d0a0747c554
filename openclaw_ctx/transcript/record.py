"""
The lines of one transcript: all that differs between a session in a file and one elsewhere.

A :class:`~.transcript.Transcript` makes a conversation of them.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from openclaw_ctx.contract import JSON, Message

from .entry import Entry
from .load import Loaded

__all__ = ["Record"]


class Record(Protocol):
    """
    Lines that are read where they are and appended whole.

    Reading is for any thread at any time until :meth:`close`; everything else is
    one thread's at a time, which the transcript sees to.
    """

    @property
    def path(self) -> Path:
        """Where it is; a name that no file has where there is no file."""

    @property
    def read(self) -> Callable[[Entry], Message]:
        """Reads the message of an entry of the last load, and goes on doing so after the next one."""

    @property
    def size(self) -> int:
        """Bytes, as they would be in a file."""

    def load(self, *, whole: bool) -> Loaded:
        """
        Return what is there.

        Args:
            whole: Every entry; else the end of the active branch that makes up the context will do.
        """

    def refresh(self) -> Loaded | None:
        """
        Return what is there now, where somebody else has changed it; ``None`` where nobody has.

        Raises:
            FileNotFoundError: It was removed.
        """

    def prepare(self, header: Mapping[str, JSON], entries: Sequence[Entry]) -> bool:
        """
        Bring the record, which holds *header* and *entries*, into the state that an append needs.

        Returns:
            Whether it is; where not, somebody has written meanwhile, and it is to be read again first.
        """

    def append(self, header: Mapping[str, JSON], lines: Sequence[Mapping[str, JSON]]) -> list[Entry]:
        """
        Write whole lines, all or none; once this returns they survive the process.

        Args:
            header: Written before them where the record is empty.
            lines: Each with ``type``, ``id``, ``parentId`` and ``timestamp``.

        Returns:
            The entries on them.

        Raises:
            OSError: They could not be written; the record is as it was.
            ReadOnlyTranscriptError: It was opened for reading.
        """

    def data(self, entry: Entry) -> JSON:
        """Return all that is on the line of an entry; a line that cannot be read whole says so."""

    def line(self, entry: Entry) -> bytes:
        """Return the line of an entry as it is, without its end."""

    def note(self) -> bytes | None:
        """Return the small value that a host keeps beside the session, or ``None``."""

    def set_note(self, value: bytes) -> None:
        """
        Keep a small value beside the session: whole, or not at all.

        Raises:
            OSError: It could not be kept.
        """

    def retire(self) -> None:
        """Let go of the right to write; what was handed out can still be read for as long as somebody holds it."""

    def close(self) -> None:
        """Let go of it; what was not read yet cannot be read any more."""
