"""Numbers with a unit, as people write durations and sizes."""

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["measured"]

_MEASURE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]+)")
_MEASURES: Final = re.compile(rf"(?:{_MEASURE.pattern})(?: ?{_MEASURE.pattern})*")


def measured(text: str, units: Mapping[str, float]) -> float | None:
    """Return what ``5m``, ``1h30m`` or ``20mb`` comes to; ``None`` for a text that is nothing of the kind."""
    text = text.strip().lower()
    if not _MEASURES.fullmatch(text):
        return None
    parts = _MEASURE.findall(text)
    if any(unit not in units for _, unit in parts):
        return None
    total = sum((float(number) * units[unit] for number, unit in parts), 0.0)
    return int(total) if total.is_integer() else total
