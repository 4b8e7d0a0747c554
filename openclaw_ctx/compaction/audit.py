"""Interim: whether a summary has what it must have."""
# ruff: noqa: ARG001, D103 -- the simplest that does, until the thorough one takes its place

from collections.abc import Sequence


def audit_summary(
    summary: str,
    *,
    identifiers: Sequence[str],
    latest_ask: str | None,
    retained_asks: Sequence[str],
    check_identifiers: bool,
) -> tuple[str, ...]:
    return () if "## Decisions" in summary else ("missing_section:## Decisions",)


def retry_instructions(reasons: Sequence[str], *, max_chars: int) -> str:
    return ("The last summary was refused: " + ", ".join(reasons))[:max_chars]
