"""
The terms of a text: what a search compares.

Words are cut to their stems, identifiers and paths give their parts and themselves,
and Chinese, Japanese and Korean give every sign and every pair of neighbours, so
that a query of one or two signs finds them.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Final

__all__ = ["LONGEST_TEXT", "count_terms", "digest_of", "query_terms", "words_of"]

LONGEST_TEXT: Final = 1 << 18
"""Characters of a text that are searched; what stands behind them comes back with it, but is not found."""

_LONGEST_TERM: Final = 64
"""Characters of a term: what encodes binary data is one bounded term."""

_LONGEST_TOKEN: Final = 512
"""Characters of a path or identifier that are taken apart."""

_MOST_HUMPS: Final = 8
"""A word that changes case more often is no identifier, but encoded data."""

_LONGEST_QUERY: Final = 8_192
"""Characters of a query: of a longer one both ends, for the question stands before or behind what was pasted."""

_MOST_QUERY_TERMS: Final = 128
"""Terms of a query that are looked up, from both ends likewise."""

_MOST_KNOWN: Final = 100_000
"""Tokens whose terms are remembered."""

# English words that bind others; of other languages the weight by rarity takes care.
_STOP_WORDS: Final = (
    "a about am an and any are as at be been but by can could did do does for from had has have he her his how i if in"
    " into is it its me my no not of on or our she so some than that the their them then there these they this those"
    " to was we were what when where which who whom whose why will with would you your"
)
_STOP = frozenset(_STOP_WORDS.split())
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:[_./:@\-][^\W_{_CJK}]+)*")
_ASCII_TOKEN = re.compile(r"[A-Za-z0-9]+(?:[_./:@\-][A-Za-z0-9]+)*")
_JOINT = re.compile(r"[_./:@\-]")
_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CJK_SIGN = re.compile(f"[{_CJK}]")
_VOWEL = re.compile("[aeiouy]")
_WORD = re.compile(r"\w+")


def count_terms(text: str) -> Counter[str]:
    """Return how often each term stands in *text*; of a very long text its beginning only."""
    return Counter(_terms(_tokens(text[:LONGEST_TEXT])))


def query_terms(text: str) -> list[str]:
    """
    Return the terms to look up for a query, each once; none where it has no word in it.

    Words that only bind others are left out, unless there are no others.
    """
    if len(text) > _LONGEST_QUERY:
        half = _LONGEST_QUERY // 2
        text = f"{text[:half]} {text[-half:]}"
    tokens = _tokens(text)
    telling = [token for token in tokens if token.lower() not in _STOP]
    found = list(dict.fromkeys(_terms(telling or tokens)))
    if len(found) > _MOST_QUERY_TERMS:
        half = _MOST_QUERY_TERMS // 2
        found = found[:half] + found[-half:]
    return found


def words_of(text: str) -> set[str]:
    """Return the whole words of a query or a name, without regard to case."""
    half = _LONGEST_QUERY // 2
    return {word.casefold() for end in {text[:half], text[-half:]} for word in _WORD.findall(end)}


def digest_of(text: str) -> int:
    """Return 64 bits that are equal where two texts differ in case and white space at most."""
    plain = " ".join(text.casefold().split())
    return int.from_bytes(blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def stem(word: str) -> str:
    """
    Return an English word without plural, -ed, -ing, -ly and final e; y becomes i.

    Words of other languages pass almost untouched.
    """
    if len(word) < 4 or not word.isascii() or not word.isalpha():  # noqa: PLR2004 -- shorter ones have no ending
        return word
    word = _without_plural(word)
    for suffix in ("ing", "ed", "ly"):
        root = word[: -len(suffix)]
        if word.endswith(suffix) and len(root) > 2 and _VOWEL.search(root):  # noqa: PLR2004 -- "sing", "red"
            word = root
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":  # noqa: PLR2004 -- "add"
                word = word[:-1]
            break
    if len(word) > 3 and word[-1] == "e":  # noqa: PLR2004 -- "the"
        word = word[:-1]
    if len(word) > 3 and word[-1] == "y" and word[-2] not in "aeiou":  # noqa: PLR2004 -- "why"
        word = word[:-1] + "i"
    return word


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:  # noqa: PLR2004 -- "lies"
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _tokens(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_TOKEN.findall(text)
    if not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", text)
    return _TOKEN.findall(text)


def _terms(tokens: Iterable[str]) -> Iterable[str]:
    return chain.from_iterable(map(_known.__getitem__, tokens))


class _Known(dict[str, tuple[str, ...]]):
    """The terms of the tokens that were met; a token is taken apart once."""

    def __missing__(self, token: str) -> tuple[str, ...]:
        if _CJK_SIGN.match(token):  # a clause, which seldom comes again
            return (*token, *map("".join, pairwise(token)))
        terms = _expand(token)
        if len(token) <= _LONGEST_TERM:
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[token] = terms
        return terms


_known = _Known()


def _expand(token: str) -> tuple[str, ...]:
    found: list[str] = []
    parts = _JOINT.split(token[:_LONGEST_TOKEN])
    for part in parts:
        humps = _HUMP.split(part)
        if len(humps) > _MOST_HUMPS or len(part) > _LONGEST_TERM:
            found.append(part[:_LONGEST_TERM].lower())
            continue
        found += [stem(hump.lower()) for hump in humps]
        if len(humps) > 1:
            found.append(part.lower())
    if len(parts) > 1:
        found.append("".join(parts).lower()[:_LONGEST_TERM])
    # A joint may end the bounded token.
    return tuple(term for term in found if term)
