"""File names from session keys: the only place where a key becomes part of a path."""

import contextlib
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from openclaw_ctx.log import get_logger

__all__ = ["SAFELY", "make_private_folder", "move_file", "replace_file", "safe_name", "write_pieces"]

_log = get_logger()
SAFELY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags of an opening that follows no link and waits for no FIFO's other end."""

_WARNED_OF: Final[set[str]] = set()
_SLUG_CHARS: Final = 40
_UNSAFE = re.compile(r"[^a-z0-9]+")
_BLOCK_BYTES: Final = 1 << 20
# A scanner or an indexer holds a file for a moment; whoever holds it for longer means it.
_PATIENCE_SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2)


def safe_name(key: str) -> str:
    """
    Return a file name for any key: readable, stable, and no two keys alike.

    A slug for people and 64 bits of the key's hash. Lower case throughout and
    never a reserved word, so that it holds on file systems that fold case.
    """
    slug = _UNSAFE.sub("-", key.lower())[:_SLUG_CHARS].strip("-") or "key"
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{slug}-{digest}"


def make_private_folder(folder: Path) -> Path:
    """
    Make *folder* and its parents where they are missing, readable by this user alone; return it.

    One that was there keeps its mode; where that lets everybody write, a warning
    is logged, once a process.
    """
    if not folder.is_dir():
        if not folder.parent.is_dir():
            make_private_folder(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)
        os.chmod(folder, 0o700)  # noqa: PTH101 -- mkdir's mode passes the umask
    else:
        _warn_if_exposed(str(folder))
    return folder


def _warn_if_exposed(folder: str) -> None:
    mode = stat.S_IMODE(os.stat(folder).st_mode)  # noqa: PTH116 -- half the cost of Path.stat, and once an opening
    # In a sticky one, as /tmp is, nobody replaces another's files. Windows has no such modes.
    if os.name != "posix" or not mode & stat.S_IWOTH or mode & stat.S_ISVTX or folder in _WARNED_OF:
        return
    _WARNED_OF.add(folder)
    _log.warning("folder.exposed", path=folder, mode=f"{mode:04o}")


def replace_file(path: Path, data: bytes) -> None:
    """
    Put *data* in the place of *path*, readable by this user alone: whole, or not at all.

    Another process sees the old file or the new one. It is not synced: what a
    power cut may take back belongs here.

    Raises:
        OSError: It could not be written; *path* is as it was, and nothing is left beside it.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            write_pieces(descriptor, (data,))
        finally:
            os.close(descriptor)
        move_file(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)  # there is one only where it did not come into its place


def move_file(source: Path, target: Path) -> None:
    """
    Move *source* to *target*, replacing what is there; where another program holds one of them, try again for a while.

    Raises:
        PermissionError: Somebody still holds it, after 0.4 s; both are as they were.
        OSError: It cannot be moved.
    """
    for seconds in _PATIENCE_SECONDS:
        with contextlib.suppress(PermissionError):
            os.replace(source, target)  # noqa: PTH105 -- tests and faults take hold of it here
            return
        time.sleep(seconds)
    os.replace(source, target)  # noqa: PTH105 -- as above


def write_pieces(descriptor: int, pieces: Iterable[bytes]) -> None:
    """
    Write *pieces* one behind the other, in large blocks.

    Raises:
        OSError: The disk would not take all of it.
    """
    block = bytearray()
    for piece in pieces:
        block += piece
        if len(block) >= _BLOCK_BYTES:
            _write_block(descriptor, block)
            block.clear()
    _write_block(descriptor, block)


def _write_block(descriptor: int, block: bytearray) -> None:
    done = 0
    while done < len(block):
        done += os.write(descriptor, bytes(block[done:]) if done else block)
