"""``openclaw-ctx replay``: what an engine would have made of a recorded session."""

import asyncio
import importlib.metadata
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from openclaw_ctx.assembly import state_folder
from openclaw_ctx.config import load_settings
from openclaw_ctx.contract import LEGACY_ENGINE_ID
from openclaw_ctx.errors import OpenClawCtxError, TranscriptError, UnknownFormatError
from openclaw_ctx.log import clean_text, configure_console
from openclaw_ctx.replay import REPORT_MARK, Replay, as_json, render, render_report, replay_session
from openclaw_ctx.replay import Progress as Report
from openclaw_ctx.transcript.importers import ENTRY_POINT_GROUP, FORMATS, import_session

from .options import config_option, json_option, state_option
from .speech import complain, say, say_json

__all__ = ["command"]

_DEFAULT_BUDGET = 32_000
_EXIT_FAILED = 1
_EXIT_NO_SESSION = 3


@click.command("replay")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("-e", "--engine", "engines", multiple=True, help="Engine id; several are compared. [default: the slot's]")
@click.option(
    "-b", "--budget", "budgets", multiple=True, type=click.IntRange(min=1),
    help=f"Tokens a prompt may cost; several are compared. [default: {_DEFAULT_BUDGET}]",
)  # fmt: skip
@click.option(
    "--format", "format_", default="auto", metavar="NAME",
    help=f"Format of the files: auto, {', '.join(sorted(FORMATS))}, or one that a plugin adds. [default: auto]",
)  # fmt: skip
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Write an HTML report to this file.")
@click.option("--rows", is_flag=True, help="Show every model call, however many there are.")
@click.option("--verbose", "-v", is_flag=True, help="Log what the host decides.")
@json_option
@config_option
@state_option
def command(
    files: Sequence[Path],
    engines: Sequence[str],
    budgets: Sequence[int],
    format_: str,
    report: Path | None,
    rows: bool,  # noqa: FBT001 -- click passes by name
    verbose: bool,  # noqa: FBT001 -- click passes by name
    as_json: bool,  # noqa: FBT001 -- click passes by name
    config_path: Path | None,
    state_dir: Path | None,
) -> int:
    """
    Run recorded sessions through one or several engines and show what each would have sent.

    Works on a copy. Recorded compactions are skipped; a prompt over the budget
    triggers one. Reads sessions of OpenClaw and pi, Claude Code, Codex, Copilot,
    Gemini CLI, Kimi Code, Qwen Code and SWE-agent, and OpenAI chat completions
    (tau-bench too).

    \b
    Examples:
      openclaw-ctx replay session.jsonl
      openclaw-ctx replay session.jsonl -e legacy -e window -b 8000 -b 32000
      openclaw-ctx replay *.jsonl -e window -b 8000 --report out.html

    Exit codes: 0 all files were replayed, 1 a file could not be read or its
    replay failed, 2 usage or configuration, 3 a file is no session that is
    known, 130 interrupted.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    _check_format(format_)
    if report is not None:
        _check_report(report)
    configure_console(verbose=verbose)
    loaded = load_settings(config_path)
    asked = tuple(dict.fromkeys(engines)) or (loaded.settings.plugins.slots.context_engine or LEGACY_ENGINE_ID,)
    within = tuple(dict.fromkeys(budgets)) or (_DEFAULT_BUDGET,)
    replays: list[Replay] = []
    problems: list[tuple[int, str]] = []
    for path in files:
        try:
            session = import_session(path, format_)
            with _progress(path.name, len(asked) * len(within), quiet=as_json) as progress:
                replays.append(
                    asyncio.run(
                        replay_session(
                            session,
                            source=path.name,
                            settings=loaded,
                            engines=asked,
                            budgets=within,
                            state_dir=state_folder(state_dir),
                            progress=progress,
                        )
                    )
                )
        except (OpenClawCtxError, OSError) as error:
            code = _EXIT_NO_SESSION if isinstance(error, UnknownFormatError | TranscriptError) else _EXIT_FAILED
            problems.append((code, complain(error)))
    _show(replays, problems, rows=rows, json=as_json)
    if report is not None and replays:
        _write_report(report, replays)
        if not as_json:
            say(f"Report: {clean_text(str(report))}")
    return max((code for code, _ in problems), default=0)


def _show(replays: Sequence[Replay], problems: Sequence[tuple[int, str]], *, rows: bool, json: bool) -> None:
    if json:
        say_json({"replays": [as_json(replay) for replay in replays], "errors": [text for _, text in problems]})
    elif replays:
        render(replays, Console(), rows=rows)


@contextmanager
def _progress(name: str, runs: int, *, quiet: bool) -> Iterator[Report | None]:
    """Show how far a replay has come, on a terminal only and never in the way of the output."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(clean_text(name, limit=40), total=None)
        finished = 0
        current = ""

        def progress(label: str, done: int, total: int) -> None:
            nonlocal finished, current
            if current and label != current:
                finished += 1
            current = label
            bar.update(
                task,
                description=f"{clean_text(name, limit=40)} · {clean_text(label, limit=40)}",
                total=runs * total,
                completed=finished * total + done,
            )

        yield progress


def _check_format(name: str) -> None:
    if name == "auto" or name in FORMATS:
        return
    try:
        offered = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP).names
    except Exception:  # noqa: BLE001 -- somebody's broken metadata, which the importers read one by one
        return
    if name not in offered:
        problem = f"{name!r} is none of auto, {', '.join(sorted({*FORMATS, *offered}))}."
        raise click.BadParameter(problem, param_hint="--format")


def _check_report(path: Path) -> None:
    """Say before the work what would keep the report from being written; overwrite one of ours and nothing else."""
    if not path.absolute().parent.is_dir():
        problem = f"{str(path.parent)!r} is no folder."
        raise click.BadParameter(problem, param_hint="--report")
    try:
        with path.open("rb") as file:
            head = file.read(4_096)
    except FileNotFoundError:
        return
    if REPORT_MARK.encode() not in head:
        problem = f"{str(path)!r} exists and is no report of ours; name another file."
        raise click.BadParameter(problem, param_hint="--report")


def _write_report(path: Path, replays: Sequence[Replay]) -> None:
    text = render_report(replays, generated_at=datetime.now().astimezone())
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as out:  # noqa: PTH123 -- the mode is given at creation
            out.write(text)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # there is one only where it did not become the report
