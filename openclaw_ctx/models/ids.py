"""Ids of tool calls that a provider takes: of its alphabet, within its length, and no two the same."""

import hashlib
import re
from typing import Final, Literal, TypeAlias

__all__ = ["IdStyle", "Ids"]

IdStyle: TypeAlias = Literal["openai", "anthropic", "mistral"]
"""
At most 40 characters; at most 64 of letters, digits, ``_`` and ``-``; exactly nine letters and digits.

The alphabet is held in all three, since servers that speak OpenAI's language are stricter than OpenAI.
"""

_LENGTHS: Final = {"openai": 40, "anthropic": 64, "mistral": 9}
_DIGEST: Final = 8


class Ids:
    """Gives out ids, the same ones for the same calls in the same order."""

    def __init__(self, style: IdStyle) -> None:
        self._length = _LENGTHS[style]
        self._exact = style == "mistral"
        self._foreign = re.compile(r"[^A-Za-z0-9]" if self._exact else r"[^A-Za-z0-9_-]")
        self._used: set[str] = set()

    def fresh(self, wanted: str) -> str:
        """Return *wanted* itself where it fits and is unused, else one that is made of it."""
        fresh = wanted if self._fits(wanted) else self._made(wanted, 0)
        number = 0
        while fresh in self._used:
            number += 1
            fresh = self._made(wanted, number)
        self._used.add(fresh)
        return fresh

    def _fits(self, wanted: str) -> bool:
        length = len(wanted)
        fits = length == self._length if self._exact else 0 < length <= self._length
        return fits and not self._foreign.search(wanted)

    def _made(self, wanted: str, number: int) -> str:
        digest = hashlib.sha256(f"{number}:{wanted}".encode("utf-8", "surrogatepass")).hexdigest()
        if self._exact:
            return digest[: self._length]
        kept = self._foreign.sub("", wanted)[: self._length - _DIGEST - 1] or "call"
        return f"{kept}_{digest[:_DIGEST]}"
