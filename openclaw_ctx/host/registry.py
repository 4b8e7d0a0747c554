"""Who has registered which engine. The process has one registry; a Host may be given another."""

import functools
import threading
from typing import Literal

from openclaw_ctx.contract import LEGACY_ENGINE_ID
from openclaw_ctx.errors import EngineIdReservedError, EngineIdTakenError, InvalidOwnerError

from .quarantine import Quarantine
from .registration import CORE_OWNER, EngineFactory, Registration

__all__ = ["Registry", "default_registry"]


class Registry:
    """Registrations by engine id, and the quarantine of those engines. Safe from any thread."""

    def __init__(self, *, quarantine: Quarantine | None = None) -> None:
        self.quarantine = Quarantine() if quarantine is None else quarantine
        self._lock = threading.Lock()
        self._registrations: dict[str, Registration] = {}

    def register(
        self,
        engine_id: str,
        factory: EngineFactory,
        *,
        owner: str,
        refresh: bool = False,
        lifecycle: Literal["runtime", "discovery"] = "runtime",
    ) -> Registration:
        """
        Offer an engine. A registration that succeeds lifts the quarantine of its id.

        Args:
            engine_id: Trimmed; the slot names it.
            factory: Called once for each Host that selects the engine.
            owner: Who offers it; trimmed.
            refresh: Whether the same owner may replace its own registration.
            lifecycle: See :class:`Registration`.

        Raises:
            EngineIdReservedError: ``legacy`` is core's.
            EngineIdTakenError: Another owner has the id, or this one without *refresh*.
            InvalidOwnerError: The owner is blank or no text.
        """
        if not isinstance(owner, str) or not owner.strip():  # type: ignore[redundant-expr]
            raise InvalidOwnerError(owner)
        engine_id, owner = engine_id.strip(), owner.strip()
        if engine_id == LEGACY_ENGINE_ID and owner != CORE_OWNER:
            raise EngineIdReservedError(engine_id, owner)
        fresh = Registration(engine_id=engine_id, owner=owner, factory=factory, lifecycle=lifecycle)
        with self._lock:
            held = self._registrations.get(engine_id)
            if held is not None:
                if held.owner != owner:
                    raise EngineIdTakenError(engine_id, held.owner, owner)
                if lifecycle == "discovery":
                    return held  # metadata never replaces the real thing
                if held.lifecycle == "runtime" and not refresh:
                    raise EngineIdTakenError(engine_id, held.owner, owner)
            self._registrations[engine_id] = fresh
        if lifecycle == "runtime":
            self.quarantine.clear(engine_id)
        return fresh

    def get(self, engine_id: str) -> Registration | None:
        """Return the registration of an id, or ``None``."""
        return self._registrations.get(engine_id)

    def registrations(self) -> list[Registration]:
        """Return a new list of all registrations, by id."""
        with self._lock:
            return sorted(self._registrations.values(), key=lambda registration: registration.engine_id)


@functools.cache
def default_registry() -> Registry:
    """Return the process's registry, made when it is first asked for."""
    return Registry()
