"""The extras: not loaded before they are used, and named where they are missing."""

import importlib.util
import subprocess
import sys

import pytest

from openclaw_ctx.contract import UserMessage
from openclaw_ctx.models import AnthropicModel, ModelRequest, OpenAICompatibleModel
from openclaw_ctx.models.failures import failure_from_body
from tests.models.clients import KEY, LANGUAGES, client
from tests.models.provider import Reply, message


@pytest.mark.parametrize("kind,name", [(OpenAICompatibleModel, "openai"), (AnthropicModel, "anthropic")])
def test_a_missing_package_is_named_with_the_command_that_brings_it(kind, name, monkeypatch):
    """Before a key is looked for."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    with pytest.raises(ImportError, match=rf"pip install 'openclaw-ctx\[{name}\]'"):
        kind("m")


@pytest.mark.parametrize("language", LANGUAGES[1:])
async def test_a_token_of_the_environment_does_for_anthropics_key(language, provider, monkeypatch):
    """An argument goes before it, as it goes before the key."""
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "the-token-of-the-environment")
    provider.will(*(Reply(message({"type": "text", "text": "Hello."})) for _ in range(2)))
    request = ModelRequest(messages=[UserMessage(content="Hello?")])

    async with client(language, provider, api_key=None) as model, client(language, provider) as other:
        await model.complete(request)
        await other.complete(request)

    first, second = (asked.headers for asked in provider.requests)
    assert first["authorization"] == "Bearer the-token-of-the-environment"
    assert KEY in (second.get("x-api-key") or second["authorization"])


def test_the_room_loads_no_package_of_a_provider():
    """Naming the classes is cheap."""
    code = """
import sys
from openclaw_ctx.models import AnthropicModel, OpenAICompatibleModel, ScriptedModel, classify_failure
print(sorted({"openai", "anthropic", "httpx", "httpx2", "pydantic"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "body,text,codes",
    [
        pytest.param({"error": {"message": "m", "code": "c", "type": "t"}}, "m", ("c", "t"), id="openai"),
        pytest.param({"type": "error", "error": {"type": "t", "message": "m"}}, "m", ("error", "t"), id="anthropic"),
        pytest.param({"message": "m", "code": 400}, "m", (), id="bare"),
        pytest.param(
            [{"error": {"message": "m", "status": "INVALID_ARGUMENT"}}], "m", ("INVALID_ARGUMENT",), id="google"
        ),
        pytest.param({"error": "m"}, "m", (), id="ollama"),
        pytest.param({"detail": "m"}, "m", (), id="fastapi"),
        pytest.param("m", "m", (), id="text"),
        pytest.param(
            {"error": {"message": "Provider returned error", "metadata": {"raw": "m"}}},
            "Provider returned error m",
            (),
            id="openrouter",
        ),
        pytest.param(None, "HTTP 418", (), id="nothing"),
        pytest.param({"error": {}}, "HTTP 418", (), id="an-empty-object"),
        pytest.param([], "HTTP 418", (), id="an-empty-list"),
    ],
)
def test_an_error_object_is_read_in_every_form_that_is_about(body, text, codes):
    """The words, and the codes."""
    failure = failure_from_body(body, status=418)

    assert (failure.text, failure.codes, failure.status) == (text, codes, 418)


def test_an_error_within_a_200_has_its_own_status():
    """Routers send it so."""
    assert failure_from_body({"error": {"message": "m", "code": 429}}, status=200).status == 429
