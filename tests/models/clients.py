"""Clients of the local provider, by the language that they speak."""

import importlib.util
from collections.abc import AsyncIterator
from typing import Any

import pytest

from openclaw_ctx.models import AnthropicModel, ModelEvent, OpenAICompatibleModel
from tests.models.provider import Provider

__all__ = ["KEY", "LANGUAGES", "client", "gather"]

KEY = "a-key-that-nobody-may-see-4711"

LANGUAGES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            importlib.util.find_spec(name) is None,
            reason=f"the package {name} is not installed: pip install 'openclaw-ctx[{name}]'",
        ),
    )
    for name in ("openai", "anthropic")
]


def client(language: str, provider: Provider, **more: Any) -> OpenAICompatibleModel | AnthropicModel:
    """Return a client of *provider* that speaks a language."""
    given: dict[str, Any] = {"api_key": KEY, "timeout_seconds": 5.0, **more}
    if language == "openai":
        return OpenAICompatibleModel("gpt-test", base_url=f"{provider.url}/v1", **given)
    return AnthropicModel("claude-test", base_url=provider.url, **given)


async def gather(stream: AsyncIterator[ModelEvent], into: list[ModelEvent]) -> None:
    """Put every event of a stream into a list, which holds them also when the stream raises."""
    async for event in stream:
        into.append(event)  # noqa: PERF401 -- as said
