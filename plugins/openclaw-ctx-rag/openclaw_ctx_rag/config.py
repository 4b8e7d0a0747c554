"""What ``plugins.entries.rag.config`` may say."""

from typing import Literal, TypeAlias

import attrs

__all__ = ["EmbedderKind", "RagConfig"]

EmbedderKind: TypeAlias = Literal["auto", "local", "endpoint", "none"]


@attrs.frozen(kw_only=True)
class RagConfig:
    """
    ``plugins.entries.rag.config``; keys may be written in camel case.

    Attributes:
        recent_share: Part of the budget that the newest turns take first, 0 to 1; the running turn is always there.
        embedder: What finds by meaning: ``local`` (a small model in the process; needs the extra of that name),
            ``endpoint`` (any OpenAI-compatible ``/embeddings``), ``none`` (by words alone), or ``auto``:
            ``local`` where its extra is installed, else ``none``.
        endpoint_url: Base URL up to and with ``/v1``.
        endpoint_model: The model's name there.
        endpoint_api_key: Sent as a bearer token; write ``${NAME}`` to take it from the environment.
        query_seconds: How long a prompt waits for the vector of its question; after that words alone find.
    """

    recent_share: float = attrs.field(default=0.5, validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)])
    embedder: EmbedderKind = "auto"
    endpoint_url: str | None = None
    endpoint_model: str | None = None
    endpoint_api_key: str | None = attrs.field(default=None, repr=False)
    query_seconds: float = attrs.field(default=0.5, validator=attrs.validators.gt(0))
