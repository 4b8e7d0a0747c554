"""Which transcript is whose, when the index knows less than the transcripts."""

import errno
import os
from contextlib import closing
from pathlib import Path

import pytest

from openclaw_ctx.contract import SessionKey
from openclaw_ctx.errors import SessionBusyError, SessionNotFoundError
from openclaw_ctx.transcript import FileStore, Transcript
from openclaw_ctx.transcript.stores import file_store
from openclaw_ctx.transcript.stores.retention import Step
from openclaw_ctx.transcript.stores.upkeep import carry_out
from tests.transcript.sessions import HEADER, as_bytes, chain, say, texts

KEY = SessionKey("k")


def _begun(store: FileStore, *said: str) -> Transcript:
    transcript = store.open(KEY)
    for text in said:
        transcript.append(say(text))
    return transcript


def _rotated(store: FileStore, *said: str) -> Transcript:
    transcript = _begun(store, *said)
    transcript.append_compaction(summary="so far", first_kept_entry_id=transcript.leaf_id, tokens_before=9)
    assert store.rotate(transcript).rotated
    return transcript


def _history(store: FileStore, key: SessionKey = KEY) -> list[str]:
    with closing(store.read(key)) as transcript:
        return texts(transcript.history)


def test_a_list_that_counts_while_a_session_rotates_leaves_it_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting takes time and no lock: what it found of the old transcript is no word about the new one."""
    writer, other = FileStore(tmp_path), FileStore(tmp_path)
    transcript = _begun(writer, "one", "two")
    real = file_store.count_file

    def count(path: Path):
        facts = real(path)
        if path == transcript.path:
            transcript.append_compaction(summary="so far", first_kept_entry_id=transcript.leaf_id, tokens_before=9)
            assert writer.rotate(transcript).rotated
            transcript.append(say("after"))
        return facts

    monkeypatch.setattr(file_store, "count_file", count)
    other.sessions()
    monkeypatch.undo()

    with pytest.raises(SessionBusyError):
        FileStore(tmp_path).open(KEY)
    assert _history(FileStore(tmp_path)) == ["so far", "two", "after"]
    transcript.close()


@pytest.mark.parametrize("then", ["open", "archive"])
def test_an_index_from_before_a_rotation_hides_nothing(tmp_path: Path, then: str) -> None:
    """It was restored from a backup, or written back by another program: the successor tells."""
    store = FileStore(tmp_path)
    _begun(store, "one", "two").close()
    old = (tmp_path / "sessions.json").read_bytes()
    transcript = _rotated(store)
    transcript.append(say("after"))
    transcript.close()
    (tmp_path / "sessions.json").write_bytes(old)

    if then == "archive":
        store = FileStore(tmp_path)
        store.restore(store.archive(KEY, "reset").name)

    assert _history(FileStore(tmp_path)) == ["so far", "two", "after"]
    assert [info.path.name for info in FileStore(tmp_path).sessions()] == [FileStore(tmp_path).glance()[0].path.name]


def test_a_transcript_that_grew_since_is_no_longer_followed(tmp_path: Path) -> None:
    """The successor was never adopted, and somebody went on in the old one: that is the session."""
    store = FileStore(tmp_path)
    _begun(store, "one", "two").close()
    old = (tmp_path / "sessions.json").read_bytes()
    first = store.glance()[0].path
    _rotated(store).close()
    (tmp_path / "sessions.json").write_bytes(old)
    with closing(Transcript.open(first)) as transcript:
        transcript.append(say("here"))

    assert _history(FileStore(tmp_path)) == ["so far", "two", "here"]


def test_a_file_of_another_program_goes_by_its_name(tmp_path: Path) -> None:
    """It knows no session key: what is listed can be read, opened, put aside and found."""
    store = FileStore(tmp_path)
    _begun(store, "one").close()
    (tmp_path / "foo.jsonl").write_bytes(as_bytes([HEADER, *chain("theirs")]))
    foo = SessionKey("foo")

    assert {info.key for info in store.glance()} == {KEY, foo}
    assert _history(store, foo) == ["theirs"]
    with closing(store.open(foo)) as transcript:
        transcript.append(say("ours"))
    assert _history(FileStore(tmp_path), foo) == ["theirs", "ours"]
    assert store.find("foo") == foo
    store.archive(foo, "reset")
    with pytest.raises(SessionNotFoundError):
        store.read(foo)


def test_one_odd_file_hides_no_other_session(tmp_path: Path) -> None:
    """A link where a transcript was: the others are listed, found and put aside."""
    store = FileStore(tmp_path)
    _begun(store, "one").close()
    other = SessionKey("other")
    with closing(store.open(other)) as transcript:
        transcript.append(say("two"))
    (tmp_path / "elsewhere").write_bytes(transcript.path.read_bytes() * 2)
    transcript.path.unlink()
    transcript.path.symlink_to(tmp_path / "elsewhere")

    assert KEY in {info.key for info in store.sessions()}
    assert store.find("k") == KEY
    assert store.archive(KEY, "reset").key == KEY


def test_what_was_said_since_a_plan_was_made_is_not_pruned(tmp_path: Path) -> None:
    """The size is looked at under the session's lock, and not before it."""
    store = FileStore(tmp_path)
    _begun(store, "one").close()
    (info,) = store.glance()
    with closing(FileStore(tmp_path).open(KEY)) as transcript:
        transcript.append(say("two"))

    for action in ("archive", "remove-session"):
        with pytest.raises(SessionBusyError):
            carry_out(store, Step(action=action, name=KEY, size=info.size, why="old"))

    assert _history(store) == ["one", "two"]


