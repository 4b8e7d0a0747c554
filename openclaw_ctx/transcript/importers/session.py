"""What an importer is, and what it gives."""

from pathlib import Path
from typing import Protocol, runtime_checkable

import attrs

from openclaw_ctx.contract import Message

__all__ = ["ImportedSession", "Importer"]


@attrs.frozen(kw_only=True)
class ImportedSession:
    """
    A recorded session, in the contract's messages.

    A system prompt, where the source holds one, is the first message. Nothing is
    repaired: a call without a result stays one.

    Attributes:
        format: The ``NAME`` of the importer.
        messages: Oldest first. An ``entry_id`` is the source's own and occurs once, or is ``None``.
        session_id: What the source calls the session, verbatim.
        cwd: The folder that the session worked in.
        skipped: One line for each thing left out or mended, opened by where it
            stands (``line 7: 300 NUL bytes``). No text of the session is in it.
    """

    format: str
    messages: tuple[Message, ...]
    session_id: str | None = None
    cwd: str | None = None
    skipped: tuple[str, ...] = ()


@runtime_checkable
class Importer(Protocol):
    """
    A module that reads one format.

    A file in this folder with these three names is one; so is a module that
    another distribution offers in the entry-point group ``openclaw_ctx.importers``.
    """

    NAME: str

    def sniff(self, head: bytes, path: Path) -> bool:
        """Tell whether a file that opens with *head* (64 KiB at most, cut anywhere) is of this format."""

    def read(self, path: Path) -> ImportedSession:
        """
        Return the session in a file, whatever state the file is in.

        Raises:
            TranscriptFormatError: Nothing in the file is of this format.
        """
