"""
A JSON object becomes settings: picked, filled in, structured, all problems at once.

Reading goes by the schema classes alone. First what is ours is picked out of
the object, ``${VAR}`` filled in on the way; then cattrs structures it with strict
hooks. A problem shows the value as the user wrote it, looked up by its path in
the object as it came, so a filled-in secret cannot get into a message.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from openclaw_ctx.contract import JSON
from openclaw_ctx.log import remember_secret

from .schema import Settings
from .section import EVERY_KEY, Field, Must, Section, config_fields, inner_section
from .strict import ExpectedError, Hook, make_strict, refuse
from .units import measured
from .words import describe, format_path, standing_at, suggestion

__all__ = ["Structured", "structure"]

_Path: TypeAlias = tuple[object, ...]

# As in the reference system: upper case only, so that a template in a prompt stays a template.
_VARIABLE: Final = re.compile(r"\$(\$)?\{([A-Z_][A-Z0-9_]*)\}")
_DEEPEST: Final = 100
_OTHER_SOURCES: Final = ("exec", "file")
# Where people put keys, in the wrong place too.
_NEVER_QUOTED: Final = frozenset({("plugins", "entries"), ("models", "providers")})


class Structured(NamedTuple):
    """Settings, or ``None`` and why not; findings in either case. Each text opens with a path."""

    settings: Settings | None
    problems: tuple[str, ...]
    findings: tuple[str, ...]


def structure(data: object, environ: Mapping[str, str]) -> Structured:
    """
    Return the settings in *data*, or every problem that it has.

    Never raises for what *data* holds. Keys that are nobody's are findings;
    what belongs to the reference system alone is passed over.
    """
    reader = _Reader(environ=environ)
    picked = reader.section(Settings, data, ())
    settings, unexpected = _settings(picked)
    unset = {unset.path for unset in reader.unset}
    problems = [f"{format_path(path)}: {problem}" for path, problem in reader.problems] + [str(u) for u in reader.unset]
    for path, expectation in unexpected:
        standing, value = standing_at(data, path)
        if standing not in unset:
            shown = describe(value, quote=standing[:2] not in _NEVER_QUOTED)
            problems.append(f"{format_path(standing)}: expected {expectation}, not {shown}")
    return Structured(None if problems else settings, tuple(problems), tuple(reader.findings))


class _Unset(NamedTuple):
    """A variable that the text at *path* asks for, and why there is nothing to fill in."""

    path: _Path
    name: str
    why: str

    def __str__(self) -> str:
        return f"{format_path(self.path)}: ${{{self.name}}} is {self.why} in the environment"


@attrs.define(eq=False, kw_only=True)
class _Reader:
    """Picks what is ours, by attribute name, and keeps what there is to say about it."""

    environ: Mapping[str, str] = attrs.field(repr=False)
    problems: list[tuple[_Path, str]] = attrs.field(factory=list)
    unset: list[_Unset] = attrs.field(factory=list)
    unread: list[str] = attrs.field(factory=list)
    findings: list[str] = attrs.field(factory=list)

    def section(self, section: type[Section], raw: JSON, path: _Path) -> JSON:
        """Return what *section* knows in *raw*; anything but an object comes back as it is, to be refused later."""
        fields = config_fields(section)
        if isinstance(raw, str) and section.shorthand is not None:
            return {fields[section.shorthand].name: self._filled(raw, path)}
        if not isinstance(raw, Mapping):
            return raw
        self._report_strangers(section, raw, path)
        picked: dict[str, JSON] = {}
        for key, field in fields.items():
            steps = key.split(".")
            holder = self._holder(raw, steps[:-1], path)
            if steps[-1] in holder:
                picked[field.name] = self._value(field, holder[steps[-1]], (*path, *steps))
            remark = field.metadata["remark"]
            said = remark(picked.get(field.name, field.default)) if remark is not None else None
            if said is not None:
                self.findings.append(f"{format_path((*path, *steps))}: {said}")
        return picked

    def _holder(self, raw: Mapping[str, JSON], steps: list[str], path: _Path) -> Mapping[str, JSON]:
        for number, step in enumerate(steps, start=1):
            inner = raw.get(step, {})
            if not isinstance(inner, Mapping):
                self.problems.append(((*path, *steps[:number]), f"expected an object, not {describe(inner)}"))
                return {}
            raw = inner
        return raw

    def _value(self, field: Field, raw: JSON, path: _Path) -> JSON:
        match inner_section(field), raw:
            case (kind, ""), _:
                return self.section(kind, raw, path)
            case (kind, "<id>"), Mapping():
                return {key: self._entry(kind, value, (*path, key)) for key, value in self._items(raw, path)}
            case (kind, "[]"), list() | tuple():
                return [self.section(kind, value, (*path, index)) for index, value in enumerate(raw)]
        if not field.repr and field.type == (str | None) and isinstance(raw, Mapping):  # a secret, and no object
            return self._referred(raw, path)
        return self._filled(raw, path)

    def _referred(self, reference: Mapping[Any, JSON], path: _Path) -> str:
        """Return the secret that the reference system's ``{source, provider, id}`` refers to, where it can be had."""
        source, name = reference.get("source"), reference.get("id")
        if source == "env" and isinstance(name, str) and re.fullmatch(r"\w+", name):
            return self._variable(name, path)
        told = f"a reference of source {source!r}" if source in _OTHER_SOURCES else "no reference that can be read"
        self.unread.append(f"{format_path(path)}: {told}, and only those of source 'env' with an id are followed here")
        return ""

    def _entry(self, kind: type[Section], raw: JSON, path: _Path) -> JSON:
        """Return an entry that knows which variables it lacks of those that switch off nothing but it."""
        before, read = len(self.unset), len(self.unread)
        picked = self.section(kind, raw, path)
        keys = kind.own_variables
        own = [unset for unset in self.unset[before:] if keys is EVERY_KEY or unset.path[len(path)] in keys]
        self.unset[before:] = [unset for unset in self.unset[before:] if unset not in own]
        if own:
            picked["unset_variables"] = tuple(f"{format_path(unset.path)}: ${{{unset.name}}}" for unset in own)
            self.findings += [f"{unset}, so this entry is off" for unset in own]
        if unread := tuple(self.unread[read:]):
            picked["unread_secrets"] = unread
            self.findings += [f"{one}, so this entry is off" for one in unread]
        return picked

    def _filled(self, value: JSON, path: _Path) -> JSON:
        """Return *value* with variables filled in; a string that lacks one stays as written, whole."""
        if len(path) > _DEEPEST:
            self.problems.append((path, f"nested deeper than {_DEEPEST} levels"))
            return None
        if isinstance(value, str):
            return self._substituted(value, path)
        if isinstance(value, Mapping):
            return {key: self._filled(item, (*path, key)) for key, item in self._items(value, path)}
        if isinstance(value, list | tuple):
            return [self._filled(item, (*path, index)) for index, item in enumerate(value)]
        if value is not None and not isinstance(value, bool | int | float):
            self.problems.append((path, f"expected JSON, not {describe(value)}"))
        return value

    def _variable(self, name: str, path: _Path) -> str:
        value = self.environ.get(name)
        if not value:
            self.unset.append(_Unset(path, name, "empty" if name in self.environ else "not set"))
            return ""
        remember_secret(value)
        return value

    def _substituted(self, text: str, path: _Path) -> str:
        missing = dict.fromkeys(
            name for escape, name in _VARIABLE.findall(text) if not escape and not self.environ.get(name)
        )
        for name in missing:
            self.unset.append(_Unset(path, name, "empty" if name in self.environ else "not set"))
        if missing:
            return text
        for escape, name in _VARIABLE.findall(text):
            if not escape:
                remember_secret(self.environ[name])  # an engine's error may quote it
        return _VARIABLE.sub(lambda m: m[0][1:] if m[1] else self.environ[m[2]], text)

    def _items(self, raw: Mapping[Any, JSON], path: _Path) -> Iterator[tuple[str, JSON]]:
        for key, value in raw.items():
            if isinstance(key, str):
                yield key, value
            else:
                self.problems.append((path, f"expected strings as keys, not {describe(key)}"))

    def _report_strangers(self, section: Any, raw: Mapping[Any, JSON], path: _Path) -> None:
        if "$include" in raw:
            self.findings.append(f"{format_path((*path, '$include'))}: no other file is read; write its keys here")
        if section.foreign_keys is EVERY_KEY:
            return
        known = dict.fromkeys(key.partition(".")[0] for key in config_fields(section))
        for key in raw:
            if key not in known and key not in section.foreign_keys and key != "$include":
                self.findings.append(
                    f"{format_path((*path, key))}: unknown key, ignored; {suggestion(str(key), known)}"
                )


