"""``sessions compact``: less in the context, everything in the transcript."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw_ctx.assembly import sessions_folder
from openclaw_ctx.contract import CompactionSummaryMessage, SessionKey
from openclaw_ctx.transcript import FileStore
from tests.cli.conftest import HOSTILE, Run
from tests.models.provider import Reply, completion, openai_error, running
from tests.transcript.sessions import chain

KITCHEN = SessionKey("kitchen")
_LONG = [f"{number}: {'flour ' * 4_000}" for number in range(20)]


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> FileStore:
    """Return the store that the commands use, with a session that is long enough to be compacted."""
    store = FileStore(sessions_folder(tmp_path / "state"))
    store.create(KITCHEN, chain(*_LONG))
    return store


def _history(store: FileStore) -> list[object]:
    transcript = store.read(KITCHEN)
    history = list(transcript.history)
    transcript.close()
    return history


def test_a_session_is_compacted(run: Run, store: FileStore):
    """It says how much is left; a summary opens the context, and the transcript has grown."""
    before = store.sessions()[0]

    done = run("sessions", "compact", "kitchen")

    after = store.sessions()[0]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("kitchen: ")
    assert " tokens before, " in done.stdout
    assert isinstance(_history(store)[0], CompactionSummaryMessage)
    assert len(_history(store)) < len(_LONG)
    assert (after.compactions, after.messages) == (before.compactions + 1, before.messages)


def test_its_json_has_the_numbers(run: Run, store: FileStore):
    """Also by the file of a session; the context is smaller than it was."""
    (info,) = store.glance()

    done = run("sessions", "compact", info.path, "--json", "--budget", "32k")

    data = json.loads(done.stdout)
    assert (data["session"], data["ok"], data["compacted"], data["reason"]) == ("kitchen", True, True, None)
    assert (data["engine"], data["substitution"], data["findings"]) == ("legacy", None, [])
    assert 0 < data["tokens_after"] < data["tokens_before"]


def test_nothing_to_do_is_no_failure(run: Run, store: FileStore):
    """A short session is left as it is, byte by byte, with the reason."""
    info = store.create(SessionKey("short"), chain("one", "two"))
    before = info.path.read_bytes()

    done = run("sessions", "compact", "short")
    data = json.loads(run("sessions", "compact", "short", "--json").stdout)

    assert done.returncode == 0
    assert done.stdout.startswith("short: nothing was compacted: ")
    assert (data["compacted"], data["tokens_before"], data["tokens_after"]) == (False, None, None)
    assert data["reason"]
    assert info.path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments,code,named",
    [
        pytest.param(("nobody",), 1, "nobody", id="no-such-session"),
        pytest.param((HOSTILE,), 1, "forged", id="a-name-that-moves-the-cursor"),
        pytest.param(("kitchen", "--focus", "x" * 801), 2, "at most 800 characters", id="a-focus-too-long"),
        pytest.param(("kitchen", "--model", "gpt"), 2, "provider/model", id="no-name-of-a-model"),
        pytest.param(("kitchen", "--model", "nobody/gpt"), 2, "baseUrl", id="an-unknown-provider"),
        pytest.param(("openclaw.json",), 2, "sessions import", id="a-file-outside-the-store"),
    ],
)
def test_what_cannot_be_compacted_is_said(run: Run, store: FileStore, arguments, code, named):
    """And the session is as it was."""
    done = run("sessions", "compact", *arguments)

    assert (done.returncode, done.stdout) == (code, "")
    assert named in done.stderr
    assert "\x1b" not in done.stderr
    assert len(_history(store)) == len(_LONG)


@pytest.mark.parametrize("fails", [pytest.param(False, id="it-answers"), pytest.param(True, id="its-key-is-refused")])
async def test_a_model_summarises_where_one_is_named(
    store: FileStore, environment: dict[str, str], configure, tmp_path: Path, fails
):
    """It is asked with the focus; one that fails is a failure, and the context stays as it was."""
    async with running() as provider:
        url = f"{provider.url}/v1"
        configure(json.dumps({"models": {"providers": {"acme": {"baseUrl": url, "models": [{"id": "s"}]}}}}))
        refusal = Reply(openai_error("No such key.", code="invalid_api_key"), 401)
        provider.will(*[refusal if fails else Reply(completion("## Goal\nBread, by the model.")) for _ in range(20)])

        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "openclaw_ctx", "sessions", "compact", "kitchen", "--model=acme/s", "--focus=rye"],
            cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=60,
        )  # fmt: skip

        assert "rye" in json.dumps(provider.requests[0].body)
    first = _history(store)[0]
    assert "Traceback" not in done.stderr
    if fails:
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr
        assert len(_history(store)) == len(_LONG)
    else:
        assert done.returncode == 0, done.stderr
        assert isinstance(first, CompactionSummaryMessage)
        assert "Bread, by the model." in first.summary
