"""Long texts as a few chunks: a vector of each, and their mean for the text."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

import attrs
import numpy as np

from .embedder import as_unicode, unit_rows
from .index import Vectors

__all__ = ["Chunked", "chunks_of"]

_CHUNKS: Final = 4
_CHARACTERS: Final = 16_000
"""More of a text is not even looked at: four chunks hold less."""

_CHUNK = re.compile(r"(?:\S{1,16}\s*){1,150}")
"""About 150 words; a longer word counts as several, so that scripts without spaces have chunks too."""


@attrs.frozen(eq=False)
class Chunked:
    """
    Texts in chunks.

    Attributes:
        chunks: Of all texts.
        owners: By chunk, the position of its text.
        count: How many texts there are.
    """

    chunks: list[str]
    owners: list[int]
    count: int

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Chunked":
        """Return the chunks of *texts*, at least one of each."""
        parts = [chunks_of(text) for text in texts]
        owners = [position for position, found in enumerate(parts) for _ in found]
        return cls([chunk for found in parts for chunk in found], owners, len(texts))

    def mean(self, rows: Vectors) -> Vectors:
        """Return a row of unit length for each text, from a row for each chunk."""
        sums = np.zeros((self.count, rows.shape[1]), np.float64)
        np.add.at(sums, self.owners, rows)
        return unit_rows(sums, self.count)


def chunks_of(text: str) -> list[str]:
    """Return the first chunks of a text; a space of one without words, since endpoints refuse an empty text."""
    found = islice(_CHUNK.finditer(as_unicode(text[:_CHARACTERS])), _CHUNKS)
    return [" ".join(match[0].split()) for match in found] or [" "]
