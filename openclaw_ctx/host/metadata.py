"""
The metadata of installed distributions: where it lies, whose it is, and what it says of engines.

Nothing here runs a plugin's code or raises for what it finds: metadata that
cannot be used becomes a :class:`MetadataFault`.
"""

# ruff: noqa: PTH100, PTH113, PTH118, PTH119, PTH208 -- a Path for each of 300 folders costs as much as reading what is in them

# The walk is our own, and neither importlib.metadata nor its backport is imported: importing either (email, zipfile,
# csv, socket) costs several times what reading 300 distributions does, at every start of the command. Besides, their
# readers let one broken file raise for all (python/importlib_metadata#534, #457), and say nothing of a repeated key.

import errno
import io
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal, TypeAlias

import attrs

__all__ = [
    "ENGINES_GROUP",
    "FaultKind",
    "Identity",
    "Metadata",
    "MetadataFault",
    "identify",
    "mentions_engines",
    "normal_name",
    "parse_entry_points",
    "refuse_odd_file",
    "tell",
    "unreadable",
    "walk",
]

ENGINES_GROUP = "openclaw_ctx.engines"
"""The entry-point group: name = engine id, value = a factory."""

FaultKind: TypeAlias = Literal["damaged", "entry_points", "shadowed", "unnamed", "unreadable"]

_GROUP_BYTES = ENGINES_GROUP.encode()
_LARGEST_BYTES = 8 * 1024 * 1024  # far above any README that came along as a description
_WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0)  # else the opening of a FIFO waits for who writes into it
_REINSTALL = "Reinstall the distribution that it came from, or delete it."

# A distribution's name (PEP 508) and its normal form (PEP 503): packaging's import is too dear for two lines.
_NAME = re.compile(r"[A-Z0-9](?:[A-Z0-9._-]*[A-Z0-9])?", re.ASCII | re.IGNORECASE)
_SEPARATORS = re.compile(r"[-_.]+")
_HEADER = re.compile(rb"^(Name|Version)[ \t]*:[ \t]*([^\r\n]*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_BODY = re.compile(rb"\n\r?\n")


@attrs.frozen(kw_only=True)
class MetadataFault:
    """
    Metadata that could not be used, or was hidden.

    Attributes:
        location: Path of the metadata, or of the folder on the search path.
        problem: A sentence that says what is wrong and what to do.
        distribution: Normalised name, where the metadata tells it.
        kind: ``damaged`` left over or half there, ``unnamed`` without a usable name, ``entry_points`` an engine's line,
            ``shadowed`` hidden by another installation of the same name, ``unreadable`` refused by the system.
    """

    location: str
    problem: str
    distribution: str | None = None
    kind: FaultKind


@attrs.frozen(kw_only=True)
class Metadata:
    """
    Where a distribution is described.

    Attributes:
        location: The ``.dist-info`` or ``.egg-info``.
        folder: What of the search path it lies in.
        read: Gives the bytes of a file in it, ``None`` where there is none, and raises ``OSError`` where it can't. Good
            only until the walk goes on, since a zip file is closed behind it.
    """

    location: str
    folder: str
    read: Callable[[str], bytes | None]


@attrs.frozen(kw_only=True)
class Identity:
    """
    Whose metadata it is.

    Attributes:
        name: Normalised.
        version: As written; empty where none is.
        location: Path of the metadata.
        folder: What of the search path it lies in.
    """

    name: str
    version: str
    location: str
    folder: str


def walk(path: Iterable[object], faults: list[MetadataFault]) -> Iterator[Metadata]:
    """
    Yield what describes a distribution in the folders and zip files of *path*, in its order.

    A folder reached twice is read once. What the system refuses to list is
    added to *faults*; what isn't there is nothing, as for imports.
    """
    seen: set[str] = set()
    for entry in path:
        if not isinstance(entry, str):
            continue  # import passes over it too
        folder = entry
        try:
            folder = os.path.abspath(entry)
            real = os.path.realpath(folder)
            if real in seen:
                continue
            seen.add(real)
            names = os.listdir(folder)
        except NotADirectoryError:
            yield from _walk_zip(folder)
            continue
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as exc:  # ValueError: a NUL in the path
            faults.append(unreadable(entry, exc))
            continue
        # Sorted, since the order of a listing differs from one file system to the next.
        for name in sorted(name for name in names if _describes(folder, name)):
            location = os.path.join(folder, name)
            yield Metadata(location=location, folder=folder, read=partial(_read_file, location))


def identify(metadata: Metadata, faults: list[MetadataFault]) -> Identity | None:
    """Return whose *metadata* it is; where it doesn't tell, ``None`` and one more fault."""
    location = metadata.location
    if os.path.basename(location).startswith("~"):
        problem = f"{location!r} was left behind by an interrupted pip. Delete it."
        faults.append(MetadataFault(location=location, problem=problem, kind="damaged"))
        return None
    # An egg-info may also be a single file, which is its own description.
    sources = ("METADATA",) if location.endswith(".dist-info") else ("PKG-INFO", "")
    try:
        text = next(filter(None, map(metadata.read, sources)), None)
    except OSError as exc:
        faults.append(unreadable(location, exc))
        return None
    if text is None:
        problem = f"{location!r} has no {sources[0]}, so it is what an installation left over. {_REINSTALL}"
        faults.append(MetadataFault(location=location, problem=problem, kind="damaged"))
        return None
    body = _BODY.search(text)
    headers: dict[bytes, str] = {}
    for key, value in _HEADER.findall(text, 0, body.start() + 1 if body else len(text)):
        headers.setdefault(key.lower(), value.decode("utf-8", "replace"))
    name = headers.get(b"name", "")
    if not _NAME.fullmatch(name):
        what = f"names its distribution {name!r}" if name else "does not name its distribution"
        problem = f"{sources[0]} in {location!r} {what}. {_REINSTALL}"
        faults.append(MetadataFault(location=location, problem=problem, kind="unnamed"))
        return None
    version = headers.get(b"version", "")
    return Identity(name=normal_name(name), version=version, location=location, folder=metadata.folder)


def mentions_engines(entry_points: bytes) -> bool:
    """Tell whether it is worth to parse *entry_points*; sees through UTF-16, which is then refused by name."""
    # Nearly every distribution is turned away here, so it must cost nothing.
    return _GROUP_BYTES in entry_points or (b"\0" in entry_points and _GROUP_BYTES in entry_points.replace(b"\0", b""))


def parse_entry_points(text: str) -> dict[str, str]:
    """
    Return the lines of our group as they stand: engine id and target, neither checked.

    Raises:
        ValueError: Which line spoils the file.
    """
    ours: dict[str, str] = {}
    group: str | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        key, equals, value = map(str.strip, line.partition("="))
        if line[0] == "[" and line[-1] == "]":
            group = line[1:-1].strip()
        elif not equals and group not in {None, ENGINES_GROUP} and raw[0].isspace():
            continue  # a value of another group may go on in an indented line
        elif not equals or group is None or line[0] == "[":
            # Past such a line nobody can say which group the next one belongs to.
            msg = f"line {number}, {line!r}, is neither '[group]' nor 'name = module:attribute' in a group"
            raise ValueError(msg)
        elif group == ENGINES_GROUP:
            if key in ours:
                msg = f"line {number} offers {key!r} a second time"
                raise ValueError(msg)
            ours[key] = value
    return ours


def normal_name(name: str) -> str:
    """Return the form in which names of distributions, and of their extras, are compared."""
    return _SEPARATORS.sub("-", name).lower()


def unreadable(location: str, exc: Exception, distribution: str | None = None) -> MetadataFault:
    """Return the fault for what the system would not give."""
    problem = f"{location!r} cannot be read ({tell(exc)}). Allow this user to read it, or take it off the search path."
    return MetadataFault(location=location, problem=problem, distribution=distribution, kind="unreadable")


def tell(exc: BaseException) -> str:
    """Return the kind and text of a foreign exception in one line without control characters."""
    try:
        text = str(exc)
    except Exception:  # noqa: BLE001 -- an exception's __str__ is foreign code as well
        text = "(its text cannot be read)"
    line = " ".join(text.split())
    line = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)
    return f"{type(exc).__name__}: {line}" if line else type(exc).__name__