# --- strict structuring -------------------------------------------------------------------------------


def _settings(picked: JSON) -> tuple[Settings | None, list[tuple[_Path, str]]]:
    from cattrs.errors import BaseValidationError  # noqa: PLC0415 -- 23 ms: off the start-up path

    try:
        return _converter()(picked, Settings), []
    except (BaseValidationError, ExpectedError) as exc:
        return None, list(_expectations(exc, ()))


@functools.cache
def _converter() -> Hook:
    """Return the one structure function; made late and once, since cattrs writes code for each class."""
    from cattrs import Converter  # noqa: PLC0415 -- 23 ms: off the start-up path
    from cattrs.gen import make_dict_structure_fn, override  # noqa: PLC0415 -- as above

    converter = Converter(detailed_validation=True)

    def section_hook(section: Any) -> Hook:
        fields = {field.name: field for field in config_fields(section).values()}
        hooks = {name: _field_hook(field, converter) for name, field in fields.items()}
        # cattrs reads the overrides by attribute name; mypy takes them for the function's other keywords.
        overrides: dict[str, Any] = {name: override(struct_hook=hook) for name, hook in hooks.items()}
        structured = make_dict_structure_fn(section, converter, **overrides)
        return lambda value, _: structured(value, section) if isinstance(value, Mapping) else refuse("an object")

    make_strict(converter)
    converter.register_structure_hook_factory(attrs.has, section_hook)
    return converter.get_structure_hook(Settings)


