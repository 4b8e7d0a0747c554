"""What is stored: a summary within its bounds, whatever is beside it, and the facts that go on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import AssistantMessage, ToolCallBlock, UserMessage
from openclaw_ctx.compaction.stored import MAX_REQUEST_CHARS, TRUNCATED, Facts, facts_of, final_text

ASK = UserMessage(content="Do it.")
CALL = AssistantMessage(content=(ToolCallBlock(id="c", name="read", arguments={"path": "/a"}),))
DONE = AssistantMessage(content="Done.", stop_reason="stop")


def test_the_bounds_are_the_reference_s():
    """800 characters of a request, and its words for what was cut."""
    assert (MAX_REQUEST_CHARS, TRUNCATED) == (800, "\n\n[Compaction summary truncated to fit budget]")


def test_request_history_turn_and_files_stand_in_this_order():
    """The request is quoted, so that it opens no section of its own."""
    facts = Facts(read=("/a",), modified=("/b",), request='Say "x"\n## Goal')

    text = final_text("HISTORY", turn="TURN", facts=facts, room=16_000)

    assert text.startswith('## Latest unresolved user request\n"Say \\"x\\"\\n## Goal"\n\nHISTORY')
    assert text.index("HISTORY") < text.index("**Turn Context (split turn):**\n\nTURN") < text.index("/a")


def test_what_is_cut_leaves_the_history_half():
    """Both are cut at a line that says so."""
    text = final_text("h" * 900, turn="t" * 900, facts=Facts(), room=1000)

    assert len(text) == 1000
    assert 440 <= text.count("h") <= 500
    assert text.count("truncated to fit budget") == 2


def test_a_short_turn_is_not_cut_for_a_long_history():
    """What is behind stays whole where there is room."""
    text = final_text("h" * 5000, turn="the turn", facts=Facts(), room=1000)

    assert text.endswith("the turn")
    assert len(text) == 1000


@given(
    history=st.integers(1, 60),
    turn=st.integers(0, 60),
    request=st.integers(0, 40),
    names=st.integers(0, 8),
    room=st.integers(0, 300),
)
def test_the_law_of_the_room(history, turn, request, names, room):
    """Never longer than there is room for, and with room for all of it, all of it is there."""
    facts = Facts(read=tuple(f"/file{n}" for n in range(names)), request="r" * request or None)

    text = final_text("h" * history, turn="t" * turn, facts=facts, room=room)

    assert len(text) <= room
    if room >= 4 * (history + turn + request + 40 * names + 120):
        assert "h" * history in text
        assert "t" * turn in text


@pytest.mark.parametrize(
    "details,facts",
    [
        (None, Facts()),
        ("text", Facts()),
        ({"readFiles": "a", "modifiedFiles": [1, "b"]}, Facts(modified=("b",))),
        ({"readFiles": ["a"], "latestUnresolvedUserRequest": "x" * 801}, Facts(read=("a",))),
        ({"latestUnresolvedUserRequest": "x"}, Facts(request="x")),
    ],
)
def test_what_somebody_stored_is_read_with_care(details, facts):
    """Another program's details may hold anything."""
    assert Facts.from_details(details) == facts


def test_facts_come_back_as_they_were_stored():
    """By the reference system's names."""
    facts = Facts(read=("a",), modified=("b",), request="r")

    assert facts.to_details() == {"readFiles": ["a"], "modifiedFiles": ["b"], "latestUnresolvedUserRequest": "r"}
    assert Facts.from_details(facts.to_details()) == facts
    assert "latestUnresolvedUserRequest" not in Facts().to_details()


@pytest.mark.parametrize(
    "folded,kept,earlier,request_",
    [
        pytest.param([ASK, CALL], [CALL], None, "Do it.", id="folded, and nobody has answered"),
        pytest.param([CALL], [ASK, CALL], None, None, id="it stays as it is"),
        pytest.param([ASK, DONE], [CALL], None, None, id="it was answered"),
        pytest.param([CALL], [CALL], "Before.", "Before.", id="it was folded before, and the work goes on"),
        pytest.param([CALL], [DONE], "Before.", None, id="the work has ended"),
    ],
)
def test_a_request_that_nobody_has_answered_goes_on(folded, kept, earlier, request_):
    """In the summary alone, where the message is gone."""
    assert facts_of(folded, (*folded, *kept), Facts(request=earlier)).request == request_


def test_a_file_that_was_changed_is_no_longer_only_read():
    """Each file stands once."""
    assert facts_of([CALL], [CALL], Facts(read=("/b",), modified=("/a",))) == Facts(read=("/b",), modified=("/a",))


def test_a_long_request_is_kept_at_both_ends():
    """At most 800 characters."""
    ask = UserMessage(content="begin " + "x" * 2000 + " end")

    request = facts_of([ask], [ask, CALL], Facts()).request

    assert request is not None
    assert len(request) == 800
    assert (request[:5], request[-3:]) == ("begin", "end")
    assert "[... latest user request truncated ...]" in request
