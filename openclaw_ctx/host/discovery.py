"""
Which engines are installed, read from metadata alone.

No code of a plugin runs here, and no distribution can
hide another: each is read by itself, and what cannot be used is kept as a
:class:`MetadataFault` that says where it lies and what to do about it.
"""

import re
import sys
from collections.abc import Iterator, Sequence

import attrs

from .metadata import (
    ENGINES_GROUP,
    FaultKind,
    Identity,
    Metadata,
    MetadataFault,
    identify,
    mentions_engines,
    parse_entry_points,
    unreadable,
    walk,
)

__all__ = ["ENGINES_GROUP", "Candidate", "Discovery", "FaultKind", "MetadataFault", "discover"]

_REPORT = "Reinstall the distribution, or report it to its author."

# "package.module:object.attribute [extra, extra]", as the entry-points specification has it.
_TARGET = re.compile(
    r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"(?:\s*:\s*(?P<attr>[^\W\d]\w*(?:\.[^\W\d]\w*)*))?"
    r"(?:\s*\[(?P<extras>[^\[\]]*)\])?",
)


@attrs.frozen(kw_only=True)
class Candidate:
    """
    An engine that an installed distribution offers; nothing of it has been imported.

    Attributes:
        engine_id: The entry point's name.
        distribution: Normalised name of the distribution.
        version: As its metadata says; empty where it says none.
        value: The factory's address, such as ``pkg.module:make``, without extras.
        extras: What the entry point says that it needs of its own distribution.
        location: Path of the metadata.
        search_path: Where the distribution was looked for; ``None`` is ``sys.path``.
    """

    engine_id: str
    distribution: str
    version: str
    value: str
    extras: tuple[str, ...] = ()
    location: str
    search_path: tuple[str, ...] | None = attrs.field(default=None, repr=False, eq=False)

    @property
    def owner(self) -> str:
        """Who registers the engine."""
        return f"plugin:{self.distribution}"

    def missing_extras(self, path: Sequence[str] | None = None) -> tuple[str, ...]:
        """
        Return those of the extras whose requirements are not installed.

        Reads the metadata of everything on the path: ask only when it matters.

        Args:
            path: Where to look; by default where the distribution was found.
        """
        if not self.extras:
            return ()
        from .extras import missing_extras  # noqa: PLC0415 -- dear, and not needed by discovery

        return missing_extras(self.location, self.extras, self.search_path if path is None else path)


@attrs.frozen(kw_only=True)
class Discovery:
    """
    What is installed.

    Two candidates may claim one id; whose it is, is not decided here.

    Attributes:
        candidates: Sorted by engine id, then distribution.
        faults: Sorted by location.
    """

    candidates: tuple[Candidate, ...] = ()
    faults: tuple[MetadataFault, ...] = ()


def discover(path: Sequence[str] | None = None) -> Discovery:
    """
    Return the engines that installed distributions offer, importing none of them.

    The first distribution of a name on the path counts, as it does for imports;
    of two in one folder, the higher version. Never raises for what it finds.
    Distributions that only a custom import hook knows are not seen.

    Args:
        path: Folders and zip files to search; ``sys.path`` by default.
    """
    faults: list[MetadataFault] = []
    by_name: dict[str, list[_Installed]] = {}
    search_path = None if path is None else tuple(path)
    for metadata in walk(sys.path if path is None else path, faults):
        identity = identify(metadata, faults)
        if identity is not None:
            engines = tuple(_engines_of(metadata, identity, search_path, faults))
            by_name.setdefault(identity.name, []).append(_Installed(identity=identity, engines=engines))
    candidates: list[Candidate] = []
    for same_name in by_name.values():
        candidates += _first(same_name, faults).engines
    candidates.sort(key=lambda candidate: (candidate.engine_id, candidate.distribution))
    faults.sort(key=lambda fault: fault.location)
    return Discovery(candidates=tuple(candidates), faults=tuple(faults))


@attrs.frozen(kw_only=True)
class _Installed:
    """A distribution, and what it offers; its engines may have been refused."""

    identity: Identity
    engines: tuple[Candidate, ...]

    @property
    def offers(self) -> set[tuple[str, str]]:
        return {(engine.engine_id, engine.value) for engine in self.engines}


def _engines_of(
    metadata: Metadata, identity: Identity, search_path: tuple[str, ...] | None, faults: list[MetadataFault]
) -> Iterator[Candidate]:
    try:
        data = metadata.read("entry_points.txt")
    except OSError as exc:
        faults.append(unreadable(identity.location, exc, identity.name))
        return
    if data is None or not mentions_engines(data):
        return
    try:
        pairs = parse_entry_points(data.decode("utf-8-sig"))
    except UnicodeDecodeError as exc:
        faults.append(
            _entry_points_fault(identity, f"byte {exc.start} is not UTF-8, so none of its engines is offered")
        )
        return
    except ValueError as exc:
        faults.append(_entry_points_fault(identity, f"{exc}, so none of its engines is offered"))
        return
    for engine_id, value in pairs.items():
        target = _TARGET.fullmatch(value)
        if not engine_id or not engine_id.isprintable() or any(map(str.isspace, engine_id)):
            what = f"{engine_id!r} cannot be an engine's id, which is one word without control characters"
            faults.append(_entry_points_fault(identity, what))
        elif target is None:
            what = f"the target {value!r} of engine {engine_id!r} is not of the form 'module:attribute'"
            faults.append(_entry_points_fault(identity, what))
        else:
            yield Candidate(
                engine_id=engine_id,
                distribution=identity.name,
                version=identity.version,
                value=":".join(filter(None, target.group("module", "attr"))),
                extras=tuple(filter(None, map(str.strip, (target["extras"] or "").split(",")))),
                location=identity.location,
                search_path=search_path,
            )


def _entry_points_fault(identity: Identity, what: str) -> MetadataFault:
    return MetadataFault(
        location=identity.location,
        problem=f"entry_points.txt in {identity.location!r}: {what}. {_REPORT}",
        distribution=identity.name,
        kind="entry_points",
    )


def _first(same_name: Sequence[_Installed], faults: list[MetadataFault]) -> _Installed:
    first = same_name[0]
    if len(same_name) == 1 or not any(installed.engines for installed in same_name):
        return first
    in_folder = [installed for installed in same_name if installed.identity.folder == first.identity.folder]
    if len(in_folder) > 1:
        first = max(in_folder, key=_version_key)
    used = f"{first.identity.version} in {first.identity.location!r}"
    for hidden in same_name:
        # An editable install and its egg-info say the same thing twice: nothing is lost.
        if hidden is first or not hidden.offers - first.offers:
            continue
        name, version, location = hidden.identity.name, hidden.identity.version, hidden.identity.location
        ids = ", ".join(repr(engine.engine_id) for engine in hidden.engines)
        problem = (
            f"{name} {version} in {location!r} is hidden by {name} {used}, so what it offers ({ids}) is not used. "
            f"Uninstall one of the two."
        )
        faults.append(MetadataFault(location=location, problem=problem, distribution=name, kind="shadowed"))
    return first


def _version_key(installed: _Installed) -> tuple[bool, object]:
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 -- dear, and two in one folder are rare

    try:
        return True, Version(installed.identity.version)
    except InvalidVersion:
        return False, installed.identity.version
