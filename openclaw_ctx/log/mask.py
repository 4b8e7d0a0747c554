"""
Secrets out of text and data, before anybody shortens, stores or prints them.

Four passes: private key blocks, the user part of URLs, values whose name says
that they are secret, and bare tokens of well known shapes. Where the end of a
value is unclear the longer reading wins: a lost word is cheaper than a leak.

Every pass is linear in the text. Repeats in the patterns are bounded or cannot
give back, and a value whose end is searched for is consumed by that search.
"""

import re
from collections.abc import Callable
from typing import Any

from .names import names_secret

__all__ = ["MASK", "mask_data", "mask_secrets", "remember_secret", "walk"]

_LEAST_SECRET = 8
MASK = "[masked]"
_DEEPEST = 64

_QUOTE = r"(?:\\{0,8}[\"'`]|&quot;|&\#3[49];)"
_GAP = r"(?:\s|\x1b\[[\d;]{0,16}m){0,8}"
_PAIR = re.compile(
    rf"""
    (?<![\w.\-]) (?P<flag>(?=--)|(?<=<)(?=Cookie[ ]))? (?P<name>[\w.\-]++)
    (?: (?P<assigned> {_QUOTE}?\]?
            (?: {_GAP}:\s{{0,4}}[A-Za-z_][\w.|\[\]\ ]{{0,40}}\s=\s{{0,4}}(?=["'])   # password: str = "..."
            |   {_GAP}(?:=>|:=|[!]?={{1,3}}|:|%3[DdAa]){_GAP} ) )
    |   (?P<valued> {_QUOTE}\s{{0,8}},?\s{{0,8}}{_QUOTE}?value{_QUOTE}?\s{{0,8}}[:=]\s{{0,8}} )  # HAR: "value": ..
    |   (?P<paired> {_QUOTE},\s{{0,8}}(?=[bBuU]?{_QUOTE}) )                          # ('authorization', 'Bearer ..')
    |   (?P<flagged> (?(flag)[ \t]{{1,4}}(?=[^\s\-])|(?!)) )                          # --api-key ..
    |   (?P<tagged> > )                                                              # <password>..</password>
    )
    """,
    re.VERBOSE,
)
_OPENS_PAIR = re.compile(r"[(\[]\s{0,4}[bBuU]?\\{0,8}[\"'`]\Z")
_OPENS_QUERY = re.compile(r"(?:[?&]|&amp;)\Z")
_OPENS_QUERY_LENGTH = 5
_QUERY_NAMES = frozenset({"code", "key", "sig", "signature"})
# "API key: ..", "API key provided: ..", but not "unexpected token: ..".
_TWO_WORDS = re.compile(
    r"(?<!\w)(?:access|account|api|auth|encryption|license|master|private|secret|signing)[ ]key\Z"
    r"|(?<!\w)(?:key|password|secret|token)[ ](?:given|provided|supplied)\Z",
    re.IGNORECASE,
)
_TEXT_TOKEN = re.compile(r"(?<!\w)(?:max|min|next|per|unexpected)[ ]token\Z", re.IGNORECASE)
_LOOK_BACK = 16

_OPENING_QUOTE = re.compile(r"[bBuUrRfF]{0,2}(?P<slashes>\\{0,8})(?P<quote>[\"'`])")
_CLOSING_QUOTE = {quote: re.compile(rf"(?<!\\)(?P<slashes>\\*+){quote}") for quote in "\"'`"}
_OPENING_BRACKET = re.compile(r"(?:[A-Za-z_][\w.]{0,80})?[(\[{]")
_STRUCTURE = re.compile(r"\\.|[()\[\]{}\"'`]", re.DOTALL)
_NOTHING = re.compile(r"(?:nil|none|null|undefined)(?=[\s,;)\]}\"'&<]|\Z)", re.IGNORECASE)
_SCHEME = re.compile(r"(?:apikey|basic|bearer|bot|negotiate|ntlm|token)(?:[ \t]|%20){1,4}(?=\S)", re.IGNORECASE)
_GLUED = re.compile(r"[\w@$%^*!.+/~-]")
_TRAILING = ".,;:!?)]}>"
_MOST_TRAILING = 5

