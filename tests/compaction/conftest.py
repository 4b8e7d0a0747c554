"""What tests of compaction share."""

from pathlib import Path

import pytest

from openclaw_ctx.transcript import Transcript


@pytest.fixture
def transcript(tmp_path: Path):
    """A session that is open for writing."""
    opened = Transcript.open(tmp_path / "talk.jsonl")
    yield opened
    opened.close()
