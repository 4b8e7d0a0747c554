"""What somebody has registered. Apart from the registry, since selecting an engine needs no quarantine."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import attrs

from openclaw_ctx import contract

__all__ = ["CORE_OWNER", "PUBLIC_OWNER", "EngineFactory", "Registration", "Registrations"]

CORE_OWNER = "core"
PUBLIC_OWNER = "public"

# The context's class by name: importing it would cost every listing of engines the whole contract.
EngineFactory: TypeAlias = Callable[["contract.EngineContext"], Any]
"""Builds an engine from its ``EngineContext``, sync or async; a class that takes the context is one too."""


@attrs.frozen(kw_only=True, eq=False)
class Registration:
    """
    An engine on offer.

    Attributes:
        lifecycle: ``discovery`` says only that the engine exists: it is never
            built, and gives way to a ``runtime`` registration.
    """

    engine_id: str
    owner: str
    factory: EngineFactory
    lifecycle: Literal["runtime", "discovery"] = "runtime"

    @property
    def is_runtime(self) -> bool:
        """Whether the engine can serve, rather than only be known of."""
        return self.lifecycle == "runtime"


class Registrations(Protocol):
    """Registrations by engine id, as the registry has them."""

    def get(self, engine_id: str) -> Registration | None:
        """Return the registration of an id, or ``None``."""

    def registrations(self) -> Sequence[Registration]:
        """Return all of them, by id."""
