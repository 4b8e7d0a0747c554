"""What the tests of models share."""

from collections.abc import AsyncIterator

import pytest

from tests.models.provider import Provider, running


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """A provider that runs."""
    async with running() as found:
        yield found


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's own key or endpoint is used."""
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
