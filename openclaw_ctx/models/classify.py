"""
What a provider's failure means, read from its status, its codes and its words.

The words come first: overflow is told with 400, 401, 413, 422 and 500, and 429
stands for a limit per minute as well as for a request that no minute will ever
hold. The wordings are those of the reference system, and those from the field
that slipped through it or were mistaken for an overflow.
"""

import re
from typing import Final, Literal, TypeAlias

import attrs

from .figures import asked_wait, beyond_rate

__all__ = ["Failure", "FailureKind", "classify_failure"]

FailureKind: TypeAlias = Literal["overflow", "rate_limit", "auth", "billing", "timeout", "transient", "other"]
"""What to do about it: compact; wait; ask the user (twice); try again (twice); give up."""

_LONGEST_READ: Final = 8_000


@attrs.frozen(kw_only=True)
class Failure:
    """
    What a provider said, or what happened instead.

    Attributes:
        text: Its words, foreign and uncleaned.
        status: The HTTP status; 200 for an error inside a stream.
        codes: ``code`` and ``type`` of its error object.
        retry_after_seconds: What it asks to wait.
        happened: What it was where nobody said anything: no answer in time, or no connection.
    """

    text: str
    status: int | None = None
    codes: tuple[str, ...] = ()
    retry_after_seconds: float | None = None
    happened: Literal["timeout", "connection"] | None = None


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


# -- limits per time, which waiting mends --

_PER_TIME: Final = _any(r"\btp[mdh]\b", r"tokens?[\s_-]per[\s_-](?:min|hour|day|sec|month)")
_REQUESTS_PER_TIME: Final = _any(r"\brp[mdh]\b", r"(?:requests|images)[\s_-]per[\s_-](?:min|hour|day|sec)")
_RATE: Final = _any(
    r"rate[\s_-]?limit",
    r"too[\s_]many[\s_]requests",
    r"too many tokens\W{0,3}(?:please )?(?:wait|try|per)",
    r"\bquota\b",
    r"throttl",
    r"resource[\s_]exhausted",
    r"(?:error|status|http)(?: code)?\W{0,3}429\b",
    r"请求过于频繁",
    r"速率限制",
)

# -- too long, which compaction mends --

_OVERFLOW: Final = _any(
    r"request_too_large",
    r"context[\s_]length[\s_]exceeded",
    r"maximum (?:model )?context length",
    r"prompt (?:is )?too long",
    r"exceeds? (?:the )?model context window",
    r"model token limit",
    r"request exceeds the maximum size",
    r"context overflow:",
    r"context_overflow",
    r"exceed context limit",
    r"exceeds? (?:the )?model'?s maximum context",
    r"context[\s_]window[\s_]exceeded",
    r"exceed_context_size_error",
    # Of single providers.
    r"input token count\b.{0,20}? exceeds? the maximum number of (?:input )?tokens",
    r"input is too long for (?:this|the|requested) model",
    r"input exceeds the maximum number of tokens",
    r"tokens in request more than max tokens allowed",
    r"ollama error: context length exceeded",
    r"total tokens\b.{0,40}? exceeds?\b.{0,40}? limit",
    r"(?:request|prompt)(?: \([\d,]+ tokens\))? exceeds the available context size",
    r"maximum prompt length is",
    r"range of input length should be",
    r"`inputs` tokens \+ `max_new_tokens` must be",
    # From the field, unknown to the reference system.
    r"(?:input|prompt) tokens exceeds? the (?:configured |maximum )?limit",
    r"length of (?:all )?(?:the )?messages\b.{0,20}? too long",
    r"(?:only supports?|only|up to|at most|limited to) (?:a )?[\d,.]+\s?[km]? ?(?:tokens? )?(?:of )?context",
    r"context (?:window |length |size )?(?:is |of )?(?:only|up to|at most|limited to) [\d,.]+",
    r"greater than the context length",
    r"reduce the length of the messages",
    r"(?:prompt|input) (?:is )?longer than\b",
    r"total message size \d+ exceeds",
    r"上下文(?:过长|超出|长度超|太长)",
    r"超出最大上下文",
    r"请压缩上下文",
)
_TOGETHER: Final = (
    ("invalid_argument", "maximum number of tokens"),
    ("input exceeds", "maximum number of tokens"),
    ("request size exceeds", "context window"),
    ("request size exceeds", "context length"),
    ("context window", "ran out of room"),
    ("context window", "ran out of space"),
    ("max_tokens", "exceed", "context"),
    ("input length", "exceed", "context"),
)
# Words that an overflow often has, and other failures too: only where nothing speaks against it.
_LOOSE: Final = _any(
    r"context.{0,40}?overflow",
    r"context window.{0,40}?(?:too large|exceed|limit|over)",
    r"(?:prompt|conversation).{0,40}?(?:too large|exceed|over the limit)",
    r"(?:request|input).{0,40}?(?:context|length|token).{0,40}?(?:exceed|limit)",
    r"(?:input|prompt|request|messages?|conversation) exceeds?.{0,40}?(?:context|token limit|length)",
)
_TOO_SMALL: Final = _any(r"context window.{0,40}?(?:too small|minimum is)")
_FILE: Final = _any(
    r"(?:file|image|picture|attachment|upload|media|pdf|audio|video)s?\b.{0,30}?(?:size|too large|too big|exceed)",
    r"maximum (?:file|image|upload) size",
)

