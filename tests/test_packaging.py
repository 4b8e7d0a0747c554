"""What is published: the source distribution is the repository, the wheel has its stubs."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_FOREIGN = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")

pytestmark = pytest.mark.skipif(
    int(importlib.metadata.version("setuptools").partition(".")[0]) < 77,
    reason="building needs setuptools 77, as pyproject.toml says",
)


def _repository() -> dict[str, Path]:
    """Return the files that make up the project, by their path in it."""
    folders = ("benchmarks", "docs", "examples", "openclaw_ctx", "plugins", "tests", ".ci")
    files = [ROOT / name for name in ("LICENSE", "README.md", "conftest.py", "pyproject.toml", "tox.ini")]
    for folder in folders:
        for parent, names, found in os.walk(ROOT / folder):
            ignored = _FOREIGN(parent, [*names, *found])
            names[:] = [name for name in names if name not in ignored]
            files += [Path(parent, name) for name in found if name not in ignored]
    return {file.relative_to(ROOT).as_posix(): file for file in files}


def _build(kind: str, source: Path, target: Path) -> Path:
    code = "import sys; from setuptools import build_meta as b; print(getattr(b, f'build_{sys.argv[1]}')(sys.argv[2]))"
    done = subprocess.run(
        [sys.executable, "-c", code, kind, str(target)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target / done.stdout.splitlines()[-1]


def test_the_source_distribution_is_the_repository_and_builds_the_wheel(tmp_path: Path):
    """Tests, docs, examples, plugins and the gate are in it; stubs and ``py.typed`` reach the wheel, tests do not."""
    files = _repository()
    source, built = tmp_path / "source", tmp_path / "built"
    built.mkdir()
    for name, file in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, source / name)
    shutil.copy(ROOT / "MANIFEST.in", source)

    with tarfile.open(_build("sdist", source, built)) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    with zipfile.ZipFile(_build("wheel", unpacked, built)) as wheel:
        installed = set(wheel.namelist())

    assert [name for name in files if not (unpacked / name).is_file()] == []
    package = {name for name in files if name.startswith("openclaw_ctx/")}
    assert {name for name in installed if ".dist-info/" not in name} == package
    assert {name for name in package if name.endswith((".pyi", "py.typed"))}
