from .host import (
    Config,
    Host,
    counter_from,
    with_builtins,
)
from .notices import (
    AfterCompaction,
    BeforeCompaction,
    CompactionNotice,
)
from .opening import (
    Opening,
)
from .places import (
    BuiltinEngines,
    quarantine_folder,
    sessions_folder,
    state_folder,
)
from .policy import (
    policy_from,
    windows_from,
)
from .reaching import (
    address_of,
)
from .services import (
    BackgroundJob,
)
from .session import (
    Session,
    Subagent,
)
from .subagents import (
    ContextMode,
)

__all__ = [
    "AfterCompaction",
    "BackgroundJob",
    "BeforeCompaction",
    "BuiltinEngines",
    "CompactionNotice",
    "Config",
    "ContextMode",
    "Host",
    "Opening",
    "Session",
    "Subagent",
    "address_of",
    "counter_from",
    "policy_from",
    "quarantine_folder",
    "sessions_folder",
    "state_folder",
    "windows_from",
    "with_builtins",
]
