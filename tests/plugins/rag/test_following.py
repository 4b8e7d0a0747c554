"""The index is level with the transcript, whatever happens to session, host and engine."""

from openclaw_ctx_rag.sqlite_index import SqliteIndex
from tests.plugins.rag.checking import FILLER, asked, indexed, long_talk, searched
from tests.plugins.rag.talks import host_with_rag, settled, tell, texts

SMALL = {"recentShare": 0}


async def test_a_branch_that_is_gone_back_to_is_found_though_a_prompt_was_made_in_between(tmp_path):
    """Its messages were known already, and are on the branch again."""
    async with host_with_rag(tmp_path, rag=SMALL) as host, host.session("talk") as session:
        await tell(session, FILLER[:20])
        fork = session.transcript.leaf_id
        await tell(session, [("The password of the shed is tulip.", "Noted."), *FILLER[20:]])
        leaf = session.transcript.leaf_id
        await session.branch(fork)
        await asked(session, "password of the shed?", budget=300)

        await session.branch(leaf)
        made = await asked(session, "password of the shed?", budget=300)

        assert "The password of the shed is tulip." in texts(made.messages)
        assert indexed(tmp_path) == searched(session)


async def test_a_turn_that_is_handed_over_brings_what_an_import_left_behind(tmp_path, monkeypatch):
    """An import that failed, as on a full disk, leaves a hole at the end; what comes next does not stand behind it."""
    async with host_with_rag(tmp_path) as host, host.session("talk") as session:
        await tell(session, FILLER[:3])
        add = SqliteIndex.add
        monkeypatch.setattr(SqliteIndex, "add", lambda *_: 0)
        await tell(session, FILLER[3:5])
        monkeypatch.setattr(SqliteIndex, "add", add)

        await tell(session, FILLER[5:6])

        assert indexed(tmp_path) == searched(session)


async def test_a_session_that_is_closed_in_the_middle_of_its_import_bars_nobody(tmp_path):
    """What is missing is taken when it is opened again."""
    await long_talk(tmp_path, 3_000)
    async with host_with_rag(tmp_path, rag=SMALL) as host:
        async with host.session("talk") as session:
            await session.assemble(budget=200, prompt="word5")
        await settled(host)
        assert host.quarantines() == []
        async with host.session("talk") as session:
            await session.assemble(budget=200, prompt="word5")
            await settled(host)
            await asked(session, "word5", budget=200)
            assert indexed(tmp_path) == searched(session)


async def test_a_host_that_is_closed_in_the_middle_of_an_import_goes_on_at_the_next_opening(tmp_path):
    """With all in order, and once."""
    await long_talk(tmp_path, 3_000)
    async with host_with_rag(tmp_path, rag=SMALL) as host, host.session("talk") as session:
        await session.assemble(budget=200, prompt="word5")
    async with host_with_rag(tmp_path, rag=SMALL) as host, host.session("talk") as session:
        assert host.quarantines() == []
        await session.assemble(budget=200, prompt="word5")
        await settled(host)

        assert indexed(tmp_path) == searched(session)


async def test_turns_and_branches_during_an_import_leave_the_index_level(tmp_path):
    """The import comes by what was said meanwhile, and leaves out what was left meanwhile."""
    await long_talk(tmp_path, 3_000)
    async with host_with_rag(tmp_path, rag=SMALL) as host, host.session("talk") as session:
        await session.assemble(budget=200, prompt="word5")
        ids = [message.entry_id for message in session.history]
        await tell(session, FILLER[:3])
        await session.branch(ids[1_999])
        await tell(session, FILLER[3:6])
        await asked(session, "word5", budget=200)
        await settled(host)
        await asked(session, "word5", budget=200)

        assert indexed(tmp_path) == searched(session)
        assert host.quarantines() == []
