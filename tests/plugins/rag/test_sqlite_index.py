"""The index in a file of SQLite: whole after a kill, private, told when damaged, and the same after tidying."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("openclaw_ctx_rag", reason="openclaw-ctx-rag is not installed")

from openclaw_ctx_rag import postings
from openclaw_ctx_rag.index import IndexDamagedError
from openclaw_ctx_rag.sqlite_index import SqliteIndex
from tests.plugins.rag.index_contract import IndexContract, document, found_in, talk

COMPANIONS = ("", "-wal", "-shm")
ROOT = Path(__file__).parents[3]


class TestSqliteIndex(IndexContract):
    """The promises of every index."""

    def make(self, path: Path) -> SqliteIndex:
        """Return the index in a file."""
        return SqliteIndex.open(path)


def long_talk(size: int) -> list:
    """Return messages in which each word is rare somewhere and frequent elsewhere."""
    return talk(*(f"word{at % 7} rare{at} of {at // 100}" for at in range(size)))


def questions(size: int) -> list[str]:
    """Return what is asked of it."""
    return ["word3", "rare0", f"rare{size - 1}", "word6 rare300 rare5", "rare25", "nothing", "rar"]


@pytest.mark.parametrize(
    "sizes", [pytest.param([1] * 30 + [5_000], id="a few, then many"), pytest.param([4_500, 530], id="many at once")]
)
def test_blocks_make_no_difference(tmp_path: Path, sizes: list[int]) -> None:
    """Whether postings are in memory, in small blocks or in a large one; merged ones are fewer."""
    messages = long_talk(5_030)
    one = SqliteIndex.open(tmp_path / "one")
    other = SqliteIndex.open(tmp_path / "other")
    at = 0
    for size in sizes:
        one.add(messages[at : at + size])
        at += size
    for start in range(0, len(messages), 100):
        other.add(messages[start : start + 100])

    before = [one.search(query) for query in questions(5_030)]

    assert [other.search(query) for query in questions(5_030)] == before
    while other.tidy(0):
        assert [other.search(query) for query in questions(5_030)[:3]] == before[:3]
    assert [other.search(query) for query in questions(5_030)] == before
    assert other._db.execute("SELECT first, size FROM block").fetchall()[:2] == [(0, 4_096), (4_096, 256)]
    other.close()
    other = SqliteIndex.open(tmp_path / "other")
    assert [other.search(query) for query in questions(5_030)] == before
    one.close()
    other.close()


@given(sizes=st.lists(st.integers(1, 40), max_size=12), slices=st.lists(st.integers(0, 3), min_size=12, max_size=12))
@settings(max_examples=25)
def test_small_blocks_keep_the_law(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], slices: list[int]
) -> None:
    """With blocks of four, three to a merge, and two terms to a slice: tidied and opened at any time."""
    folder = tmp_path_factory.mktemp("index")
    messages = long_talk(sum(sizes))
    plain = SqliteIndex.open(folder / "plain")
    plain.add(messages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("openclaw_ctx_rag.sqlite_index.BLOCK", 4)
        for name, value in {"BLOCK": 4, "_FAN": 3, "_LARGEST": 36, "_SIZES": (4, 12, 36), "_SLICE": 2}.items():
            patch.setattr(postings, name, value)
        index = SqliteIndex.open(folder / "index")
        at = 0
        for size, steps in zip(sizes, slices, strict=False):
            index.add(messages[at : at + size])
            at += size
            for _ in range(steps):
                index.tidy(0)
            index.close()
            index = SqliteIndex.open(folder / "index")
            assert found_in(index, f"rare{at - 1}")[0] == at - 1

        for query in questions(len(messages)):
            assert index.search(query) == plain.search(query)
        held = sum(len(data) // 3 for (data,) in index._db.execute("SELECT data FROM posting WHERE term = 'of'"))
        assert held == len(messages) // 4 * 4 if held else len(messages) < 4
    index.close()
    plain.close()


def test_a_file_is_private(tmp_path: Path) -> None:
    """With its companions; one that was open to others is so no more."""
    path = tmp_path / "index"
    path.touch(mode=0o644)

    index = SqliteIndex.open(path)
    index.add(talk("one"))

    assert {(tmp_path / f"index{end}").stat().st_mode & 0o777 for end in COMPANIONS} == {0o600}
    index.close()


def test_a_file_that_is_no_index_is_told(tmp_path: Path) -> None:
    """Text, another's tables, and another format; none of them is touched."""
    text, foreign, newer = tmp_path / "text", tmp_path / "foreign", tmp_path / "newer"
    text.write_bytes(b"not a database, but longer than a header " * 100)
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE message (number INTEGER)")
    db.close()
    SqliteIndex.open(newer).close()
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 999")
    db.close()

    for path in (text, foreign, newer):
        with pytest.raises(IndexDamagedError):
            SqliteIndex.open(path)


def made(path: Path, size: int = 700) -> bytes:
    """Make an index with vectors, and return its file."""
    index = SqliteIndex.open(path)
    index.add(long_talk(size))
    index.set_embedder("small", 4)
    index.set_vectors(range(size), np.ones((size, 4), np.float32))
    index.close()
    return path.read_bytes()


