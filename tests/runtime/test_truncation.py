"""Tool results cut to what a window bears, and nothing else touched."""

import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import AssistantMessage, ImageBlock, TextBlock, ToolCallBlock, ToolResultMessage, UserMessage
from openclaw_ctx.runtime import truncation as rules
from openclaw_ctx.runtime.truncation import (
    cut_text,
    is_cut,
    oversized_results,
    reducible_chars,
    result_cap_chars,
    truncate_result,
    truncate_results,
)
from openclaw_ctx.transcript import pairs_are_whole

NOTE = re.compile(r"\[truncated: (\d+) characters were cut\]$")
PICTURE = ImageBlock(data="aGk=", mime_type="image/png")


def result(*texts, entry_id="e1", **more):
    """Return a tool's result with a block for each text."""
    content = texts[0] if len(texts) == 1 else tuple(TextBlock(text=text) for text in texts)
    return ToolResultMessage(content=content, tool_call_id="c1", tool_name="run", entry_id=entry_id, **more)


def chars(*messages):
    """Return the characters of text."""
    return sum(len(b.text) for m in messages for b in getattr(m, "content", ()) if isinstance(b, TextBlock))


def results_of(messages):
    """Return the tool results among messages."""
    return [message for message in messages if isinstance(message, ToolResultMessage)]


def test_the_constants_are_the_reference_systems():
    """Each as it is written there."""
    assert (rules.MIN_KEEP_CHARS, rules.RESULT_SHARE, rules.CHARS_PER_TOKEN) == (2_000, 0.3, 4)
    assert (rules.TAIL_SHARE, rules.MAX_TAIL_CHARS, rules.LOOKED_AT_CHARS, rules.NEWLINE_SHARE) == (
        0.3,
        4_000,
        2_000,
        0.2,
    )
    assert rules.NOTHING_TO_TRUNCATE == "no oversized or aggregate tool results"


@pytest.mark.parametrize(
    "window,configured,cap",
    [
        pytest.param(4_000, None, 4_800, id="three tenths of a small window"),
        pytest.param(99_999, None, 16_000, id="the hard cap"),
        pytest.param(100_000, None, 32_000, id="of a large window"),
        pytest.param(200_000, None, 64_000, id="of a very large one"),
        pytest.param(200_000, 500, 500, id="configured"),
        pytest.param(200_000, 100_000, 100_000, id="configured above the hard cap"),
        pytest.param(4_000, 100_000, 4_800, id="configured beyond the window's share"),
        pytest.param(0, None, 1, id="no window"),
    ],
)
def test_the_cap(window, configured, cap):
    """A share of the window, and a hard cap that can be configured."""
    assert result_cap_chars(window, configured=configured) == cap


def test_a_result_within_its_cap_is_the_same_object():
    """Nobody pays for what fits."""
    message = result("x" * 100)
    messages = (UserMessage(content="y" * 999), message)

    assert truncate_result(message, cap=100) is message
    assert truncate_results(messages, cap=100, aggregate=100) is messages


def test_a_cut_result_says_how_much_is_gone():
    """Beginning and note fill the cap, and the note's number is true."""
    message = truncate_result(result("x" * 50_000), cap=16_000)

    kept = message.text.count("x")
    assert len(message.text) <= 16_000
    assert kept > 15_900
    assert int(NOTE.search(message.text)[1]) == 50_000 - kept


def test_all_that_tells_whose_result_it_is_stays():
    """Id, name, error flag, details, entry and pictures in their places."""
    message = ToolResultMessage(
        content=(PICTURE, TextBlock(text="x" * 9_000, extra={"k": 1}), PICTURE),
        tool_call_id="c1",
        tool_name="run",
        is_error=True,
        details={"d": 1},
        entry_id="e1",
        timestamp=5,
        extra={"more": True},
    )

    cut = truncate_result(message, cap=3_000)

    assert attrs.evolve(cut, content=()) == attrs.evolve(message, content=())
    assert [type(block) for block in cut.content] == [ImageBlock, TextBlock, ImageBlock]
    assert cut.content[1].extra == {"k": 1}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("ValueError: the port is taken; error 98", id="an error"),
        pytest.param("12 passed, 3 failed", id="failures"),
        pytest.param('"last": true\n}\n', id="a closing brace"),
        pytest.param("Total: 1,234 rows", id="a sum"),
    ],
)
def test_an_important_end_is_kept(end):
    """The middle goes, and it is said that it did."""
    cut = truncate_result(result("x" * 50_000 + "\n" + end), cap=16_000).text

    assert end in cut
    assert "the middle is left out" in cut
    assert len(cut) <= 16_000


