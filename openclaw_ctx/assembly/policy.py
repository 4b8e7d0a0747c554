"""What the settings say about plugins."""

from openclaw_ctx.config import Settings
from openclaw_ctx.host import Policy

__all__ = ["policy_from"]


def policy_from(settings: Settings) -> Policy:
    """Return what the settings say about plugins."""
    plugins = settings.plugins
    return Policy(
        slot=plugins.slots.context_engine,
        enabled=plugins.enabled,
        allow=plugins.allow,
        deny=plugins.deny,
        entries_enabled={name: entry.enabled for name, entry in plugins.entries.items() if entry.enabled is not None},
        unset_variables={name: e.unset_variables for name, e in plugins.entries.items() if e.unset_variables},
        strict=plugins.slot_policy == "strict",
    )
