"""The index is level with the transcript, whatever happens to session, host and engine."""

import asyncio
import itertools
import sys
from pathlib import Path

from openclaw_ctx import ScriptedModel
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


async def test_two_sessions_at_once_have_an_index_each(tmp_path):
    """Nothing of one is found in the other."""

    async def talk(host, key, word):
        async with host.session(key) as session:
            for number in range(30):
                await tell(session, [(f"The password is {word}{number}.", "Noted.")])
                await asked(session, "password", budget=200)
            return texts((await asked(session, "password", budget=400)).messages)

    async with host_with_rag(tmp_path, rag=SMALL) as host:
        tulips, roses = await asyncio.gather(talk(host, "one", "tulip"), talk(host, "two", "rose"))

    assert not any("rose" in text for text in tulips)
    assert not any("tulip" in text for text in roses)


async def test_turns_on_another_branch_without_a_prompt_in_between_are_indexed_in_their_place(tmp_path):
    """A program may answer without asking the engine."""
    async with host_with_rag(tmp_path, rag=SMALL) as host, host.session("talk") as session:
        await tell(session, FILLER[:10])
        ids = [message.entry_id for message in session.history]
        for number, place in enumerate((11, 5, 17, 5, 19)):
            await session.branch(ids[place])
            await tell(session, [(f"branch {number}", f"answer {number}")])

            assert indexed(tmp_path) == searched(session)

        await session.branch(None)
        await tell(session, [("all anew", "yes")])

        assert indexed(tmp_path) == searched(session)


async def test_a_branch_behind_compaction_and_rotation_is_followed(tmp_path):
    """What the summary stands for stays findable, and the index in the order of the conversation."""
    summary_model = ScriptedModel(itertools.repeat("They talked."))
    async with host_with_rag(tmp_path, rag=SMALL, summary_model=summary_model) as host, host.session("talk") as session:
        await tell(session, [("My parrot is called Zephyr.", "Lovely."), *[(a * 20, b * 20) for a, b in FILLER]])
        middle = session.history[60].entry_id
        await session.compact(budget=2_000)
        await session.branch(middle)
        await tell(session, [("a branch", "indeed")])

        assert indexed(tmp_path) == searched(session)

        await session.compact(budget=2_000)
        assert (await session.rotate()).rotated
        await tell(session, [("behind it", "yes"), ("and more", "yes")])
        await session.branch(session.history[-3].entry_id)
        await tell(session, [("the last branch", "yes")])
        made = await asked(session, "What is my parrot called?", budget=1_500)

        assert "My parrot is called Zephyr." in texts(made.messages)
        assert indexed(tmp_path)[-2:] == searched(session)[-2:]
        assert host.quarantines() == []


_CHILD = """
import asyncio, sys
from pathlib import Path

import openclaw_ctx_rag.engine
from openclaw_ctx import AssistantMessage, UserMessage
from tests.plugins.rag.fake_embedder import FakeEmbedder
from tests.plugins.rag.talks import host_with_rag

openclaw_ctx_rag.engine.make_embedder = lambda config: FakeEmbedder()


async def main():
    async with host_with_rag(Path(sys.argv[1])) as host, host.session("talk") as session:
        print("begun", flush=True)
        for number in range(10_000):
            await session.append(UserMessage(content=f"new {number}"))
            await session.assemble(budget=200, prompt=f"word{number}")
            await session.append(AssistantMessage(content=f"said {number}", stop_reason="stop"))
            await session.end_turn()


asyncio.run(main())
"""


async def test_a_kill_at_any_moment_leaves_nothing_out_and_nothing_twice(tmp_path):
    """In the middle of an import, of turns, of vectors."""
    await long_talk(tmp_path, 1_600)
    for path in tmp_path.rglob("session-*.sqlite*"):
        path.unlink()
    for _ in range(2):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _CHILD, str(tmp_path), stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[3]
        )
        await child.stdout.readline()
        child.kill()
        await child.wait()

        async with host_with_rag(tmp_path) as host, host.session("talk") as session:
            await session.assemble(budget=200, prompt="word5")
            await settled(host)

            assert host.quarantines() == []
            assert indexed(tmp_path) == searched(session)
