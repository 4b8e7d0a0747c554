"""Anthropic's models, and endpoints that speak their language, by the official package (extra ``anthropic``)."""

import os
from collections.abc import Mapping
from typing import Any, Final

from openclaw_ctx.contract import JSON

from .anthropic_wire import MessageReader, request_to_wire
from .client import ModelRequest
from .packages import find_key, http_failures, load_package, timeouts
from .provider import AnswerReader, ProviderModel

__all__ = ["AnthropicModel"]

# Where the environment may have a key, and by which argument the package takes it.
_VARIABLES: Final = {"ANTHROPIC_API_KEY": "api_key", "ANTHROPIC_AUTH_TOKEN": "auth_token"}


class AnthropicModel(ProviderModel):
    """
    A model behind ``/v1/messages``.

    Nothing is tried twice. Thinking goes back with its signature, to the provider
    that signed it, and what was sent before is read from the provider's cache.
    """

    api = "anthropic"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str = "anthropic",
        timeout_seconds: float = 600.0,
        max_tokens: int = 8_192,
        cache: bool = True,
        options: Mapping[str, JSON] | None = None,
    ) -> None:
        """
        Make a client; nothing is sent yet. Importing the package takes about a second.

        Args:
            model: The provider's name of the model, for requests that name none.
            base_url: Without it, the environment's ``ANTHROPIC_BASE_URL``, else Anthropic.
            api_key: Without it, the environment's ``ANTHROPIC_API_KEY``, else
                ``ANTHROPIC_AUTH_TOKEN``.
            provider: Stands in messages and errors, and tells whose thinking is sent back.
            timeout_seconds: How long to wait for the next byte.
            max_tokens: Bounds an answer for which the request sets no bound; Anthropic
                wants one always.
            cache: Whether to ask the provider to cache what it is sent.
            options: Further fields of the request's body, such as ``thinking``.

        Raises:
            ImportError: The extra ``anthropic`` is not installed.
            ModelAuthError: There is no key, and Anthropic needs one.
        """
        sdk = load_package("anthropic")
        keyless = bool(base_url or os.environ.get("ANTHROPIC_BASE_URL"))
        key = find_key(api_key, tuple(_VARIABLES), keyless=keyless, provider=provider, model=model)
        found = next((name for name in _VARIABLES if os.environ.get(name)), "ANTHROPIC_API_KEY")
        client = sdk.AsyncAnthropic(
            **{"api_key" if api_key is not None else _VARIABLES[found]: key},
            base_url=base_url,
            timeout=timeouts(sdk, timeout_seconds),
            max_retries=0,  # who asks decides what is tried again
        )
        super().__init__(model, provider=provider, client=client, failures=(sdk.AnthropicError, *http_failures(sdk)))
        self._max_tokens = max_tokens
        self._cache = cache
        self._options = dict(options or {})

    def _prepare(self, request: ModelRequest, name: str) -> tuple[dict[str, JSON], AnswerReader]:
        body, left_out = request_to_wire(
            request, model=name, provider=self.provider, max_tokens=self._max_tokens, cache=self._cache
        )
        return body, MessageReader(provider=self.provider, model=name, left_out=left_out)

    async def _create(self, body: dict[str, JSON], *, stream: bool) -> Any:
        # The package walks typed arguments field by field, in the loop. What is in extra_body goes as it is, in the
        # place of what the arguments say.
        return await self._client.messages.create(
            model=body["model"],
            messages=[],
            max_tokens=body["max_tokens"],
            stream=stream,
            extra_body={**body, **self._options},
        )
