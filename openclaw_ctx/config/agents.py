"""
What the configuration says of turns; the defaults are the reference system's.

In a real file these sections hold far more, all of it somebody else's: a key
that is not declared here is passed over.
"""

from typing import ClassVar, Final, Literal, TypeAlias

import attrs

from .compaction import CompactionSettings
from .section import (
    COUNT_OR_NULL,
    DURATION_UNITS,
    LONGEST_SECONDS,
    SHARE,
    WHOLE,
    Must,
    Section,
    declare,
    is_model_name,
    texts,
)

__all__ = [
    "AgentDefaults",
    "AgentsSettings",
    "ContextLimits",
    "HardClearSettings",
    "ModelChoice",
    "PrunedTools",
    "PruningMode",
    "PruningSettings",
    "SoftTrimSettings",
]

PruningMode: TypeAlias = Literal["off", "cache-ttl"]

_MODEL: Final = Must('"provider/model", such as "openai/gpt-5-mini", or null', lambda v: v is None or is_model_name(v))
_TTL: Final = Must(
    'a duration such as "5m", "1h" or "300s", or a number of seconds from 0 to 1e9', lambda v: 0 <= v <= LONGEST_SECONDS
)


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class ModelChoice(Section):
    """Which model is asked; the file may say just its name."""

    shorthand: ClassVar[str | None] = "primary"

    primary: str | None = declare(
        "primary",
        "The model that is asked, as provider/model; null: what the program brings.",
        default=None,
        must=_MODEL,
    )


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class ContextLimits(Section):
    """What single parts of a prompt may take."""

    tool_result_max_chars: int | None = declare(
        "toolResultMaxChars",
        "The most characters of one tool result; null: what the model's window allows.",
        default=None,
        must=COUNT_OR_NULL,
    )


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class SoftTrimSettings(Section):
    """How a long tool result is shortened."""

    max_chars: int = declare("maxChars", "A tool result of more characters is shortened.", default=4_000, must=WHOLE)
    head_chars: int = declare("headChars", "Characters kept of its beginning.", default=1_500, must=WHOLE)
    tail_chars: int = declare("tailChars", "Characters kept of its end.", default=1_500, must=WHOLE)


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class HardClearSettings(Section):
    """How an old tool result is dropped."""

    enabled: bool = declare("enabled", "false only shortens.", default=True)
    placeholder: str = declare(
        "placeholder", "What stands in the place of a dropped result.", default="[Old tool result content cleared]"
    )


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class PrunedTools(Section):
    """Whose results are pruned; ``*`` in a name stands for anything."""

    allow: tuple[str, ...] = texts("allow", "Tools whose results may be pruned; empty: all.")
    deny: tuple[str, ...] = texts("deny", "Tools whose results are never pruned; wins over allow.")


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class PruningSettings(Section):
    """What is left out of old tool results in a request; the transcript keeps them whole."""

    mode: PruningMode = declare(
        "mode", "cache-ttl: old tool results are pruned once the provider's cache has run out.", default="off"
    )
    ttl: float = declare(
        "ttl",
        "How long the provider's cache lasts: 5m, 1h, or a number of seconds; 0: never pruned.",
        default=300.0,
        must=_TTL,
        units=DURATION_UNITS,
    )
    keep_last_assistants: int = declare(
        "keepLastAssistants", "Results behind so many newest answers are not pruned.", default=3, must=WHOLE
    )
    soft_trim_ratio: float = declare(
        "softTrimRatio", "The share of the window from which on results are shortened.", default=0.3, must=SHARE
    )
    hard_clear_ratio: float = declare(
        "hardClearRatio", "The share of the window from which on results are dropped.", default=0.5, must=SHARE
    )
    min_prunable_tool_chars: int = declare(
        "minPrunableToolChars", "Results of fewer characters together are not dropped.", default=50_000, must=WHOLE
    )
    soft_trim: SoftTrimSettings = declare("softTrim", "Shortening.", factory=SoftTrimSettings)
    hard_clear: HardClearSettings = declare("hardClear", "Dropping.", factory=HardClearSettings)
    tools: PrunedTools = declare("tools", "Whose results.", factory=PrunedTools)


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class AgentDefaults(Section):
    """How turns are run, where no agent has its own way."""

    model: ModelChoice = declare("model", "The model.", factory=ModelChoice)
    context_tokens: int | None = declare(
        "contextTokens",
        "The most tokens that a window is taken for; null: what the model has.",
        default=None,
        must=COUNT_OR_NULL,
    )
    context_limits: ContextLimits = declare("contextLimits", "Parts of a prompt.", factory=ContextLimits)
    compaction: CompactionSettings = declare("compaction", "Compaction.", factory=CompactionSettings)
    context_pruning: PruningSettings = declare("contextPruning", "Pruning.", factory=PruningSettings)


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class AgentsSettings(Section):
    """How turns are run."""

    defaults: AgentDefaults = declare("defaults", "For every agent.", factory=AgentDefaults)
