"""Prompts of messages that nobody should have to expect, on a real host."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    ImageBlock,
    Replacement,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    estimate_tokens,
)
from openclaw_ctx.transcript import pairs_are_whole, repair_messages
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


_TIMES = st.sampled_from([None, 0, -1.0, MAY, MAY + DAY, MAY - 400 * DAY, 1e20, float("inf")])
_WORDS = st.sampled_from(
    ["zephyr", "parrot", "", " ", "zephyr " * 30, "静默安装" * 20, "x" * 700, "parrot zephyr.\n" * 60]
)
_IDS = st.sampled_from(["c1", "c2", "c3", "", "c" * 70])
_ARGUMENTS = st.sampled_from([{}, {"zephyr": "y" * 900}])


def _group(ids, answered, words, time, arguments, between):
    calls = [ToolCallBlock(id=name, name="look", arguments=arguments) for name in ids]
    text = [TextBlock(text=words)] if words.strip() else []
    return [
        AssistantMessage(content=(*text, *calls), timestamp=time, stop_reason="toolUse"),
        *between,
        *[ToolResultMessage(tool_call_id=name, content=words, timestamp=time) for name in ids[:answered]],
    ]


_GROUPS = st.builds(
    _group,
    st.lists(_IDS, min_size=1, max_size=4, unique=True),
    st.integers(0, 4),
    _WORDS,
    _TIMES,
    _ARGUMENTS,
    st.sampled_from(
        [(), (CustomMessage(custom_type="note", content="zephyr"),), (UserMessage(content="stop zephyr"),)]
    ),
)
_OTHERS = st.one_of(
    st.builds(lambda words, time: [UserMessage(content=words, timestamp=time)], _WORDS, _TIMES),
    st.builds(
        lambda words, time: [AssistantMessage(content=words, timestamp=time, stop_reason="stop")], _WORDS, _TIMES
    ),
    st.builds(lambda words: [BashExecutionMessage(command=words, output=words)], _WORDS),
    st.builds(lambda words: [SystemMessage(content=words)], _WORDS),
    st.builds(lambda words: [CustomMessage(custom_type="note", content=words)], _WORDS),
    st.just([ToolResultMessage(tool_call_id="c1", content="nobody called for zephyr")]),
    st.just([UserMessage(content=(ImageBlock(data="AAAA", mime_type="image/png"),))]),
    st.just([AssistantMessage(content=(ThinkingBlock(thinking="zephyr"),), stop_reason="error")]),
)


def _leading(said):
    return list(itertools.takewhile(lambda message: isinstance(message, SystemMessage), said))


_QUIET = [UserMessage(content="And now?"), AssistantMessage(content="Nothing.", stop_reason="stop")]


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(st.one_of(_GROUPS, _OTHERS), max_size=12),
    budget=st.one_of(st.integers(1, 200), st.integers(100, 1_500)),
    share=st.sampled_from([0, 0.5, 1]),
)
async def test_whatever_was_said_a_prompt_is_whole_in_order_and_within_its_budget(
    tmp_path_factory, parts, budget, share
):
    """Groups of tools, calls without answers, what is empty, times in disorder: nothing recalled needs mending."""
    folder = tmp_path_factory.mktemp("rag")
    async with host_with_rag(folder, rag={"recentShare": share}) as host, host.session("talk") as session:
        said = [await session.append(message) for part in parts for message in part]
        await session.end_turn()
        said += [await session.append(message) for message in _QUIET]
        await session.end_turn()
        said.append(await session.append(UserMessage(content="zephyr parrot?")))

        made = await session.assemble(budget=budget, prompt="zephyr parrot?")

        shown = made.messages
        end = next((place for place, m in enumerate(shown) if m.text.startswith("[end of recall ")), 0)
        newest = [m for m in said if shown[end:] and m.entry_id in {kept.entry_id for kept in shown[end:]}]
        head = _leading(said)
        assert made.substitution is None
        assert shown[-1].text == "zephyr parrot?"
        places = {message.entry_id: place for place, message in enumerate(said)}
        order = [places[message.entry_id] for message in shown[:end] if message.entry_id is not None]
        assert order == sorted(set(order))
        assert pairs_are_whole(shown)
        if end:
            from_newest = said[places[newest[0].entry_id] :]
            assert made.repairs == repair_messages([*head, *from_newest]).phrases
        allowed = max(budget, sum(map(estimate_tokens, [*_leading(said), said[-1]])))
        assert made.estimated_tokens <= allowed
