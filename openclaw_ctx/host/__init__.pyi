from .check import (
    CheckedPrompt,
    check_prompt,
)
from .compat import (
    HostCompatibility,
    HostOperation,
    evaluate_host,
    require_host,
)
from .discovery import (
    ENGINES_GROUP,
    Candidate,
    Discovery,
    FaultKind,
    MetadataFault,
    discover,
)
from .engine import (
    BuiltEngine,
    MakeContext,
    build_engine,
)
from .guard import (
    Answer,
    Guard,
    Serving,
)
from .hooks import (
    HOOKS,
    REQUIRED_HOOKS,
    EngineHooks,
    build_hooks,
)
from .lane import (
    DeadlineExceeded,
    HostLane,
    Lane,
    LaneFault,
    Runner,
)
from .loading import load_factory
from .mirror import (
    MirrorRow,
    QuarantineMirror,
    QuarantineRecord,
)
from .permit import (
    Life,
    Permit,
    acting_permit,
)
from .quarantine import (
    Quarantine,
    QuarantinePolicy,
)
from .registration import (
    CORE_OWNER,
    PUBLIC_OWNER,
    EngineFactory,
    Registration,
    Registrations,
)
from .registry import (
    Registry,
    default_registry,
)
from .resolver import (
    EngineOffer,
    Policy,
    Selection,
    SelectionOutcome,
    offers,
    select,
)
from .results import (
    NEUTRAL,
    InvalidResult,
    structure_info,
    structure_result,
)
from .watch import HookCall

__all__ = [
    "CORE_OWNER",
    "ENGINES_GROUP",
    "HOOKS",
    "NEUTRAL",
    "PUBLIC_OWNER",
    "REQUIRED_HOOKS",
    "Answer",
    "BuiltEngine",
    "Candidate",
    "CheckedPrompt",
    "DeadlineExceeded",
    "Discovery",
    "EngineFactory",
    "EngineHooks",
    "EngineOffer",
    "FaultKind",
    "Guard",
    "HookCall",
    "HostCompatibility",
    "HostLane",
    "HostOperation",
    "InvalidResult",
    "Lane",
    "LaneFault",
    "Life",
    "MakeContext",
    "MetadataFault",
    "MirrorRow",
    "Permit",
    "Policy",
    "Quarantine",
    "QuarantineMirror",
    "QuarantinePolicy",
    "QuarantineRecord",
    "Registration",
    "Registrations",
    "Registry",
    "Runner",
    "Selection",
    "SelectionOutcome",
    "Serving",
    "acting_permit",
    "build_engine",
    "build_hooks",
    "check_prompt",
    "default_registry",
    "discover",
    "evaluate_host",
    "load_factory",
    "offers",
    "require_host",
    "select",
    "structure_info",
    "structure_result",
]
