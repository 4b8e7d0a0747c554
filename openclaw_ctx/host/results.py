"""
What a hook answered, made sure of.

A plain ``dict`` is structured into the contract's class; an instance is
believed no more than a dict, since attrs checks no types. What comes out is made
of the contract's own classes, and the engine can change none of it afterwards.

An engine's sequence, mapping or subclass runs the engine's code when it is
looked at: call these functions in the engine's lane.
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
    freeze,
    message_from_wire,
)
from openclaw_ctx.log import clean_text
from openclaw_ctx.transcript import History

__all__ = ["NEUTRAL", "InvalidResult", "structure_info", "structure_result"]

_Check: TypeAlias = Callable[[Any], str | None]

_MESSAGES: Final = frozenset(get_args(Message))


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
        if cls is SubagentPreparation and not isinstance(value, cls) and callable(getattr(value, "rollback", None)):
            return SubagentPreparation(rollback=value.rollback)
        return _structured(cls, value)
    except (TypeError, ValueError) as error:
        raise InvalidResult(operation, clean_text(str(error))) from error


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
        raise InvalidResult("tools", clean_text(str(error))) from error


def _structured(cls: type, value: Any) -> Any:
    if type(value) is cls:
        pass  # nearly always, and the next question is a dear one
    elif isinstance(value, Mapping):
        value = _from_mapping(cls, value)
    elif not isinstance(value, cls):
        message = f"{type(value).__name__}, not {cls.__name__}"
        raise TypeError(message)
    else:
        value = cls(**{name: getattr(value, name) for name, _ in _checks(cls)})
    loose = {
        name: settled
        for name, settle in _loose(cls)
        if (settled := settle(getattr(value, name))) is not getattr(value, name)
    }
    if loose:
        value = attrs.evolve(value, **loose)
    problem = _problem(cls, value)
    if problem:
        raise TypeError(problem)
    return value


def _problem(cls: type, value: Any) -> str | None:
    for name, check in _checks(cls):
        problem = check(getattr(value, name))
        if problem:
            return f"{cls.__name__}.{name}: {problem}"
    return None


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
        return tuple(_message_from(item) if isinstance(item, Mapping) else item for item in value)
    if isinstance(value, Mapping):
        for candidate in (kind, *get_args(kind)):
            if attrs.has(candidate):
                return _structured(candidate, value)
            if candidate is HostRequirements or HostRequirements in get_args(candidate):
                return {
                    key: _structured(HostRequirements, item) if isinstance(item, Mapping) else item
                    for key, item in value.items()
                }
    return value


def _message_from(wire: Mapping[str, Any]) -> Message:
    message = message_from_wire(dict(wire))
    if not isinstance(wire.get("role"), str):
        problem = "a message without a 'role'"
        raise TypeError(problem)
    if "content" in message.extra:  # where what is not of its type is kept
        problem = f"the 'content' of a message of role {message.role!r} is {_shown(wire['content'])}"
        raise TypeError(problem)
    return message


@functools.cache
def _fields(cls: type) -> Mapping[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in attrs.fields(cls) if field.init}


@functools.cache
def _loose(cls: type) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """Return the fields that may hold a container of the engine's, each with what makes it the host's."""
    found: list[tuple[str, Callable[[Any], Any]]] = []
    for name, kind in _fields(cls).items():
        if get_origin(kind) is Sequence:
            found.append((name, _own_sequence))
        elif get_origin(kind) is Mapping:
            found.append((name, lambda value: freeze(dict(value)) if isinstance(value, Mapping) else value))
    return tuple(found)


def _own_sequence(value: Any) -> Any:
    if type(value) is tuple or type(value) is History or not isinstance(value, Sequence) or isinstance(value, str):
        return value
    return tuple(value)


def _is_messages(kind: Any) -> bool:
    return get_origin(kind) is Sequence and get_args(kind)[:1] == (Message,)


@functools.cache
def _checks(cls: type) -> tuple[tuple[str, _Check], ...]:
    return tuple((name, _check(kind)) for name, kind in _fields(cls).items())


@functools.cache
def _check(kind: Any) -> _Check:
    """Return what says what is wrong with a value where *kind* is expected, or ``None``."""
    kind = getattr(kind, "__supertype__", kind)  # a NewType is its type
    origin, arms = get_origin(kind), get_args(kind)
    if kind is Any:
        return _not_json
    if _is_messages(kind):
        return _not_messages
    if origin is Literal:
        return lambda value: None if value in arms else f"expected one of {arms}, not {_shown(value)}"
    if origin in {typing.Union, types.UnionType}:
        return _check_union(kind, arms)
    if origin is Callable:
        return lambda value: None if callable(value) else _expected(kind, value)
    if origin in {tuple, Mapping}:
        return _check_items(kind, origin, _check(arms[0] if origin is tuple else arms[1]))
    if attrs.has(kind):
        return lambda value: _problem(kind, value) if type(value) is kind else _expected(kind, value)
    if kind in {int, float}:
        # True is an int to Python, and no number to anybody else.
        allowed = (int, float) if kind is float else (int,)
        return lambda value: None if type(value) in allowed else _expected(kind, value)
    return lambda value: None if isinstance(value, kind) else _expected(kind, value)


def _check_union(kind: Any, arms: tuple[Any, ...]) -> _Check:
    by_class = {arm: _check(arm) for arm in arms}
    checks = tuple(by_class.values())

    def check(value: Any) -> str | None:
        own = by_class.get(type(value))
        if own is not None:
            return own(value)
        problems = [check(value) for check in checks]
        if None in problems:
            return None
        needed = [problem for arm, problem in zip(arms, problems, strict=True) if arm is not types.NoneType]
        return needed[0] if len(needed) == 1 else _expected(kind, value)

    return check


def _check_items(kind: Any, holder: type, check: _Check) -> _Check:
    def check_all(value: Any) -> str | None:
        if not isinstance(value, holder):
            return _expected(kind, value)
        items: Any = value.values() if isinstance(value, Mapping) else value
        return next(filter(None, map(check, items)), None)

    return check_all


def _not_json(value: Any) -> str | None:
    if value is None or isinstance(value, str | int | float):
        return None
    if isinstance(value, dict):
        odd = next((key for key in value if not isinstance(key, str)), None)
        return (
            f"a key that is {_shown(odd)}"
            if odd is not None
            else next(filter(None, map(_not_json, value.values())), None)
        )
    if isinstance(value, list | tuple):
        return next(filter(None, map(_not_json, value)), None)
    return f"expected what JSON can say, not {_shown(value)}"


def _not_messages(value: Any) -> str | None:
    if type(value) is History:
        return None  # the host's own, which holds nothing else
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return f"expected a sequence of messages, not {_shown(value)}"
    for message in value:
        if type(message) not in _MESSAGES:
            return f"expected messages, and found {_shown(message)}"
        if message._checked:  # noqa: SLF001 -- the message's field for exactly this
            continue  # looked at in an earlier answer: a long history costs its first look, then a comparison each
        problem = _problem(type(message), message)
        if problem:
            return problem
        object.__setattr__(message, "_checked", True)
    return None


def _expected(kind: Any, value: Any) -> str:
    return f"expected {getattr(kind, '__name__', kind)}, not {_shown(value)}"


def _shown(value: Any) -> str:
    # Never the value of a text: it may be what somebody said.
    return repr(value) if type(value) in {int, float, bool, types.NoneType} else f"a {type(value).__name__}"