# -- the rest --

_REASONING: Final = _any(r"reasoning\b.{0,60}?(?:mandatory|cannot be disabled|must (?:be|stay) (?:on|enabled))")
_BILLING: Final = _any(
    r"insufficient[\s_](?:quota|credit|balance|fund)",
    r"credit balance",
    r"(?:more|no|out of) credits",
    r"billing",
    r"payment[\s_]required",
    r"exceeded your current quota",
    r"余额不足",
)
_AUTH: Final = _any(
    r"invalid[\s_](?:x-)?api[\s_-]?key",
    r"incorrect api key",
    r"api[\s_]key[\s_](?:not valid|invalid|expired|missing)",
    r"authentication_error",
    r"permission_(?:error|denied)",
    r"unauthori[sz]ed",
)
_TIMEOUT: Final = _any(r"timed?[\s_-]?out", r"deadline[\s_]exceeded", r"timeout_error")
_TRANSIENT: Final = _any(
    r"overloaded",
    r"temporarily unavailable",
    r"service unavailable",
    r"internal[\s_]server[\s_]error",
    r"bad gateway",
    r"api_error",
    r"at capacity",
)

_TOO_LARGE: Final = 413
_TIMEOUTS: Final = frozenset({408, 504, 524})
_PASSING: Final = frozenset({409, 425, 499})
_SERVER: Final = 500


def classify_failure(failure: Failure) -> FailureKind:
    """Return what *failure* means. Pure, linear in the text, and of that only the beginning is read."""
    if failure.happened is not None:
        return "timeout" if failure.happened == "timeout" else "transient"
    said = " ".join((failure.text[:_LONGEST_READ], *failure.codes)).lower()
    if _is_rate(failure, said) and not _REQUESTS_PER_TIME.search(said) and beyond_rate(said):
        return "overflow"  # one request is more than the limit: waiting will never help
    if _PER_TIME.search(said) or _REQUESTS_PER_TIME.search(said):
        return "rate_limit"
    if _REASONING.search(said):
        return "other"
    if _OVERFLOW.search(said) or any(all(part in said for part in parts) for parts in _TOGETHER):
        return "overflow"
    return _otherwise(failure, said)


def _otherwise(failure: Failure, said: str) -> FailureKind:
    status = failure.status or 0
    # A quota that asks to wait is one of those that fill up again.
    if (status == 402 or _BILLING.search(said)) and not _asks_to_wait(failure, said):  # noqa: PLR2004 -- payment required
        return "billing"
    if _is_rate(failure, said):
        return "rate_limit"
    if status in {401, 403} or _AUTH.search(said):
        return "auth"
    if _TOO_SMALL.search(said) or _FILE.search(said):
        return "other"
    if status == _TOO_LARGE or ("413" in said and "too large" in said) or _LOOSE.search(said):
        return "overflow"
    if status in _TIMEOUTS or _TIMEOUT.search(said):
        return "timeout"
    if status >= _SERVER or status in _PASSING or _TRANSIENT.search(said):
        return "transient"
    return "other"


def _is_rate(failure: Failure, said: str) -> bool:
    return failure.status == 429 or bool(_RATE.search(said) or _PER_TIME.search(said))  # noqa: PLR2004 -- the status


def _asks_to_wait(failure: Failure, said: str) -> bool:
    return failure.retry_after_seconds is not None or asked_wait(said) is not None
