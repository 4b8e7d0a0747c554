"""
What a section of the configuration is made of: keys that know their name, their words and their rule.

A section is an attrs class whose attributes are declared by :func:`declare`. Nothing
here reads a file: the reader goes by what the attributes carry.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, TypeAlias, get_args, get_origin

import attrs

from openclaw_ctx.contract import JSON

__all__ = [
    "COUNT",
    "COUNT_OR_NULL",
    "DURATION_UNITS",
    "EVERY_KEY",
    "LONGEST_SECONDS",
    "SHARE",
    "SIZE",
    "SIZE_OR_NULL",
    "SIZE_UNITS",
    "WAIT",
    "WAIT_OR_NEVER",
    "WHOLE",
    "WHOLE_OR_NULL",
    "Field",
    "Must",
    "Section",
    "as_tuple",
    "config_fields",
    "declare",
    "inner_section",
    "is_model_name",
    "texts",
]

Field: TypeAlias = "attrs.Attribute[Any]"

EVERY_KEY: Final = None
"""As ``foreign_keys``: whatever else stands in the section is somebody else's. As ``own_variables``: of every key."""

# Thirty years. A wait of more than threading.TIMEOUT_MAX raises OverflowError, long after the file was read.
LONGEST_SECONDS: Final = 1e9


DURATION_UNITS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
"""Seconds of each unit that may stand in a text such as ``5m`` or ``1h30m``."""

SIZE_UNITS: Final[Mapping[str, float]] = {
    unit: 1024**power for power, units in enumerate((("b",), ("k", "kb"), ("m", "mb"), ("g", "gb"))) for unit in units
}
"""Bytes of each unit that may stand in a text such as ``20mb``; a kilobyte is 1024, as in the reference system."""


class Section:
    """
    The base of every section: a value, equal to another of its class with the same content.

    attrs would write and compile these methods for every class anew, and slots
    make it build every class twice, which is most of what importing the schema
    takes; a section is compared rarely.

    Attributes:
        foreign_keys: Keys that are somebody else's, passed over in silence.
        own_variables: Keys of an entry in which an unset ``${VAR}`` switches off nothing but that entry.
        shorthand: The key that a plain text in the section's place stands for.
    """

    foreign_keys: ClassVar[frozenset[str] | None] = EVERY_KEY
    own_variables: ClassVar[frozenset[str] | None] = frozenset()
    shorthand: ClassVar[str | None] = None

    def __eq__(self, other: object) -> bool:
        """Whether *other* is of the same class and has the same content."""
        return self._content() == other._content() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._content()))

    def __repr__(self) -> str:
        kind: Any = type(self)
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in attrs.fields(kind) if f.repr)
        return f"{type(self).__name__}({shown})"

    def _content(self) -> tuple[object, ...]:
        kind: Any = type(self)
        return tuple(getattr(self, field.name) for field in attrs.fields(kind))


@attrs.frozen
class Must:
    """An attrs validator that can say in words what it expects, in the units of the file."""

    expectation: str
    holds: Callable[[Any], bool]

    def __call__(self, _instance: object, attribute: Field, value: object) -> None:
        """
        Do nothing where the value holds.

        Raises:
            ValueError: It does not.
        """
        if not self.holds(value):
            message = f"{attribute.name}: expected {self.expectation}"
            raise ValueError(message)


def _or_null(must: Must) -> Must:
    return Must(f"{must.expectation}, or null", lambda v: v is None or must.holds(v))


WAIT: Final = Must("a number of seconds above 0 and at most 1e9", lambda v: 0 < v <= LONGEST_SECONDS)
WAIT_OR_NEVER: Final = _or_null(WAIT)
COUNT: Final = Must("a whole number of at least 1", lambda v: v >= 1)
COUNT_OR_NULL: Final = _or_null(COUNT)
WHOLE: Final = Must("a whole number of at least 0", lambda v: v >= 0)
WHOLE_OR_NULL: Final = _or_null(WHOLE)
SHARE: Final = Must("a number from 0 to 1", lambda v: 0 <= v <= 1)
SIZE: Final = Must('bytes of at least 0, as a whole number or a text such as "20mb"', lambda v: v >= 0)
SIZE_OR_NULL: Final = _or_null(SIZE)


def declare(
    key: str,
    description: str,
    *,
    default: Any = attrs.NOTHING,
    factory: Callable[[], Any] | None = None,
    must: Must | None = None,
    converter: Callable[[Any], Any] | None = None,
    per_unit: int = 1,
    units: Mapping[str, float] | None = None,
    remark: Callable[[JSON], str | None] | None = None,
    secret: bool = False,
) -> Any:
    """
    Declare an attribute read from *key*, whose number in the file is *per_unit* times the attribute's.

    Args:
        key: The reference system's name of it, dotted where it nests.
        description: A sentence for the reference page.
        default: In the attribute's units.
        factory: Makes the default.
        must: What holds of the attribute, however it was made.
        converter: For settings made by hand, too.
        per_unit: Such as 1000 for milliseconds in the file, and seconds here.
        units: By which a text such as ``5m`` is read as a number.
        remark: Gives the finding, if any, about a value of the file that is used; where the key
            is missing, about its default.
        secret: Left out of ``repr``.
    """
    return attrs.field(
        default=attrs.Factory(factory) if factory else default,
        validator=must,
        converter=converter,
        repr=not secret,
        metadata={"key": key, "description": description, "per_unit": per_unit, "units": units, "remark": remark},
    )


def texts(key: str, description: str) -> Any:
    """Declare a list of texts, empty by default."""
    return declare(key, description, default=(), converter=as_tuple)


def as_tuple(items: Iterable[Any]) -> tuple[Any, ...]:
    """Return *items*; in the place of ``tuple`` itself, whose signature takes attrs a millisecond to find out."""
    return tuple(items)


def is_model_name(text: str) -> bool:
    """Whether *text* is ``provider/model``; the provider's name of the model may hold slashes of its own."""
    provider, slash, model = text.partition("/")
    return bool(slash) and all(part and not any(map(str.isspace, part)) for part in (provider, model))


def config_fields(section: type) -> dict[str, Field]:
    """Return the attributes of *section* that come from the file, by key (dotted where it nests)."""
    return {field.metadata["key"]: field for field in attrs.fields(section) if "key" in field.metadata}


def inner_section(field: Field) -> tuple[type[Section], str] | None:
    """Return the section that *field* holds, and how: ``""`` one, ``"<id>"`` one by each id, ``"[]"`` a list."""
    kind: Any = field.type
    origin, arms = get_origin(kind), get_args(kind)
    if origin is None:
        return (kind, "") if isinstance(kind, type) and issubclass(kind, Section) else None
    if origin is Mapping:
        return arms[1], "<id>"
    listed = origin is tuple and isinstance(arms[0], type) and issubclass(arms[0], Section)
    return (arms[0], "[]") if listed else None
