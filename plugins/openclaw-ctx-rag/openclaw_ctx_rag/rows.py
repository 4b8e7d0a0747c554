"""How one message stands in the file of an index: its text once, though its JSON holds it too."""

import json
from typing import TypeAlias

from .documents import Document

__all__ = ["Row", "as_bytes", "as_text", "row_of", "wire_of"]

Row: TypeAlias = tuple[int, bytes, bytes, bytes, bytes, int | None]
"""Number, entry id, date, text, JSON without the text, and where in it the text was."""


def row_of(number: int, document: Document) -> Row:
    """
    Return the row of a message.

    The text stands in the JSON again, escaped, nearly always in one piece: that is
    cut out, which saves half of the file, and put back by :func:`wire_of`.
    """
    escaped = _escaped(document.text)
    at = document.wire.find(escaped) if escaped else -1
    wire, cut = document.wire, None
    if at >= 0:
        wire, cut = wire[:at] + wire[at + len(escaped) :], at
    return number, as_bytes(document.entry_id), as_bytes(document.date), as_bytes(document.text), wire, cut


def wire_of(text: bytes, wire: bytes, cut: int | None) -> bytes:
    """Return the JSON of a message as it was given."""
    return wire if cut is None else b"".join((wire[:cut], _escaped(as_text(text)), wire[cut:]))


def as_bytes(text: str) -> bytes:
    """Return any text as bytes, half a surrogate pair included."""
    return text.encode("utf-8", "surrogatepass")


def as_text(kept: bytes) -> str:
    """Return a text that :func:`as_bytes` made bytes of."""
    return kept.decode("utf-8", "surrogatepass")


def _escaped(text: str) -> bytes:
    return as_bytes(json.dumps(text, ensure_ascii=False)[1:-1])
