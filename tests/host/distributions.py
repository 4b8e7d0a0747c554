"""Real distributions for tests: wheels written by hand, installed by pip without a network."""

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

__all__ = ["build_wheel", "install_wheels"]


def build_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str],
    entry_points: Mapping[str, Mapping[str, str]],
    requires: Sequence[str] = (),
    extras: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """
    Write a pure-Python wheel, and return its path.

    Args:
        folder: Where to; made if it isn't there.
        name: As a person writes it; the file's name gets the normal form.
        version: Of the distribution.
        files: Path inside the wheel to text, such as ``{"pkg/__init__.py": ""}``.
        entry_points: Group to name to target.
        requires: What it needs, each a line for ``Requires-Dist``.
        extras: Name of an extra to what it needs.
    """
    stem = f"{name.replace('-', '_').replace('.', '_').lower()}-{version}"
    info = f"{stem}.dist-info"
    headers = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    headers += [f"Requires-Dist: {line}" for line in requires]
    for extra, lines in (extras or {}).items():
        headers += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {line}; extra == "{extra}"' for line in lines)]
    sections = [
        "\n".join([f"[{group}]", *(f"{key} = {target}" for key, target in targets.items())])
        for group, targets in entry_points.items()
    ]
    contents = {
        **files,
        f"{info}/METADATA": "\n".join(headers) + "\n\nA distribution made by a test.\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if sections:
        contents[f"{info}/entry_points.txt"] = "\n\n".join(sections) + "\n"
    record = [f"{path},{_digest(text)},{len(text.encode())}" for path, text in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
    return wheel


def install_wheels(wheels: Iterable[Path], target: Path) -> Path:
    """
    Install *wheels* into the folder *target* in one call of pip, offline, and return *target*.

    Requirements are not followed: list every wheel that is to be there.
    """
    options = ["--isolated", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--quiet"]
    offline = ["--no-index", "--no-deps", "--no-compile", "--target", os.fspath(target)]
    # A pip that is told nothing by the user's environment: such as a constraint, or an index.
    subprocess.run(
        [sys.executable, "-m", "pip", *options, "install", *offline, *map(os.fspath, wheels)],
        check=True,
        capture_output=True,
        text=True,
    )
    return target


def _digest(text: str) -> str:
    raw = hashlib.sha256(text.encode()).digest()
    return f"sha256={base64.urlsafe_b64encode(raw).rstrip(b'=').decode()}"
