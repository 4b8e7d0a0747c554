"""Making a context smaller, the host's own way."""

from .native import KEEP_RECENT_TOKENS, MAX_SUMMARY_CHARS, compact_transcript
from .planner import plan_cut

__all__ = ["KEEP_RECENT_TOKENS", "MAX_SUMMARY_CHARS", "compact_transcript", "plan_cut"]
