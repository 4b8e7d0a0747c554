"""Foreign text and foreign exceptions as one harmless line."""

import collections
import re
from collections.abc import Collection, Iterator
from types import TracebackType

from .mask import mask_secrets

__all__ = ["clean_text", "describe_error", "text_of", "trace_error"]

_UNSURE = re.compile(r"[^ -~]")
_SHORT_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# Printable by their category, and yet seen by nobody.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
# More than this is not even looked at. Text that long is a dump.
_LONGEST_READ = 100_000

_MOST_LINKS = 5
_MOST_MEMBERS = 3
_CAUSED_BY = " <- caused by "
_AND_MORE = " <- and more"


def clean_text(text: str, *, limit: int | None = 500) -> str:
    r"""
    Return foreign *text* as one printable line without secrets, of at most *limit* characters.

    Masked first, then escaped, then shortened, so that no cut can bare a piece
    of a secret. Whatever ``str.isprintable`` denies is written out (``\n``,
    ``\x1b``, ``\u202e``). Backslashes stay single: this is for eyes, not for
    decoding back. Cleaning clean text changes nothing that matters.

    Args:
        text: Anything at all, also with lone surrogates.
        limit: Characters of the result, in which the note of how many were
            cut is counted; ``None`` for all of them. With a limit, what lies
            behind the first 100,000 characters is cut unread.
    """
    text = str.__str__(text)
    read = text if limit is None else _beginning(text)
    return _shorten(_UNSURE.sub(_escape, mask_secrets(read)), limit, unread=len(text) - len(read))


def describe_error(error: BaseException, *, limit: int | None = 500) -> str:
    """
    Return an exception and what caused it as one clean line: ``A: text <- caused by B: text``.

    Each link is cleaned by itself, and long ones share *limit*, so that
    neither a secret nor a long tail hides the links behind it. At most five
    links; a group names its first three members. An exception whose own text
    cannot be had says so. Never raises, but for ``KeyboardInterrupt``.
    """
    links: list[str] = []
    more = False
    for link in _chain(error):
        if len(links) == _MOST_LINKS:
            more = True
            break
        links.append(_describe_link(link))
    if limit is not None:
        fixed = len(_CAUSED_BY) * (len(links) - 1) + len(_AND_MORE) * more
        links = _share(links, max(0, limit - fixed))
    line = _CAUSED_BY.join(links) + (_AND_MORE if more else "")
    return _shorten(line, limit)


def trace_error(error: BaseException, *, frames: int = 8, hide: Collection[str] = ()) -> list[str]:
    """
    Return where an error was raised: ``file:line in function``, innermost last, at most so many.

    Frames of the packages in *hide* are on everybody's way, and left out.

    Names and numbers only. No source line and no value is shown, for those may be anybody's.
    """
    # The attribute may be the raiser's own property; the base class's is not.
    trace: TracebackType | None = vars(BaseException)["__traceback__"].__get__(error)
    steps: collections.deque[str] = collections.deque(maxlen=frames)
    while trace is not None:
        code, module = trace.tb_frame.f_code, trace.tb_frame.f_globals.get("__name__")
        if type(module) is not str or not any(f"{module}.".startswith(f"{package}.") for package in hide):
            steps.append(clean_text(f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}"))
        trace = trace.tb_next
    return list(steps)


def text_of(value: object) -> str:
    """
    Return ``str(value)``, or a note of what ``__str__`` raised.

    Only ``KeyboardInterrupt`` passes: it may be the user's.
    """
    try:
        return str(value)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # noqa: BLE001 -- foreign code may raise anything, SystemExit too
        return f"(its text cannot be read: {_type_name(problem)})"


def _beginning(text: str) -> str:
    """Return as much of *text* as is read at all, without its last word: a torn secret might not be known as one."""
    if len(text) <= _LONGEST_READ:
        return text
    words = text[:_LONGEST_READ].rsplit(maxsplit=1)
    return words[0] if len(words) == 2 else ""  # noqa: PLR2004 -- all before, and the last word


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable() and character not in _INVISIBLE:
        return character
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    code = ord(character)
    if code <= 0xFF:  # noqa: PLR2004 -- what two hexadecimal digits hold
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 -- likewise four


def _shorten(text: str, limit: int | None, *, unread: int = 0) -> str:
    if limit is None or (len(text) <= limit and not unread):
        return text
    # The note is one of the characters that the limit counts, and its length depends on what it says.
    kept = limit
    while True:
        note = f" [+{len(text) - kept + unread} characters]"
        if kept + len(note) <= limit:
            return text[:kept] + note
        kept = limit - len(note)
        if kept < 0:
            return text[: max(0, limit)]


def _share(texts: list[str], limit: int) -> list[str]:
    """Shorten the longest of *texts* so that together they have at most *limit* characters."""
    shares: dict[int, str] = {}
    left = limit
    for place, at in enumerate(sorted(range(len(texts)), key=lambda at: len(texts[at]))):
        shares[at] = _shorten(texts[at], left // (len(texts) - place))
        left -= len(shares[at])
    return [shares[at] for at in range(len(texts))]


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: object = error
    while isinstance(link, BaseException) and id(link) not in seen:
        seen.add(id(link))
        yield link
        cause = _own(link, "__cause__")
        link = cause if cause is not None or _own(link, "__suppress_context__") else _own(link, "__context__")


def _own(error: BaseException, name: str) -> object:
    """Read an attribute past whatever a subclass has put over it."""
    base = BaseExceptionGroup if isinstance(error, BaseExceptionGroup) and name == "exceptions" else BaseException
    return base.__dict__[name].__get__(error)


def _describe_link(error: BaseException) -> str:
    described = _describe_one(error)
    members = _own(error, "exceptions") if isinstance(error, BaseExceptionGroup) else ()
    if not isinstance(members, tuple) or not members:
        return described
    named = [_describe_one(member) for member in members[:_MOST_MEMBERS]]
    if len(members) > _MOST_MEMBERS:
        named.append(f"{len(members) - _MOST_MEMBERS} more")
    return f"{described} [{'; '.join(named)}]"


def _describe_one(error: BaseException) -> str:
    name, text = clean_text(_type_name(error)), clean_text(text_of(error), limit=_LONGEST_READ)
    return f"{name}: {text}" if text else name


def _type_name(value: object) -> str:
    return str(type.__dict__["__name__"].__get__(type(value)))
