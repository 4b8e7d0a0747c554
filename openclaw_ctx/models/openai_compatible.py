"""Any endpoint that speaks OpenAI's chat completions, by the official package (extra ``openai``)."""

import os
from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from openclaw_ctx.contract import JSON

from .client import ModelRequest
from .openai_wire import ChatReader, Dialect, request_to_wire
from .packages import find_key, http_failures, load_package, timeouts
from .provider import AnswerReader, ProviderModel

__all__ = ["OpenAICompatibleModel"]

_OFFICIAL: Final = "api.openai.com"
_MISTRAL: Final = "mistral.ai"


class OpenAICompatibleModel(ProviderModel):
    """
    A model behind ``/chat/completions``: OpenAI's, or of any server that speaks its language.

    Nothing is tried twice. Thinking is left out of what is sent, unless
    *thinking_field* names the field in which the server wants it back.
    """

    api = "openai"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str = "openai",
        timeout_seconds: float = 600.0,
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None,
        thinking_field: str | None = None,
        stream_usage: bool = True,
        options: Mapping[str, JSON] | None = None,
    ) -> None:
        """
        Make a client; nothing is sent yet. Importing the package takes about a second.

        Args:
            model: The server's name of the model, for requests that name none.
            base_url: Such as ``http://localhost:11434/v1``; without it, the
                environment's ``OPENAI_BASE_URL``, else OpenAI.
            api_key: Without it, the environment's ``OPENAI_API_KEY``. A server other
                than OpenAI's may need none.
            provider: Stands in messages and errors.
            timeout_seconds: How long to wait for the next byte.
            max_tokens_field: What the server calls the bound of an answer; OpenAI
                itself wants ``max_completion_tokens``, most others the older name.
            thinking_field: Such as ``reasoning_content``.
            stream_usage: Whether to ask for the count at a stream's end, which a
                few servers refuse.
            options: Further fields of the request's body, such as ``temperature``.

        Raises:
            ImportError: The extra ``openai`` is not installed.
            ModelAuthError: There is no key, and OpenAI needs one.
        """
        sdk = load_package("openai")
        keyless = bool(base_url or os.environ.get("OPENAI_BASE_URL"))
        client = sdk.AsyncOpenAI(
            api_key=find_key(api_key, ("OPENAI_API_KEY",), keyless=keyless, provider=provider, model=model),
            base_url=base_url,
            timeout=timeouts(sdk, timeout_seconds),
            max_retries=0,  # who asks decides what is tried again
        )
        super().__init__(model, provider=provider, client=client, failures=(sdk.OpenAIError, *http_failures(sdk)))
        host = urlsplit(self.base_url).hostname or ""
        self._dialect = Dialect(
            ids="mistral" if f".{host}".endswith(f".{_MISTRAL}") else "openai",
            max_tokens_field=max_tokens_field or ("max_completion_tokens" if host == _OFFICIAL else "max_tokens"),
            thinking_field=thinking_field,
        )
        self._stream_usage = stream_usage
        self._options = dict(options or {})

    def _prepare(self, request: ModelRequest, name: str) -> tuple[dict[str, JSON], AnswerReader]:
        body, left_out = request_to_wire(request, model=name, dialect=self._dialect)
        return body, ChatReader(provider=self.provider, model=name, left_out=left_out)

    async def _create(self, body: dict[str, JSON], *, stream: bool) -> Any:
        if stream and self._stream_usage:
            body["stream_options"] = {"include_usage": True}
        # The package walks typed arguments field by field: a quarter of a second for a thousand messages, in the
        # loop. What is in extra_body goes as it is, in the place of what the arguments say.
        return await self._client.chat.completions.create(
            model=body["model"], messages=[], stream=stream, extra_body={**body, **self._options}
        )
