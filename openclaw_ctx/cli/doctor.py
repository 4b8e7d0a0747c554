"""``openclaw-ctx doctor``: everything that keeps the selected engine from answering."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import attrs
import click

from openclaw_ctx.assembly import policy_from, quarantine_folder, state_folder, with_builtins
from openclaw_ctx.config import LoadedSettings, Settings, load_settings
from openclaw_ctx.contract import CONTRACT_VERSION, LEGACY_ENGINE_ID
from openclaw_ctx.errors import ConfigError
from openclaw_ctx.host import (
    CORE_OWNER,
    Candidate,
    MirrorRow,
    QuarantineMirror,
    Registry,
    Selection,
    discover,
    offers,
    select,
)
from openclaw_ctx.log import clean_text

from .advice import advise, barring, explain_row, nearest, unsettled
from .options import config_option, json_option, state_option
from .speech import say, say_json

__all__ = ["command"]

_EXIT_FOUND = 1
_STATE_FOLDERS = ("sessions", "engines", "quarantine")


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
    """
    Check configuration, slot, quarantines and plugin metadata. Changes nothing, imports no engine.

    \b
    Example:
      openclaw-ctx doctor --json

    Exit codes: 0 nothing found, 1 something found (a configuration that cannot
    be used, too), 2 usage.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    findings: list[_Finding] = []
    loaded = _load(config_path, findings)
    usable = not findings
    state = state_folder(state_dir)
    policy = policy_from(loaded.settings)
    registry, discovery = with_builtins(Registry()), discover()
    selection, offered = select(policy, registry, discovery), offers(policy, registry, discovery)
    known = [offer.engine_id for offer in offered]
    rows = QuarantineMirror(quarantine_folder(state)).read()
    findings += [_Finding("warning", "config", finding) for finding in loaded.findings]
    findings += _of_state(state)
    findings += _of_selection(selection, advise(selection, known), strict=policy.strict)
    findings += [_Finding("warning", "slot", text) for text in unsettled(policy, offered, selection.asked)]
    findings += _of_entries(loaded.settings, known)
    findings += [_of_quarantine(row, strict=policy.strict) for row in rows]
    findings += [_Finding("warning", fault.kind, f"{fault.location}: {fault.problem}") for fault in discovery.faults]
    engine, owner, reason = _who_answers(selection, rows, strict=policy.strict) if usable else (None, None, None)
    report = {
        "config": None if loaded.path is None else clean_text(str(loaded.path)),
        "config_exists": loaded.exists,
        "state": clean_text(str(state)),
        "contract": CONTRACT_VERSION,
        "slot": clean_text(selection.asked),
        "engine": engine,
        "owner": owner,
        "reason": reason,
        "quarantines": [_row_as_json(row) for row in rows],
        "findings": [{"level": f.level, "about": f.about, "text": clean_text(f.text)} for f in findings],
    }
    if as_json:
        say_json(report)
    else:
        _print(report)
    return _EXIT_FOUND if findings else 0


def _load(config_path: Path | None, findings: list[_Finding]) -> LoadedSettings:
    """Return the configuration; where it cannot be used, the defaults and why."""
    try:
        return load_settings(config_path)
    except ConfigError as error:
        findings.extend(_Finding("error", "config", f"{error.source}: {problem}") for problem in error.problems)
        where = Path(error.source)
        return LoadedSettings(settings=Settings(), path=where, exists=where.exists())


def _of_state(state: Path) -> list[_Finding]:
    """Say whether the state folder, and what it holds, could be made and written; nothing is tried."""
    for folder in (state, *(state / name for name in _STATE_FOLDERS)):
        there = folder
        while not os.path.lexists(there) and there != there.parent:
            there = there.parent
        verb = "written" if there == folder else "made"
        if not there.is_dir():
            problem = f"{there} is no folder"
        elif not os.access(there, os.W_OK | os.X_OK):
            problem = f"{there} does not let this user write"
        else:
            continue
        advice = "Mend that, or name another state folder by --state-dir or OPENCLAW_CTX_STATE_DIR."
        return [_Finding("error", "state", f"{folder} cannot be {verb}: {problem}. {advice}")]
    return []


