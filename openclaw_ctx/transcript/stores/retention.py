"""
Which sessions to put aside, and which of what was put aside to remove for good.

A plan, and nothing is done by it, so that it can be shown first. Carried out, it
leaves nothing to plan; and no setting that is more generous removes anything
that a stricter one keeps.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

import attrs

from openclaw_ctx.contract import SessionKey
from openclaw_ctx.log import clean_text

from .store import Archive, SessionInfo

__all__ = ["Action", "Retention", "Step", "Superseded", "parse_duration", "parse_size", "plan_retention"]

Action: TypeAlias = Literal["remove-leftover", "remove-superseded", "remove-archive", "archive", "remove-session"]
"""What to do with one thing; ``remove-session``: put it aside, and remove that at once."""

_HIGH_WATER: Final = 0.8
_MOST: Final = 1 << 62
_NUMBER: Final = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-z]*)\s*", re.ASCII | re.IGNORECASE)
_SECONDS: Final = {"w": 604_800, "d": 86_400, "": 86_400, "h": 3_600, "m": 60, "s": 1, "ms": 0.001}
_UNITS: Final = ("b", "kb", "mb", "gb", "tb")
# As the reference system has them: a kilobyte is 1024 bytes.
_BYTES: Final = {
    "": 1,
    **{unit: 1024**power for power, unit in enumerate(_UNITS)},
    **{unit[0]: 1024**power for power, unit in enumerate(_UNITS)},
    **{f"{unit[0]}ib": 1024**power for power, unit in enumerate(_UNITS) if power},
}


def _above_zero(_: object, attribute: "attrs.Attribute[Any]", value: Any) -> None:
    """Refuse zero above all: one takes it for "no limit", another for "keep nothing"."""
    if value is not None and value <= type(value)(0):
        problem = f"{attribute.name} must be above zero, not {value!r}"
        raise ValueError(problem)


@attrs.frozen(kw_only=True)
class Retention:
    """
    How much to keep; the defaults are the reference system's.

    Attributes:
        prune_after: A session that was not written for so long is put aside; what rotations left is removed.
        max_entries: How many sessions there may be; the ones written last stay.
        reset_archive_retention: How long what was put aside is kept; ``None``: as ``prune_after``
            says; ``timedelta.max``: for ever.
        max_disk_bytes: What all of it may take. Beyond it the oldest of what was put aside
            goes first, and then the sessions that were not written for the longest time.
        high_water_bytes: How much of it is then left; ``None``: 80 % of ``max_disk_bytes``.

    Raises:
        ValueError: A value is not above zero.
    """

    prune_after: timedelta = attrs.field(default=timedelta(days=30), validator=_above_zero)
    max_entries: int = attrs.field(default=500, validator=_above_zero)
    reset_archive_retention: timedelta | None = attrs.field(default=None, validator=_above_zero)
    max_disk_bytes: int | None = attrs.field(default=None, validator=_above_zero)
    high_water_bytes: int | None = attrs.field(default=None, validator=_above_zero)


@attrs.frozen(kw_only=True)
class Superseded:
    """
    A transcript that no session is in any more.

    Attributes:
        key: Whose it was, where that is known.
        updated_at: When it was last written.
        leftover: Nobody ever was in it: a rotation was cut off.
    """

    name: str
    size: int
    key: SessionKey | None = None
    updated_at: datetime | None = None
    leftover: bool = False


@attrs.frozen(kw_only=True)
class Step:
    """
    One thing to do.

    Attributes:
        name: The key of a session, the name of anything else.
        size: Bytes; they are freed unless ``action`` is ``archive``.
        why: A phrase for people.
    """

    action: Action
    name: str
    size: int
    why: str


@attrs.frozen(eq=False)
class _Thing:
    action: Action
    name: str
    size: int
    age: timedelta | None

    @property
    def turn(self) -> tuple[int, timedelta, str]:
        """Puts what is to go for room in order: leftovers, what was put aside or left, sessions; the oldest first."""
        rank = {"remove-leftover": 0, "archive": 2}.get(self.action, 1)
        return rank, timedelta.max if self.age is None else -self.age, self.name


def plan_retention(
    sessions: Sequence[SessionInfo],
    archives: Sequence[Archive],
    superseded: Sequence[Superseded],
    *,
    keep: Retention,
    now: datetime,
    busy: Collection[SessionKey] = frozenset(),
) -> Sequence[Step]:
    """
    Return what to do, in this order.

    A session that is not known to be old stays. What takes room counts as it is
    before anything is done, so an archive that goes for its age makes no room for
    another one that is older.

    Args:
        sessions: All there are.
        archives: All there are.
        superseded: What rotations left behind.
        keep: How much to keep.
        now: Without a zone it is UTC, as all times here.
        busy: Sessions that are being written: they stay, and what they left behind too.
    """
    moment = _utc(now)

    def age(at: datetime | None) -> timedelta | None:
        return None if at is None else moment - _utc(at)

    things = [
        _Thing("remove-leftover" if one.leftover else "remove-superseded", one.name, one.size, age(one.updated_at))
        for one in superseded
        if one.key not in busy
    ]
    things += [_Thing("remove-archive", one.name, one.size, age(one.at)) for one in archives]
    things += [
        _Thing("archive", one.key, one.size, age(one.updated_at))
        for one in sessions
        if one.key not in busy and one.updated_at is not None
    ]
    # What a session left behind comes before it: putting it aside would take that along.
    things.sort(key=lambda thing: thing.turn)
    total = sum(one.size for one in sessions) + sum(one.size for one in archives) + sum(one.size for one in superseded)
    reasons = _beyond(things, len(sessions), keep) | _too_old(things, keep)
    room = _for_room(things, total, keep)
    return [
        Step(
            action="remove-session" if thing.action == "archive" and thing in room else thing.action,
            name=thing.name,
            size=thing.size,
            why=reasons.get(thing) or room[thing],
        )
        for thing in things
        if thing in reasons or thing in room
    ]


def parse_duration(value: str | float) -> timedelta:
    """
    Return how long a setting means: ``30d``, ``12h``, ``90m``, ``2w``, ``45s``, ``500ms``; a plain number is days.

    Raises:
        ValueError: It means nothing of the kind, or nothing at all.
    """
    expected = "a duration such as 30d, 12h, 90m or 2w, or a number of days"
    try:
        duration = timedelta(seconds=_number(value, _SECONDS, expected))
    except OverflowError:
        raise _unexpected(value, expected) from None
    if not duration:
        raise _unexpected(value, expected)
    return duration


def parse_size(value: str | float) -> int:
    """
    Return how many bytes a setting means: ``500mb``, ``1.5gb``, ``64k``; a plain number is bytes.

    A kilobyte is 1024 bytes, as in the reference system.

    Raises:
        ValueError: It means nothing of the kind, or nothing at all.
    """
    expected = "a size such as 500mb or 1.5gb, or a number of bytes"
    size = round(_number(value, _BYTES, expected))
    if size == 0:
        raise _unexpected(value, expected)
    return size


def _number(value: str | float, units: Mapping[str, float], expected: str) -> float:
    """Return a number above zero in the smallest unit."""
    found = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        number = float(found[1]) * units.get(found[2].lower(), 0)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = value * units[""]
    else:
        number = 0
    if not 0 < number < _MOST:
        raise _unexpected(value, expected)
    return number


def _unexpected(value: object, expected: str) -> ValueError:
    return ValueError(f"expected {expected}, above zero, and not {clean_text(repr(value), limit=60)}")


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _too_old(things: Sequence[_Thing], keep: Retention) -> dict[_Thing, str]:
    reasons = {}
    for thing in things:
        is_aside = thing.action == "remove-archive"
        most = keep.reset_archive_retention if is_aside and keep.reset_archive_retention else keep.prune_after
        if thing.age is not None and thing.age > most:
            past = _spelled(thing.age)
            reasons[thing] = f"put aside {past} ago" if is_aside else f"not written for {past}"
    return reasons


def _beyond(things: Sequence[_Thing], count: int, keep: Retention) -> dict[_Thing, str]:
    sessions = [thing for thing in things if thing.action == "archive"]
    oldest = sessions[: max(0, count - keep.max_entries)]
    return dict.fromkeys(oldest, f"{count} sessions, and at most {keep.max_entries} are kept")


def _for_room(things: Sequence[_Thing], total: int, keep: Retention) -> dict[_Thing, str]:
    if keep.max_disk_bytes is None or total <= keep.max_disk_bytes:
        return {}
    most = min(keep.high_water_bytes or math.floor(keep.max_disk_bytes * _HIGH_WATER), keep.max_disk_bytes)
    why = f"all of it takes {_sized(total)}, and may take {_sized(keep.max_disk_bytes)}"
    reasons: dict[_Thing, str] = {}
    for thing in things:
        if total <= most:
            break
        reasons[thing] = why
        total -= thing.size
    return reasons


def _spelled(age: timedelta) -> str:
    minutes = int(age.total_seconds() // 60)
    for unit, length in (("days", 1_440), ("hours", 60)):
        if minutes >= 2 * length:
            return f"{minutes // length} {unit}"
    return f"{minutes} minutes"


def _sized(size: int) -> str:
    power = min(max(0, (size.bit_length() - 1) // 10), len(_UNITS) - 1)
    return f"{size / 1024**power:,.1f} {_UNITS[power].upper()}" if power else f"{size} bytes"
