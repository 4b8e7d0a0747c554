"""The sections of a workspace's ``AGENTS.md`` that the operator wants to outlive a compaction."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["workspace_rules"]

_LONGEST_FILE: Final = 1 << 20
_HEADING: Final = re.compile(r"(#{1,6})[ \t]+(.+?)[ \t#]*$")


def workspace_rules(workspace_dir: Path, sections: Sequence[str]) -> str:
    """Return the named sections of ``AGENTS.md``, each under its heading; nothing where there are none."""
    if not sections:
        return ""
    try:
        with (workspace_dir / "AGENTS.md").open("rb") as file:
            text = file.read(_LONGEST_FILE).decode("utf-8", "replace")
    except OSError:
        return ""
    wanted = {section.strip().lower() for section in sections}
    kept: list[str] = []
    level = 0
    fenced = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        heading = None if fenced else _HEADING.match(line.rstrip("\r"))
        if heading is not None and (not level or len(heading[1]) <= level):
            level = len(heading[1]) if heading[2].strip().lower() in wanted else 0
        if level:
            kept.append(line.rstrip("\r"))
    return "\n".join(kept).strip()
