"""The configuration: a JSON5 file in, frozen settings out."""

from openclaw_ctx.door import open_door

__getattr__, __dir__, __all__ = open_door(
    __name__,
    {
        ".engine": ("structure_engine_config",),
        ".load": (
            "LoadedSettings",
            "load_settings",
            "settings_from",
        ),
        ".place": ("CONFIG_VARIABLE", "config_path", "no_config"),
        ".schema": (
            "CONFIG_KEYS",
            "ConfigKey",
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
