"""The front door: every public name, and nothing loaded before it is used."""

import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import openclaw_ctx

HEAVY = ("structlog", "rich", "pyjson5", "cattrs", "psutil", "tiktoken", "asyncio", "openai", "anthropic")
ROOMS = ("assembly", "config", "contract", "errors", "host", "models", "tokens", "transcript")


def _in_isort_order(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: (0 if name.isupper() else 1 if name[0].isupper() else 2, name))


def test_the_list_of_names_is_sorted():
    """Each name once, in the order that the linter keeps."""
    assert openclaw_ctx.__all__ == _in_isort_order(openclaw_ctx.__all__)
    assert len(set(openclaw_ctx.__all__)) == len(openclaw_ctx.__all__)


@pytest.mark.parametrize("room", ["contract", "errors"])
def test_the_words_of_the_contract_are_all_at_the_door(room):
    """An engine author imports from ``openclaw_ctx`` alone; what only a host needs stays inside."""
    inner = {"EMPTY", "PROJECT", "FrozenList", "hookspec"}

    assert set(importlib.import_module(f"openclaw_ctx.{room}").__all__) - inner <= set(openclaw_ctx.__all__)
    assert not inner & set(openclaw_ctx.__all__)


def _public_classes(annotation: object) -> set[str]:
    """Return the names of our own that an annotation speaks of."""
    return {word for word in re.findall(r"\w+", str(annotation)) if word in _OWN}


_OWN = {
    name
    for room in ("assembly", "config", "contract", "host", "tokens", "transcript")
    for name in importlib.import_module(f"openclaw_ctx.{room}").__all__
    if name[0].isupper() and not name.isupper()
}


@pytest.mark.parametrize("cls", [openclaw_ctx.Host, openclaw_ctx.Session, openclaw_ctx.Registry])
def test_what_a_method_takes_and_gives_can_be_imported_from_the_front(cls):
    """So that a program can annotate what it passes on."""
    methods = [value for name, value in vars(cls).items() if not name.startswith("_")]
    functions = [getattr(method, "__func__", getattr(method, "fget", method)) for method in methods]
    signatures = [str(inspect.signature(function)) for function in functions if callable(function)]
    named = set().union(*map(_public_classes, signatures))

    assert named
    assert named <= set(openclaw_ctx.__all__)


@pytest.mark.parametrize("room", ROOMS)
def test_a_rooms_list_is_sorted_and_true(room):
    """What a room exports is there, each name once."""
    module = importlib.import_module(f"openclaw_ctx.{room}")

    assert list(module.__all__) == _in_isort_order(list(module.__all__))
    assert all(hasattr(module, name) for name in module.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error():
    """As for any module; ``from openclaw_ctx import nonsense`` says so."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = openclaw_ctx.nonsense
    assert {*openclaw_ctx.__all__, "__all__"} <= set(dir(openclaw_ctx))


def _loaded_by(*arguments: str) -> set[str]:
    """Return the modules that a fresh process has loaded at its end."""
    at_exit = (
        "import atexit, json, sys; atexit.register(lambda: sys.stderr.write('\\n' + json.dumps(sorted(sys.modules))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", at_exit + arguments[0], *arguments[1:]],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(openclaw_ctx.__file__).parent.parent,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("import openclaw_ctx",), id="import"),
        pytest.param(("from openclaw_ctx.__main__ import main; main()", "--version"), id="version"),
        pytest.param(("from openclaw_ctx.__main__ import main; main()", "--help"), id="help"),
        pytest.param(("from openclaw_ctx.errors import ConfigError",), id="errors"),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_used(arguments):
    """The start costs neither logging, tables, JSON5 nor structuring."""
    loaded = _loaded_by(*arguments)

    assert not {name for name in loaded if name.split(".")[0] in HEAVY}
    assert "openclaw_ctx" in loaded


def test_an_engine_author_loads_the_contract_and_no_host():
    """``from openclaw_ctx import hookimpl`` is cheap: an engine's import is part of every start."""
    loaded = _loaded_by("from openclaw_ctx import AssembleResult, EngineInfo, Message, hookimpl")

    assert "openclaw_ctx.contract" in loaded
    assert not {f"openclaw_ctx.{room}" for room in ("assembly", "config", "host", "transcript", "tokens")} & loaded


def test_listing_the_engines_loads_neither_tables_nor_logging_nor_json5():
    """``openclaw-ctx engines`` without a configuration file reads metadata and prints."""
    loaded = _loaded_by("from openclaw_ctx.__main__ import main; main()", "engines")

    assert not {name for name in loaded if name.split(".")[0] in {"structlog", "rich", "pyjson5", "tiktoken"}}
