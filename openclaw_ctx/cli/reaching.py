"""From ``--model`` and the configuration to a model that can be asked."""

import os

import click

from openclaw_ctx.config import Settings
from openclaw_ctx.errors import ConfigError, ModelAuthError
from openclaw_ctx.models import Model, ModelAddress, address_from, connect_model, split_model_name

__all__ = ["address_of", "reach_model"]


class _Unusable(click.ClickException):
    """What was asked for cannot be used as it is."""

    exit_code = 2


def address_of(name: str, settings: Settings, *, base_url: str | None = None) -> ModelAddress:
    """
    Return where the model is that is called *name*, by what the configuration says of its provider.

    Raises:
        ConfigError: The name is none, or what the configuration says of the provider cannot be used.
        click.ClickException: The provider wants a key, and there is none.
    """
    provider, model = split_model_name(name)
    said = settings.models.providers.get(provider)
    if said is not None and said.unset_variables:
        raise ConfigError(name, [_unset(provider, written) for written in said.unset_variables])
    entry = next((one for one in said.models if one.id == model), None) if said is not None else None
    try:
        return address_from(
            name,
            base_url=base_url or (said.base_url if said is not None else None),
            api_key=said.api_key if said is not None else None,
            api=said.api if said is not None else None,
            context_window=entry.context_window if entry is not None else None,
            context_tokens=entry.context_tokens if entry is not None else None,
            max_tokens=entry.max_tokens if entry is not None else None,
            environ=os.environ,
        )
    except ModelAuthError as error:
        raise _Unusable(str(error)) from None


def _unset(provider: str, written: str) -> str:
    """Return a problem that names the variable: behind ``apiKey:`` its name would be masked like a key."""
    path, _, variable = written.rpartition(": ")
    where = path.rpartition(".")[2]
    return f"$.models.providers.{provider}: the variable {variable.strip('${}')} of its {where} is unset or empty"


def reach_model(address: ModelAddress) -> Model:
    """
    Return a client of the model at *address*; close it when you are done.

    Raises:
        click.ClickException: The package that speaks to the provider is not installed.
    """
    try:
        return connect_model(address)
    except ImportError as error:
        raise _Unusable(str(error)) from None
