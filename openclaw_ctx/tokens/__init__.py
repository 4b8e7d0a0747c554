"""How many tokens things cost."""

from .estimate import IMAGE_TOKENS, CountText, TokenCounter, estimate_text, estimate_tokens
from .exact import EncodingName, exact_counter

__all__ = [
    "IMAGE_TOKENS",
    "CountText",
    "EncodingName",
    "TokenCounter",
    "estimate_text",
    "estimate_tokens",
    "exact_counter",
]
