"""Every change to the disk is a point at which a process can be killed, or it is said that it was none."""

import os
import posix
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.points import Aim, written_bytes
from tests.faults.process import Ended, Teller, run_in_child

_write = os.write


def _told(work: Callable[[], object], *, aim: Aim | None = None) -> Ended:
    """Return what came of one operation that does *work*."""

    def operation(teller: Teller) -> None:
        teller.begin(0)
        work()
        teller.done(kind="work")

    return run_in_child(operation, aim=aim)


def _by_os(folder: Path) -> None:
    descriptor = os.open(folder / "a", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, b"abc")
    os.fsync(descriptor)
    os.close(descriptor)


def _by_file(folder: Path) -> None:
    with (folder / "a").open("wb") as file:
        file.write(b"abc")
        file.flush()
        file.truncate(1)


def _by_text(folder: Path) -> None:
    (folder / "a").write_text("abc", encoding="utf-8")
    (folder / "a").replace(folder / "b")


def _by_names(folder: Path) -> None:
    (folder / "made").mkdir()
    (folder / "made" / "a").symlink_to("nowhere")
    (folder / "made" / "a").rename(folder / "made" / "b")
    (folder / "made" / "b").unlink()
    (folder / "made").rmdir()


@pytest.mark.parametrize(
    "work, points",
    [
        pytest.param(_by_os, 3, id="calls of os"),
        pytest.param(_by_file, 3, id="a binary file"),
        pytest.param(_by_text, 3, id="a text file, moved"),
        pytest.param(_by_names, 5, id="names alone"),
    ],
)
def test_each_change_is_one_point(tmp_path: Path, work: Callable[[Path], None], points: int) -> None:
    """Opening for writing, each write, each move, each removal: wherever Python hides the call."""
    ended = _told(lambda: work(tmp_path))

    (done,) = [word for word in ended.told if word["what"] == "done"]
    assert (done["points"], done["unseen"]) == (points, [])
    assert not ended.killed


@pytest.mark.parametrize("point", range(3))
def test_a_process_ends_where_it_is_aimed_at(tmp_path: Path, point: int) -> None:
    """It has told in which call, and nothing behind it was done."""
    calls = ["open", "write", "fsync"]

    ends = []
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        ends.append(_told(lambda folder=folder: _by_os(folder), aim=Aim(operation=0, point=point, seed=seed)))

    assert all(ended.killed and ended.fault is None for ended in ends)
    assert {ended.told[-1]["call"] for ended in ends} == {calls[point]}
    assert {ended.told[-1]["when"] for ended in ends} >= {"before", "after"}


def test_a_write_is_cut_in_its_middle(tmp_path: Path) -> None:
    """A part of it is in the file, more than nothing and less than all; often whole lines of it."""
    data = b"one line\nand another\nand a third\n"
    lengths = set()

    for seed in range(60):
        path = tmp_path / str(seed)
        ended = _told(lambda path=path: path.write_bytes(data), aim=Aim(operation=0, point=1, seed=seed))
        if ended.told[-1]["when"] == "middle":
            assert data.startswith(path.read_bytes())
            lengths.add(path.stat().st_size)

    assert min(lengths) > 0
    assert max(lengths) < len(data)
    assert {len(b"one line\n"), len(b"one line\nand another\n")} <= lengths


def test_an_operation_that_changes_nothing_ends_when_it_returns() -> None:
    """It was done, and that was not told."""
    ended = _told(lambda: None, aim=Aim(operation=0, point=0, seed=1))

    assert [word["what"] for word in ended.told] == ["begin", "kill"]
    assert ended.told[-1]["call"] == "return"


@pytest.mark.skipif(written_bytes() is None, reason="this system does not say how much a process writes")
def test_a_write_that_went_past_is_noticed(tmp_path: Path) -> None:
    """The kernel counts along, so a write that was no point is told with its length."""

    def work() -> None:
        descriptor = os.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT, 0o600)
        _hidden[0](descriptor, b"four")

    _hidden = [_write]
    (done,) = [word for word in _told(work).told if word["what"] == "done"]

    assert done["unseen"] == ["4 bytes were written past the points"]


def test_a_file_that_was_moved_past_the_points_is_noticed(tmp_path: Path) -> None:
    """Python announces it, whoever calls; the line that did it is told."""
    (tmp_path / "a").touch()

    (done,) = [w for w in _told(lambda: posix.rename(tmp_path / "a", tmp_path / "b")).told if w["what"] == "done"]

    assert len(done["unseen"]) == 1
    assert "os.rename" in done["unseen"][0]
    assert Path(__file__).name in done["unseen"][0]


def test_what_the_work_raises_is_told() -> None:
    """A bug in the work is no kill."""
    ended = _told(lambda: 1 // 0)

    assert not ended.killed
    assert "ZeroDivisionError" in str(ended.fault)
