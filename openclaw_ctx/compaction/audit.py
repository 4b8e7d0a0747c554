"""
Whether a summary has what it must have.

The audit reads words, not meaning: it errs towards letting a summary pass,
since one that is refused too often leaves the history as large as it was.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from .extracts import shortened_request
from .identifiers import holds_identifier
from .safeguard import PENDING_SECTION, REQUIRED_SECTIONS, headings, untrusted

__all__ = ["FEW_KEYWORDS", "MOST_KEYWORDS", "audit_summary", "retry_instructions"]

MOST_KEYWORDS: Final = 12
"""So many words of a request are looked for; the reference system's."""

FEW_KEYWORDS: Final = 3
"""From so many words on that mean something, two must be found; the reference system's."""

_LISTED_CHARS: Final = 1_200
_ASK_CHARS: Final = 2_000
_COVERED: Final = 0.8

_CJK: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_IDEOGRAPH: Final = re.compile(rf"[{_CJK}]")
_ENDINGS: Final = ("ing", "ed", "es", "s", "e")
_LEAST_STEM: Final = 3
_ITEM: Final = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_NOTHING: Final = re.compile(r"\W*+(?:none|nothing|n/?a)?+\W*+", re.IGNORECASE)
_EMPTY_WORDS: Final = """
    a about all also am an and any are as at be been but by can could did do does for from get give go had has have
    he her here him his how i if in into is it its just let like make may me more my need no not now of off ok okay
    on one or our out over please shall she should so some such than thanks that the their them then there these
    they this those to too up us use very want was we were what when where which who why will with would yes you
    your
"""

_MEANINGS: Final = {
    "missing_section": "a heading is missing, or stands in the wrong place",
    "duplicate_section": "a heading stands there twice",
    "missing_identifiers": "these must stand in the summary, letter for letter",
    "missing_identifiers_omitted": "so many more are missing",
    "latest_user_ask_not_reflected": "the user's latest unanswered request is missing",
    "latest_user_ask_not_foregrounded": f"it must be the first item under {PENDING_SECTION}",
    "retained_turn_ask_marked_pending": "a request that was answered is listed as pending",
}
_REFUSED: Final = "An automatic check refused your last summary, for these reasons"
_AGAIN: Final = "Write the whole summary again, under the same headings, without these faults."


def audit_summary(
    summary: str,
    *,
    identifiers: Sequence[str],
    latest_ask: str | None,
    retained_asks: Sequence[str],
    check_identifiers: bool,
) -> tuple[str, ...]:
    """
    Return why *summary* will not do, in the reference system's codes; nothing where it will.

    A reason may quote identifiers and is foreign text. Two words of a request
    show that it is there, one where it has fewer than three that mean
    something.

    Args:
        summary: Without what is appended to it later.
        identifiers: What must stand in it letter for letter.
        latest_ask: What the user asked for last and nobody has answered: the first of the pending.
        retained_asks: Requests that stand in turns kept word by word, and must not be pending.
        check_identifiers: Whether *identifiers* count.
    """
    lines = [line for _, line in headings(summary)]
    reasons = [*_section_reasons(lines)]
    if check_identifiers:
        reasons.extend(_identifier_reasons(summary, identifiers))
    items = _pending_items(summary)
    if latest_ask is not None:
        if not _reflects(summary, latest_ask):
            reasons.append("latest_user_ask_not_reflected")
        elif PENDING_SECTION in lines and not (items and _reflects(items[0], latest_ask)):
            reasons.append("latest_user_ask_not_foregrounded")
    finished = [ask for ask in retained_asks if shortened_request(ask) != latest_ask]
    if any(_is_about(item, ask, latest_ask) for item in items for ask in finished):
        reasons.append("retained_turn_ask_marked_pending")
    return tuple(reasons)


def retry_instructions(reasons: Sequence[str], *, max_chars: int) -> str:
    """
    Return what a summariser is told of the reasons, as data, in at most *max_chars* characters.

    Reasons that don't fit are left out from the end.
    """
    told = [_told(reason) for reason in reasons]
    while True:
        text = f"{untrusted(_REFUSED, chr(10).join(told))}\n{_AGAIN}"
        if len(text) <= max_chars:
            return text
        if not told:
            return _AGAIN[: max(0, max_chars)]
        told.pop()


