"""What keeps a model that was asked for from being asked, as a person reads it."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from openclaw_ctx.errors import ModelAuthError

__all__ = ["reaching"]


class _Unusable(click.ClickException):
    """What was asked for cannot be used as it is."""

    exit_code = 2


@contextmanager
def reaching() -> Iterator[None]:
    """Turn a missing key, and the missing package of a provider, into one line and exit code 2."""
    try:
        yield
    except (ModelAuthError, ImportError) as error:
        raise _Unusable(str(error)) from None
