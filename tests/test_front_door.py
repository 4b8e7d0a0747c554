"""The front door: every public name, and nothing loaded before it is used."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import openclaw_ctx

HEAVY = ("structlog", "rich", "pyjson5", "cattrs", "psutil", "tiktoken", "asyncio")
ROOMS = ("assembly", "config", "contract", "errors", "host", "tokens", "transcript")


def _stub() -> dict[str, str]:
    """Return what the types say: name to the room that it comes from."""
    tree = ast.parse(Path(openclaw_ctx.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: node.module or ""
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _in_isort_order(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: (0 if name.isupper() else 1 if name[0].isupper() else 2, name))


def test_the_list_of_names_is_complete_and_sorted():
    """``__all__`` is what ``_HOMES`` gives, each name once, in the order that the linter keeps."""
    homes = [name for names in openclaw_ctx._HOMES.values() for name in names]

    assert openclaw_ctx.__all__ == _in_isort_order(homes)
    assert len(set(homes)) == len(homes)


def test_type_checkers_see_the_names_that_there_are():
    """The stub has the same names, from the same rooms."""
    rooms = {name: f"openclaw_ctx.{room}" for name, room in _stub().items() if name != "__all__"}

    assert rooms == openclaw_ctx._HOME_OF


@pytest.mark.parametrize("name", openclaw_ctx.__all__)
def test_a_name_is_what_its_room_exports(name):
    """The door hands out the room's own object, which is on the room's list."""
    room = importlib.import_module(openclaw_ctx._HOME_OF[name])

    assert getattr(openclaw_ctx, name) is getattr(room, name)
    assert name in room.__all__


@pytest.mark.parametrize("room", ["contract", "errors"])
def test_the_words_of_the_contract_are_all_at_the_door(room):
    """An engine author imports from ``openclaw_ctx`` alone."""
    assert set(importlib.import_module(f"openclaw_ctx.{room}").__all__) <= set(openclaw_ctx.__all__)


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
