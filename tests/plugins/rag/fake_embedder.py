"""An embedder without a model: texts with the same words have the same vector."""

import asyncio
from collections.abc import Sequence
from zlib import crc32

import numpy as np

from openclaw_ctx_rag.index import Vectors

__all__ = ["FakeEmbedder"]


class FakeEmbedder:
    """
    Counts words by their hash.

    Attributes:
        asked: What was embedded, call by call; failures too.
        failures: Raised by the next calls, one each.
        refused: A text with one of these words is never taken.
        gate: While it is cleared, whoever asks waits.
    """

    def __init__(self, *, name: str = "fake", dimensions: int = 32) -> None:
        self.name = name
        self.dimensions = dimensions
        self.asked: list[list[str]] = []
        self.failures: list[Exception] = []
        self.refused: dict[str, Exception] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.closed = False

    async def embed(self, texts: Sequence[str], *, urgent: bool = False) -> Vectors:
        """Return rows of unit length, or raise what is next."""
        self.asked.append(list(texts))
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        for text in texts:
            for word, error in self.refused.items():
                if word in text:
                    raise error
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> Vectors:
        """Return the vector of one text."""
        counts = np.zeros(self.dimensions, np.float32)
        for word in text.lower().split() or [""]:
            counts[crc32(word.encode("utf-8", "surrogatepass")) % self.dimensions] += 1
        return counts / np.linalg.norm(counts)

    async def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True
