"""Interim: the fixed sections of a safeguarded summary."""
# ruff: noqa: ARG001, D103 -- the simplest that does, until the thorough one takes its place

REQUIRED_SECTIONS: tuple[str, ...] = (
    "## Decisions",
    "## Open TODOs",
    "## Constraints/Rules",
    "## Pending user asks",
    "## Exact identifiers",
)


def safeguard_instructions(
    *, policy_instructions: str, custom_instructions: str | None, latest_ask: str | None, recent_turns_kept: bool
) -> str:
    return "\n".join(REQUIRED_SECTIONS)


def structured_fallback(previous_summary: str | None) -> str:
    return previous_summary or "\n\n".join(f"{section}\nNone." for section in REQUIRED_SECTIONS)


def finish_summary(
    body: str,
    *,
    split_turn: str = "",
    recent_turns: str = "",
    tool_failures: str = "",
    files: str = "",
    workspace_rules: str = "",
    max_chars: int = 16_000,
) -> str:
    parts = (body, split_turn, recent_turns, tool_failures, files, workspace_rules)
    return "\n\n".join(part for part in parts if part)[:max_chars]
