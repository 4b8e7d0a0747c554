"""How the host compacts, as values; every default is the reference system's."""

from typing import Final, Literal

import attrs

__all__ = ["KEEP_RECENT_TOKENS", "MAX_SUMMARY_CHARS", "CompactionPolicy"]

KEEP_RECENT_TOKENS: Final = 20_000
"""Tokens that stay unfolded; the reference system's default."""

MAX_SUMMARY_CHARS: Final = 16_000
"""The reference system's cap of a stored summary."""


@attrs.frozen(kw_only=True)
class CompactionPolicy:
    """
    How the host compacts; the defaults are the reference system's.

    Attributes:
        keep_recent_tokens: So many tokens of the newest messages are not folded.
        reserve_tokens: What the window leaves to an answer; a summary may have 0.8 of it.
        max_history_share: What share of the window the folded history may take in one pass.
        mode: ``safeguard``: fixed sections, audited, the newest turns word by word.
        recent_turns: How many turns ``safeguard`` keeps word by word, at most 12.
        identifier_policy: ``custom`` says *identifier_instructions*, and ``strict`` where those are blank.
        identifier_instructions: What the summariser is told of identifiers under ``custom``.
        quality_retries: How often ``safeguard`` has a summary made again that fails its audit, at
            most 3; -1: there is no audit.
        custom_instructions: What every summariser is told in addition.
        workspace_rules: Text that ``safeguard`` appends to a summary.
        context_window: Tokens that the summarising model can take.
        max_output_tokens: What the summarising model can answer at most.
    """

    keep_recent_tokens: int = KEEP_RECENT_TOKENS
    reserve_tokens: int = 16_384
    max_history_share: float = 0.5
    mode: Literal["default", "safeguard"] = "default"
    recent_turns: int = 3
    identifier_policy: Literal["strict", "off", "custom"] = "strict"
    identifier_instructions: str | None = None
    quality_retries: int = 1
    custom_instructions: str | None = None
    workspace_rules: str = ""
    context_window: int = 200_000
    max_output_tokens: int | None = None
