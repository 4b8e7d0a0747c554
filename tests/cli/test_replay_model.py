"""``replay --model``: turns that are run, and compactions that are made, on a copy."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from rich.cells import cell_len

from openclaw_ctx.replay import LEAST_BUDGET
from tests.cli.conftest import SECRET, Run
from tests.models.provider import Hang, Provider, Reply, completion, openai_error, running

Replay: TypeAlias = Callable[..., Awaitable[subprocess.CompletedProcess[str]]]
_KEY = "sk-test"


@pytest.fixture(name="provider")
async def _provider() -> AsyncIterator[Provider]:
    """Return a provider that runs."""
    async with running() as found:
        yield found


@pytest.fixture(name="replay")
def _replay(
    provider: Provider, configure: Callable[[str], Path], environment: dict[str, str], tmp_path: Path
) -> Replay:
    """Return what replays in a process of its own, while the provider answers here."""
    address = json.dumps({"baseUrl": f"{provider.url}/v1", "apiKey": _KEY, "models": [{"id": "big"}]})
    configure(f"{{models: {{providers: {{acme: {address}}}}}}}")

    async def replay(*arguments: Any) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "openclaw_ctx", "replay", *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )

    return replay


# -- what is shown ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scripted", "extractive"])
def test_each_compaction_is_shown_in_the_table_the_json_and_the_report(name, run: Run, lighthouse, tmp_path):
    """Where, why, how much, how long, by whom; no line is wider than a terminal; the file is as it was."""
    before = lighthouse.read_bytes()

    shown = run("replay", lighthouse, "-b", "8k", "--model", name, "--rows", "--report", "out.html")
    data = json.loads(run("replay", lighthouse, "-b", "8k", "--model", name, "--json").stdout)

    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"225 messages, summaries {name}" in shown.stdout
    assert max(map(cell_len, shown.stdout.splitlines())) <= 80
    (one,) = data["replays"][0]["runs"]
    assert one["model"] == name
    assert (one["over_budget_calls"], one["given_up"]) == (0, [])
    assert len(one["calls"]) == 73
    assert one["compactions"] == len(one["compacted"]) > 3
    report = (tmp_path / "out.html").read_text(encoding="utf-8")
    for made in one["compacted"]:
        assert made["summarised_by"] == name
        assert f"{made['tokens_before']:,}" in shown.stdout
        assert f"<td>{made['tokens_after']:,}</td>" in report
        assert f"{made['tokens_before']:,} to {made['tokens_after']:,} tokens, summarised by " in report
    assert lighthouse.read_bytes() == before


def test_without_a_model_the_numbers_are_those_of_prompts_alone(run: Run, lighthouse):
    """No turn is run; its compactions are listed all the same."""
    (one,) = json.loads(run("replay", lighthouse, "-b", "8k", "--json").stdout)["replays"][0]["runs"]

    assert one["model"] is None
    assert one["compactions"] == len(one["compacted"]) > 0
    assert one["given_up"] == []


def test_a_long_list_of_compactions_is_cut_unless_all_rows_are_asked_for(run: Run, lighthouse):
    """It says how many more there are, and how to see them."""
    short, whole = (run("replay", lighthouse, "-b", "4k", "--model", "extractive", *more) for more in ((), ("--rows",)))

    assert "more compactions; --rows shows all." in short.stdout
    assert "shows all" not in whole.stdout


def test_a_turn_that_was_given_up_is_said(run: Run, tmp_path):
    """In the verdict, in a line of its own, and in the report; the replay ends well, since the host did its work."""
    messages = [
        {"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "word " * 9_000}, {"role": "assistant", "content": "long"},
    ]  # fmt: skip
    (tmp_path / "one.json").write_text(json.dumps(messages), encoding="utf-8")

    done = run("replay", "one.json", "-b", "4k", "--model", "scripted", "--report", "out.html")

    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "1 turn given up; 1 call in 2 turns" in said
    assert "Turn 2 was given up (" in said
    assert ">given up<" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_the_turns_of_every_recorded_session_are_run_within_the_budget(recorded_transcripts: Path, run: Run):
    """No prompt is over it, no engine is replaced, and what has no call was given up for a reason."""
    pytest.importorskip("openclaw_ctx_window")
    seen = compactions = 0

    for path in sorted(path for path in recorded_transcripts.iterdir() if path.is_file()):
        done = run("replay", path, "-e", "legacy", "-e", "window", "-b", "8k", "--model", "scripted", "--json")
        assert done.returncode in {0, 3}, path.name
        assert done.stderr.count("\n") == (done.returncode == 3), path.name
        for one in (one for replay in json.loads(done.stdout)["replays"] for one in replay["runs"]):
            seen += 1
            compactions += one["compactions"]
            assert set(one["answered_by"]) <= {one["engine"]}, (path.name, one["verdict"])
            assert one["over_budget_calls"] == 0, (path.name, one["verdict"])
            assert {turn["kind"] for turn in one["given_up"]} <= {"context_overflow", "compaction_failure"}, path.name

    assert seen >= 30
    assert compactions > 20


# -- a real model ----------------------------------------------------------------------------------


async def test_a_real_model_summarises_and_answers_nothing(replay: Replay, provider: Provider, lighthouse):
    """It is asked for summaries alone, with its key; each compaction names it."""
    provider.will(*(Reply(completion("## Goal\nThe light burns.")) for _ in range(99)))

    done = await replay(lighthouse, "-b", "8k", "--model", "acme/big", "--json")

    (one,) = json.loads(done.stdout)["replays"][0]["runs"]
    assert (done.returncode, done.stderr) == (0, "")
    assert one["compactions"] == len(one["compacted"]) > 3
    assert {made["summarised_by"] for made in one["compacted"]} == {"acme/big"}
    assert len(provider.requests) == sum(made["requests"] for made in one["compacted"])
    for request in provider.requests:
        assert request.headers["authorization"] == f"Bearer {_KEY}"
        assert request.body["model"] == "big"
        assert "summar" in request.body["messages"][0]["content"]


async def test_a_model_that_refuses_is_said_without_its_secrets(replay: Replay, provider: Provider, lighthouse):
    """Each compaction that failed has the reason; the session is replayed to its end, and no secret is shown."""
    refusal = openai_error(f"Incorrect API key provided: {SECRET}", code="invalid_api_key")
    provider.will(*(Reply(refusal, 401) for _ in range(999)))

    shown = await replay(lighthouse, "-b", "8k", "--model", "acme/big", "--rows")
    done = await replay(lighthouse, "-b", "8k", "--model", "acme/big", "--json")

    (one,) = json.loads(done.stdout)["replays"][0]["runs"]
    assert (shown.returncode, done.returncode) == (0, 0)
    assert one["compactions"] == 0
    assert one["messages"] >= 200
    assert {made["compacted"] for made in one["compacted"]} == {False}
    assert "that failed" in " ".join(shown.stdout.split())
    assert SECRET not in shown.stdout + shown.stderr + done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments, said",
    [
        pytest.param(("--model", "gpt"), "'gpt' is neither scripted, extractive nor provider/model", id="no-name"),
        pytest.param(("--model", "nobody/x"), "nobody", id="unknown-provider"),
        pytest.param(("--model", "openai/gpt-test"), "OPENAI_API_KEY", id="no-key"),
        pytest.param(("--model", "scripted", "-b", "3999"), "at least, and 3,999 is less", id="too-small-a-budget"),
    ],
)
def test_what_cannot_be_done_is_said_before_any_work(arguments, said, run: Run, lighthouse, monkeypatch):
    """Exit 2, one sentence, nothing on stdout."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    done = run("replay", lighthouse, *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_the_least_budget_of_a_turn_is_enough(run: Run, lighthouse):
    """What the refusal names is accepted."""
    done = run("replay", lighthouse, "-b", str(LEAST_BUDGET), "--model", "scripted", "--json")

    assert done.returncode == 0


