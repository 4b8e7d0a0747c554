"""What the settings say, as the values that rooms take."""

from pathlib import Path

from openclaw_ctx.compaction import CompactionPolicy
from openclaw_ctx.config import Settings
from openclaw_ctx.host import Policy
from openclaw_ctx.runtime import (
    FlushPolicy,
    Memory,
    NotesMemory,
    PruningPolicy,
    TurnPolicy,
    Window,
    resolve_window,
)

from .rules import workspace_rules
from .wiring import WindowOf

__all__ = [
    "compaction_from",
    "deadlines_from",
    "flush_from",
    "memory_from",
    "policy_from",
    "turns_from",
    "windows_from",
]


def policy_from(settings: Settings) -> Policy:
    """Return what the settings say about plugins."""
    plugins = settings.plugins
    return Policy(
        slot=plugins.slots.context_engine,
        enabled=plugins.enabled,
        allow=plugins.allow,
        deny=plugins.deny,
        entries_enabled={name: entry.enabled for name, entry in plugins.entries.items() if entry.enabled is not None},
        unset_variables={name: e.unset_variables for name, e in plugins.entries.items() if e.unset_variables},
        strict=plugins.slot_policy == "strict",
    )


def turns_from(settings: Settings) -> TurnPolicy:
    """Return how turns are run."""
    defaults = settings.agents.defaults
    compaction, pruning = defaults.compaction, defaults.context_pruning
    return TurnPolicy(
        compaction_enabled=compaction.enabled,
        reserve_tokens=compaction.reserve_tokens,
        reserve_tokens_floor=compaction.reserve_tokens_floor,
        tool_result_max_chars=defaults.context_limits.tool_result_max_chars,
        mid_turn_precheck=compaction.mid_turn_precheck.enabled,
        max_transcript_bytes=compaction.max_active_transcript_bytes or None,
        pruning=PruningPolicy(
            mode=pruning.mode,
            ttl_seconds=pruning.ttl,
            keep_last_assistants=pruning.keep_last_assistants,
            soft_trim_ratio=pruning.soft_trim_ratio,
            hard_clear_ratio=pruning.hard_clear_ratio,
            min_prunable_tool_chars=pruning.min_prunable_tool_chars,
            soft_trim_max_chars=pruning.soft_trim.max_chars,
            head=pruning.soft_trim.head_chars,
            tail=pruning.soft_trim.tail_chars,
            hard_clear=pruning.hard_clear.enabled,
            placeholder=pruning.hard_clear.placeholder,
            allow=pruning.tools.allow,
            deny=pruning.tools.deny,
        ),
    )


def compaction_from(settings: Settings, window: Window, workspace_dir: Path, *, summariser: object) -> CompactionPolicy:
    """Return how the host compacts, for a summariser with *window*."""
    said = settings.agents.defaults.compaction
    guard = said.quality_guard
    entry = settings.models.find(getattr(summariser, "provider", None), getattr(summariser, "model", None))
    audits = said.mode == "safeguard" if guard.enabled is None else guard.enabled
    return CompactionPolicy(
        keep_recent_tokens=said.keep_recent_tokens,
        reserve_tokens=said.reserve_tokens,
        max_history_share=said.max_history_share,
        mode=said.mode,
        recent_turns=said.recent_turns_preserve,
        identifier_policy=said.identifier_policy,
        identifier_instructions=said.identifier_instructions,
        quality_retries=guard.max_retries if audits else -1,
        custom_instructions=said.custom_instructions,
        workspace_rules=workspace_rules(workspace_dir, said.post_compaction_sections),
        context_window=window.tokens,
        max_output_tokens=None if entry is None else entry.max_tokens,
    )


def deadlines_from(settings: Settings) -> dict[str, float]:
    """Return the deadline of each operation in seconds; what is said of compactions counts more than their deadline."""
    seconds = settings.deadlines.seconds()
    said = settings.agents.defaults.compaction.timeout_seconds
    return seconds if said is None else {**seconds, "compact": float(int(said) or said)}


def flush_from(settings: Settings) -> FlushPolicy:
    """Return when memory is flushed."""
    said = settings.agents.defaults.compaction.memory_flush
    return FlushPolicy(
        enabled=said.enabled,
        soft_threshold_tokens=said.soft_threshold_tokens,
        force_transcript_bytes=said.force_flush_transcript_bytes,
        prompt=said.prompt,
        system_prompt=said.system_prompt,
    )


def memory_from(settings: Settings, workspace_dir: Path) -> Memory | None:
    """Return what serves the memory slot; ``None`` where nothing does."""
    return NotesMemory(workspace_dir) if settings.plugins.slots.memory == "notes" else None


def windows_from(settings: Settings) -> WindowOf:
    """Return who knows how large a model's window is, by ``models.providers`` and ``agents.defaults.contextTokens``."""
    cap = settings.agents.defaults.context_tokens

    def window_of(provider: str | None, model: str | None, said: int | None) -> Window:
        if said is not None:
            return resolve_window(model_window=said, source="argument", cap=cap)
        entry = settings.models.find(provider, model)
        configured = None if entry is None else entry.context_tokens or entry.context_window
        if configured is not None:
            return resolve_window(model_window=configured, source="modelsConfig", cap=cap)
        return resolve_window(model_window=None, source="default", cap=cap)

    return window_of
