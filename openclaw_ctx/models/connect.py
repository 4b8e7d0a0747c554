"""
From ``provider/model`` to a client: what is known of a provider, and what the user says of it.

Where a key and an address come from is settled when the address is made, from
the environment that is handed over. Making the client looks at none, so that a
key never goes to a provider that it was not meant for.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import attrs

from openclaw_ctx.errors import ConfigError, ModelAuthError

from .anthropic_messages import AnthropicModel
from .client import Model
from .openai_compatible import OpenAICompatibleModel

__all__ = ["Api", "ModelAddress", "address_from", "connect_model", "split_model_name"]

Api: TypeAlias = Literal["openai-completions", "anthropic-messages"]


class _Known(NamedTuple):
    """A provider that needs no configuration: where it is, and which variables may say otherwise."""

    base_url: str
    key_variable: str | None
    url_variable: str | None = None
    api: Api = "openai-completions"


_KNOWN: Final[Mapping[str, _Known]] = {
    "anthropic": _Known(
        "https://api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", api="anthropic-messages"
    ),
    "deepseek": _Known("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "groq": _Known("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": _Known("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "ollama": _Known("http://localhost:11434/v1", None),
    "openai": _Known("https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openrouter": _Known("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
}


@attrs.frozen(kw_only=True)
class ModelAddress:
    """
    All that it takes to reach a model.

    Attributes:
        model: The provider's name of it.
        base_url: ``None``: as the client itself finds it.
        api_key: ``None``: none is sent.
        context_window: Tokens of the model's window; ``None`` where nobody has said.
        context_tokens: Tokens of it that are to be used.
        max_tokens: The most tokens of an answer. A client of Anthropic's holds to it by
            itself; to others it has to be said with every request.
    """

    provider: str
    model: str
    api: Api
    base_url: str | None = attrs.field(default=None, repr=False)
    api_key: str | None = attrs.field(default=None, repr=False)
    context_window: int | None = None
    context_tokens: int | None = None
    max_tokens: int | None = None


def split_model_name(name: str) -> tuple[str, str]:
    """
    Return provider and model of ``openrouter/z-ai/glm-4``: what comes before the first slash, and all behind it.

    Raises:
        ConfigError: It is no such name.
    """
    provider, _, model = name.partition("/")
    if not (provider and model) or any(character.isspace() or not character.isprintable() for character in name):
        problem = '$: expected a model\'s name as "provider/model", such as "openai/gpt-5-mini"'
        raise ConfigError(name, [problem])
    return provider, model


def address_from(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    api: str | None = None,
    context_window: int | None = None,
    context_tokens: int | None = None,
    max_tokens: int | None = None,
    environ: Mapping[str, str],
) -> ModelAddress:
    """
    Return where the model is that is called *name*, ``provider/model``.

    What is not given is what is known of the provider. A provider of no known name needs a *base_url*.

    Args:
        name: The first part says the provider, the rest is the provider's own name of the model.
        base_url: Without it, what *environ* says for OpenAI and Anthropic, else the provider's own.
        api_key: Without it, what *environ* has under the provider's usual name.
        api: What the provider speaks.
        context_window: Passed on, as the next two.
        context_tokens: See :class:`ModelAddress`.
        max_tokens: See :class:`ModelAddress`.
        environ: Usually ``os.environ``. An empty variable counts as none.

    Raises:
        ConfigError: The name is none, the provider is unknown, or speaks what has no client here.
        ModelAuthError: The provider's own address wants a key, and there is none.
    """
    provider, model = split_model_name(name)
    known = _KNOWN.get(provider)
    spoken = _spoken(name, provider, api or (known.api if known is not None else "openai-completions"))
    elsewhere = base_url or _said(environ, known.url_variable if known is not None else None)
    if not elsewhere and known is None:
        problem = (
            f"$.models.providers.{provider}.baseUrl: required, since this provider is unknown here; "
            f"known without it: {', '.join(_KNOWN)}"
        )
        raise ConfigError(name, [problem])
    variable = known.key_variable if known is not None else None
    key = api_key or _said(environ, variable)
    if key is None and variable is not None and not elsewhere:
        said = f"no key was given: set {variable}, or models.providers.{provider}.apiKey"
        raise ModelAuthError(provider, model, said)
    return ModelAddress(
        provider=provider,
        model=model,
        api=spoken,
        base_url=elsewhere or (known.base_url if known is not None else None),
        api_key=key,
        context_window=context_window,
        context_tokens=context_tokens,
        max_tokens=max_tokens,
    )


def connect_model(address: ModelAddress) -> Model:
    """
    Return a client of the model at *address*; nothing is sent yet, and the environment's keys are not looked at.

    Importing the provider's package takes about a second. Close the client when you are done.

    Raises:
        ImportError: The extra of the package that speaks ``address.api`` is not installed.
    """
    # An empty key is none, and keeps the client from looking for one.
    key = address.api_key or ""
    if address.api == "openai-completions":
        return OpenAICompatibleModel(address.model, base_url=address.base_url, api_key=key, provider=address.provider)
    bound: dict[str, Any] = {} if address.max_tokens is None else {"max_tokens": address.max_tokens}
    return AnthropicModel(address.model, base_url=address.base_url, api_key=key, provider=address.provider, **bound)


def _said(environ: Mapping[str, str], variable: str | None) -> str | None:
    return environ.get(variable) or None if variable is not None else None


def _spoken(name: str, provider: str, api: str) -> Api:
    for spoken in get_args(Api):
        if spoken == api:
            found: Api = spoken
            return found
    problem = f"$.models.providers.{provider}.api: expected one of {', '.join(get_args(Api))}, not {api!r}"
    raise ConfigError(name, [problem])
