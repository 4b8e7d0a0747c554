"""Which formats there are, and the one that a file is in."""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import importlib_metadata

from openclaw_ctx.errors import TranscriptFormatError, UnknownFormatError

from .records import HEAD_BYTES, load
from .session import ImportedSession, Importer

__all__ = ["ENTRY_POINT_GROUP", "FORMATS", "import_session"]

ENTRY_POINT_GROUP = "openclaw_ctx.importers"


def _siblings() -> dict[str, Importer]:
    # Every file of this folder that has an importer's names is one; adding a format touches no list.
    found: dict[str, Importer] = {}
    for module_info in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module_info.name != Path(__file__).stem:
            module = importlib.import_module(f"{__package__}.{module_info.name}")
            if isinstance(module, Importer):
                found[module.NAME] = module
    return found


FORMATS: dict[str, Importer] = _siblings()
"""The importers that this distribution ships, by name; others' are asked only when none of these knows a file."""


def import_session(path: Path | str, format: str = "auto") -> ImportedSession:  # noqa: A002 -- the word users type
    """
    Return the session that a file holds.

    The file is read whole and never written. Damage in it is mended or passed
    over, and told in ``skipped``; only a file without anything usable is refused.

    Args:
        path: The file.
        format: ``"auto"``, or the ``NAME`` of the importer to use whatever the file looks like.

    Raises:
        FileNotFoundError: There is no such file.
        TranscriptFormatError: It is no file, no importer has that name, or nothing in the file is of that format.
        UnknownFormatError: No importer knows the file.
    """
    path = Path(path)
    if format != "auto":
        importer = FORMATS.get(format) or dict(_offered(refused=[])).get(format)
        if importer is None:
            problem = f"there is no importer {format!r}, only {', '.join(sorted(FORMATS))} and 'auto'."
            raise TranscriptFormatError(str(path), problem)
        return importer.read(path)
    head = load(path, limit=HEAD_BYTES)
    refused: list[str] = []
    for importer in _importers(refused):
        if importer.sniff(head, path):
            return importer.read(path)
    raise UnknownFormatError(str(path), (*sorted(FORMATS), *refused))


def _importers(refused: list[str]) -> Iterator[Importer]:
    yield from FORMATS.values()
    for _name, importer in _offered(refused):
        yield importer


def _offered(refused: list[str]) -> Iterator[tuple[str, Importer]]:
    for distribution in importlib_metadata.distributions():
        for entry_point in _entry_points(distribution):
            if entry_point.group != ENTRY_POINT_GROUP or entry_point.name in FORMATS:
                continue
            try:
                importer = entry_point.load()
            except (Exception, SystemExit) as error:  # noqa: BLE001 -- another's code may raise anything on import
                refused.append(f"{entry_point.name}, which did not load: {type(error).__name__}")
                continue
            if isinstance(importer, Importer):
                yield entry_point.name, importer
            else:
                refused.append(f"{entry_point.name}, which lacks one of NAME, sniff and read")


def _entry_points(distribution: Any) -> list[importlib_metadata.EntryPoint]:
    # Where a distribution is described is said by no public name. Reading a FIFO there would wait for ever.
    described = getattr(distribution, "_path", None)
    try:
        file = described / "entry_points.txt" if isinstance(described, Path) else None
        if file is not None and file.exists() and not file.is_file():
            return []
        return list(distribution.entry_points)
    except Exception:  # noqa: BLE001 -- one distribution's broken metadata must not hide the others
        return []
