"""
Which messages hold a term: blocks of postings in SQLite, the newest in memory.

A block is all terms of 256 messages, written when the last of them comes; until then
they are in memory, and are read again from the messages when a file is opened. A row
is a term within a block. The block stands first in the key, so that a new one is
written at the end of the table and touches nothing else; with the term first, each
would touch nearly every page. What that costs a search, one look-up per block, is
made up by merging sixteen blocks into one, and sixteen of those, at leisure.
"""

import sqlite3
from array import array
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .database import writing

__all__ = ["BLOCK", "Postings"]

BLOCK: Final = 256
"""Messages of a block."""

_FAN: Final = 16
"""So many blocks become one."""

_LARGEST: Final = BLOCK * _FAN * _FAN
"""Messages of the largest block: a place within it is two bytes."""

_SIZES: Final = (BLOCK, BLOCK * _FAN, _LARGEST)
"""Messages that a block may have."""

_SLICE: Final = 256
"""Terms that are merged in one transaction."""

_MOST_COUNTED: Final = 255
"""A term that stands oftener in one message is counted so often."""

_MOST_LONGER: Final = 64
"""Terms that are looked at for those that begin alike."""

_PLACE_BYTES: Final = 2
_ROW_BYTES: Final = 3


class Postings:
    """
    The postings of one file. Transactions are the caller's, those of :meth:`merge_slice` aside.

    After a transaction that was rolled back it is of no use any more: make another.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._blocks = dict(db.execute("SELECT first, size FROM block ORDER BY first"))
        self._first: int = 0
        for first, size in self._blocks.items():
            if first != self._first or size not in _SIZES:
                reason = f"a block of {size} messages begins at {first}, not at {self._first}"
                raise ValueError(reason)
            self._first += size
        self._end = self._first
        self._room = BLOCK
        self._tail: dict[str, tuple[array[int], array[int]]] = {}

    @property
    def first(self) -> int:
        """The first message whose postings are not in the file."""
        return self._first

    def expect(self, messages: int) -> None:
        """Say that so many messages come in this transaction: many at once are written as a larger block."""
        larger = BLOCK * _FAN
        if self._first == self._end and self._first % larger == 0 and messages >= larger:
            self._room = larger

    def append(self, counts: Mapping[str, int]) -> None:
        """Take the terms of the next message; where it completes a block, that is written."""
        place = self._end - self._first
        tail = self._tail
        for term, count in counts.items():
            if count > _MOST_COUNTED:  # noqa: PLR1730 -- an import waits for this loop, and min is a call
                count = _MOST_COUNTED  # noqa: PLW2901 -- as above
            found = tail.get(term)
            if found is None:
                tail[term] = array("H", (place,)), array("B", (count,))
            else:
                found[0].append(place)
                found[1].append(count)
        self._end += 1
        if place + 1 == self._room:
            self._seal()

    def of(self, terms: Sequence[str]) -> dict[str, tuple[NDArray[np.int64], NDArray[np.uint8]]]:
        """Return where each of *terms* stands, by number, and how often there; without those that stand nowhere."""
        parts: dict[str, list[tuple[int, bytes]]] = {}
        marks = ",".join("?" * len(terms))
        rows = self._db.execute(
            f"SELECT first, term, data FROM posting WHERE first IN (SELECT first FROM block) AND term IN ({marks})"  # noqa: S608 -- question marks
            " ORDER BY first",
            terms,
        )
        for first, term, data in rows:
            parts.setdefault(term, []).append((first, data))
        for term in terms:
            if term in self._tail:
                parts.setdefault(term, []).append((self._first, _packed(*self._tail[term])))
        return {term: _joined(rows) for term, rows in parts.items()}

    def longer(self, beginning: str) -> list[str]:
        """Return terms that begin with this one, in their order; of very many the first."""
        found = {term for term in self._tail if term.startswith(beginning)}
        for first in self._blocks:
            rows = self._db.execute(
                "SELECT term FROM posting WHERE first = ? AND term > ? AND term < ? ORDER BY term LIMIT ?",
                (first, beginning, beginning + "\U0010ffff", _MOST_LONGER),
            )
            found.update(term for (term,) in rows)
        return sorted(found)[:_MOST_LONGER]

    def merge_slice(self) -> bool:
        """
        Merge some terms of sixteen blocks that belong together, in a transaction; return whether there is more to do.

        The first of the sixteen takes the rows of the others, term by term, so that at
        any time each posting is in the file once. The last slice strikes the others off.
        """
        run = self._mergeable()
        if run is None:
            return False
        head, *others = run
        size = self._blocks[head] * _FAN
        with writing(self._db):
            rows = list(islice(self._merged(head, others), _SLICE))
            if rows:
                self._db.executemany("INSERT OR REPLACE INTO posting VALUES (?, ?, ?)", rows)
                last = rows[-1][1]
                self._db.executemany(
                    "DELETE FROM posting WHERE first = ? AND term <= ?", [(first, last) for first in others]
                )
            if len(rows) < _SLICE:
                self._db.executemany("DELETE FROM block WHERE first = ?", [(first,) for first in others])
                self._db.execute("UPDATE block SET size = ? WHERE first = ?", (size, head))
        if len(rows) < _SLICE:
            for first in others:
                del self._blocks[first]
            self._blocks[head] = size
        return self._mergeable() is not None

    def _seal(self) -> None:
        first = self._first
        self._db.executemany(
            "INSERT INTO posting VALUES (?, ?, ?)",
            ((first, term, _packed(*found)) for term, found in sorted(self._tail.items())),
        )
        self._db.execute("INSERT INTO block VALUES (?, ?)", (first, self._room))
        self._blocks[first] = self._room
        self._first = self._end
        self._room = BLOCK
        self._tail = {}

    def _mergeable(self) -> list[int] | None:
        for first, size in self._blocks.items():
            run = [first + step * size for step in range(_FAN)]
            aligned = first % (size * _FAN) == 0 and size < _LARGEST
            if aligned and all(self._blocks.get(other) == size for other in run):
                return run
        return None

    def _merged(self, head: int, others: Sequence[int]) -> Iterator[tuple[int, str, bytes]]:
        """Yield the rows of *others* as they will stand in *head*, by term."""
        cursors = [
            self._db.execute("SELECT term, first, data FROM posting WHERE first = ? ORDER BY term", (first,))
            for first in others
        ]
        for term, rows in groupby(merge(*cursors), key=itemgetter(0)):
            parts: list[tuple[int, bytes]] = [
                (head, data)
                for (data,) in self._db.execute("SELECT data FROM posting WHERE first = ? AND term = ?", (head, term))
            ]
            parts += [(first, data) for _, first, data in rows]
            places, counts = _joined(parts)
            yield head, term, (places - head).astype(np.uint16).tobytes() + counts.tobytes()


def _packed(places: "array[int]", counts: "array[int]") -> bytes:
    return places.tobytes() + counts.tobytes()


def _joined(parts: Sequence[tuple[int, bytes]]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    places, counts = [], []
    for first, data in parts:
        size = len(data) // _ROW_BYTES
        places.append(np.frombuffer(data, np.uint16, size).astype(np.int64) + first)
        counts.append(np.frombuffer(data, np.uint8, size, size * _PLACE_BYTES))
    return np.concatenate(places), np.concatenate(counts)
