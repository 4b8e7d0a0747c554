"""A room's door that imports what is asked for, and no more (PEP 562)."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["open_door"]


def open_door(
    room: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """
    Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    What type checkers see is the stub beside it, which imports all of it. No
    name may be that of a module of the room: the module would come instead.

    Args:
        room: The package's ``__name__``.
        homes: By module, relative to the room, the names that it gives.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            message = f"module {room!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = getattr(importlib.import_module(home, room), name)
        setattr(sys.modules[room], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[room]), *home_of})

    return get, names, sorted(home_of, key=_rank)


def _rank(name: str) -> tuple[int, str]:
    # As the linter sorts lists of names: constants, classes, the rest.
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)
