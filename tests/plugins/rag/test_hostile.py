"""Prompts of messages that nobody should have to expect, on a real host."""

import json

import pytest

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    ImageBlock,
    Replacement,
    ThinkingBlock,
    UserMessage,
)
from tests.plugins.rag.checking import FILLER, asked, call, result, say
from tests.plugins.rag.talks import DAY, MAY, host_with_rag, tell, texts

SMALL = {"recentShare": 0}


async def test_a_rewritten_result_comes_back_in_its_new_words_beside_its_call(tmp_path):
    """What it said before is on no branch, though it stands next to its call in the index."""
    async with host_with_rag(tmp_path, rag=SMALL) as host, host.session("talk") as session:
        _, _, old, *_ = await say(
            session,
            UserMessage(content="Look up the shed.", timestamp=MAY),
            call(1),
            result(1, "The shed opens with tulip."),
            AssistantMessage(content="I have it.", timestamp=MAY, stop_reason="stop"),
        )
        await tell(session, FILLER)
        session._core.rewrite([Replacement(entry_id=old.entry_id, message=result(1, "The shed opens with [removed]."))])

        for question in ("How does the shed open?", "m1.py read_file look"):
            made = await asked(session, question, budget=300)

            assert not any("tulip" in text for text in texts(made.messages))
            assert "The shed opens with [removed]." in texts(made.messages)


async def test_a_call_whose_arguments_cannot_be_cut_keeps_nothing_else_out(tmp_path):
    """It is passed over where it does not fit; what fits less well comes back all the same."""
    async with host_with_rag(tmp_path, rag=SMALL) as host, host.session("talk") as session:
        await say(
            session,
            UserMessage(content="Write it.", timestamp=MAY),
            call(1, text="zephyr zephyr", content="zephyr parrot " * 7_000),
            result(1, "zephyr written"),
            AssistantMessage(content="Done.", timestamp=MAY, stop_reason="stop"),
        )
        await tell(session, [("My parrot is called Zephyr.", "Lovely."), *FILLER])

        made = await asked(session, "zephyr", budget=400)

        assert "My parrot is called Zephyr." in texts(made.messages)


async def test_a_command_that_printed_much_comes_back_cut(tmp_path):
    """It is nobody's message with blocks, and keeps nothing else out either."""
    async with host_with_rag(tmp_path, rag=SMALL) as host, host.session("talk") as session:
        await say(
            session,
            UserMessage(content="See.", timestamp=MAY),
            BashExecutionMessage(
                command="zephyr",
                output="nothing. \n" * 9_000 + "zephyr flies.\n" + "nothing. \n" * 9_000,
                timestamp=MAY,
            ),
            AssistantMessage(content="Seen.", timestamp=MAY, stop_reason="stop"),
        )
        await tell(session, [("My parrot is called Zephyr.", "Lovely."), *FILLER])

        made = await asked(session, "zephyr", budget=900)

        assert "My parrot is called Zephyr." in texts(made.messages)
        assert any("zephyr flies." in text and len(text) < 2_000 for text in texts(made.messages))


async def test_days_that_run_backwards_cost_what_their_lines_cost(tmp_path):
    """Each has its line again; nothing that was found is dropped for them, and the budget is used."""
    turns = [(f"zephyr {n} {'abcdefgh'[n % 8] * 12}", f"other {n}") for n in range(60)]
    async with host_with_rag(tmp_path, rag=SMALL) as host, host.session("talk") as session:
        for number, turn in enumerate(turns):
            await tell(session, [turn], at=MAY + (number % 2) * DAY)
        await tell(session, FILLER)

        made = await asked(session, "zephyr", budget=400)

        recalled = [text for text in texts(made.messages) if text.startswith("zephyr ")]
        assert len(recalled) >= 10
        assert made.estimated_tokens > 360


async def test_calls_that_use_an_id_again_and_calls_without_an_answer_need_no_mending(tmp_path):
    """As weak models and cancelled turns leave them; the budget holds by the host's own count."""
    async with host_with_rag(tmp_path, rag=SMALL) as host, host.session("talk") as session:
        for number in range(20):
            await say(
                session,
                UserMessage(content=f"Look {number}.", timestamp=MAY),
                call(1, text=f"zephyr {number}"),
                *([] if number % 3 == 0 else [result(1, f"zephyr is {number}")]),
                AssistantMessage(content=f"Then {number}.", timestamp=MAY, stop_reason="stop"),
            )
        await tell(session, FILLER)

        for budget in range(150, 420, 9):
            await asked(session, "zephyr", budget=budget)


async def test_a_message_that_says_nothing_does_not_come_back(tmp_path):
    """Thinking alone, an answer that failed: a provider would refuse it."""
    async with host_with_rag(tmp_path, rag=SMALL) as host, host.session("talk") as session:
        for _ in range(5):
            await say(
                session,
                UserMessage(content="  ", timestamp=MAY),
                AssistantMessage(content=(ThinkingBlock(thinking="zephyr"),), timestamp=MAY, stop_reason="stop"),
                AssistantMessage(content=(), timestamp=MAY, stop_reason="error"),
                UserMessage(content=(ImageBlock(data="AAAA", mime_type="image/png"),), timestamp=MAY),
                CustomMessage(custom_type="note", content="", timestamp=MAY),
            )
        await tell(session, FILLER)

        made = await asked(session, "8 May 2023 picture", budget=300)

        assert all(text.strip() for text in texts(made.messages))


async def test_what_was_rewritten_cannot_be_read_by_its_old_name(tmp_path):
    """The history of the conversation is that of its branch."""
    async with host_with_rag(tmp_path, rag=SMALL) as host, host.session("talk") as session:
        await tell(session, [("The shed opens with tulip.", "Noted."), *FILLER])
        old = session.history[0].entry_id
        session._core.rewrite([Replacement(entry_id=old, message=UserMessage(content="The shed: [removed]."))])
        await session.end_turn()
        await session.assemble(budget=300)
        read = next(tool for tool in await session.tools() if tool.name == "history_read")

        with pytest.raises(Exception, match="there is no entry"):
            await read.call({"entry_id": old})
        assert host.quarantines() == []


async def test_a_time_that_is_no_time_is_no_failure_of_the_tools(tmp_path):
    """Timestamps are anybody's numbers."""
    async with host_with_rag(tmp_path) as host, host.session("talk") as session:
        await tell(session, [("My parrot is called Zephyr.", "Lovely.")], at=1e20)
        search = next(tool for tool in await session.tools() if tool.name == "history_search")

        found = json.loads(await search.call({"query": "parrot"}))

        assert found["hits"][0]["text"] == "My parrot is called Zephyr."
        assert "time" not in found["hits"][0]
