"""When a session is compacted, by whom, and what of it stays as it is; the defaults are the reference system's."""

from typing import Final, Literal, TypeAlias

import attrs

from .section import (
    COUNT,
    SIZE,
    SIZE_OR_NULL,
    SIZE_UNITS,
    WAIT_OR_NEVER,
    WHOLE,
    Must,
    Section,
    declare,
    is_model_name,
    texts,
)

__all__ = [
    "CompactionMode",
    "CompactionSettings",
    "IdentifierPolicy",
    "MemoryFlushSettings",
    "MidTurnPrecheckSettings",
    "QualityGuardSettings",
]

CompactionMode: TypeAlias = Literal["default", "safeguard"]
IdentifierPolicy: TypeAlias = Literal["strict", "off", "custom"]

_SUMMARIZER: Final = Must(
    '"provider/model", such as "openai/gpt-5-mini", "extractive" or null',
    lambda v: v is None or v == "extractive" or is_model_name(v),
)
_HISTORY_SHARE: Final = Must("a number from 0.1 to 0.9", lambda v: 0.1 <= v <= 0.9)  # noqa: PLR2004 -- said beside it
_RECENT_TURNS: Final = Must("a whole number from 0 to 12", lambda v: 0 <= v <= 12)  # noqa: PLR2004 -- said beside it
_QUALITY_RETRIES: Final = Must("a whole number from 0 to 3", lambda v: 0 <= v <= 3)  # noqa: PLR2004 -- said beside it


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class QualityGuardSettings(Section):
    """Whether a summary is looked over before it counts; ``enabled`` is ``None`` for "in safeguard mode"."""

    enabled: bool | None = declare("enabled", "Whether a summary is audited; null: in safeguard mode.", default=None)
    max_retries: int = declare(
        "maxRetries", "How often a summary that fails the audit is made again.", default=1, must=_QUALITY_RETRIES
    )


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class MidTurnPrecheckSettings(Section):
    """Whether a prompt that grows within a turn is looked at."""

    enabled: bool = declare(
        "enabled", "true looks after each tool result whether the prompt still fits.", default=False
    )


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class MemoryFlushSettings(Section):
    """When the model is asked, ahead of a compaction, to write down what must stay."""

    enabled: bool = declare(
        "enabled", "false writes no notes before a compaction; without a memory slot none are written.", default=True
    )
    soft_threshold_tokens: int = declare(
        "softThresholdTokens", "So many tokens before a compaction is due, notes are.", default=4_000, must=WHOLE
    )
    force_flush_transcript_bytes: int = declare(
        "forceFlushTranscriptBytes",
        "Notes are due from a transcript of this size on, whatever its tokens; 0: never for its size.",
        default=2 * 1024 * 1024,
        must=SIZE,
        units=SIZE_UNITS,
    )
    prompt: str | None = declare("prompt", "What the model is told; null: a text of ours.", default=None)
    system_prompt: str | None = declare(
        "systemPrompt", "What its system prompt is told in addition; null: a text of ours.", default=None
    )


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class CompactionSettings(Section):
    """When a session is compacted, by whom, and what of it stays as it is."""

    enabled: bool = declare(
        "enabled", "false compacts only when asked to, or to mend a window that has burst.", default=True
    )
    mode: CompactionMode = declare(
        "mode", "safeguard: summaries have fixed sections and are audited.", default="default"
    )
    model: str | None = declare(
        "model",
        "Who writes summaries: provider/model, or extractive, which needs no model; null: the model of the turn.",
        default=None,
        must=_SUMMARIZER,
    )
    reserve_tokens: int = declare(
        "reserveTokens", "Tokens of the window that are left to the answer.", default=16_384, must=WHOLE
    )
    reserve_tokens_floor: int = declare(
        "reserveTokensFloor",
        "reserveTokens is raised to it where the window is large enough; 0: it is not.",
        default=20_000,
        must=WHOLE,
    )
    keep_recent_tokens: int = declare(
        "keepRecentTokens", "So many tokens of the newest messages are not summarised.", default=20_000, must=COUNT
    )
    max_history_share: float = declare(
        "maxHistoryShare",
        "What share of the window the history that is summarised may take.",
        default=0.5,
        must=_HISTORY_SHARE,
    )
    recent_turns_preserve: int = declare(
        "recentTurnsPreserve", "So many newest turns stand word by word in a summary.", default=3, must=_RECENT_TURNS
    )
    identifier_policy: IdentifierPolicy = declare(
        "identifierPolicy",
        "strict: a summary keeps identifiers as they are; custom: by identifierInstructions; off: as it comes.",
        default="strict",
    )
    identifier_instructions: str | None = declare(
        "identifierInstructions", "What the summariser is told about identifiers.", default=None
    )
    quality_guard: QualityGuardSettings = declare(
        "qualityGuard", "Whether summaries are audited.", factory=QualityGuardSettings
    )
    timeout_seconds: float | None = declare(
        "timeoutSeconds",
        "Seconds that a compaction may take; null: deadlines.compact.",
        default=None,
        must=WAIT_OR_NEVER,
    )
    mid_turn_precheck: MidTurnPrecheckSettings = declare(
        "midTurnPrecheck", "Looking at the prompt within a turn.", factory=MidTurnPrecheckSettings
    )
    max_active_transcript_bytes: int | None = declare(
        "maxActiveTranscriptBytes",
        "A transcript of this size is compacted before a turn; null and 0: none is too large.",
        default=None,
        must=SIZE_OR_NULL,
        units=SIZE_UNITS,
    )
    truncate_after_compaction: bool = declare(
        "truncateAfterCompaction",
        "true goes on in a new file after a compaction; the old one stays as it is.",
        default=False,
    )
    post_compaction_sections: tuple[str, ...] = texts(
        "postCompactionSections", "Headings of the workspace's AGENTS.md whose text is told again after a compaction."
    )
    custom_instructions: str | None = declare(
        "customInstructions", "What every summariser is told in addition.", default=None
    )
    memory_flush: MemoryFlushSettings = declare(
        "memoryFlush", "Notes ahead of a compaction.", factory=MemoryFlushSettings
    )
