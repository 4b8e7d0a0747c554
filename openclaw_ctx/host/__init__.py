"""Finds, holds and runs engines, and keeps what it would not run."""

from openclaw_ctx.door import open_door

__getattr__, __dir__, __all__ = open_door(
    __name__,
    {
        ".check": (
            "CheckedPrompt",
            "check_prompt",
        ),
        ".compat": (
            "HostCompatibility",
            "HostOperation",
            "evaluate_host",
            "require_host",
        ),
        ".discovery": (
            "ENGINES_GROUP",
            "Candidate",
            "Discovery",
            "FaultKind",
            "MetadataFault",
            "discover",
        ),
        ".engine": (
            "BuiltEngine",
            "MakeContext",
            "build_engine",
        ),
        ".guard": (
            "Answer",
            "Guard",
            "Serving",
        ),
        ".hooks": (
            "HOOKS",
            "REQUIRED_HOOKS",
            "EngineHooks",
            "build_hooks",
        ),
        ".lane": (
            "DeadlineExceeded",
            "HostLane",
            "Lane",
            "LaneFault",
            "Runner",
        ),
        ".loading": ("load_factory",),
        ".mirror": (
            "MirrorRow",
            "QuarantineMirror",
            "QuarantineRecord",
        ),
        ".permit": (
            "Life",
            "Permit",
            "acting_permit",
        ),
        ".quarantine": (
            "Quarantine",
            "QuarantinePolicy",
        ),
        ".registration": (
            "CORE_OWNER",
            "PUBLIC_OWNER",
            "EngineFactory",
            "Registration",
            "Registrations",
        ),
        ".registry": (
            "Registry",
            "default_registry",
        ),
        ".resolver": (
            "EngineOffer",
            "Policy",
            "Selection",
            "SelectionOutcome",
            "offers",
            "select",
        ),
        ".results": (
            "NEUTRAL",
            "InvalidResult",
            "structure_info",
            "structure_result",
        ),
        ".watch": ("HookCall",),
    },
)
