"""A running session goes on in another transcript, is forked, branched and named."""

import asyncio
import json

import pytest

from openclaw_ctx import (
    AssistantMessage,
    EntryNotFoundError,
    Host,
    MemoryStore,
    SessionExistsError,
    SessionKey,
    UserMessage,
)
from openclaw_ctx.transcript import FileStore, Transcript
from tests.assembly.recording import ByTurn, InBatches, Record, engine_of, open_host, take_turn

LONG = "why and how, and since when? " * 40


async def _long_talk(talk):
    for number in range(12):
        await take_turn(talk, f"question {number}: {LONG}", f"answer {number}: {LONG}")
    kept = talk.history[-4].entry_id
    talk.transcript.append_compaction(
        summary="They asked, and were told.", first_kept_entry_id=kept, tokens_before=9_000
    )


@pytest.mark.parametrize("kind", [ByTurn, InBatches])
async def test_a_rotation_tells_the_engine_where_the_session_goes_on_and_nothing_twice(tmp_path, kind):
    """The successor holds what the engine knows: it is introduced as a continuation, with what it has not been told."""
    record = Record()
    engines = {"recorder": engine_of(kind, record)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await _long_talk(talk)
        old = talk.session_id
        before = len(record.seen)

        rotation = await talk.rotate()
        await take_turn(talk, "after", "the rotation")

        assert rotation.rotated
        assert talk.session_id == rotation.session_id != old
        assert record.meetings == [("new", None), ("continuation", old)]
        assert record.seen[before:] == ["after", "the rotation"]

    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "again")

        assert talk.session_id == rotation.session_id
        assert record.meetings[2:] == [("resume", None)]
        assert record.seen[before:] == ["after", "the rotation", "again"]


