"""The README's two commands are true: one is what the gate runs, the other runs here."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import openclaw_ctx

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def _command(heading: str) -> list[str]:
    """Return the words of the one command under a heading of the README."""
    section = re.search(
        rf"^## {heading}\n(.*?)(?=^## |\Z)", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert section, heading
    (block,) = re.findall(r"```sh\n(.*?)```", section[1], re.DOTALL)
    (line,) = block.strip().splitlines()
    return shlex.split(line)


def test_the_readme_has_exactly_two_commands():
    """One installs and runs the main job, one installs and passes the tests."""
    assert len(re.findall(r"```sh\n", README.read_text(encoding="utf-8"))) == 2
    assert _command("Try it")[0] == _command("Test it")[0] == "python3"


def test_the_gate_runs_the_readmes_test_command():
    """The same words in the same order; the gate only keeps them in a folder of its own, and quiet."""
    gate = [line for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines() if "-m venv" in line]
    words = [word.replace("$work/venv", ".venv") for word in shlex.split(gate[-1])]
    own = {"--quiet", "run", "--workdir", "$work/tox"}

    assert [word for word in words if word not in own] == _command("Test it")


def test_the_readmes_replay_runs_as_it_stands(tmp_path: Path):
    """Exit 0, both engines at the three budgets side by side, and the report where it says."""
    pytest.importorskip("openclaw_ctx_window", reason="openclaw-ctx-window is not installed")
    words = _command("Try it")
    arguments = words[words.index(".venv/bin/openclaw-ctx") + 1 :]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from openclaw_ctx.__main__ import main; main()"

    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(openclaw_ctx.__file__).parents[1]), *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^(?:legacy|window) +(?:8|16|32),000 +73 +20 ", done.stdout, re.MULTILINE)) == 6
    assert "asked for" not in done.stdout
    report = (tmp_path / arguments[arguments.index("--report") + 1]).read_text(encoding="utf-8")
    assert "lighthouse.jsonl" in report
    assert "<svg" in report


@pytest.mark.parametrize("path", ["plugins/openclaw-ctx-window", "examples/lighthouse.jsonl", "examples/NOTICE.md"])
def test_what_the_readme_names_is_there(path):
    """No path in it leads nowhere."""
    assert path in README.read_text(encoding="utf-8")
    assert (ROOT / path).exists()