def _told(reason: str) -> str:
    reason = " ".join(reason.split())
    meaning = _MEANINGS.get(reason.partition(":")[0])
    return f"- {reason} ({meaning})" if meaning else f"- {reason}"


def _section_reasons(lines: Sequence[str]) -> Iterator[str]:
    last = -1
    for section in REQUIRED_SECTIONS:
        place = lines.index(section) if section in lines else -1
        if place <= last:
            yield f"missing_section:{section}"
        last = max(place, last)
    for section in REQUIRED_SECTIONS:
        if lines.count(section) > 1:
            yield f"duplicate_section:{section}"


def _identifier_reasons(summary: str, identifiers: Sequence[str]) -> Iterator[str]:
    missing = [name for name in identifiers if not holds_identifier(summary, name)]
    if not missing:
        return
    room = _LISTED_CHARS
    listed: list[str] = []
    for name in missing:
        room -= len(name) + 2
        if room >= 0:
            listed.append(name)
    yield f"missing_identifiers:{', '.join(listed)}"
    if len(listed) < len(missing):
        yield f"missing_identifiers_omitted:{len(missing) - len(listed)}"


def _pending_items(summary: str) -> list[str]:
    """Return the items under the pending heading; paragraphs, where they are no list, and nothing for ``None.``."""
    found: list[list[str]] = []
    fresh = True
    for line in _section(summary, PENDING_SECTION).split("\n"):
        if not line.strip():
            fresh = True
            continue
        if fresh or _ITEM.match(line):
            found.append([])
        found[-1].append(line.strip())
        fresh = False
    items = [" ".join(lines) for lines in found]
    if len(items) > 1 and items[0].endswith(":") and not _ITEM.match(items[0]):
        del items[0]
    return [item for item in items if not _NOTHING.fullmatch(item)]


def _section(summary: str, heading: str) -> str:
    """Return what stands under *heading*, up to the next one of its level."""
    start: int | None = None
    for offset, line in headings(summary):
        if start is not None and line.startswith(("# ", "## ")):
            return summary[start:offset]
        if start is None and line == heading:
            start = offset + len(line)
    return "" if start is None else summary[start:]


def _reflects(text: str, ask: str) -> bool:
    words, needed = _keywords(ask)
    said = set(_words(text))
    return not words or sum(word in said for word in words) >= needed


def _is_about(item: str, ask: str, latest: str | None) -> bool:
    """Tell whether *item* lists *ask*: nearly all of its words, where it has enough, and not those of *latest*."""
    words, _ = _keywords(ask)
    said = set(_words(item))
    if len(words) < FEW_KEYWORDS:
        return [*_words(item)] == [*_words(ask[:_ASK_CHARS])]
    share = _share(words, said)
    return share >= _COVERED and (latest is None or share > _share(_keywords(latest)[0], said))


def _share(words: Sequence[str], said: Iterable[str]) -> float:
    return len(set(words) & set(said)) / len(words) if words else 0.0


def _keywords(ask: str) -> tuple[list[str], int]:
    """Return the words that a request is known by, and how many of them must be found."""
    words = [*dict.fromkeys(_words(ask[:_ASK_CHARS]))]
    telling = [word for word in words if word not in _EMPTY_STEMS and len(word) > 1]
    needed = 2 if len(telling) >= FEW_KEYWORDS else 1
    return (telling or words)[:MOST_KEYWORDS], needed


def _words(text: str) -> Iterator[str]:
    """Yield words without their endings; pairs of characters, where a script puts no spaces between words."""
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text).casefold()):
        word = match[0]
        if _IDEOGRAPH.match(word):
            yield from (word[place : place + 2] for place in range(max(1, len(word) - 1)))
        else:
            yield _stem(word)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST_STEM:
            word = word.removesuffix(ending)
            break
    return word.removesuffix("e") if len(word) > _LEAST_STEM else word


_EMPTY_STEMS: Final = frozenset(map(_stem, _EMPTY_WORDS.split()))
