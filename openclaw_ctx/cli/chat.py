"""``openclaw-ctx chat``: a conversation with a model, in a session that is kept."""

import asyncio
from pathlib import Path
from typing import Final

import attrs
import click

from openclaw_ctx.assembly import Host, address_of, state_folder, windows_from
from openclaw_ctx.config import LoadedSettings, load_settings
from openclaw_ctx.log import configure_console
from openclaw_ctx.models import Model, connect_model

from .chat_lines import Lines
from .chat_loop import Chat
from .options import TOKENS, config_option, engine_id, state_option
from .reaching import reaching
from .speech import warn

__all__ = ["command"]

_SESSION: Final = "agent:main:main"


def _engine(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    checked: str | None = None if value is None else engine_id(ctx, param, value)
    return checked


@click.command("chat")
@click.option(
    "--model", "model_name", metavar="PROVIDER/MODEL",
    help="Who answers, such as openai/gpt-5-mini. [default: the configuration's]",
)  # fmt: skip
@click.option("--base-url", help="Where the model is, instead of where its provider is known to be.")
@click.option("--session", "key", default=_SESSION, metavar="KEY", help=f"The session's key. [default: {_SESSION}]")
@click.option("--engine", metavar="ID", callback=_engine, help="The context engine, in place of the slot's.")
@click.option("--context-window", type=TOKENS, help="Tokens that the model takes. [default: the configuration's]")
@click.option("--system", "system_prompt", metavar="TEXT", help="Standing instructions for the model.")
@config_option
@state_option
def command(
    model_name: str | None,
    base_url: str | None,
    key: str,
    engine: str | None,
    context_window: int | None,
    system_prompt: str | None,
    config_path: Path | None,
    state_dir: Path | None,
) -> int:
    """
    Chat with a model, in a session that is kept and never outgrows the window.

    A line is a turn: yours on a terminal, or those of a pipe, one after the
    other. /help lists what else can be typed. Ctrl-C stops an answer, and the
    session stays.

    \b
    Examples:
      openclaw-ctx chat --model ollama/llama3.2
      openclaw-ctx chat --model openai/gpt-5-mini --session agent:main:kitchen

    Exit codes: 0 left, 1 the model failed on a line of a pipe, 2 usage or
    configuration, 129 its terminal was closed, 130 interrupted, 143 terminated.
    """  # noqa: D301 -- click keeps the lines below a real backspace
    if not key.strip():
        problem = "a session key is a name such as 'agent:main:main'."
        raise click.BadParameter(problem, param_hint="--session")
    configure_console()
    loaded = load_settings(config_path)
    warn(loaded.findings)
    asked = model_name or loaded.settings.agents.defaults.model.primary
    if asked is None:
        problem = "no model is named: give --model, or set agents.defaults.model.primary in the configuration."
        raise click.UsageError(problem)
    slotted = loaded if engine is None else loaded.with_engine(engine)
    slotted = attrs.evolve(slotted, findings=())  # they have been said
    with reaching():
        address = address_of(asked, loaded.settings, base_url=base_url)
        model = connect_model(address)
    return asyncio.run(
        _chat(
            slotted, model, key, state_folder(state_dir),
            context_window=context_window, max_tokens=address.max_tokens, system=system_prompt,
        )
    )  # fmt: skip


async def _chat(
    loaded: LoadedSettings,
    model: Model,
    key: str,
    state: Path,
    *,
    context_window: int | None,
    max_tokens: int | None,
    system: str | None,
) -> int:
    lines = Lines()
    window = windows_from(loaded.settings)(
        getattr(model, "provider", None), getattr(model, "model", None), context_window
    )
    try:
        opening = Host.open(loaded, state_dir=state, model=model, context_window=context_window)
        async with opening as host:
            chat = Chat(
                host, await host.session(key), lines,
                settings=loaded.settings, window=window.tokens, system_prompt=system, max_tokens=max_tokens,
            )  # fmt: skip
            return await chat.run()
    finally:
        lines.close()
        await model.close()
