"""``openclaw-ctx replay``: what an engine would have made of a recorded session."""

import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from openclaw_ctx.assembly import address_of, state_folder
from openclaw_ctx.config import LoadedSettings, load_settings
from openclaw_ctx.contract import LEGACY_ENGINE_ID
from openclaw_ctx.errors import OpenClawCtxError, TranscriptError, UnknownFormatError
from openclaw_ctx.log import clean_text, configure_console
from openclaw_ctx.models import ModelAddress, connect_model
from openclaw_ctx.replay import (
    EXTRACTIVE,
    LEAST_BUDGET,
    REPORT_MARK,
    SCRIPTED,
    Replay,
    Summaries,
    render,
    render_report,
    replay_session,
)
from openclaw_ctx.replay import Progress as Report
from openclaw_ctx.replay import as_json as data_of
from openclaw_ctx.transcript import replace_file
from openclaw_ctx.transcript.importers import FORMATS, ImportedSession, import_session

from .ending import run_to_an_end
from .formats import check_format
from .options import TOKENS, config_option, engine_id, json_option, state_option
from .reaching import reaching
from .speech import complain, say, say_json, warn

__all__ = ["command"]

_DEFAULT_BUDGET = 32_000
_EXIT_FAILED = 1
_EXIT_NO_SESSION = 3


@click.command("replay")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "-e", "--engine", "engines", multiple=True, callback=engine_id,
    help="Engine id; several are compared. [default: the slot's]",
)  # fmt: skip
@click.option(
    "-b", "--budget", "budgets", multiple=True, type=TOKENS,
    help=f"Tokens a prompt may cost, such as 8000 or 8k; several are compared. [default: {_DEFAULT_BUDGET}]",
)  # fmt: skip
@click.option(
    "--model", "model_name", metavar="NAME",
    help="Run the turns, with the recorded answers; compactions are summarised by NAME: scripted (fixed words), "
    "extractive (copied lines), or a real model, as provider/model. [default: no turn is run, only prompts are made]",
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
    model_name: str | None,
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
      openclaw-ctx replay session.jsonl -b 16k --model extractive --rows

    Exit codes: 0 all files were replayed, 1 a file could not be read or its
    replay failed, 2 usage or configuration, 3 a file is no session that is
    known, 129 its terminal was closed, 130 interrupted, 143 terminated.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    check_format(format_)
    if report is not None:
        _check_report(report)
    configure_console(verbose=verbose)
    loaded = load_settings(config_path)
    findings = warn(loaded.findings)
    asked = tuple(dict.fromkeys(engines)) or (loaded.settings.plugins.slots.context_engine or LEGACY_ENGINE_ID,)
    within = tuple(dict.fromkeys(budgets)) or (_DEFAULT_BUDGET,)
    if model_name is not None and min(within) < LEAST_BUDGET:
        problem = f"a turn needs a budget of {LEAST_BUDGET:,} tokens at least, and {min(within):,} is less."
        raise click.BadParameter(problem, param_hint="--budget")
    summariser = _summariser(model_name, loaded)
    replays: list[Replay] = []
    problems: list[tuple[int, str]] = []
    listed = False
    for path in files:
        try:
            session = import_session(path, format_)
            with _progress(path.name, len(asked) * len(within), quiet=as_json) as progress:
                replays.append(
                    run_to_an_end(
                        _replayed(
                            session, path.name, summariser,
                            settings=loaded,
                            engines=asked,
                            budgets=within,
                            state_dir=state_folder(state_dir),
                            progress=progress,
                        )
                    )
                )  # fmt: skip
        except (OpenClawCtxError, OSError) as error:
            code = _EXIT_NO_SESSION if isinstance(error, UnknownFormatError | TranscriptError) else _EXIT_FAILED
            problems.append((code, complain(_again(error) if listed else error)))
            listed = listed or isinstance(error, UnknownFormatError)
    written = report is not None and bool(replays) and _write_report(report, replays, problems)
    if as_json:
        errors = [text for _, text in problems]
        say_json({"replays": [data_of(replay) for replay in replays], "errors": errors, "findings": findings})
    elif replays:
        render(replays, Console(), rows=rows)
        if written:
            say(f"Report: {clean_text(str(report))}")
    return max((code for code, _ in problems), default=0)


def _summariser(name: str | None, loaded: LoadedSettings) -> ModelAddress | str | None:
    """Return who summarises: nobody that was named, one of ours, or where a model is; nothing is sent to it."""
    if name is None or name in {SCRIPTED, EXTRACTIVE}:
        return name
    if "/" not in name:
        problem = f"{name!r} is neither scripted, extractive nor provider/model, such as openai/gpt-5-mini."
        raise click.BadParameter(problem, param_hint="--model")
    with reaching():
        address = address_of(name, loaded.settings)
        connect_model(address)  # a package that is missing is said before the work
    return address


async def _replayed(
    session: ImportedSession, source: str, summariser: ModelAddress | str | None, **options: Any
) -> Replay:
    if not isinstance(summariser, ModelAddress):
        ours = {SCRIPTED: Summaries.scripted, EXTRACTIVE: Summaries.extractive}
        summaries = None if summariser is None else ours[summariser]()
        return await replay_session(session, source=source, summaries=summaries, **options)
    model = connect_model(summariser)
    try:
        summaries = Summaries.by(model, f"{summariser.provider}/{summariser.model}")
        return await replay_session(session, source=source, summaries=summaries, **options)
    finally:
        await model.close()


def _again(error: Exception) -> Exception | str:
    """Return the error, without the list of formats that the first of its kind has shown."""
    if isinstance(error, UnknownFormatError):
        return f"{error.path!r} is not a session in a known format either."
    return error


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

        def progress(label: str, done: int, total: int, doing: str) -> None:
            nonlocal finished, current
            if current and label != current:
                finished += 1
            current = label
            bar.update(
                task,
                description=" · ".join(clean_text(part, limit=40) for part in (name, label, doing) if part),
                total=runs * total,
                completed=finished * total + done,
            )

        yield progress


def _check_report(path: Path) -> None:
    """
    Say before the work what would keep the report from being written; overwrite one of ours and nothing else.

    A pipe is not opened to see whether it is ours: that would wait for a writer.
    """
    if str(path) == "-":
        problem = "the report is not written to standard output; name a file, such as out.html."
        raise click.BadParameter(problem, param_hint="--report")
    if not path.absolute().parent.is_dir():
        problem = f"{str(path.parent)!r} is no folder."
        raise click.BadParameter(problem, param_hint="--report")
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(kind):
        problem = f"{str(path)!r} is no regular file; name one, such as out.html."
        raise click.BadParameter(problem, param_hint="--report")
    with path.open("rb") as file:
        head = file.read(4_096)
    if REPORT_MARK.encode() not in head:
        problem = f"{str(path)!r} exists and is no report of ours; name another file."
        raise click.BadParameter(problem, param_hint="--report")


def _write_report(path: Path, replays: Sequence[Replay], problems: list[tuple[int, str]]) -> bool:
    """Write the report before anything is printed, so that a broken stdout does not lose it; return whether it is."""
    text = render_report(replays, generated_at=datetime.now().astimezone())
    try:
        replace_file(path, text.encode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        problems.append((_EXIT_FAILED, complain(f"the report {str(path)!r} cannot be written: {reason}.")))
        return False
    return True
