from .answers import (
    CompactedContext,
    EndedTurn,
    Prompt,
    TurnResult,
)
from .events import (
    Compacted,
    Compacting,
    MessageAppended,
    ModelAsked,
    ModelRetried,
    ToolEnded,
    ToolStarted,
    TurnAnswered,
    TurnEvent,
)
from .flush import (
    FlushPolicy,
)
from .flushing import (
    Flush,
)
from .heartbeat import (
    mark_heartbeat,
)
from .limit import (
    TurnLimit,
)
from .maintenance import (
    BackgroundMaintenance,
)
from .memory import (
    Memory,
    MemoryFacts,
)
from .notes import (
    NotesMemory,
)
from .policy import (
    Standing,
    TurnPolicy,
)
from .pruning import (
    PruningPolicy,
)
from .rules import (
    PromptRules,
)
from .tools import (
    ToolBox,
)
from .turn import (
    Turn,
    TurnRequest,
)
from .window import (
    DEFAULT_CONTEXT_WINDOW,
    Window,
    resolve_window,
)

__all__ = [
    "DEFAULT_CONTEXT_WINDOW",
    "BackgroundMaintenance",
    "Compacted",
    "CompactedContext",
    "Compacting",
    "EndedTurn",
    "Flush",
    "FlushPolicy",
    "Memory",
    "MemoryFacts",
    "MessageAppended",
    "ModelAsked",
    "ModelRetried",
    "NotesMemory",
    "Prompt",
    "PromptRules",
    "PruningPolicy",
    "Standing",
    "ToolBox",
    "ToolEnded",
    "ToolStarted",
    "Turn",
    "TurnAnswered",
    "TurnEvent",
    "TurnLimit",
    "TurnPolicy",
    "TurnRequest",
    "TurnResult",
    "Window",
    "mark_heartbeat",
    "resolve_window",
]