# -- interruption ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number, code", [pytest.param(signal.SIGINT, 130, id="ctrl-c"), pytest.param(signal.SIGTERM, 143, id="terminate")]
)
def test_an_interrupted_replay_of_turns_leaves_nothing_behind(
    number, code, terminal, lighthouse, environment, tmp_path
):
    """Wherever it is in a turn: its own exit code, no traceback, no folder, no part of a report."""
    budgets = [word for at in range(200) for word in ("-b", str(8_000 + at))]
    replay = terminal("replay", lighthouse, *budgets, "--model", "extractive", "--report", "out.html")
    replay.read_until(b"legacy 80")

    ended = replay.end(number)

    assert ended == code
    assert b"Traceback" not in replay.shown
    assert list(Path(environment["TMPDIR"]).iterdir()) == []
    assert list(tmp_path.glob("*out.html*")) == []


async def test_a_model_that_hangs_is_left_at_once(
    replay: Replay, provider: Provider, terminal, lighthouse, environment
):
    """While a summary is waited for, the bar says so, and a signal ends the wait."""
    assert replay is not None  # the configuration is written

    def replayed() -> tuple[int, bytes, list[Path]]:
        shown = terminal("replay", lighthouse, "-b", "8k", "--model", "acme/big")
        shown.read_until(b"compacting")
        asked.wait(60)
        return shown.end(signal.SIGTERM), shown.shown, list(Path(environment["TMPDIR"]).iterdir())

    provider.will(Hang())
    asked = threading.Event()
    ending = asyncio.ensure_future(asyncio.to_thread(replayed))
    await provider.asked.wait()
    asked.set()
    code, text, left = await ending

    assert (code, left) == (143, [])
    assert b"Traceback" not in text
