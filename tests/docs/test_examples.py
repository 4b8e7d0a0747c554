"""What the documentation shows, people paste: so all of it runs."""

import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from openclaw_ctx import AssistantMessage, Host, Message, ToolCallBlock, ToolResultMessage, UserMessage
from openclaw_ctx.cli.main import cli
from openclaw_ctx.errors import ConfigError, OpenClawCtxError, UnknownFormatError
from openclaw_ctx.host import default_registry
from tests.docs.pages import DOCS, PAGES, ROOT, Block, blocks

_FILE = re.compile(r"file: (?P<name>[\w./-]+)")
_SKIP = re.compile(r"skip: (?P<reason>.+)", re.DOTALL)
_EXIT = re.compile(r"# exit (?P<codes>\d(?: or \d)*)")
_SCRIPT = re.compile(r"python (?P<name>[\w./-]+\.py)")
_COMMAND = "openclaw-ctx"
_TUTORIAL = DOCS / "tutorial" / "first-engine.md"


def _files(page: Path) -> dict[str, Block]:
    """Return the files that a page shows, by the path that it gives them."""
    named = ((_FILE.fullmatch(block.comment or ""), block) for block in blocks(page))
    return {found["name"]: block for found, block in named if found}


def _write_files(page: Path, folder: Path) -> None:
    """Write the files that a page shows as a reader would have saved them."""
    for name, block in _files(page).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")


def _scripts(page: Path) -> list[str]:
    """Return the files that the page says to run, in its order."""
    lines = (line for block in blocks(page) if block.language == "sh" for line in block.text.splitlines())
    return [found["name"] for line in lines if (found := _SCRIPT.fullmatch(line))]


def _reader() -> dict[str, str]:
    """Return the environment of somebody who has installed what these tests run on, and set nothing else."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    # The folder that a reader stands in is not on the path, and that of the script is: as Python has it.
    return environ | {"PYTHONPATH": os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in that looks like the repository's root, and a process that has registered nothing yet."""
    folder = tmp_path / "desk"
    folder.mkdir()
    for name in ("examples", "plugins"):
        (folder / name).symlink_to(ROOT / name, target_is_directory=True)
    config = Path(os.environ["OPENCLAW_CTX_CONFIG"])
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("{}", encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    known, root, ours = set(sys.modules), logging.getLogger(), logging.getLogger("openclaw_ctx")
    handlers, level = root.handlers[:], ours.level
    default_registry.cache_clear()
    yield folder
    default_registry.cache_clear()
    root.handlers[:] = handlers
    ours.setLevel(level)
    for name in set(sys.modules) - known:
        module = sys.modules[name]
        if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


def _pages_with(language: str) -> list[object]:
    return [
        pytest.param(page, id=page.relative_to(ROOT).as_posix())
        for page in PAGES
        if any(block.language == language for block in blocks(page))
    ]


def _run(page: Path) -> None:
    """Run the blocks of a page that are no files, one after the other, as one program."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    files = _files(page).values()
    for block in blocks(page):
        if block.language == "python" and block not in files:
            # Newlines in front, so that a traceback names the page's own line.
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, str(page), "exec", dont_inherit=True), namespace)  # noqa: S102 -- that is the test


@pytest.mark.parametrize("page", _pages_with("python"))
def test_every_python_example_runs_in_the_order_of_its_page_and_then_again(page: Path, desk: Path) -> None:
    """Blocks of one page share their names, as they do for a reader who types them one after the other, twice."""
    for _ in range(2):
        _run(page)
        default_registry.cache_clear()  # the reader's second try is another process

    assert not Path(os.environ["OPENCLAW_CTX_STATE_DIR"]).exists()


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem) for page in sorted((DOCS / "tutorial").glob("*.md"))]
)
def test_every_file_of_a_tutorial_runs_as_its_reader_runs_it_and_then_again(page: Path, desk: Path) -> None:
    """Saved under its name, run by the command shown, from the folder named, twice, and nobody's state is touched."""
    _write_files(page, desk)
    scripts = _scripts(page)

    assert scripts
    for name in (*scripts, *scripts):
        subprocess.run([sys.executable, name], cwd=desk, env=_reader(), check=True, stdout=subprocess.DEVNULL)

    assert not Path(os.environ["OPENCLAW_CTX_STATE_DIR"]).exists()


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem) for page in sorted((DOCS / "tutorial").glob("*.md"))]
)
def test_a_tutorial_says_where_each_file_goes_and_runs_it_or_imports_it(page: Path) -> None:
    """The path stands in the text, since the reader does not see the comment; no Python is left without a file."""
    text, files = page.read_text(encoding="utf-8"), _files(page)
    python = {Path(name).stem for name in files if name.endswith(".py")}
    run = {Path(name).stem for name in _scripts(page)}
    imported = {
        name for block in files.values() for name in re.findall(r"^from (\w+) import", block.text, re.MULTILINE)
    }

    unnamed = [block.line for block in blocks(page) if block.language == "python" and block not in files.values()]

    assert unnamed == []
    assert [name for name in files if f"`{name}`" not in text] == []
    assert python - run <= imported
    assert run <= python


