"""The runtime's speed: the host's own time in a turn, the loop during a compaction, many sessions at once."""

from collections.abc import AsyncIterator

import attrs

from .loop_gaps import compaction_gaps
from .many_sessions import many_at_once
from .measure import Options, Row, file_system, in_memory
from .own_time import own_time

__all__ = ["rows"]


@attrs.frozen(kw_only=True)
class _Sizes:
    short: int = 1_000
    middle: int = 10_000
    long: int = 100_000
    rounds: int = 15
    turns: int = 5
    gap_rounds: int = 7
    sessions: int = 20
    session_turns: int = 60
    session_rounds: int = 5

    @classmethod
    def of(cls, options: Options) -> "_Sizes":
        if not options.quick:
            return cls()
        few = {"rounds": 1, "turns": 1, "gap_rounds": 1, "sessions": 2, "session_turns": 1, "session_rounds": 1}
        return cls(short=40, middle=400, long=800, **few)


async def rows(options: Options) -> AsyncIterator[Row]:
    """Yield the rows, in the order of the page that sets their targets."""
    if in_memory(options.folder) and not options.quick:
        note = f"refused: {options.folder} is on {file_system(options.folder)}, which is no disk; choose with --dir"
        yield Row(work="all of it", ours_ms=None, peer="any", peer_ms=None, target=1, note=note)
        return
    sizes = _Sizes.of(options)
    for works in (
        own_time(
            options.folder,
            short=sizes.short,
            middle=sizes.middle,
            long=sizes.long,
            rounds=sizes.rounds,
            turns=sizes.turns,
        ),
        compaction_gaps(options.folder, messages=sizes.middle, rounds=sizes.gap_rounds),
        many_at_once(
            options.folder / "many",
            sessions=sizes.sessions,
            messages=sizes.short,
            rounds=sizes.session_rounds,
            turns=sizes.session_turns,
        ),
    ):
        async for row in works:
            yield attrs.evolve(row, judged=not options.quick)
