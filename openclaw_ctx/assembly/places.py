"""What there is before any setting: built-in engines and where state lives. Imports none of it: commands start here."""

import os
from pathlib import Path
from typing import Any

from openclaw_ctx.contract import LEGACY_ENGINE_ID
from openclaw_ctx.host import CORE_OWNER, Registration

__all__ = ["STATE_VARIABLE", "BuiltinEngines", "quarantine_folder", "sessions_folder", "state_folder"]

STATE_VARIABLE = "OPENCLAW_CTX_STATE_DIR"


class BuiltinEngines:
    """What core registers; none of it is imported before it is built."""

    def get(self, engine_id: str) -> Registration | None:
        """Return the registration of an id, or ``None``."""
        return _LEGACY if engine_id == LEGACY_ENGINE_ID else None

    def registrations(self) -> tuple[Registration, ...]:
        """Return all of them, by id."""
        return (_LEGACY,)


def state_folder(state_dir: Path | str | None = None) -> Path:
    """Return where state lives: the argument, the environment, the user's state folder."""
    if state_dir is not None:
        return Path(state_dir).expanduser()
    named = os.environ.get(STATE_VARIABLE)
    if named:
        return Path(named).expanduser()
    import platformdirs  # noqa: PLC0415 -- needed only where nobody names the folder

    return platformdirs.user_state_path("openclaw-ctx")


def quarantine_folder(state_dir: Path) -> Path:
    """Return where quarantine records are mirrored."""
    return state_dir / "quarantine"


def sessions_folder(state_dir: Path) -> Path:
    """Return where transcripts are kept."""
    return state_dir / "sessions"


def _make_legacy(context: Any) -> object:
    from openclaw_ctx.engines import LegacyEngine  # noqa: PLC0415 -- cheap discovery: listing engines builds none

    return LegacyEngine(context)


_LEGACY = Registration(engine_id=LEGACY_ENGINE_ID, owner=CORE_OWNER, factory=_make_legacy)
