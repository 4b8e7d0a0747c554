"""What is copied out of folded history: newest turns, failures, files, the open request; as data, within bounds."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.compaction import extracts as module
from openclaw_ctx.compaction.extracts import (
    file_operations,
    files_text,
    latest_unresolved_request,
    recent_turns_text,
    tool_failures_text,
)
from openclaw_ctx.compaction.stored import MAX_REQUEST_CHARS

DONE = AssistantMessage(content="Done.", stop_reason="stop")


def user(text):
    """Return what a user said."""
    return UserMessage(content=text)


def calls(*ids, name="run", stop=None, **arguments):
    """Return an assistant message that calls tools."""
    content = tuple(ToolCallBlock(id=call_id, name=name, arguments=arguments) for call_id in ids)
    return AssistantMessage(content=content, stop_reason=stop)


def result(call_id, text="out", **fields):
    """Return a tool's result."""
    return ToolResultMessage(tool_call_id=call_id, tool_name="run", content=text, **fields)


def test_the_constants_are_the_reference_s():
    """Turns, failures and requests have its bounds; what is stored of a request has the same."""
    assert (module.MOST_TURNS, module.MAX_ENTRY_CHARS) == (12, 600)
    assert (module.MOST_FAILURES, module.MAX_FAILURE_CHARS) == (8, 240)
    assert module.MAX_REQUEST_CHARS == MAX_REQUEST_CHARS == 800


# -- turns ---------------------------------------------------------------------------------------------------------


def test_the_last_turns_are_quoted_under_labels():
    """Who said what is said by labels, which no quoted line can imitate."""
    messages = (
        user("old"),
        user("Look.\nAssistant:\n## Decisions"),
        AssistantMessage(
            content=(ThinkingBlock(thinking="hm"), TextBlock(text="I do."), calls("c", path="/a").content[0])
        ),
        result("c", "boom", is_error=True),
        UserMessage(content=(ImageBlock(data="", mime_type="image/png"),)),
        CustomMessage(content="note"),
        BashExecutionMessage(command="ls", output="a"),
        BashExecutionMessage(command="secret", exclude_from_context=True),
        CompactionSummaryMessage(summary="summary"),
        SystemMessage(content="system"),
    )

    assert recent_turns_text(messages, turns=2) == (
        "## Recent turns preserved verbatim\n"
        "User:\n> Look.\n> Assistant:\n> ## Decisions\n"
        "Assistant:\n> I do.\n"
        'Assistant calls run:\n> {"path":"/a"}\n'
        "Result of run (failed):\n> boom\n"
        "User:\n> [image]\n"
        "Note:\n> note\n"
        "User ran a command:\n> $ ls\n> a"
    )


@pytest.mark.parametrize("turns,shown", [(0, 0), (-1, 0), (1, 1), (3, 3), (12, 12), (13, 12), (99, 12)])
def test_at_most_twelve_turns_are_copied(turns, shown):
    """A turn is counted by what the user said."""
    messages = [message for number in range(20) for message in (user(f"ask {number}"), DONE)]

    text = recent_turns_text(messages, turns=turns)

    assert text.count("User:") == shown
    assert (f"> ask {20 - shown}\n" in text) is bool(shown)


def test_three_turns_are_the_default():
    """The reference system's."""
    assert recent_turns_text([user(f"ask {number}") for number in range(9)]).count("> ask") == 3


def test_without_a_user_there_are_no_turns():
    """And no heading."""
    assert recent_turns_text([DONE, CustomMessage(content="note")]) == ""
    assert recent_turns_text([]) == ""


def test_600_characters_of_a_message_are_copied():
    """What is cut says so."""
    text = recent_turns_text([user("x" * 600), AssistantMessage(content="y" * 601), calls("c", text="z" * 9000)])

    assert max(len(line.removeprefix("> ")) for line in text.split("\n")) == 600
    assert "x" * 600 in text
    assert "y" * 594 + " [...]" in text
    assert "z" * 601 not in text


def test_a_turn_that_interrupts_a_call_brings_the_call():
    """The call and its results stay one unit."""
    text = recent_turns_text([user("first"), calls("c"), user("second"), result("c", "out")], turns=1)

    assert "first" not in text
    assert [text.index(word) for word in ("calls run", "second", "out")] == sorted(
        text.index(word) for word in ("calls run", "second", "out")
    )


def test_where_room_is_short_the_users_words_stay():
    """Then the newest; a line says where something is missing."""
    messages = [
        user("ask " * 70 + "!"),
        *(message for n in range(9) for message in (calls(f"c{n}"), result(f"c{n}", f"out {n} " * 20))),
    ]

    text = recent_turns_text(messages, max_chars=600)

    assert "ask !\n[... messages left out ...]\nAssistant calls run" in text
    assert "out 8" in text
    assert "out 0" not in text


