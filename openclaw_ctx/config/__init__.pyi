from .agents import (
    AgentDefaults,
    AgentsSettings,
    ContextLimits,
    HardClearSettings,
    ModelChoice,
    PrunedTools,
    PruningSettings,
    SoftTrimSettings,
)
from .compaction import CompactionSettings, MemoryFlushSettings, MidTurnPrecheckSettings, QualityGuardSettings
from .engine import structure_engine_config
from .keys import CONFIG_KEYS, ConfigKey
from .load import (
    LoadedSettings,
    load_settings,
    settings_from,
)
from .place import CONFIG_VARIABLE, config_path, no_config
from .providers import ModelsSettings, ProviderModelSettings, ProviderSettings
from .schema import (
    CounterName,
    DeadlineSettings,
    EntrySettings,
    PluginSettings,
    QuarantineSettings,
    SessionSettings,
    Settings,
    SlotPolicy,
    SlotSettings,
    TokenSettings,
)

__all__ = [
    "CONFIG_KEYS",
    "CONFIG_VARIABLE",
    "AgentDefaults",
    "AgentsSettings",
    "CompactionSettings",
    "ConfigKey",
    "ContextLimits",
    "CounterName",
    "DeadlineSettings",
    "EntrySettings",
    "HardClearSettings",
    "LoadedSettings",
    "MemoryFlushSettings",
    "MidTurnPrecheckSettings",
    "ModelChoice",
    "ModelsSettings",
    "PluginSettings",
    "ProviderModelSettings",
    "ProviderSettings",
    "PrunedTools",
    "PruningSettings",
    "QualityGuardSettings",
    "QuarantineSettings",
    "SessionSettings",
    "Settings",
    "SlotPolicy",
    "SlotSettings",
    "SoftTrimSettings",
    "TokenSettings",
    "config_path",
    "load_settings",
    "no_config",
    "settings_from",
    "structure_engine_config",
]
