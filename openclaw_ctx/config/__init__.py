"""The configuration: a JSON5 file in, frozen settings out."""

from openclaw_ctx.door import open_door

__getattr__, __dir__, __all__ = open_door(
    __name__,
    {
        ".agents": (
            "AgentDefaults",
            "AgentsSettings",
            "ContextLimits",
            "HardClearSettings",
            "ModelChoice",
            "PrunedTools",
            "PruningSettings",
            "SoftTrimSettings",
        ),
        ".compaction": (
            "CompactionSettings",
            "MemoryFlushSettings",
            "MidTurnPrecheckSettings",
            "QualityGuardSettings",
        ),
        ".engine": ("structure_engine_config",),
        ".keys": ("CONFIG_KEYS", "ConfigKey"),
        ".load": (
            "LoadedSettings",
            "load_settings",
            "settings_from",
        ),
        ".place": ("CONFIG_VARIABLE", "config_path", "no_config"),
        ".providers": ("ModelsSettings", "ProviderModelSettings", "ProviderSettings"),
        ".schema": (
            "CounterName",
            "DeadlineSettings",
            "EntrySettings",
            "PluginSettings",
            "QuarantineSettings",
            "SessionSettings",
            "Settings",
            "SlotPolicy",
            "SlotSettings",
            "TokenSettings",
        ),
    },
)
