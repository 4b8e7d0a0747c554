"""``openclaw-ctx sessions compact``: a session with less in its context, and all of it in its transcript."""

import os
from pathlib import Path
from typing import Final

import attrs
import click

from openclaw_ctx.assembly import Host, address_of, state_folder
from openclaw_ctx.cli.compacting import told
from openclaw_ctx.cli.ending import run_to_an_end
from openclaw_ctx.cli.options import TOKENS, config_option, json_option, state_option
from openclaw_ctx.cli.reaching import reaching
from openclaw_ctx.cli.speech import clean_text, say, say_json, warn
from openclaw_ctx.compaction import MAX_FOCUS_CHARS
from openclaw_ctx.config import LoadedSettings, load_settings
from openclaw_ctx.contract import SessionKey
from openclaw_ctx.log import configure_console
from openclaw_ctx.models import Model, connect_model
from openclaw_ctx.runtime import CompactedContext

from .sources import means_file, store_in

__all__ = ["command"]

_EXIT_FAILED: Final = 1


def _focus(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is not None and len(value) > MAX_FOCUS_CHARS:
        problem = f"a focus has at most {MAX_FOCUS_CHARS} characters, and this has {len(value):,}."
        raise click.BadParameter(problem)
    return value


@click.command("compact")
@click.argument("name", metavar="KEY|FILE")
@click.option("--focus", callback=_focus, help=f"What the summary should keep, at most {MAX_FOCUS_CHARS} characters.")
@click.option("--budget", type=TOKENS, help="Tokens that a prompt may cost, such as 8000 or 8k.")
@click.option(
    "--model", "model_name", metavar="PROVIDER/MODEL",
    help="Who summarises. [default: the configuration's agents.defaults.compaction.model, else nobody]",
)  # fmt: skip
@json_option
@config_option
@state_option
def command(
    name: str,
    focus: str | None,
    budget: int | None,
    model_name: str | None,
    as_json: bool,  # noqa: FBT001 -- click passes by name
    config_path: Path | None,
    state_dir: Path | None,
) -> int:
    """
    Make a session's context smaller: a summary stands for what is old.

    The transcript keeps every message; what comes before the summary is no longer
    sent. The engine of the configuration's slot does it, or legacy for it. FILE
    is the file of a session of the store.

    \b
    Examples:
      openclaw-ctx sessions compact kitchen
      openclaw-ctx sessions compact kitchen --focus flour --budget 32k

    Exit codes: 0 compacted, or nothing to do; 1 it failed, or there is no such
    session; 2 usage or configuration; 129 its terminal was closed,
    130 interrupted, 143 terminated: the session is as it was then.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    configure_console()
    loaded = load_settings(config_path)
    findings = warn(loaded.findings)
    key = _key_of(name, state_dir)
    with reaching():
        model = None if model_name is None else connect_model(address_of(model_name, loaded.settings))
    opened = attrs.evolve(loaded, findings=())  # they have been said
    done = run_to_an_end(_compacted(opened, key, model, state_folder(state_dir), budget=budget, focus=focus))
    _tell(key, done, findings, as_json=as_json)
    return 0 if done.result.ok else _EXIT_FAILED


def _key_of(name: str, state_dir: Path | None) -> SessionKey:
    store = store_in(state_dir)
    if not means_file(name):
        return store.find(name)
    real = os.path.realpath(name)
    for info in store.glance():
        if os.path.realpath(info.path) == real:
            return info.key
    problem = f"{name!r} is no session of the store; 'openclaw-ctx sessions import' makes one of it."
    raise click.BadParameter(problem, param_hint="KEY|FILE")


async def _compacted(
    loaded: LoadedSettings,
    key: SessionKey,
    model: Model | None,
    state: Path,
    *,
    budget: int | None,
    focus: str | None,
) -> CompactedContext:
    try:
        # As both: an engine asks it, too, and it goes before whom the configuration names.
        opening = Host.open(loaded, state_dir=state, model=model, summary_model=model)
        async with opening as host, host.session(key) as session:
            return await session.compact(budget=budget, focus=focus)
    finally:
        if model is not None:
            await model.close()


def _tell(key: SessionKey, done: CompactedContext, findings: list[str], *, as_json: bool) -> None:
    result, made = done.result, done.result.result
    before = made.tokens_before if made is not None else None
    after = made.tokens_after if made is not None else None
    reason = None if result.reason is None else clean_text(result.reason)
    if as_json:
        say_json(
            {
                "session": clean_text(key),
                "ok": result.ok,
                "compacted": result.compacted,
                "reason": reason,
                "tokens_before": before,
                "tokens_after": after,
                "engine": clean_text(done.engine),
                "substitution": None if done.substitution is None else clean_text(done.substitution),
                "findings": findings,
            }
        )
        return
    say(f"{clean_text(key)}: {told(done)}", error=not result.ok)
    if done.substitution is not None:
        say(f"{clean_text(done.engine)} did it: {clean_text(done.substitution)}")
