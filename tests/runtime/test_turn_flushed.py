"""Who is asked to write notes before a turn's compaction."""

import itertools

from tests.runtime.test_turn import fill, talk

_CONFIG = {
    "plugins": {"slots": {"memory": "notes"}},
    "agents": {"defaults": {"compaction": {"memoryFlush": {"forceFlushTranscriptBytes": 1}}}},
}


async def test_the_notes_are_written_by_the_model_of_the_turn(tmp_path):
    """By the name that the turn gives it: a client may speak for many models."""
    script = itertools.repeat("fine")
    async with talk(tmp_path / "state", script, config=_CONFIG, workspace_dir=tmp_path) as session:
        await fill(session, turns=1, chars=200)
        await session.run("and?", model_name="scripted-large")

        assert len(session.model.requests) == 2
        assert [request.model for request in session.model.requests] == ["scripted-large"] * 2
        assert "memory_append" in str(session.model.requests[0].tools)


async def test_notes_are_written_once_between_two_compactions_whoever_opens_the_session(tmp_path):
    """A pipe is a process for each turn: not every one of them asks for notes of the same conversation."""
    asked = []
    for _ in range(3):
        async with talk(
            tmp_path / "state", itertools.repeat("fine"), config=_CONFIG, workspace_dir=tmp_path
        ) as session:
            await fill(session, turns=1, chars=200)
            await session.run("and?")
            asked.append(len(session.model.requests))

    assert asked == [2, 1, 1]


async def test_a_session_that_begins_anew_has_its_own_notes(tmp_path):
    """What was put aside under its key was another conversation."""
    for _ in range(2):
        async with talk(
            tmp_path / "state", itertools.repeat("fine"), config=_CONFIG, workspace_dir=tmp_path
        ) as session:
            await session.run("and?")
            await session.close()
            session.host.store.archive(session.key, "reset")

            assert len(session.model.requests) == 2
