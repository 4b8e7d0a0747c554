"""
cattrs without its laxness: ``"1"`` is not 1, ``"abc"`` no list of letters, a list no object.

What does not fit raises :class:`ExpectedError`, which says in words what should
have stood there and never quotes what stands there.
"""

import enum
import json
import math
import types
import typing
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from collections.abc import Set as AbstractSet
from typing import Any, Final, Literal, NoReturn, TypeAlias, get_args, get_origin

import attrs

from openclaw_ctx.contract import JSON

__all__ = ["ExpectedError", "Hook", "make_strict", "refuse"]

Hook: TypeAlias = Callable[[Any, Any], Any]

# What a list of the file becomes, by what the type asks for.
_LISTS: Final[Mapping[Any, Callable[[list[Any]], Any]]] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    Sequence: tuple,
    MutableSequence: list,
    AbstractSet: frozenset,
    MutableSet: set,
    Collection: tuple,
    Iterable: tuple,
}
_OBJECTS: Final = frozenset({dict, Mapping, MutableMapping})


class ExpectedError(ValueError):
    """What should have stood there; where, and what stands there, is found out later."""


def make_strict(converter: Any) -> None:
    """Take cattrs' lax hooks away, and add one for unions such as ``int | str``."""
    converter.register_structure_hook(bool, _boolean)
    converter.register_structure_hook(int, _whole)
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(str, _text)
    converter.register_structure_hook_func(_is_choice, _choice)
    converter.register_structure_hook_func(_is_enum, _member)
    converter.register_structure_hook_factory(_is_list, lambda kind: _list_hook(kind, converter))
    converter.register_structure_hook_factory(_is_object, lambda kind: _object_hook(kind, converter))
    converter.register_structure_hook_factory(_is_mixed, lambda kind: _union_hook(kind, converter))


def refuse(expectation: str) -> NoReturn:
    """
    Never return.

    Raises:
        ExpectedError: Always.
    """
    raise ExpectedError(expectation)


def _boolean(value: JSON, _: Any) -> bool:
    return value if isinstance(value, bool) else refuse("true or false")


def _whole(value: JSON, _: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else refuse("a whole number")


def _number(value: JSON, _: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse("a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    return number if math.isfinite(number) else refuse("a finite number")


def _text(value: JSON, _: Any) -> str:
    return value if isinstance(value, str) else refuse("a string")


def _choice(value: JSON, kind: Any) -> Any:
    # 1 is True to Python, and not to JSON.
    for choice in get_args(kind):
        if type(choice) is type(value) and choice == value:
            return choice
    return refuse(_words(kind))


def _member(value: JSON, kind: Any) -> Any:
    for member in kind:
        if type(member.value) is type(value) and member.value == value:
            return member
    return refuse(_words(kind))


def _is_choice(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is Literal


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def _is_list(kind: Any) -> bool:
    return (get_origin(kind) or kind) in _LISTS


def _is_object(kind: Any) -> bool:
    return (get_origin(kind) or kind) in _OBJECTS


def _is_mixed(kind: Any) -> bool:
    """Whether *kind* is a union that cattrs does not know: more arms than ``None``, a class of fields at most once."""
    if get_origin(kind) not in {typing.Union, types.UnionType}:
        return False
    arms = [arm for arm in get_args(kind) if arm is not types.NoneType]
    return len(arms) > 1 and sum(map(attrs.has, arms)) <= 1


# A hook of these looks up its items' hooks when it is called: the class that is being read may hold itself.


def _list_hook(kind: Any, converter: Any) -> Hook:
    origin, arms = get_origin(kind) or kind, get_args(kind) or (Any,)
    fixed = origin is tuple and get_args(kind) and arms[-1] is not Ellipsis

    def structured(value: JSON, _: Any) -> Any:
        if not isinstance(value, list | tuple):
            refuse("a list")
        if fixed and len(value) != len(arms):
            refuse(f"a list of {len(arms)}")
        wanted = arms if fixed else (arms[0],) * len(value)
        items = ((index, item, arm) for index, (item, arm) in enumerate(zip(value, wanted, strict=True)))
        return _LISTS[origin]([made for _, made in _items(items, kind, converter)])

    return structured


def _object_hook(kind: Any, converter: Any) -> Hook:
    keys, values = get_args(kind) or (Any, Any)

    def structured(value: JSON, _: Any) -> Any:
        if not isinstance(value, Mapping):
            refuse("an object")
        names = dict(_items(((key, key, keys) for key in value), kind, converter))
        items = _items(((key, item, values) for key, item in value.items()), kind, converter)
        return {names[key]: item for key, item in items}

    return structured


def _items(items: Iterable[tuple[Any, JSON, Any]], kind: Any, converter: Any) -> list[tuple[Any, Any]]:
    """Return each item with its index, structured; or raise what is wrong with all of them."""
    from cattrs.errors import IterableValidationError, IterableValidationNote  # noqa: PLC0415 -- off the start-up path

    made: list[tuple[Any, Any]] = []
    errors: list[Exception] = []
    for index, item, arm in items:
        try:
            made.append((index, converter.get_structure_hook(arm)(item, arm)))
        except Exception as error:  # noqa: BLE001 -- an author's own class may raise anything; all of it is told
            error.add_note(IterableValidationNote(f"@ {index!r}", index, arm))
            errors.append(error)
    if errors:
        problem = "items that do not fit"
        raise IterableValidationError(problem, errors, kind)
    return made


def _union_hook(kind: Any, converter: Any) -> Hook:
    arms = get_args(kind)

    def structured(value: JSON, _: Any) -> Any:
        from cattrs.errors import BaseValidationError  # noqa: PLC0415 -- off the start-up path

        if value is None and types.NoneType in arms:
            return None
        inside: BaseValidationError | None = None
        # The value's own type goes first, so that 3 stays an int where float would take it too.
        for arm in sorted(arms, key=lambda arm: arm is not type(value)):
            if arm is types.NoneType:
                continue
            try:
                return converter.get_structure_hook(arm)(value, arm)
            except ExpectedError:
                continue
            except BaseValidationError as error:  # a list or an object, as wanted, and wrong further in
                inside = error
        if inside is not None:
            raise inside
        return refuse(" or ".join(dict.fromkeys(map(_words, arms))))

    return structured


def _words(kind: Any) -> str:
    kind = getattr(kind, "__supertype__", kind)
    if _is_choice(kind):
        return f"one of {', '.join(map(json.dumps, get_args(kind)))}"
    if _is_enum(kind):
        return f"one of {', '.join(json.dumps(member.value, default=str) for member in kind)}"
    if _is_list(kind):
        return "a list"
    if _is_object(kind) or attrs.has(kind):
        return "an object"
    plain = {bool: "true or false", int: "a whole number", float: "a number", str: "a string", types.NoneType: "null"}
    return plain.get(kind) or f"a {getattr(kind, '__name__', kind)}"
