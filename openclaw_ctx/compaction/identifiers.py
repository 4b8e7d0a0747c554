"""Identifiers that a summary must not lose: what looks like one in the newest messages."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from openclaw_ctx.contract import Message, ToolResultMessage

__all__ = [
    "LOOKED_AT_MESSAGES",
    "MIN_IDENTIFIER_CHARS",
    "MOST_IDENTIFIERS",
    "find_identifiers",
    "holds_identifier",
    "same_identifier",
]

MOST_IDENTIFIERS: Final = 12
"""So many identifiers a summary is audited for at most; the reference system's."""

LOOKED_AT_MESSAGES: Final = 10
"""So many of the newest messages are searched; the reference system's."""

MIN_IDENTIFIER_CHARS: Final = 4
"""Shorter ones are none; the reference system's."""

# No model copies longer ones faithfully, and they are mostly data.
_MAX_IDENTIFIER_CHARS: Final = 256
# One search holds up every other thread: this is some milliseconds' worth.
_READ_CHARS: Final = 32_000

# Each alternative can begin in one place only and gives nothing back, so that a search takes one pass.
_IDENTIFIER: Final = re.compile(
    r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,20}+://[^\s<>\"'`{}|\\^\x7f-\U0010ffff]++"  # addresses
    r"|(?<![\w/.~\\:-])~?(?:/[\w.@+-]++){2,}+"  # absolute paths
    r"|(?<![\w/.~\\:-])[a-z]:\\[\w.@+\\-]++"  # absolute paths of Windows
    r"|(?<![\w.-])(?:localhost|[a-z0-9-]++(?:\.[a-z0-9-]++)++):\d{2,5}+(?!\w)"  # hosts and ports
    r"|(?<!\w)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?!\w)"  # UUIDs
    r"|(?<!\w)(?:0x)?[0-9a-f]{8,}+(?!\w)"  # hashes
    r"|(?<!\w)\d{6,}+(?!\w)",  # numbers that are names
    re.IGNORECASE | re.ASCII,
)
_HEX: Final = re.compile(r"(?:0x)?[0-9a-f-]+", re.IGNORECASE)
_SENTENCE_END: Final = ".,;:!?*"


def find_identifiers(messages: Sequence[Message]) -> tuple[str, ...]:
    """
    Return at most 12 identifiers of the last 10 messages, each once.

    What people and models wrote goes before what tools gave back, and the
    newest before the rest: a directory listing drives out no address that the
    user gave. Of one message, 32,000 characters are read.
    """
    newest_first = messages[: -LOOKED_AT_MESSAGES - 1 : -1]
    # A sort keeps the order of equals.
    by_weight = sorted(newest_first, key=lambda message: isinstance(message, ToolResultMessage))
    found: dict[str, str] = {}
    for message in by_weight:
        for name in _identifiers(message.text):
            found.setdefault(same_identifier(name), name)
            if len(found) == MOST_IDENTIFIERS:
                return tuple(found.values())
    return tuple(found.values())


def same_identifier(name: str) -> str:
    """Return what equal identifiers have in common: the case of hexadecimal digits is no difference."""
    return name.lower() if _HEX.fullmatch(name) else name


def holds_identifier(text: str, name: str) -> bool:
    """Tell whether *name* stands in *text* by itself, rather than as a part of a longer one."""
    flags = re.ASCII | (re.IGNORECASE if _HEX.fullmatch(name) else 0)
    return re.search(rf"(?<!\w)(?<!\w[.-]){re.escape(name)}(?!\w)(?![.-]\w)", text, flags) is not None


def _identifiers(text: str) -> Iterator[str]:
    for match in _IDENTIFIER.finditer(text, 0, _READ_CHARS):
        name = match[0]
        if len(name) > _MAX_IDENTIFIER_CHARS or match.end() == _READ_CHARS:
            continue
        name = name.rstrip(_SENTENCE_END + (")]" if "(" not in name and "[" not in name else ""))
        if len(name) >= MIN_IDENTIFIER_CHARS:
            yield name
