"""From ``provider/model`` to a client that asks the right server with the right key."""

import importlib.util
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.contract import UserMessage
from openclaw_ctx.errors import ConfigError, ModelAuthError
from openclaw_ctx.models import (
    AnthropicModel,
    ModelAddress,
    ModelRequest,
    OpenAICompatibleModel,
    address_from,
    connect_model,
    split_model_name,
)
from tests.models.clients import KEY, LANGUAGES
from tests.models.provider import Provider, Reply, Request, completion, message

HELLO = ModelRequest(messages=[UserMessage(content="Hello?")])
_API = {"openai": "openai-completions", "anthropic": "anthropic-messages"}
_WHOLE = {
    "openai": lambda: Reply(completion("Hello.")),
    "anthropic": lambda: Reply(message({"type": "text", "text": "Hello."})),
}

of_each_language = pytest.mark.parametrize("language", LANGUAGES)


def _keys_of(asked: Request) -> set[str]:
    """Return what was sent as a key."""
    sent = (asked.headers.get("x-api-key", ""), asked.headers.get("authorization", "").removeprefix("Bearer "))
    return {key for key in sent if key}


@pytest.mark.parametrize(
    "name, parts",
    [
        pytest.param("openai/gpt-5-mini", ("openai", "gpt-5-mini"), id="plain"),
        pytest.param("openrouter/z-ai/glm-4", ("openrouter", "z-ai/glm-4"), id="a-slash-in-the-model's-own-name"),
        pytest.param("ollama/qwen3:8b", ("ollama", "qwen3:8b"), id="a-colon"),
    ],
)
def test_a_name_splits_at_its_first_slash(name: str, parts: tuple[str, str]) -> None:
    """What is behind it is the provider's business."""
    assert split_model_name(name) == parts


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("gpt-5-mini", id="no-provider"),
        pytest.param("/gpt-5-mini", id="an-empty-provider"),
        pytest.param("openai/", id="an-empty-model"),
        pytest.param("openai/gpt 5", id="a-space"),
        pytest.param("openai/gpt\n5", id="a-line-break"),
        pytest.param("openai/\x1b[31m", id="a-control-character"),
        pytest.param("", id="nothing"),
    ],
)
def test_what_is_no_name_is_refused_with_an_example(name: str) -> None:
    """And shows no control character."""
    with pytest.raises(ConfigError, match='"provider/model", such as "openai/gpt-5-mini"') as caught:
        split_model_name(name)

    assert all(line.isprintable() for line in str(caught.value).splitlines())


@given(st.text(alphabet="ab/ \n", max_size=6))
def test_a_name_that_splits_is_its_parts(name: str) -> None:
    """Nothing is lost, and nothing is empty."""
    try:
        provider, model = split_model_name(name)
    except ConfigError:
        return

    assert f"{provider}/{model}" == name
    assert provider
    assert model
    assert "/" not in provider