def _field_hook(field: Field, converter: Any) -> Hook:
    """
    Return what structures the field, changes its unit and asks its validator, so that all of them know the path.

    A section's own hook is made when the file is seen to have the section: most files have few.
    """
    per_unit, units, must = field.metadata["per_unit"], field.metadata["units"], field.validator

    def structured(value: JSON, _: Any) -> Any:
        number = measured(value, units) if units is not None and isinstance(value, str) else value
        if number is None and isinstance(must, Must) and value is not None:
            refuse(must.expectation)
        result = converter.get_structure_hook(field.type)(number, field.type)
        if per_unit != 1:
            result /= per_unit
        if isinstance(must, Must) and not must.holds(result):
            refuse(must.expectation)
        return result

    return structured


def _expectations(error: BaseException, path: _Path) -> Iterator[tuple[_Path, str]]:
    """Yield path and expectation of every leaf of cattrs' tree of errors."""
    from cattrs.errors import ClassValidationError, IterableValidationError  # noqa: PLC0415 -- as in _settings

    if isinstance(error, ExpectedError):
        yield path, str(error)
    elif isinstance(error, ClassValidationError):
        named, unnamed = error.group_exceptions()
        for inner, attribute in named:
            key = attrs.fields_dict(error.cl)[attribute.name].metadata["key"]
            yield from _expectations(inner, (*path, *key.split(".")))
        for other in unnamed:
            yield from _expectations(other, path)
    elif isinstance(error, IterableValidationError):
        for inner, item in error.group_exceptions()[0]:
            yield from _expectations(inner, (*path, item.index))
    else:
        raise error  # not the user's: a bug of ours, with its traceback
