"""Fixtures for session files."""

from pathlib import Path

import pytest

from tests.transcript.sessions import as_bytes


@pytest.fixture(name="save")
def _save(tmp_path: Path):
    """Return a function that writes a session file of the given lines."""

    def save(*lines: object, end: bytes = b"\n") -> Path:
        path = tmp_path / "s.jsonl"
        path.write_bytes(as_bytes(lines).replace(b"\n", end))
        return path

    return save
