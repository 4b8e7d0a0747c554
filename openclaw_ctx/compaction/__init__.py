"""Making a context smaller, the host's own way."""

from .native import compact_transcript
from .planner import plan_cut
from .policy import KEEP_RECENT_TOKENS, MAX_SUMMARY_CHARS, CompactionPolicy
from .prompts import MAX_FOCUS_CHARS
from .reasons import SKIP_CODES, is_skip, reason_code
from .threads import off_loop

__all__ = [
    "KEEP_RECENT_TOKENS",
    "MAX_FOCUS_CHARS",
    "MAX_SUMMARY_CHARS",
    "SKIP_CODES",
    "CompactionPolicy",
    "compact_transcript",
    "is_skip",
    "off_loop",
    "plan_cut",
    "reason_code",
]
