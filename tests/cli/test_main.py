"""The command as a whole: help, exit codes, what it never prints."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from openclaw_ctx.cli.main import cli
from openclaw_ctx.errors import ConfigError, TranscriptFormatError, UnknownFormatError
from tests.cli.conftest import HOSTILE, Run

COMMANDS = [
    pytest.param((), id="openclaw-ctx"),
    pytest.param(("chat",), id="chat"),
    pytest.param(("replay",), id="replay"),
    pytest.param(("engines",), id="engines"),
    pytest.param(("engines", "release"), id="release"),
    pytest.param(("doctor",), id="doctor"),
    pytest.param(("sessions",), id="sessions"),
    *(
        pytest.param(("sessions", name), id=f"sessions {name}")
        for name in sorted(importlib.import_module("openclaw_ctx.cli.sessions").command.list_commands(None))
    ),
]


def _is_harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_the_exit_codes_on_80_columns(command):
    """Whoever asks for help sees a line to copy, on a line of its own, and what the exit codes mean."""
    shown = CliRunner().invoke(cli, [*command, "--help"])

    assert shown.exit_code == 0
    example = re.search(r"^  Examples?:\n((?:    openclaw-ctx .*\n)+)", shown.output, re.MULTILINE)
    assert example, shown.output
    assert re.search(r"^  Exit codes: 0 ", shown.output, re.MULTILINE)
    assert max(map(len, shown.output.splitlines())) <= 80
    assert "\b" not in shown.output


@pytest.mark.parametrize("command", COMMANDS)
def test_an_example_is_a_command_line_that_is_understood(command):
    """Every example in the help parses: no option in it was renamed since."""
    text = CliRunner().invoke(cli, [*command, "--help"]).output

    for example in re.findall(r"^    openclaw-ctx (.*)$", text, re.MULTILINE):
        words = example.split()
        with cli.make_context("openclaw-ctx", words) as context:
            name, subcommand, rest = cli.resolve_command(context, words)
            assert name == words[0]
            with subcommand.make_context(name, list(rest), parent=context):
                pass


def test_both_spellings_of_the_command_say_the_version(spawn: Run):
    """``python -m openclaw_ctx`` and the installed script are one command."""
    script = shutil.which("openclaw-ctx", path=str(Path(sys.executable).parent))

    done = spawn("--version")

    assert re.fullmatch(r"openclaw-ctx \d+\.\d+\S*\n", done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    if script is not None:
        assert subprocess.run([script, "--version"], capture_output=True, text=True, check=True).stdout == done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--nonsense",), id="unknown-option"),
        pytest.param(("nonsense",), id="unknown-command"),
        pytest.param(("replay",), id="no-file"),
        pytest.param(("replay", "x.jsonl", "-b", "0"), id="budget-of-nothing"),
        pytest.param(("replay", "x.jsonl", "-b", "many"), id="budget-in-words"),
        pytest.param(("replay", "x.jsonl", "-b", "1000000001"), id="budget-beyond-all-models"),
        pytest.param(("replay", "x.jsonl", "-b", "9" * 5_000), id="budget-of-5000-digits"),
        pytest.param(("replay", "x.jsonl", "-b", "8,00"), id="budget-with-a-misplaced-comma"),
        pytest.param(("replay", "x.jsonl", "-e", ""), id="engine-without-a-name"),
        pytest.param(("replay", "x.jsonl", "-e", "legacy", "-e", " "), id="second-engine-blank"),
        pytest.param(("replay", "x.jsonl", "--report", "-"), id="report-to-stdout"),
        pytest.param(("replay", "x.jsonl", "--report", "/dev/null"), id="report-to-a-device"),
        pytest.param(("engines", "release", ""), id="release-without-a-name"),
        pytest.param(("replay", "x.jsonl", "--format", "nonsense"), id="unknown-format-name"),
        pytest.param(("replay", "x.jsonl", "--report", "nowhere/x.html"), id="report-in-no-folder"),
        pytest.param(("replay", "x.jsonl", "--report", "/"), id="report-that-is-a-folder"),
        pytest.param(("engines", "release"), id="release-of-nobody"),
        pytest.param(("engines", "nonsense"), id="unknown-subcommand"),
        pytest.param(("doctor", "extra"), id="an-argument-too-many"),
        pytest.param(("doctor", "--state-dir", __file__), id="state-that-is-a-file"),
    ],
)
def test_a_usage_error_is_exit_2(arguments):
    """What the command line cannot mean is refused before any work."""
    shown = CliRunner().invoke(cli, arguments)

    assert shown.exit_code == 2
    assert "Error: " in shown.stderr
    assert shown.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("doctor", HOSTILE), id="extra-argument"),
        pytest.param((HOSTILE,), id="command"),
        pytest.param((f"--{HOSTILE}",), id="option"),
        pytest.param(("replay", f"{HOSTILE}.jsonl"), id="missing-file"),
        pytest.param(("replay", "x", f"--format={HOSTILE}"), id="format"),
        pytest.param(("replay", "x", "-b", HOSTILE), id="budget"),
        pytest.param(("replay", "x", f"--report={HOSTILE}/x.html"), id="report"),
        pytest.param(("replay", "x", "--config", HOSTILE), id="config"),
        pytest.param(("doctor", "--config", HOSTILE), id="doctors-config"),
        pytest.param(("engines", "release", HOSTILE), id="engine-to-release"),
        pytest.param(("engines", "release", HOSTILE, "--json"), id="engine-to-release-as-json"),
    ],
)
def test_nothing_an_argument_holds_reaches_the_terminal_raw(arguments, run: Run):
    """B64: escape codes, direction marks and line breaks in arguments are written out; nothing is forged."""
    done = run(*arguments)

    assert _is_harmless(done.stdout + done.stderr), (done.stdout, done.stderr)
    assert "forged" in done.stdout + done.stderr
    assert not re.search(r"^Error: forged", done.stdout + done.stderr, re.MULTILINE)
    assert done.returncode in {1, 2}


def test_a_pipe_that_closes_early_ends_the_command_quietly(environment, tmp_path):
    """``openclaw-ctx engines | head -0``: no traceback, no complaint of a broken pipe."""
    with subprocess.Popen(
        [sys.executable, "-m", "openclaw_ctx", "engines"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        complaint = process.stderr.read()

    assert complaint == b""
    assert process.returncode in {0, 1}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full on this system")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--version",), id="version"),
        pytest.param(("--help",), id="help"),
        pytest.param(("engines",), id="engines"),
        pytest.param(("doctor", "--json"), id="doctor"),
    ],
)
def test_a_full_disk_behind_stdout_is_a_sentence(arguments, environment, tmp_path):
    """What cannot be printed is said once on stderr, in our words: exit 1."""
    with open("/dev/full", "w") as full:  # noqa: PTH123 -- a device
        done = subprocess.run(
            [sys.executable, "-m", "openclaw_ctx", *arguments],
            cwd=tmp_path,
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr == "Error: standard output cannot be written: No space left on device.\n"


@pytest.mark.parametrize(
    "error, code, sentence",
    [
        pytest.param(UnknownFormatError("a.txt", ["pi"]), 3, "'a.txt' is not a session", id="unknown-format"),
        pytest.param(TranscriptFormatError("a.txt", "no"), 1, "'a.txt' cannot be used", id="damage"),
        pytest.param(ConfigError("c.json", ["$: x", "$: y"]), 2, "  $: y", id="configuration"),
        pytest.param(FileNotFoundError(2, "No such file", "gone"), 1, "'gone' cannot be used: no such file.", id="os"),
        pytest.param(KeyboardInterrupt(), 130, "Interrupted.", id="ctrl-c"),
        pytest.param(click.exceptions.Abort(), 130, "Interrupted.", id="abort"),
    ],
)
def test_an_error_for_people_is_a_sentence_and_an_exit_code(error, code, sentence, capsys, monkeypatch):
    """What a person can mend has no traceback; stdout stays empty."""
    from openclaw_ctx.cli import main as module  # noqa: PLC0415 -- the module, whose name the function shares

    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(module.cli, "main", fail)
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)

    with pytest.raises(SystemExit) as ended:
        module.main()

    shown = capsys.readouterr()
    assert ended.value.code == code
    assert sentence in shown.err
    assert shown.out == ""


def test_a_bug_keeps_its_traceback(monkeypatch):
    """What nobody foresaw is not dressed up as a sentence."""
    from openclaw_ctx.cli import main as module  # noqa: PLC0415 -- as above

    monkeypatch.setattr(module.cli, "main", lambda **_: 1 / 0)
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)

    with pytest.raises(ZeroDivisionError):
        module.main()


def test_a_signal_in_a_finaliser_is_heard_all_the_same():
    """What a finaliser raises is printed and forgotten: the signal comes again, and ends the program."""
    code = (
        "import os, signal, time, openclaw_ctx.cli.main as main\n"
        "signal.signal(signal.SIGTERM, main._terminate)\n"
        "class Late:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGTERM); time.sleep(0)\n"
        "Late()\n"
        "time.sleep(30)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stderr) == (143, "")
