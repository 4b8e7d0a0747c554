"""The file of an index: its tables, who may read it, transactions, and what is damage."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .index import IndexDamagedError

__all__ = ["connect", "damage_told", "forget", "writing"]

_FORMAT: Final = 1
"""Goes up with each change of the tables or of what is a term: an index of another format is made anew."""

_APPLICATION: Final = 0x6F635247
"""Marks a file as such an index ("ocRG")."""

_SETTINGS: Final = (
    "PRAGMA page_size = 8192",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA cache_size = -8192",
    "PRAGMA journal_size_limit = 16777216",
)

_TABLES: Final = {
    "message": "number INTEGER PRIMARY KEY, entry_id BLOB NOT NULL UNIQUE, date BLOB NOT NULL, text BLOB NOT NULL,"
    " wire BLOB NOT NULL, cut INTEGER",
    "facts": "block INTEGER PRIMARY KEY, data BLOB NOT NULL",
    "author": "number INTEGER PRIMARY KEY, name BLOB NOT NULL",
    "block": "first INTEGER PRIMARY KEY, size INTEGER NOT NULL",
    "posting": "first INTEGER, term TEXT, data BLOB NOT NULL, PRIMARY KEY (first, term)",
    "embedder": "only INTEGER PRIMARY KEY CHECK (only = 0), name BLOB NOT NULL, dimensions INTEGER NOT NULL",
    "vectors": "block INTEGER PRIMARY KEY, data BLOB NOT NULL",
    "note": "only INTEGER PRIMARY KEY CHECK (only = 0), text BLOB NOT NULL",
}

_OPTIONS: Final = {"posting": " WITHOUT ROWID"}

_DAMAGE: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
"""The first: a table or a column is missing. A full disk or a lock is none."""


def connect(path: Path) -> sqlite3.Connection:
    """
    Return a connection to the index in a file, which is made where there is none.

    Its companions, ``-wal`` and ``-shm``, take its mode from it.

    Raises:
        IndexDamagedError: The file is something else, or of another format.
    """
    _keep_private(path)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        with damage_told():
            for setting in _SETTINGS:
                db.execute(setting)
            _check_format(db)
            _check_size(db, path)
    except BaseException:
        db.close()
        raise
    return db


def forget(db: sqlite3.Connection) -> None:
    """Make all tables anew, within the caller's transaction."""
    for name, columns in _TABLES.items():
        db.execute(f"DROP TABLE IF EXISTS {name}")
        db.execute(f"CREATE TABLE {name} ({columns}){_OPTIONS.get(name, '')}")


@contextmanager
def writing(db: sqlite3.Connection) -> Iterator[None]:
    """Commit what is done within, or nothing of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def damage_told() -> Iterator[None]:
    """Raise :class:`IndexDamagedError` where what is read cannot be what was written."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0)
        # Without a code of SQLite's it is Python that cannot read what is there.
        unreadable = not code and isinstance(error, sqlite3.OperationalError)
        if unreadable or code & 0xFF in _DAMAGE or code == sqlite3.SQLITE_IOERR_SHORT_READ:
            reason = f"the index is damaged: {error}"
            raise IndexDamagedError(reason) from error
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        reason = f"the index is damaged: {error}"
        raise IndexDamagedError(reason) from error


def _keep_private(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        # By its name: to close another handle of the file would let go of SQLite's locks.
        if path.is_file():
            path.chmod(0o600)


def _check_format(db: sqlite3.Connection) -> None:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if (application, version) == (_APPLICATION, _FORMAT):
        return
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or tables:
        reason = f"the file is of format {version}, not {_FORMAT}"
        raise IndexDamagedError(reason)
    with writing(db):
        forget(db)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_FORMAT}")


def _check_size(db: sqlite3.Connection, path: Path) -> None:
    """Tell a file that was cut off: SQLite reads what is missing of a page as zeros."""
    _, logged, moved = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    (page_size,) = db.execute("PRAGMA page_size").fetchone()
    size = path.stat().st_size
    if logged == moved and size < pages * page_size:
        reason = f"{pages} pages are due, and there are {size} bytes"
        raise IndexDamagedError(reason)
