"""How many turns an engine is shown: stable cuts, whole turns, and nothing read that is not kept."""

import contextlib
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.contract import (
    AssistantMessage,
    CompactionSummaryMessage,
    SystemMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.runtime import limit as rules
from openclaw_ctx.runtime.heartbeat import mark_heartbeat
from openclaw_ctx.runtime.limit import TurnLimit
from openclaw_ctx.transcript import Entry, History, Transcript

SYSTEM = SystemMessage(content="Be brief.", entry_id="s")
SUMMARY = CompactionSummaryMessage(summary="They met.", entry_id="c")


class Conversation:
    """A history that knows what has been read of it."""

    def __init__(self, *opening):
        self.entries = []
        self.said = {}
        self.read = set()
        self.turns = 0
        self._say(*opening)

    def _say(self, *messages):
        for message in messages:
            self.entries.append(Entry(type="message", id=message.entry_id))
            self.said[message.entry_id] = message
        return self

    def say(self, turns=1, answers=1):
        """Add turns of a question and answers."""
        for _ in range(turns):
            self.turns += 1
            name = f"u{self.turns}"
            self._say(UserMessage(content=name, entry_id=name))
            self._say(*(AssistantMessage(content="a", entry_id=f"{name}a{n}") for n in range(answers)))
        return self

    def add(self, *messages):
        """Add any messages."""
        return self._say(*messages)

    def fold(self, turns):
        """Begin anew behind a summary, with the last turns kept."""
        asked = [at for at, entry in enumerate(self.entries) if isinstance(self.said[entry.id], UserMessage)]
        kept, self.entries = self.entries[asked[-turns] :], []
        self._say(SUMMARY)
        self.entries += kept
        return self

    def _message(self, entry):
        self.read.add(entry.id)
        return self.said[entry.id]

    @property
    def history(self):
        """The context, as a transcript gives it."""
        return History(self.entries, self._message, 0, len(self.entries))


def asked(messages):
    """Return what the user said."""
    return [message.text for message in messages if isinstance(message, UserMessage)]


def names(first, last):
    """Return what the user says in turns of a conversation."""
    return [f"u{number}" for number in range(first, last + 1)]


def test_the_slack_is_the_reference_systems():
    """Half as many turns again."""
    assert rules.SLACK == 1.5


@pytest.mark.parametrize("turns", [None, 0, -3])
def test_no_limit_gives_the_same_history(turns):
    """Nothing is read for it."""
    talk = Conversation().say(30)
    history = talk.history

    assert TurnLimit(turns).cut(history) is history
    assert talk.read == set()


@given(turns=st.integers(1, 7), total=st.integers(0, 40), answers=st.integers(0, 2))
def test_whoever_watches_sees_the_reference_systems_cuts(turns, total, answers):
    """No cut up to one and a half times the limit; then the limit, and what the rest of a division adds."""
    talk, limit = Conversation(), TurnLimit(turns)
    most = math.ceil(1.5 * turns)

    for count in range(1, total + 1):
        shown = limit.cut(talk.say(1, answers).history)

        kept = count if count <= most else turns + (count - turns) % (most - turns + 1)
        assert asked(shown) == names(count - kept + 1, count)


@given(
    turns=st.integers(1, 7),
    steps=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=8),
    opening=st.sampled_from([(), (SYSTEM,), (SYSTEM, SUMMARY)]),
    watching=st.booleans(),
)
def test_a_cut_shows_the_end_behind_the_opening(turns, steps, opening, watching):
    """As many turns as asked for and at most half as many more; the opening once; the rest as it stands."""
    talk, limit = Conversation(*opening), TurnLimit(turns)

    for more, answers in steps:
        history = talk.say(more, answers).history
        shown = (limit if watching else TurnLimit(turns)).cut(history)

        kept = len(asked(shown))
        assert min(turns, talk.turns) <= kept <= math.ceil(1.5 * turns)
        assert tuple(shown[: len(opening)]) == opening
        rest = list(shown[len(opening) :])
        assert rest == list(history)[len(history) - len(rest) :]
        assert not rest or isinstance(rest[0], UserMessage)


@given(turns=st.integers(2, 12), answers=st.integers(0, 5))
def test_a_cut_that_nobody_remembers_is_nearly_as_stable(turns, answers):
    """Processes of one turn each cut anew at most twice as often as one that watches."""
    talk = Conversation().say(2 * turns, answers)
    slack = math.ceil(1.5 * turns) - turns + 1
    rounds = 20 * slack

    begins = [asked(TurnLimit(turns).cut(talk.say(1, answers).history))[0] for _ in range(rounds)]

    cuts = sum(one != other for one, other in itertools.pairwise(begins))
    assert cuts <= 2 * rounds / slack + 2


