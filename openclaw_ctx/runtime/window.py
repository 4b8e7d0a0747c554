"""How large a model's window is, and how much of it a prompt may fill."""

from typing import Final

import attrs

from openclaw_ctx.errors import ContextWindowTooSmallError

__all__ = [
    "DEFAULT_CONTEXT_WINDOW",
    "Window",
    "check_window",
    "effective_reserve",
    "prompt_budget",
    "resolve_window",
    "should_compact",
]

DEFAULT_CONTEXT_WINDOW: Final = 200_000
"""Tokens of a window that nobody knows; the reference system's default."""

HARD_MIN_TOKENS: Final = 4_000
"""The reference system refuses a smaller window."""

HARD_MIN_RATIO: Final = 0.1
"""The share of the uncapped window that the reference system asks for, where the window has it."""

WARN_BELOW_TOKENS: Final = 8_000
"""The reference system warns of a smaller window."""

WARN_BELOW_RATIO: Final = 0.2
"""The share of the uncapped window below which the reference system warns."""

RESERVE_TOKENS: Final = 16_384
"""What is kept free for the answer; the reference system's default."""

RESERVE_TOKENS_FLOOR: Final = 20_000
"""The least that is kept free, whatever was asked for; the reference system's default."""

MIN_PROMPT_BUDGET_TOKENS: Final = 8_000
"""What no reserve takes from a prompt; the reference system's."""

MIN_PROMPT_BUDGET_RATIO: Final = 0.5
"""The share of a small window that no reserve takes; the reference system's."""


@attrs.frozen(kw_only=True)
class Window:
    """
    How many tokens a model takes, prompt and answer together.

    Attributes:
        source: Who said so: ``argument``, ``modelsConfig``, ``default``, or ``agentContextTokens`` for a cap.
        reference_tokens: What the model has, before any cap.
    """

    tokens: int
    source: str
    reference_tokens: int


def resolve_window(*, model_window: int | None, source: str, cap: int | None) -> Window:
    """
    Return the window to work with.

    Args:
        model_window: What the model has; ``None`` takes the default, and its source.
        source: Who said so.
        cap: The most to take; only a smaller one counts, and none below 1.
    """
    known = model_window is not None
    tokens = model_window if model_window is not None else DEFAULT_CONTEXT_WINDOW
    if cap is not None and 0 < cap < tokens:
        return Window(tokens=cap, source="agentContextTokens", reference_tokens=tokens)
    return Window(tokens=tokens, source=source if known else "default", reference_tokens=tokens)


def check_window(window: Window) -> str | None:
    """
    Return a warning where there is little room to work in, in one sentence; ``None`` where there is enough.

    Raises:
        ContextWindowTooSmallError: There is too little.
    """
    tokens, reference = window.tokens, window.reference_tokens
    least = max(HARD_MIN_TOKENS, int(reference * HARD_MIN_RATIO))
    # The share never asks for more than there is: a cap may be as small as 4,000 tokens, however large the model.
    least = min(least, max(tokens, HARD_MIN_TOKENS))
    if tokens < least:
        raise ContextWindowTooSmallError(tokens, least, window.source)
    enough = max(WARN_BELOW_TOKENS, int(reference * WARN_BELOW_RATIO))
    if tokens >= enough:
        return None
    return f"The context window is small ({tokens} tokens; source={window.source}); {enough} and more work well."


def effective_reserve(window: int, *, reserve_tokens: int = RESERVE_TOKENS, floor: int = RESERVE_TOKENS_FLOOR) -> int:
    """
    Return the tokens to keep free for the answer.

    The larger of the two, but a small window keeps half of itself, or 8,000
    tokens, for the prompt.

    Args:
        window: Tokens of the window.
        reserve_tokens: What was asked for.
        floor: The least; 0 for none.
    """
    least_prompt = min(MIN_PROMPT_BUDGET_TOKENS, max(1, int(window * MIN_PROMPT_BUDGET_RATIO)))
    return max(0, min(max(reserve_tokens, floor), window - least_prompt))


def prompt_budget(window: int, *, reserve: int) -> int:
    """
    Return the tokens that a prompt may fill, as the precheck takes it.

    Never less than 8,000, nor in a smaller window than all but one token of it:
    what is not even tried would be given up too early.
    """
    least = max(
        min(MIN_PROMPT_BUDGET_TOKENS, int(window * MIN_PROMPT_BUDGET_RATIO)),
        min(MIN_PROMPT_BUDGET_TOKENS, window - 1),
    )
    return max(0, window - max(0, min(reserve, window - least)))


def should_compact(tokens: int, *, window: int, reserve: int) -> bool:
    """Return whether a context of *tokens* leaves less than *reserve* free. Never for a window that nobody knows."""
    return window > 0 and tokens > window - reserve
