"""Fixtures that every test may use."""

import os
from pathlib import Path

import hypothesis
import pytest

import openclaw_ctx

ROOT = Path(__file__).parent

if os.environ.get("OPENCLAW_CTX_TEST_WHEEL") and Path(openclaw_ctx.__file__).parent.parent == ROOT:
    pytest.exit("the tests were to run on the installed wheel, and the tree came first on the path", returncode=4)

# No test asserts a time, not by hypothesis either: a busy machine, or its first look at Unicode, is no failure.
hypothesis.settings.register_profile(
    "openclaw-ctx", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("openclaw-ctx")


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the configuration and state of whoever runs it."""
    monkeypatch.setenv("OPENCLAW_CTX_CONFIG", str(tmp_path / "home" / "openclaw.json"))
    monkeypatch.setenv("OPENCLAW_CTX_STATE_DIR", str(tmp_path / "home" / "state"))
    # What one test's configuration took from its environment is no other test's secret.
    monkeypatch.setattr("openclaw_ctx.log.mask._remembered", ())


@pytest.fixture(scope="session")
def recorded_transcripts() -> Path:
    """Return the folder of recorded sessions, or skip where there is none."""
    folder = Path(os.environ.get("OPENCLAW_CTX_TRANSCRIPTS") or ROOT.parent / "shared" / "transcripts")
    if not folder.is_dir():
        pytest.skip("recorded transcripts are not at hand: set OPENCLAW_CTX_TRANSCRIPTS to a folder of session files")
    return folder
