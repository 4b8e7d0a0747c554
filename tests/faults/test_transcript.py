"""A session outlives whoever writes it, wherever that one is killed; and who says so would notice if it did not."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openclaw_ctx.transcript import file_record
from openclaw_ctx.transcript.record_file import RecordFile
from openclaw_ctx.transcript.stores import file_store
from tests.faults.outcome import Run
from tests.faults.transcript import Rehearsal, rehearse, run
from tests.faults.workload import KINDS

RUNS = 300
# How many runs a broken store is given to be found out in.
ENOUGH = 40


@pytest.fixture(scope="module", name="rehearsal")
def _rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Rehearsal:
    return rehearse(tmp_path_factory.mktemp("rehearsal"))


def test_what_was_acknowledged_is_there_once_and_in_order_wherever_the_writer_is_killed(
    tmp_path: Path, rehearsal: Rehearsal
) -> None:
    """
    SIGKILL before, in and after every call that changes the disk: all acknowledged is there, nothing half, and one
    can go on. ``python -m tests.faults transcript --only SEED`` does one run again, and tells it.
    """
    runs = [run(seed, tmp_path, rehearsal) for seed in range(1, RUNS + 1)]

    assert [str(each) for each in runs if not each.is_good] == []
    cuts = [cut for each in runs for cut in each.cuts]
    assert {cut.operation for cut in cuts} >= set(KINDS)
    assert {cut.when for cut in cuts} >= {"before", "middle", "after"}


def _runs_of(kind: str, folder: Path, rehearsal: Rehearsal) -> Iterator[Run]:
    first = KINDS.index(kind)
    return (run(seed, folder, rehearsal) for seed in range(first, first + ENOUGH * len(KINDS), len(KINDS)))


def _leave_torn_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordFile, "truncate", lambda _self, _size: None)


def _mark_no_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_record, "_numbered", lambda line, _more: line)


def _write_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    append = RecordFile.append

    def append_lines(self: RecordFile, data: bytes, *, size: int) -> None:
        for line in data.splitlines(keepends=True):
            append(self, line, size=size)
            size += len(line)

    _mark_no_batches(monkeypatch)
    monkeypatch.setattr(RecordFile, "append", append_lines)


def _acknowledge_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bytes] = []
    append = RecordFile.append

    def hold(self: RecordFile, data: bytes, *, size: int) -> None:
        held.append(data)
        if len(held) > 1 or not size:
            append(self, b"".join(held), size=size)
            held.clear()

    monkeypatch.setattr(RecordFile, "append", hold)


def _copy_and_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    def copy_and_delete(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes())
        source.unlink()

    monkeypatch.setattr(file_store, "move_file", copy_and_delete)


@pytest.mark.parametrize(
    "break_it, kind, found",
    [
        pytest.param(_leave_torn_tails, "append", "wrong", id="torn tails are left"),
        pytest.param(_mark_no_batches, "rewrite", "wrong", id="half a rewrite is taken for a whole one"),
        pytest.param(_write_line_by_line, "rewrite", "wrong", id="a rewrite is written line by line"),
        pytest.param(_acknowledge_too_early, "append", "lost", id="an append returns before it is written"),
        pytest.param(_copy_and_delete, "archive", "duplicated", id="a transcript is copied to its archive"),
    ],
)
def test_a_store_that_breaks_its_promise_is_found_out(
    tmp_path: Path,
    rehearsal: Rehearsal,
    monkeypatch: pytest.MonkeyPatch,
    break_it: Callable[[pytest.MonkeyPatch], None],
    kind: str,
    found: str,
) -> None:
    """No store is called good by a harness that finds nothing."""
    break_it(monkeypatch)

    broken = next(each for each in _runs_of(kind, tmp_path, rehearsal) if getattr(each.problems, found))

    assert f"{found}: " in str(broken)
