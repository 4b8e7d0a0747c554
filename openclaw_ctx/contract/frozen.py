"""
JSON values that cannot be changed.

What crosses to an engine must stay as the host knows it, but engine authors
want to write ``call.arguments["path"]``. So a frozen object *is* a ``dict`` and
a frozen array *is* a ``list``, with every mutator refusing. (Read-only proxies
were tried: no JSON encoder takes them, and ``==`` with plain values fails.)
"""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, Self, SupportsIndex, TypeAlias

__all__ = ["EMPTY", "JSON", "FrozenDict", "FrozenList", "freeze", "thaw"]

# Foreign JSON: anything that a JSON decoder returns.
JSON: TypeAlias = Any


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    kind = "object" if isinstance(self, dict) else "array"
    message = f"This JSON {kind} belongs to the host and cannot be changed. Change a copy: thaw(value)."
    raise TypeError(message)


class FrozenDict(dict[str, Any]):
    """A JSON object that refuses to change; equal to the plain ``dict`` of the same items."""

    __slots__ = ()

    def __new__(cls, items: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> Self:
        """Return an object of these items; filled here, since ``__init__`` can be called again by anybody."""
        self = super().__new__(cls)
        dict.update(self, items)
        return self

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        pass

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[Any, ...]:
        return self.__reduce__()


class FrozenList(list[Any]):
    """A JSON array that refuses to change; equal to the plain ``list`` of the same items."""

    __slots__ = ()

    def __new__(cls, items: Iterable[Any] = ()) -> Self:
        """Return an array of these items."""
        self = super().__new__(cls)
        list.extend(self, items)
        return self

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        pass

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenList, (list(self),))

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[Any, ...]:
        return self.__reduce__()


EMPTY: FrozenDict = FrozenDict()


def freeze(value: JSON) -> JSON:
    """Return *value* with every object and array in it frozen; scalars come back as they are."""
    if isinstance(value, dict):
        return value if type(value) is FrozenDict else FrozenDict((k, freeze(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return value if type(value) is FrozenList else FrozenList(freeze(item) for item in value)
    return value


def thaw(value: JSON) -> JSON:
    """Return a deep copy of *value* made of plain ``dict`` and ``list``."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value
