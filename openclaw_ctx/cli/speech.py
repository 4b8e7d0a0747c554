"""How commands speak: results to stdout, what is wrong to stderr."""

import json
import re
import sys
from collections.abc import Iterable
from typing import Any

import click

__all__ = ["clean_text", "complain", "say", "say_json", "warn"]

_LONGEST_LINE = 2_000


# No secret is so short, and none so long has no digit.
_PLAIN = re.compile(r"[a-z0-9_.:-]{0,16}|[a-z_.:-]{0,64}", re.ASCII)


def clean_text(text: str, *, limit: int = 500) -> str:
    """Return *text* as :func:`openclaw_ctx.log.clean_text` does, which a plain name need not load."""
    if _PLAIN.fullmatch(text):
        return text
    from openclaw_ctx.log import clean_text as clean  # noqa: PLC0415 -- 10 ms of patterns

    return clean(text, limit=limit)


def say(text: str, *, error: bool = False) -> None:
    """
    Print *text*, whose foreign parts have been cleaned; colours only on a terminal.

    The stream is named, since click would take one of its own, in UTF-8, where
    the program's takes only ASCII.
    """
    click.echo(text, file=sys.stderr if error else sys.stdout)


def say_json(data: Any) -> None:
    """Print *data*, whose foreign text has been cleaned, as JSON."""
    say(json.dumps(data, indent=2, ensure_ascii=True))


def warn(findings: Iterable[str]) -> list[str]:
    """Say what is questionable in a configuration, a line each, and return it, cleaned."""
    cleaned = [clean_text(finding.removeprefix("$: "), limit=_LONGEST_LINE) for finding in findings]
    for finding in cleaned:
        say(f"Warning: {finding}", error=True)
    return cleaned


def complain(error: Exception | str) -> str:
    """Say what is wrong, and return it. Foreign text in it is cleaned, a line at a time."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        sentence = f"{error.filename!r} cannot be used: {error.strerror.lower()}."
    else:
        sentence = str(error)
    cleaned = "\n".join(clean_text(line, limit=_LONGEST_LINE) for line in sentence.split("\n"))
    say(f"Error: {cleaned}", error=True)
    return cleaned
