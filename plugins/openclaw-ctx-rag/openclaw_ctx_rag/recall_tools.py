"""What the agent may call: search the conversation's history, and read in it."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from openclaw_ctx import JSON, EngineTool

from .following import Followed
from .index import ROLES, Filter, Vectors
from .terms import query_terms

__all__ = ["recall_tools"]

_MOST_HITS: Final = 50
_MOST_AROUND: Final = 20
_SHOWN_CHARS: Final = 400
_NEIGHBOUR_CHARS: Final = 4_000
"""Of each neighbour of what is read; the next reading shows all of it."""

_SEARCH: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Words, names, identifiers, or a question."},
        "limit": {"type": "integer", "minimum": 1, "maximum": _MOST_HITS, "default": 8},
        "since": {"type": "string", "description": "ISO date or time, UTC: nothing older."},
        "until": {"type": "string", "description": "ISO date or time, UTC: nothing from then on."},
        "role": {"type": "string", "enum": list(ROLES)},
    },
    "required": ["query"],
}
_READ: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {
        "entry_id": {"type": "string", "description": "As history_search gives it."},
        "around": {"type": "integer", "minimum": 0, "maximum": _MOST_AROUND, "default": 0},
    },
    "required": ["entry_id"],
}

QueryVector = Callable[[str], Awaitable[Vectors | None]]


def recall_tools(followed: Followed, vector_of: QueryVector) -> tuple[EngineTool, ...]:
    """Return the tools for one session; what they answer is JSON, so that no message can pass for another."""

    async def search(arguments: Mapping[str, JSON]) -> str:
        query = _text(arguments, "query")
        limit = _whole(arguments, "limit", 8, least=1, most=_MOST_HITS)
        only = Filter(since=_time(arguments, "since"), until=_time(arguments, "until"), role=_role(arguments))
        index = followed.index
        if query_terms(query):
            hits = index.search(query, vector=await vector_of(query), limit=limit, only=only, by_cost=False)
            numbers = [hit.number for hit in hits]
        else:  # signs alone, which no index holds
            numbers = index.find_literal(query, limit=limit, only=only)
        return _as_json({"hits": _shown(followed, numbers, dict.fromkeys(numbers, _SHOWN_CHARS))})

    async def read(arguments: Mapping[str, JSON]) -> str:
        entry_id = _text(arguments, "entry_id")
        around = _whole(arguments, "around", 0, least=0, most=_MOST_AROUND)
        index = followed.index
        number = index.number_of(entry_id)
        active = index.facts().active
        if number is None or not active[number]:
            problem = (
                f"there is no entry {entry_id[:80]!r} in this conversation's history; history_search gives entry ids"
            )
            raise ValueError(problem)
        branch = np.flatnonzero(active)
        place = int(np.searchsorted(branch, number))
        numbers = branch[max(0, place - around) : place + around + 1].tolist()
        neighbours = {neighbour: _NEIGHBOUR_CHARS for neighbour in numbers if neighbour != number}
        return _as_json({"messages": _shown(followed, numbers, neighbours)})

    return (
        EngineTool(
            name="history_search",
            description="Search this conversation's whole history, also what the context no longer shows.",
            parameters=_SEARCH,
            call=search,
        ),
        EngineTool(
            name="history_read",
            description="Read a message of this conversation's history in full, and its neighbours, long ones cut.",
            parameters=_READ,
            call=read,
        ),
    )


def _shown(followed: Followed, numbers: Sequence[int], most: Mapping[int, int]) -> list[Mapping[str, JSON]]:
    """Return the messages of *numbers* as they are told, those in *most* with so many characters at most."""
    index = followed.index
    facts = index.facts()
    rows = zip(numbers, index.read(numbers), index.texts(numbers), strict=True)
    return [
        {
            "entry_id": entry_id,
            "role": ROLES[int(facts.role[number])],
            **_unless_empty("time", _time_of(float(facts.timestamp[number]))),
            **_unless_empty("author", author),
            "text": text if len(text) <= most.get(number, len(text)) else f"{text[: most[number]]}…",
        }
        for number, (entry_id, _), (author, _, text) in rows
    ]


def _unless_empty(name: str, value: str) -> Mapping[str, str]:
    return {name: value} if value else {}


def _time_of(timestamp: float) -> str:
    """Return a timestamp in words; nothing where there is none, or none that a calendar has."""
    try:
        return datetime.fromtimestamp(timestamp / 1_000, UTC).isoformat(timespec="minutes") if timestamp else ""
    except (OverflowError, OSError, ValueError):
        return ""


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(arguments: Mapping[str, JSON], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        problem = f"{name} is a text with something in it, not {value!r:.80}"
        raise ValueError(problem)
    return value


def _whole(arguments: Mapping[str, JSON], name: str, default: int, *, least: int, most: int) -> int:
    value = arguments.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        problem = f"{name} is a whole number from {least} to {most}, not {value!r:.80}"
        raise ValueError(problem)
    return value


def _time(arguments: Mapping[str, JSON], name: str) -> float | None:
    value = arguments.get(name)
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        problem = f"{name} is an ISO date or time such as 2026-05-08 or 2026-05-08T13:00, not {value!r:.80}"
        raise ValueError(problem) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000


def _role(arguments: Mapping[str, JSON]) -> str | None:
    value = arguments.get("role")
    if value is not None and value not in ROLES:
        problem = f"role is one of {', '.join(ROLES)}, not {value!r:.80}"
        raise ValueError(problem)
    return None if value is None else str(value)
