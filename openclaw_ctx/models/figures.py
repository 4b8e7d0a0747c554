"""Numbers in what providers say: tokens that were sent, tokens that fit, seconds to wait."""

import datetime as dt
import email.utils
import math
import re
import time
from collections.abc import Mapping
from typing import Final

__all__ = ["asked_wait", "beyond_rate", "observed_tokens", "retry_after_seconds", "token_limit"]

_N = r"(\d[\d,_]*)"
_SIZE = r"(\d[\d,_.]*\d|\d)\s?([km]?)\b"

_SUMS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # "input length and `max_tokens` exceed context limit: 179413 + 32768 > 200000", also "(i.e. A + B > C)"
        rf"input length(?: and `?max_tokens`?)? exceeds? (?:the )?context\b.{{0,20}}?{_N} \+ {_N} > {_N}",
        rf"passed {_N} input tokens and requested {_N} output tokens",
        # Text Generation Inference: "Given: 5000 `inputs` tokens and 512 `max_new_tokens`"
        rf"given: {_N} `inputs` tokens and {_N} `max_new_tokens`",
    )
)
_OBSERVED: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"prompt is too long:\s?{_N} tokens\s?>",
        rf"prompt is too long:\s?{_N}\s?, ?model maximum context length",
        rf"requested:?\s{{1,3}}(?:about )?{_N} tokens",
        rf"token limit\s?:\s?[\d,]+\s?\(requested\s?:\s?{_N}\)",
        rf"resulted in {_N} tokens",
        rf"input length \({_N}\) exceeds",
        rf"(?:request|prompt) \({_N} tokens\) exceeds",
        rf"input token count \({_N}\) exceeds",
        rf"prompt token count of {_N} exceeds",
        rf"(?:request|prompt|input) (?:contains|has) (?:at least )?{_N} (?:input |prompt )?tokens",
        rf"tokens in request more than max tokens allowed:?\s?{_N}\s?>",
        rf"total tokens:?\s?\(?{_N}\)? exceeds?",
    )
)
_LIMIT: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_N} \+ [\d,]+ > {_SIZE}",
        rf"(?:too long|allowed)\W{{0,3}}{_N}(?: tokens)?\s?> ?{_SIZE}",
        rf"()context length is only {_SIZE}",
        rf"()input length should be \[\d+, ?{_SIZE}",
        rf"()maximum (?:model )?(?:context|prompt|input) length(?: is| of)?\W{{0,3}}{_SIZE}",
        rf"(){_SIZE} maximum context length",
        rf"()available context size \({_SIZE}",
        rf"()maximum number of (?:input )?tokens(?: allowed)?\W{{0,3}}{_SIZE}",
        rf"()token limit\s?:\s?{_SIZE}",
        rf"()limit of {_SIZE}",
        rf"()(?:only supports?|(?:supports?|is|of) (?:only|up to|at most)|limited to) (?:a )?{_SIZE}",
    )
)
_PER_MINUTE: Final = re.compile(rf"\blimit:?\s{{1,3}}{_N}\b.{{0,80}}?\brequested:?\s{{1,3}}{_N}\b", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1_000, "m": 1_000_000}

_WAIT: Final = re.compile(
    r"(?:try again|retry|wait)\w*(?: in| after| for)?:?\s{1,3}(?:about )?"
    r"(?:(?P<minutes>\d+)\s?m(?:in(?:ute)?s?)?\s?(?=\d))?(?P<number>\d+(?:\.\d+)?)\s?"
    r"(?P<unit>ms|milliseconds?|m(?:in(?:ute)?s?)?\b|s(?:ec(?:ond)?s?)?\b)",
    re.IGNORECASE,
)
_LONGEST_WAIT: Final = 7 * 24 * 3_600.0


def observed_tokens(text: str) -> int | None:
    """Return how many tokens the provider says that the request had; ``None`` where it doesn't say."""
    for pattern in _SUMS:
        if found := pattern.search(text):
            return _whole(found[1]) + _whole(found[2])
    for pattern in _OBSERVED:
        if found := pattern.search(text):
            return _whole(found[1]) or None
    per_minute = beyond_rate(text)
    return per_minute[1] if per_minute else None


def token_limit(text: str) -> int | None:
    """
    Return how many tokens the provider says that fit; ``None`` where it doesn't say.

    ``256K`` counts as 256,000, which is the smaller reading.
    """
    for pattern in _LIMIT:
        if found := pattern.search(text):
            number = float(found[2].replace(",", "").replace("_", ""))
            return math.floor(number * _UNITS[found[3].lower()]) or None
    per_minute = beyond_rate(text)
    return per_minute[0] if per_minute else None


def beyond_rate(text: str) -> tuple[int, int] | None:
    """Return ``(limit, requested)`` of a rate that one request exceeds by itself; ``None`` where waiting helps."""
    found = _PER_MINUTE.search(text)
    if found is None:
        return None
    limit, requested = _whole(found[1]), _whole(found[2])
    return (limit, requested) if 0 < limit < requested else None


def retry_after_seconds(headers: Mapping[str, str], text: str) -> float | None:
    """
    Return how long the provider asks to wait, from its headers, else from its text; never below 0, at most a week.

    Args:
        headers: By lower-case name. ``retry-after`` is seconds or a date, which is
            compared with the response's own ``date`` where it has one.
        text: What it said, such as ``Please try again in 1m7.5s``.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is not None and re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", value):
            return min(float(value) * unit, _LONGEST_WAIT)
    then = _date(headers.get("retry-after"))
    if then is None:
        return asked_wait(text)
    now = _date(headers.get("date"))
    return min(max(0.0, then - (time.time() if now is None else now)), _LONGEST_WAIT)


def asked_wait(text: str) -> float | None:
    """Return the seconds of ``try again in 7.66s`` and its like; ``None`` where the text asks for no time."""
    found = _WAIT.search(text)
    if found is None:
        return None
    unit = found["unit"].lower()
    factor = 0.001 if unit.startswith(("ms", "milli")) else 60.0 if unit.startswith("m") else 1.0
    return min(float(found["number"]) * factor + 60.0 * int(found["minutes"] or 0), _LONGEST_WAIT)


def _whole(digits: str) -> int:
    # More digits than any window has are no count, and Python refuses to read very many.
    return int(digits.replace(",", "").replace("_", "")[:18])


def _date(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        when = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp()
