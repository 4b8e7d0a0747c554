"""A host with the window engine of this tree in the slot."""

import contextlib
import importlib
import sys
from pathlib import Path
from typing import Any

from openclaw_ctx import Host, Opening, Registry
from openclaw_ctx.host import PUBLIC_OWNER

__all__ = ["window_host"]

ROOT = Path(__file__).resolve().parent.parent


def window_host(folder: Path, *, durable: bool = False, **more: Any) -> Opening[Host]:
    """Open a host with its state in *folder*; *more* goes to ``Host.open``."""
    with contextlib.suppress(ValueError):
        sys.path.remove(str(ROOT / "plugins" / "openclaw-ctx-window"))
    sys.path.insert(0, str(ROOT / "plugins" / "openclaw-ctx-window"))  # the plugin of this tree, installed or not
    window = importlib.import_module("openclaw_ctx_window")

    registry = Registry()
    registry.register("window", window.WindowEngine, owner=PUBLIC_OWNER)
    config = {"plugins": {"slots": {"contextEngine": "window"}}, "session": {"durable": durable}}
    return Host.open(config, state_dir=folder, registry=registry, engine_path=(), **more)
