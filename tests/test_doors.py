"""Rooms whose doors are lazy: what type checkers see is what there is."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import openclaw_ctx
from openclaw_ctx.assembly import policy_from
from openclaw_ctx.config import Settings
from openclaw_ctx.host import Policy

PACKAGE = Path(openclaw_ctx.__file__).parent
LAZY_ROOMS = sorted(".".join(stub.parent.relative_to(PACKAGE.parent).parts) for stub in PACKAGE.rglob("__init__.pyi"))
"""The package itself is one of them: the front door."""


@pytest.mark.parametrize("room", LAZY_ROOMS)
def test_the_stub_of_a_lazy_room_says_what_its_door_gives(room):
    """Each name of the stub comes from the module that the stub names, and there are no others."""
    stub = ast.parse((PACKAGE.parent / Path(*room.split(".")) / "__init__.pyi").read_text(encoding="utf-8"))
    promised = {
        alias.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }

    door = importlib.import_module(room)

    assert sorted(door.__all__) == sorted(promised)
    for name, home in promised.items():
        assert getattr(door, name) is getattr(importlib.import_module(f"{room}.{home}"), name)


@pytest.mark.parametrize("room", LAZY_ROOMS)
def test_no_name_of_a_lazy_room_is_a_module_of_it(room):
    """Else importing that module would put it where the name belongs."""
    door = importlib.import_module(room)

    assert not {module.name for module in pkgutil.iter_modules(door.__path__)} & set(door.__all__)


def test_without_a_configuration_the_policy_is_that_of_an_empty_one():
    """Commands that find no file do not load the schema to learn its defaults."""
    assert Policy() == policy_from(Settings())


def test_listing_engines_loads_nothing_that_it_does_not_need(tmp_path, monkeypatch):
    """Its start is part of its use: no schema, no contract classes, no patterns, no importlib.metadata."""
    code = """
import sys
from openclaw_ctx.cli.main import main
sys.argv = ["openclaw-ctx", "engines"]
try:
    main()
except SystemExit as end:
    assert end.code == 0, end.code
heavy = {"asyncio", "email", "importlib.metadata", "msgspec", "pluggy", "psutil", "structlog", "openclaw_ctx.errors"}
heavy |= {"openclaw_ctx.config.schema", "openclaw_ctx.contract.message", "openclaw_ctx.log.mask"}
print(sorted(heavy & set(sys.modules)))
"""
    # A variable that names no file is worth a warning, and that has to be worded.
    monkeypatch.delenv("OPENCLAW_CTX_CONFIG")
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines()[-1] == "[]"
