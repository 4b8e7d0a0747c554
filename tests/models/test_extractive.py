"""A summary without a model: lines that were really there, in the room there is, the same every time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.models import HEADING, summarize_extractively

NAMES = (
    "https://example.org/a?b=c#d",
    "/etc/hosts/allow",
    "./src/main.py",
    "~/notes/today.txt",
    "README.md",
    "db.internal:5432",
    "deadbeefcafe0123",
)


def sections(summary: str) -> dict[str, list[str]]:
    """Return the lines of each section by its title."""
    found: dict[str, list[str]] = {"": []}
    for line in summary.splitlines():
        if line.startswith("## "):
            title = line
            found[title] = []
        elif line:
            found[list(found)[-1]].append(line)
    return found


def conversation() -> list[Message]:
    """Return a conversation with everything that people miss first."""
    return [
        UserMessage(content="Find out why the build of ./src/main.py fails on db.internal:5432."),
        AssistantMessage(
            content=(
                TextBlock(text="I will look at it."),
                ToolCallBlock(id="1", name="read", arguments={"path": "./src/main.py"}),
            )
        ),
        ToolResultMessage(tool_call_id="1", tool_name="read", content="no such file", is_error=True),
        BashExecutionMessage(command="make all", output="boom"),
        AssistantMessage(content="The port is closed.", stop_reason="stop"),
        UserMessage(content="Open it, then."),
        AssistantMessage(content="", stop_reason="error", error_message="429 too many requests"),
        AssistantMessage(content="It is open."),
    ]


def test_it_says_what_it_is():
    """The first line tells that no model was asked, so that nobody takes it for an understanding."""
    summary = summarize_extractively(conversation(), max_chars=4000)

    assert summary.splitlines()[0] == HEADING
    assert "no model was asked" in HEADING


def test_it_keeps_what_people_miss_first():
    """Requests, the newest one first and whole; answers from the newest back; files, commands and failures."""
    found = sections(summarize_extractively(conversation(), max_chars=4000))

    assert found["## Latest request"] == ["Open it, then."]
    assert found["## Requests"] == ["- Find out why the build of ./src/main.py fails on db.internal:5432."]
    assert found["## Identifiers"] == ["- ./src/main.py", "- db.internal:5432"]
    assert found["## Files and commands"] == ["- $ make all", "- read ./src/main.py"]
    assert found["## Failures"] == ["- 429 too many requests", "- read: no such file"]
    assert found["## Answers"] == ["- It is open.", "- The port is closed.", "- I will look at it."]


@pytest.mark.parametrize("kind", [CompactionSummaryMessage, BranchSummaryMessage])
def test_an_earlier_summary_is_carried_on_without_its_frame(kind):
    """Its lines, and neither its heading nor its titles."""
    earlier = summarize_extractively(conversation(), max_chars=4000)

    summary = summarize_extractively([kind(summary=earlier), UserMessage(content="Go on.")], max_chars=9000)

    carried = sections(summary)["## Earlier summary"]
    assert "Open it, then." in carried
    assert "- $ make all" in carried
    assert summary.count(HEADING) == 1
    assert not any(line.startswith("## ") for line in carried)


@pytest.mark.parametrize("max_chars", [600, 1600, 16_000])
def test_a_long_request_is_kept_in_part_rather_than_not_at_all(max_chars):
    """What was asked last is there in the smallest room: its beginning and its end, at most 800 characters."""
    request = "Begin here. " + "and so on " * 500 + "and end there."

    (line,) = sections(summarize_extractively([UserMessage(content=request)], max_chars=max_chars))["## Latest request"]

    assert line.startswith("Begin ")
    assert line.endswith("there.")
    assert " ... " in line
    assert len(line) <= 800


def test_one_name_that_is_too_long_keeps_no_other_out():
    """An address longer than the room leaves its place to the names that fit."""
    address = "https://example.org/" + "x" * 5000
    messages = [UserMessage(content=f"{address} {address} see README.md")]

    found = sections(summarize_extractively(messages, max_chars=2000))

    assert found["## Identifiers"] == ["- README.md"]


def test_a_sentence_s_end_is_no_part_of_a_name():
    """Brackets, full stops and quotes around a name are left out; the name is letter for letter."""
    text = 'See ("https://example.org/a"), ./src/main.py. And `db.internal:5432`; also /etc/hosts/allow!'

    found = sections(summarize_extractively([UserMessage(content=text)], max_chars=2000))

    assert found["## Identifiers"] == [
        "- https://example.org/a",
        "- ./src/main.py",
        "- db.internal:5432",
        "- /etc/hosts/allow",
    ]


def test_a_name_that_is_said_often_comes_first():
    """The most frequent identifiers have the room."""
    messages = [UserMessage(content="a.py"), AssistantMessage(content="b.py and b.py"), UserMessage(content="b.py")]

    found = sections(summarize_extractively(messages, max_chars=2000))

    assert found["## Identifiers"] == ["- b.py", "- a.py"]


def test_no_room_is_no_text():
    """The bound holds down to nothing."""
    assert summarize_extractively(conversation(), max_chars=0) == ""
    assert summarize_extractively(conversation(), max_chars=5) == HEADING[:5]


TEXTS = st.lists(
    st.one_of(st.sampled_from([*NAMES, "please", "## Requests", HEADING, "\n", "émile", "  "]), st.text(max_size=4)),
    max_size=30,
).map(" ".join)
MESSAGES = st.lists(
    st.one_of(
        st.builds(UserMessage, content=TEXTS),
        st.builds(AssistantMessage, content=TEXTS),
        st.builds(ToolResultMessage, content=TEXTS, is_error=st.booleans(), tool_call_id=st.just("c")),
        st.builds(BashExecutionMessage, command=TEXTS),
        st.builds(CompactionSummaryMessage, summary=TEXTS),
        st.builds(
            lambda text: AssistantMessage(content=(ToolCallBlock(id="c", name="run", arguments={"path": text}),)), TEXTS
        ),
    ),
    max_size=6,
)


@given(messages=MESSAGES, max_chars=st.integers(0, 700), focus=st.none() | TEXTS)
def test_it_fits_and_is_the_same_every_time(messages, max_chars, focus):
    """Never longer than it may be; the same messages give the same text."""
    summary = summarize_extractively(messages, max_chars=max_chars, focus=focus)

    assert len(summary) <= max_chars
    assert summarize_extractively(list(messages), max_chars=max_chars, focus=focus) == summary
    assert summary.startswith(HEADING[:max_chars])


@given(messages=MESSAGES, max_chars=st.integers(100, 3000))
def test_names_are_letter_for_letter(messages, max_chars):
    """Each identifier of the summary stands in what was said, whole."""
    said = "\n".join(message.text for message in messages if isinstance(message, UserMessage | AssistantMessage))
    summary = summarize_extractively(messages, max_chars=max_chars)
    block = re.search(r"^## Identifiers\n((?:- \S+\n?)*)", summary, re.MULTILINE)

    names = [line.removeprefix("- ") for line in block.group(1).splitlines()] if block else []

    assert all(name in said for name in names)
    assert len(names) == len(set(names))


@given(messages=MESSAGES)
def test_with_room_enough_every_request_is_there(messages):
    """Nothing that was asked is left out for another section's sake, each as one line."""
    summary = summarize_extractively(messages, max_chars=200_000)

    for message in messages:
        line = " ".join(message.text.split())
        if isinstance(message, UserMessage) and line and len(line) <= 240:
            assert line in " ".join(summary.split())
