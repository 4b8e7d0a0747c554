"""Providers in the file: each for itself, and their keys never shown."""

from typing import Any

import pytest

from openclaw_ctx.config import LoadedSettings, ProviderModelSettings, ProviderSettings, settings_from
from openclaw_ctx.errors import ConfigError

SECRET = "sk-live-0123456789"  # noqa: S105 -- an example


def _loaded(environ: dict[str, str] | None = None, **providers: Any) -> LoadedSettings:
    return settings_from({"models": {"providers": providers}}, environ=environ or {})


def test_a_provider_is_read_with_its_models() -> None:
    """What is not ours in it is passed over."""
    loaded = _loaded(
        {"KEY": SECRET},
        acme={
            "baseUrl": "http://localhost:1234/v1",
            "apiKey": "${KEY}",
            "api": "openai-completions",
            "headers": {"X-Team": "a"},
            "models": [
                {"id": "m", "name": "M", "contextWindow": 200_000, "contextTokens": 150_000, "maxTokens": 8_192},
                {"id": "z-ai/glm", "cost": {"input": 0}},
            ],
        },
    )

    assert loaded.findings == ()
    assert loaded.settings.models.providers["acme"] == ProviderSettings(
        base_url="http://localhost:1234/v1",
        api_key=SECRET,
        api="openai-completions",
        models=(
            ProviderModelSettings(id="m", context_window=200_000, context_tokens=150_000, max_tokens=8_192),
            ProviderModelSettings(id="z-ai/glm"),
        ),
    )


@pytest.mark.parametrize(
    "environ, why",
    [pytest.param({}, "not set", id="unset"), pytest.param({"NOPE": ""}, "empty", id="set-but-empty")],
)
def test_an_unset_variable_switches_off_only_its_provider(environ: dict[str, str], why: str) -> None:
    """B59: a finding with path and name; every other provider is whole, and so is the rest of the file."""
    loaded = _loaded(
        {"KEY": SECRET, **environ},
        other={"apiKey": "${NOPE}", "models": [{"id": "${NOPE}"}]},
        good={"apiKey": "${KEY}"},
    )

    providers = loaded.settings.models.providers
    assert loaded.findings == (
        f"$.models.providers.other.apiKey: ${{NOPE}} is {why} in the environment, so this entry is off",
        f"$.models.providers.other.models[0].id: ${{NOPE}} is {why} in the environment, so this entry is off",
    )
    assert providers["other"].unset_variables == (
        "$.models.providers.other.apiKey: ${NOPE}",
        "$.models.providers.other.models[0].id: ${NOPE}",
    )
    assert providers["good"] == ProviderSettings(api_key=SECRET)


def test_a_key_never_shows() -> None:
    """Neither in a ``repr`` nor in a problem, wherever it was pasted."""
    loaded = _loaded(acme={"apiKey": SECRET, "baseUrl": f"http://me:{SECRET}@acme"})
    with pytest.raises(ConfigError) as caught:
        _loaded(a=SECRET, b={"models": SECRET, "apiKey": [SECRET]}, c={"models": [SECRET, {"maxTokens": SECRET}]})

    assert SECRET not in repr(loaded)
    assert list(caught.value.problems) == [
        "$.models.providers.a: expected an object, not a string",
        "$.models.providers.b.apiKey: expected a string, not a list",
        "$.models.providers.b.models: expected a list, not a string",
        "$.models.providers.c.models[0]: expected an object, not a string",
        "$.models.providers.c.models[1].maxTokens: expected a whole number, not a string",
    ]


@pytest.mark.parametrize("api", ["openai-completions", "anthropic-messages", None])
def test_what_is_spoken_here_is_no_finding(api: str | None) -> None:
    """Nor is saying nothing."""
    assert _loaded(acme={"api": api}).findings == ()


@pytest.mark.parametrize("api", ["openai-responses", "google-generative-ai", "openai-completion"])
def test_what_is_not_spoken_here_is_a_finding(api: str) -> None:
    """The file can be used all the same: it concerns one provider."""
    loaded = _loaded(acme={"api": api})

    assert loaded.settings.models.providers["acme"].api == api
    assert loaded.findings == (
        (
            "$.models.providers.acme.api: not spoken here, so this provider cannot be asked; "
            "spoken here: openai-completions, anthropic-messages"
        ),
    )


def test_a_window_of_nothing_is_refused() -> None:
    """By the place in the list."""
    with pytest.raises(ConfigError) as caught:
        _loaded(acme={"models": [{"id": "m"}, {"id": "n", "contextWindow": 0}]})

    assert list(caught.value.problems) == [
        "$.models.providers.acme.models[1].contextWindow: expected a whole number of at least 1, or null, not 0"
    ]


def test_a_key_may_be_a_reference_to_the_environment() -> None:
    """As the reference system's files have it."""
    loaded = _loaded({"KEY": SECRET}, acme={"apiKey": {"source": "env", "provider": "default", "id": "KEY"}})

    assert loaded.findings == ()
    assert loaded.settings.models.providers["acme"] == ProviderSettings(api_key=SECRET)


def test_a_reference_to_an_unset_variable_switches_off_only_its_provider() -> None:
    """As a variable in a text does."""
    loaded = _loaded(acme={"apiKey": {"source": "env", "provider": "default", "id": "NOPE"}}, good={})

    providers = loaded.settings.models.providers
    assert providers["acme"].unset_variables == ("$.models.providers.acme.apiKey: ${NOPE}",)
    assert providers["good"] == ProviderSettings()
    assert loaded.findings == (
        "$.models.providers.acme.apiKey: ${NOPE} is not set in the environment, so this entry is off",
    )


@pytest.mark.parametrize(
    "reference,told",
    [
        pytest.param({"source": "file", "provider": "vault", "id": "/k"}, "a reference of source 'file'", id="a-file"),
        pytest.param({"source": "exec", "id": "op read"}, "a reference of source 'exec'", id="a-program"),
        pytest.param({"source": SECRET, "id": SECRET}, "no reference that can be read", id="an-unknown-source"),
        pytest.param({"source": "env"}, "no reference that can be read", id="no-id"),
        pytest.param({}, "no reference that can be read", id="nothing"),
    ],
)
def test_another_reference_is_a_finding_of_its_provider(reference: dict[str, str], told: str) -> None:
    """The provider is off, never asked with somebody else's key, and the rest of the file is whole."""
    loaded = _loaded({"KEY": SECRET}, acme={"apiKey": reference}, good={"apiKey": "${KEY}"})

    said = f"$.models.providers.acme.apiKey: {told}, and only those of source 'env' with an id are followed here"
    assert loaded.findings == (f"{said}, so this entry is off",)
    assert loaded.settings.models.providers["acme"].unread_secrets == (said,)
    assert loaded.settings.models.providers["good"] == ProviderSettings(api_key=SECRET)
