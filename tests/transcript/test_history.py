"""A history: a list of messages that cannot be changed and costs what is looked at."""

import copy
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import EntryId, Message, UserMessage
from openclaw_ctx.transcript import Entry, History
from tests.transcript.sessions import HEADER, as_bytes, chain, opened, say, texts

BOUNDS = st.none() | st.integers(-9, 9)
SLICES = st.builds(slice, BOUNDS, BOUNDS, st.none() | st.integers(-3, 3).filter(bool))


class Shelf:
    """Messages that note when they are read."""

    def __init__(self, count: int) -> None:
        self.entries = [Entry(type="message", id=EntryId(str(number))) for number in range(count)]
        self.read: list[str] = []

    def message(self, entry: Entry) -> Message:
        """Read a message, and note that."""
        self.read.append(str(entry.id))
        entry.message = UserMessage(content=f"m{entry.id}", entry_id=entry.id)
        found: Message = entry.message
        return found

    def history(self) -> History:
        """Return all of them."""
        return History(self.entries, self.message, 0, len(self.entries))


@settings(deadline=None)
@given(st.integers(0, 7), st.lists(SLICES, max_size=3), st.integers(-9, 9))
def test_a_history_is_indexed_and_sliced_like_a_list(count: int, slices: list[slice], index: int) -> None:
    """Any bounds and steps, slices of slices, negative indices, either direction: what a list would give."""
    history: Sequence[Message] = Shelf(count).history()
    plain = [UserMessage(content=f"m{i}", entry_id=EntryId(str(i))) for i in range(count)]
    for piece in slices:
        history, plain = history[piece], plain[piece]

    assert isinstance(history, History)
    assert len(history) == len(plain)
    assert list(history) == plain
    assert list(reversed(history)) == plain[::-1]
    assert history.entry_ids == [message.entry_id for message in plain]
    assert bool(history) == bool(plain)
    if -len(plain) <= index < len(plain):
        assert history[index] == plain[index]
        assert plain[index] in history
        assert history.index(plain[index]) == plain.index(plain[index])
        assert history.count(plain[index]) == 1
    else:
        with pytest.raises(IndexError):
            _ = history[index]


@settings(deadline=None)
@given(st.integers(0, 7), st.integers(0, 7), SLICES)
def test_a_view_stays_what_it_was(before: int, after: int, piece: slice) -> None:
    """What is appended later is in neither a history nor a slice of it."""
    shelf = Shelf(before)
    history, part = shelf.history(), shelf.history()[piece]
    shelf.entries.extend(Shelf(after).entries)

    assert len(history) == before
    assert texts(history) == [f"m{i}" for i in range(before)]
    assert texts(part) == [f"m{i}" for i in range(before)][piece]
    assert texts(reversed(history)) == [f"m{i}" for i in reversed(range(before))]


def test_only_what_is_looked_at_is_read() -> None:
    """Length, slices and ids read nothing, and walking backwards reads what it passes."""
    shelf = Shelf(1000)
    history = shelf.history()
    tail = history[-10:][::2]
    _ = len(history), history.entry_ids, repr(history), bool(tail)
    assert shelf.read == []

    for message in reversed(history):
        if message.text == "m997":
            break
    _ = tail[0], history[-1], history[999]

    assert shelf.read == ["999", "998", "997", "990"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda history: history.__setitem__(0, None), id="an-item"),
        pytest.param(lambda history: history.__delitem__(0), id="deleting-one"),
        pytest.param(lambda history: history.append(None), id="appending"),
        pytest.param(lambda history: history.clear(), id="clearing"),
        pytest.param(lambda history: history.sort(), id="sorting"),
        pytest.param(lambda history: setattr(history, "messages", []), id="an-attribute"),
    ],
)
def test_a_history_cannot_be_changed(change: Any) -> None:
    """B24: an engine that tries to empty the host's list gets an error, and the list stays."""
    history = Shelf(3).history()

    with pytest.raises((TypeError, AttributeError)):
        change(history)

    assert texts(history) == ["m0", "m1", "m2"]


@settings(deadline=None)
@given(st.integers(0, 6), st.integers(-8, 8), st.integers(-8, 8))
def test_a_history_without_a_range_is_lazy(count: int, start: int, stop: int) -> None:
    """What is left is what a list would have left, and none of it has been read."""
    shelf = Shelf(count)
    history = shelf.history()[1:]
    plain = list(range(1, count))
    del plain[start:stop]

    left = history.without(start, stop)

    assert left.is_read_as(history)
    assert shelf.read == []
    assert texts(left) == [f"m{number}" for number in plain]


@pytest.mark.parametrize("index", ["0", None, 1.0], ids=["a-text", "none", "a-float"])
def test_an_index_is_a_number(index: Any) -> None:
    """As of a list."""
    with pytest.raises(TypeError):
        _ = Shelf(3).history()[index]


@pytest.mark.parametrize(
    "copied",
    [
        pytest.param(copy.copy, id="copy"),
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda history: pickle.loads(pickle.dumps(history)), id="pickle"),  # noqa: S301 -- ours
        pytest.param(list, id="list"),
    ],
)
def test_a_copy_of_a_history_is_its_messages(tmp_path: Path, copied: Any) -> None:
    """An engine may keep them, or send them to another process; the session can be closed then."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("1", "2", "3")]))
    with opened(path) as transcript:
        transcript.append(say("4"))
        kept = copied(transcript.history[1:])
        expected = list(transcript.history)[1:]

    assert list(kept) == expected
