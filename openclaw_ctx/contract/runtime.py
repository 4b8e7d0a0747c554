"""
What the host tells an engine about the run it is in.

``RuntimeSettings`` is schema 1 of the reference system: every field is always
present, and what is not known is ``None``.
"""

import math
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

import attrs

from .frozen import JSON
from .info import HostDescriptor
from .names import LEGACY_ENGINE_ID
from .services import Complete, RewriteTranscriptEntries

__all__ = [
    "BootstrapReason",
    "ContextEngineSelection",
    "Diagnostics",
    "ExecutionHost",
    "Limits",
    "MemoryPrompt",
    "ModelSettings",
    "PromptCache",
    "RuntimeContext",
    "RuntimeMode",
    "RuntimeReason",
    "RuntimeSettings",
    "RuntimeSettingsRuntime",
    "SelectionSource",
    "build_memory_system_prompt_addition",
    "build_runtime_settings",
    "normalize_reason",
]

RuntimeMode: TypeAlias = Literal["normal", "fallback", "degraded"]
SelectionSource: TypeAlias = Literal["configured", "default", "unknown"]
RuntimeReason: TypeAlias = Literal[
    "provider_timeout",
    "provider_unavailable",
    "rate_limited",
    "context_overflow",
    "runtime_unavailable",
    "unknown",
]
BootstrapReason: TypeAlias = Literal["new", "resume", "import", "catch_up", "continuation", "reset"]
"""
Why an engine is introduced to a session: ``new`` (empty), ``resume`` (it knows
the session and has missed nothing), ``catch_up`` (it knows the session and has
missed some of it: another engine served, or it was quarantined), ``import``
(history exists that it has never seen), ``continuation`` (the session key goes
on in another transcript, ``previous_session_id``), ``reset`` (the same, on the
user's wish to begin anew).
"""

# In this order: "context limit exceeded" is a rate limit, as it is there.
_REASON_WORDS: Final[tuple[tuple[tuple[str, ...], RuntimeReason], ...]] = (
    (("timeout",), "provider_timeout"),
    (("rate", "limit", "429"), "rate_limited"),
    (("overflow", "context", "pressure"), "context_overflow"),
    (("runtime",), "runtime_unavailable"),
    (("provider", "primary", "unavailable"), "provider_unavailable"),
)
_REASONS: Final[dict[str, RuntimeReason]] = {reason: reason for reason in get_args(RuntimeReason)}


@attrs.frozen(kw_only=True)
class RuntimeSettingsRuntime:
    """Which program runs the engine, and how well it runs."""

    host: Literal["openclaw"] = "openclaw"
    mode: RuntimeMode = "normal"
    harness_id: str | None = None
    runtime_id: str | None = None


@attrs.frozen(kw_only=True)
class ModelSettings:
    """The model. ``family`` is only ever what the caller says: an id does not attest it."""

    requested: str | None = None
    resolved: str | None = None
    provider: str | None = None
    family: str | None = None


@attrs.frozen(kw_only=True)
class ContextEngineSelection:
    """Which engine the configuration selects, and whether by choice."""

    selected_id: str | None = None
    source: SelectionSource = "unknown"


@attrs.frozen(kw_only=True)
class ExecutionHost:
    """The host descriptor's id and label."""

    id: str
    label: str


@attrs.frozen(kw_only=True)
class Limits:
    """Tokens."""

    prompt_token_budget: float | None = None
    max_output_tokens: float | None = None


@attrs.frozen(kw_only=True)
class Diagnostics:
    """Why the run is in fallback or degraded, if it is."""

    fallback_reason: RuntimeReason | None = None
    degraded_reason: RuntimeReason | None = None


@attrs.frozen(kw_only=True)
class RuntimeSettings:
    """How the run is set up; see :func:`build_runtime_settings`."""

    schema_version: Literal[1] = 1
    runtime: RuntimeSettingsRuntime
    model: ModelSettings
    context_engine_selection: ContextEngineSelection
    execution_host: ExecutionHost
    limits: Limits
    diagnostics: Diagnostics


