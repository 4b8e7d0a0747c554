from .engine import structure_engine_config
from .load import (
    LoadedSettings,
    load_settings,
    settings_from,
)
from .place import CONFIG_VARIABLE, config_path, no_config
from .schema import (
    CONFIG_KEYS,
    ConfigKey,
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
    "ConfigKey",
    "CounterName",
    "DeadlineSettings",
    "EntrySettings",
    "LoadedSettings",
    "PluginSettings",
    "QuarantineSettings",
    "SessionSettings",
    "Settings",
    "SlotPolicy",
    "SlotSettings",
    "TokenSettings",
    "config_path",
    "load_settings",
    "no_config",
    "settings_from",
    "structure_engine_config",
]
