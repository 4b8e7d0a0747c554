"""Hosts whose engine is an installed distribution."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pytest
import structlog

from openclaw_ctx import Host, Registry
from openclaw_ctx.assembly import Opening
from tests.host.faulty import imported_from, install_engines

OpenHost: TypeAlias = Callable[..., Opening[Host]]


@pytest.fixture(autouse=True)
def _plain_logging() -> None:
    """Events go to the standard library's logger, as in a program that has set up nothing; a test of a command may."""
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the ``ENGINES`` of the test module, each as a distribution."""
    return install_engines(tmp_path_factory.mktemp("engines"), request.module.ENGINES)


@pytest.fixture
def base(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """What the installed engines have in common: ``log``, ``entered``, and the ``gate`` at which some block."""
    monkeypatch.syspath_prepend(installed)
    with imported_from(installed) as base:
        yield base


@pytest.fixture
def open_host(installed: Path, base: ModuleType, tmp_path: Path) -> OpenHost:
    """
    Open a host with an installed engine in its slot: ``open_host(engine_id, deadlines={...}, slotPolicy=...)``.

    Hosts of one test share a registry, as those of one process do.
    """
    registry = Registry()

    def opened(
        engine_id: str, *, deadlines: Mapping[str, float] | None = None, model: Any = None, **plugins: Any
    ) -> Opening[Host]:
        return Host.open(
            {"plugins": {"slots": {"contextEngine": engine_id}, **plugins}, "deadlines": dict(deadlines or {})},
            engine_path=[str(installed)],
            state_dir=tmp_path / "state",
            registry=registry,
            model=model,
        )

    return opened
