"""
Which engine the slot selects, and why not another.

Selecting imports and builds nothing. An engine that the configuration switches
off is replaced by ``legacy`` in silence, since that is what was asked for; one
that is missing, or offered by two, is a refusal, and a refusal is data.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal, TypeAlias

import attrs

from openclaw_ctx.contract import LEGACY_ENGINE_ID

from .discovery import Candidate, Discovery
from .registration import Registration, Registrations

__all__ = ["EngineOffer", "Policy", "Selection", "SelectionOutcome", "offers", "select"]

SelectionOutcome: TypeAlias = Literal["default", "selected", "switched_off", "announced", "refused"]

_SEPARATORS: Final = re.compile(r"[-_.]+")
_NO_ENGINE: Final = frozenset({"", "none", LEGACY_ENGINE_ID})


def _lists(names: AbstractSet[str], distribution: str) -> bool:
    """Tell whether one of *names* is the distribution's, spelled as a person may spell it."""
    wanted = _SEPARATORS.sub("-", distribution.lower())
    return any(_SEPARATORS.sub("-", name) == wanted for name in names)


def _normal(names: Sequence[str]) -> frozenset[str]:
    return frozenset(name.strip().lower() for name in names)


@attrs.frozen(kw_only=True)
class Policy:
    """
    What the configuration says about plugins.

    Attributes:
        slot: ``plugins.slots.contextEngine``; blank, ``none`` and ``legacy`` are the built-in engine.
        allow: Engine ids or distributions; settles which of two distributions may serve an id.
        deny: Engine ids or distributions that never serve; wins over everything.
        entries_enabled: ``plugins.entries.<id>.enabled`` where it is set.
        unset_variables: By engine id: variables of its configuration that the environment lacks.
    """

    slot: str | None = None
    enabled: bool = True
    allow: frozenset[str] = attrs.field(default=frozenset(), converter=_normal)
    deny: frozenset[str] = attrs.field(default=frozenset(), converter=_normal)
    entries_enabled: Mapping[str, bool] = attrs.field(factory=dict)
    unset_variables: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    strict: bool = False

    @property
    def asked(self) -> str:
        """The engine id that the slot asks for."""
        slot = (self.slot or "").strip()
        return LEGACY_ENGINE_ID if slot.lower() in _NO_ENGINE else slot

    def forbids(self, engine_id: str, distribution: str | None = None) -> str | None:
        """Return the key that switches an engine off, or ``None``."""
        if not self.enabled:
            return "plugins.enabled is false"
        key = engine_id.strip().lower()
        if key in self.deny:
            return f"{engine_id!r} is in plugins.deny"
        if distribution is not None and _lists(self.deny, distribution):
            return f"its distribution {distribution!r} is in plugins.deny"
        if any(name.strip().lower() == key and not on for name, on in self.entries_enabled.items()):
            return f"plugins.entries.{engine_id}.enabled is false"
        return None

    def lacks(self, engine_id: str) -> str | None:
        """Return what keeps an engine that is not forbidden from being configured, or ``None``."""
        unset = self.unset_variables.get(engine_id)
        return f"its configuration names unset variables: {', '.join(unset)}" if unset else None


@attrs.frozen(kw_only=True)
class Selection:
    """
    What the slot comes to.

    Attributes:
        asked: The id that the slot names.
        engine_id: The id that serves: *asked*, or ``legacy``.
        outcome: ``default`` (nothing was asked for), ``selected``,
            ``switched_off`` (by the configuration: normal), ``announced`` (an engine that so far exists for
            discovery only), ``refused``.
        reason: Why *asked* does not serve; ``None`` where it does.
        owner: Who offers what serves.
        source: What to build: a registration, or a distribution's entry point.
    """

    asked: str
    engine_id: str
    outcome: SelectionOutcome
    reason: str | None = None
    owner: str
    source: Registration | Candidate | None = None


@attrs.frozen(kw_only=True)
class EngineOffer:
    """One engine as ``engines`` lists it. ``refusal``: why it could not be selected."""

    engine_id: str
    owner: str
    version: str | None
    location: str | None
    selected: bool
    refusal: str | None