def test_the_end_takes_at_most_four_thousand_characters():
    """Three tenths of the room, and no more than that."""
    small = truncate_result(result("x" * 50_000 + "y" * 6_000 + " error"), cap=4_000).text
    large = truncate_result(result("x" * 90_000 + "y" * 6_000 + " error"), cap=64_000).text

    assert 1_000 < small.count("y") < 1_200
    assert 3_900 < large.count("y") < 4_000


def test_an_end_that_says_nothing_is_not_kept():
    """The beginning gets the room."""
    cut = truncate_result(result("x" * 50_000 + "y" * 3_000), cap=16_000).text

    assert "y" not in cut.partition("\n")[0]


def test_a_cut_prefers_the_end_of_a_line():
    """Within a fifth of the room; a line that is longer is cut where it is."""
    lines = "".join(f"line {number:04}\n" for number in range(900))

    cut = truncate_result(result(lines), cap=2_000).text.splitlines()

    assert set(map(len, cut[:-1])) == {9}
    assert chars(truncate_result(result("a\n" + "x" * 9_000), cap=2_000)) > 1_900


def test_blocks_share_the_cap_by_their_length():
    """The longer one keeps more, and a short one is left whole."""
    cut = truncate_result(result("a" * 60_000, "b" * 20_000, "c" * 2_000), cap=16_000)

    sizes = [len(block.text) for block in cut.content]
    assert sizes[0] > sizes[1] > sizes[2] == 2_000
    assert sum(sizes) <= 16_000


def test_a_thousand_blocks_become_one():
    """Each alone would have no room for a note."""
    texts = [f"row {number}" for number in range(1_000)]

    cut = truncate_result(ToolResultMessage(content=(PICTURE, *map(as_block, texts), PICTURE)), cap=500)

    assert [type(block) for block in cut.content] == [ImageBlock, TextBlock, ImageBlock]
    assert cut.content[1].text.startswith("row 0\nrow 1\n")
    assert chars(cut) <= 500


def as_block(text):
    """Return a block of text."""
    return TextBlock(text=text)


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param("\ud83d\ude00", id="two halves"),
        pytest.param("e\u0301", id="an accent"),
        pytest.param("\U0001f468\u200d\U0001f469\u200d\U0001f467 ", id="a family"),
        pytest.param("\U0001f44d\U0001f3fd", id="a colour"),
        pytest.param("\u0915\u094d ", id="a vowel sign"),
    ],
)
@pytest.mark.parametrize("important", [False, True])
def test_no_character_is_parted(unit, important):
    """What is kept of the text is made of whole characters, wherever the cut falls."""
    for room in range(600, 612):
        cut = cut_text(unit * 2_000 + ("\nerror" if important else ""), room)
        body = cut[: cut.rindex("\n[truncated")]
        for piece in body.removesuffix("error").split("\n\n[... the middle is left out ...]\n\n"):
            assert piece.replace(unit.strip(), "").strip() == ""


def test_a_character_of_a_thousand_marks_is_cut_somewhere():
    """Looking for its beginning has an end, and two halves still stay together."""
    assert len(cut_text("e" + "\u0301" * 9_000, 500)) > 450
    for room in range(500, 510):
        cut = cut_text("\ud83d\ude00\u200d" * 900 + "\nerror", room)
        assert not re.search("\ud83d(?!\ude00)|(?<!\ud83d)\ude00", cut)


def test_a_note_in_foreign_text_is_text():
    """Only at the end it is a note; and even there the cap holds."""
    foreign = "[truncated: 5 characters were cut] and more"

    assert not is_cut(foreign)
    assert is_cut("x\n[truncated: 5 characters were cut]")
    assert len(cut_text("x" * 900 + "\n[truncated: 5 characters were cut]", 300)) <= 300


def test_what_is_cut_again_adds_up():
    """The note says how much is gone of what the tool gave."""
    twice = cut_text(cut_text("x" * 9_000, 3_000), 1_000)

    assert int(NOTE.search(twice)[1]) == 9_000 - twice.count("x")
    assert len(NOTE.findall(twice)) == 1


def test_together_the_oldest_gives_way_first():
    """The newest stays whole, and each keeps 2,000 characters."""
    messages = [result("a" * 6_000), result("b" * 6_000), result("c" * 6_000)]

    cut = truncate_results(messages, cap=16_000, aggregate=12_000)

    assert [len(message.text) <= 2_000 for message in cut] == [True, False, False]
    assert chars(*cut) <= 12_000
    assert cut[2] is messages[2]


