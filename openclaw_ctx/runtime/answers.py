"""What a session answers."""

from collections.abc import Sequence

import attrs

from openclaw_ctx.contract import (
    AssistantMessage,
    CompactResult,
    ContextProjection,
    Message,
    PromptAuthority,
    RewriteResult,
)
from openclaw_ctx.models import TokenUsage

__all__ = ["CompactedContext", "EndedTurn", "Prompt", "TurnResult"]


@attrs.frozen(kw_only=True)
class Prompt:
    """
    What to send to the model.

    Attributes:
        system_prompt: Yours, with what the engine puts before it; ``None`` where there is neither.
        estimated_tokens: By the host's counter: messages, system prompt and tool schemas.
        engine_estimate: What the engine itself says of its messages; 0 where it does not.
        engine: Who assembled it.
        substitution: Why that is not the engine which the slot asks for.
        repairs: What the host had to mend in the engine's answer.
    """

    messages: Sequence[Message]
    system_prompt: str | None
    estimated_tokens: int
    engine_estimate: int
    budget: int | None
    engine: str
    substitution: str | None
    repairs: tuple[str, ...]
    prompt_authority: PromptAuthority
    context_projection: ContextProjection | None

    @property
    def over_budget(self) -> bool:
        """Whether it costs more than the budget: compact, then assemble again."""
        return self.budget is not None and self.estimated_tokens > self.budget


@attrs.frozen(kw_only=True)
class CompactedContext:
    """What a compaction came to, who did it, and why that was not the engine asked for."""

    result: CompactResult
    engine: str
    substitution: str | None


@attrs.frozen(kw_only=True)
class EndedTurn:
    """How many messages were handed over at a turn's end, to whom, and what its maintenance did."""

    handed_over: int
    engine: str
    substitution: str | None
    maintenance: RewriteResult | None


@attrs.frozen(kw_only=True)
class TurnResult:
    """
    What a turn came to.

    Attributes:
        message: The answer, as it is in the transcript.
        engine: Who assembled the last prompt.
        substitution: Why that is not the engine which the slot asks for.
        usage: What the last request cost, where the provider counts.
        rounds: How often the model was asked.
        compactions: How often the context was compacted in the turn.
        summary: The last summary that was made on the way.
    """

    message: AssistantMessage
    engine: str
    substitution: str | None
    usage: TokenUsage | None
    rounds: int
    compactions: int
    summary: str | None = None

    @property
    def text(self) -> str:
        """What the model said."""
        return self.message.text
