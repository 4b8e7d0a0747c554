"""``replay``: recorded sessions through engines, and every way in which that can end."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from openclaw_ctx.transcript.importers import FORMATS
from tests.cli.conftest import HOSTILE, SECRET, Run


def _session(path: Path, turns: int = 3) -> Path:
    lines = [{"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/"}]
    parent = None
    for number in range(turns):
        for role, text in (("user", f"question {number}"), ("assistant", f"answer {number} " * 30)):
            message = {"role": role, "content": [{"type": "text", "text": text}]}
            name = f"{role}{number}"
            lines.append({"type": "message", "id": name, "parentId": parent, "message": message})
            parent = name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


# -- what is shown --------------------------------------------------------------------------------


def test_a_session_is_replayed_and_judged(spawn: Run, lighthouse):
    """One file, no options: the slot's engine, the default budget, a row per turn, a verdict."""
    done = spawn("replay", lighthouse)

    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("lighthouse.jsonl  pi, 225 messages ")
    assert "legacy at 32,000: 73 calls in 20 turns" in " ".join(done.stdout.split())


def test_engines_and_budgets_stand_side_by_side_within_80_columns(run: Run, lighthouse):
    """Every engine at every budget, once; no line is wider than a terminal, and none ends in an escape code."""
    done = run(
        "replay", lighthouse, "-e", "legacy", "-e", "fine", "-e", "legacy", "-b", "8000", "-b", "16000", "--rows"
    )

    assert done.returncode == 0
    rows = re.findall(r"^(legacy|fine)\s+(8,000|16,000)\s+73\s+20", done.stdout, re.MULTILINE)
    assert rows == [("legacy", "8,000"), ("legacy", "16,000"), ("fine", "8,000"), ("fine", "16,000")]
    assert max(map(cell_len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout + done.stderr


def test_json_is_all_that_is_on_stdout(spawn: Run, lighthouse):
    """Every run with every call; the numbers of a run follow from its calls."""
    done = spawn("replay", lighthouse, "-e", "legacy", "-e", "nope", "-b", "8000", "-b", "100000", "--json")

    data = json.loads(done.stdout)
    assert done.returncode == 0
    (replay,) = data["replays"]
    assert data["errors"] == []
    assert [(run["engine"], run["budget"]) for run in replay["runs"]] == [
        ("legacy", 8_000), ("legacy", 100_000), ("nope", 8_000), ("nope", 100_000),
    ]  # fmt: skip
    for one in replay["runs"]:
        assert len(one["calls"]) == 73
        assert one["peak_tokens"] == max(call["prompt_tokens"] for call in one["calls"])
        assert one["compactions"] == sum(call["compactions"] for call in one["calls"])
        assert sum(one["answered_by"].values()) == 73
    tight, wide = replay["runs"][:2]
    assert tight["compactions"] > 0 == wide["compactions"]


def test_an_engine_that_is_not_installed_ends_on_legacy_and_says_so(run: Run, lighthouse):
    """The replay ends well; verdict and JSON name who was asked for, who answered, and why."""
    shown = run("replay", lighthouse, "-e", "nope")
    data = json.loads(run("replay", lighthouse, "-e", "nope", "--json").stdout)

    assert shown.returncode == 0
    said = " ".join(shown.stdout.split())
    assert "Asked for nope; legacy answered all 73 calls, since no installed distribution offers it (" in said
    assert "openclaw-ctx engines lists what is there). At 32,000: 73 calls" in said
    assert "quarantined" not in said
    (one,) = data["replays"][0]["runs"]
    assert one["answered_by"] == {"legacy": 73}
    assert "no installed distribution offers it" in one["substitution"]


@pytest.mark.parametrize(
    "config, engine, said",
    [
        pytest.param("{}", "Fien", "offers it (did you mean 'fine'? openclaw-ctx engines lists", id="mistyped"),
        pytest.param("{plugins: {deny: ['nope']}}", "nope", "since 'nope' is in plugins.deny. At", id="denied"),
        pytest.param("{plugins: {enabled: false}}", "fine", "since plugins.enabled is false. At", id="all-off"),
        pytest.param("{}", "moody", "since bootstrap failed: RuntimeError: provider said no", id="fails-at-once"),
        pytest.param("{}", "leaky", "all 73 calls, since assemble failed: RuntimeError: provider", id="fails-later"),
    ],
)
def test_a_stand_in_says_what_was_wrong_in_words_for_people(config, engine, said, run: Run, configure, lighthouse):
    """The key that forbids it, the name that is near, or what the engine raised; nothing of how we found out."""
    configure(config)

    done = run("replay", lighthouse, "-e", engine)

    assert done.returncode == 0
    assert said in " ".join(done.stdout.split())
    assert "quarantined" not in done.stdout


@pytest.mark.parametrize("written", ["8k", "8K", "8_000", "8,000", "8000"])
def test_a_budget_is_written_as_people_write_it(written, run: Run, tmp_path):
    """With a k, with separators, or plain."""
    done = run("replay", _session(tmp_path / "one.jsonl"), "-b", written, "--json")

    assert json.loads(done.stdout)["replays"][0]["runs"][0]["budget"] == 8_000


@pytest.mark.parametrize("command", [pytest.param("replay", id="replay"), pytest.param("engines", id="engines")])
def test_what_is_questionable_in_the_configuration_is_warned_of(
    command, run: Run, configure, lighthouse, monkeypatch, tmp_path
):
    """A mistyped key, and a file that the environment names and that is not there: one line, and in the JSON."""
    arguments = (command, *((lighthouse,) if command == "replay" else ()))
    configure("{plugins: {slot: {contextEngine: 'fine'}}}")

    mistyped, as_json = run(*arguments), run(*arguments, "--json")
    monkeypatch.setenv("OPENCLAW_CTX_CONFIG", str(tmp_path / "gone.json"))
    gone = run(*arguments)

    assert (mistyped.returncode, as_json.returncode, gone.returncode) == (0, 0, 0)
    assert re.fullmatch(r"Warning: \$\.plugins\.slot: [^\n]*'slots'[^\n]*\n", mistyped.stderr)
    assert [f"Warning: {finding}\n" for finding in json.loads(as_json.stdout)["findings"]] == [mistyped.stderr]
    assert re.fullmatch(r"Warning: OPENCLAW_CTX_CONFIG names '[^\n]*gone\.json', [^\n]*\n", gone.stderr)


def test_a_replay_leaves_no_quarantine_behind(spawn: Run, tmp_path):
    """Its rows are of a process that ends: none stays in the state folder, and its folder is empty."""
    done = spawn("replay", _session(tmp_path / "one.jsonl"), "-e", "leaky", "-e", "moody", "-b", "8k", "-b", "9k")

    assert done.returncode == 0
    assert done.stderr.count("engine.quarantined") == 4
    assert [path for path in (tmp_path / "state").rglob("*") if path.is_file()] == []


def test_an_engine_that_fails_is_answered_for_without_its_secrets(run: Run, lighthouse, tmp_path):
    """B62, B65: an engine that raises in ``assemble``: legacy answers, the reason is masked and escaped everywhere."""
    shown = run("replay", lighthouse, "-e", "leaky", "--report", "out.html")
    as_json = run("replay", lighthouse, "-e", "leaky", "--json")

    assert (shown.returncode, as_json.returncode) == (0, 0)
    one = json.loads(as_json.stdout)["replays"][0]["runs"][0]
    assert one["answered_by"] == {"legacy": 73}
    assert "provider said no" in one["substitution"]
    report = (tmp_path / "out.html").read_text(encoding="utf-8")
    for text in (shown.stdout, shown.stderr, as_json.stdout, as_json.stderr, report):
        assert SECRET not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\nError: forged" not in text


def test_the_strict_policy_refuses_a_stand_in(run: Run, configure, lighthouse):
    """Under ``slotPolicy: strict`` nobody answers for a missing engine: exit 1, one sentence."""
    configure("{plugins: {slotPolicy: 'strict'}}")

    done = run("replay", lighthouse, "-e", "nope", "--json")

    assert done.returncode == 1
    (error,) = json.loads(done.stdout)["errors"]
    assert "plugins.slotPolicy is 'strict'" in error


# -- files that are no sessions -------------------------------------------------------------------


def test_a_file_that_is_no_session_is_exit_3_and_one_sentence(spawn: Run, tmp_path):
    """The file is named, the known formats are, and nothing else is printed."""
    (tmp_path / "notes.txt").write_text("Buy milk.\n")

    done = spawn("replay", "notes.txt")

    assert done.returncode == 3
    assert done.stdout == ""
    line = r"Error: 'notes\.txt' is not a session in a known format \([\w, -]+\)\. [^\n]+ --format\.\n"
    assert re.fullmatch(line, done.stderr)


def test_the_known_formats_are_listed_once(run: Run, tmp_path):
    """Of many files that are no sessions the first says what is read; the others only that they are none."""
    for name in "abc":
        (tmp_path / name).write_text("Buy milk.\n")

    done = run("replay", "a", "b", "c")

    assert done.returncode == 3
    assert done.stderr.count("claude-code") == 1
    assert done.stderr.splitlines()[1:] == [
        "Error: 'b' is not a session in a known format either.",
        "Error: 'c' is not a session in a known format either.",
    ]


def test_the_help_lists_the_formats(run: Run):
    """Every format that this program reads, and that a plugin may add one."""
    said = "".join(run("replay", "--help").stdout.split())  # a name may be broken at its hyphen

    assert all(name in said for name in FORMATS)
    assert "onethatapluginadds" in said


@pytest.mark.parametrize("bad", [pytest.param(0, id="first"), pytest.param(1, id="middle"), pytest.param(2, id="last")])
def test_one_bad_file_among_several_costs_only_itself(bad, run: Run, tmp_path):
    """The others are replayed, in order; exit 3; text and JSON name the bad one."""
    files = [_session(tmp_path / "one.jsonl"), _session(tmp_path / "two.jsonl")]
    (tmp_path / "bad.jsonl").write_text("no session\n")
    files.insert(bad, tmp_path / "bad.jsonl")

    done = run("replay", *files, "--json")

    data = json.loads(done.stdout)
    assert done.returncode == 3
    assert [replay["source"] for replay in data["replays"]] == ["one.jsonl", "two.jsonl"]
    assert len(data["errors"]) == 1
    assert "bad.jsonl" in data["errors"][0]
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "make, code, words",
    [
        pytest.param(lambda path: None, 1, "no such file or directory", id="missing"),
        pytest.param(lambda path: path.mkdir(), 3, "it is a folder", id="a-folder"),
        pytest.param(lambda path: path.write_bytes(b""), 3, "", id="empty"),
        pytest.param(lambda path: path.write_bytes(b"\x00" * 4_096), 3, "", id="zeros"),
        pytest.param(lambda path: path.write_bytes(b"\xff\xfe{\x00}\x00"), 3, "", id="utf-16"),
        pytest.param(lambda path: path.symlink_to(path), 1, "symbolic links", id="a-link-to-itself"),
    ],
)
def test_a_path_that_cannot_be_read_is_a_sentence(make, code, words, run: Run, tmp_path):
    """Never a traceback, whatever lies there."""
    make(tmp_path / "it")

    done = run("replay", "it")

    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith("Error: 'it'")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_the_format_can_be_named(run: Run, tmp_path):
    """Naming it skips the guess; a wrong name for the file is that file's problem."""
    path = _session(tmp_path / "one.jsonl")

    right, wrong = run("replay", path, "--format", "pi"), run("replay", path, "--format", "claude-code")

    assert right.returncode == 0
    assert wrong.returncode == 3
    assert wrong.stderr.count("\n") == 1


# -- the recordings -------------------------------------------------------------------------------


def test_every_recorded_session_ends_well_through_every_engine(recorded_transcripts: Path, run: Run):
    """Exit 0, or 3 where the format has no importer; never a traceback; each engine answers what it is asked."""
    pytest.importorskip("openclaw_ctx_window")
    codes: dict[int, list[str]] = {0: [], 3: []}

    for path in sorted(path for path in recorded_transcripts.iterdir() if path.is_file()):
        done = run("replay", path, "-e", "legacy", "-e", "window", "--json")
        codes[done.returncode].append(path.name)
        assert done.stderr.count("\n") == (done.returncode == 3), path.name
        for one in (one for replay in json.loads(done.stdout)["replays"] for one in replay["runs"]):
            assert set(one["answered_by"]) <= {one["engine"]}, (path.name, one["verdict"])

    assert "pi__large-session.jsonl" in codes[0]
    assert {"pi", "agentsessions", "taubench", "claudecodelog"} <= {name.split("__")[0] for name in codes[0]}
    assert len(codes[0]) >= 15


# -- the report -----------------------------------------------------------------------------------


def test_a_report_is_private_and_is_overwritten_by_the_next(run: Run, tmp_path):
    """Mode 0600, also over an older one with another mode; nothing else is left in the folder."""
    folder = tmp_path / "reports"
    folder.mkdir()
    report = folder / "out.html"
    session = _session(tmp_path / "one.jsonl")

    first = run("replay", session, "--report", report)
    report.chmod(0o644)
    second = run("replay", session, "-e", "fine", "--report", report)

    assert (first.returncode, second.returncode) == (0, 0)
    assert first.stdout.endswith(f"Report: {report}\n")
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert "fine" in report.read_text(encoding="utf-8")
    assert [path.name for path in folder.iterdir()] == ["out.html"]


def test_a_file_that_is_no_report_of_ours_is_not_overwritten(run: Run, tmp_path):
    """Refused before any work, with the file as it was: the session itself, too."""
    session = _session(tmp_path / "one.jsonl")
    page = tmp_path / "mine.html"
    page.write_text("<!DOCTYPE html><title>openclaw-ctx</title>mine")
    before = session.read_bytes()

    for path in (page, session):
        done = run("replay", session, "--report", path)

        assert done.returncode == 2
        assert done.stdout == ""
        assert "is no report of ours" in done.stderr
    assert page.read_text().endswith("mine")
    assert session.read_bytes() == before


def test_a_pipe_is_no_place_for_a_report(spawn: Run, tmp_path):
    """Said at once: it is not opened, which would wait for somebody at its other end."""
    session, pipe = _session(tmp_path / "one.jsonl"), tmp_path / "pipe"
    os.mkfifo(pipe)

    for path in (pipe, "/dev/stdout", "-"):
        done = spawn("replay", session, "--report", path)

        assert done.returncode == 2
        assert done.stdout == ""
        assert "name" in done.stderr
        assert "out.html" in done.stderr
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full on this system")
def test_a_broken_stdout_does_not_lose_the_report(environment, lighthouse, tmp_path):
    """The report is on disk before the table is printed."""
    with open("/dev/full", "w") as full:  # noqa: PTH123 -- a device
        done = subprocess.run(
            [sys.executable, "-m", "openclaw_ctx", "replay", str(lighthouse), "--report", "out.html"],
            cwd=tmp_path,
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr == "Error: standard output cannot be written: No space left on device.\n"
    assert "lighthouse.jsonl" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_does_not_lose_the_table(run: Run, tmp_path):
    """The result is printed all the same; then exit 1 and a sentence that names the report."""
    session, name = _session(tmp_path / "one.jsonl"), f"{'x' * 245}.html"

    done = run("replay", session, "--report", name)

    assert done.returncode == 1
    assert "legacy at 32,000: 3 calls" in " ".join(done.stdout.split())
    assert "Report:" not in done.stdout
    assert f"the report '{name}' cannot be written: file name too long." in done.stderr


# -- terminals ------------------------------------------------------------------------------------


def test_hostile_names_of_files_and_engines_are_written_out(run: Run, tmp_path):
    """B64: in tables, verdicts, errors, JSON and the report's name, nothing reaches the terminal raw."""
    session = _session(tmp_path / f"{HOSTILE.replace('/', '')}.jsonl")
    report = tmp_path / f"{HOSTILE}.html"

    shown = run("replay", session, "-e", HOSTILE, "-e", "legacy", "--rows", "--report", report)
    as_json = run("replay", session, "-e", HOSTILE, "--json")

    assert (shown.returncode, as_json.returncode) == (0, 0)
    json.loads(as_json.stdout)
    for text in (shown.stdout, shown.stderr, as_json.stdout, as_json.stderr):
        assert all(line.isprintable() for line in text.split("\n"))
        assert not re.search(r"^Error: forged", text, re.MULTILINE)
    assert report.exists()


def test_a_terminal_of_ascii_gets_escapes_instead_of_an_end(spawn: Run, tmp_path):
    """Names in Chinese and a chart of blocks end no replay where stdout takes ASCII only."""
    session = _session(tmp_path / "静默.jsonl")

    done = spawn("replay", session, "-e", "播客", "--report", tmp_path / "报告.html", PYTHONIOENCODING="ascii")
    gone = spawn("replay", "没有.jsonl", PYTHONIOENCODING="ascii")

    assert done.returncode == 0
    assert (done.stdout + done.stderr + gone.stderr).isascii()
    assert "\\u9759\\u9ed8.jsonl" in done.stdout
    assert gone.returncode == 1
    assert "\\u6ca1" in gone.stderr


def test_the_progress_bar_is_for_terminals_and_goes_away(terminal, lighthouse):
    """It shows file, engine and budget while the work goes on, wipes its line, and gives the cursor back."""
    budgets = [word for number in range(20) for word in ("-b", str(8_000 + number))]
    replay = terminal("replay", lighthouse, *budgets)

    replay.read_until("lighthouse.jsonl · legacy 80".encode())
    assert replay.end() == 0

    before, _, result = replay.shown.rpartition(b"\x1b[?25h")
    assert before.count(b"\x1b[2K") > 1, "each picture of the bar replaces the last"
    assert "·" not in result.decode()
    assert "legacy at 8,019: " in result.decode()


# -- interruption ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number, code",
    [
        pytest.param(signal.SIGINT, 130, id="ctrl-c"),
        pytest.param(signal.SIGTERM, 143, id="terminate"),
        pytest.param(signal.SIGHUP, 129, id="terminal-closed"),
    ],
)
@pytest.mark.parametrize("engine", [pytest.param("legacy", id="built-in"), pytest.param("stuck", id="stuck")])
def test_an_interrupted_replay_leaves_nothing_behind(number, code, engine, terminal, lighthouse, environment, tmp_path):
    """At once, by its own exit code, without traceback, temporary folder or part of a report; a stuck engine too."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup the tests themselves ignore it, and so would the child
    budgets = [word for number in range(200) for word in ("-b", str(8_000 + number))]
    replay = terminal("replay", lighthouse, "-e", engine, *budgets, "--report", "out.html")
    replay.read_until(b"stuck now" if engine == "stuck" else b"legacy 80")
    temporaries = Path(environment["TMPDIR"])
    assert list(temporaries.iterdir())

    ended = replay.end(number)

    assert ended == code
    assert b"Traceback" not in replay.shown
    assert (b"Interrupted." in replay.shown) == (number == signal.SIGINT)
    assert list(temporaries.iterdir()) == []
    assert list(tmp_path.glob("*out.html*")) == []


def test_a_replay_under_nohup_outlives_its_terminal(environment, tmp_path):
    """Who has asked that a hang-up be ignored is not ended by one."""
    session = _session(tmp_path / "one.jsonl")
    code = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "import openclaw_ctx.cli.main as main\n"
        f"sys.argv = ['openclaw-ctx', 'replay', {str(session)!r}]\n"
        "try: main.main()\n"
        "finally: os.kill(os.getpid(), signal.SIGHUP)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
