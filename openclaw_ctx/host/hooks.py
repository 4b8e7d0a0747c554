"""
The hooks of one built engine: pluggy's manager, and the checks that pluggy does not make.

pluggy 1.7 accepts keyword-only parameters, ``*args``, unknown parameters with a
default and misspelt hook names, never passes a parameter that has a default,
and reads every property of a plugin. Each of these is a bug that shows itself
much later; here it is refused at once, with hook and argument named.
"""

import difflib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import pluggy

from openclaw_ctx.contract import CONTRACT_VERSION, PROJECT, EngineInfo, EngineSpec
from openclaw_ctx.errors import EngineContractError
from openclaw_ctx.log import describe_error

from .results import structure_info

__all__ = ["HOOKS", "REQUIRED_HOOKS", "EngineHooks", "build_hooks"]

REQUIRED_HOOKS: Final = ("ingest", "assemble", "compact")


def _parameters(function: object) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name != "self")  # type: ignore[arg-type]


HOOKS: Final[Mapping[str, tuple[str, ...]]] = {
    name: _parameters(function) for name, function in vars(EngineSpec).items() if not name.startswith("_")
}
"""Every hook of the contract with its parameters."""

_MARK: Final = f"{PROJECT}_impl"
_VERSION: Final = re.compile(r"(\d+)\.(\d+)", re.ASCII)
_NEWER: Final = "require a newer openclaw-ctx"


@attrs.frozen(kw_only=True, eq=False)
class EngineHooks:
    """An engine that keeps the contract, ready to be called."""

    info: EngineInfo
    implemented: frozenset[str]
    _callers: Mapping[str, Any] = attrs.field(repr=False)

    def call(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """
        Call one hook with all its parameters; pluggy passes on those that the engine names.

        Returns what the engine returns: a value, or an awaitable of one.
        """
        return self._callers[operation](**arguments)


class _Manager(pluggy.PluginManager):
    """Looks at marked names only; pluggy's own would read every property of the engine."""

    def __init__(self, marked: Mapping[str, object]) -> None:
        super().__init__(PROJECT)
        self._marked = marked

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        return super().parse_hookimpl_opts(plugin, name) if name in self._marked else None


def build_hooks(engine_id: str, engine: object) -> EngineHooks:
    """
    Return the hooks of *engine*. Reads ``engine.info``, so it runs in the engine's lane.

    Raises:
        EngineContractError: The object is no engine; every problem is named.
    """
    nothing = _no_engine(engine)
    if nothing is not None:
        raise EngineContractError(engine_id, (f"the factory returned {nothing}, not an engine",))
    problems: list[str] = []
    info = _read_info(engine, problems)
    marked = dict(_marked(engine))
    implemented = _check_hooks(engine, marked, problems)
    if problems or info is None:
        raise EngineContractError(engine_id, tuple(problems))
    manager = _Manager(marked)
    manager.add_hookspecs(EngineSpec)
    manager.register(engine, name=engine_id)
    callers = {hook: getattr(manager.hook, hook) for hook in implemented}
    return EngineHooks(info=info, implemented=implemented, callers=callers)


def _no_engine(made: object) -> str | None:
    """Say what a factory made where that can be no engine at all."""
    if inspect.isclass(made):
        return f"the class {made.__name__}"
    plain = made is None or isinstance(made, str | bytes | int | float | list | tuple | dict | set)
    return type(made).__name__ if plain else None


def _marked(engine: object) -> Iterator[tuple[str, object]]:
    for name in dir(engine):
        function = _static(engine, name)
        if _mark_of(function) is not None:
            yield name, function


def _mark_of(function: object) -> Mapping[str, Any] | None:
    """Return what ``@hookimpl`` left. A proxy that has every attribute, such as a client's, is not marked."""
    mark = inspect.getattr_static(function, _MARK, None)
    return mark if isinstance(mark, dict) else None


def _static(engine: object, name: str) -> Any:
    """Return an attribute without running anybody's descriptor."""
    found = inspect.getattr_static(engine, name, None)
    return found.__func__ if isinstance(found, staticmethod | classmethod) else found


def _read_info(engine: object, problems: list[str]) -> EngineInfo | None:
    if inspect.getattr_static(engine, "info", None) is None and not hasattr(type(engine), "__getattr__"):
        problems.append("missing info")
        return None
    try:
        said = engine.info  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 -- a property is the engine's code, and may raise anything
        problems.append(f"reading info raised {describe_error(error)}")
        return None
    info = structure_info(said, problems)
    if info is None:
        return None
    problems.extend(_version_problems(info.contract))
    blank = [f"missing info.{name}" for name in ("id", "name") if not _is_text(getattr(info, name))]
    problems.extend(blank)
    return info


def _version_problems(contract: str | None) -> Iterator[str]:
    if contract is None:
        return
    wanted = _VERSION.fullmatch(contract)
    if wanted is None:
        yield f"info.contract is {contract!r}, not a version such as {CONTRACT_VERSION!r}"
    elif tuple(map(int, wanted.groups())) > tuple(map(int, CONTRACT_VERSION.split("."))):
        yield f"it was written for contract {contract}, and this host keeps {CONTRACT_VERSION}: {_NEWER}"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _check_hooks(engine: object, marked: Mapping[str, Any], problems: list[str]) -> frozenset[str]:
    """Return the hooks that *engine* has; add to *problems* what is wrong with them, and what is missing."""
    methods: dict[str, str] = {}
    for name, function in marked.items():
        options = _mark_of(function) or {}
        hook = options.get("specname") or name
        if not _check_hook(name, hook, options, function, problems):
            continue
        if hook in methods:
            problems.append(f"{methods[hook]}() and {name}() are both marked as {hook}()")
        methods[hook] = name
    for hook in HOOKS:
        if hook in methods or hook in marked:
            continue
        if callable(_static(engine, hook)):
            problems.append(f"{hook}() is not marked with @hookimpl")
        elif hook in REQUIRED_HOOKS:
            problems.append(f"missing {hook}()")
    return frozenset(methods)


def _check_hook(name: str, hook: str, options: Mapping[str, Any], function: object, problems: list[str]) -> bool:
    known = HOOKS.get(hook)
    if known is None:
        if not options.get("optionalhook"):
            problems.append(
                f"{name}() is no hook of contract {CONTRACT_VERSION}{_nearest(hook, HOOKS)} (one of a newer contract: "
                f"mark it @hookimpl(optionalhook=True), or {_NEWER})"
            )
        return False
    before = len(problems)
    if options.get("wrapper") or options.get("hookwrapper"):
        problems.append(f"{name}() is a hook wrapper, and an engine has nothing to wrap")
    for parameter in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
        if parameter.name in {"self", "cls"}:
            continue
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            problems.append(f"{name}({parameter}): {parameter.kind.description} parameters are never passed")
        elif parameter.name not in known:
            problems.append(
                f"{name}({parameter.name}): contract {CONTRACT_VERSION} has no such parameter"
                f"{_nearest(parameter.name, known)} (one of a newer contract: {_NEWER})"
            )
        elif parameter.default is not inspect.Parameter.empty:
            problems.append(f"{name}({parameter.name}): drop the default, or pluggy never passes the parameter")
    return len(problems) == before


def _nearest(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
