"""
Whether the extras that an engine asks for are installed.

Dear to import (importlib_metadata, packaging), and asked only after a load has
failed: import it where it is used.
"""

import contextlib
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import importlib_metadata
from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion

from .metadata import Identity, identify, normal_name, refuse_odd_file, walk

__all__ = ["missing_extras"]


def missing_extras(location: str, extras: Sequence[str], path: Sequence[str] | None) -> tuple[str, ...]:
    """
    Return those of *extras* whose requirements are not all installed, in their order.

    Only what an extra itself adds is looked at. One that the distribution
    doesn't know adds nothing, so it is never missing, as pip has it.

    Args:
        location: Metadata of the distribution whose extras they are.
        extras: Their names.
        path: Where installed distributions are looked for; ``None`` is ``sys.path``.
    """
    installed: dict[str, Identity] = {}
    for metadata in walk(sys.path if path is None else path, []):
        found = identify(metadata, [])
        if found is not None:
            installed.setdefault(found.name, found)
    return tuple(extra for extra in extras if not _is_covered(location, extra, installed, set()))


def _is_covered(location: str, extra: str, installed: Mapping[str, Identity], asked: set[tuple[str, str]]) -> bool:
    if (location, normal_name(extra)) in asked:
        return True  # "all = pkg[speed]" may lead back to itself
    asked.add((location, normal_name(extra)))
    for requirement in _requirements_of_extra(location, extra):
        found = installed.get(normal_name(requirement.name))
        if found is None:
            return False
        with contextlib.suppress(InvalidVersion):  # then nobody can say, and the import has the last word
            if not requirement.specifier.contains(found.version, prereleases=True):
                return False
        if not all(_is_covered(found.location, inner, installed, asked) for inner in requirement.extras):
            return False
    return True


def _refuse_odd_files(place: Path) -> None:
    for name in ("METADATA", "PKG-INFO", "requires.txt"):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            refuse_odd_file((place / name).stat(), str(place / name))


def _requirements_of_extra(location: str, extra: str) -> list[Requirement]:
    place = Path(location)
    described: Any = place
    try:
        if place.parent.is_file():
            described = zipfile.Path(place.parent, f"{place.name}/")
        else:
            _refuse_odd_files(place)
        # Knows both forms, Requires-Dist and the requires.txt of an egg-info, and the same on every Python.
        lines = importlib_metadata.PathDistribution(described).requires or []
    except (OSError, ValueError, zipfile.BadZipFile):
        return []
    wanted = []
    for line in lines:
        with contextlib.suppress(InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName):
            requirement = Requirement(line)
            marker = requirement.marker
            if marker and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}):
                wanted.append(requirement)
    return wanted