_AFTER_STRING = re.compile(r"[\s,;:)\]}>]|\Z")
_ENDS_STRING = r"\\{0,8}[\"'`](?:[\s,;:)\]}>]|\Z)"
_WORD_END = re.compile(rf"\s|{_ENDS_STRING}|,\\{{0,8}}[\"']|\Z")
_QUERY_END = re.compile(rf"[\s&#]|{_ENDS_STRING}|\Z")
_LINE_END = re.compile(rf"[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|\\{{1,8}}[nr]|{_ENDS_STRING}|\Z")
_TAG_END = re.compile(r"<|\Z")
_PARAMETER = r"[\w\-]{1,80}=(?:\"[^\"]{0,2000}\"?|[^\s,\"]*+)"
_PARAMETERS = re.compile(rf"(?:[\w\-]{{1,80}}[ \t]{{1,4}})?{_PARAMETER}(?:,[ \t]{{0,4}}{_PARAMETER})*")
_COOKIES = re.compile(
    r"""
    (?:"[^"\r\n]{0,4096}"|[^\s;,\\]|\\(?![nr]))*
    (?:  ;[ \t]{0,4} (?:"[^"\r\n]{0,4096}"|[^\s;,\\]|\\(?![nr]))*
    |    ,[ \t]{0,4} (?=[^\s;,=]{1,256}=) (?:"[^"\r\n]{0,4096}"|[^\s;,\\]|\\(?![nr]))*
    |    ,[ ]\d{1,2}[ \-]\w{3}[ \-]\d{2,4}[ ][\d:]{8}[ ]GMT
    )*
    """,
    re.VERBOSE,
)

_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
# The name is masked too: https://TOKEN:x-oauth-basic@host has its secret there. A port is no password.
_USER_INFO = re.compile(
    r"(?<=://)[^\s/?#@:]{0,256}:(?!\d{1,5}(?:[/?#\s]|\Z))[^\s@]{0,256}+(?:@[^\s/?#@]{0,256}+)*@"
    r"|(?:(?<=https://)|(?<=http://))[^\s/?#@:\[]{1,256}+@",
)
_BEFORE_SHAPE = (
    r"(?=[A-Zdeghlnprstvwxy])"
    r"(?:(?<![A-Za-z0-9])|(?<=\\[fnrtv])|(?<=%[0-9A-Fa-f]{2})|(?<=\\x[0-9a-f]{2})|(?<=\\u[0-9a-f]{4})|(?<=\dm))"
)
_SHAPES = re.compile(
    _BEFORE_SHAPE
    + r"""(?:
        sk-[\w\-]{8,} | (?:sk|rk|pk)_(?:live|test)_\w{8,} | whsec_[\w+/=]{16,}
    |   gh[opusr]_[A-Za-z0-9]{10,} | github_pat_\w{10,} | gl[a-z]{2,6}-[\w\-.]{16,}
    |   xox[a-z](?:\.xox[a-z])?-[\w\-.%]{8,} | xapp-[\w\-]{8,}
    |   (?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,} | AIza[\w\-]{20,} | ya29\.[\w\-.]{16,} | GOCSPX-[\w\-]{16,}
    |   (?:hf|npm|gsk|r8)_[A-Za-z0-9]{16,} | (?:xai|pplx|nvapi|tvly|pypi|dckr_pat)-[\w\-]{16,}
    |   dop_v1_\w{16,} | shp(?:at|ca|pa|ss)_\w{16,} | lin_api_\w{16,} | ntn_\w{16,}
    |   SG\.[\w\-]{10,}\.[\w\-]{10,} | AGE-SECRET-KEY-1\w{16,}
    |   eyJ[\w\-]{13,}(?:\.[\w\-]*){0,8}
    )""",
    re.VERBOSE | re.ASCII,
)
_MORE_SHAPES = re.compile(
    r"""
        (?P<kept> hooks\.slack\.com/(?:services|workflows|triggers)/
        |   discord(?:app)?\.com/api/webhooks/\d{5,30}/
        |   [Bb][Ee][Aa][Rr][Ee][Rr](?:[ \t]|%20){1,4}
            (?!(?:and|auth\w{0,12}|credentials?|for|has|header|in|is|missing|must|not|of|or|required|scheme|tokens?|was)
               (?:[\s.,;:!?)"']|\Z)|(?:error|realm|scope)=)
        )
        [^\s"'`,;<>()\[\]{}]{3,}
    |   (?P<basic> \b[Bb]asic(?:[ \t]|%20){1,4} ) [A-Za-z0-9+/](?=[A-Za-z+/]{0,64}[A-Z0-9=])[A-Za-z0-9+/]{5,}={0,2}
    |   (?<!\d)\d{8,10}:[\w\-]{35}(?![\w\-])
    """,
    re.VERBOSE | re.ASCII,
)