def _lines(block: Block) -> Iterator[tuple[str, list[str], set[int]]]:
    """Yield each command of ours in a block: the line, its arguments, and the exit codes that its comment allows."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == [_COMMAND]:
            codes = _EXIT.search(line)
            yield line, words[1:], {int(code) for code in re.findall(r"\d", codes["codes"])} if codes else {0}


def _commands() -> list[object]:
    found = []
    for page in PAGES:
        for block in blocks(page):
            is_ours = block.language == "sh" and block.text.split(maxsplit=1)[:1] == [_COMMAND]
            if is_ours and not _SKIP.fullmatch(block.comment or ""):
                found.append(pytest.param(page, block, id=f"{page.relative_to(ROOT).as_posix()}:{block.line}"))
    return found


def _exit_code(arguments: list[str]) -> tuple[int, str]:
    """Run the command as ``main`` does, without its signal handler and its process."""
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    error = result.exception
    if error is None:
        return (result.return_value if isinstance(result.return_value, int) else 0), result.output
    if isinstance(error, click.ClickException):
        return error.exit_code, result.output + error.format_message()
    if isinstance(error, OpenClawCtxError):
        code = 3 if isinstance(error, UnknownFormatError) else 2 if isinstance(error, ConfigError) else 1
        return code, result.output + str(error)
    raise error


@pytest.mark.parametrize("page,block", _commands())
def test_every_command_shown_ends_with_the_exit_code_that_the_page_says(page: Path, block: Block, desk: Path) -> None:
    """A line without ``# exit N`` ends with 0."""
    for line, arguments, allowed in _lines(block):
        code, output = _exit_code(arguments)

        assert code in allowed, f"{line}\n{output}"


def test_a_block_that_is_not_run_says_why(subtests: pytest.Subtests) -> None:
    """``skip`` needs a reason, and python is never skipped."""
    for page in PAGES:
        for block in blocks(page):
            if (block.comment or "").startswith("skip"):
                with subtests.test(page=page.name, line=block.line):
                    assert block.language == "sh"
                    assert _SKIP.fullmatch(block.comment or "")


def _readme() -> dict[str, Any]:
    """Return what the README's Python defines."""
    namespace: dict[str, Any] = {}
    for block in blocks(ROOT / "README.md"):
        if block.language == "python":
            exec(block.text, namespace)  # noqa: S102 -- that is the test
    return namespace


