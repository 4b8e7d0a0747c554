"""What a transcript promises, whatever its lines are in."""

import contextlib
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import attrs
import pytest

from openclaw_ctx.contract import EntryId, Message, Replacement
from openclaw_ctx.errors import EntryNotFoundError, ReadOnlyTranscriptError, SessionClosedError
from openclaw_ctx.transcript import SessionStore, Transcript, rewrite

from .conversations import KEY, MESSAGES, answer, appended, line, opened, say, told

__all__ = ["TranscriptPromises"]

_WRITES: Mapping[str, Callable[[Transcript, EntryId], object]] = {
    "append": lambda transcript, _: transcript.append(say("more")),
    "append_compaction": lambda transcript, entry_id: transcript.append_compaction(
        summary="s", first_kept_entry_id=entry_id, tokens_before=1
    ),
    "append_custom": lambda transcript, _: transcript.append_custom("mark"),
    "append_label": lambda transcript, entry_id: transcript.append_label(entry_id, "l"),
    "append_session_info": lambda transcript, _: transcript.append_session_info(name="n"),
    "rewrite": lambda transcript, entry_id: rewrite(transcript, [Replacement(entry_id=entry_id, message=say("x"))]),
}


class TranscriptPromises:
    """What is written is read again: by the one who writes, by others, and later."""

    def reopen(self, store: SessionStore) -> SessionStore:
        """Return another store over the same data; the same one where nothing outlives it."""
        return store

    # -- messages ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("kind", MESSAGES)
    def test_a_message_is_read_again_exactly(self, store: SessionStore, kind: str) -> None:
        """What append returns is what is read later: every field, kept under an entry's id."""
        message = MESSAGES[kind]
        with opened(store) as transcript:
            kept = transcript.append(message)
            live = transcript.record()[0]

        with opened(self.reopen(store)) as transcript:
            again = list(transcript.record())

        assert kept.entry_id
        assert kept == attrs.evolve(message, entry_id=kept.entry_id)
        assert live == kept
        assert again == [kept]

    def test_messages_of_every_kind_stay_in_order(self, store: SessionStore) -> None:
        """A session reads in the order in which it was written, each entry under an id of its own."""
        with opened(store) as transcript:
            kept = [transcript.append(message) for message in MESSAGES.values()]

        with opened(self.reopen(store)) as transcript:
            again, entries = list(transcript.record()), [entry for entry, _ in transcript.entries()]

        assert again == kept
        assert len({entry.id for entry in entries}) == len(MESSAGES)
        assert [entry.id for entry in entries] == [message.entry_id for message in kept]

    def test_every_line_says_what_it_is_what_it_follows_and_since_when(self, store: SessionStore) -> None:
        """Type, id, parent and time, which is in UTC."""
        with opened(store) as transcript:
            first, second = appended(transcript, "one", "two")
            lines = [data for _, data in transcript.entries()]

        assert [(data["type"], data["id"], data["parentId"]) for data in lines] == [
            ("message", first, None),
            ("message", second, first),
        ]
        assert all(datetime.fromisoformat(data["timestamp"]).utcoffset() == timedelta(0) for data in lines)

    def test_the_model_sees_no_hidden_message(self, store: SessionStore) -> None:
        """What is excluded from the context is in the record alone."""
        with opened(store) as transcript:
            hidden = transcript.append(MESSAGES["unseen"])
            seen = transcript.append(MESSAGES["user"])

        with opened(self.reopen(store)) as transcript:
            assert list(transcript.record()) == [hidden, seen]
            assert list(transcript.history) == [seen]

    # -- the beginning ----------------------------------------------------------------------------

    def test_a_session_begins_empty(self, store: SessionStore) -> None:
        """Nothing was said, and nothing is the leaf."""
        with opened(store) as transcript:
            assert [*transcript.record(), *transcript.history, *transcript.entries()] == []
            assert (transcript.leaf_id, transcript.boundary_id, transcript.name) == (None, None, None)
            assert (transcript.labels, transcript.key) == ({}, KEY)

    def test_the_header_that_a_session_begins_with_is_kept(self, store: SessionStore) -> None:
        """Its id, its folder and its time are those that it had before anything was written."""
        with contextlib.closing(store.open(KEY, cwd="/home/ada")) as transcript:
            session_id, header = transcript.session_id, dict(transcript.header)
            appended(transcript, "one")

        with contextlib.closing(self.reopen(store).open(KEY, cwd="/elsewhere")) as transcript:
            assert dict(transcript.header) == header
            assert transcript.session_id == session_id == header["id"]
            assert (header["type"], header["version"], header["cwd"]) == ("session", 3, "/home/ada")

    # -- what is no message -----------------------------------------------------------------------

    def test_state_of_others_is_kept_and_seen_by_no_model(self, store: SessionStore) -> None:
        """A custom entry comes back with its data, and is no message."""
        data = {"a": [1, 2.5, None, "\u2028"]}
        with opened(store) as transcript:
            appended(transcript, "one")
            entry_id = transcript.append_custom("mark", data)
            assert transcript.leaf_id == entry_id

        with opened(self.reopen(store)) as transcript:
            found = [line for entry, line in transcript.entries() if entry.id == entry_id]
            assert [(line["type"], line["customType"], line["data"]) for line in found] == [("custom", "mark", data)]
            assert told(transcript.record()) == told(transcript.history) == ["one"]
            assert transcript.leaf_id == entry_id

    def test_an_entry_has_the_label_that_it_was_given_last(self, store: SessionStore) -> None:
        """Given, given anew, taken away; on a branch that was left too."""
        with opened(store) as transcript:
            one, two, three = appended(transcript, "one", "two", "three")
            transcript.append_label(one, "start")
            transcript.append_label(two, "middle")
            transcript.append_label(one, "beginning")
            transcript.branch(one)
            transcript.append_label(three, "elsewhere")
            transcript.append_label(two, None)
            live = transcript.labels

        with opened(self.reopen(store)) as transcript:
            assert transcript.labels == live == {one: "beginning", three: "elsewhere"}
            with pytest.raises(EntryNotFoundError):
                transcript.append_label(EntryId("nobody"), "x")

    def test_a_session_has_the_name_that_it_was_given_last(self, store: SessionStore) -> None:
        """Given, given anew, taken away."""
        with opened(store) as transcript:
            appended(transcript, "one")
            for name in ("first", "second"):
                transcript.append_session_info(name=name)
                assert transcript.name == name

        with opened(self.reopen(store)) as transcript:
            again = transcript.name
            transcript.append_session_info(name="")
            names = [again, transcript.name]

        with opened(self.reopen(store)) as transcript:
            assert [*names, transcript.name] == ["second", None, None]

    # -- compactions ------------------------------------------------------------------------------

    def test_a_compaction_stands_for_what_it_does_not_keep(self, store: SessionStore) -> None:
        """The context is its summary, what it keeps and what follows; the record is everything."""
        with opened(store) as transcript:
            _, _, three, _ = appended(transcript, "one", "two", "three", "four")
            boundary = transcript.append_compaction(
                summary="So far.", first_kept_entry_id=three, tokens_before=7, details={"n": [1]}
            )
            appended(transcript, "five")
            live = list(transcript.history)

        with opened(self.reopen(store)) as transcript:
            assert list(transcript.history) == live
            assert told(live) == ["So far.", "three", "four", "five"]
            assert told(transcript.record()) == ["one", "two", "three", "four", "five"]
            assert transcript.boundary_id == live[0].entry_id == boundary
            assert transcript.summarised_count == 2
            (data,) = (data for entry, data in transcript.entries() if entry.id == boundary)
            assert (data["tokensBefore"], data["details"]) == (7, {"n": [1]})

    def test_a_compaction_may_keep_nothing(self, store: SessionStore) -> None:
        """Then the context begins at its summary."""
        with opened(store) as transcript:
            appended(transcript, "one", "two")
            transcript.append_compaction(summary="All of it.", first_kept_entry_id=None, tokens_before=2)
            appended(transcript, "three")

        with opened(self.reopen(store)) as transcript:
            assert told(transcript.history) == ["All of it.", "three"]
            assert transcript.summarised_count == 2

    def test_a_long_session_that_was_compacted_shows_all_of_it_when_asked(self, store: SessionStore) -> None:
        """However much of it is read at first: context, record, name, labels and old entries are those of the whole."""
        lines = [line(f"e{n}", f"e{n - 1}" if n else None, f"text {n}") for n in range(200)]
        store.create(KEY, lines)
        with opened(store) as transcript:
            transcript.append_label(EntryId("e7"), "seven")
            transcript.append_session_info(name="long")
            transcript.append_compaction(summary="So far.", first_kept_entry_id=EntryId("e198"), tokens_before=1)
            transcript.append_compaction(summary="Later.", first_kept_entry_id=EntryId("e199"), tokens_before=1)
            appended(transcript, "last")

        store = self.reopen(store)

        with opened(store) as transcript:
            assert told(transcript.history) == ["Later.", "text 199", "last"]
        with opened(store) as transcript:
            assert told(transcript.record()) == [*(f"text {n}" for n in range(200)), "last"]
            assert told(transcript.history) == ["Later.", "text 199", "last"]
        with opened(store) as transcript:
            assert transcript.labels == {"e7": "seven"}
        with opened(store) as transcript:
            assert transcript.name == "long"
        with opened(store) as transcript:
            transcript.branch(EntryId("e3"))
            assert told(transcript.history) == ["text 0", "text 1", "text 2", "text 3"]
        with opened(store) as transcript:
            assert transcript.has_entry(EntryId("e5"))
            assert transcript.nearest_on_branch(EntryId("e5")) == "e5"

    # -- branches ---------------------------------------------------------------------------------

    def test_a_conversation_goes_on_from_any_entry(self, store: SessionStore) -> None:
        """What is left stays among the entries; the branch that was written last is the one that counts."""
        with opened(store) as transcript:
            one, two, three = appended(transcript, "one", "two", "three")
            transcript.branch(one)
            appended(transcript, "another way")
            assert told(transcript.history) == ["one", "another way"]

        with opened(self.reopen(store)) as transcript:
            assert told(transcript.record()) == ["one", "another way"]
            assert {two, three} <= {entry.id for entry, _ in transcript.entries()}
            transcript.branch(three)
            appended(transcript, "on")

        with opened(self.reopen(store)) as transcript:
            assert told(transcript.record()) == ["one", "two", "three", "on"]

    def test_a_conversation_may_begin_anew(self, store: SessionStore) -> None:
        """Behind no entry at all, in the same session."""
        with opened(store) as transcript:
            appended(transcript, "one")
            transcript.branch(None)
            assert transcript.leaf_id is None
            appended(transcript, "a new root")

        with opened(self.reopen(store)) as transcript:
            assert told(transcript.record()) == ["a new root"]

    def test_going_elsewhere_writes_nothing(self, store: SessionStore) -> None:
        """Until something is appended there, the leaf is the last entry; an unknown entry is refused."""
        with opened(store) as transcript:
            one, two = appended(transcript, "one", "two")
            transcript.branch(one)
            with pytest.raises(EntryNotFoundError):
                transcript.branch(EntryId("nobody"))
            assert transcript.leaf_id == one

        with opened(self.reopen(store)) as transcript:
            assert transcript.leaf_id == two

    def test_a_rewrite_is_a_branch_of_its_own(self, store: SessionStore) -> None:
        """What is replaced, and what follows it, is there anew under other ids; the old entries stay."""
        with opened(store) as transcript:
            old = appended(transcript, "one", "two", "three")
            transcript.append_compaction(summary="So far.", first_kept_entry_id=old[2], tokens_before=1)
            before = transcript.record()
            result = rewrite(transcript, [Replacement(entry_id=old[1], message=answer("changed"))])
            live, marks = list(transcript.record()), [transcript.newest_of(entry_id) for entry_id in old]

        with opened(self.reopen(store)) as transcript:
            assert result.changed
            assert list(transcript.record()) == live
            assert told(live) == [*told(before)[:1], "changed", "three"]
            assert marks == [message.entry_id for message in live]
            assert told(transcript.history) == ["So far.", "three"]
            assert set(old) <= {entry.id for entry, _ in transcript.entries()}
            assert not {old[1], old[2]} & {message.entry_id for message in live}

    # -- views and other readers ------------------------------------------------------------------

    def test_a_view_stays_as_it_was_handed_out(self, store: SessionStore) -> None:
        """Whatever is appended, branched or rewritten later, though nothing of it had been read."""
        with opened(store) as transcript:
            appended(transcript, "one", "two")

        with opened(store) as transcript:
            one, _ = transcript.record().entry_ids
            views = [transcript.record(), transcript.history, transcript.record()[1:]]
            appended(transcript, "three")
            transcript.branch(one)
            appended(transcript, "elsewhere")
            rewrite(transcript, [Replacement(entry_id=EntryId(one or ""), message=say("changed"))])

            assert [told(view) for view in views] == [["one", "two"], ["one", "two"], ["two"]]

    def test_a_reader_sees_what_is_there_when_it_looks(self, store: SessionStore) -> None:
        """A session that is being written opens for reading, and shows more of it after a refresh only."""
        with opened(store) as writer:
            appended(writer, "one")
            with contextlib.closing(self.reopen(store).read(KEY)) as reader:
                view = reader.history
                (_, two) = appended(writer, "two", "three")
                assert told(reader.history) == ["one"]

                reader.refresh()

                assert told(reader.history) == ["one", "two", "three"]
                assert reader.leaf_id == two
                assert told(view) == ["one"]
                assert reader.key == KEY
                reader.refresh()
                assert told(reader.history) == ["one", "two", "three"]

    @pytest.mark.parametrize("name", _WRITES)
    def test_a_reader_cannot_write(self, store: SessionStore, name: str) -> None:
        """It is told so, and nothing has changed."""
        with opened(store) as transcript:
            (one,) = appended(transcript, "one")

        with contextlib.closing(store.read(KEY)) as reader:
            with pytest.raises(ReadOnlyTranscriptError):
                _WRITES[name](reader, one)
            assert told(reader.record()) == ["one"]

        with contextlib.closing(self.reopen(store).read(KEY)) as reader:
            assert [entry.id for entry, _ in reader.entries()] == [one]

    def test_threads_that_append_at_once_make_one_chain(self, store: SessionStore) -> None:
        """Nobody's message is lost, and none is on a branch that was left."""

        def work(number: int) -> None:
            for step in range(20):
                transcript.append(say(f"{number}-{step}"))

        with opened(store) as transcript:
            threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        with opened(self.reopen(store)) as transcript:
            found = told(transcript.record())
        assert sorted(found) == sorted(f"{number}-{step}" for number in range(4) for step in range(20))
        assert [text for text in found if text.startswith("2-")] == [f"2-{step}" for step in range(20)]

    def test_a_view_is_read_in_any_thread(self, store: SessionStore) -> None:
        """While another one appends."""
        with opened(store) as transcript:
            appended(transcript, *(f"text {n}" for n in range(50)))

        read: list[Message] = []
        with opened(store) as transcript:
            view = transcript.record()
            reader = threading.Thread(target=lambda: read.extend(view))
            reader.start()
            appended(transcript, *(f"more {n}" for n in range(50)))
            reader.join()

        assert told(read) == [f"text {n}" for n in range(50)]

    def test_after_closing_nothing_is_written_or_read(self, store: SessionStore) -> None:
        """What was read stays; what was not is refused; closing twice does nothing."""
        with opened(store) as transcript:
            appended(transcript, "one", "two")
        transcript = store.open(KEY)
        view = transcript.record()
        first = view[0]

        transcript.close()
        transcript.close()

        assert view[0] is first
        with pytest.raises(SessionClosedError):
            _ = view[1]
        with pytest.raises(SessionClosedError):
            transcript.append(say("three"))
        with opened(self.reopen(store)) as transcript:
            assert told(transcript.record()) == ["one", "two"]

    # -- beside the session -----------------------------------------------------------------------

    def test_a_note_is_kept_beside_the_session(self, store: SessionStore) -> None:
        """Whole, the last one, also an empty one; it is no entry."""
        with opened(store) as transcript:
            assert transcript.note() is None
            transcript.set_note(b"first")
            transcript.set_note(b"\x00\xffsecond")
            appended(transcript, "one")

        with opened(self.reopen(store)) as transcript:
            assert transcript.note() == b"\x00\xffsecond"
            assert len(list(transcript.entries())) == 1
            transcript.set_note(b"")
            assert transcript.note() == b""
