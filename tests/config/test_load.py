"""Finding, reading and decoding the file."""

import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw_ctx.config import CONFIG_VARIABLE, Settings, load_settings
from openclaw_ctx.errors import ConfigError

COMMENTED = """\
// The engine that we run.
{
  plugins: {
    slots: { contextEngine: 'window' },   /* ours */
    entries: {
      "window": {
        enabled: true,
        config: { url: "https://example.org//v1", /* not a comment: */ note: "// kept", },
      },
    },
  },
  deadlines: { assemble: +.5, compact: 0x10 },
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return where a test's configuration goes; nothing is there yet."""
    return tmp_path / "openclaw.json"


def _problem(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(path, environ={})
    assert caught.value.source == str(path)
    (problem,) = caught.value.problems
    return problem


def test_a_file_with_comments_trailing_commas_and_slashes_in_strings_loads(file: Path) -> None:
    """B58: JSON5 as people write it; a URL is not taken for a comment."""
    file.write_text(COMMENTED, encoding="utf-8")

    loaded = load_settings(file, environ={})

    entry = loaded.settings.plugins.entries["window"]
    assert entry.config == {"url": "https://example.org//v1", "note": "// kept"}
    assert loaded.settings.plugins.slots.context_engine == "window"
    assert loaded.settings.deadlines.assemble == 0.5
    assert loaded.settings.deadlines.compact == 16
    assert (loaded.path, loaded.exists, loaded.findings) == (file, True, ())


def test_the_argument_wins_over_the_environment(file: Path, tmp_path: Path) -> None:
    """Who names a file on the command line means that file."""
    file.write_text("{tokens: {counter: 'o200k_base'}}", encoding="utf-8")
    other = tmp_path / "other.json"
    other.write_text("{tokens: {counter: 'cl100k_base'}}", encoding="utf-8")
    environ = {CONFIG_VARIABLE: str(other)}

    assert load_settings(file, environ=environ).settings.tokens.counter == "o200k_base"
    assert load_settings(environ=environ).settings.tokens.counter == "cl100k_base"


def test_the_variables_come_from_the_environment_given(file: Path) -> None:
    """B59: a file's ``${VAR}`` and the findings about it, from end to end."""
    file.write_text("{plugins: {entries: {a: {config: {k: '${K}'}}, b: {config: {k: '${NOPE}'}}}}}", encoding="utf-8")

    loaded = load_settings(file, environ={"K": "v"})

    assert loaded.settings.plugins.entries["a"].config == {"k": "v"}
    assert loaded.settings.plugins.entries["b"].unset_variables == ("$.plugins.entries.b.config.k: ${NOPE}",)
    assert len(loaded.findings) == 1


def test_a_missing_file_that_was_named_is_an_error(file: Path) -> None:
    """A mistyped ``--config`` must not run with the defaults."""
    assert _problem(file) == "$: there is no such file"


def test_a_missing_file_that_the_environment_names_is_a_finding(file: Path) -> None:
    """The variable outlives the file: defaults, and a word about it."""
    loaded = load_settings(environ={CONFIG_VARIABLE: str(file)})

    assert loaded.settings == Settings()
    assert (loaded.path, loaded.exists) == (file, False)
    assert loaded.findings == (f"$: OPENCLAW_CTX_CONFIG names {str(file)!r}, which is not there",)


@pytest.mark.parametrize(
    "environ", [pytest.param({}, id="no-variable"), pytest.param({CONFIG_VARIABLE: ""}, id="an-empty-variable")]
)
def test_without_a_name_the_users_own_file_is_read_if_it_is_there(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most people have no file at first, and that is no finding."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = platformdirs.user_config_path("openclaw-ctx")
    if not folder.is_relative_to(tmp_path):
        pytest.skip("the user's config folder cannot be moved on this system")

    before = load_settings(environ=environ)
    folder.mkdir(parents=True)
    (folder / "openclaw.json").write_text("{session: {durable: true}}", encoding="utf-8")
    after = load_settings(environ=environ)

    assert (before.settings, before.exists, before.findings) == (Settings(), False, ())
    assert before.path == after.path == folder / "openclaw.json"
    assert (after.settings.session.durable, after.exists) == (True, True)


def test_the_environments_path_may_be_relative_to_home(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No shell has expanded a variable that a service file sets."""
    monkeypatch.setenv("HOME", str(file.parent))
    monkeypatch.setenv("USERPROFILE", str(file.parent))
    file.write_text("{}", encoding="utf-8")

    assert load_settings(environ={CONFIG_VARIABLE: "~/openclaw.json"}).path == file


def test_a_folder_in_the_files_place_is_an_error_not_a_traceback(file: Path) -> None:
    """What the operating system refuses is said in its words."""
    file.mkdir()

    assert _problem(file).startswith("$: cannot be read: ")


@pytest.mark.skipif(sys.platform == "win32", reason="FIFOs are POSIX's")
def test_a_fifo_in_the_files_place_is_refused_and_not_waited_for(file: Path) -> None:
    """Nobody writes into it, so reading would hang the command; in a process of its own, for that."""
    os.mkfifo(file)
    program = (
        "import sys, pathlib; from openclaw_ctx.config import load_settings; load_settings(pathlib.Path(sys.argv[1]))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, timeout=30, check=False
    )

    assert "ConfigError" in done.stderr
    assert str(file) in done.stderr
    assert "it is not a regular file" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full on this system")
def test_a_device_in_the_files_place_is_refused_and_not_read() -> None:
    """A device need not end, and this one gives zeros for ever."""
    assert _problem(Path("/dev/full")) == "$: cannot be read: it is not a regular file"


def test_a_file_of_gigabytes_is_refused_and_not_read(file: Path) -> None:
    """It would fill the memory; this one is all holes."""
    file.touch()
    os.truncate(file, 1 << 33)

    assert _problem(file) == "$: cannot be read: it has 8589934592 bytes, and 8388608 are the most"


def test_a_path_that_no_system_knows_is_an_error_not_a_traceback() -> None:
    """A NUL in a path is refused by Python before the system sees it."""
    assert _problem(Path("a\0b")) == "$: cannot be read: not a path"


@pytest.mark.parametrize(
    "content, problem",
    [
        pytest.param("{\n  a: 1\n  b: 2\n}", "line 3, column 3: expected ',' or '}', found 'b'", id="a-lost-comma"),
        pytest.param("{\n a: }", "line 2, column 5: expected a value, found '}'", id="a-lost-value"),
        pytest.param('{"a" 1}', "line 1, column 6: expected ':', found '1'", id="a-lost-colon"),
        pytest.param("{\n a: {\n b: 1", "line 2, column 5: unclosed object", id="a-lost-brace"),
        pytest.param("{a: 'x\n'}", "line 1, column 5: unclosed string", id="a-string-over-two-lines"),
        pytest.param("{a: /* 1}", "line 1, column 6: unclosed comment", id="an-open-comment"),
        pytest.param("{,}", "line 1, column 2: expected a key, found ','", id="a-comma-without-a-key"),
        pytest.param("{}\n\n }", "line 3, column 2: expected the end of the file, found '}'", id="a-brace-too-many"),
        pytest.param(
            "{}\n\U0001f600", "line 2, column 1: expected the end of the file, found '\\U0001f600'", id="emoji"
        ),
        pytest.param("{a: tru}", "line 1, column 8: expected 'e', found '}'", id="half-a-word"),
        pytest.param("{a: +}", "line 1, column 5: this number cannot be read", id="half-a-number"),
        pytest.param("{a: 1e999}", "line 1, column 5: this number cannot be read", id="a-number-past-all-bounds"),
        pytest.param("", "line 1, column 1: the file is empty; an empty configuration is {}", id="nothing"),
        pytest.param(" \n", "line 1, column 1: the file is empty; an empty configuration is {}", id="white-space"),
        pytest.param("// {}", "line 1, column 1: no JSON data found", id="only-a-comment"),
        pytest.param("[" * 200, "line 1, column 101: maximum nesting level exceeded", id="nested-without-end"),
    ],
)
def test_a_syntax_error_says_where_and_what_was_expected(file: Path, content: str, problem: str) -> None:
    """Line and column as editors count them."""
    file.write_text(content, encoding="utf-8", newline="")

    assert _problem(file) == f"$: {problem}"


@pytest.mark.parametrize(
    "content, problem",
    [
        pytest.param("{}".encode("utf-16"), "line 1, column 1: this is UTF-16; save the file as UTF-8", id="UTF-16"),
        pytest.param("{}".encode("utf-32"), "line 1, column 1: this is UTF-32; save the file as UTF-8", id="UTF-32"),
        pytest.param(
            '{\n a: "Zürich"}'.encode("latin-1"),
            "line 2, column 7: byte 0xfc is not UTF-8; save the file as UTF-8",
            id="Latin-1",
        ),
        pytest.param(
            b'\xef\xbb\xbf{a: "\xff"}',
            "line 1, column 6: byte 0xff is not UTF-8; save the file as UTF-8",
            id="a-mark-does-not-shift-the-column",
        ),
        pytest.param(b"[1, 2]", "expected an object, not a list", id="a-list"),
        pytest.param(b'"a"', 'expected an object, not "a"', id="a-string"),
        pytest.param(b"null", "expected an object, not null", id="null"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_clearly(file: Path, content: bytes, problem: str) -> None:
    """Another encoding, or another kind of value, is named as such."""
    file.write_bytes(content)

    assert _problem(file) == f"$: {problem}"


def test_a_mark_of_utf_8_is_white_space(file: Path) -> None:
    """JSON5 says so, and some editors always write one."""
    file.write_bytes(b"\xef\xbb\xbf{session: {durable: true}}")

    assert load_settings(file, environ={}).settings.session.durable is True


def test_a_syntax_error_does_not_carry_what_was_read_before_it(file: Path) -> None:
    """B62: the decoder's exception holds the values so far, and a traceback would print them."""
    file.write_text('{plugins: {entries: {x: {config: {key: "sk-12345"}}}}, oops oops}', encoding="utf-8")

    with pytest.raises(ConfigError) as caught:
        load_settings(file, environ={})

    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "sk-12345" not in str(caught.value)


@given(
    content=st.binary(max_size=20)
    | st.text(alphabet="{}[]:,'\"/*\\ \na1.e+-\u2028\ufeffé", max_size=12).map(str.encode)
)
@example(content=b"{a:" + b"9" * 5000 + b"}")
def test_any_bytes_give_settings_or_a_config_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """No content of a file is a traceback."""
    file = tmp_path_factory.getbasetemp() / "any-bytes.json"
    file.write_bytes(content)

    lines: tuple[str, ...] = ()
    try:
        load_settings(file, environ={})
    except ConfigError as error:
        lines = tuple(error.problems)

    assert [line for line in lines if not (line.startswith("$") and line.isprintable())] == []


def test_importing_the_room_loads_no_heavy_dependency() -> None:
    """The command's start pays for the configuration only when it reads one."""
    program = (
        "import sys, openclaw_ctx.config as c; c.Settings();"
        "print(sorted({'cattrs', 'difflib', 'platformdirs', 'pyjson5'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=dict(os.environ)
    )

    assert done.stdout.strip() == "[]"
