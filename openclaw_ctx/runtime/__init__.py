"""A turn, from the user's words to the model's answer, however full the window gets."""

from openclaw_ctx.door import open_door

__getattr__, __dir__, __all__ = open_door(
    __name__,
    {
        ".answers": ("CompactedContext", "EndedTurn", "Prompt", "TurnResult"),
        ".events": (
            "Compacted",
            "Compacting",
            "MessageAppended",
            "ModelAsked",
            "ModelRetried",
            "ToolEnded",
            "ToolStarted",
            "TurnAnswered",
            "TurnEvent",
        ),
        ".flush": ("FlushPolicy",),
        ".flushing": ("Flush",),
        ".heartbeat": ("mark_heartbeat",),
        ".limit": ("TurnLimit",),
        ".maintenance": ("BackgroundMaintenance",),
        ".memory": ("Memory", "MemoryFacts"),
        ".notes": ("NotesMemory",),
        ".policy": ("Standing", "TurnPolicy"),
        ".pruning": ("PruningPolicy",),
        ".rules": ("PromptRules",),
        ".tools": ("ToolBox",),
        ".turn": ("Turn", "TurnRequest"),
        ".window": ("DEFAULT_CONTEXT_WINDOW", "Window", "resolve_window"),
    },
)
