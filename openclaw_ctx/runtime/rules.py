"""What a provider takes of a prompt, as values."""

from typing import Final, Literal, TypeAlias

import attrs

__all__ = ["MAX_IMAGE_BYTES", "PromptRules", "TurnApi"]

MAX_IMAGE_BYTES: Final = 5 * 1024 * 1024
"""The largest picture that is sent; the reference system's."""

TurnApi: TypeAlias = Literal["anthropic", "openai", "gemini", "other"]
"""Whose rules for the order of turns hold; ``openai`` and ``other`` have none."""


@attrs.frozen(kw_only=True)
class PromptRules:
    """
    What a model's provider takes.

    Attributes:
        api: Which rules for the order of turns hold.
        tool_names: Tools that may be named in a call; ``None``: any.
        keep_thinking: Whether the provider takes thinking back; it is left out of the prompt where not.
        model: Who is asked. Signatures that another model made are invalid.
        provider: Whose model that is. Signatures of another provider's are invalid.
        max_image_bytes: The largest picture that is sent, as decoded.
    """

    api: TurnApi = "other"
    tool_names: frozenset[str] | None = None
    keep_thinking: bool = True
    model: str | None = None
    provider: str | None = None
    max_image_bytes: int = MAX_IMAGE_BYTES