def test_an_archive_is_made_though_the_index_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transcripts say it too."""
    store = FileStore(tmp_path)
    _begun(store, "one").close()

    def refuse(*_arguments, **_options):
        raise SessionBusyError("sessions.json", "somebody", 0.0)

    monkeypatch.setattr("openclaw_ctx.transcript.stores.index.SessionIndex.update", refuse)
    archive = store.archive(KEY, "reset")
    monkeypatch.undo()

    assert [one.name for one in store.archives()] == [archive.name]
    assert store.sessions() == []


def test_a_successor_that_cannot_be_read_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a rotation raises, nothing has changed: not the index, not the folder, not the session."""
    store = FileStore(tmp_path)
    transcript = _begun(store, "one", "two")
    transcript.append_compaction(summary="so far", first_kept_entry_id=transcript.leaf_id, tokens_before=9)
    names = sorted(path.name for path in tmp_path.glob("*.jsonl"))

    def fail(*_arguments, **_options):
        raise OSError(errno.EIO, "Input/output error", "s.jsonl")

    with monkeypatch.context() as patch:
        patch.setattr("openclaw_ctx.transcript.file_record.load", fail)
        with pytest.raises(OSError, match="Input/output"):
            store.rotate(transcript)

    transcript.append(say("after"))
    transcript.close()
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == names
    assert _history(FileStore(tmp_path)) == ["so far", "two", "after"]


def test_an_append_that_the_disk_does_not_confirm_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``durable``: it raises, nothing of it stays, and said again it is there once."""
    store = FileStore(tmp_path, durable=True)
    transcript = _begun(store, "one")

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr("openclaw_ctx.transcript.record_file._sync", fail)
        with pytest.raises(OSError, match="Input/output"):
            transcript.append(say("two"))
    transcript.append(say("two"))

    assert texts(transcript.record()) == ["one", "two"]
    transcript.close()
    with closing(FileStore(tmp_path).read(KEY)) as again:
        assert texts(again.record()) == ["one", "two"]
        assert len(list(again.entries())) == 2


def test_a_list_writes_the_index_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sessions it had to count."""
    store = FileStore(tmp_path)
    for number in range(5):
        with closing(store.open(SessionKey(f"s{number}"))) as transcript:
            transcript.append(say("one"))
    (tmp_path / "sessions.json").unlink()
    written: list[object] = []
    real = file_store.SessionIndex.update
    monkeypatch.setattr(
        file_store.SessionIndex, "update", lambda *args, **options: written.append(args) or real(*args, **options)
    )

    counts = [info.messages for info in FileStore(tmp_path).sessions()]

    assert counts == [1] * 5
    assert len(written) == 1


def test_nobody_goes_on_in_a_successor_before_it_is_there_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever finds it while it is being adopted is refused; and where that fails, nothing that was said is gone."""
    store = FileStore(tmp_path)
    transcript = _begun(store, "one", "two")
    transcript.append_compaction(summary="so far", first_kept_entry_id=transcript.leaf_id, tokens_before=9)
    refused = []
    real = file_store.SessionIndex.update

    def update(index, change, **options):
        for attempt in (lambda: FileStore(tmp_path).open(KEY), lambda: FileStore(tmp_path).archive(KEY, "reset")):
            with pytest.raises(SessionBusyError):
                attempt()
            refused.append(attempt)
        if len(refused) == 2:
            raise OSError(errno.EIO, "Input/output error", "sessions.json")
        return real(index, change, **options)

    with monkeypatch.context() as patch:
        patch.setattr(file_store.SessionIndex, "update", update)
        with pytest.raises(OSError, match="Input/output"):
            store.rotate(transcript)
        assert store.rotate(transcript).rotated

    assert len(refused) == 4
    transcript.append(say("after"))
    transcript.close()
    assert _history(FileStore(tmp_path)) == ["so far", "two", "after"]


def test_a_rotated_session_of_another_program_is_one_session(tmp_path: Path) -> None:
    """Its first transcript bears no key: it is listed once, and put aside with what goes on from it."""
    (tmp_path / "sid.jsonl").write_bytes(as_bytes([HEADER, *chain("theirs", "too")]))
    (tmp_path / "sessions.json").write_text('{"k": {"sessionId": "s-1", "sessionFile": "sid.jsonl"}}')
    store = FileStore(tmp_path)
    _rotated(store).close()

    listed = [info.key for info in FileStore(tmp_path).sessions()]
    superseded = [path.name for path in FileStore(tmp_path).superseded()]
    store.archive(KEY, "reset")

    assert listed == [KEY]
    assert superseded == ["sid.jsonl"]
    assert list(tmp_path.glob("*.jsonl")) == []
    assert len(store.archives()) == 2
