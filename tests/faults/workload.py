"""What is done to a store before it is cut off: drawn from a seed, the same at every time."""

import random
from collections.abc import Callable
from typing import Final

import attrs

from .model import ANSWERS, Said, Step, World

__all__ = ["CLOSED", "KINDS", "Operation", "draw", "draw_on", "plan"]

# How often each is drawn, among a hundred or so.
_WEIGHTS: Final = {
    "append": 30,
    "label": 5,
    "state": 4,
    "note": 4,
    "compaction": 9,
    "rewrite": 10,
    "branch": 6,
    "rotate": 8,
    "fork": 5,
    "create": 3,
    "archive": 6,
    "restore": 6,
    "remove": 3,
    "tokens": 3,
    "open": 6,
    "close": 4,
}
KINDS: Final = tuple(_WEIGHTS)
_REOPEN: Final = "reopen"  # what was open last: no kind of its own, but a sure way to it
_WRITING: Final = ("append", "label", "state", "compaction", "rewrite")

_FEWEST, _MOST = 3, 16
_NEXT: Final = 4
_BEHIND: Final = 2  # operations behind the one that is aimed at
_LONGEST: Final = 300_000
_MOST_REPLACED: Final = 30
_ROLES: Final = ("user", "assistant", "toolResult", "custom")
_KEYS: Final = ("agent:main:main", "agent:main:telegram:group:1/2:ü", "CON", "cron:" + "x" * 120)


@attrs.frozen
class Operation:
    """What is wished for; what can be done of it depends on what is there, see :func:`plan`."""

    kind: str
    seed: int


def draw(seed: int, kind: str) -> tuple[list[Operation], int]:
    """
    Return operations, and which of them is of the *kind* that is wanted.

    What a rotation or a fork leaves out is not known yet, so that one may turn
    out to be of another kind when its time comes.
    """
    chosen = random.Random(seed)  # noqa: S311 -- to be drawn again
    while True:
        operations: list[Operation] = []
        places: list[int] = []
        world = World()
        for number in range(chosen.randint(_FEWEST, _MOST)):
            wish = chosen.choices(KINDS, list(_WEIGHTS.values()))[0]
            operation = Operation(wish, chosen.getrandbits(32))
            step = plan(world, operation, number)
            if step.kind == kind:
                places.append(number)
            operations.append(operation)
            world.take(step)
        if places:
            place = chosen.choice(places)
            more = [Operation(chosen.choice(KINDS), chosen.getrandbits(32)) for _ in range(_BEHIND)]
            return [*operations[: place + 1], *more, Operation("close", 0)], place


def draw_on(seed: int, *, is_torn: bool) -> tuple[list[Operation], int]:
    """
    Return what the next process does, and at which of it something is to happen.

    Args:
        seed: Decides.
        is_torn: Whether the last one was cut off in a write: then it goes on there, and mends what was left.
    """
    chosen = random.Random(seed)  # noqa: S311 -- to be drawn again
    wishes = ["open", *chosen.choices(KINDS, list(_WEIGHTS.values()), k=_NEXT), "close"]
    place = chosen.randrange(len(wishes))
    if is_torn:
        wishes[:2] = [_REOPEN, chosen.choice(_WRITING)]
        place = 1
    return [Operation(wish, chosen.getrandbits(32)) for wish in wishes], place


def plan(world: World, operation: Operation, number: int) -> Step:
    """Return what is done where *operation* is the next; an append where it cannot be."""
    chosen = random.Random(operation.seed)  # noqa: S311 -- to be drawn again
    token = f"t{number}"
    if world.opened is None and operation.kind not in CLOSED:
        return _open(world, chosen, token)
    step = _PLANS[operation.kind](world, chosen, token)
    if step is None:
        return _open(world, chosen, token) if world.opened is None else _append(world, chosen, token)
    return step


def _open(world: World, chosen: random.Random, token: str) -> Step:
    """Open what there is, the same one often, or begin another."""
    last = world.opened or world.last
    keys = [*world.live, *([last] * 4 if last in world.live else [])]
    free = [key for key in _KEYS if key not in world.live]
    if not keys or (free and chosen.random() < 0.2):
        return Step(kind="open", key=chosen.choice(free) if free else f"agent:{token}")
    return Step(kind="open", key=chosen.choice(keys))


def _reopen(world: World, chosen: random.Random, token: str) -> Step:
    key = world.opened or world.last
    return Step(kind="open", key=key) if key in world.live else _open(world, chosen, token)


def _close(world: World, chosen: random.Random, token: str) -> Step | None:
    return None if world.opened is None else Step(kind="close", key=world.opened)


def _append(world: World, chosen: random.Random, token: str) -> Step:
    role = chosen.choice(_ROLES)
    asked = [line.token for line in world.sheet.record() if line.role == "assistant"]
    if role == "toolResult" and not asked:
        role = "assistant"
    name = f"{token}{ANSWERS}{asked[-1]}" if role == "toolResult" else token
    kind = "custom_message" if role == "custom" else "message"
    line = Said(kind, name, "" if role == "custom" else role, _chars(chosen))
    return Step(kind="append", key=_opened(world), line=line)


