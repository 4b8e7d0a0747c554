"""
How many turns of the user an engine is shown.

A cut that moved with every turn would spoil a provider's prompt cache with every
turn. So nothing is cut until there are half as many turns again as asked for;
then so many go that the number asked for is left.

The reference system counts all turns there ever were, which is reading them all.
Here a cut stays where it is until too many turns stand behind it: the same cuts,
for whoever has watched the conversation from its beginning. Who comes in later
cuts at a place that the conversation itself tells, so that one process a turn
cuts where the last one did, most of the time.
"""

import math
from collections.abc import Sequence
from typing import Final

from openclaw_ctx.contract import (
    BranchSummaryMessage,
    CompactionSummaryMessage,
    EntryId,
    SystemMessage,
    UserMessage,
)
from openclaw_ctx.transcript import History

from .heartbeat import is_heartbeat

__all__ = ["TurnLimit"]

SLACK: Final = 1.5
"""How many times the turns asked for there may be before any is cut; the reference system's."""

_LEADING: Final = (SystemMessage, CompactionSummaryMessage, BranchSummaryMessage)


class TurnLimit:
    """
    Shows an engine the last turns of one session, and cuts at the same place for as long as it can.

    Turns that no user asked for do not count.
    """

    def __init__(self, turns: int | None) -> None:
        """Take the number of turns; ``None`` and anything below 1 cut nothing."""
        self._turns = turns
        self._since: EntryId | None = None
        self._cuts = False

    def cut(self, history: History) -> History:
        """
        Return the end of *history*, behind the instructions and summaries that it opens with.

        Reads what it keeps, and the turn before it where there is one too many. The
        same history where nothing is cut, else a view of it, so that it is lazy in any case.
        """
        turns = self._turns
        if turns is None or turns < 1:
            return history
        most = _most(turns)
        starts = self._starts(history, most + 1)
        if not starts:
            return history
        watched = self._since is not None and history[starts[-1]].entry_id == self._since
        if len(starts) <= most:
            start = starts[-1]
            self._cuts = self._cuts and watched
        else:
            start = starts[turns - 1] if watched else _told_start(starts, turns)
            self._cuts = True
        self._since = history[start].entry_id
        return _behind_opening(history, start) if self._cuts else history

    def _starts(self, history: History, limit: int) -> list[int]:
        """Return where turns begin, the last one first: at most *limit*, and none before the last cut."""
        starts: list[int] = []
        for back, message in enumerate(reversed(history), 1):
            if isinstance(message, UserMessage) and not is_heartbeat(message):
                starts.append(len(history) - back)
                if len(starts) == limit or (message.entry_id is not None and message.entry_id == self._since):
                    break
        return starts


def _most(turns: int) -> int:
    return math.ceil(SLACK * turns)


def _told_start(starts: Sequence[int], turns: int) -> int:
    """
    Return where to cut, of the places that leave enough turns and not too many, with nothing known of earlier cuts.

    That is where the position differs in the highest bit from that of the turn
    before: there the messages from one to the other hold the roundest number.
    It stays the roundest for half of the slack and more, as marks on a ruler do.
    """
    best = max(range(turns - 1, len(starts) - 1), key=lambda place: (starts[place] ^ starts[place + 1]).bit_length())
    return starts[best]


def _behind_opening(history: History, start: int) -> History:
    opening = 0
    while isinstance(history[opening], _LEADING):
        opening += 1
    return history.without(opening, start) if opening else history[start:]
