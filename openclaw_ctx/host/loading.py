"""Importing what a distribution offers: the only place here where a plugin's code runs."""

import importlib
import importlib.util
from collections.abc import Sequence
from types import ModuleType

from openclaw_ctx.errors import EngineLoadError

from .discovery import Candidate
from .metadata import tell

__all__ = ["load_factory"]

_REPORT = "Reinstall the distribution, or report it to its author."
_CHAIN_LIMIT = 16


def load_factory(candidate: Candidate, path: Sequence[str] | None = None) -> object:
    """
    Import what the entry point names, and return it.

    This is the only function here that runs a plugin's code, which may block,
    raise or exit: call it where that hurts nobody else. ``SystemExit`` and
    ``KeyboardInterrupt`` pass as raised.

    Args:
        candidate: From :func:`discover`.
        path: Where a missing extra is looked for, as in :meth:`Candidate.missing_extras`. The code itself always
            comes from ``sys.path``.

    Returns:
        Something that can be called: a function (also async), a class, or an object with ``__call__``.

    Raises:
        EngineLoadError: It can't be imported, or isn't a factory. The exception of the plugin is the ``__cause__``.
    """
    module_name, _, attribute = candidate.value.partition(":")
    try:
        importlib.invalidate_caches()  # the distribution may have been installed since the last import
        module = importlib.import_module(module_name)
    except Exception as exc:
        extras = _extras_problem(candidate, path) if _lacks_a_dependency(exc, module_name) else None
        raise _refusal(candidate, extras or _import_problem(candidate, exc, module_name)) from exc
    try:
        target: object = module
        for name in attribute.split(".") if attribute else ():
            target = getattr(target, name)
    except Exception as exc:  # a module's or class's __getattr__ is the plugin's code too
        problem = f"looking up {attribute!r} in {module_name!r} raised {tell(exc)}. {_REPORT}"
        raise _refusal(candidate, _extras_problem(candidate, path) or problem) from exc
    wrong = _wrong_kind(target)
    if wrong is None:
        return target
    problem = (
        f"its entry point {candidate.value!r} leads to {wrong}, not to a factory. Its author has to name a function "
        f"or class that takes the EngineContext, such as '{module_name}:make_engine'."
    )
    # A module often puts None in the place of what it could not import.
    raise _refusal(candidate, _extras_problem(candidate, path) or problem)


def _refusal(candidate: Candidate, problem: str) -> EngineLoadError:
    return EngineLoadError(candidate.engine_id, candidate.distribution, problem)


def _extras_problem(candidate: Candidate, path: Sequence[str] | None) -> str | None:
    missing = candidate.missing_extras(path)
    if not missing:
        return None
    word = "extra" if len(missing) == 1 else "extras"
    names = ", ".join(map(repr, missing))
    install = f"pip install '{candidate.distribution}[{','.join(missing)}]'"
    return f"needs {word} {names} of {candidate.distribution!r}: {install}"


def _import_problem(candidate: Candidate, exc: Exception, module_name: str) -> str:
    missing = exc.name if isinstance(exc, ModuleNotFoundError) else None
    if missing and f"{module_name}.".startswith(f"{missing}."):
        return f"there is no module {missing!r}, though {candidate.location!r} promises one. {_REPORT}"
    return f"importing {module_name!r} raised {tell(exc)}. This is a bug of the plugin: report it to its author."


def _lacks_a_dependency(exc: Exception, module_name: str) -> bool:
    """Tell whether something that is not the plugin's own was missing, so that an extra may be behind *exc*."""
    link: BaseException | None = exc
    for _ in range(_CHAIN_LIMIT):
        if isinstance(link, ImportError) and not _is_own(link.name or "", module_name):
            return True
        if link is None:
            break
        link = link.__cause__ or link.__context__  # "raise RuntimeError('install the extra') from exc"
    return False


def _is_own(missing: str, module_name: str) -> bool:
    own = module_name.partition(".")[0]
    if missing.partition(".")[0] != own:
        return False
    if f"{module_name}.".startswith(f"{missing}."):
        return True
    # Several distributions share a namespace package, which has no file; any other package is the plugin's alone.
    try:
        spec = importlib.util.find_spec(own)
    except ValueError:
        return True
    return spec is None or spec.origin is not None


def _wrong_kind(target: object) -> str | None:
    if isinstance(target, ModuleType):
        return "a module"
    if target is None:
        return "None"
    if callable(target):
        return None
    name = type(target).__name__
    return f"{'an' if name[:1].lower() in set('aeiou') else 'a'} {name} that cannot be called"
