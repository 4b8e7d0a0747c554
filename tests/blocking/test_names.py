"""The same names as the asynchronous host's: what is added there is not forgotten here."""

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from openclaw_ctx import SessionStore, assembly, blocking, contract
from tests.assembly.recording import open_host
from tests.blocking.hosts import opened

PAIRS = [
    pytest.param(assembly.Host, blocking.Host, id="host"),
    pytest.param(assembly.Session, blocking.Session, id="session"),
    pytest.param(assembly.Subagent, blocking.Subagent, id="subagent"),
    pytest.param(SessionStore, blocking.Store, id="store"),
]

INTERNAL = {"follow_rewrite": "its host tells a session of it"}
"""What is public for the host's own rooms, and no caller's."""

_COMPLETE = "Callable[[CompletionRequest], Awaitable[CompletionResult]]"
ALSO_PLAIN = (f"{_COMPLETE} | Callable[[CompletionRequest], CompletionResult]", _COMPLETE)
"""What may be given where the asynchronous host takes ``Complete`` alone."""


def public(cls: type) -> dict[str, Any]:
    """Return the public methods and properties of a class."""
    return {name: value for name, value in vars(cls).items() if not name.startswith("_") and name not in INTERNAL}


def function_of(member: Any) -> Callable[..., Any]:
    """Return the function behind a method, a class method or a property."""
    return getattr(member, "fget", None) or getattr(member, "__func__", member)


def shown(annotation: Any) -> str:
    """Return an annotation without modules, and what is awaited or opened as what comes of it."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)
    return re.sub(r"Opening\[(\w+)\]", r"\1", text).replace(*ALSO_PLAIN)


def signature_of(member: Any, cls: type) -> list[Any]:
    """Return names, kinds, defaults and annotations, the last of what is returned."""
    signature = inspect.signature(function_of(member))
    parameters = [(p.name, p.kind, p.default, shown(p.annotation)) for p in signature.parameters.values()]
    returned = shown(signature.return_annotation)
    return [*parameters, cls.__name__ if returned == "Self" else returned]


@pytest.mark.parametrize("original,plain", PAIRS)
def test_every_method_and_property_has_a_plain_namesake_with_the_same_signature(original, plain):
    """Names, parameters, defaults and annotations, ``await`` aside: what is added there is not forgotten here."""
    expected = {name: (type(member), signature_of(member, original)) for name, member in public(original).items()}

    found = {name: (type(member), signature_of(member, plain)) for name, member in public(plain).items()}

    assert {name: found.get(name) for name in expected} == expected
    assert found.keys() - expected.keys() <= {"transcript"}, "an attribute there"


@pytest.mark.parametrize("plain", [blocking.Host, blocking.Session, blocking.Subagent, blocking.Store])
def test_nothing_is_left_to_await(plain):
    """Plain methods all, and context managers of the plain kind."""
    members = [function_of(member) for member in vars(plain).values() if callable(function_of(member))]

    assert not [member for member in members if inspect.iscoroutinefunction(member)]
    assert plain is blocking.Store or (hasattr(plain, "__enter__") and hasattr(plain, "__exit__"))
    assert not {"__aenter__", "__await__", "__getattr__"} & vars(plain).keys()


async def test_every_attribute_is_there_too(tmp_path):
    """What a host and a session carry as values: descriptor, folders, findings, key, transcript."""
    async with open_host(tmp_path / "a", "legacy") as host, host.session("talk") as session:
        expected = [{name for name in dir(thing) if name[0] != "_"} - INTERNAL.keys() for thing in (host, session)]

    def look() -> list[set[str]]:
        with opened(tmp_path / "b") as host, host.session("talk") as session:
            return [{name for name in dir(thing) if name[0] != "_"} for thing in (host, session)]

    assert await asyncio.to_thread(look) == expected


def test_a_tool_has_the_same_fields():
    """But for what calling it returns."""
    fields = {field.name: field.type for field in attrs.fields(contract.EngineTool) if field.name != "call"}

    assert {field.name: field.type for field in attrs.fields(blocking.EngineTool) if field.name != "call"} == fields


class _Recorder:
    """Stands for what a façade is in front of, and keeps what it was called with."""

    key = "talk"
    descriptor = state_dir = store = workspace_dir = findings = None

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, arguments, options))
            return () if name in {"tools", "sessions"} else self

        return call


class _Inline:
    """Stands for a host's thread, and does everything here."""

    is_over = False

    def run(self, work: Callable[[], Any], what: str, *, undo: Any = None) -> Any:
        return work()

    run_at_once = call = run

    def close(self, work: Callable[[], Any], what: str) -> None:
        work()

    def abandon(self, work: Callable[[], Any]) -> None:
        pass


@pytest.mark.parametrize(
    "cls,name",
    [
        pytest.param(cls, name, id=f"{cls.__name__}.{name}")
        for cls in (blocking.Host, blocking.Session, blocking.Store)
        for name, member in public(cls).items()
        if not isinstance(member, classmethod | property)
    ],
)
def test_every_argument_is_handed_on(cls, name):
    """Under its own name, or in its place: none is dropped on the way."""
    recorder, thread = _Recorder(), _Inline()
    host = blocking.Host(thread, recorder)
    facades = (host, blocking.Session(host, thread, recorder), blocking.Store(thread, recorder))
    facade = next(facade for facade in facades if type(facade) is cls)
    parameters = list(inspect.signature(getattr(facade, name)).parameters.values())
    places = [object() for p in parameters if p.kind is not p.KEYWORD_ONLY]
    options = {p.name: object() for p in parameters if p.kind is p.KEYWORD_ONLY}

    getattr(facade, name)(*places, **options)

    assert recorder.calls == [(name, tuple(places), options)]


def test_every_option_of_opening_is_handed_on(monkeypatch, tmp_path):
    """But for the model, which is made one that is awaited."""
    given: dict[str, Any] = {}
    really = assembly.Host.open

    def note(config: Any, **options: Any) -> Any:
        given.update(options, config=config)
        return really({}, state_dir=tmp_path, model=options["model"])

    monkeypatch.setattr(assembly.Host, "open", note)
    parameters = inspect.signature(blocking.Host.open).parameters
    options = {name: object() for name in parameters if name not in {"config", "model", "summary_model"}}

    def model(request):
        raise AssertionError

    blocking.Host.open("config", model=model, **options).close()

    assert inspect.iscoroutinefunction(given.pop("model"))
    assert given.pop("summary_model") is None
    assert given == {**options, "config": "config"}


def test_the_front_door_does_not_load_it():
    """Whoever brings a loop does not pay for it; ``from openclaw_ctx import blocking`` finds it."""
    code = """
import sys, openclaw_ctx
assert "openclaw_ctx.blocking" not in sys.modules
from openclaw_ctx import blocking
assert blocking.Host is not openclaw_ctx.Host
"""

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