def build_runtime_settings(
    host: HostDescriptor,
    *,
    mode: RuntimeMode | None = None,
    harness_id: object = None,
    runtime_id: object = None,
    requested_model: object = None,
    resolved_model: object = None,
    provider: object = None,
    model_family: object = None,
    selected_engine_id: object = None,
    prompt_token_budget: object = None,
    max_output_tokens: object = None,
    fallback_reason: object = None,
    degraded_reason: object = None,
) -> RuntimeSettings:
    """
    Return settings of schema 1, every foreign value normalised.

    Text is trimmed and blank text is ``None``; numbers must be finite and are
    neither rounded nor clamped. Without *mode*: ``degraded`` where a degraded
    reason is left after normalising, else ``fallback`` where a fallback reason
    is or the resolved model is another than the requested, else ``normal``.
    """
    requested, resolved = _text(requested_model), _text(resolved_model)
    fallback, degraded = normalize_reason(fallback_reason), normalize_reason(degraded_reason)
    selected = _text(selected_engine_id)
    if mode is None:
        other_model = requested is not None and resolved is not None and requested != resolved
        mode = "degraded" if degraded else "fallback" if fallback or other_model else "normal"
    return RuntimeSettings(
        runtime=RuntimeSettingsRuntime(mode=mode, harness_id=_text(harness_id), runtime_id=_text(runtime_id)),
        model=ModelSettings(
            requested=requested, resolved=resolved, provider=_text(provider), family=_text(model_family)
        ),
        context_engine_selection=ContextEngineSelection(selected_id=selected, source=_source(selected)),
        execution_host=ExecutionHost(id=host.id, label=host.label),
        limits=Limits(prompt_token_budget=_number(prompt_token_budget), max_output_tokens=_number(max_output_tokens)),
        diagnostics=Diagnostics(fallback_reason=fallback, degraded_reason=degraded),
    )


def normalize_reason(reason: object) -> RuntimeReason | None:
    """Return the reason code that free text stands for; ``None`` for blank text or no text."""
    text = _text(reason)
    if text is None:
        return None
    if text in _REASONS:
        return _REASONS[text]
    lowered = text.lower()
    return next((code for words, code in _REASON_WORDS if any(word in lowered for word in words)), "unknown")


def _text(value: object) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def _source(selected: str | None) -> SelectionSource:
    if selected is None:
        return "unknown"
    return "default" if selected == LEGACY_ENGINE_ID else "configured"


@attrs.frozen(kw_only=True)
class PromptCache:
    """What is known of the provider's prompt cache; times are milliseconds since the epoch."""

    retention: str | None = None
    last_call_usage: Mapping[str, JSON] | None = None
    broke: bool | None = None
    changes: tuple[str, ...] = ()
    last_cache_touch_at: float | None = None
    expires_at: float | None = None


@attrs.frozen(kw_only=True)
class MemoryPrompt:
    """What the memory slot has to say in a run: prepared once at its beginning, and the same until its end."""

    sections: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class RuntimeContext:
    """
    The facts of one call, and the two handles that need a moment of their own.

    Attributes:
        token_budget: Tokens that the messages may cost.
        current_token_count: The caller's live estimate of the context.
        trigger: Why a compaction was asked for: ``manual``, ``budget``, ``overflow``, ``timeout_recovery``.
        allow_deferred_compaction_execution: Whether a maintenance that runs behind the
            turns may do the compaction that was put off for it.
        memory_prompt: ``None`` where no memory is configured, and outside of a run.
        rewrite_transcript_entries: Replaces messages in the transcript; ``None`` before the turn has ended.
        complete: Asks the host's model; ``None`` where the host has none.
    """

    cwd: str | None = None
    workspace_dir: str | None = None
    token_budget: int | None = None
    current_token_count: int | None = None
    trigger: str | None = None
    allow_deferred_compaction_execution: bool = False
    agent_harness_id: str | None = None
    prompt_cache: PromptCache | None = None
    memory_prompt: MemoryPrompt | None = None
    rewrite_transcript_entries: RewriteTranscriptEntries | None = None
    complete: Complete | None = None


def build_memory_system_prompt_addition(context: RuntimeContext) -> str | None:
    """Return what memory wants the model to know, for ``system_prompt_addition``; ``None`` where it wants nothing."""
    memory = context.memory_prompt
    sections = [section for section in memory.sections if section.strip()] if memory is not None else []
    return "\n\n".join(sections) or None
