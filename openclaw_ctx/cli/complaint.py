"""What a command says when it cannot go on."""

import click

from openclaw_ctx.log import clean_text

__all__ = ["complain"]

_LONGEST_LINE = 2_000


def complain(error: Exception) -> str:
    """Say on stderr what is wrong, and return it. What foreign text it holds is cleaned, a line at a time."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        sentence = f"{error.filename!r} cannot be used: {error.strerror.lower()}."
    else:
        sentence = str(error)
    cleaned = "\n".join(clean_text(line, limit=_LONGEST_LINE) for line in sentence.split("\n"))
    click.echo(f"Error: {cleaned}", err=True)
    return cleaned
