"""What to do about an engine that does not serve."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from openclaw_ctx.host import EngineOffer, Policy, Selection

from .speech import clean_text

__all__ = ["advise", "barring", "explain_row", "nearest", "unsettled"]


# A MirrorRow. Its module brings the transcripts along, and most starts have no row.
_Row: TypeAlias = Any


def advise(selection: Selection, offered: Iterable[str]) -> str | None:
    """Return what to do so that the engine that the slot asks for serves; ``None`` where it does, or says so itself."""
    offered = set(offered)
    if selection.reason is None:
        return None
    if selection.outcome == "switched_off":
        return "Change that key to have it, or name another engine in plugins.slots.contextEngine."
    if selection.outcome == "refused" and selection.asked not in offered:
        near = nearest(selection.asked, offered)
        meant = "" if near is None else f"Did you mean {near!r}? "
        return (
            f"{meant}Install the distribution that offers it (pip install ...), or name another engine in "
            f"plugins.slots.contextEngine; openclaw-ctx engines lists what there is."
        )
    return None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the one of *known* that somebody who typed *name* may have meant."""
    import difflib  # noqa: PLC0415 -- needed only for what is mistyped

    lowered = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1)
    return clean_text(lowered[near[0]]) if near else None


def barring(engine_id: str, rows: Iterable[_Row]) -> _Row | None:
    """Return the quarantine by which a process that is known to live bars the engine."""
    return next((row for row in rows if row.record.engine_id == engine_id and row.verified), None)


def explain_row(row: _Row) -> str:
    """Say where, in what and why a row's engine is quarantined."""
    where = f"process {row.pid}" if row.verified else f"process {row.pid}, which cannot be verified"
    return clean_text(f"quarantined in {where} during {row.record.operation}: {row.record.reason}")


def unsettled(policy: Policy, offers: Sequence[EngineOffer], asked: str) -> list[str]:
    """Return a sentence for each engine that several distributions offer; the slot's has its own reason."""
    owners: dict[str, list[str]] = {}
    for offer in offers:
        distribution = offer.owner.partition(":")[2]
        if distribution and policy.forbids(offer.engine_id, distribution) is None:
            owners.setdefault(offer.engine_id, []).append(clean_text(distribution))
    return [
        f"{clean_text(engine)} is offered by {' and '.join(names)}: "
        f"list one of them in plugins.deny, or in plugins.allow, before you select it."
        for engine, names in owners.items()
        if len(names) > 1 and engine != asked
    ]
