"""Transcripts as whole files: their first line, what an index says of them, and writing one anew."""

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from openclaw_ctx.contract import JSON
from openclaw_ctx.transcript.entry import decode_json, encode_json, milliseconds_of
from openclaw_ctx.transcript.file_record import FileRecord
from openclaw_ctx.transcript.paths import SAFELY, move_file
from openclaw_ctx.transcript.record_file import sync_folder, write_new_file
from openclaw_ctx.transcript.transcript import Transcript

__all__ = [
    "copy_file",
    "count_file",
    "describe_file",
    "header_of",
    "holds_line",
    "holds_something",
    "pieces_of",
    "write_pieces_to",
    "write_whole",
]

_HEADER_BYTES: Final = 1 << 20
_PIECE_BYTES: Final = 1 << 20


def holds_something(path: Path) -> bool:
    """Return whether there is a file at *path* that is not empty."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def header_of(path: Path) -> dict[str, JSON]:
    """Return the first line of a transcript; empty where it is none."""
    try:
        with _opened(path) as file:
            header = decode_json(file.readline(_HEADER_BYTES))
    except (OSError, ValueError):
        return {}
    return header if isinstance(header, dict) and header.get("type") == "session" else {}


def holds_line(path: Path) -> bool:
    """Return whether a line of a file was written whole; of a first write that a crash cut off, none was."""
    try:
        with _opened(path) as file:
            head = file.read(_HEADER_BYTES)
    except OSError:
        return False
    return len(head) == _HEADER_BYTES or b"\n" in head


def pieces_of(path: Path, *, behind_header: bool = False) -> Iterator[bytes]:
    """Yield what is in a file as it is; *behind_header*: but for its first line where that is a transcript's header."""
    skips = behind_header and bool(header_of(path))
    with path.open("rb") as file:
        if skips:
            file.readline()
        while piece := file.read(_PIECE_BYTES):
            yield piece


def write_whole(path: Path, header: Mapping[str, JSON], lines: Iterable[bytes]) -> None:
    """Write a transcript to where there is none: all of it, or nothing."""

    def pieces() -> Iterator[bytes]:
        yield encode_json(header) + b"\n"
        for line in lines:
            yield line + b"\n"

    write_pieces_to(path, pieces())


def write_pieces_to(path: Path, pieces: Iterable[bytes]) -> None:
    """Put *pieces* in the place of *path*, private and on the disk when this returns: whole, or not at all."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    write_new_file(temporary, pieces)
    try:
        move_file(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def copy_file(source: Path, target: Path) -> None:
    """Give *source* a second name, or a copy where the file system has no such names; *target* is new."""
    try:
        target.hardlink_to(source)
    except FileExistsError:
        raise
    except OSError:
        write_new_file(target, pieces_of(source))


def describe_file(path: Path, header: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return what the index says of a transcript, but for what is counted."""
    state = path.stat()
    started = milliseconds_of(header.get("timestamp"))
    return {
        "sessionId": header.get("id"),
        "sessionFile": path.name,
        "updatedAt": state.st_mtime_ns // 1_000_000,
        "bytes": state.st_size,
        **({} if started is None else {"sessionStartedAt": round(started)}),
        **({} if header.get("forkedFrom") is None else {"forkedFromParent": header["forkedFrom"]}),
        **({} if header.get("parentSession") is None else {"previousFile": header["parentSession"]}),
    }


def count_file(path: Path) -> dict[str, JSON]:
    """Read a transcript for what is counted."""
    with contextlib.closing(Transcript(FileRecord(path, read_only=True))) as transcript:
        tally = transcript.tally(whole=True)
        return {"messages": tally.messages, "compactionCount": tally.compactions, "name": tally.name or None}


def _opened(path: Path) -> IO[bytes]:
    return open(os.open(path, os.O_RDONLY | SAFELY), "rb")  # noqa: PTH123 -- a descriptor, with the flags