async def test_a_rotation_in_the_middle_of_a_turn_keeps_the_turn(tmp_path):
    """The turn's messages are handed over once, at its end, whichever transcript they were written to."""
    record = Record()
    engines = {"recorder": engine_of(ByTurn, record)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await _long_talk(talk)
        before = len(record.seen)
        await talk.append(UserMessage(content="asked before"))
        await talk.rotate()
        prompt = await talk.assemble(budget=8_000)
        await talk.append(AssistantMessage(content="answered after"))
        ended = await talk.end_turn()

    assert prompt.messages[-1].text == "asked before"
    assert ended.handed_over == 2
    assert record.seen[before:] == ["asked before", "answered after"]


async def test_what_was_handed_out_before_a_rotation_can_still_be_read(tmp_path):
    """A view is of one moment: it reads the old file, which stays as it is."""
    async with open_host(tmp_path) as host, host.session("talk") as talk:
        await _long_talk(talk)
        old_path, size = talk.transcript.path, talk.transcript.path.stat().st_size
        whole = talk.transcript.record()
        expected = [json.loads(line)["id"] for line in old_path.read_bytes().split(b"\n")[1:-2]]
        await talk.rotate()
        await talk.append(UserMessage(content="and on"))

        assert [message.entry_id for message in whole] == expected
        assert old_path.stat().st_size == size
        assert talk.transcript.path != old_path


async def test_there_is_nothing_to_rotate_without_a_compaction(tmp_path):
    """It says so, and the session goes on where it was."""
    async with open_host(tmp_path) as host, host.session("talk") as talk:
        await take_turn(talk, "hello", "hi")
        path = talk.transcript.path

        rotation = await talk.rotate()

        assert (rotation.rotated, rotation.reason) == (False, "no compaction on the active branch")
        assert talk.transcript.path == path


async def test_a_rotation_that_fails_leaves_the_session_where_it_was(tmp_path, monkeypatch):
    """B30: nobody would find the successor that the index does not name: none stays, and the next append works."""
    async with open_host(tmp_path) as host, host.session("talk") as talk:
        await _long_talk(talk)
        path, names = talk.transcript.path, sorted(p.name for p in (tmp_path / "sessions").glob("*.jsonl"))

        def full(*_arguments):
            raise OSError(28, "No space left on device", "sessions.json")

        with monkeypatch.context() as patch:
            patch.setattr("openclaw_ctx.transcript.stores.index.replace_file", full)
            with pytest.raises(OSError, match="No space left"):
                await talk.rotate()

        await talk.append(UserMessage(content="still here"))
        assert talk.transcript.path == path
        assert sorted(p.name for p in (tmp_path / "sessions").glob("*.jsonl")) == names
    reopened = Transcript.open(path)
    assert reopened.history[-1].text == "still here"
    reopened.close()


async def test_a_session_is_forked_while_it_runs(tmp_path):
    """The fork has what was said up to the entry, and lives on its own; its key must be free."""
    async with open_host(tmp_path) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")
        at = talk.history[-1].entry_id
        await take_turn(talk, "three", "four")

        info = await talk.fork("aside", at=at)
        with pytest.raises(SessionExistsError):
            await talk.fork("aside")
        with pytest.raises(EntryNotFoundError):
            await talk.fork("nowhere", at="no such entry")
        async with host.session("aside") as aside:
            await take_turn(aside, "otherwise")

            assert [message.text for message in aside.history] == ["one", "two", "otherwise"]
        assert [message.text for message in talk.history] == ["one", "two", "three", "four"]
        assert (info.parent, info.messages) == ("talk", 2)
        assert {session.key for session in host.store.sessions()} == {"talk", "aside"}


async def test_a_branch_leaves_what_followed_behind(tmp_path):
    """The engine is told what follows the fork in the road, and the model sees no more of the other way."""
    record = Record()
    async with (
        open_host(tmp_path, engines={"recorder": engine_of(InBatches, record)}) as host,
        host.session("talk") as talk,
    ):
        await take_turn(talk, "one", "two")
        at = talk.history[-1].entry_id
        await take_turn(talk, "three", "four")
        await talk.append(UserMessage(content="never ended"))

        await talk.branch(at)
        await take_turn(talk, "three, otherwise", "four, otherwise")

        assert [m.text for m in talk.history] == ["one", "two", "three, otherwise", "four, otherwise"]
        assert record.seen == ["one", "two", "three", "four", "three, otherwise", "four, otherwise"]


async def test_names_labels_and_state_are_kept(tmp_path):
    """None of them is seen by the model, and all are there when the session is opened again."""
    async with open_host(tmp_path) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")
        at = talk.history[0].entry_id
        await talk.rename("A talk")
        await talk.label(at, "the beginning")
        custom = await talk.append_custom("mine", {"a": [1, None]})
        with pytest.raises(EntryNotFoundError):
            await talk.label("no such entry", "x")

    async with open_host(tmp_path) as host, host.session("talk") as talk:
        assert talk.transcript.name == "A talk"
        assert talk.transcript.labels == {at: "the beginning"}
        (data,) = [data for entry, data in talk.transcript.entries() if entry.id == custom]
        assert data["data"] == {"a": [1, None]}
        assert [message.text for message in talk.history] == ["one", "two"]
        (info,) = host.store.sessions()
        assert (info.name, info.messages) == ("A talk", 2)


async def test_the_list_says_what_the_last_prompt_cost(tmp_path):
    """It is kept with the session when that is closed."""
    async with open_host(tmp_path) as host:
        async with host.session("talk") as talk:
            await talk.append(UserMessage(content="hello"))
            prompt = await talk.assemble(budget=8_000, system_prompt="Be brief.")
        (info,) = host.store.sessions()

    assert info.context_tokens == prompt.estimated_tokens
    assert FileStore(tmp_path / "sessions").sessions() == [info]


async def test_a_session_that_was_put_aside_begins_anew_and_comes_back(tmp_path):
    """Archived and restored: what was said is there again, and the engine is told of both changes."""
    record = Record()
    engines = {"recorder": engine_of(InBatches, record)}
    async with open_host(tmp_path, engines=engines) as host:
        async with host.session("talk") as talk:
            await take_turn(talk, "one", "two")
            first = talk.session_id
        archive = await asyncio.to_thread(host.store.archive, SessionKey("talk"), "reset")
        async with host.session("talk") as talk:
            await take_turn(talk, "anew")

    assert archive.session_id == first
    assert record.meetings == [("new", None), ("reset", first)]
    assert record.seen == ["one", "two", "anew"]


async def test_a_fork_is_of_where_the_session_is_now(tmp_path):
    """After a step back nothing has been written yet: the fork ends there, and not at the file's last line."""
    async with open_host(tmp_path) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")
        at = talk.history[-1].entry_id
        await take_turn(talk, "dead", "end")
        await talk.branch(at)

        info = await talk.fork("aside")
        other = await talk.fork("the other", at=talk.transcript.record()[0].entry_id)

        assert (info.messages, other.messages) == (2, 1)


async def test_a_store_that_is_empty_is_a_store_all_the_same(tmp_path):
    """One whose length is that of its sessions is not taken for none."""

    class Counting(MemoryStore):
        def __len__(self):
            return len(self.sessions())

    store = Counting()
    async with Host.open({}, state_dir=tmp_path, store=store) as host:
        assert host.store is store
