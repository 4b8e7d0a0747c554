"""
Names of transcripts that were put aside: ``<file>.<reason>.<time>``.

They are the reference system's, so that each program finds the other's. A name
is all that an archive is known by, so what it says is checked before it becomes
a path.
"""

import itertools
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, get_args

import attrs

from .store import ArchiveReason

__all__ = ["ArchivedName", "archive_name", "is_transcript_name", "parse_archive_name", "restored_name"]

_SUFFIX: Final = ".jsonl"
_MOST_BYTES: Final = 255
# Separators, what no file system shows, and the streams and drives of Windows.
_UNSAFE: Final = re.compile(r"[/\\:\x00-\x1f\x7f]")
# What Windows takes for a device, whatever follows the first dot.
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\xb9\xb2\xb3])\s*\.", re.IGNORECASE)
# Files of lines that are no session: other records of one, and copies.
_COMPANION: Final = re.compile(
    r".*(?:\.trajectory|\.checkpoint\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\.corrupt-.*)\.jsonl", re.IGNORECASE
)
_ARCHIVE: Final = re.compile(
    rf"(?P<file>.+)\.(?P<reason>{'|'.join(get_args(ArchiveReason))})\."
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})T(?P<hour>[0-9]{2})-(?P<minute>[0-9]{2})-(?P<second>[0-9]{2})"
    r"(?:[.-](?P<millis>[0-9]{3}))?(?:Z(?:-(?P<number>[1-9][0-9]{0,8}))?)?"
)


@attrs.frozen(kw_only=True)
class ArchivedName:
    """
    What the name of an archive says.

    Attributes:
        file: The transcript's own name, of this folder.
        at: When it was put aside, in UTC; a name without a zone means that too.
        number: Tells apart what was put aside in one millisecond.
    """

    file: str
    reason: ArchiveReason
    at: datetime
    number: int = 0


def is_transcript_name(name: str) -> bool:
    """
    Return whether a session's transcript may be called *name*: a bare file name that leads nowhere else on any system.

    Archives, checkpoints, trajectories, copies of damaged files and temporary
    files are none.
    """
    try:
        if len(name) > _MOST_BYTES or len(name.encode()) > _MOST_BYTES:
            return False
    except UnicodeEncodeError:  # a lone surrogate, which not every system can have in a name
        return False
    if not name.endswith(_SUFFIX) or name.startswith(".") or _UNSAFE.search(name):
        return False
    return not _DEVICE.match(name) and not _COMPANION.fullmatch(name)


def archive_name(file_name: str, reason: ArchiveReason, now: datetime, taken: Iterable[str]) -> str:
    """
    Return the name under which to put a transcript aside; none of *taken*, on systems that fold case too.

    Args:
        file_name: The transcript's.
        reason: Why.
        now: Without a zone it is UTC.
        taken: What is in the folder. That a clock has stepped back does not matter, then.
    """
    moment = (now if now.tzinfo else now.replace(tzinfo=UTC)).astimezone(UTC)
    stamp = moment.replace(tzinfo=None).isoformat(timespec="milliseconds").replace(":", "-")
    return _free(f"{file_name}.{reason}.{stamp}Z", "", taken, first=1)


def parse_archive_name(name: str) -> ArchivedName | None:
    """Return what the name of an archive says; ``None`` where it is none, or not that of a bare transcript's."""
    found = _ARCHIVE.fullmatch(name)
    if found is None or not is_transcript_name(found["file"]):
        return None
    moment = f"{found['day']}T{found['hour']}:{found['minute']}:{found['second']}.{found['millis'] or '000'}+00:00"
    try:
        at = datetime.fromisoformat(moment)
    except ValueError:  # a day that no calendar has
        return None
    reason = next(reason for reason in get_args(ArchiveReason) if reason == found["reason"])
    return ArchivedName(file=found["file"], reason=reason, at=at, number=int(found["number"] or 0))


def restored_name(archived: ArchivedName, taken: Iterable[str]) -> str:
    """Return the name for bringing an archive back: the transcript's own, or a free one made of it."""
    return _free(archived.file.removesuffix(_SUFFIX), _SUFFIX, taken, first=2)


def _free(stem: str, suffix: str, taken: Iterable[str], *, first: int) -> str:
    """Return ``<stem><suffix>``, or where that is taken ``<stem>-<number><suffix>``."""
    folded = {name.casefold() for name in taken}
    names = itertools.chain([stem + suffix], (f"{stem}-{number}{suffix}" for number in itertools.count(first)))
    return next(name for name in names if name.casefold() not in folded)
