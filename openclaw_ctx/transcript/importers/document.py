"""Files that are one JSON document."""

from openclaw_ctx.contract import JSON

from .records import decode, decode_cut

__all__ = ["read_document"]


def read_document(text: bytes) -> tuple[JSON, str | None, bool]:
    """
    Return the value of a file, what had to be done to get it, and whether anything was given up.

    Of a document whose end is missing it is what stands before; ``None`` where
    the file opens no list and no object.
    """
    text = text.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n\0")
    if not text.startswith((b"[", b"{")):
        return None, None, False
    try:
        return *decode(text), False
    except ValueError:
        value, lost = decode_cut(text)
        return value, "cut off at the end of the file", lost
