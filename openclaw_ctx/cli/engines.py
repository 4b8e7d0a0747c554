"""``openclaw-ctx engines``: who could serve, who does, and why not the others."""

from pathlib import Path
from typing import Any

import click

from openclaw_ctx.assembly import BuiltinEngines, quarantine_folder, state_folder
from openclaw_ctx.host import discover, offers, select

from .advice import advise, barring, explain_row, unsettled
from .options import config_option, engine_id, json_option, load_policy, state_option
from .speech import clean_text, say, say_json, warn

__all__ = ["command"]

_EXIT_NOTHING_RELEASED = 1


@click.group("engines", invoke_without_command=True)
@json_option
@config_option
@state_option
@click.pass_context
def command(
    ctx: click.Context,
    as_json: bool,  # noqa: FBT001 -- click passes by name
    config_path: Path | None,
    state_dir: Path | None,
) -> None:
    """
    List the installed engines: owner, whether it is selected, and why it is refused.

    Reads metadata only; no engine is imported.

    \b
    Examples:
      openclaw-ctx engines
      openclaw-ctx engines release window

    Exit codes: 0 listed, 2 usage or configuration.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    if ctx.invoked_subcommand is not None:
        return
    policy, questioned = load_policy(config_path)
    findings = warn(questioned)
    registry, discovery = BuiltinEngines(), discover()
    selection = select(policy, registry, discovery)
    # Of several rows for an engine the last stays: one that is known to hold.
    quarantines = {row.record.engine_id: row for row in sorted(_quarantines(state_dir), key=lambda r: r.verified)}
    nobody = policy.strict and selection.reason is not None
    offered = offers(policy, registry, discovery)
    rows = [
        {
            "engine": clean_text(offer.engine_id),
            "owner": clean_text(offer.owner),
            "version": None if offer.version is None else clean_text(offer.version),
            "selected": offer.selected and not nobody,
            "status": _status(
                offer.selected and not nobody, offer.refusal, selection.reason, quarantines.get(offer.engine_id)
            ),
        }
        for offer in offered
    ]
    advice = advise(selection, (offer.engine_id for offer in offered))
    faults = [{"location": clean_text(f.location), "problem": clean_text(f.problem)} for f in discovery.faults]
    if as_json:
        say_json(
            {
                "slot": clean_text(selection.asked),
                "selected": None if nobody else clean_text(selection.engine_id),
                "reason": None if selection.reason is None else clean_text(selection.reason),
                "advice": advice,
                "engines": rows,
                "faults": faults,
                "findings": findings,
            }
        )
        return
    barred = barring(selection.engine_id, quarantines.values())
    _print(rows, "*" if barred is None else "!")
    if barred is not None:
        instead = "nobody answers" if policy.strict else "legacy answers"
        name = clean_text(selection.engine_id)
        say(f"\n! is selected, but barred in process {barred.pid}: {instead} there.")
        say(f"Mend the cause, then: openclaw-ctx engines release {name}")
    if selection.reason is not None:
        instead = "nobody answers, since plugins.slotPolicy is 'strict'" if policy.strict else "legacy answers"
        asked, reason = clean_text(selection.asked), clean_text(selection.reason)
        say(f"\nThe slot asks for {asked}; {instead}: {reason}.")
        if advice is not None:
            say(advice)
    for sentence in unsettled(policy, offered, selection.asked):
        say(f"\n{sentence}")
    if faults:
        noun = "distribution" if len(faults) == 1 else "distributions"
        say(f"\n{len(faults)} {noun} with broken metadata; openclaw-ctx doctor names them.")


@command.command("release")
@click.argument("engine", metavar="ENGINE_ID", callback=engine_id)
@json_option
@state_option
@click.pass_context
def release(ctx: click.Context, engine: str, as_json: bool, state_dir: Path | None) -> int:  # noqa: FBT001 -- click passes by name
    """
    Lift the quarantine of an engine, in every live process that shares the state folder.

    \b
    Example:
      openclaw-ctx engines release window

    Exit codes: 0 released, 1 it was not quarantined, 2 usage.
    """  # noqa: D301 -- as above
    # `engines --state-dir X release ID` means what `engines release ID --state-dir X` means.
    group = ctx.parent.params if ctx.parent is not None else {}
    as_json = as_json or group.get("as_json", False)
    released = _mirror(state_dir or group.get("state_dir")).release(engine)
    if as_json:
        say_json({"engine": clean_text(engine), "released": [_released(row) for row in released]})
    for row in released if not as_json else ():
        say(f"Released {clean_text(engine)} in process {row.pid} (was: {clean_text(row.record.reason)}).")
    if not released and not as_json:
        say(f"{clean_text(engine)} is not quarantined in any live process.")
    return 0 if released else _EXIT_NOTHING_RELEASED


def _quarantines(state_dir: Path | None) -> list[Any]:
    # Mostly nobody has ever been barred.
    return _mirror(state_dir).read() if quarantine_folder(state_folder(state_dir)).is_dir() else []


def _mirror(state_dir: Path | None) -> Any:
    from openclaw_ctx.host import QuarantineMirror  # noqa: PLC0415 -- as above

    return QuarantineMirror(quarantine_folder(state_folder(state_dir)))


def _released(row: Any) -> dict[str, Any]:
    return {"pid": row.pid, "operation": clean_text(row.record.operation), "reason": clean_text(row.record.reason)}


def _status(selected: bool, refusal: str | None, selection: str | None, row: Any) -> str:  # noqa: FBT001 -- private
    if row is not None:
        return explain_row(row)
    if refusal is not None:
        return clean_text(f"refused: {refusal}")
    if selected:
        return "selected" if selection is None else "answers in place of the slot's"
    return "available"


def _print(rows: list[dict[str, Any]], mark: str) -> None:
    # Three columns need no table library, and this command's start is part of its use.
    heads = ("ENGINE", "OWNER", "STATUS")
    cells = [heads, *((f"{mark if r['selected'] else ' '} {r['engine']}", r["owner"], r["status"]) for r in rows)]
    widths = [max(len(row[column]) for row in cells) for column in (0, 1)]
    for row in cells:
        say(f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}".rstrip())