def _label(world: World, chosen: random.Random, token: str) -> Step | None:
    places = [at for at, line in enumerate(world.sheet.lines) if line.is_message]
    if not places:
        return None
    return Step(kind="label", key=_opened(world), line=Said("label", token, names=chosen.choice(places)))


def _state(world: World, chosen: random.Random, token: str) -> Step:
    return Step(kind="state", key=_opened(world), line=Said(chosen.choice(("custom", "session_info")), token))


def _note(world: World, chosen: random.Random, token: str) -> Step | None:
    return Step(kind="note", key=_opened(world), word=token) if world.sheet.lines else None


def _compaction(world: World, chosen: random.Random, token: str) -> Step | None:
    places = [at for at in world.sheet.path() if world.sheet.lines[at].type == "message"]
    if not places:
        return None
    names = chosen.choice([None, *places[-8:]])
    return Step(kind="compaction", key=_opened(world), line=Said("compaction", token, chars=1000, names=names))


def _rewrite(world: World, chosen: random.Random, token: str) -> Step | None:
    sheet = world.sheet
    places = [at for at in sheet.path() if sheet.lines[at].type == "message"][-_MOST_REPLACED:]
    if not places:
        return None
    picked = chosen.sample(places, chosen.randint(1, len(places)))
    replaced = {}
    for number, at in enumerate(picked):
        old = sheet.lines[at]
        answered = old.token.partition(ANSWERS)[1:]
        replaced[at] = attrs.evolve(old, token="".join((f"{token}.{number}", *answered)), chars=_chars(chosen))
    return Step(kind="rewrite", key=_opened(world), replaced=replaced)


def _branch(world: World, chosen: random.Random, token: str) -> Step | None:
    if not world.sheet.lines:
        return None
    return Step(kind="branch", key=_opened(world), at=chosen.choice([None, *range(len(world.sheet.lines))]))


def _rotate(world: World, chosen: random.Random, token: str) -> Step | None:
    return Step(kind="rotate", key=_opened(world)) if world.sheet.compactions() else None


def _fork(world: World, chosen: random.Random, token: str) -> Step | None:
    keys = [key for key, sheet in world.live.items() if sheet.lines]
    if not keys:
        return None
    key = chosen.choice(keys)
    sheet = world.live[key]
    last = len(sheet.lines) - 1
    at = chosen.choice([last, *type(sheet)(sheet.lines, last).path()])
    return Step(kind="fork", key=key, new_key=f"fork:{token}", at=at, word="" if at == last else "at")


def _create(world: World, chosen: random.Random, token: str) -> Step:
    lines = [Said("message", f"{token}.{number}", "user", _chars(chosen)) for number in range(chosen.randint(1, 5))]
    return Step(kind="create", key=f"made:{token}", new_key=f"made:{token}", lines=lines)


def _archive(world: World, chosen: random.Random, token: str) -> Step | None:
    keys = [key for key, sheet in world.live.items() if sheet.lines]
    if not keys:
        return None
    return Step(kind="archive", key=chosen.choice(keys), word=chosen.choice(("bak", "reset", "deleted")))


def _restore(world: World, chosen: random.Random, token: str) -> Step | None:
    if not world.archived:
        return None
    place = chosen.randrange(len(world.archived))
    key = world.archived[place].key
    new_key = f"restored:{token}" if key in world.live or chosen.random() < 0.3 else key
    return Step(kind="restore", key=key, new_key=new_key, archive=place)


def _remove(world: World, chosen: random.Random, token: str) -> Step | None:
    if not world.archived:
        return None
    place = chosen.randrange(len(world.archived))
    return Step(kind="remove", key=world.archived[place].key, archive=place)


def _tokens(world: World, chosen: random.Random, token: str) -> Step:
    return Step(kind="tokens", key=_opened(world), number=chosen.randrange(1, 200_000))


def _chars(chosen: random.Random) -> int:
    """Return a length from 1 to 300,000, of whatever magnitude."""
    return int(_LONGEST ** chosen.random())


def _opened(world: World) -> str:
    assert world.opened is not None
    return world.opened


# What needs no session that is open.
CLOSED: Final = frozenset({"archive", "create", "fork", "open", "remove", _REOPEN, "restore"})
_PLANS: Final[dict[str, Callable[[World, random.Random, str], Step | None]]] = {
    "append": _append,
    "label": _label,
    "state": _state,
    "note": _note,
    "compaction": _compaction,
    "rewrite": _rewrite,
    "branch": _branch,
    "rotate": _rotate,
    "fork": _fork,
    "create": _create,
    "archive": _archive,
    "restore": _restore,
    "remove": _remove,
    "tokens": _tokens,
    "open": _open,
    _REOPEN: _reopen,
    "close": _close,
}