@given(cut=st.floats(0.001, 0.999))
@settings(max_examples=25)
def test_a_file_that_was_cut_off_is_told(tmp_path_factory: pytest.TempPathFactory, cut: float) -> None:
    """When it is opened or when it is searched; or all is there."""
    path = tmp_path_factory.mktemp("index") / "index"
    whole = made(path)
    path.write_bytes(whole[: int(len(whole) * cut)])

    with pytest.raises(IndexDamagedError):
        search_all(path)


@given(at=st.floats(0, 0.999), noise=st.binary(min_size=1, max_size=64), length=st.integers(1, 9_000))
@settings(max_examples=60)
def test_a_file_that_was_written_over_raises_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, at: float, noise: bytes, length: int
) -> None:
    """What SQLite cannot notice may go unnoticed, but nothing else is raised."""
    path = tmp_path_factory.mktemp("index") / "index"
    whole = bytearray(made(path))
    start = int(len(whole) * at)
    whole[start : start + length] = (noise * length)[: len(whole[start : start + length])]
    path.write_bytes(bytes(whole))

    with suppress(IndexDamagedError):
        search_all(path)


def search_all(path: Path) -> None:
    """Use all there is of an index."""
    index = SqliteIndex.open(path)
    try:
        for query in questions(700):
            index.search(query, vector=np.ones(4, np.float32) if index.embedder() else None)
        index.entry_ids()
        index.read(range(len(index)))
        index.texts(range(len(index)))
        index.find_literal("rare", limit=1_000)
        index.number_of("e5")
        index.newest()
        index.add([document("new", "new")])
        index.tidy(1)
    finally:
        index.close()


@pytest.mark.parametrize("missing", ["message", "facts", "author", "block", "posting", "embedder", "vectors"])
def test_a_missing_table_is_told(tmp_path: Path, missing: str) -> None:
    """A file that is half an index is none."""
    path = tmp_path / "index"
    made(path)
    with sqlite3.connect(path) as db:
        db.execute(f"DROP TABLE {missing}")
    db.close()

    with pytest.raises(IndexDamagedError):
        search_all(path)


def test_a_failed_add_leaves_nothing(tmp_path: Path) -> None:
    """All or none, in memory too; the next one succeeds."""
    index = SqliteIndex.open(tmp_path / "index")
    index.add(talk("one"))
    broken = document("broken", "broken", timestamp="not a time")

    with pytest.raises((TypeError, ValueError)):
        index.add([document("new", "new"), broken])

    assert (len(index), index.entry_ids(), index.search("new")) == (1, ["e0"], [])
    index.add([document("new", "new")])
    assert found_in(index, "new")[0] == 1
    index.close()


def test_another_process_is_seen_when_writing(tmp_path: Path) -> None:
    """No number is given twice."""
    one = SqliteIndex.open(tmp_path / "index")
    other = SqliteIndex.open(tmp_path / "index")
    one.add([document("a", "apple")])

    other.add([document("b", "pear")])
    one.add([document("c", "plum")])

    assert one.entry_ids() == ["a", "b", "c"]
    assert found_in(one, "pear")[0] == 1
    one.close()
    other.close()


WRITER = """
import os, signal, sys
from pathlib import Path
sys.path.append(sys.argv[3])  # last: what is installed comes first
from openclaw_ctx_rag import sqlite_index
from tests.plugins.rag.test_sqlite_index import long_talk

class Killing:
    def __init__(self, db, left): self.db, self.left = db, left
    def __getattr__(self, name): return getattr(self.db, name)
    def _count(self):
        self.left -= 1
        if self.left < 0: os.kill(os.getpid(), signal.SIGKILL)
    def execute(self, *a):
        self._count(); return self.db.execute(*a)
    def executemany(self, statement, rows):
        self._count()
        def each():
            for row in rows:
                self._count(); yield row
        return self.db.executemany(statement, each())

index = sqlite_index.SqliteIndex.open(Path(sys.argv[1]))
db = Killing(index._db, int(sys.argv[2]))
index._db = index._postings._db = index._facts._db = db
messages = long_talk(600)
while len(index) < 600:
    index.add(messages[len(index):len(index) + 50])
    print(len(index), flush=True)
"""


@pytest.mark.parametrize("statements", [0, 1, 30, 160, 700, 900, 1_100, 1_400, 2_000, 2_500])
def test_a_kill_leaves_a_whole_index(tmp_path: Path, statements: int) -> None:
    """At whichever statement: what was added before is there and found, and the rest can be added."""
    path = tmp_path / "index"

    run = subprocess.run(
        [sys.executable, "-c", WRITER, str(path), str(statements), str(ROOT)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=60,
    )

    assert run.returncode in (0, -signal.SIGKILL), run.stderr
    index = SqliteIndex.open(path)
    assert len(index) == int(run.stdout.split()[-1] if run.stdout else 0)
    messages = long_talk(600)
    index.add(messages)
    whole = SqliteIndex.open(tmp_path / "whole")
    whole.add(messages)
    for query in questions(600):
        assert index.search(query) == whole.search(query)
    index.close()
    whole.close()
