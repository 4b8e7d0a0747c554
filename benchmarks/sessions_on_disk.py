"""
Sessions on disk, as appending would have left them, made as fast as a file is written.

A transcript of 300 MB or of a million lines takes seconds here, and minutes by
appending. Its lines are those of an append: same fields, same order.
"""

import itertools
import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs

from openclaw_ctx import Host, Registry, Transcript
from openclaw_ctx.contract import message_to_wire
from openclaw_ctx.transcript import encode_json

from .history import Said, as_message, conversation
from .measure import Sample, seconds_each

__all__ = ["SessionFile", "appending", "session_path", "write_transcript"]

_BODIES = 256  # of a multiple of four roles, so that calls and results go round without a gap
_CALL_ID = b"@call@"
_BEGAN = datetime(2025, 4, 2, 8, 0, tzinfo=UTC)
_KEPT = 20


async def session_path(folder: Path, key: str) -> Path:
    """Return where a host with its state in *folder* keeps a session, which is new then."""
    async with Host.open({}, state_dir=folder, registry=Registry()) as host, host.session(key) as session:
        return session.transcript.path


def write_transcript(path: Path, number: int) -> None:
    """Append the first *number* messages of the conversation."""
    transcript = Transcript.open(path)
    for said in itertools.islice(conversation(), number):
        transcript.append(as_message(said))
    transcript.close()


def appending(transcript: Transcript, batch: int) -> Sample:
    """Return what appends so many messages, and answers what one took."""
    said = map(as_message, conversation())

    async def sample() -> float:
        messages = list(itertools.islice(said, batch))
        began = time.perf_counter()
        for message in messages:
            transcript.append(message)
        return seconds_each(began, batch)

    return sample


@attrs.frozen(kw_only=True)
class SessionFile:
    """
    What a session's file is to look like.

    Attributes:
        messages: How many there are; on as many lines.
        size: Bytes of the file, nearly.
        longest: Bytes of the one long line, halfway; 0 for none.
        after_compaction: How many messages, at least 1, follow the compaction, which keeps 20 before it; ``None``:
            there is none.
    """

    messages: int
    size: int
    longest: int = 0
    after_compaction: int | None = None

    @property
    def in_context(self) -> int:
        """How many messages a model sees, the summary too."""
        return self.messages if self.after_compaction is None else 1 + _KEPT + self.after_compaction

    def write(self, path: Path) -> None:
        """Write it to *path*, whose folder is there."""
        header = {"type": "session", "version": 3, "id": "benchmark", "timestamp": _iso(0), "cwd": "/"}
        with path.open("wb", buffering=1 << 20) as file:
            file.write(encode_json(header) + b"\n")
            file.writelines(self._lines())

    def _lines(self) -> Iterator[bytes]:
        bodies = self._bodies((self.size - self.longest) / self.messages - len(_line(1, 0, b"message", b"")))
        boundary = None if self.after_compaction is None else self.messages - self.after_compaction
        parent = 0
        for number in range(self.messages):
            if number == boundary:
                body = b'"summary":"They searched.","firstKeptEntryId":"%08x","tokensBefore":100000' % (
                    parent - _KEPT + 1
                )
                yield _line(parent + 1, parent, b"compaction", body)
                parent += 1
            body = bodies[number % _BODIES].replace(_CALL_ID, b"call_%d" % (number // 4))
            if self.longest and number == self.messages // 2:
                body = b'"message":{"role":"user","content":"%s"}' % (b"It goes on and on. " * (self.longest // 19))
            yield _line(parent + 1, parent, b"message", body)
            parent += 1

    def _bodies(self, mean: float) -> list[bytes]:
        """Return what stands on the lines of messages, with texts drawn out or cut so that they have *mean* bytes."""
        said = list(itertools.islice(conversation(), _BODIES))
        texts = statistics.fmean(len(it.text) for it in said)
        frames = statistics.fmean(len(_body(it)) for it in said) - texts
        return [_body(attrs.evolve(it, text=_drawn(it.text, (mean - frames) / texts))) for it in said]


def _body(said: Said) -> bytes:
    message = as_message(attrs.evolve(said, call_id=_CALL_ID.decode()))
    return b'"message":%s' % encode_json(message_to_wire(message))


def _drawn(text: str, factor: float) -> str:
    length = max(1, round(len(text) * factor))
    return f"{text} " * (length // (len(text) + 1)) + text[: length % (len(text) + 1)]


def _line(number: int, parent: int, kind: bytes, body: bytes) -> bytes:
    before = b'"%08x"' % parent if parent else b"null"
    stamp = _iso(number).encode()
    return b'{"type":"%s","id":"%08x","parentId":%s,"timestamp":"%s",%s}\n' % (kind, number, before, stamp, body)


def _iso(seconds: int) -> str:
    return (_BEGAN + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
