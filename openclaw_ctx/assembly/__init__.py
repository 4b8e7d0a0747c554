"""The only room that knows everybody: settings in, a running host out."""

from .host import Config, Host, counter_from, policy_from, quarantine_folder, state_folder, with_builtins
from .opening import Opening
from .services import BackgroundJob
from .session import CompactedContext, EndedTurn, Prompt, Session

__all__ = [
    "BackgroundJob",
    "CompactedContext",
    "Config",
    "EndedTurn",
    "Host",
    "Opening",
    "Prompt",
    "Session",
    "counter_from",
    "policy_from",
    "quarantine_folder",
    "state_folder",
    "with_builtins",
]