def test_the_numbers_that_the_readme_shows_are_those_of_a_run(desk: Path) -> None:
    """Row by row; what depends on the machine, times, is not among them."""
    pytest.importorskip("openclaw_ctx_window", reason="openclaw-ctx-window is not installed")
    arguments = "replay examples/lighthouse.jsonl -e legacy -e window -b 8000 -b 32000 --json"
    runs = json.loads(CliRunner().invoke(cli, arguments.split(), standalone_mode=False).stdout)["replays"][0]["runs"]

    text = next(block.text for block in blocks(ROOT / "README.md") if block.text.startswith("lighthouse.jsonl"))
    shown = [line.split() for line in text.splitlines() if line.startswith(("legacy", "window"))]

    assert shown == [_row(run) for run in runs]


def _row(run: dict[str, Any]) -> list[str]:
    last = run["calls"][-1]
    numbers = (
        *(run["budget"], len(run["calls"]), run["turns"], run["peak_tokens"], round(run["mean_tokens"])),
        run["over_budget_calls"] or "-",
        f"{100 * last['kept'] / (last['kept'] + last['left_out'] + last['summarised']):.0f}%",
        *(last["left_out"], last["summarised"], run["compactions"] or "-"),
    )
    return [run["engine"], *(f"{number:,}" if isinstance(number, int) else number for number in numbers)]


async def test_the_loop_of_the_readme_keeps_the_conversation(desk: Path) -> None:
    """It is not only defined: asked twice, the model is sent what was said the first time."""
    answer = _readme()["answer"]

    async def ask_model(system_prompt: str, messages: Sequence[Message]) -> str:
        return f"{system_prompt} {len(messages)}"

    replies = [await answer(text, ask_model) for text in ("What can I cook?", "And without onions?")]

    assert replies == [("You are a careful cook. 1", "legacy", None), ("You are a careful cook. 3", "legacy", None)]


async def test_the_engine_of_the_readme_serves(desk: Path) -> None:
    """It is not only defined: the host takes it, and mends what the page says that it mends."""
    engine = _readme()["LastTen"]
    call = ToolCallBlock(id="call_1", name="read")

    async with Host.open({"plugins": {"slots": {"contextEngine": "last-ten"}}}) as host:
        host.register_engine("last-ten", engine)
        async with host.session("readme") as chat:
            await chat.append(UserMessage(content="Read it."))
            await chat.append(AssistantMessage(content=[call]))
            await chat.append(ToolResultMessage(tool_call_id="call_1", content="text"))
            for number in range(9):
                await chat.append(UserMessage(content=f"message {number}"))
            prompt = await chat.assemble()
            compacted = await chat.compact(budget=40)

    assert (prompt.engine, len(prompt.messages)) == ("last-ten", 9)
    assert prompt.repairs == ("1 tool result without its call dropped",)
    assert compacted.engine == "last-ten"


def test_the_distribution_of_the_tutorial_is_built_installed_and_selected_by_the_slot(desk: Path) -> None:
    """The tutorial's last chapter, done: pip builds what it shows, and another process finds and runs it."""
    _write_files(_TUTORIAL, desk)
    project, site = desk / "openclaw-ctx-pinned", desk / "site"
    shutil.copy(ROOT / "LICENSE", project / "LICENSE")

    pip = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "--quiet"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    install = [*pip, "install", *offline, "--target", str(site), str(project)]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
    script = """
        import asyncio
        from openclaw_ctx import Host, UserMessage

        async def main():
            slot = {"plugins": {"slots": {"contextEngine": "pinned"}, "entries": {"pinned": {"config": {"turns": 2}}}}}
            async with Host.open(slot) as host, host.session("tutorial") as chat:
                await chat.append(UserMessage(content="Remember: the port is 8714."))
                for number in range(6):
                    await chat.append(UserMessage(content=f"message {number}"))
                prompt = await chat.assemble()
            print(host.selection().owner, prompt.engine, prompt.substitution, len(prompt.messages))

        asyncio.run(main())
    """
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), *filter(None, sys.path)])}
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environ, check=True, capture_output=True, text=True
    )

    assert answer.stdout.split() == ["plugin:openclaw-ctx-pinned", "pinned", "None", "3"]