def refuse_odd_file(state: os.stat_result, path: str) -> None:
    """
    Raise where a file is none to be read: a FIFO or device, which may never end, or one of more than 8 MiB.

    Raises:
        OSError: It is; the file is named.
    """
    if not stat.S_ISREG(state.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    _refuse_large(state.st_size, path)


def _refuse_large(size: int, path: str) -> None:
    if size > _LARGEST_BYTES:
        raise OSError(errno.EFBIG, f"it has {size} bytes, and {_LARGEST_BYTES} are the most", path)


def _walk_zip(file: str) -> Iterator[Metadata]:
    if not os.path.isfile(file):
        return  # a FIFO would be waited for
    import zipfile  # noqa: PLC0415 -- a zip on the search path is rare, and this import dearer than the whole walk

    try:
        with zipfile.ZipFile(file) as archive:
            tops = {name.partition("/")[0] for name in archive.namelist() if "/" in name}
            for top in sorted(top for top in tops if _describes(file, top)):
                location = os.path.join(file, top)
                yield Metadata(location=location, folder=file, read=partial(_read_member, archive, top))
    except (OSError, zipfile.BadZipFile):
        return  # a file on sys.path that is no archive is nothing to imports either


def _describes(folder: str, name: str) -> bool:
    return name.endswith((".dist-info", ".egg-info")) or (name == "EGG-INFO" and folder.endswith(".egg"))


def _read_file(location: str, name: str) -> bytes | None:
    path = os.path.join(location, name) if name else location
    try:
        with io.FileIO(path, opener=_open_without_waiting) as file:
            refuse_odd_file(os.fstat(file.fileno()), path)
            return file.readall()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | _WITHOUT_WAITING)


def _read_member(archive: Any, top: str, name: str) -> bytes | None:
    try:
        member = archive.getinfo(f"{top}/{name}")
        _refuse_large(member.file_size, member.filename)
        data: bytes = archive.read(member)
    except KeyError:
        return None
    except OSError:
        raise
    except Exception as exc:  # a damaged archive raises zlib.error, RuntimeError, NotImplementedError and more
        raise OSError(tell(exc)) from exc
    return data
