"""What the agent may call: every query is safe, and what it answers is data."""

import json

import pytest

from openclaw_ctx import EngineFailedError, ScriptedAnswer, ScriptedModel, ToolCallBlock
from tests.plugins.rag.talks import DAY, MAY, host_with_rag, tell

TURNS = [
    ("My parrot is called Zephyr.", "A lovely name."),
    ("The invoice of Acme is 10% off.", "It stands in gateway/run.py, and in agent_id."),
    ("静默安装播客列表", "The list is stored."),
    ("Ask user@host: it's fine, e=mc2, #tag, [x], title:foo", "AND OR NOT NEAR * a\\b"),
]


async def call(session, name, **arguments):
    """Call a tool of the engine; return what it answers."""
    tool = next(tool for tool in await session.tools() if tool.name == name)
    return json.loads(await tool.call(arguments))


async def found(session, query, **arguments):
    """Return the texts that a search finds."""
    return [hit["text"] for hit in (await call(session, "history_search", query=query, **arguments))["hits"]]


@pytest.mark.parametrize(
    "query,text",
    [
        ("What is the parrot's name?", TURNS[0][0]),
        ("parrots", TURNS[0][0]),
        ("gateway/run.py", TURNS[1][1]),
        ("agent_id", TURNS[1][1]),
        ("%", TURNS[1][0]),
        ("静默", TURNS[2][0]),
        ("播客", TURNS[2][0]),
        ("客", TURNS[2][0]),
        ("podcast 播客", TURNS[2][0]),
        ("it's", TURNS[3][0]),
        ("user@host", TURNS[3][0]),
        ("e=mc2", TURNS[3][0]),
        ("#tag", TURNS[3][0]),
        ("[x]", TURNS[3][0]),
        ("title:foo", TURNS[3][0]),
        ("NEAR", TURNS[3][1]),
        ("*", TURNS[3][1]),
        ("\\", TURNS[3][1]),
    ],
)
async def test_what_is_plainly_there_is_found_by_any_query(tmp_path, query, text):
    """Names, identifiers, signs, Chinese words of one and two characters, the words of query languages."""
    async with host_with_rag(tmp_path) as host, host.session("talk") as session:
        await tell(session, TURNS)

        assert text in (await found(session, query))[:2]


@pytest.mark.parametrize(
    "query", ['"', "why?", "-x", "' OR 1=1 --", "a, b", "(", "\x00", "\ud800", "🦜", "x" * 100_000, "AND"]
)
async def test_no_query_is_an_error(tmp_path, query):
    """Whatever an agent thinks of."""
    async with host_with_rag(tmp_path) as host, host.session("talk") as session:
        await tell(session, TURNS)

        assert isinstance(await found(session, query), list)


async def test_a_search_is_bounded_by_time_role_and_number(tmp_path):
    """Days in UTC; from `since` to before `until`."""
    async with host_with_rag(tmp_path) as host, host.session("talk") as session:
        await tell(session, [(f"The meeting is in room {n}.", f"Room {n} it is.") for n in range(6)], at=MAY, apart=DAY)

        on_two_days = await found(session, "room", since="2023-05-09", until="2023-05-11", limit=50)
        by_user = await found(session, "room", role="user", limit=50)
        three = await found(session, "room", limit=3)

        assert sorted(on_two_days) == [
            "Room 1 it is.",
            "Room 2 it is.",
            "The meeting is in room 1.",
            "The meeting is in room 2.",
        ]
        assert len(by_user) == 6
        assert all(text.startswith("The meeting") for text in by_user)
        assert len(three) == 3


async def test_a_message_is_read_in_full_with_its_neighbours(tmp_path):
    """What the search shows cut, reading shows whole."""
    long = "The parrot Zephyr " + "talks and talks " * 200
    async with host_with_rag(tmp_path) as host, host.session("talk") as session:
        await tell(session, [("Before.", "Yes."), (long, "Indeed."), ("After.", "Quite.")])
        (hit, *_) = (await call(session, "history_search", query="parrot Zephyr"))["hits"]

        alone = await call(session, "history_read", entry_id=hit["entry_id"])
        around = await call(session, "history_read", entry_id=hit["entry_id"], around=1)

        assert hit["text"].endswith("…")
        assert (hit["role"], hit["time"]) == ("user", "2023-05-09T00:00+00:00")
        assert [message["text"] for message in alone["messages"]] == [long]
        assert [message["text"] for message in around["messages"]] == ["Yes.", long, "Indeed."]


@pytest.mark.parametrize(
    "name,arguments,said",
    [
        ("history_search", {}, "query"),
        ("history_search", {"query": " "}, "query"),
        ("history_search", {"query": "a", "limit": 0}, "limit"),
        ("history_search", {"query": "a", "limit": "many"}, "limit"),
        ("history_search", {"query": "a", "since": "yesterday"}, "since"),
        ("history_search", {"query": "a", "role": "system"}, "role"),
        ("history_read", {"entry_id": "nowhere"}, "nowhere"),
        ("history_read", {"entry_id": "a", "around": 500}, "around"),
    ],
)
async def test_a_wrong_argument_is_named(tmp_path, name, arguments, said):
    """So that the model can mend its call; the engine is not barred for it."""
    async with host_with_rag(tmp_path) as host, host.session("talk") as session:
        await tell(session, TURNS)

        with pytest.raises(EngineFailedError, match=said):
            await call(session, name, **arguments)

        assert host.quarantines() == []


async def test_an_agent_finds_what_its_window_no_longer_holds(tmp_path):
    """Through the turn loop: the model calls the tool, and reads what it answers."""
    search = ToolCallBlock(id="c1", name="history_search", arguments={"query": "parrot"})
    model = ScriptedModel([ScriptedAnswer(tool_calls=(search,)), "Zephyr."])
    async with host_with_rag(tmp_path, model=model) as host, host.session("talk") as session:
        await tell(session, TURNS)

        answer = await session.run("What is my parrot called?")

        assert answer.text == "Zephyr."
        (result,) = [message for message in session.history if message.role == "toolResult"]
        assert "My parrot is called Zephyr." in result.text
