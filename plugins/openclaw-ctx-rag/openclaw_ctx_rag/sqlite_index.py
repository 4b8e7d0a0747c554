"""An index of one session in one SQLite file, with what every search needs in memory."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from .branch import Branch
from .database import connect, damage_told, forget, writing
from .documents import Document
from .fact_table import FactTable
from .index import Facts, Filter, HistoryIndex, Hit, IndexDamagedError, Vectors
from .postings import BLOCK, Postings
from .rows import as_bytes, as_text, row_of, wire_of
from .terms import count_terms
from .vectors import VectorBlocks

__all__ = ["SqliteIndex"]

_IDS_AT_ONCE: Final = 256
"""Entry ids that one question asks for."""


class SqliteIndex(HistoryIndex):
    """
    One session's index; made by :meth:`open`.

    Used from any thread, one at a time. Of several processes one writes at a time,
    and the others see it when they write themselves.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._branch: Branch | None = None
        self._load()

    @classmethod
    def open(cls, path: Path) -> Self:
        """
        Return the index in a file, which is made where there is none; nobody else may read it.

        Raises:
            IndexDamagedError: The file is no index, no whole one, or one of another format.
        """
        db = connect(path)
        try:
            with damage_told():
                return cls(db)
        except BaseException:
            db.close()
            raise

    def __len__(self) -> int:
        return len(self._facts)

    def newest(self) -> str | None:
        """Return the entry id of the newest message on the branch."""
        active = self._facts["active"]
        if not active.any():
            return None
        newest = len(active) - 1 - int(active[::-1].argmax())
        with damage_told():
            return as_text(self._row("SELECT entry_id FROM message WHERE number = ?", newest)[0])

    def add(self, documents: Sequence[Document]) -> int:
        """Append messages, all or none; those that are there already are passed over. Return how many were new."""
        with self._writing():
            new = self._unknown(documents)
            self._read_tail()
            self._postings.expect(len(new))
            numbers = {document.entry_id: number for number, document in enumerate(new, len(self))}
            facts = []
            for document in new:
                counts = count_terms(_searched(document.date, document.author, document.text))
                facts.append(self._facts.fact_of(document, self._group(document, numbers), counts.total()))
                self._postings.append(counts)
            rows = (row_of(number, document) for number, document in enumerate(new, len(self)))
            self._db.executemany("INSERT INTO message VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._facts.append(facts)
            self._branch = None
        return len(new)

    def number_of(self, entry_id: str) -> int | None:
        """Return the number of an entry."""
        with damage_told():
            found = self._db.execute("SELECT number FROM message WHERE entry_id = ?", (as_bytes(entry_id),)).fetchone()
            return None if found is None else int(found[0])

    def entry_ids(self) -> list[str]:
        """Return the entry ids, by number."""
        found = [""] * len(self)
        # Without an order: SQLite's index of the entry ids has the numbers too, and is far smaller than the table.
        with damage_told():
            for number, entry_id in self._db.execute("SELECT number, entry_id FROM message"):
                found[number] = as_text(entry_id)
        return found

    def set_active(self, numbers: Sequence[int] | NDArray[Any], *, active: bool) -> None:
        """Say which messages are on the branch: others are neither found nor counted."""
        with self._writing():
            self._facts.set_active(self._checked(numbers), active=active)
            self._branch = None

    def facts(self) -> Facts:
        """Return what is known of every message, as of now."""
        return self._facts.facts()

    def search(
        self,
        query: str,
        *,
        vector: Vectors | None = None,
        limit: int = 2_048,
        only: Filter | None = None,
        by_cost: bool = True,
    ) -> list[Hit]:
        """Return the messages that fit *query* best; without a vector only those that its words have to do with."""
        if vector is not None and vector.shape != (self._vectors.dimensions,):
            reason = f"a vector of {self._vectors.dimensions} dimensions is due, not of shape {vector.shape}"
            raise ValueError(reason)
        with damage_told():
            self._read_tail()
            if self._branch is None:
                self._branch = Branch(self._facts, self._postings, self._vectors)
            return self._branch.search(query, vector=vector, limit=limit, only=only, by_cost=by_cost)

    def find_literal(self, text: str, *, limit: int, only: Filter | None = None) -> list[int]:
        """Return the newest messages that hold *text* as it stands; all texts are read for it."""
        found: list[int] = []
        allowed = self._facts["active"] & self._facts.within(only)
        with damage_told():
            rows = self._db.execute(
                "SELECT number FROM message WHERE instr(text, ?) ORDER BY number DESC", (as_bytes(text),)
            )
            for (number,) in rows if text else ():
                if len(found) >= limit:
                    break
                if allowed[number]:
                    found.append(number)
        return found

    def read(self, numbers: Sequence[int]) -> list[tuple[str, bytes]]:
        """Return entry id and JSON of the messages of these numbers."""
        statement = "SELECT entry_id, text, wire, cut FROM message WHERE number = ?"
        chosen = self._checked(numbers).tolist()
        with damage_told():
            rows = (self._row(statement, number) for number in chosen)
            return [(as_text(entry_id), wire_of(*row)) for entry_id, *row in rows]

    def texts(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        """Return author, date and text of these numbers."""
        chosen = self._checked(numbers)
        authors = (self._facts.authors[author] for author in self._facts["author"][chosen].tolist())
        statement = "SELECT date, text FROM message WHERE number = ?"
        with damage_told():
            rows = (self._row(statement, number) for number in chosen.tolist())
            return [(author, as_text(date), as_text(text)) for author, (date, text) in zip(authors, rows, strict=True)]

    def without_vector(self, limit: int) -> list[int]:
        """Return messages on the branch that have no vector yet, the oldest first."""
        missing = self._facts["active"] & ~self._vectors.present(len(self))
        found: list[int] = np.flatnonzero(missing)[: max(limit, 0)].tolist()
        return found

    def set_vectors(self, numbers: Sequence[int], vectors: Vectors) -> None:
        """Keep the vectors of these numbers."""
        with self._writing():
            self._vectors.put(self._checked(numbers).tolist(), vectors)

    def embedder(self) -> str | None:
        """Return whose vectors these are."""
        return self._embedder

    def set_embedder(self, name: str, dimensions: int) -> None:
        """Say whose vectors will come; those of another are dropped."""
        if (name, dimensions) == (self._embedder, self._vectors.dimensions):
            return
        with self._writing():
            self._db.execute("DELETE FROM vectors")
            self._db.execute("INSERT OR REPLACE INTO embedder VALUES (0, ?, ?)", (as_bytes(name), dimensions))
            self._load_vectors()

    def note(self) -> str | None:
        """Return what was kept by :meth:`set_note`."""
        with damage_told():
            found = self._db.execute("SELECT text FROM note").fetchone()
        return None if found is None else as_text(found[0])

    def set_note(self, text: str) -> None:
        """Keep a text of the caller's with the index."""
        with self._writing():
            self._db.execute("INSERT OR REPLACE INTO note VALUES (0, ?)", (as_bytes(text),))

    def tidy(self, seconds: float) -> bool:
        """Merge postings, in transactions of some milliseconds, at least one; return whether more is to do."""
        until = monotonic() + seconds
        with damage_told():
            while self._postings.merge_slice():
                if monotonic() >= until:
                    return True
        return False

    def rebuild(self) -> None:
        """Forget everything, whose vectors they were included."""
        with self._writing():
            forget(self._db)
            self._load()

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def _load(self) -> None:
        """Take from the file what a search needs."""
        self._version = self._data_version()
        self._facts = FactTable(self._db)
        self._postings = Postings(self._db)
        self._tail_is_read = False
        (size,) = self._db.execute("SELECT coalesce(max(number) + 1, 0) FROM message").fetchone()
        if size != len(self) or not 0 <= size - self._postings.first < BLOCK:
            reason = f"the index holds {size} messages and knows of {len(self)}"
            raise IndexDamagedError(reason)
        self._load_vectors()

    def _load_vectors(self) -> None:
        found = self._db.execute("SELECT name, dimensions FROM embedder").fetchone()
        self._embedder = None if found is None else as_text(found[0])
        self._vectors = VectorBlocks(self._db, 0 if found is None else found[1])
        self._branch = None

    def _data_version(self) -> int:
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        return int(version)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with writing(self._db):
                if self._data_version() != self._version:  # another process wrote
                    self._load()
                yield
        except sqlite3.Error:
            with damage_told():
                self._load()
                raise
        except BaseException:
            with damage_told():
                self._load()
            raise

    def _read_tail(self) -> None:
        """Take the terms of the newest messages, which are in no block yet."""
        if self._tail_is_read:
            return
        rows = self._db.execute(
            "SELECT number, date, text FROM message WHERE number >= ? ORDER BY number", (self._postings.first,)
        )
        authors = self._facts["author"]
        with damage_told():
            for number, date, text in rows.fetchall():
                author = self._facts.authors[authors[number]]
                self._postings.append(count_terms(_searched(as_text(date), author, as_text(text))))
        self._tail_is_read = True

    def _unknown(self, documents: Sequence[Document]) -> list[Document]:
        new = {document.entry_id: document for document in reversed(documents)}
        ids = list(new)
        for start in range(0, len(ids), _IDS_AT_ONCE):
            part = [as_bytes(entry_id) for entry_id in ids[start : start + _IDS_AT_ONCE]]
            marks = ",".join("?" * len(part))
            known = self._db.execute(f"SELECT entry_id FROM message WHERE entry_id IN ({marks})", part)  # noqa: S608 -- question marks
            for (entry_id,) in known:
                del new[as_text(entry_id)]
        return list(reversed(new.values()))

    def _group(self, document: Document, numbers: dict[str, int]) -> int:
        own = numbers[document.entry_id]
        first = numbers.get(document.group)
        if first is None:
            first = self.number_of(document.group)
        return own if first is None else min(first, own)

    def _checked(self, numbers: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
        chosen = np.asarray(numbers, np.int64)
        if len(chosen) and not (chosen.min() >= 0 and chosen.max() < len(self)):
            reason = f"the index has the numbers below {len(self)}"
            raise IndexError(reason)
        return chosen

    def _row(self, statement: str, number: int) -> Any:
        found = self._db.execute(statement, (number,)).fetchone()
        if found is None:
            reason = f"message {number} is missing"
            raise LookupError(reason)
        return found


def _searched(date: str, author: str, text: str) -> str:
    return f"{date} {author} {text}"
