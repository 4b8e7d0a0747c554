"""A session in forms for others: as it is, as messages, or to be read."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from openclaw_ctx.contract import JSON, CompactionSummaryMessage, Message, message_to_wire

from .entry import decode_json, encode_json
from .markdown import UNSEEN, heading, section
from .transcript import Transcript

__all__ = ["FORMATS", "conversation", "export", "plain_json"]

_DEEPEST: Final = 200
_HEADER_BYTES: Final = 1 << 20


def export(transcript: Transcript, form: str) -> Iterator[bytes]:
    """
    Yield a session in a form of :data:`FORMATS`, in pieces.

    Args:
        transcript: Open, for reading or writing.
        form: ``jsonl``: its header and every line of every branch, byte for
            byte; what is no line of a transcript is left out. ``json``: the messages
            of the active branch, summarised ones too, as an array, with what nobody
            would see as escapes. ``markdown``:
            these and the summaries, to be read; nothing in a message can end its section,
            load a picture or be taken for a heading or HTML.
    """
    return FORMATS[form](transcript)


def conversation(transcript: Transcript, *, last: int | None = None) -> Iterator[Message]:
    """
    Yield what was said on the active branch, oldest first, with its summary where a compaction stands.

    Args:
        transcript: Open; read whole.
        last: At most so many, of the end; summaries count too.
    """
    steps = [entry for entry in transcript.active_branch() if entry.is_message or entry.type == "compaction"]
    record = transcript.record()
    if last is not None:
        steps = steps[-last:]
    messages = iter(record[len(record) - sum(entry.is_message for entry in steps) :])
    return (
        next(messages) if entry.is_message else CompactionSummaryMessage(summary=entry.summary or "", entry_id=entry.id)
        for entry in steps
    )


def plain_json(value: JSON) -> JSON:
    """
    Return *value* as every JSON reader takes it: numbers that JSON has not as ``null``, and no depth that breaks one.

    Lone surrogates stay, for an ASCII encoder to escape.
    """
    return _plain(value, _DEEPEST)


def _plain(value: Any, depth: int) -> JSON:
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth - 1) for key, item in value.items()} if depth else "(nested too deeply)"
    if isinstance(value, list | tuple):
        return [_plain(item, depth - 1) for item in value] if depth else "(nested too deeply)"
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _as_jsonl(transcript: Transcript) -> Iterator[bytes]:
    yield _header_line(transcript) + b"\n"
    for line in transcript.lines():
        yield line + b"\n"


def _header_line(transcript: Transcript) -> bytes:
    """Return the first line as it is in the file; where that is not the header, the header."""
    header = transcript.header
    try:
        with transcript.path.open("rb") as file:
            line = file.readline(_HEADER_BYTES).removesuffix(b"\n")
        if decode_json(line) == header:
            return line
    except (OSError, ValueError):
        pass  # no file of its own, or a damaged one
    return encode_json(dict(header))


def _as_json(transcript: Transcript) -> Iterator[bytes]:
    yield b"["
    for number, message in enumerate(transcript.record()):
        yield (b",\n" if number else b"\n") + _encoded(message_to_wire(message))
    yield b"\n]\n"


def _encoded(value: JSON) -> bytes:
    # Controls stand within strings only, where JSON has an escape for each.
    return UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], encode_json(plain_json(value)).decode()).encode()


def _as_markdown(transcript: Transcript) -> Iterator[bytes]:
    title = transcript.name or str(transcript.header.get("sessionKey") or transcript.session_id)
    yield f"# {heading(title)}\n".encode()
    for message in conversation(transcript):
        yield "".join(section(message)).encode()


FORMATS: Final[Mapping[str, Callable[[Transcript], Iterator[bytes]]]] = {
    "json": _as_json,
    "jsonl": _as_jsonl,
    "markdown": _as_markdown,
}
"""By name, what writes a session in that form."""
