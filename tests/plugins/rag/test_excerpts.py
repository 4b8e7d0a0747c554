"""A long message cut to its passages."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    estimate_tokens,
)
from openclaw_ctx_rag.excerpts import shortened


def words(text):
    """Split at blanks."""
    return text.lower().replace(".", " ").split()


def estimate(text):
    """Return the tokens of a text."""
    return estimate_tokens(UserMessage(content=text)) if text else 0


def cut(message, tokens, wanted=()):
    """Cut a message around words."""
    return shortened(message, tokens, wanted=frozenset(wanted), terms=words, estimate=estimate)


def test_what_fits_is_left_alone():
    """The very message."""
    message = UserMessage(content="short and sweet", entry_id="1")

    assert cut(message, 100) is message


def test_the_passages_that_hold_the_words_stay_in_their_order():
    """Wherever they stand; gaps are shown."""
    lines = [f"Line {n} says nothing that anybody would ask for." for n in range(200)]
    lines[150], lines[20] = "The capacitor needs power.", "Power comes from the capacitor."

    text = cut(UserMessage(content="\n".join(lines), entry_id="e7"), 200, {"capacitor", "power"}).text

    assert text.index("Power comes from the capacitor.") < text.index("The capacitor needs power.")
    assert "[…]" in text
    assert text.endswith("[cut; history_read shows all of e7]")


def test_without_a_word_of_the_question_the_beginning_stays():
    """What stands first says mostly what a text is about."""
    text = "First of all, this. " + "Then something else happened again. " * 200

    assert cut(UserMessage(content=text, entry_id="1"), 120, {"zebra"}).text.startswith("First of all, this.")


def test_calls_and_commands_stay_as_they_are():
    """A call that is cut is no call."""
    call = ToolCallBlock(id="c", name="run", arguments={"code": "x" * 4_000})

    message = AssistantMessage(content=(TextBlock(text="I run. " * 400), call), entry_id="1")
    bash = BashExecutionMessage(command="ls", output="x" * 4_000)

    assert cut(message, 100).tool_calls == (call,)
    assert cut(bash, 100).command == "ls"
    assert estimate_tokens(cut(bash, 100)) <= 100


@settings(max_examples=200)
@given(
    text=st.text(st.sampled_from("ab \n.。中xyz0123456789"), min_size=1, max_size=3_000),
    tokens=st.integers(40, 400),
)
def test_it_costs_what_it_may(text, tokens):
    """And is never empty: any text, cut or whole."""
    message = ToolResultMessage(content=text, tool_call_id="c", entry_id="12345678")

    found = cut(message, tokens, {"ab"})

    assert estimate_tokens(found) <= tokens
    assert found.text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("word" * 100_000, id="one word"),
        pytest.param(base64.b64encode(bytes(range(256)) * 1_500).decode(), id="base64"),
        pytest.param("静默安装播客列表" * 20_000, id="signs of three bytes"),
        pytest.param("🦜" * 50_000, id="signs of four bytes"),
        pytest.param("\n" * 200_000 + "word", id="empty lines"),
    ],
)
def test_no_text_costs_more_than_it_may(text):
    """Though some signs cost more together than one by one."""
    for tokens in (40, 160, 1_000):
        found = cut(ToolResultMessage(content=text, tool_call_id="c", entry_id="12345678"), tokens, {"word"})

        assert estimate_tokens(found) <= tokens
        assert found.text


def test_many_blocks_cost_no_more_than_one():
    """Each alone would have its beginning kept."""
    blocks = tuple(TextBlock(text=f"block {n}") for n in range(5_000))

    found = cut(UserMessage(content=blocks, entry_id="1"), 160)

    assert estimate_tokens(found) <= 160
