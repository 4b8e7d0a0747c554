"""Session files as they lie on disk, line by line."""

import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openclaw_ctx.contract import Message, UserMessage
from openclaw_ctx.transcript import History, Transcript

HEADER = {"type": "session", "version": 3, "id": "s-1", "timestamp": "2025-11-20T23:33:50.805Z", "cwd": "/work"}


def line(entry_id: str, parent_id: str | None, text: str, **message: Any) -> dict[str, Any]:
    """Return a line with a user's message."""
    body = {"role": "user", "content": text, **message}
    return {"type": "message", "id": entry_id, "parentId": parent_id, "timestamp": "2025-11-20T23:34:00Z"} | {
        "message": body
    }


def chain(*texts: str) -> list[dict[str, Any]]:
    """Return a line for each text, ``e1``, ``e2`` and so on, each behind the one before."""
    return [line(f"e{i}", f"e{i - 1}" if i > 1 else None, text) for i, text in enumerate(texts, 1)]


def as_bytes(lines: Iterable[object]) -> bytes:
    """Return the file: bytes as they are, anything else as JSON, each with its newline."""
    return b"".join((item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in lines)


def texts(messages: Iterable[Message]) -> list[str]:
    """Return what the messages say."""
    return [message.text for message in messages]


def ids(history: History) -> list[str]:
    """Return the entry ids, as the messages have them."""
    return [str(message.entry_id) for message in history]


def say(text: str) -> UserMessage:
    """Return a user's message."""
    return UserMessage(content=text)


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[Transcript]:
    """Open a transcript, and close it again whatever happens."""
    transcript = Transcript.open(path, **options)
    try:
        yield transcript
    finally:
        transcript.close()


@contextmanager
def new_file(content: bytes = b"") -> Iterator[Path]:
    """Make a file in a folder of its own, for laws, where a fixture would be shared by all examples."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(content)
        yield path


def reread(path: Path, *, then: str = "next") -> tuple[list[str], list[str], list[str]]:
    """Return what a file says at opening, what it says after an append and another opening, and its warnings."""
    with opened(path) as transcript:
        first, warnings = texts(transcript.history), transcript.take_warnings()
        transcript.append(say(then))
    with opened(path) as transcript:
        return first, texts(transcript.history), warnings
