"""From a model's name to a model that can be asked, by what the configuration says of its provider."""

import asyncio
import os
from typing import Final

from openclaw_ctx.config import LoadedSettings, Settings
from openclaw_ctx.errors import ConfigError, ModelAuthError
from openclaw_ctx.models import Model, ModelAddress, address_from, connect_model, split_model_name

__all__ = ["address_of", "connect_summariser"]

_KEY: Final = "$.agents.defaults.compaction.model"


def address_of(name: str, settings: Settings, *, base_url: str | None = None) -> ModelAddress:
    """
    Return where the model is that is called *name*; the environment may have its key.

    Raises:
        ConfigError: The name is none, or what the configuration says of the provider cannot be used.
        ModelAuthError: The provider wants a key, and there is none.
    """
    provider, model = split_model_name(name)
    said = settings.models.providers.get(provider)
    if said is not None and (said.unset_variables or said.unread_secrets):
        unset = [_unset(provider, written) for written in said.unset_variables]
        raise ConfigError(name, [*unset, *said.unread_secrets])
    entry = settings.models.find(provider, model)
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


async def connect_summariser(loaded: LoadedSettings) -> Model | None:
    """
    Return the model that ``agents.defaults.compaction.model`` names, to be closed; ``None`` where it names none.

    Nothing is sent. Its package is imported in a thread, which takes about a second.

    Raises:
        ConfigError: The model cannot be asked, for want of a provider, a key or a package; every problem opens with
            that key of the configuration.
    """
    settings = loaded.settings
    name = settings.agents.defaults.compaction.model
    if name is None or name == "extractive":
        return None
    try:
        return await asyncio.to_thread(connect_model, address_of(name, settings))
    except ConfigError as error:
        problems = [problem.removeprefix("$.") for problem in error.problems]
    except ModelAuthError as error:
        problems = [error.said]
    except ImportError as error:
        problems = [str(error)]
    source = "<dict>" if loaded.path is None else str(loaded.path)
    raise ConfigError(source, [f"{_KEY}: {name!r} cannot be asked; {problem}" for problem in problems])


def _unset(provider: str, written: str) -> str:
    """Return a problem that names the variable: behind ``apiKey:`` its name would be masked like a key."""
    path, _, variable = written.rpartition(": ")
    where = path.rpartition(".")[2]
    return f"$.models.providers.{provider}: the variable {variable.strip('${}')} of its {where} is unset or empty"
