"""What a store promises of sessions that come of others: made, forked, rotated, put aside and brought back."""

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from openclaw_ctx.contract import EntryId, Replacement, SessionKey
from openclaw_ctx.errors import (
    EntryNotFoundError,
    ReadOnlyTranscriptError,
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
)
from openclaw_ctx.transcript import ArchiveReason, SessionStore, Transcript, rewrite

from .conversations import KEY, OTHER, answer, appended, info_of, line, opened, say, say_in, texts, told
from .transcript_promises import TranscriptPromises

__all__ = ["SuccessionPromises"]

_REASONS: Sequence[ArchiveReason] = ("bak", "reset", "deleted")


class SuccessionPromises(TranscriptPromises):
    """Nothing of a session is lost on the way to another one."""

    # -- making and forking -----------------------------------------------------------------------

    def test_a_session_is_made_of_ready_lines(self, store: SessionStore) -> None:
        """Under the ids that they have, with the header that was given."""
        header = {"id": "s-1", "timestamp": "2025-11-20T23:33:50.805Z", "cwd": "/work", "parentSession": "before.jsonl"}
        made = store.create(
            KEY, [line("e1", None, "one"), line("e2", "e1", "two"), line("e3", "e1", "three")], header=header
        )
        store = self.reopen(store)

        assert (made.key, made.session_id, made.messages, made.previous) == (KEY, "s-1", 2, "before.jsonl")
        assert made.started_at == datetime(2025, 11, 20, 23, 33, 50, 805_000, tzinfo=UTC)
        with opened(store) as transcript:
            assert transcript.record().entry_ids == ["e1", "e3"]
            assert {name: transcript.header[name] for name in header} == header
            appended(transcript, "four")
        assert texts(self.reopen(store), KEY) == ["one", "three", "four"]

    def test_a_key_is_made_once(self, store: SessionStore) -> None:
        """What is there stays as it is."""
        store.create(KEY, [line("e1", None, "one")])
        store.create(OTHER, [])

        with pytest.raises(SessionExistsError):
            store.create(KEY, [line("e2", None, "two")])
        with pytest.raises(SessionExistsError):
            store.fork(OTHER, KEY)

        assert texts(self.reopen(store), KEY) == ["one"]

    def test_a_session_is_made_of_what_another_one_holds(self, store: SessionStore) -> None:
        """Its entries are ready lines, whatever was done to it; its header is not taken for more than it may say."""
        with opened(store) as transcript:
            ids = appended(transcript, "one", "two", "three", "four")
            rewrite(transcript, [Replacement(entry_id=ids[0], message=say("changed"))])
            lines, header = [data for _, data in transcript.entries()], transcript.header

        made = store.create(OTHER, lines[:-1], header=header)

        assert made.messages == 3
        assert texts(self.reopen(store), OTHER) == ["changed", "two", "three"]
        assert store.find(OTHER) == OTHER

    def test_a_fork_is_the_branch_alone(self, store: SessionStore) -> None:
        """With the ids that its entries had, their labels and the name; each goes its own way."""
        with opened(store) as transcript:
            one, two, left = appended(transcript, "one", "two", "left")
            transcript.append_label(two, "here")
            transcript.append_label(left, "there")
            transcript.branch(two)
            transcript.append_session_info(name="a title")
            (three,) = appended(transcript, "three")
            session_id, path = transcript.session_id, transcript.path

            info = store.fork(KEY, OTHER)

            assert (info.key, info.parent, info.previous, info.messages) == (OTHER, KEY, path.name, 3)
            assert info.name == "a title"
            appended(transcript, "four")

        with opened(self.reopen(store), OTHER) as fork:
            assert fork.record().entry_ids == [one, two, three]
            assert fork.labels == {two: "here"}
            assert fork.name == "a title"
            assert left not in {entry.id for entry, _ in fork.entries()}
            assert fork.session_id == info.session_id != session_id
            appended(fork, "five")
        assert texts(self.reopen(store), KEY) == ["one", "two", "three", "four"]
        assert texts(self.reopen(store), OTHER) == ["one", "two", "three", "five"]

    def test_a_fork_ends_at_the_entry_that_is_named(self, store: SessionStore) -> None:
        """On whatever branch that is; nothing else comes along."""
        with opened(store) as transcript:
            one, two = appended(transcript, "one", "two")
            transcript.branch(one)
            appended(transcript, "three")

        store.fork(KEY, OTHER, at=one)

        assert texts(self.reopen(store), OTHER) == ["one"]
        store.fork(KEY, SessionKey("aside"), at=two)
        assert texts(store, SessionKey("aside")) == ["one", "two"]
        with pytest.raises(EntryNotFoundError):
            store.fork(KEY, SessionKey("third"), at=EntryId("nobody"))
        assert {info.key for info in self.reopen(store).sessions()} == {KEY, OTHER, "aside"}

    # -- rotating ---------------------------------------------------------------------------------

    def test_without_a_compaction_nothing_is_rotated(self, store: SessionStore) -> None:
        """A reason says so."""
        with opened(store) as transcript:
            appended(transcript, "one")
            session_id, path = transcript.session_id, transcript.path

            rotation = store.rotate(transcript)

            assert not rotation.rotated
            assert rotation.reason
            assert (transcript.session_id, transcript.path) == (session_id, path)

    def test_a_rotation_leaves_what_was_summarised(self, store: SessionStore) -> None:
        """The session goes on under its key in another transcript, with ids, name, labels and note that it had."""
        with opened(store) as transcript:
            ids = appended(transcript, "one", "two", "three", "four")
            transcript.append_label(ids[3], "here")
            transcript.append_session_info(name="a title")
            boundary = transcript.append_compaction(summary="So far.", first_kept_entry_id=ids[2], tokens_before=1)
            transcript.set_note(b"told")
            (five,) = appended(transcript, "five")
            old_id, old_path = transcript.session_id, transcript.path

            rotation = store.rotate(transcript)

            assert rotation.rotated
            assert (rotation.session_id, rotation.path) == (transcript.session_id, transcript.path)
            assert rotation.session_id != old_id
            assert rotation.path != old_path
            assert rotation.compaction_entry_id == transcript.boundary_id == boundary
            assert rotation.leaf_id == transcript.leaf_id == five
            assert rotation.entries_written == len(list(transcript.entries()))
            assert rotation.entries_left > 0
            appended(transcript, "six")
            live = info_of(store)
        store = self.reopen(store)

        with opened(store) as transcript:
            assert (transcript.session_id, transcript.key) == (rotation.session_id, KEY)
            assert told(transcript.history)[0] == "So far."
            assert told(transcript.history)[-4:] == ["three", "four", "five", "six"]
            assert ids[0] not in transcript.record().entry_ids
            assert transcript.labels == {ids[3]: "here"}
            assert transcript.name == "a title"
            assert transcript.note() == b"told"
            assert transcript.header["parentSession"] == old_path.name
            messages = len(transcript.record())
        for info in (live, info_of(store)):
            assert (info.session_id, info.name, info.previous) == (rotation.session_id, "a title", old_path.name)
            assert (info.messages, info.compactions) == (messages, 1)

    def test_a_rotated_session_has_one_writer_still(self, store: SessionStore) -> None:
        """It is the one that rotated it."""
        with opened(store) as transcript:
            _rotate(store, transcript)
            for one in (store, self.reopen(store)):
                with pytest.raises(SessionBusyError):
                    one.open(KEY)
                with pytest.raises(SessionBusyError):
                    one.archive(KEY, "reset")
            appended(transcript, "more")

        assert texts(self.reopen(store), KEY)[-1] == "more"

    def test_views_from_before_a_rotation_are_read_after_it(self, store: SessionStore) -> None:
        """The writer's and a reader's, though nothing of them had been read."""
        with opened(store) as transcript:
            ids = appended(transcript, "one", "two", "three")
            transcript.append_compaction(summary="So far.", first_kept_entry_id=ids[2], tokens_before=1)

        with contextlib.closing(store.read(KEY)) as reader, opened(store) as transcript:
            views = [transcript.record(), reader.record()]
            assert store.rotate(transcript).rotated
            appended(transcript, "four")

            assert [told(view) for view in views] == [["one", "two", "three"]] * 2
            assert told(transcript.history)[-2:] == ["three", "four"]

    def test_marks_lead_over_a_rotation(self, store: SessionStore) -> None:
        """Of what was said twice one entry stays, and stands for the other."""
        with opened(store) as transcript:
            one = transcript.append(answer("one"))
            transcript.append_compaction(summary="So far.", first_kept_entry_id=one.entry_id, tokens_before=1)
            said, again = appended(transcript, "yes")[0], appended(transcript, "yes")[0]

            assert store.rotate(transcript).rotated

            assert transcript.record().entry_ids[-1] == said
            assert transcript.newest_of(again) == said
            assert transcript.newest_of(said) == said

    def test_a_session_is_rotated_again_and_again(self, store: SessionStore) -> None:
        """The last transcript is the one that counts."""
        for number in range(3):
            with opened(store) as transcript:
                _rotate(store, transcript)
                appended(transcript, f"after {number}")
            store = self.reopen(store)

        assert texts(store, KEY)[-1] == "after 2"
        assert len(store.sessions()) == 1

    def test_a_reader_rotates_nothing(self, store: SessionStore) -> None:
        """Who does not hold the right to write cannot lead the writer's session elsewhere."""
        with opened(store) as transcript:
            (one,) = appended(transcript, "one")
            transcript.append_compaction(summary="So far.", first_kept_entry_id=one, tokens_before=1)
            with contextlib.closing(store.read(KEY)) as reader, pytest.raises(ReadOnlyTranscriptError):
                store.rotate(reader)
            appended(transcript, "two")

        assert texts(self.reopen(store), KEY) == ["one", "two"]

    # -- putting aside ----------------------------------------------------------------------------

    @pytest.mark.parametrize("reason", _REASONS)
    def test_what_is_put_aside_is_brought_back(self, store: SessionStore, reason: ArchiveReason) -> None:
        """With everything that it was; the key is free in between."""
        with opened(store) as transcript:
            (one,) = appended(transcript, "one")
            transcript.append_session_info(name="a title")
            transcript.append_label(one, "here")
            session_id = transcript.session_id
        before = info_of(store)

        archive = store.archive(KEY, reason)

        store = self.reopen(store)
        assert list(store.archives()) == [archive]
        assert (archive.key, archive.session_id, archive.reason, archive.size) == (KEY, session_id, reason, before.size)
        assert archive.at.tzinfo is not None
        assert list(store.sessions()) == []
        with pytest.raises(SessionNotFoundError):
            store.find(KEY)
        restored = store.restore(archive.name)
        store = self.reopen(store)
        assert list(store.archives()) == []
        assert (restored.key, restored.session_id, restored.messages, restored.name) == (KEY, session_id, 1, "a title")
        assert info_of(store).session_id == session_id
        with opened(store) as transcript:
            assert transcript.labels == {one: "here"}
            appended(transcript, "two")
        assert texts(store, KEY) == ["one", "two"]

    def test_a_key_that_is_taken_keeps_its_session(self, store: SessionStore) -> None:
        """An archive comes back under another key then."""
        say_in(store, KEY, "old")
        archive = store.archive(KEY, "reset")
        say_in(store, KEY, "new")

        with pytest.raises(SessionExistsError):
            store.restore(archive.name)
        assert [one.name for one in store.archives()] == [archive.name]
        restored = store.restore(archive.name, key=OTHER)

        store = self.reopen(store)
        assert (restored.key, restored.session_id) == (OTHER, archive.session_id)
        assert (texts(store, KEY), texts(store, OTHER)) == (["new"], ["old"])
        assert store.archive(OTHER, "deleted").key == OTHER

    def test_archives_of_one_key_are_told_apart(self, store: SessionStore) -> None:
        """Each has a name of its own, the oldest comes first, and any of them comes back."""
        archives = []
        for text in ("one", "two", "three"):
            say_in(store, KEY, text)
            archives.append(store.archive(KEY, "reset"))

        store = self.reopen(store)
        assert [archive.name for archive in store.archives()] == [archive.name for archive in archives]
        store.restore(archives[1].name)
        assert texts(self.reopen(store), KEY) == ["two"]

    def test_what_is_removed_is_gone(self, store: SessionStore) -> None:
        """It alone."""
        say_in(store, KEY, "one")
        first = store.archive(KEY, "deleted")
        say_in(store, KEY, "two")
        second = store.archive(KEY, "deleted")

        store.remove(first.name)

        store = self.reopen(store)
        assert [archive.name for archive in store.archives()] == [second.name]
        with pytest.raises(SessionNotFoundError):
            store.restore(first.name)

    def test_a_rotated_session_is_put_aside_with_what_it_followed(self, store: SessionStore) -> None:
        """Nothing of it comes back by itself; what is brought back is what counted."""
        with opened(store) as transcript:
            _rotate(store, transcript)
            appended(transcript, "more")
        before = texts(store, KEY)

        archive = store.archive(KEY, "reset")

        store = self.reopen(store)
        assert list(store.sessions()) == []
        assert archive in store.archives()
        store.restore(archive.name)
        assert texts(self.reopen(store), KEY) == before

    def test_a_session_that_is_put_aside_under_its_reader_is_gone_for_it(self, store: SessionStore) -> None:
        """What it has is read on; at the next refresh it hears of it."""
        say_in(store, KEY, "one")
        with contextlib.closing(store.read(KEY)) as reader:
            store.archive(KEY, "reset")

            with pytest.raises(FileNotFoundError):
                reader.refresh()
            assert told(reader.record()) == ["one"]


def _rotate(store: SessionStore, transcript: Transcript) -> None:
    """Say something, compact it and rotate."""
    ids = appended(transcript, "one", "two", "three", "four")
    transcript.append_compaction(summary="So far.", first_kept_entry_id=ids[2], tokens_before=1)
    assert store.rotate(transcript).rotated
