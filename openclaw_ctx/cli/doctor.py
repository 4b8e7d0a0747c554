"""``openclaw-ctx doctor``: everything that keeps the selected engine from answering."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import attrs
import click

from openclaw_ctx.assembly import policy_from, quarantine_folder, state_folder, with_builtins
from openclaw_ctx.config import LoadedSettings, Settings
from openclaw_ctx.contract import CONTRACT_VERSION
from openclaw_ctx.errors import ConfigError
from openclaw_ctx.host import Candidate, MirrorRow, QuarantineMirror, Registry, Selection, discover, select
from openclaw_ctx.log import clean_text

from .options import config_option, echo_json, json_option, load, state_option

__all__ = ["command"]

_EXIT_FOUND = 1


@attrs.frozen
class _Finding:
    level: Literal["error", "warning"]
    about: str
    text: str


@click.command("doctor")
@json_option
@config_option
@state_option
def command(as_json: bool, config_path: Path | None, state_dir: Path | None) -> int:  # noqa: FBT001 -- click passes by name
    r"""
    Check configuration, slot, quarantines and plugin metadata. Changes nothing, imports no engine.

    \b
    Example:
      openclaw-ctx doctor --json

    Exit codes: 0 nothing found, 1 something found, 2 usage.
    """
    findings: list[_Finding] = []
    loaded = _load(config_path, findings)
    state = state_folder(state_dir)
    registry, discovery = with_builtins(Registry()), discover()
    selection = select(policy_from(loaded.settings), registry, discovery)
    rows = QuarantineMirror(quarantine_folder(state)).read()
    findings += [_Finding("warning", "config", finding) for finding in loaded.findings]
    findings += _of_selection(selection)
    findings += [_of_quarantine(row) for row in rows]
    findings += [_Finding("warning", fault.kind, f"{fault.location}: {fault.problem}") for fault in discovery.faults]
    report = {
        "config": None if loaded.path is None else clean_text(str(loaded.path)),
        "config_exists": loaded.exists,
        "state": clean_text(str(state)),
        "contract": CONTRACT_VERSION,
        "slot": clean_text(selection.asked),
        "engine": _effective(selection, rows),
        "owner": clean_text(selection.owner),
        "reason": None if selection.reason is None else clean_text(selection.reason),
        "quarantines": [_row_as_json(row) for row in rows],
        "findings": [{"level": f.level, "about": f.about, "text": clean_text(f.text)} for f in findings],
    }
    if as_json:
        echo_json(report)
    else:
        _print(report)
    return _EXIT_FOUND if findings else 0


def _load(config_path: Path | None, findings: list[_Finding]) -> LoadedSettings:
    """Return the configuration; where it cannot be used, the defaults and why."""
    try:
        return load(config_path)
    except ConfigError as error:
        findings.extend(_Finding("error", "config", f"{error.source}: {problem}") for problem in error.problems)
        return LoadedSettings(settings=Settings(), path=config_path, exists=True)


def _of_selection(selection: Selection) -> list[_Finding]:
    if selection.outcome == "refused":
        return [_Finding("error", "slot", f"{selection.asked} cannot serve, legacy answers: {selection.reason}")]
    if selection.outcome == "switched_off":
        return [_Finding("warning", "slot", f"{selection.asked} is switched off, legacy answers: {selection.reason}")]
    if isinstance(selection.source, Candidate):
        missing = selection.source.missing_extras()
        if missing:
            distribution, extras = selection.source.distribution, ",".join(missing)
            text = (
                f"{selection.asked} needs the extra {extras} of {distribution}: pip install '{distribution}[{extras}]'"
            )
            return [_Finding("error", "slot", text)]
    return []


def _of_quarantine(row: MirrorRow) -> _Finding:
    record = row.record
    where = f"process {row.pid}" + ("" if row.verified else " (cannot be verified: it may be gone)")
    text = (
        f"{record.engine_id} of {record.owner or 'unknown'} is quarantined in {where} since {_time(record.failed_at)} "
        f"during {record.operation}: {record.reason}. legacy answers there; openclaw-ctx engines release "
        f"{record.engine_id} lifts it."
    )
    return _Finding("error" if row.verified else "warning", "quarantine", text)


def _effective(selection: Selection, rows: list[MirrorRow]) -> str:
    barred = any(row.record.engine_id == selection.engine_id and row.verified for row in rows)
    return "legacy" if barred else clean_text(selection.engine_id)


def _row_as_json(row: MirrorRow) -> dict[str, Any]:
    record = row.record
    return {
        "engine": clean_text(record.engine_id),
        "owner": None if record.owner is None else clean_text(record.owner),
        "operation": clean_text(record.operation),
        "reason": clean_text(record.reason),
        "failed_at": _time(record.failed_at),
        "pid": row.pid,
        "verified": row.verified,
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _print(report: dict[str, Any]) -> None:
    missing = "" if report["config_exists"] else " (not there: defaults)"
    answers = (
        report["engine"] if report["slot"] == report["engine"] else f"{report['engine']} in place of {report['slot']}"
    )
    click.echo(f"Configuration   {report['config']}{missing}")
    click.echo(f"State           {report['state']}")
    click.echo(f"Context engine  {answers} (contract {report['contract']})")
    for finding in report["findings"]:
        colour = "red" if finding["level"] == "error" else "yellow"
        click.secho(f"{finding['level']:<8}", fg=colour, nl=False)
        click.echo(f"{finding['about']}: {finding['text']}")
    if not report["findings"]:
        click.echo("Nothing found wrong.")