def test_only_what_is_kept_is_read():
    """And one turn more, where that is one too many; and what may open the history."""
    talk = Conversation().say(500)
    limit = TurnLimit(10)

    shown = limit.cut(talk.history)
    assert isinstance(shown, History)
    assert shown.is_read_as(talk.history)
    assert talk.read <= {"u1", *(entry.id for entry in talk.entries[-2 * 16 :])}

    talk.read.clear()
    limit.cut(talk.say(1).history)
    assert len(talk.read) <= 2 * 16 + 1


def test_a_transcripts_own_history_is_cut(tmp_path):
    """A slice of it, of the same reader, from the file as well."""
    path = tmp_path / "session.jsonl"
    with contextlib.closing(Transcript.open(path)) as transcript:
        for number in range(1, 8):
            transcript.append(UserMessage(content=f"u{number}"))
            transcript.append(AssistantMessage(content="a"))

    with contextlib.closing(Transcript.read(path)) as again:
        shown = TurnLimit(2).cut(again.history)
        assert isinstance(shown, History)
        assert shown.is_read_as(again.history)
        assert asked(shown) in (names(5, 7), names(6, 7))


@pytest.mark.parametrize("turns", [5, 1])
def test_instructions_stay_first_and_once(turns):
    """However few turns are kept."""
    talk = Conversation(SYSTEM).say(20)

    shown = TurnLimit(turns).cut(talk.history)

    assert isinstance(shown, History)
    assert shown.is_read_as(talk.history)
    assert talk.read <= {"s", "u1", *(entry.id for entry in talk.entries[-2 * 9 :])}
    assert shown[0] == SYSTEM
    assert [message.role for message in shown].count("system") == 1
    assert turns <= len(asked(shown)) <= math.ceil(1.5 * turns)


def test_no_cut_parts_a_call_from_its_result():
    """It falls where the user speaks."""
    calls = AssistantMessage(content=[ToolCallBlock(id="1", name="look")], entry_id="call")
    result = ToolResultMessage(tool_call_id="1", content=[TextBlock(text="42")], entry_id="result")
    talk = Conversation(SYSTEM)
    for _ in range(6):
        talk.say(1, 0).add(calls, result)

    shown = TurnLimit(1).cut(talk.history)

    assert [message.role for message in shown[:4]] == ["system", "user", "assistant", "toolResult"]


def test_a_cut_outlives_a_compaction_that_keeps_it():
    """The summary opens what is shown, and the turns are those shown before."""
    talk, limit = Conversation(), TurnLimit(4)
    for _ in range(7):
        limit.cut(talk.say().history)

    shown = limit.cut(talk.fold(5).say().history)

    assert shown[0] == SUMMARY
    assert asked(shown) == names(4, 8)


def test_a_compaction_that_folds_the_cut_begins_anew():
    """All that is left is shown."""
    talk, limit = Conversation(), TurnLimit(4)
    for _ in range(7):
        limit.cut(talk.say().history)
    history = talk.fold(2).history

    assert limit.cut(history) is history
    assert asked(limit.cut(talk.say(4).history)) == names(6, 11)
    assert asked(limit.cut(talk.say(1).history)) == names(9, 12)


def test_what_stands_before_the_first_turn_stays_while_nothing_is_cut():
    """A greeting that nobody asked for is no turn, and goes with the first one that does."""
    talk, limit = Conversation().add(AssistantMessage(content="hello", entry_id="g")), TurnLimit(2)

    for count in range(1, 4):
        history = talk.say().history
        assert limit.cut(history) is history
        assert asked(history) == names(1, count)
    assert limit.cut(talk.say().history)[0].text == "u3"


def test_heartbeats_are_no_turns_of_the_user():
    """A clock that ticks all night leaves what was said in the evening."""
    talk = Conversation().say(3)
    talk.add(*(mark_heartbeat(UserMessage(content="tick", entry_id=f"h{number}")) for number in range(50)))
    history = talk.history

    assert TurnLimit(2).cut(history) is history
    assert len(TurnLimit(2).cut(talk.say(1).history)) < len(history)


def test_a_history_without_a_user_is_shown_whole():
    """There is no turn in it to cut at."""
    for talk in (Conversation(), Conversation(SYSTEM, SUMMARY)):
        history = talk.history
        assert TurnLimit(1).cut(history) is history