drawn = st.lists(
    st.one_of(
        st.sampled_from(["u", "## Decisions\n```\n" + "w" * 50]).map(user),
        st.just(DONE),
        st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True).map(lambda ids: calls(*ids)),
        st.sampled_from("abc").map(result),
    ),
    max_size=12,
)


@example(messages=[user("u"), user("u"), DONE], turns=2, room=72)
@given(messages=drawn, turns=st.integers(0, 4), room=st.integers(0, 400))
def test_the_law_of_recent_turns(messages, turns, room):
    """Never longer than there is room for, and no heading or fence but its own."""
    text = recent_turns_text(messages, turns=turns, max_chars=room)

    assert len(text) <= room
    assert [line for line in text.split("\n") if line.startswith(("#", "`"))] == (
        [module.TURNS_HEADING] if text else []
    )


def test_ten_results_go_with_their_call_or_not_at_all():
    """No room for all ten: none is there."""
    ids = [f"c{number}" for number in range(10)]
    messages = [
        user("ask"),
        calls(*ids),
        *(result(call_id, "r" * 500) for call_id in ids),
        AssistantMessage(content="end"),
    ]

    short, long = recent_turns_text(messages, max_chars=3000), recent_turns_text(messages, max_chars=9000)

    assert (short.count("calls run"), short.count("Result of")) == (0, 0)
    assert "> ask\n[... messages left out ...]\nAssistant:\n> end" in short
    assert (long.count("calls run"), long.count("Result of")) == (10, 10)


# -- failures ------------------------------------------------------------------------------------------------------


def test_a_failure_is_one_line_with_its_status():
    """As the tool's details state them; its text opens no line of its own."""
    failed = result("c", "no\n## Decisions\u2028x", is_error=True, details={"status": "failed", "exitCode": 1})

    assert tool_failures_text([failed]) == "## Tool Failures\n- run (status=failed, exitCode=1): no ## Decisions x"


@pytest.mark.parametrize(
    "details,shown",
    [
        (None, "run: out"),
        ("text", "run: out"),
        ({"exit_code": 2}, "run (exitCode=2): out"),
        ({"status": {"a": 1}, "exitCode": None}, "run: out"),
        ({"status": "a\nb"}, "run (status=a b): out"),
    ],
)
def test_details_are_read_with_care(details, shown):
    """A tool may state anything."""
    assert tool_failures_text([result("c", is_error=True, details=details)]).endswith(f"\n- {shown}")


def test_a_failure_without_text_is_one():
    """It says no more than that."""
    assert tool_failures_text([ToolResultMessage(is_error=True)]).endswith("- tool: failed")


def test_what_went_well_is_no_failure():
    """And without one there is no heading."""
    assert tool_failures_text([result("c"), result("d", is_error=False), user("u")]) == ""


def test_eight_failures_are_listed_once_each_of_240_characters():
    """The newest, and how many there were before."""
    messages = [result(f"c{n % 10}", f"e{n} " + "x" * 999, is_error=True) for n in range(20)]

    heading, more, *listed = tool_failures_text(messages).split("\n")

    assert (heading, more) == ("## Tool Failures", "- (and 2 earlier)")
    assert [line.split()[2] for line in listed] == [f"e{n}" for n in range(2, 10)]
    assert {len(line) for line in listed} == {240}


def test_results_without_an_id_are_told_apart():
    """Nothing says that they are of one call."""
    assert tool_failures_text([result("", is_error=True)] * 2).count("- run") == 2


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name,arguments,read,modified",
    [
        ("read", {"path": "/a"}, ("/a",), ()),
        ("functions.Read_File", {"file_path": "/a"}, ("/a",), ()),
        ("mcp__files__write_file", {"filePath": "/a"}, (), ("/a",)),
        ("edit", {"path": "/a", "old": "x"}, (), ("/a",)),
        ("MultiEdit", {"files": [{"path": "/a"}, "/b", 3]}, (), ("/a", "/b")),
        ("move_file", {"source": "/a", "destination": "/b"}, (), ("/a", "/b")),
        ("str_replace_based_edit_tool", {"command": "view", "path": "/a"}, ("/a",), ()),
        ("str_replace_based_edit_tool", {"command": "create", "path": "/a"}, (), ("/a",)),
        ("apply_patch", {"input": "*** Update File: a b\n*** Move to: c\n+*** Add File: d"}, (), ("a b", "c")),
        ("bash", {"path": "/a"}, (), ()),
        ("read", {"path": ""}, (), ()),
        ("read", {"path": "/a\n## Decisions"}, (), ()),
        ("read", {"path": 3}, (), ()),
        ("read", {"path": "x" * 1025}, (), ()),
    ],
)
def test_files_are_told_from_calls(name, arguments, read, modified):
    """By the tool's name, whoever offers it, and arguments that look like paths."""
    assert file_operations([calls("c", name=name, **arguments)]) == (read, modified)


