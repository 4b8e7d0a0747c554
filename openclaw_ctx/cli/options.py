"""Options that several commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from openclaw_ctx.config import LoadedSettings, load_settings

__all__ = ["config_option", "json_option", "load", "state_option"]

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


def load(config_path: Path | None) -> LoadedSettings:
    """Return the configuration that a command shall use."""
    return load_settings(config_path)
