"""Options that several commands have."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from openclaw_ctx.config import CONFIG_VARIABLE, no_config
from openclaw_ctx.host import Policy

__all__ = ["TOKENS", "config_option", "engine_id", "json_option", "load_policy", "state_option"]

_F = TypeVar("_F", bound=Callable[..., Any])
_MOST_TOKENS: Final = 1_000_000_000
_NUMBER: Final = re.compile(r"(\d+|\d{1,3}(?:[,_]\d{3})+)([kKmM]?)", re.ASCII)
_UNITS: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_LONGEST_NUMBER: Final = 20


class _Tokens(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """A number of tokens, as people write it: 8000, 8,000, 8_000 or 8k."""

    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        written = _NUMBER.fullmatch(value.strip()) if len(value) <= _LONGEST_NUMBER else None
        number = int(re.sub("[,_]", "", written[1])) * _UNITS[written[2].lower()] if written else 0
        if not 1 <= number <= _MOST_TOKENS:
            problem = f"{value!r} is no number of tokens from 1 to {_MOST_TOKENS:,}; write 8000, 8,000 or 8k."
            self.fail(problem, param, ctx)
        return number


TOKENS: Final = _Tokens()
"""The type of an option that takes a number of tokens."""


def config_option(function: _F) -> _F:
    """Add ``--config``."""
    return click.option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Configuration file. [default: OPENCLAW_CTX_CONFIG, else openclaw.json in the user's config folder]",
    )(function)


def state_option(function: _F) -> _F:
    """Add ``--state-dir``."""
    return click.option(
        "--state-dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of transcripts and records. [default: OPENCLAW_CTX_STATE_DIR, else the user's state folder]",
    )(function)


def json_option(function: _F) -> _F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(function)


def engine_id(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
    """Refuse an engine id, or one of several, that is blank: no engine has it."""
    for name in (value,) if isinstance(value, str) else value:
        if not name.strip():
            problem = "an engine id is not blank; openclaw-ctx engines lists what there is."
            raise click.BadParameter(problem)
    return value


def load_policy(config_path: Path | None) -> tuple[Policy, tuple[str, ...]]:
    """
    Return what the configuration says about plugins, and what is questionable in it.

    Where there is no configuration, no schema is loaded for it.
    """
    if no_config(config_path) and not os.environ.get(CONFIG_VARIABLE):
        return Policy(), ()
    from openclaw_ctx.assembly import policy_from  # noqa: PLC0415 -- 20 ms, which most starts do not need
    from openclaw_ctx.config import load_settings  # noqa: PLC0415 -- as above

    loaded = load_settings(config_path)
    return policy_from(loaded.settings), loaded.findings
