"""A model that does the same over and over behind a compaction, since it forgot that it did."""

import hashlib
import json
from typing import Final

import msgspec

from openclaw_ctx.contract import JSON

__all__ = ["DETECTOR", "LoopGuard"]

DETECTOR: Final = "compaction_loop_persisted"
"""What the reference system calls it."""

WATCHED_CALLS: Final = 3
"""So many calls behind a compaction are watched, and so many alike are a loop; the reference system's."""


class LoopGuard:
    """
    Watches the next three tool calls after each compaction, until the user speaks again.

    A compaction between two calls that are alike does not begin the count anew:
    a call whose result fills the window is followed by one each time.
    """

    __slots__ = ("_alike", "_last", "_left")

    def __init__(self) -> None:
        self._left = 0
        self._alike = 0
        self._last: bytes | None = None

    def arm(self) -> None:
        """Watch the next calls; a compaction has been made."""
        if not self._left:
            self._alike, self._last = 0, None
        self._left = WATCHED_CALLS

    def disarm(self) -> None:
        """Watch no more calls; the user has said something, and may well want to know the same again."""
        self._left = 0

    def saw(self, name: str, arguments: JSON, result_text: str) -> bool:
        """Take in a call; return whether it is the third in a row with this name, arguments and result."""
        if not self._left:
            return False
        self._left -= 1
        call = _digest(name, arguments, result_text)
        self._alike = self._alike + 1 if call == self._last else 1
        self._last = call
        if self._alike < WATCHED_CALLS:
            return False
        self._left = 0
        return True


def _digest(name: str, arguments: JSON, result_text: str) -> bytes:
    # Results can be long, so none is kept.
    parts = (name.encode("utf-8", "surrogatepass"), _canonical(arguments), result_text.encode("utf-8", "surrogatepass"))
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def _canonical(value: JSON) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (TypeError, ValueError, OverflowError):  # lone surrogates, huge integers, keys that are no text
        return json.dumps(value, sort_keys=True, default=repr, skipkeys=True).encode()