def select(policy: Policy, registry: Registrations, discovery: Discovery) -> Selection:
    """Return what the slot comes to under *policy*. Imports and builds nothing."""
    asked = policy.asked
    if asked == LEGACY_ENGINE_ID:
        return _legacy(asked, "default", None)
    forbidden = policy.forbids(asked)
    if forbidden is not None:
        return _legacy(asked, "switched_off", forbidden)
    registration = registry.get(asked)
    if registration is not None and registration.is_runtime:
        return _chosen(asked, registration, policy)
    owners = [candidate for candidate in discovery.candidates if candidate.engine_id == asked]
    permitted = [candidate for candidate in owners if policy.forbids(asked, candidate.distribution) is None]
    if owners and not permitted:
        reason = policy.forbids(asked, owners[0].distribution)
        return _legacy(asked, "switched_off", reason)
    if len(permitted) > 1:
        allowed = [candidate for candidate in permitted if _lists(policy.allow, candidate.distribution)]
        permitted = allowed or permitted
    if len(permitted) == 1:
        return _chosen(asked, permitted[0], policy)
    if permitted:
        names = " and ".join(repr(candidate.distribution) for candidate in permitted)
        return _legacy(asked, "refused", f"it is offered by {names}: list one of them in plugins.deny or plugins.allow")
    if registration is not None:
        return _legacy(asked, "announced", f"context engine {asked!r} is available for discovery only")
    return _legacy(asked, "refused", f"context engine {asked!r} is not registered")


def offers(policy: Policy, registry: Registrations, discovery: Discovery) -> tuple[EngineOffer, ...]:
    """Return every engine that is registered or installed, the selected one marked, with why others are refused."""
    selection = select(policy, registry, discovery)
    found = [
        EngineOffer(
            engine_id=registration.engine_id,
            owner=registration.owner,
            version=None,
            location=None,
            selected=selection.source is registration
            or selection.engine_id == registration.engine_id == LEGACY_ENGINE_ID,
            refusal=_refusal_of_registration(registration, policy),
        )
        for registration in registry.registrations()
    ]
    registered = {registration.engine_id for registration in registry.registrations() if registration.is_runtime}
    found.extend(
        EngineOffer(
            engine_id=candidate.engine_id,
            owner=candidate.owner,
            version=candidate.version,
            location=candidate.location,
            selected=selection.source is candidate,
            refusal=_refusal(candidate, policy, selection, discovery, registered),
        )
        for candidate in discovery.candidates
    )
    return tuple(sorted(found, key=lambda offer: (offer.engine_id, offer.owner)))


def _refusal_of_registration(registration: Registration, policy: Policy) -> str | None:
    if registration.engine_id == LEGACY_ENGINE_ID:
        return None
    forbidden = policy.forbids(registration.engine_id) or policy.lacks(registration.engine_id)
    return forbidden or (None if registration.is_runtime else "it is available for discovery only")


def _refusal(
    candidate: Candidate, policy: Policy, selection: Selection, discovery: Discovery, registered: set[str]
) -> str | None:
    forbidden = policy.forbids(candidate.engine_id, candidate.distribution)
    if forbidden is not None:
        return forbidden
    if candidate.engine_id == LEGACY_ENGINE_ID:
        return "the id 'legacy' belongs to core"
    if candidate.engine_id in registered:
        return "the program has registered an engine of this id itself"
    if candidate.engine_id == selection.asked and selection.source is not candidate and selection.reason:
        return selection.reason
    if selection.source is not candidate and any(
        other is not candidate and other.engine_id == candidate.engine_id for other in discovery.candidates
    ):
        return "another distribution offers the same id"
    lacking = policy.lacks(candidate.engine_id)
    if lacking is not None:
        return lacking
    missing = candidate.missing_extras()
    if missing:
        return f"it needs the extra {', '.join(missing)} of {candidate.distribution}"
    return None


def _legacy(asked: str, outcome: SelectionOutcome, reason: str | None) -> Selection:
    return Selection(asked=asked, engine_id=LEGACY_ENGINE_ID, outcome=outcome, reason=reason, owner="core")


def _chosen(asked: str, source: Registration | Candidate, policy: Policy) -> Selection:
    lacking = policy.lacks(asked)
    if lacking is not None:
        return _legacy(asked, "refused", lacking)
    return Selection(asked=asked, engine_id=asked, outcome="selected", owner=source.owner, source=source)
