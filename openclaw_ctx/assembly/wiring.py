"""What the sessions of one host share."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from openclaw_ctx.contract import Complete, HostDescriptor, SessionKey
from openclaw_ctx.host import Guard
from openclaw_ctx.models import Model
from openclaw_ctx.runtime import FlushPolicy, Memory, TurnPolicy, Window
from openclaw_ctx.tokens import TokenCounter
from openclaw_ctx.transcript import SessionStore

from .notices import CompactionNotices
from .services import HostServices

__all__ = ["WindowOf", "Wiring"]

WindowOf: TypeAlias = Callable[[str | None, str | None, int | None], Window]
"""(provider, model, what the caller says) -> the window to work with."""


@attrs.frozen(kw_only=True, eq=False)
class Wiring:
    """
    What a session gets of its host.

    Attributes:
        complete: Answers engines; ``None`` where the host has no model.
        model: Answers users, where a turn names no other.
        context_window: What the embedding program says of that model's window.
        asked: The engine that the slot asks for.
        registered: The sessions that are open, by key.
        rotates: Whether a session goes on in another transcript after a compaction.
        history_limit: How many turns of the user an engine is shown at most.
        sleep: Waits between tries.
    """

    store: SessionStore
    guard: Guard
    count: TokenCounter
    descriptor: HostDescriptor
    workspace_dir: Path
    services: HostServices
    complete: Complete | None
    model: Model | None
    turn_end_seconds: float
    asked: str
    registered: dict[SessionKey, Any]  # of SessionCore, which is made of this
    turns: TurnPolicy
    window_of: WindowOf
    context_window: int | None
    memory: Memory | None
    flush: FlushPolicy
    notices: CompactionNotices
    rotates: bool
    history_limit: int | None
    sleep: Callable[[float], Awaitable[object]]
