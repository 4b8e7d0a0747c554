"""What a replay noted of compactions, and of turns that came to nothing."""

from collections.abc import Sequence
from typing import Any, Final

import attrs

from openclaw_ctx.log import clean_text

from .figures import count, duration, share, some

__all__ = [
    "HEADS",
    "WORDS",
    "Compaction",
    "GivenUp",
    "compaction_as_json",
    "given_up_as_json",
    "reasons_of",
    "rows_of",
    "told",
]

HEADS: Final = ("turn", "call", "why", "tokens before", "tokens after", "still kept", "ms", "summarised by")
"""What stands above the columns of :func:`rows_of`."""

WORDS: Final = frozenset({2, 7})
"""Which of them hold no numbers."""

_SHOWN: Final = 5
_TRIGGERS = {
    "budget": "over budget",
    "overflow": "too long",
    "timeout_recovery": "no answer in time",
    "engine": "the engine's own",
}


@attrs.frozen(kw_only=True)
class Compaction:
    """
    One attempt to make the context smaller.

    Attributes:
        call: The model call that it was made for, or made behind; there is none of a turn that was given up.
        trigger: ``budget``, ``overflow``, ``timeout_recovery``, or ``engine`` where no host asked.
        compacted: Whether the context is another one; where it is not, *reason* says why.
        measured: Tokens that the prompt was taken for; by a check that is wary, they are more than they cost.
        tokens_before: Of the context.
        tokens_after: ``None`` where nobody counted, and where nothing was compacted.
        seconds: What it took.
        summarised_by: A model's name, ``extractive``, or the engine's id; ``None`` where nothing was compacted.
        requests: How often a model was asked for it.
        kept: Messages of the record that stand in the context behind it, word for word.
        messages: All messages of the record at that time.
    """

    turn: int
    call: int
    trigger: str
    compacted: bool
    reason: str | None
    measured: int
    tokens_before: int
    tokens_after: int | None
    seconds: float
    summarised_by: str | None
    requests: int
    kept: int
    messages: int


@attrs.frozen(kw_only=True)
class GivenUp:
    """
    A turn that the host gave up: no prompt of it fits, whatever is tried.

    Attributes:
        kind: As ``TurnBlockedError`` has it.
        reason: What was said last.
    """

    turn: int
    kind: str
    reason: str


def rows_of(compactions: Sequence[Compaction]) -> list[tuple[str, ...]]:
    """
    Return what people are shown of *compactions*, cleaned.

    Turn, call, why, tokens before and after, what still stands word for word,
    milliseconds, who summarised; where it failed, why in place of who.
    """
    return [
        (
            count(made.turn),
            count(made.call),
            _why(made),
            count(made.tokens_before),
            "-" if made.tokens_after is None else count(made.tokens_after),
            share(made.kept, made.messages),
            duration(made.seconds * 1000),
            _by(made),
        )
        for made in compactions
    ]


def reasons_of(given_up: Sequence[GivenUp]) -> list[str]:
    """Return a sentence for each turn that was given up, cleaned; many are not all said."""
    said = [
        f"Turn {count(turn.turn)} was given up ({clean_text(turn.kind)}): {clean_text(turn.reason).rstrip('. ')}."
        for turn in given_up[:_SHOWN]
    ]
    more = len(given_up) - _SHOWN
    return [*said, f"So {'was' if more == 1 else 'were'} {some(more, 'more turn')}."] if more > 0 else said


def told(made: Compaction) -> str:
    """Return a line that tells of a compaction, cleaned."""
    after = "" if made.tokens_after is None else f" to {count(made.tokens_after)}"
    return f"{count(made.tokens_before)}{after} tokens, summarised by {_by(made)}"


def compaction_as_json(made: Compaction) -> dict[str, Any]:
    """Return plain JSON data; foreign text is cleaned, seconds are rounded to microseconds."""
    return {
        "turn": made.turn,
        "call": made.call,
        "trigger": clean_text(made.trigger),
        "compacted": made.compacted,
        "reason": None if made.reason is None else clean_text(made.reason),
        "measured": made.measured,
        "tokens_before": made.tokens_before,
        "tokens_after": made.tokens_after,
        "seconds": round(made.seconds, 6),
        "summarised_by": None if made.summarised_by is None else clean_text(made.summarised_by),
        "requests": made.requests,
        "kept": made.kept,
        "messages": made.messages,
    }


def given_up_as_json(turn: GivenUp) -> dict[str, Any]:
    """Return plain JSON data; foreign text is cleaned."""
    return {"turn": turn.turn, "kind": clean_text(turn.kind), "reason": clean_text(turn.reason)}


def _why(made: Compaction) -> str:
    why = _TRIGGERS.get(made.trigger, clean_text(made.trigger))
    return f"{why}: {count(made.measured)}" if made.trigger == "overflow" else why


def _by(made: Compaction) -> str:
    if not made.compacted:
        return f"failed: {clean_text(made.reason or 'no reason was given')}"
    name = clean_text(made.summarised_by or "-")
    return name if made.requests <= 1 else f"{count(made.requests)} x {name}"
