"""The configuration: a JSON5 file in, frozen settings out."""

from .engine import structure_engine_config
from .load import (
    CONFIG_VARIABLE,
    LoadedSettings,
    load_settings,
    settings_from,
)
from .schema import (
    CONFIG_KEYS,
    ConfigKey,
    DeadlineSettings,
    EntrySettings,
    PluginSettings,
    QuarantineSettings,
    SessionSettings,
    Settings,
    SlotPolicy,
    SlotSettings,
    TokenCounter,
    TokenSettings,
)

__all__ = [
    "CONFIG_KEYS",
    "CONFIG_VARIABLE",
    "ConfigKey",
    "DeadlineSettings",
    "EntrySettings",
    "LoadedSettings",
    "PluginSettings",
    "QuarantineSettings",
    "SessionSettings",
    "Settings",
    "SlotPolicy",
    "SlotSettings",
    "TokenCounter",
    "TokenSettings",
    "load_settings",
    "settings_from",
    "structure_engine_config",
]