# What configurations took from the environment; longest first, since one may hold another.
_remembered: tuple[str, ...] = ()


def remember_secret(value: str) -> None:
    """
    Mask *value* wherever it turns up from now on, in this process.

    For secrets whose shape says nothing, such as what ``${VAR}`` stood for. Values
    under eight characters are left alone: they are words as often as secrets.
    """
    global _remembered  # noqa: PLW0603 -- a secret is one for the whole process
    if len(value) >= _LEAST_SECRET and value not in _remembered:
        _remembered = tuple(sorted((*_remembered, value), key=len, reverse=True))


def mask_secrets(text: str) -> str:
    """
    Return *text* with ``[masked]`` in the place of every secret in it.

    The names stay: ``"api_key": "[masked]"``. Masking what is masked already
    changes nothing that matters. Control characters are not touched, so the
    result is not fit for a terminal yet: that is ``clean_text``.
    """
    for secret in _remembered:
        text = text.replace(secret, MASK)
    text = _KEY_BLOCK.sub(MASK, text)
    if "@" in text:
        text = _USER_INFO.sub(f"{MASK}@", text)
    text = _mask_named(text)
    text = _SHAPES.sub(MASK, text)
    return _MORE_SHAPES.sub(lambda match: f"{match['kept'] or match['basic'] or ''}{MASK}", text)


def mask_data(value: Any) -> Any:
    """
    Return a copy of JSON-like *value* without secrets, in plain ``dict`` and ``list``.

    A value under a name that says so is masked whatever its type, unless it
    is ``None`` or ``""``; all other strings pass ``mask_secrets``. Data that
    contains itself, or lies deeper than 64, is cut off with ``"[...]"``.
    """
    return walk(value, _leaf)


def walk(value: Any, leaf: Callable[[Any], Any], *, path: tuple[int, ...] = ()) -> Any:
    """
    Return a copy of *value* with everything in it that is no container, also the keys, passed through *leaf*.

    What a secret's name introduces is not passed on, but masked.
    """
    if not isinstance(value, dict | list | tuple | set | frozenset):
        return leaf(value)
    if len(path) >= _DEEPEST or id(value) in path:
        return "[...]"
    path = (*path, id(value))
    if isinstance(value, dict):
        return _walk_object(value, leaf, path)
    items = list(value)
    return [MASK if _follows_name(items, at) else walk(item, leaf, path=path) for at, item in enumerate(items)]


def _walk_object(value: dict[Any, Any], leaf: Callable[[Any], Any], path: tuple[int, ...]) -> dict[Any, Any]:
    # {"name": "Authorization", "value": "Bearer .."}: the name is data.
    named = any(names_secret(name) for key in ("name", "key") if isinstance(name := value.get(key), str))
    masked: dict[Any, Any] = {}
    for key, item in value.items():
        secret = isinstance(key, str) and (names_secret(key) or (named and key == "value"))
        masked[leaf(key)] = MASK if secret and item is not None and item != "" else walk(item, leaf, path=path)
    return masked


def _leaf(value: Any) -> Any:
    return mask_secrets(str.__str__(value)) if isinstance(value, str) else value


def _follows_name(items: list[Any], index: int) -> bool:
    """Tell whether an item is the second of a pair (name, value), or the argument of a flag."""
    name = items[index - 1] if index else None
    if not isinstance(name, str) or not isinstance(items[index], str | bytes):
        return False
    return (len(items) == 2 or name.startswith("--")) and names_secret(name)  # noqa: PLR2004 -- a pair is two


def _mask_named(text: str) -> str:
    parts: list[str] = []
    done = at = 0
    while match := _PAIR.search(text, at):
        at = match.end("name")
        if not _is_secret(text, match):
            continue
        start, end = _value(text, match)
        at = max(at, end)
        if start < end:
            parts += (text[done:start], MASK)
            done = end
    return "".join((*parts, text[done:]))


