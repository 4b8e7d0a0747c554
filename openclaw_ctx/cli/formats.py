"""Formats that ``--format`` may name."""

import importlib.metadata

import click

from openclaw_ctx.transcript.importers import ENTRY_POINT_GROUP, FORMATS

__all__ = ["check_format"]


def check_format(name: str) -> None:
    """
    Refuse a format that nobody offers; nothing of others is imported for that.

    Raises:
        click.BadParameter: It is none; the sentence names all there are.
    """
    if name == "auto" or name in FORMATS:
        return
    try:
        offered = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP).names
    except Exception:  # noqa: BLE001 -- somebody's broken metadata, which the importers read one by one
        return
    if name not in offered:
        problem = f"{name!r} is none of auto, {', '.join(sorted({*FORMATS, *offered}))}."
        raise click.BadParameter(problem, param_hint="--format")