def test_one_result_alone_has_no_others():
    """An aggregate is for two and more."""
    messages = [UserMessage(content="u"), result("a" * 6_000)]

    assert truncate_results(messages, cap=16_000, aggregate=100) is messages


def test_what_was_cut_in_an_earlier_turn_is_not_cut_again():
    """The provider has it in its cache."""
    old = truncate_result(result("a" * 50_000), cap=6_000)
    messages = [old, result("b" * 6_000), result("c" * 6_000)]

    cut = truncate_results(messages, cap=16_000, aggregate=12_000)

    assert cut[0] is old
    assert len(cut[1].text) <= 2_000


def test_recovery_empties_the_oldest():
    """Down to the note that says so; even what was cut before."""
    old = truncate_result(result("a" * 50_000), cap=6_000)
    messages = [old, result("b" * 6_000), result("c" * 6_000)]

    cut = truncate_results(messages, cap=16_000, aggregate=6_000, recovery=True)

    assert [len(message.text) <= 64 for message in cut] == [True, True, False]
    assert NOTE.search(cut[0].text)
    assert int(NOTE.search(cut[1].text)[1]) == 6_000 - cut[1].text.count("b")


def test_what_is_to_be_rewritten():
    """Only entries of the transcript, with their ids, and only those that change."""
    messages = [
        UserMessage(content="u" * 9_999, entry_id="u1"),
        result("a" * 9_000, entry_id="r1"),
        result("b" * 9_000, entry_id=None),
        result("c" * 10, entry_id="r3"),
    ]

    found = oversized_results(messages, cap=5_000)

    assert [item.entry_id for item in found] == ["r1"]
    assert found[0].message.entry_id == "r1"
    assert oversized_results(messages[:1] + messages[3:], cap=5_000) == []


@st.composite
def conversations(draw):
    """Draw calls with their results, some of them of several blocks, some cut before."""
    messages = [UserMessage(content="u")]
    for number in range(draw(st.integers(0, 4))):
        texts = draw(st.lists(st.text("ab\n\u0301\ud83d\ude00}", max_size=300), max_size=3))
        texts = [text * draw(st.integers(1, 3)) for text in texts]
        texts = [cut_text(text, draw(st.integers(0, 300))) if draw(st.booleans()) else text for text in texts]
        blocks = [*map(as_block, texts), *[PICTURE] * draw(st.integers(0, 1))]
        messages.append(AssistantMessage(content=(ToolCallBlock(id=f"c{number}", name="run"),)))
        messages.append(ToolResultMessage(content=blocks, tool_call_id=f"c{number}", entry_id=f"e{number}"))
    return messages


@given(
    messages=conversations(),
    cap=st.integers(0, 700),
    aggregate=st.none() | st.integers(0, 900),
    recovery=st.booleans(),
)
def test_the_law_of_the_cut(messages, cap, aggregate, recovery):
    """The cap holds; nothing grows; pairs, pictures and all else stay; and a second time changes nothing."""
    cut = truncate_results(messages, cap=cap, aggregate=aggregate, recovery=recovery)

    assert all(chars(message) <= cap for message in results_of(cut))
    assert pairs_are_whole(cut)
    for old, new in zip(messages, cut, strict=True):
        assert chars(new) <= chars(old)
        assert attrs.evolve(new, content=()) == attrs.evolve(old, content=())
        if new != old:
            assert [b for b in new.content if b == PICTURE] == [b for b in old.content if b == PICTURE]
    assert truncate_results(cut, cap=cap, aggregate=aggregate, recovery=recovery) is cut


@given(messages=conversations(), cap=st.integers(0, 900))
def test_the_law_of_recovery(messages, cap):
    """What is said to be reducible is freed at least; nothing is, exactly where nothing is to be rewritten."""
    promised = reducible_chars(messages, cap=cap)

    found = {item.entry_id: item.message for item in oversized_results(messages, cap=cap)}

    left = [found.get(message.entry_id, message) for message in messages]
    assert chars(*messages) - chars(*left) >= promised
    assert bool(promised) is bool(found)
    assert oversized_results(left, cap=cap) == []
    together = chars(*results_of(left))
    assert together <= max(cap, 64 * len(results_of(left))) or len(results_of(left)) < 2


@given(text=st.text("ab \n\u0301\u200d\ud83d\ude00", max_size=900), room=st.integers(0, 900))
def test_the_law_of_a_text(text, room):
    """It has the length that was asked for, and begins as it did."""
    cut = cut_text(text, room)

    assert len(cut) <= max(0, room) or cut == text
    assert cut == text or len(cut) < len(text)
    assert is_cut(cut) or text.startswith(cut)
