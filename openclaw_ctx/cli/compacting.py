"""What is said of a compaction that a person asked for."""

from openclaw_ctx.runtime import CompactedContext

from .speech import clean_text

__all__ = ["told"]


def told(done: CompactedContext) -> str:
    """Return what a compaction came to, as the end of a line."""
    result, made = done.result, done.result.result
    if not result.compacted:
        opening = "nothing was compacted" if result.ok else "it could not be compacted"
        return f"{opening}: {clean_text(result.reason or 'no reason was given')}"
    if made is None or made.tokens_after is None:
        return "compacted."
    return f"{made.tokens_before:,} tokens before, {made.tokens_after:,} after."
