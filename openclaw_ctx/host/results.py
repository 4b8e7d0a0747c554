"""
What a hook answered, made sure of.

A plain ``dict`` is structured into the contract's class; an instance is
believed no more than a dict, since attrs checks no types.
"""

import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin

import attrs

from openclaw_ctx.contract import (
    AssembleResult,
    BootstrapResult,
    CommitTurnResult,
    CompactResult,
    EngineInfo,
    EngineTool,
    HostRequirements,
    IngestBatchResult,
    IngestResult,
    Message,
    RewriteResult,
    SubagentPreparation,
    message_from_wire,
)
from openclaw_ctx.transcript import History

__all__ = ["NEUTRAL", "InvalidResult", "structure_info", "structure_result"]

_Check: TypeAlias = Callable[[Any], str | None]

_MESSAGES: Final = get_args(Message)


@attrs.define(eq=False)
class InvalidResult(Exception):  # noqa: N818 -- an outcome of a call, turned into a record by the guard
    """A hook answered what the contract does not allow."""

    operation: str
    problem: str

    def __str__(self) -> str:
        return f"{self.operation}() answered {self.problem}"


# Operation: class of its answer, and whether None will do.
_ANSWERS: Final[Mapping[str, tuple[type, bool]]] = {
    "bootstrap": (BootstrapResult, True),
    "ingest": (IngestResult, True),
    "ingest_batch": (IngestBatchResult, True),
    "assemble": (AssembleResult, False),
    "compact": (CompactResult, False),
    "maintain": (RewriteResult, True),
    "prepare_subagent_spawn": (SubagentPreparation, True),
    "commit_turn": (CommitTurnResult, False),
}

NEUTRAL: Final[Mapping[str, Callable[[str], Any]]] = {
    "bootstrap": lambda reason: BootstrapResult(bootstrapped=False, reason=reason),
    "maintain": lambda reason: RewriteResult(changed=False, reason=reason),
    "ingest": lambda _: IngestResult(ingested=False),
    "ingest_batch": lambda _: IngestBatchResult(ingested_count=0),
    "tools": lambda _: (),
}
"""What an optional hook that is not there answers, given why."""


def structure_result(operation: str, value: Any) -> Any:
    """
    Return the answer of *operation* as the contract's class.

    Raises:
        InvalidResult: It is not such an answer; the field is named.
    """
    if operation == "tools":
        return _tools(value)
    if operation not in _ANSWERS:
        return None  # on_subagent_ended, after_turn, dispose: nothing is expected
    cls, optional = _ANSWERS[operation]
    if value is None:
        if optional:
            return NEUTRAL[operation]("the engine said nothing") if operation in NEUTRAL else None
        raise InvalidResult(operation, f"None, not {cls.__name__}")
    try:
        return _structured(cls, value)
    except (TypeError, ValueError) as error:
        raise InvalidResult(operation, str(error)) from error


def structure_info(value: Any, problems: list[str]) -> EngineInfo | None:
    """Return an engine's info, or add to *problems* what is wrong with it."""
    try:
        info: EngineInfo = _structured(EngineInfo, value)
    except (TypeError, ValueError) as error:
        problems.append(f"info: {error}")
        return None
    return info


def _tools(value: Any) -> tuple[EngineTool, ...]:
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidResult("tools", f"{type(value).__name__}, not a list of EngineTool")
    try:
        return tuple(_structured(EngineTool, tool) for tool in value)
    except (TypeError, ValueError) as error:
        raise InvalidResult("tools", str(error)) from error


def _structured(cls: type, value: Any) -> Any:
    if isinstance(value, Mapping):
        value = _from_mapping(cls, value)
    elif not isinstance(value, cls):
        message = f"{type(value).__name__}, not {cls.__name__}"
        raise TypeError(message)
    for name, check in _checks(cls):
        problem = check(getattr(value, name))
        if problem:
            message = f"{cls.__name__}.{name}: {problem}"
            raise TypeError(message)
    return value


def _from_mapping(cls: type, value: Mapping[str, Any]) -> Any:
    fields = _fields(cls)
    unknown = sorted(str(key) for key in value if key not in fields)
    if unknown:
        message = f"a dict with {', '.join(map(repr, unknown))}, which {cls.__name__} does not have"
        raise TypeError(message)
    converted = {name: _converted(fields[name], item) for name, item in value.items()}
    try:
        return cls(**converted)
    except TypeError as error:
        missing = [f.name for f in attrs.fields(cls) if f.default is attrs.NOTHING and f.name not in value]
        message = f"a dict without {', '.join(map(repr, missing))}" if missing else str(error)
        raise TypeError(message) from error


def _converted(kind: Any, value: Any) -> Any:
    if _is_messages(kind) and isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(message_from_wire(item) if isinstance(item, Mapping) else item for item in value)
    if isinstance(value, Mapping):
        for candidate in (kind, *get_args(kind)):
            if attrs.has(candidate):
                return _structured(candidate, value)
            if candidate is HostRequirements or HostRequirements in get_args(candidate):
                return {key: _structured(HostRequirements, item) for key, item in value.items()}
    return value


@functools.cache
def _fields(cls: type) -> Mapping[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in attrs.fields(cls)}


def _is_messages(kind: Any) -> bool:
    return get_origin(kind) is Sequence and get_args(kind)[:1] == (Message,)


@functools.cache
def _checks(cls: type) -> tuple[tuple[str, _Check], ...]:
    return tuple((name, _check(kind)) for name, kind in _fields(cls).items())


@functools.cache
def _check(kind: Any) -> _Check:
    """Return what says what is wrong with a value where *kind* is expected, or ``None``."""
    origin, arms = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda _: None
    if _is_messages(kind):
        return _not_messages
    if origin is Literal:
        return lambda value: None if value in arms else f"expected one of {arms}, not {_shown(value)}"
    if origin in {typing.Union, types.UnionType}:
        checks = [_check(arm) for arm in arms]
        return lambda value: None if any(check(value) is None for check in checks) else _expected(kind, value)
    expected = origin or kind
    if expected is Callable:
        return lambda value: None if callable(value) else _expected(kind, value)
    if not isinstance(expected, type):
        return lambda _: None
    if expected in {int, float}:
        # True is an int to Python, and no number to anybody else.
        return lambda value: (
            None if isinstance(value, expected) and not isinstance(value, bool) else _expected(kind, value)
        )
    return lambda value: None if isinstance(value, expected) else _expected(kind, value)


def _not_messages(value: Any) -> str | None:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return f"expected a sequence of messages, not {_shown(value)}"
    if isinstance(value, History):
        return None  # the host's own, which holds nothing else
    odd = next((item for item in value if not isinstance(item, _MESSAGES)), None)
    return None if odd is None else f"expected messages, and found {_shown(odd)}"


def _expected(kind: Any, value: Any) -> str:
    return f"expected {getattr(kind, '__name__', kind)}, not {_shown(value)}"


def _shown(value: Any) -> str:
    # Never the value of a text: it may be what somebody said.
    return repr(value) if isinstance(value, int | float | bool | None) else f"a {type(value).__name__}"
