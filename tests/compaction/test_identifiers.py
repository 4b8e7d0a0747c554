"""Identifiers: what looks like one, which ones count, and whether a summary holds them."""

import pytest

from openclaw_ctx import AssistantMessage, ToolResultMessage, UserMessage
from openclaw_ctx.compaction import identifiers as module
from openclaw_ctx.compaction.identifiers import find_identifiers, holds_identifier

UUID = "123e4567-e89b-12d3-a456-426614174000"


def user(text):
    """Return what a user said."""
    return UserMessage(content=text)


def test_the_constants_are_the_reference_s():
    """Twelve of the last ten messages, of four characters at least."""
    assert (module.MOST_IDENTIFIERS, module.LOOKED_AT_MESSAGES, module.MIN_IDENTIFIER_CHARS) == (12, 10, 4)


@pytest.mark.parametrize(
    "text,found",
    [
        pytest.param("see https://a.example/x?y=1#z.", ("https://a.example/x?y=1#z",), id="an address in a sentence"),
        pytest.param("(see http://a.example/b)", ("http://a.example/b",), id="an address in parentheses"),
        pytest.param("http://a.example/b_(c)", ("http://a.example/b_(c)",), id="an address with parentheses"),
        pytest.param("看https://a.example/b。", ("https://a.example/b",), id="an address between ideographs"),
        pytest.param("postgres://db:5432/x", ("postgres://db:5432/x",), id="any scheme"),
        pytest.param("open /etc/app/a.conf, then", ("/etc/app/a.conf",), id="a path"),
        pytest.param("~/notes/a.md", ("~/notes/a.md",), id="a path at home"),
        pytest.param(r"at C:\Users\a.txt", (r"C:\Users\a.txt",), id="a path of Windows"),
        pytest.param("either/or /compact a/b/c ./a/b", (), id="no absolute paths"),
        pytest.param("db.example.org:5432 localhost:80", ("db.example.org:5432", "localhost:80"), id="hosts and ports"),
        pytest.param("at 12:30, ratio 16:9, note:123", (), id="no hosts"),
        pytest.param(f"run {UUID}", (UUID,), id="a UUID is one"),
        pytest.param("commit DEADbeef1 and deadBEEF1", ("DEADbeef1",), id="hexadecimal, whatever its case"),
        pytest.param("0xdeadbeef", ("0xdeadbeef",), id="hexadecimal with its sign"),
        pytest.param("bead 1234567 12345 x1234567", ("1234567",), id="long runs of digits"),
        pytest.param("a" * 300, (), id="data"),
        pytest.param("/a/b", ("/a/b",), id="four characters"),
    ],
)
def test_what_looks_like_an_identifier(text, found):
    """And what does not."""
    assert find_identifiers([user(text)]) == found


def test_the_last_ten_messages_are_searched():
    """The eleventh is not."""
    messages = [user(f"/dir/file{number}") for number in range(11)]

    assert set(find_identifiers(messages)) == {f"/dir/file{number}" for number in range(1, 11)}


def test_twelve_count_and_the_newest_go_first():
    """Each once."""
    messages = [user(" ".join(f"/old/{number} /old/{number}" for number in range(12))), user("/new/1")]

    found = find_identifiers(messages)

    assert len(found) == len(set(found)) == 12
    assert found[0] == "/new/1"


def test_what_people_and_models_wrote_goes_before_output():
    """A listing of files drives out no address that the user gave."""
    listing = ToolResultMessage(tool_call_id="c", content=" ".join(f"/out/{number}" for number in range(20)))

    found = find_identifiers([user("/said/1"), AssistantMessage(content="/said/2"), listing])

    assert found[:2] == ("/said/2", "/said/1")
    assert found[2:] == tuple(f"/out/{number}" for number in range(10))


def test_32000_characters_of_a_message_are_read():
    """What stands across that border is left out rather than cut."""
    assert find_identifiers([user(" " * 31_995 + "/a/b")]) == ("/a/b",)
    assert find_identifiers([user(" " * 31_997 + "/a/b/c/d")]) == ()
    assert find_identifiers([user(" " * 31_996 + "/a/bcd")]) == ()


@pytest.mark.parametrize(
    "text,name,held",
    [
        ("at /a/b.", "/a/b", True),
        ("at /a/b.c", "/a/b", False),
        ("at /x/a/b", "/a/b", False),
        ("`DEADBEEF1`", "deadbeef1", True),
        ("deadbeef12", "deadbeef1", False),
        ("/A/B", "/a/b", False),
        (UUID.upper(), UUID, True),
        ("http://a.example/b", "a.example", True),
        ("a.b.example:80", "b.example:80", False),
        ("1234567", "123456", False),
        ("看1234567吧", "1234567", True),
    ],
)
def test_an_identifier_is_held_whole(text, name, held):
    """As a part of a longer one it is another's; only hexadecimal digits have no case."""
    assert holds_identifier(text, name) is held


@pytest.mark.parametrize(
    "text", ["a", "#", "/", "/a", "a.", "a:", "a://", "-", "0x", "9", "a-", "\\", "(", "~"], ids=repr
)
def test_a_megabyte_is_read_in_one_pass(text):
    """A pattern that went back over it would not come to an end."""
    long = text * (1_000_000 // len(text))

    assert all(len(name) <= 256 for name in find_identifiers([user(long)]))
    assert not holds_identifier(long, text * 4 + "zz")
