"""What a transcript may hold that goes on from another, whatever of it its maker chose to take along."""

from collections import Counter
from collections.abc import Sequence

from .model import Said, Sheet

__all__ = ["goes_on"]


def goes_on(old: Sheet, new: Sheet, *, rotated: bool, end: int | None = None) -> list[str]:
    """
    Return what is wrong with a transcript that goes on from another; which lines it has is left to who made it.

    Args:
        old: What it goes on from, at the leaf of that moment.
        new: What it holds.
        rotated: Without what the last compaction stands for; else it is a fork, with all of the branch.
        end: Where a fork's branch ends.
    """
    source = Sheet(old.lines, old.leaf if end is None else end)
    known = {(line.type, line.token, line.chars) for line in old.lines}
    wrong = [
        f"{line.token!r} is not from there" for line in new.lines if (line.type, line.token, line.chars) not in known
    ]
    had, has = _tokens(source.context()), _tokens(new.context())
    if not rotated:
        wrong += [] if _tokens(source.record()) == _tokens(new.record()) else ["the branch is another"]
        wrong += [] if had == has else ["the context is another"]
        return wrong
    # The reply before what is kept may come along.
    more = has[1 : len(has) - len(had) + 1]
    behind = had[:1] + more + had[1:]
    before = _tokens(source.record())
    wrong += [] if has == behind and set(more) <= set(before) and len(more) <= 4 else ["the context is another"]
    wrong += [f"{token!r} is there twice" for token, times in Counter(_tokens(new.record())).items() if times > 1]
    return wrong


def _tokens(lines: Sequence[Said]) -> list[str]:
    return [line.token for line in lines]
