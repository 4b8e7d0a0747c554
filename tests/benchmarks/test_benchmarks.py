"""The benchmarks run, and say what they measured. No time is asserted: that is for whoever runs them in full."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = {"work", "ours_ms", "peer", "peer_ms", "ratio", "target", "met", "note"}

# As ``python -m benchmarks`` in the root, with two differences: the root comes last on the path, so that an installed
# openclaw_ctx is what is measured, and the peers are as they are on most machines, not there.
AS_MODULE = f"""
import runpy, sys
sys.path.append({str(ROOT)!r})
sys.modules["agents"] = sys.modules["langchain_core"] = None
sys.argv = ["benchmarks", *sys.argv[1:]]
runpy.run_module("benchmarks", run_name="__main__")
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


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Return what a quick run without peers says."""
    folder = tmp_path_factory.mktemp("stores")
    ended = _run("host", "--quick", "--json", "--dir", str(folder))
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


@pytest.mark.parametrize("peer", ["LangChain", "OpenAI Agents SDK"])
def test_a_peer_that_is_not_installed_is_named(report: Mapping[str, Any], peer: str) -> None:
    """Its rows stay, with its name, our time, and the command that installs it."""
    rows = [row for row in report["rows"] if peer in row["peer"]]

    assert rows
    assert all(row["peer_ms"] is None and row["ratio"] is None and row["met"] is None for row in rows)
    assert all("pip install -r benchmarks/requirements.txt" in row["note"] or "--dir" in row["note"] for row in rows)


def test_a_quick_run_judges_nothing(report: Mapping[str, Any]) -> None:
    """Targets are for the sizes that they name; tiny ones meet or miss none."""
    assert report["conditions"]["quick"] is True
    assert {row["met"] for row in report["rows"]} == {None}


def test_every_target_of_the_host_has_its_row(report: Mapping[str, Any]) -> None:
    """The targets are those that were set, each on a row."""
    targets = sorted(row["target"] for row in report["rows"] if row["target"] is not None)

    assert targets == [0.01, 0.25, 0.5, 0.8, 1.5, 1.5, 2, 2.5, 20]


def test_a_name_that_is_no_benchmark_is_refused_with_those_that_are() -> None:
    """A typing error ends with code 2 and the names there are, helpers left out."""
    ended = _run("hots")

    assert ended.returncode == 2
    assert "'host'" in ended.stderr
    assert "measure" not in ended.stderr
