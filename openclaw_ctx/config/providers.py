"""Who offers models, as the configuration says it: where a provider is, and what it has."""

from collections.abc import Mapping
from typing import ClassVar, Final

import attrs

from openclaw_ctx.contract import EMPTY, JSON, FrozenDict

from .section import COUNT_OR_NULL, EVERY_KEY, Section, as_tuple, declare

__all__ = ["SPOKEN_APIS", "ModelsSettings", "ProviderModelSettings", "ProviderSettings"]

SPOKEN_APIS: Final = ("openai-completions", "anthropic-messages")
"""What of ``models.providers.<id>.api`` has a client here; the reference system has more."""


def _api_remark(api: JSON) -> str | None:
    known = not isinstance(api, str) or api in SPOKEN_APIS
    return (
        None if known else f"not spoken here, so this provider cannot be asked; spoken here: {', '.join(SPOKEN_APIS)}"
    )


def _id_remark(model_id: JSON) -> str | None:
    return None if model_id else "missing, so this model is passed over; write the provider's name of the model"


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class ProviderModelSettings(Section):
    """
    What is known of one model of a provider.

    Attributes:
        id: ``""`` where the file does not say; such a one is nobody's.
        context_tokens: What of the window is to be used; goes before ``context_window``.
    """

    id: str = declare("id", "The provider's name of the model.", default="", remark=_id_remark)
    context_window: int | None = declare("contextWindow", "Tokens of its window.", default=None, must=COUNT_OR_NULL)
    context_tokens: int | None = declare(
        "contextTokens",
        "Tokens of its window that are used; goes before contextWindow.",
        default=None,
        must=COUNT_OR_NULL,
    )
    max_tokens: int | None = declare("maxTokens", "The most tokens of an answer.", default=None, must=COUNT_OR_NULL)


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class ProviderSettings(Section):
    """
    Where a provider is, and what it has.

    Attributes:
        api: ``None``: the provider's usual one; may be one that has no client here.
        unset_variables: ``"path: ${NAME}"`` of each variable in it that is unset or empty. The string there is as
            written, so a provider that has any must not be asked.
        unread_secrets: The same of each reference to a secret that is not followed here.
    """

    own_variables: ClassVar[frozenset[str] | None] = EVERY_KEY

    base_url: str | None = declare(
        "baseUrl", "Where requests go; null: where a provider of this id is known to be.", default=None, secret=True
    )
    api_key: str | None = declare(
        "apiKey",
        'The key, best as ${VARIABLE} or {source: "env", id: "VARIABLE"}; null: the provider\'s usual variable.',
        default=None,
        secret=True,
    )
    api: str | None = declare(
        "api",
        "What it speaks: openai-completions or anthropic-messages; null: what a provider of this id is known to.",
        default=None,
        remark=_api_remark,
    )
    models: tuple[ProviderModelSettings, ...] = declare("models", "What it has.", default=(), converter=as_tuple)
    unset_variables: tuple[str, ...] = ()
    unread_secrets: tuple[str, ...] = ()


def _providers(providers: Mapping[str, ProviderSettings]) -> FrozenDict:
    return FrozenDict(providers)


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class ModelsSettings(Section):
    """Who offers models."""

    providers: Mapping[str, ProviderSettings] = declare(
        "providers", "Providers, by the first part of a model's name.", default=EMPTY, converter=_providers
    )

    def find(self, provider: str | None, model: str | None) -> ProviderModelSettings | None:
        """Return what is said of a model, by the provider's id and the provider's name of it."""
        said = self.providers.get(provider or "")
        return next((one for one in said.models if one.id == model), None) if said is not None else None
