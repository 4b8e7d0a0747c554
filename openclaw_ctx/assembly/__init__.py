"""The only room that knows everybody: settings in, a running host out."""

from openclaw_ctx.door import open_door

__getattr__, __dir__, __all__ = open_door(
    __name__,
    {
        ".host": (
            "Config",
            "Host",
            "counter_from",
            "with_builtins",
        ),
        ".notices": ("AfterCompaction", "BeforeCompaction", "CompactionNotice"),
        ".opening": ("Opening",),
        ".places": ("BuiltinEngines", "quarantine_folder", "sessions_folder", "state_folder"),
        ".policy": ("policy_from", "windows_from"),
        ".reaching": ("address_of",),
        ".services": ("BackgroundJob",),
        ".session": ("Session", "Subagent"),
        ".subagents": ("ContextMode",),
    },
)
