"""Where the configuration file is."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["CONFIG_VARIABLE", "config_path", "no_config"]

CONFIG_VARIABLE: Final = "OPENCLAW_CTX_CONFIG"
"""The environment variable that names the file."""


def config_path(path: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the file that is read: *path*, else what ``OPENCLAW_CTX_CONFIG`` names, else the user's own."""
    named = environ.get(CONFIG_VARIABLE)
    if path is not None or named:
        return path or Path(named or "").expanduser()
    import platformdirs  # noqa: PLC0415 -- 20 ms: needed only where nobody names the file

    return platformdirs.user_config_path("openclaw-ctx") / "openclaw.json"


def no_config(path: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether nobody has written a configuration, so that every setting is its default."""
    return path is None and not os.path.lexists(config_path(environ=environ))
