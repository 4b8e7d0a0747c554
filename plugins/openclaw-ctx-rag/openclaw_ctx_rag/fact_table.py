"""What is known of every message besides its text, in memory and in the file."""

import sqlite3
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .documents import Document
from .index import ROLES, Facts, Filter
from .postings import BLOCK
from .rows import as_bytes, as_text
from .terms import digest_of, words_of

__all__ = ["FactTable"]

_FACT: Final = np.dtype(
    [
        ("timestamp", np.float64),
        ("digest", np.uint64),
        ("tokens", np.uint32),
        ("group", np.uint32),
        ("length", np.uint32),
        ("author", np.uint32),
        ("role", np.uint8),
        ("active", np.bool_),
    ]
)

_LARGEST: Final = 2**32 - 1


class FactTable:
    """
    The facts of one file, in blocks of 256 rows, and who speaks in it. Transactions are the caller's.

    After a transaction that was rolled back it is of no use any more: make another.
    What cannot have been written is a ``ValueError``.

    Attributes:
        authors: Their names, by number.
        names: The words of each, for a query that names him.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        blocks = b"".join(data for (data,) in db.execute("SELECT data FROM facts ORDER BY block"))
        self._rows = np.frombuffer(bytearray(blocks), _FACT)
        self._size = len(self._rows)
        self.authors = [as_text(name) for (name,) in db.execute("SELECT name FROM author ORDER BY number")]
        self.names = [words_of(name) for name in self.authors]
        self._numbers = {name: number for number, name in enumerate(self.authors)}
        if (self._rows["author"] >= len(self.authors)).any() or (self._rows["group"] > np.arange(self._size)).any():
            reason = "facts tell of authors or groups that are not there"
            raise ValueError(reason)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = self._rows[: self._size][name]
        return column

    def facts(self) -> Facts:
        """Return them as they are now; what comes later does not change what was returned."""
        rows = self._rows[: self._size]
        rows.flags.writeable = False
        return Facts(**{name: rows[name] for name in ("tokens", "group", "timestamp", "role", "active", "digest")})

    def within(self, only: Filter | None) -> NDArray[np.bool_]:
        """Return which messages *only* leaves; one without a time is within no time."""
        left = np.ones(self._size, np.bool_)
        if only is None:
            return left
        if only.since is not None or only.until is not None:
            times = self["timestamp"]
            since = -np.inf if only.since is None else only.since
            until = np.inf if only.until is None else only.until
            left &= (times != 0) & (times >= since) & (times < until)
        if only.role is not None:
            role = ROLES.index(only.role) if only.role in ROLES else len(ROLES)
            left &= self["role"] == role
        return left

    def fact_of(self, document: Document, group: int, length: int) -> tuple[Any, ...]:
        """Return the row of a message; who speaks for the first time is noted."""
        return (
            document.timestamp,
            digest_of(document.text),
            min(document.tokens, _LARGEST),
            group,
            length,
            self._author(document.author),
            ROLES.index(document.role) if document.role in ROLES else len(ROLES) - 1,
            True,
        )

    def append(self, facts: list[tuple[Any, ...]]) -> None:
        """Add rows of :meth:`fact_of`, in order."""
        start, end = self._size, self._size + len(facts)
        if end > len(self._rows):
            room = np.zeros(max(end, len(self._rows) * 5 // 4, BLOCK), _FACT)
            room[:start] = self._rows[:start]
            self._rows = room
        self._rows[start:end] = facts
        self._size = end
        self._write(range(start // BLOCK, -(-end // BLOCK)))

    def set_active(self, numbers: NDArray[np.int64], *, active: bool) -> None:
        """Say which messages are on the branch."""
        changed = numbers[self["active"][numbers] != active]
        rows = self._rows.copy()
        rows["active"][changed] = active
        self._rows = rows
        self._write(np.unique(changed // BLOCK).tolist())

    def _author(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.authors)
            self.authors.append(name)
            self.names.append(words_of(name))
            self._db.execute("INSERT INTO author VALUES (?, ?)", (number, as_bytes(name)))
        return number

    def _write(self, blocks: Any) -> None:
        rows = self._rows[: self._size]
        self._db.executemany(
            "INSERT OR REPLACE INTO facts VALUES (?, ?)",
            ((block, rows[block * BLOCK : (block + 1) * BLOCK].tobytes()) for block in blocks),
        )
