"""The recall benchmark reads both forms, asks every question, and counts what a prompt has whole."""

import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = {"engine", "budget", "category", "questions", "recall", "over_budget", "note"}
FILLER = "It rained all day and nobody went out to the market, so they stayed at home and played cards until late. "

AS_MODULE = f"""
import runpy, sys
sys.path.append({str(ROOT)!r})
sys.modules.update(dict.fromkeys(("context_engine", "llama_index")))
sys.argv = ["benchmarks", "recall", *sys.argv[1:]]
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


def _rows(*arguments: str) -> list[Mapping[str, Any]]:
    ended = _run("--json", *arguments)
    assert ended.returncode == 0, ended.stderr
    rows: list[Mapping[str, Any]] = json.loads(ended.stdout)["rows"]
    return rows


@pytest.fixture(scope="module")
def locomo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a conversation that nobody had, in LoCoMo's form: the answers are its first and its last turn."""
    said = [
        {"speaker": speaker, "dia_id": f"D1:{number}", "text": FILLER}
        for number, speaker in zip(range(1, 41), itertools.cycle(("Ann", "Bob")), strict=False)
    ]
    said[0] = {"speaker": "Ann", "dia_id": "D1:1", "text": "My canary sings.", "blip_caption": "a yellow bird"}
    last = {"speaker": "Bob", "dia_id": "D2:1", "text": "I have sold my bicycle."}
    conversation = {
        "speaker_a": "Ann",
        "speaker_b": "Bob",
        "session_2": [last],
        "session_2_date_time": "9:05 am on 12 June, 2023",
        "session_1": said,
        "session_1_date_time": "1:56 pm on 8 May, 2023",
    }
    asked = [
        {"question": "What does the canary do?", "answer": "sing", "evidence": ["D1:1"], "category": 4},
        {"question": "What was sold, and who sings?", "answer": "-", "evidence": ["D2:1; D1:1"], "category": 1},
        {"question": "Who knows?", "answer": "nobody", "evidence": [], "category": 3},
    ]
    path = tmp_path_factory.mktemp("data") / "locomo.json"
    path.write_text(json.dumps([{"sample_id": "made-up", "conversation": conversation, "qa": asked}]), encoding="utf-8")
    return path


def test_a_row_says_engine_budget_category_questions_and_recall(locomo: Path) -> None:
    """One for each budget and category, and one for all of them; a question without evidence is not asked."""
    rows = _rows("--data", str(locomo), "--engine", "bm25", "--budgets", "60,4000")

    assert all(set(row) == COLUMNS for row in rows)
    assert [(row["engine"], row["category"], row["budget"], row["questions"]) for row in rows] == [
        ("bm25", "all", 60, 2),
        ("bm25", "all", 4_000, 2),
        ("bm25", "1", 60, 1),
        ("bm25", "1", 4_000, 1),
        ("bm25", "4", 60, 1),
        ("bm25", "4", 4_000, 1),
    ]


def test_recall_is_the_share_of_the_labelled_turns_in_the_mean(locomo: Path) -> None:
    """The newest turns hold one of the two that answer the second question, and none of the first's."""
    rows = _rows("--data", str(locomo), "--engine", "window", "--budgets", "200")

    assert {row["category"]: row["recall"] for row in rows} == {"all": 0.25, "1": 0.5, "4": 0}
    assert {row["over_budget"] for row in rows} == {0}


def test_a_prompt_over_its_budget_is_counted(locomo: Path) -> None:
    """Legacy sends everything: all is found, and every prompt is over."""
    rows = _rows("--data", str(locomo), "--engine", "legacy", "--budgets", "200")

    assert {(row["recall"], row["over_budget"]) for row in rows} == {(1, 1)}


def test_the_retrieval_engine_is_measured_with_the_default_share_beside_it(locomo: Path) -> None:
    """By words alone it finds both turns within a budget that holds a few."""
    pytest.importorskip("numpy")
    rows = json.loads(
        _run("--json", "--data", str(locomo), "--engine", "rag", "--budgets", "400").stdout,
    )["rows"]
    found = {row["engine"]: row["recall"] for row in rows if row["category"] == "all"}

    assert list(found) == ["rag", "rag (words alone)", "rag (recent 0.5)"]
    assert found["rag (words alone)"] == 1


def test_a_peer_that_is_not_installed_is_named(locomo: Path) -> None:
    """Its rows stay, without a recall, and with the command that installs it."""
    ended = _run("--json", "--data", str(locomo), "--engine", "llamaindex", "--engine", "aura", "--budgets", "200")

    rows = json.loads(ended.stdout)["rows"]
    assert ended.returncode == 1
    assert {row["engine"] for row in rows} == {"llamaindex", "aura", "aura (ranking)"}
    assert all(row["recall"] is None for row in rows)
    assert all("pip install -r benchmarks/requirements.txt" in row["note"] for row in rows)


def test_an_engine_that_is_not_installed_is_named(locomo: Path) -> None:
    """What another engine answered in its place is not taken for its work."""
    ended = _run("--json", "--data", str(locomo), "--engine", "nobody", "--budgets", "200")

    (row,) = json.loads(ended.stdout)["rows"]
    assert ended.returncode == 1
    assert row["recall"] is None
    assert "legacy" in row["note"]


def test_the_other_form_is_read(tmp_path: Path) -> None:
    """LongMemEval's: each question has a history of its own, in no order, and its category is its type."""
    asked = {
        "question_id": "q1",
        "question": "Where is the key?",
        "question_type": "single-session-user",
        "haystack_dates": ["2023/05/21 (Sun) 10:00", "2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [
            [{"role": "user", "content": FILLER}, {"role": "assistant", "content": FILLER}] * 10,
            [{"role": "user", "content": "The key is in the blue jar.", "has_answer": True}],
        ],
    }
    path = tmp_path / "longmemeval.json"
    path.write_text(json.dumps([asked]), encoding="utf-8")

    rows = _rows("--data", str(path), "--engine", "window", "--engine", "bm25", "--budgets", "100")

    assert {(row["engine"], row["category"], row["recall"]) for row in rows} == {
        ("window", "all", 0),
        ("window", "single-session-user", 0),
        ("bm25", "all", 1),
        ("bm25", "single-session-user", 1),
    }


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("[]", id="nothing in it"),
        pytest.param('[{"text": "hello"}]', id="another form"),
        pytest.param("hello", id="no JSON"),
        pytest.param('[{"conversation": {}, "qa": []}]', id="a conversation of nobody"),
    ],
)
def test_a_file_in_no_known_form_is_refused(tmp_path: Path, content: str) -> None:
    """It ends with code 2 and one sentence that names the file."""
    path = tmp_path / "data.json"
    path.write_text(content, encoding="utf-8")

    ended = _run("--data", str(path))

    assert ended.returncode == 2
    assert "data.json" in ended.stderr.splitlines()[-1]


def test_the_help_says_where_data_is_published() -> None:
    """The conversations are not part of the repository."""
    ended = _run("--help")

    assert ended.returncode == 0
    assert "github.com/snap-research/locomo" in ended.stdout
    assert "example:" in ended.stdout
    assert "exit codes:" in ended.stdout
