"""An engine's own configuration, structured by the class that its author declared."""

import dataclasses
import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_origin, get_type_hints

import attrs

from openclaw_ctx.contract import JSON, thaw
from openclaw_ctx.errors import ConfigError

from .strict import ExpectedError, Hook, make_strict, refuse
from .words import format_path, suggestion

__all__ = ["structure_engine_config"]

_RULE: Final = re.compile(r"<(?:Validator for )?(.*)>")


def structure_engine_config(config: JSON, config_class: type, *, engine_id: str) -> Any:
    """
    Return ``plugins.entries.<id>.config`` as an instance of *config_class*, an attrs class or dataclass.

    Keys are the class's field names, or their camel case: ``max_turns`` or
    ``maxTurns``, not both. A key that the class does not have is a problem.

    Raises:
        ConfigError: With every problem. Values are not quoted: they may be secrets.
    """
    from cattrs import (  # noqa: PLC0415 -- 23 ms: off the start-up path
        BaseValidationError,
        Converter,
        StructureHandlerNotFoundError,
    )

    converter = Converter(detailed_validation=True)
    make_strict(converter)
    converter.register_structure_hook_factory(_has_fields, lambda kind: _class_hook(kind, converter))
    path = ("plugins", "entries", engine_id, "config")
    raw = thaw(config)
    try:
        return converter.structure(raw, config_class)
    except (BaseValidationError, ExpectedError) as error:
        problems = list(_problems(error, path, raw))
    except StructureHandlerNotFoundError:
        problems = list(_unreadable(config_class, converter, path))
    # Raised out here, so that no error that holds a value is its context.
    raise ConfigError(format_path(path), problems)


def _has_fields(kind: Any) -> bool:
    return attrs.has(kind) or dataclasses.is_dataclass(get_origin(kind) or kind)


def _names(kind: Any) -> list[str]:
    cls = get_origin(kind) or kind
    fields: Any = attrs.fields(cls) if attrs.has(cls) else dataclasses.fields(cls)
    return [field.name for field in fields if field.init]


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(map(str.capitalize, tail)) if head else name


def _class_hook(kind: Any, converter: Any) -> Hook:
    """Return what reads an object into *kind*, its keys in either spelling."""
    from cattrs import ClassValidationError  # noqa: PLC0415 -- off the start-up path
    from cattrs.gen import make_dict_structure_fn  # noqa: PLC0415 -- as above

    structured = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)
    names = _names(kind)
    name_of = {_camel(name): name for name in names if _camel(name) not in names}

    def structured_by_either(value: JSON, _: Any) -> Any:
        if not isinstance(value, Mapping):
            refuse("an object")
        errors: list[Exception] = [
            ExpectedError(f"one of {camel!r} and {name!r}, which are the same")
            for camel, name in name_of.items()
            if camel in value and name in value
        ]
        try:
            named: dict[Any, JSON] = {name_of.get(key, key): item for key, item in value.items()}
            made = structured(named, kind)
            if not errors:
                return made
        except ClassValidationError as error:
            errors.extend(error.exceptions)
        problem = "fields that do not fit"
        raise ClassValidationError(problem, errors, kind)

    return structured_by_either


def _problems(error: BaseException, path: tuple[object, ...], raw: JSON) -> Iterator[str]:
    """Yield a sentence for every leaf of cattrs' tree of errors, each with its path as the user has spelled it."""
    from cattrs import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError  # noqa: PLC0415 -- as above

    where = format_path(path)
    if isinstance(error, ClassValidationError):
        fields, others = error.group_exceptions()
        for inner, note in fields:
            key = _spelled(note.name, raw)
            yield from _problems(inner, (*path, key), raw.get(key))
        for other in others:
            yield from _problems(other, path, raw)
    elif isinstance(error, IterableValidationError):
        for inner, item in error.group_exceptions()[0]:
            yield from _problems(inner, (*path, item.index), raw[item.index])
    elif isinstance(error, ExpectedError):
        yield f"{where}: expected {error}"
    elif isinstance(error, ForbiddenExtraKeysError):
        known = dict.fromkeys(_names(error.cl))
        for key in sorted(error.extra_fields):
            yield f"{format_path((*path, key))}: unknown key; {suggestion(key, known)}"
    elif isinstance(error, KeyError):
        yield f"{where}: required, and missing"
    else:
        field, rule = _refused_by(error)
        where = where if field is None else format_path((*path, _spelled(field, raw)))
        yield f"{where}: refused by {rule}"


def _spelled(name: str, raw: Mapping[str, JSON]) -> str:
    camel = _camel(name)
    return camel if camel in raw and name not in raw else name


def _refused_by(error: BaseException) -> tuple[str | None, str]:
    """Return the field whose validator raised *error*, if one did, and what to call that; the text may hold a value."""
    field, rule = None, f"the engine's own check ({type(error).__name__})"
    # attrs does not say which validator it was, and the texts quote the value: the frames know.
    for frame, _ in traceback.walk_tb(error.__traceback__):
        said = next((value for value in frame.f_locals.values() if isinstance(value, attrs.Attribute)), None)
        if said is None:
            continue
        field, validator = said.name, frame.f_locals.get("self")
        known = type(validator).__module__.startswith("attr.") and _RULE.fullmatch(repr(validator))
        rule = f"its rule: {known[1] if known else frame.f_code.co_name}"
    return field, rule


def _unreadable(config_class: type, converter: Any, path: tuple[object, ...]) -> Iterator[str]:
    """Yield a sentence, for the engine's author, for every field whose type no JSON can become."""
    hints = get_type_hints(config_class)
    found = False
    for name in _names(config_class):
        try:
            converter.get_structure_hook(hints[name])
        except Exception:  # noqa: BLE001 -- whatever it is, this is the field
            found = True
            yield (
                f"{format_path((*path, name))}: no configuration can become {hints[name]}, the type that "
                f"{config_class.__name__} gives it. The engine's author has to declare another."
            )
    if not found:
        yield f"{format_path(path)}: {config_class.__name__} has a type in it that no configuration can become."