def _is_secret(text: str, match: re.Match[str]) -> bool:
    name, start = match["name"], match.start("name")
    before = text[max(0, start - _LOOK_BACK) : start]
    if before.endswith("\\") and name[0] in "fnrtv":
        name = name[1:]  # the letter belongs to a written-out line break: '\npassword=..'
    if match["flagged"]:
        return (name.startswith("--") and names_secret(name)) or (before.endswith("<") and name == "Cookie")
    if match["tagged"]:
        return before.endswith("<") and names_secret(name)
    if match["paired"]:
        return (name.startswith("--") or bool(_OPENS_PAIR.search(before))) and names_secret(name)
    if name.lower() in _QUERY_NAMES and _OPENS_QUERY.search(before):
        return True
    words = before + name
    return (names_secret(name) and not _TEXT_TOKEN.search(words)) or bool(_TWO_WORDS.search(words))


def _value(text: str, match: re.Match[str]) -> tuple[int, int]:
    """Return where the value behind a name starts and ends; nothing to hide is an empty span."""
    at = match.end()
    if match["tagged"]:
        return at, _end(_TAG_END, text, at)
    if opening := _OPENING_QUOTE.match(text, at):
        return _quoted(text, opening)
    if _NOTHING.match(text, at):
        return at, at
    if opening := _OPENING_BRACKET.match(text, at):
        return at, _bracketed(text, opening.end() - 1)
    name = match["name"].lower()
    if name.endswith(("cookie", "cookies")) and (cookies := _COOKIES.match(text, at)):
        return at, cookies.end()
    if name.endswith(("passphrase", "mnemonic")):
        return at, _end(_LINE_END, text, at)
    if scheme := _SCHEME.match(text, at):
        at = scheme.end()
        if text.startswith("[", at):
            return at, _bracketed(text, at)
    elif name.endswith(("authorization", "authorisation")):
        parameters = _PARAMETERS.match(text, at)
        return at, parameters.end() if parameters else _end(_LINE_END, text, at)
    start = match.start("name")
    return at, _bare(text, at, in_query=bool(_OPENS_QUERY.search(text[max(0, start - _OPENS_QUERY_LENGTH) : start])))


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where *pattern*, which matches the end of any text, is found next."""
    found = pattern.search(text, at)
    return found.start() if found else len(text)


def _quoted(text: str, opening: re.Match[str]) -> tuple[int, int]:
    """
    Return the inside of a quoted value, or all that is left where no quote closes it.

    JSON inside JSON has as many backslashes before the closing quote as
    before the opening one, or, behind a value that ends in backslashes, twice
    as many and one more, and again. Fewer close the string around it. A value
    that merely looks as if it closed goes on, and so do doubled quotes (SQL,
    triple quotes).
    """
    slashes, quote = len(opening["slashes"]), opening["quote"]
    at = opening.end()
    while closing := _CLOSING_QUOTE[quote].search(text, at):
        found, at = len(closing["slashes"]), closing.end()
        if found > slashes and (found % (2 * slashes + 2) != slashes or not _AFTER_STRING.match(text, at)):
            continue
        if slashes or not text.startswith(quote, at):
            return opening.end(), at - 1 - min(found, slashes)
        at += 1
    return opening.start(), len(text)


def _bracketed(text: str, at: int) -> int:
    """Return the end of a bracketed value, or of the text where no bracket closes it."""
    depth = 0
    inside: str | None = None
    for found in _STRUCTURE.finditer(text, at):
        sign = found[0]
        if inside:
            inside = None if sign == inside else inside
        elif sign in "\"'`":
            inside = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
            if depth == 0:
                end = found.end()
                return _bare(text, end, in_query=False) if _GLUED.match(text, end) else end
    return len(text)


def _bare(text: str, at: int, *, in_query: bool) -> int:
    """Return the end of an unquoted value, giving the sentence its punctuation back."""
    end = _end(_QUERY_END if in_query else _WORD_END, text, at)
    trimmed = at + len(text[at:end].rstrip(_TRAILING))
    return max(trimmed, end - _MOST_TRAILING)
