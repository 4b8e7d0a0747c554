"""
The hooks of one built engine: pluggy's manager, and the checks that pluggy does not make.

pluggy 1.7 accepts keyword-only parameters, ``*args``, unknown parameters with a
default and misspelt hook names, never passes a parameter that has a default,
and reads every property of a plugin. Each of these is a bug that shows itself
much later; here it is refused at once, with hook and argument named.
"""

import difflib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import pluggy

from openclaw_ctx.contract import CONTRACT_VERSION, PROJECT, EngineInfo, EngineSpec
from openclaw_ctx.errors import EngineContractError

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
    if engine is None or isinstance(engine, str | bytes | int | float | list | tuple | dict | set):
        raise EngineContractError(engine_id, (f"the factory returned {type(engine).__name__}, not an engine",))
    problems: list[str] = []
    marked = dict(_marked(engine))
    info = _read_info(engine, problems)
    implemented: set[str] = set()
    for name, function in marked.items():
        options = getattr(function, _MARK)
        hook = options.get("specname") or name
        if _check_hook(name, hook, options, function, problems):
            implemented.add(hook)
    for hook in HOOKS:
        if hook in implemented or hook in marked:
            continue
        if callable(_static(engine, hook)):
            problems.append(f"{hook}() is not marked with @hookimpl")
        elif hook in REQUIRED_HOOKS:
            problems.append(f"missing {hook}()")
    if problems or info is None:
        raise EngineContractError(engine_id, tuple(problems))
    manager = _Manager(marked)
    manager.add_hookspecs(EngineSpec)
    manager.register(engine, name=engine_id)
    callers = {hook: getattr(manager.hook, hook) for hook in implemented}
    return EngineHooks(info=info, implemented=frozenset(implemented), callers=callers)


def _marked(engine: object) -> Iterator[tuple[str, object]]:
    for name in dir(engine):
        function = _static(engine, name)
        if hasattr(function, _MARK):
            yield name, function


def _static(engine: object, name: str) -> Any:
    """Return an attribute without running anybody's descriptor."""
    found = inspect.getattr_static(engine, name, None)
    return found.__func__ if isinstance(found, staticmethod | classmethod) else found


def _read_info(engine: object, problems: list[str]) -> EngineInfo | None:
    if not hasattr(engine, "info"):
        problems.append("missing info")
        return None
    info = structure_info(engine.info, problems)
    if info is None:
        return None
    blank = [f"missing info.{name}" for name in ("id", "name") if not _is_text(getattr(info, name))]
    problems.extend(blank)
    return info


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _check_hook(name: str, hook: str, options: Mapping[str, Any], function: object, problems: list[str]) -> bool:
    known = HOOKS.get(hook)
    if known is None:
        if not options.get("optionalhook"):
            problems.append(f"{name}() is no hook of contract {CONTRACT_VERSION}{_nearest(hook, HOOKS)}")
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
                f"{_nearest(parameter.name, known)}"
            )
        elif parameter.default is not inspect.Parameter.empty:
            problems.append(f"{name}({parameter.name}): drop the default, or pluggy never passes the parameter")
    return len(problems) == before


def _nearest(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
