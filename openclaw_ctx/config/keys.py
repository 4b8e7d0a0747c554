"""Every key of the configuration, read off the schema classes: what the reference page is held against."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from openclaw_ctx.contract import JSON

from .schema import Settings
from .section import Field, config_fields, inner_section

__all__ = ["CONFIG_KEYS", "ConfigKey"]


class ConfigKey(NamedTuple):
    """
    A key of the file, its default in the file's units, and what it is for.

    In a key, ``<id>`` stands for any name, and ``[]`` for any place in a list.
    """

    key: str
    default: JSON
    description: str


def _config_keys(section: type, prefix: str = "") -> Iterator[ConfigKey]:
    for name, field in config_fields(section).items():
        inner = inner_section(field)
        if inner is None:
            yield ConfigKey(f"{prefix}{name}", _in_file(field), field.metadata["description"])
        else:
            section_inside, held = inner
            step = f".{held}" if held == "<id>" else held
            yield from _config_keys(section_inside, f"{prefix}{name}{step}.")


def _in_file(field: Field) -> JSON:
    per_unit = field.metadata["per_unit"]
    return field.default if per_unit == 1 else field.default * per_unit


CONFIG_KEYS: Final[tuple[ConfigKey, ...]] = tuple(_config_keys(Settings))
"""Every key of ours, in the order of the classes."""
