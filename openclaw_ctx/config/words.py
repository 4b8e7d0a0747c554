"""The words of findings and problems: paths, values, and the key that may have been meant. No secret gets into them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["describe", "format_path", "standing_at", "suggestion"]

_PLAIN_KEY: Final = re.compile(r"[\w$@/-]+", re.ASCII)
_LONGEST_SHOWN: Final = 40


def suggestion(key: str, known: Mapping[str, object]) -> str:
    """Return ``did you mean ...?``, or what is known where nothing is near."""
    import difflib  # noqa: PLC0415 -- off the start-up path: needed only for a mistyped key

    lowered = {name.lower(): name for name in known}
    nearest = difflib.get_close_matches(key.lower(), lowered, n=1)
    return f"did you mean {lowered[nearest[0]]!r}?" if nearest else f"known here: {', '.join(known)}"


def format_path(path: Sequence[object]) -> str:
    """Return ``$.plugins.allow[0]``; a key that is no plain word is quoted and escaped, to stay on its line."""
    parts = ["$"]
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif isinstance(step, str) and _PLAIN_KEY.fullmatch(step):
            parts.append(f".{step}")
        else:
            parts.append(f"[{json.dumps(str(step))}]")
    return "".join(parts)


def standing_at(data: Any, path: tuple[object, ...]) -> tuple[tuple[object, ...], Any]:
    """Return what stands at *path*; or the text that has taken the place of a section above, and where."""
    value = data
    for number, step in enumerate(path):
        if isinstance(value, str):
            return path[:number], value
        value = value[step]
    return path, value


def describe(value: object, *, quote: bool = False) -> str:
    """Return a few words for *value*, without control characters; the text itself only if *quote*."""
    if value is None or isinstance(value, bool | float):
        return json.dumps(value)
    if isinstance(value, int):
        # Python refuses to write out an integer of more than 4300 digits.
        return str(value) if abs(value) < 10**_LONGEST_SHOWN else "a number of many digits"
    if isinstance(value, str):
        return json.dumps(value) if quote and len(value) <= _LONGEST_SHOWN else "a string"
    if isinstance(value, list | tuple):
        return "a list"
    return "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}"
