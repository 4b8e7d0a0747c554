"""Options that several commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from openclaw_ctx.config import no_config
from openclaw_ctx.host import Policy

__all__ = ["config_option", "json_option", "load_policy", "state_option"]

_F = TypeVar("_F", bound=Callable[..., Any])


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


def load_policy(config_path: Path | None) -> Policy:
    """Return what the configuration says about plugins; where there is none, no schema is loaded for it."""
    if no_config(config_path):
        return Policy()
    from openclaw_ctx.assembly import policy_from  # noqa: PLC0415 -- 20 ms, which most starts do not need
    from openclaw_ctx.config import load_settings  # noqa: PLC0415 -- as above

    return policy_from(load_settings(config_path).settings)
