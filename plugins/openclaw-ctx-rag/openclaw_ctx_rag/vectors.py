"""The vectors of an index: one byte a dimension, in blocks that are read, written and searched as they stand."""

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .postings import BLOCK

__all__ = ["VectorBlocks"]

_HIGHEST: Final = 127
"""The value that the largest number of a vector is kept as."""

_SCALE_BYTES: Final = 4 * BLOCK

_LARGEST_SCALE: Final = 1.0
"""No row of unit length has a larger factor."""


class VectorBlocks:
    """
    The vectors of one file, in memory and in it. Transactions are the caller's.

    A block is 256 factors and 256 rows; a row without a vector has the factor 0.
    After a transaction that was rolled back it is of no use any more: make another.
    """

    def __init__(self, db: sqlite3.Connection, dimensions: int) -> None:
        self._db = db
        self.dimensions = dimensions
        self._rows: dict[int, NDArray[np.int8]] = {}
        self._scales: dict[int, NDArray[np.float32]] = {}
        for block, data in db.execute("SELECT block, data FROM vectors"):
            self._scales[block] = scales = np.frombuffer(data, np.float32, BLOCK)
            if not (np.abs(scales) <= _LARGEST_SCALE).all():  # so that what is no number at all is found as well
                reason = f"the vectors of block {block} are none"
                raise ValueError(reason)
            self._rows[block] = np.frombuffer(data, np.int8, BLOCK * dimensions, _SCALE_BYTES).reshape(BLOCK, -1)

    def present(self, size: int) -> NDArray[np.bool_]:
        """Return which of *size* messages have a vector."""
        return self._scale(size) > 0

    def put(self, numbers: Sequence[int], vectors: NDArray[Any]) -> None:
        """Keep vectors; of a message that has one already the new one."""
        vectors = np.nan_to_num(np.asarray(vectors, np.float32))
        if vectors.shape != (len(numbers), self.dimensions):
            reason = f"{len(numbers)} vectors of {self.dimensions} dimensions are due, not {vectors.shape}"
            raise ValueError(reason)
        scales = np.abs(vectors).max(1, initial=0) / _HIGHEST + np.float32(1e-12)
        rows = np.rint(vectors / scales[:, None]).astype(np.int8)
        for number, scale, row in zip(numbers, scales, rows, strict=True):
            block, place = divmod(number, BLOCK)
            self._open(block)
            self._scales[block][place] = scale
            self._rows[block][place] = row
        for block in {number // BLOCK for number in numbers}:
            data = self._scales[block].tobytes() + self._rows[block].tobytes()
            self._db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (block, data))

    def cosines(self, vector: NDArray[Any], size: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the cosine of each message with *vector*, and which have one; the others have 0."""
        query = np.nan_to_num(np.asarray(vector, np.float32))
        out = np.zeros(-(-size // BLOCK) * BLOCK, np.float32)
        # Block by block: as floats they stay in the processor's cache, all of them at once would not.
        floats = np.empty((BLOCK, self.dimensions), np.float32)
        for block, rows in self._rows.items():
            np.copyto(floats, rows)
            np.dot(floats, query, out=out[block * BLOCK : (block + 1) * BLOCK])
        scale = self._scale(size)
        return out[:size] * scale, scale > 0

    def _open(self, block: int) -> None:
        if block not in self._rows:
            self._scales[block] = np.zeros(BLOCK, np.float32)
            self._rows[block] = np.zeros((BLOCK, self.dimensions), np.int8)
        elif not self._rows[block].flags.writeable:  # as it was read
            self._scales[block] = self._scales[block].copy()
            self._rows[block] = self._rows[block].copy()

    def _scale(self, size: int) -> NDArray[np.float32]:
        scale = np.zeros(-(-size // BLOCK) * BLOCK, np.float32)
        for block, values in self._scales.items():
            scale[block * BLOCK : (block + 1) * BLOCK] = values
        return scale[:size]