def _of_entries(settings: Settings, known: Sequence[str]) -> list[_Finding]:
    """Name the entries that no engine has; one that a program registers by itself cannot be seen from here."""
    findings = []
    for name in settings.plugins.entries:
        if name in known:
            continue
        near = nearest(name, known)
        meant = "" if near is None else f"; did you mean {near!r}?"
        text = f"plugins.entries.{name} is of no installed engine, nor of legacy{meant}"
        findings.append(_Finding("warning", "entries", text if meant else f"{text}; a program may register it itself"))
    return findings


def _of_selection(selection: Selection, advice: str | None, *, strict: bool) -> list[_Finding]:
    more = "" if advice is None else f". {advice}"
    if selection.outcome == "refused":
        text = f"{selection.asked} cannot serve, {_instead(strict=strict)}: {selection.reason}{more}"
        return [_Finding("error", "slot", text)]
    if selection.outcome == "switched_off":
        text = f"{selection.asked} is switched off, {_instead(strict=strict)}: {selection.reason}{more}"
        return [_Finding("error" if strict else "warning", "slot", text)]
    if isinstance(selection.source, Candidate):
        missing = selection.source.missing_extras()
        if missing:
            distribution, extras = selection.source.distribution, ",".join(missing)
            text = (
                f"{selection.asked} needs the extra {extras} of {distribution}: pip install '{distribution}[{extras}]'"
            )
            return [_Finding("error", "slot", text)]
    return []


def _instead(*, strict: bool) -> str:
    return "and under plugins.slotPolicy 'strict' nobody answers" if strict else "legacy answers"


def _of_quarantine(row: MirrorRow, *, strict: bool) -> _Finding:
    record = row.record
    where = f"process {row.pid}" + ("" if row.verified else " (cannot be verified: it may be gone)")
    text = (
        f"{record.engine_id} of {record.owner or 'unknown'} is quarantined in {where} since {_time(record.failed_at)} "
        f"during {record.operation}: {record.reason.rstrip('. ')}. {'Nobody' if strict else 'legacy'} answers there; "
        f"openclaw-ctx engines release {record.engine_id} lifts it."
    )
    return _Finding("error" if row.verified else "warning", "quarantine", text)


def _who_answers(
    selection: Selection, rows: list[MirrorRow], *, strict: bool
) -> tuple[str | None, str | None, str | None]:
    """Return the engine that a turn gets, its owner, and why it is not the one asked for; nobody is ``None``."""
    barred = barring(selection.engine_id, rows)
    reason = selection.reason if barred is None else explain_row(barred)
    if reason is None:
        return clean_text(selection.engine_id), clean_text(selection.owner), None
    return (None, None, clean_text(reason)) if strict else (LEGACY_ENGINE_ID, CORE_OWNER, clean_text(reason))


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
    plain = bool(os.environ.get("NO_COLOR"))  # click itself leaves colours out only where there is no terminal
    missing = "" if report["config_exists"] else " (not there)"
    answers = report["engine"] or "nobody"
    if answers != report["slot"]:
        answers = f"{answers} in place of {report['slot']}" if report["engine"] else f"{answers} answers"
    say(f"Configuration   {report['config']}{missing}")
    say(f"State           {report['state']}")
    say(f"Context engine  {answers} (contract {report['contract']})")
    for finding in report["findings"]:
        colour = "red" if finding["level"] == "error" else "yellow"
        level = f"{finding['level']:<8}"
        say(f"{level if plain else click.style(level, fg=colour)}{finding['about']}: {finding['text']}")
    if not report["findings"]:
        say("Nothing found wrong.")
