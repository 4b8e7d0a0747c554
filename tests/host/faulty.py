"""Engines that misbehave, each installed as a distribution of its own."""

import contextlib
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

from openclaw_ctx.host import ENGINES_GROUP
from tests.host.distributions import build_wheel, install_wheels

__all__ = ["imported_from", "install_engines", "lanes", "module_of", "wait_for"]

BASE = '''
"""What the engines have in common: a good one, and a gate at which a bad one blocks until its test is over."""

import asyncio
import contextlib
import sys
import threading

from openclaw_ctx import (
    AssembleResult, AssistantMessage, BootstrapResult, Compaction, CompactResult, EngineInfo, IngestBatchResult,
    IngestResult, RewriteResult, TextBlock, ToolCallBlock, UserMessage, hookimpl,
)

gate = threading.Event()
entered = threading.Event()
log = []


class Plain:
    info = EngineInfo(id="acme", name="Acme")

    def __init__(self, context):
        self.context = context

    @hookimpl
    def ingest(self, message):
        return IngestResult(ingested=True)

    @hookimpl
    async def assemble(self, messages):
        return AssembleResult(messages=messages)

    @hookimpl
    def compact(self):
        return CompactResult(ok=True, compacted=False, reason="nothing to do")
'''


def install_engines(folder: Path, sources: Mapping[str, str]) -> Path:
    """
    Install one distribution for each engine into a new site folder, by one call of pip, and return the folder.

    Args:
        folder: Where the wheels and the site folder go.
        sources: Engine id to the text of its module, which may use every name of ``BASE`` and has a ``make``
            or else an ``Engine`` to be its factory.
    """
    wheels = [build_wheel(folder / "wheels", "acme-base", "1.0", {"acme_base.py": BASE}, {})]
    for engine_id, source in sources.items():
        module = module_of(engine_id)
        factory = "make" if "def make(" in source else "Engine"
        wheel = build_wheel(
            folder / "wheels",
            f"acme-{engine_id}",
            "1.0",
            {f"{module}.py": f"from acme_base import *\n{source}"},
            {ENGINES_GROUP: {engine_id: f"{module}:{factory}"}},
            requires=["acme-base"],
        )
        wheels.append(wheel)
    return install_wheels(wheels, folder / "site")


def module_of(engine_id: str) -> str:
    """Return the name of an engine's module."""
    return f"acme_{engine_id.replace('-', '_')}"


@contextlib.contextmanager
def imported_from(site: Path) -> Iterator[ModuleType]:
    """
    Give what the engines have in common.

    Afterwards open the gate, wait for every lane to end, and forget what was imported from *site*.
    """
    before = set(lanes())
    base = import_module("acme_base")
    try:
        yield base
    finally:
        base.gate.set()
        left = wait_for(set(lanes()) - before)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(site)):
                del sys.modules[name]
        assert left == [], "an engine that lets go must not keep its lane"


def lanes() -> list[threading.Thread]:
    """Return the threads of engines that still live."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("engine-")]


def wait_for(threads: Collection[threading.Thread]) -> list[str]:
    """Return the names of those *threads* that do not end within ten seconds."""
    until = time.monotonic() + 10
    for thread in threads:
        thread.join(timeout=max(0.0, until - time.monotonic()))
    return [thread.name for thread in threads if thread.is_alive()]
