"""The benchmarks run, and say what they measured. No time is asserted: that is for whoever runs them in full."""

import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openclaw_ctx import Transcript, UserMessage

ROOT = Path(__file__).resolve().parents[2]
TARGETS = {
    "host": [0.01, 0.25, 0.5, 0.8, 1.5, 1.5, 2, 2.5, 20],
    "rag": [1 / 3, 1 / 3, 1, 1, 1, 1, 1, 1, 1, 1],
    "runtime": [1 / 50, 1, 1, 1, 1, 1 / 0.9, 2],
    "transcript": [1, 1, 1, 1.3, 1.3, 1.5, 20],
}
PEERS = {
    "host": ("LangChain", "OpenAI Agents SDK"),
    "rag": ("LlamaIndex", "aura-context-engine"),
    "runtime": ("LangChain", "LangGraph"),
    "transcript": ("LangChain", "OpenAI Agents SDK"),
}
COLUMNS = {"work", "ours_ms", "peer", "peer_ms", "ratio", "target", "met", "note"}

# As ``python -m benchmarks`` in the root, with two differences: the root comes last on the path, so that an installed
# openclaw_ctx is what is measured, and the peers are as they are on most machines, not there.
ABSENT = ("agents", "context_engine", "langchain", "langchain_core", "langgraph", "llama_index")
AS_MODULE = f"""
import runpy, sys
sys.path.append({str(ROOT)!r})
sys.modules.update(dict.fromkeys({ABSENT!r}))
sys.argv = ["benchmarks", *sys.argv[1:]]
runpy.run_module("benchmarks", run_name="__main__")
"""

# Writes a session's file; in a process of its own, for the reason above.
WRITE_SESSION = f"""
import sys
from pathlib import Path
sys.path.append({str(ROOT)!r})
from benchmarks.sessions_on_disk import SessionFile
SessionFile(messages=400, size=200_000, longest=50_000, after_compaction=100).write(Path(sys.argv[1]))
"""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", AS_MODULE, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module", params=sorted(TARGETS))
def name(request: pytest.FixtureRequest) -> str:
    """Return the name of each of the benchmarks."""
    return str(request.param)


@pytest.fixture(scope="module")
def report(name: str, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Return what a quick run without peers says."""
    folder = tmp_path_factory.mktemp("stores")
    ended = _run(name, "--quick", "--json", "--dir", str(folder))
    assert ended.returncode == 0, ended.stderr
    assert list(folder.iterdir()) == []
    found: Mapping[str, Any] = json.loads(ended.stdout)
    return found


def test_every_row_has_every_column(report: Mapping[str, Any]) -> None:
    """A row says what was done, by whom, how long it took, what was asked, and whether that was met."""
    rows = report["rows"]

    assert rows
    assert all(set(row) == COLUMNS for row in rows)
    assert all(row["work"] and row["peer"] for row in rows)


def test_a_ratio_is_of_the_two_times_beside_it(report: Mapping[str, Any]) -> None:
    """Where both sides were measured, both took time, and the ratio is ours by the peer's."""
    measured = [row for row in report["rows"] if row["peer_ms"] is not None]

    assert measured
    assert all(row["ours_ms"] > 0 and row["peer_ms"] > 0 for row in measured)
    assert all(row["ratio"] == pytest.approx(row["ours_ms"] / row["peer_ms"]) for row in measured)


def test_a_peer_that_is_not_installed_is_named(name: str, report: Mapping[str, Any]) -> None:
    """Its rows stay, with its name, our time, and the command that installs it."""
    of_each = [[row for row in report["rows"] if peer in row["peer"]] for peer in PEERS[name]]
    rows = list(itertools.chain(*of_each))

    assert all(of_each)
    assert all(row["peer_ms"] is None and row["ratio"] is None and row["met"] is None for row in rows)
    assert all("pip install -r benchmarks/requirements.txt" in row["note"] or "--dir" in row["note"] for row in rows)


def test_a_quick_run_judges_nothing(report: Mapping[str, Any]) -> None:
    """Targets are for the sizes that they name; tiny ones meet or miss none."""
    assert report["conditions"]["quick"] is True
    assert {row["met"] for row in report["rows"]} == {None}


def test_every_target_has_its_row(name: str, report: Mapping[str, Any]) -> None:
    """The targets are those that were set, each on a row."""
    targets = sorted(row["target"] for row in report["rows"] if row["target"] is not None)

    assert targets == TARGETS[name]


def test_a_name_that_is_no_benchmark_is_refused_with_those_that_are() -> None:
    """A typing error ends with code 2 and the names there are, helpers left out."""
    ended = _run("hots")

    helpers = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - TARGETS.keys() - {"recall"}
    assert ended.returncode == 2
    assert all(name in ended.stderr for name in TARGETS)
    assert not [helper for helper in helpers if helper in ended.stderr]


def test_a_folder_in_memory_is_refused() -> None:
    """A store that is on no disk shows nothing: the row says so, and the run has missed its targets."""
    memory = Path("/dev/shm")  # noqa: S108 -- the one place that is surely no disk
    if not memory.is_dir():
        pytest.skip("this system has no /dev/shm")

    ended = _run("transcript", "--json", "--dir", str(memory))

    rows = json.loads(ended.stdout)["rows"]
    assert ended.returncode == 1
    assert rows
    assert all(row["ours_ms"] is None and "refused" in row["note"] for row in rows)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return a file that was written without appending."""
    path = tmp_path / "written.jsonl"
    subprocess.run([sys.executable, "-c", WRITE_SESSION, str(path)], check=True)
    return path


def test_a_written_session_is_as_large_as_was_asked(written: Path) -> None:
    """It has its size, nearly, and its one long line, so that what is measured on it is what the row says."""
    lines = written.read_bytes().split(b"\n")

    assert written.stat().st_size == pytest.approx(200_000, rel=0.05)
    assert max(map(len, lines)) == pytest.approx(50_000, rel=0.05)
    assert sorted(map(len, lines))[-2] < 5_000


def test_a_written_session_opens_as_if_it_had_been_appended(written: Path) -> None:
    """Nothing is wrong with it, every message is on the branch, and the compaction hides what it stands for."""
    transcript = Transcript.open(written)

    record, history = list(transcript.record()), list(transcript.history)
    warnings = transcript.take_warnings()
    transcript.append(UserMessage(content="Go on."))
    transcript.close()

    assert warnings == []
    assert len(record) == 400
    assert len(history) == 1 + 20 + 100
    assert history[1:] == record[-120:]


def test_a_written_line_has_the_fields_of_an_appended_one(written: Path) -> None:
    """In the same order too: a decoder takes as long for it as for one of a real session."""
    transcript = Transcript.open(written)
    last = transcript.append(UserMessage(content="Go on."))
    transcript.append_compaction(summary="They went on.", first_kept_entry_id=last.entry_id, tokens_before=9)
    transcript.close()

    lines = [json.loads(line) for line in written.read_bytes().split(b"\n") if line]
    fields = {kind: {tuple(line) for line in lines if line["type"] == kind} for kind in ("message", "compaction")}

    assert all(len(orders) == 1 for orders in fields.values()), fields
