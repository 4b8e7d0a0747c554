"""A transcript that somebody has edited behind the engine's back."""

import json
import shutil

import pytest

from openclaw_ctx import UserMessage
from openclaw_ctx_rag.seen import Seen
from tests.plugins.rag.talks import host_with_rag, settled, tell, texts

TURNS = [
    ("The shed opens with tulip.", "Noted."),
    *[(f"What of topic {n}?", f"Nothing of topic {n}.") for n in range(30)],
]


def test_a_file_that_only_grew_is_what_it_was(tmp_path):
    """In one life and in the next; what was appended is seen too from then on."""
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"one\n")
    seen = Seen(None)
    first = seen.follow(file)
    with file.open("ab") as stream:
        stream.write(b"two\n" * 400_000)

    assert Seen(first).is_what_it_was(file)
    second = seen.follow(file)
    assert second == Seen(None).follow(file)
    assert Seen(second).is_what_it_was(file)


@pytest.mark.parametrize("change", [b"One\ntwo\n", b"one\n", b""])
def test_a_file_with_another_beginning_or_less_in_it_is_not(tmp_path, change):
    """An edited line, an older copy, nothing."""
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"one\ntwo\n")
    note = Seen(None).follow(file)
    file.write_bytes(change)

    assert not Seen(note).is_what_it_was(file)


def test_of_another_file_and_of_none_nothing_is_said(tmp_path):
    """A session goes on elsewhere after a rotation; a store in memory has no files."""
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"one\n")
    note = Seen(None).follow(file)

    assert Seen(note).is_what_it_was(tmp_path / "b.jsonl")
    assert Seen(None).follow(tmp_path / "b.jsonl") is None


async def test_an_edited_transcript_is_indexed_anew(tmp_path):
    """What it said before is found no more, and what it says now is, under the same entry id."""
    async with host_with_rag(tmp_path, rag={"recentShare": 0}) as host, host.session("talk") as session:
        await tell(session, TURNS)
        file = session.transcript.path
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("tulip", "daffodil"), encoding="utf-8")

    async with host_with_rag(tmp_path, rag={"recentShare": 0}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="How does the shed open?"))
        await session.assemble(budget=300)
        await settled(host)
        shown = texts((await session.assemble(budget=300)).messages)

        assert "The shed opens with daffodil." in shown
        assert not any("tulip" in text for text in shown)


async def test_an_older_copy_in_its_place_brings_back_nothing_that_it_does_not_hold(tmp_path):
    """A restored backup: what was said since is not of this conversation any more."""
    async with host_with_rag(tmp_path, rag={"recentShare": 0}) as host, host.session("talk") as session:
        await tell(session, TURNS)
        file = session.transcript.path
        shutil.copy(file, tmp_path / "backup")
        await tell(session, [("The safe opens with 4711.", "Noted.")])
    shutil.copy(tmp_path / "backup", file)

    async with host_with_rag(tmp_path, rag={"recentShare": 0}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="How does the safe open?"))
        await session.assemble(budget=300)
        await settled(host)
        shown = texts((await session.assemble(budget=300)).messages)

        assert not any("4711" in text for text in shown)
        assert json.dumps(shown)
