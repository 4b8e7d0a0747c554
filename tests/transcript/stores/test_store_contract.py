"""The stores that are ours keep what a store promises."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw_ctx import AssistantMessage, Host, UserMessage
from openclaw_ctx.testkit import StoreContract
from openclaw_ctx.transcript import FileStore, MemoryStore, SessionStore, file_record, tail
from tests.transcript.sessions import as_bytes, line, say, texts


class TestMemoryStore(StoreContract):
    """Without a disk."""

    @pytest.fixture
    def store(self) -> SessionStore:
        """Return a store that ends with its test."""
        return MemoryStore()


class TestFileStore(StoreContract):
    """In a folder."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> SessionStore:
        """Return a store in a folder that is not there yet."""
        return FileStore(tmp_path / "sessions")

    def reopen(self, store: SessionStore) -> SessionStore:
        """Return another store in the folder."""
        assert isinstance(store, FileStore)
        return FileStore(store.folder)


class TestFileStoreFromTheEnd(TestFileStore):
    """In a folder, and every file that was compacted is opened from its end."""

    @pytest.fixture(autouse=True)
    def _nothing_is_small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(file_record, "_SMALL_BYTES", 0)
        monkeypatch.setattr(tail, "_SHARE", 1)


async def test_a_host_needs_nothing_of_a_store_but_its_promises(tmp_path: Path) -> None:
    """Without a file of a session a conversation is had, compacted, rotated, forked and gone on with."""
    store = MemoryStore()
    async with Host.open(store=store, state_dir=tmp_path) as host:
        async with host.session("kitchen") as chat:
            for number in range(12):
                await chat.append(UserMessage(content=f"Question {number}: " + "why and how? " * 80))
                await chat.append(AssistantMessage(content=f"Answer {number}: " + "because. " * 80))
                await chat.end_turn()
            assert (await chat.compact(budget=2_000)).result.compacted
            assert store.rotate(chat.transcript).rotated
            store.fork(chat.key, "garden")
            expected = list(chat.history)
        async with host.session("garden") as chat:
            assert list(chat.history) == expected
            await chat.append(UserMessage(content="And now?"))

    assert [info.key for info in store.sessions()] == ["garden", "kitchen"]
    assert not [name for *_, names in os.walk(tmp_path) for name in names if name.endswith(".jsonl")]


def test_nothing_that_a_host_imports_needs_pytest() -> None:
    """The contract does, and says so by an import that fails where there is none."""
    code = """
import sys
sys.modules["pytest"] = None
import openclaw_ctx, openclaw_ctx.testkit
from openclaw_ctx import Host
try:
    openclaw_ctx.testkit.StoreContract
except ImportError as error:
    print(error.name)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout == "pytest\n"


# -- files, in which others write without the lock -------------------------------------------------


def write_without_the_lock(path: Path, *lines: object) -> None:
    """Append lines as a program does that knows of no lock."""
    with path.open("ab") as file:
        file.write(as_bytes(lines))


def test_a_compaction_behind_what_others_wrote_is_on_the_branch(tmp_path: Path) -> None:
    """It is read before the compaction is written, which then stands for it too."""
    store = FileStore(tmp_path)
    with contextlib.closing(store.open("k")) as transcript:
        first = transcript.append(say("ours"))
        write_without_the_lock(transcript.path, line("f1", first.entry_id, "theirs"))

        transcript.append_compaction(summary="both", first_kept_entry_id=None, tokens_before=1)
        transcript.append(say("next"))

        assert texts(transcript.history) == ["both", "next"]
        assert texts(transcript.record()) == ["ours", "theirs", "next"]


def test_a_title_that_was_given_last_counts_on_any_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of the file is read at first."""
    monkeypatch.setattr(file_record, "_SMALL_BYTES", 0)
    monkeypatch.setattr(tail, "_SHARE", 1)
    store = FileStore(tmp_path)
    with contextlib.closing(store.open("k")) as transcript:
        first = transcript.append(say("one")).entry_id
        transcript.append_session_info(name="old")
        leaf = transcript.leaf_id
        transcript.branch(first)
        transcript.append_session_info(name="new")
        transcript.branch(leaf)
        transcript.append_compaction(summary="s", first_kept_entry_id=leaf, tokens_before=1)

    with contextlib.closing(store.read("k")) as reader:
        assert reader.name == "new"
    assert [info.name for info in store.sessions()] == ["new"]


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(None, id="no index"),
        pytest.param(b"", id="an empty one"),
        pytest.param(b"{}", id="one that knows nobody"),
        pytest.param(b'{"k": {}}', id="one that knows no file"),
        pytest.param(b'{"k": {"sessionFile": "gone.jsonl", "messages": 9}}', id="one that knows another file"),
    ],
)
def test_a_rotated_session_goes_on_whatever_became_of_the_index(tmp_path: Path, index: bytes | None) -> None:
    """In the transcript that it was rotated to, for readers, writers and lists."""
    store = FileStore(tmp_path)
    with contextlib.closing(store.open("k")) as transcript:
        first = transcript.append(say("one"))
        transcript.append_compaction(summary="s", first_kept_entry_id=first.entry_id, tokens_before=1)
        assert store.rotate(transcript).rotated
        transcript.append(say("two"))
    path = tmp_path / "sessions.json"
    path.unlink()
    if index is not None:
        path.write_bytes(index)

    store = FileStore(tmp_path)
    with contextlib.closing(store.read("k")) as reader:
        assert texts(reader.record()) == ["one", "two"]
    with contextlib.closing(store.open("k")) as transcript:
        transcript.append(say("three"))
        assert texts(transcript.record()) == ["one", "two", "three"]
    assert [(info.key, info.messages) for info in store.sessions()] == [("k", 3)]


def test_what_others_wrote_is_followed_though_a_look_has_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading all of a transcript that was opened from its end moves no leaf; the next append follows what is there."""
    monkeypatch.setattr(file_record, "_SMALL_BYTES", 0)
    monkeypatch.setattr(tail, "_SHARE", 1)
    store = FileStore(tmp_path)
    with contextlib.closing(store.open("k")) as transcript:
        transcript.append(say("one"))
        transcript.append_compaction(summary="s", first_kept_entry_id=None, tokens_before=1)
        last = transcript.append(say("two"))
    with contextlib.closing(store.open("k")) as transcript:
        write_without_the_lock(transcript.path, line("f1", last.entry_id, "theirs"))

        assert transcript.labels == {}
        assert texts(transcript.history) == ["s", "two"]
        transcript.append(say("three"))

        assert texts(transcript.history) == ["s", "two", "theirs", "three"]


def test_a_compaction_may_keep_what_has_not_been_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the last one kept: the context is at once what it is after opening again."""
    monkeypatch.setattr(file_record, "_SMALL_BYTES", 0)
    monkeypatch.setattr(tail, "_SHARE", 1)
    store = FileStore(tmp_path)
    with contextlib.closing(store.open("k")) as transcript:
        first = transcript.append(say("one"))
        transcript.append_compaction(summary="s", first_kept_entry_id=None, tokens_before=1)
    with contextlib.closing(store.open("k")) as transcript:
        transcript.append_compaction(summary="t", first_kept_entry_id=first.entry_id, tokens_before=1)
        live = texts(transcript.history)

    with contextlib.closing(store.read("k")) as reader:
        assert texts(reader.history) == live == ["t", "one"]
