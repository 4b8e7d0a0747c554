"""How turns are run: what the configuration says of it, as values; and what a session keeps from turn to turn."""

from typing import Final

import attrs

from openclaw_ctx.contract import EntryId

from .loop_guard import LoopGuard
from .prompt import PromptPipeline
from .pruning import PromptPruner, PruningPolicy

__all__ = ["Standing", "TurnPolicy"]

MAX_ROUNDS: Final = 160
"""How often a model may be asked in one turn; the reference system's upper bound of its loop."""

_LESS_PATIENCE: Final = 1.1


@attrs.frozen(kw_only=True)
class TurnPolicy:
    """
    What the configuration says of turns.

    Attributes:
        compaction_enabled: Whether the host compacts by itself before the window is full; overflow is always mended.
        reserve_tokens: What the answer may take of the window.
        reserve_tokens_floor: The least that is reserved where the window is large enough; 0: none.
        tool_result_max_chars: The most characters of one tool result; by default what the window allows.
        mid_turn_precheck: Whether a prompt is looked at again after each tool result.
        max_transcript_bytes: A transcript of this size is compacted before a turn; ``None``: none is too large.
        max_rounds: How often the model may be asked in one turn.
    """

    compaction_enabled: bool = True
    reserve_tokens: int = 16_384
    reserve_tokens_floor: int = 20_000
    tool_result_max_chars: int | None = None
    mid_turn_precheck: bool = False
    max_transcript_bytes: int | None = None
    pruning: PruningPolicy = attrs.field(factory=PruningPolicy)
    max_rounds: int = MAX_ROUNDS


@attrs.define(eq=False)
class Standing:
    """
    What one session keeps from turn to turn.

    Attributes:
        pipeline: Remembers what each message came to.
        pruner: Remembers what is pruned in every prompt while the provider's cache lasts.
        loop_guard: Watches what the model does behind a compaction.
        last_touch: When the provider's cache was last used, by the wall clock.
        limit: What a provider said that its window is, where that is less than was thought.
        share: What of a budget may be used, where the provider counts more than the host.
        waits_above: Tokens from which on compacting is worth another try; 0: any.
        budget: What a prompt may cost, as of the last turn.
        overhead: What the last prompt carried besides messages.
        measured: The last answer, and the compaction, if any, behind which it was given: its usage tells how full the
            context is. ``None`` where this process has heard none.
        refused: Answers whose thinking goes without its signature, since the provider has refused one of them.
        warned: What was said of a window that is small; it is not said with each turn.
        flushed_behind: The compaction, if any, behind which memory was flushed; ``None``: it never was.
    """

    pipeline: PromptPipeline = attrs.field(factory=PromptPipeline)
    pruner: PromptPruner = attrs.field(factory=PromptPruner)
    loop_guard: LoopGuard = attrs.field(factory=LoopGuard)
    last_touch: float | None = None
    limit: int | None = None
    share: float = 1.0
    waits_above: int = 0
    budget: int | None = None
    overhead: int = 0
    measured: tuple[EntryId | None, EntryId | None] | None = None
    refused: frozenset[EntryId] = frozenset()
    warned: str | None = None
    flushed_behind: tuple[str | None] | None = None

    def note_vain(self, tokens: int) -> None:
        """Note that compacting so much came to nothing: it is not tried again before there is more."""
        self.waits_above = int(tokens * _LESS_PATIENCE)