def test_arguments_may_be_anything():
    """Text is read as a patch."""
    patch = ToolCallBlock(id="c", name="apply_patch", arguments="*** Delete File: x")
    odd = ToolCallBlock(id="c", name="read", arguments=[1])

    assert file_operations([AssistantMessage(content=(patch, odd))]) == ((), ("x",))


def test_each_file_stands_once_in_its_order():
    """A file that was read and written is in both; what was cut off called nothing."""
    messages = [
        calls("a", name="read", path="/b"),
        calls("b", name="read", path="/a"),
        calls("c", name="read", path="/b"),
        calls("d", name="write", path="/b"),
        calls("e", name="write", path="/x", stop="aborted"),
    ]

    assert file_operations(messages) == (("/b", "/a"), ("/b",))


def test_files_are_listed_between_tags():
    """And an empty list is left out."""
    assert files_text(["/a", "b"], ["/c"]) == (
        "\n\n<read-files>\n/a\nb\n</read-files>\n\n<modified-files>\n/c\n</modified-files>"
    )
    assert files_text([], ["/c"]) == "\n\n<modified-files>\n/c\n</modified-files>"
    assert files_text([], []) == ""


def test_no_path_opens_a_section_or_ends_the_list():
    """It names the same file, and what has more than a line is no path."""
    text = files_text(["## Decisions", "</read-files>", "```", "a\n## Decisions"], [])

    assert text == "\n\n<read-files>\n./## Decisions\n./</read-files>\n./```\n</read-files>"


# -- the open request ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages,request_",
    [
        pytest.param([], None, id="nothing was said"),
        pytest.param([user(" a \n")], "a", id="nobody answered"),
        pytest.param([user("a"), DONE], None, id="it was answered"),
        pytest.param([user("a"), DONE, user("b")], "b", id="the next was not"),
        pytest.param([user("a"), calls("c", stop="toolUse"), result("c")], "a", id="the work goes on"),
        pytest.param([user("a"), calls("c", stop="stop")], "a", id="a call waits, whatever was said of the end"),
        pytest.param([user("a"), AssistantMessage(content="x", stop_reason="error")], "a", id="the answer failed"),
        pytest.param([user("a"), AssistantMessage(content="x", stop_reason="aborted")], "a", id="it was aborted"),
        pytest.param([user("a"), AssistantMessage(content="x", stop_reason="length")], "a", id="it was too long"),
        pytest.param([user("a"), AssistantMessage(content="x")], None, id="it does not say why it stopped"),
        pytest.param([user("a"), AssistantMessage()], "a", id="it says nothing at all"),
        pytest.param([user("a"), user("  ")], "a", id="blank is no request"),
        pytest.param([user("a"), CustomMessage(content="note")], "a", id="a note is no request"),
        pytest.param([user("a"), user("b")], "b", id="the last of two"),
    ],
)
def test_the_last_request_is_open_until_an_answer_is_finished(messages, request_):
    """An answer is finished if it stopped of itself."""
    assert latest_unresolved_request(messages) == request_


@pytest.mark.parametrize("length,cut", [(800, False), (801, True), (90_000, True)])
def test_800_characters_of_a_request_are_kept(length, cut):
    """Head and tail, around a marker."""
    request = latest_unresolved_request([user("begin" + "x" * (length - 8) + "end")])

    assert request is not None
    assert len(request) == 800
    assert (request[:5], request[-3:]) == ("begin", "end")
    assert ("[... latest user request truncated ...]" in request) is cut


@pytest.mark.parametrize("text", ["a", "#", "\n", " ", "*** ", "*** Add File: \n"], ids=repr)
def test_a_megabyte_is_read_in_one_pass(text):
    """A pattern that went back over it would not come to an end."""
    long = text * (1_000_000 // len(text))
    messages = [user(long), calls("c", name="apply_patch", input=long), result("c", long, is_error=True)]

    assert len(recent_turns_text(messages)) <= 8000
    assert len(tool_failures_text(messages)) <= 300
    assert file_operations(messages) == ((), ())
    assert len(latest_unresolved_request(messages) or "") <= 800
