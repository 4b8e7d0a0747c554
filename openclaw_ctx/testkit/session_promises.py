"""What a store promises of its sessions: whose they are, and what a list of them says."""

import contextlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pytest

from openclaw_ctx.contract import SessionKey
from openclaw_ctx.errors import SessionBusyError, SessionNotFoundError
from openclaw_ctx.transcript import SessionStore

from .conversations import KEY, KEYS, OTHER, appended, info_of, opened, texts, told
from .transcript_promises import TranscriptPromises

__all__ = ["SessionPromises"]

_NOBODY = SessionKey("nobody")
_MOST_TRIES = 10_000

_ABSENT: Mapping[str, Callable[[SessionStore], object]] = {
    "read": lambda store: store.read(_NOBODY),
    "find": lambda store: store.find(_NOBODY),
    "fork": lambda store: store.fork(_NOBODY, OTHER),
    "archive": lambda store: store.archive(_NOBODY, "deleted"),
    "restore": lambda store: store.restore("nobody.jsonl.deleted.2025-11-20T23-34-00.000Z"),
    "remove": lambda store: store.remove("nobody.jsonl.deleted.2025-11-20T23-34-00.000Z"),
}


class SessionPromises(TranscriptPromises):
    """Sessions by key: written by one, read by all, listed and found."""

    # -- keys and writers -------------------------------------------------------------------------

    def test_a_store_begins_empty(self, store: SessionStore) -> None:
        """No sessions, nothing put aside."""
        assert [*store.sessions(), *store.archives()] == []

    @pytest.mark.parametrize("what", KEYS)
    def test_any_text_is_a_key(self, store: SessionStore, what: str) -> None:
        """Written, read, listed, found, put aside and brought back under it."""
        key = KEYS[what]
        with opened(store, key) as transcript:
            appended(transcript, "one")
            assert transcript.key == key
        store = self.reopen(store)

        with contextlib.closing(store.read(key)) as reader:
            assert told(reader.record()) == ["one"]
        assert [info.key for info in store.sessions()] == [key]
        assert store.find(key) == key
        archive = store.archive(key, "reset")
        assert archive.key == key
        assert store.restore(archive.name).key == key
        assert texts(self.reopen(store), key) == ["one"]

    def test_no_two_keys_are_one_session(self, store: SessionStore) -> None:
        """However alike they look, and whatever a file system makes of them."""
        for key in KEYS.values():
            with opened(store, key) as transcript:
                appended(transcript, key)
        store = self.reopen(store)

        assert {info.key for info in store.sessions()} == set(KEYS.values())
        assert [texts(store, key) for key in KEYS.values()] == [[key] for key in KEYS.values()]

    def test_a_session_has_one_writer(self, store: SessionStore) -> None:
        """Another one is refused, in another store over the same data too, until the first has closed it."""
        other = self.reopen(store)
        with opened(store) as transcript:
            appended(transcript, "one")
            for one in (store, other):
                with pytest.raises(SessionBusyError):
                    one.open(KEY)
            with opened(other, OTHER) as unrelated:
                appended(unrelated, "two")
            appended(transcript, "three")

        with opened(other) as transcript:
            assert told(transcript.record()) == ["one", "three"]

    def test_what_is_being_written_is_not_put_aside(self, store: SessionStore) -> None:
        """Nor replaced by what was put aside before."""
        with opened(store) as transcript:
            appended(transcript, "old")
        archive = store.archive(KEY, "reset")
        with opened(store) as transcript:
            with pytest.raises(SessionBusyError):
                store.restore(archive.name)
            appended(transcript, "new")
            with pytest.raises(SessionBusyError):
                store.archive(KEY, "deleted")
            appended(transcript, "newer")

        assert texts(self.reopen(store), KEY) == ["new", "newer"]
        assert [one.name for one in store.archives()] == [archive.name]

    @pytest.mark.parametrize("what", _ABSENT)
    def test_what_is_not_there_is_not_found(self, store: SessionStore, what: str) -> None:
        """The error says so, and nothing is made of it."""
        with pytest.raises(SessionNotFoundError):
            _ABSENT[what](store)

        assert list(self.reopen(store).sessions()) == []

    def test_closing_a_store_closes_no_transcript(self, store: SessionStore) -> None:
        """And may be done twice."""
        with opened(store) as transcript:
            appended(transcript, "one")
            store.close()
            store.close()
            appended(transcript, "two")

        assert texts(self.reopen(store), KEY) == ["one", "two"]

    # -- lists ------------------------------------------------------------------------------------

    def test_a_list_says_what_a_session_is(self, store: SessionStore) -> None:
        """Its ids, name, counts, times and size, while it is open and after."""
        before = datetime.now(UTC)
        with opened(store) as transcript:
            ids = appended(transcript, "one", "two", "three")
            transcript.append_compaction(summary="So far.", first_kept_entry_id=ids[2], tokens_before=1)
            appended(transcript, "four")
            transcript.append_session_info(name="a title")
            session_id, path = transcript.session_id, transcript.path
            live = info_of(store)
        store = self.reopen(store)
        later = info_of(store)

        for info in (live, later):
            assert (info.session_id, info.path, info.name) == (session_id, path, "a title")
            assert (info.messages, info.compactions) == (4, 1)
            assert (info.parent, info.previous, info.context_tokens) == (None, None, None)
            assert info.size > 0
            assert info.started_at is not None
            assert info.updated_at is not None
            assert abs((info.started_at - before).total_seconds()) < 3600
            assert abs((info.updated_at - before).total_seconds()) < 3600
        assert live.size == later.size

    def test_a_session_in_which_nothing_was_said_is_not_listed(self, store: SessionStore) -> None:
        """Opening one is no reason to show it."""
        with opened(store):
            assert list(store.sessions()) == []

        assert list(self.reopen(store).sessions()) == []

    def test_counts_are_those_of_the_branch_that_was_written_last(self, store: SessionStore) -> None:
        """What was left is not counted, and going elsewhere counts once something is written there."""
        with opened(store) as transcript:
            one, two, *_ = appended(transcript, "one", "two", "three", "four")
            transcript.branch(two)
            appended(transcript, "another")
            transcript.branch(one)
        assert info_of(self.reopen(store)).messages == 3

        with opened(store) as transcript:
            transcript.branch(one)
        assert info_of(self.reopen(store)).messages == 3

        with opened(store) as transcript:
            transcript.branch(one)
            appended(transcript, "again")
        assert info_of(self.reopen(store)).messages == 2

    def test_a_name_that_was_taken_away_is_not_listed(self, store: SessionStore) -> None:
        """And the last one that was given is."""
        for name, shown in (("first", "first"), ("second", "second"), ("", None)):
            with opened(store) as transcript:
                transcript.append_session_info(name=name)
                assert info_of(store).name == shown
            assert info_of(self.reopen(store)).name == shown

    def test_the_session_that_was_written_last_is_the_first_one(self, store: SessionStore) -> None:
        """Reading or opening one changes nothing about that."""
        for key in (KEY, OTHER, SessionKey("third")):
            _write_until_first(store, key)
        _write_until_first(store, OTHER)
        store.read(KEY).close()
        with opened(store):
            pass

        assert [info.key for info in self.reopen(store).sessions()] == [OTHER, "third", KEY]

    def test_what_a_prompt_cost_is_listed(self, store: SessionStore) -> None:
        """The last of what was noted, while the session is open and when it is closed, written to or not."""
        with opened(store) as transcript:
            appended(transcript, "one")
            store.note_tokens(KEY, 100)
            store.note_tokens(KEY, 1000)
            assert info_of(store).context_tokens == 1000
        assert info_of(self.reopen(store)).context_tokens == 1000

        with opened(store):
            store.note_tokens(KEY, 7)
        assert info_of(self.reopen(store)).context_tokens == 7

    # -- finding ----------------------------------------------------------------------------------

    def test_a_session_is_found_by_what_a_person_has_of_it(self, store: SessionStore) -> None:
        """Its key, its id or four characters and more of it, its path's name."""
        store.create(KEY, [], header={"id": "0123-one"})
        store.create(OTHER, [], header={"id": "0129-two"})
        store = self.reopen(store)
        path = info_of(store).path

        for name in (KEY, "0123-one", "0123", path.name, path.stem):
            assert store.find(name) == KEY

    def test_a_name_that_means_several_sessions_says_which(self, store: SessionStore) -> None:
        """Or it means none, where it is too short to be one's."""
        for key in ("b", "a", "0123"):
            store.create(SessionKey(key), [], header={"id": f"012345-{key}"})
        store = self.reopen(store)

        with pytest.raises(SessionNotFoundError) as several:
            store.find("01234")
        with pytest.raises(SessionNotFoundError) as none:
            store.find("012")

        assert list(several.value.several) == ["0123", "a", "b"]
        assert list(none.value.several) == []
        assert store.find("0123") == "0123"  # a key means itself


def _write_until_first(store: SessionStore, key: SessionKey) -> None:
    """Write until the session is the first one: clocks are coarse."""
    with opened(store, key) as transcript:
        for _ in range(_MOST_TRIES):
            appended(transcript, "more")
            if store.sessions()[0].key == key:
                return
    pytest.fail(f"after {_MOST_TRIES} more messages {key!r} is not the session that was written last")
