"""Foreign exceptions, and error objects of providers, as our own errors."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from openclaw_ctx.contract import JSON, AbortSignal
from openclaw_ctx.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRejectedError,
    ModelTimeoutError,
    ModelTransientError,
    RateLimitedError,
)
from openclaw_ctx.log import clean_text, describe_error

from .classify import Failure, classify_failure
from .client import obeying
from .figures import observed_tokens, retry_after_seconds, token_limit

__all__ = ["failure_from_body", "failure_from_error", "model_error", "tried"]

_T = TypeVar("_T")

_NO_SENSE = (json.JSONDecodeError, UnicodeDecodeError)


async def tried(
    work: Callable[[], Awaitable[_T]],
    *,
    failures: tuple[type[BaseException], ...],
    provider: str,
    model: str,
    abort: AbortSignal | None,
) -> _T:
    """
    Return what *work* returns, and raise what its failure means.

    The foreign exception is nobody's cause or context: it holds the request with
    its key, and the provider's text as it came.

    Args:
        work: Calls the provider once.
        failures: What the provider's library raises, beside what is no JSON.
        provider: Names the provider in the error.
        model: Names the model in the error.
        abort: Cancels *work*.
    """
    expected: tuple[type[BaseException], ...] = (*failures, *_NO_SENSE)
    try:
        async with obeying(abort):
            return await work()
    except expected as error:
        failure = failure_from_error(error)
    raise model_error(failure, provider=provider, model=model)


def failure_from_error(error: BaseException) -> Failure:
    """Return what an exception of ``openai``, ``anthropic`` or their HTTP library tells."""
    status = getattr(error, "status_code", None)
    if isinstance(error, _NO_SENSE):
        return Failure(text=f"it sent what is no JSON ({type(error).__name__})", happened="connection")
    if "Timeout" in type(error).__name__ and not isinstance(status, int):
        return Failure(text=describe_error(error), happened="timeout")
    body = getattr(error, "body", None)
    if body is None and not isinstance(status, int):
        return Failure(text=describe_error(error), happened="connection")
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    return failure_from_body(
        body,
        status=status if isinstance(status, int) else None,
        headers={str(name).lower(): str(value) for name, value in dict(headers).items()},
        otherwise=str(error),
    )


def failure_from_body(
    body: JSON, *, status: int | None = None, headers: Mapping[str, str] | None = None, otherwise: str = ""
) -> Failure:
    """
    Return what a provider's error object tells, in any of the forms that are about.

    Args:
        body: ``{"error": {"message": ..., "code": ..., "type": ...}}``, the inner
            object alone, a list of one, a bare text, or anything else.
        status: The HTTP status; an error within a 200 has its own in the object.
        headers: By lower-case name.
        otherwise: The text where the body has none.
    """
    error = body[0] if isinstance(body, list) and body else body
    codes: list[str] = []
    while isinstance(error, Mapping) and isinstance(error.get("error"), Mapping | str):
        codes.extend(_codes(error))
        error = error["error"]
    text = error if isinstance(error, str) else ""
    if isinstance(error, Mapping):
        codes.extend(_codes(error))
        text = _text(error)
        own = error.get("code")
        if (status is None or status < 400) and isinstance(own, int):  # noqa: PLR2004 -- an HTTP status that is no error
            status = own
    text = text.strip() or otherwise or (f"HTTP {status}" if status else "it did not say why")
    return Failure(
        text=text, status=status, codes=tuple(codes), retry_after_seconds=retry_after_seconds(headers or {}, text)
    )


def model_error(failure: Failure, *, provider: str, model: str) -> ModelError:
    """Return the error that a failure is, its text cleaned and without secrets."""
    said = clean_text(failure.text)
    named: dict[str, Any] = {"provider": provider, "model": model, "said": said}
    match classify_failure(failure):
        case "overflow":
            return ContextOverflowError(
                **named, observed_tokens=observed_tokens(failure.text), limit=token_limit(failure.text)
            )
        case "rate_limit":
            return RateLimitedError(**named, retry_after_seconds=failure.retry_after_seconds)
        case "auth" | "billing":
            return ModelAuthError(**named)
        case "timeout":
            return ModelTimeoutError(**named)
        case "transient":
            return ModelTransientError(**named)
        case "other":
            return ModelRejectedError(**named)


def _codes(error: Mapping[str, JSON]) -> list[str]:
    return [error[key] for key in ("code", "type", "status") if isinstance(error.get(key), str)]


def _text(error: Mapping[str, JSON]) -> str:
    """Return the words of an error object; those of a router say little, and it hands on its provider's."""
    words = next((error[key] for key in ("message", "detail", "error_msg") if error.get(key)), "")
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    return " ".join(str(part) for part in (words, raw) if part)