@pytest.mark.parametrize(
    "provider, base_url, variable, api",
    [
        pytest.param("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", "openai-completions", id="openai"),
        pytest.param(
            "anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", "anthropic-messages", id="anthropic"
        ),
        pytest.param(
            "openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openai-completions", id="openrouter"
        ),
        pytest.param("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "openai-completions", id="groq"),
        pytest.param("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "openai-completions", id="mistral"),
        pytest.param(
            "deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "openai-completions", id="deepseek"
        ),
    ],
)
def test_a_known_provider_needs_nothing_but_its_key(provider: str, base_url: str, variable: str, api: str) -> None:
    """Found under the usual name; without it, that name is said, and where else a key may stand."""
    address = address_from(f"{provider}/m", environ={variable: KEY})

    assert (address.provider, address.model, address.base_url, address.api) == (provider, "m", base_url, api)
    assert address.api_key == KEY
    for environ in ({}, {variable: ""}):
        with pytest.raises(ModelAuthError, match=rf"set {variable}, or models\.providers\.{provider}\.apiKey"):
            address_from(f"{provider}/m", environ=environ)


def test_a_server_of_ones_own_machine_needs_no_key() -> None:
    """Ollama has none, and gets nobody else's."""
    address = address_from("ollama/qwen3:8b", environ={"OPENAI_API_KEY": KEY})

    assert (address.base_url, address.api_key) == ("http://localhost:11434/v1", None)


def test_what_is_given_goes_before_what_is_known() -> None:
    """Each part of it, and the sizes are passed on."""
    address = address_from(
        "openai/m",
        base_url="http://localhost:1234",
        api_key="mine",
        api="anthropic-messages",
        context_window=8_000,
        context_tokens=6_000,
        max_tokens=500,
        environ={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://elsewhere"},
    )

    assert address == ModelAddress(
        provider="openai",
        model="m",
        base_url="http://localhost:1234",
        api_key="mine",
        api="anthropic-messages",
        context_window=8_000,
        context_tokens=6_000,
        max_tokens=500,
    )


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_the_environment_may_say_where_a_provider_is(provider: str) -> None:
    """Under the name that the providers' own packages read; that server may need no key."""
    address = address_from(f"{provider}/m", environ={f"{provider.upper()}_BASE_URL": "http://proxy"})

    assert (address.base_url, address.api_key) == ("http://proxy", None)


def test_an_unknown_provider_needs_an_address() -> None:
    """The error says which key to write, and who is known without it; with an address, no key is demanded."""
    with pytest.raises(ConfigError) as caught:
        address_from("acme/m", environ={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://not-acme"})
    address = address_from("acme/m", base_url="http://acme", environ={"OPENAI_API_KEY": KEY})

    (problem,) = caught.value.problems
    assert problem.startswith("$.models.providers.acme.baseUrl: required")
    assert "openrouter" in problem
    assert (address.base_url, address.api_key, address.api) == ("http://acme", None, "openai-completions")


def test_what_has_no_client_is_refused_with_what_has() -> None:
    """The reference system speaks more."""
    with pytest.raises(ConfigError) as caught:
        address_from("acme/m", base_url="http://acme", api="openai-responses", environ={})

    assert list(caught.value.problems) == [
        "$.models.providers.acme.api: expected one of openai-completions, anthropic-messages, not 'openai-responses'"
    ]


def test_an_address_shows_no_secret() -> None:
    """Neither the key nor a password in the URL; it survives pickling whole."""
    address = address_from("acme/m", base_url="http://me:hunter22@acme", api_key=KEY, environ={})

    assert KEY not in repr(address)
    assert "hunter22" not in repr(address)
    assert pickle.loads(pickle.dumps(address)) == address  # noqa: S301 -- what this test wrote


@of_each_language
async def test_the_client_asks_the_address_with_its_key(provider: Provider, language: str) -> None:
    """Model, key and language are those of the address, and the provider's name stands in the answer."""
    provider.will(_WHOLE[language]())
    url = f"{provider.url}/v1" if language == "openai" else provider.url
    address = address_from("acme/big/m", base_url=url, api_key=KEY, api=_API[language], environ={})

    async with connect_model(address) as model:  # type: ignore[attr-defined]  # every client can be closed
        answer = await model.complete(HELLO)

    (asked,) = provider.requests
    assert answer.message.text == "Hello."
    assert answer.message.provider == "acme"
    assert asked.body["model"] == "big/m"
    assert _keys_of(asked) == {KEY}
    assert isinstance(model, OpenAICompatibleModel if language == "openai" else AnthropicModel)


@of_each_language
async def test_a_key_of_the_environment_goes_to_nobody_else(
    provider: Provider, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address without a key is asked without one, whatever the process's environment holds."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, KEY)
    provider.will(_WHOLE[language]())
    url = f"{provider.url}/v1" if language == "openai" else provider.url
    address = address_from("acme/m", base_url=url, api=_API[language], environ={"OPENAI_API_KEY": KEY})

    async with connect_model(address) as model:  # type: ignore[attr-defined]  # every client can be closed
        await model.complete(HELLO)

    assert KEY not in str(provider.requests[0].headers)


@pytest.mark.parametrize("language", [LANGUAGES[1]])
@pytest.mark.parametrize("given, bound", [pytest.param(77, 77, id="said"), pytest.param(None, 8_192, id="not-said")])
async def test_anthropic_is_told_the_bound_of_an_answer(
    provider: Provider, language: str, given: int | None, bound: int
) -> None:
    """It wants one always; a request's own goes before it."""
    provider.will(_WHOLE[language]())
    address = address_from("acme/m", base_url=provider.url, api="anthropic-messages", max_tokens=given, environ={})

    async with connect_model(address) as model:  # type: ignore[attr-defined]  # every client can be closed
        await model.complete(HELLO)

    assert provider.requests[0].body["max_tokens"] == bound


@pytest.mark.parametrize("language", ["openai", "anthropic"])
def test_a_missing_extra_is_named(language: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is the line to type."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    address = address_from("acme/m", base_url="http://acme", api=_API[language], environ={})

    with pytest.raises(ImportError, match=rf"pip install 'openclaw-ctx\[{language}\]'"):
        connect_model(address)
