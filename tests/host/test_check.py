"""What an engine assembled is made safe to send, whatever it left out or put in."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import (
    AssembleResult,
    AssistantMessage,
    CustomMessage,
    EntryId,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.host.check import CheckedPrompt, check_prompt
from openclaw_ctx.host.results import InvalidResult
from openclaw_ctx.tokens import estimate_tokens
from openclaw_ctx.transcript import Entry, History, Transcript, pairs_are_whole


def user(text: str, entry_id: str | None = None) -> UserMessage:
    """Return a user's message."""
    return UserMessage(content=text, entry_id=EntryId(entry_id) if entry_id else None)


def calls(call_id: str, entry_id: str | None = None) -> AssistantMessage:
    """Return a reply with one call."""
    content = [ToolCallBlock(id=call_id, name="read")]
    return AssistantMessage(content=content, entry_id=EntryId(entry_id) if entry_id else None)


def result(call_id: str, entry_id: str | None = None) -> ToolResultMessage:
    """Return a tool's answer."""
    found = EntryId(entry_id) if entry_id else None
    return ToolResultMessage(tool_call_id=call_id, tool_name="read", content="r", entry_id=found)


def check(messages: Any, history: Any) -> CheckedPrompt:
    """Check with a counter that takes one token a message."""
    return check_prompt(AssembleResult(messages=messages), history, count=lambda _: 1)


@pytest.fixture(name="history")
def _history(tmp_path: Path):
    """Return a function that puts messages into a transcript and gives its history."""
    transcript = Transcript.open(tmp_path / "s.jsonl")

    def made(*messages: Message) -> Any:
        for message in messages:
            transcript.append(message)
        return transcript.history

    yield made
    transcript.close()


def test_what_is_right_is_passed_on_untouched(history) -> None:
    """The engine's own sequence, counted by the host, with nothing to report."""
    given_ = history(user("u"), calls("a"), result("a"))

    checked = check(given_, given_)

    assert checked.messages is given_
    assert checked.estimated_tokens == 3
    assert checked.repairs == ()


@pytest.mark.parametrize("as_list", [pytest.param(True, id="a-new-list"), pytest.param(False, id="the-hosts-own")])
def test_a_loose_tool_result_never_reaches_the_model(history, as_list: bool) -> None:  # noqa: FBT001 -- a case
    """B03: dropped and reported, whether the engine made the list or gave back the history that holds it."""
    note = CustomMessage(content="knowledge", custom_type="k")
    given_ = history(note, result("x"), user("go"))

    checked = check(list(given_) if as_list else given_, given_)

    assert [message.text for message in checked.messages] == ["knowledge", "go"]
    assert checked.repairs == ("1 tool result without its call dropped",)
    assert checked.estimated_tokens == 2


def test_every_kind_of_repair_has_its_phrase(history) -> None:
    """What was done is said once each, with its number."""
    given_ = history(user("go"))
    odd = [
        AssistantMessage(),
        UserMessage(content=[TextBlock(text=""), TextBlock(text="look")]),
        user(""),
        calls("b"),
        ToolResultMessage(tool_call_id="b", tool_name="read"),
        result("loose"),
        calls("a"),
        user("between"),
        result("a"),
        result("a"),
        calls("a"),
        given_[0],
    ]

    checked = check(odd, given_)

    assert checked.repairs == (
        "1 empty message left out",
        "1 blank text block removed",
        "1 blank user message sent as (continue)",
        "1 empty tool result sent as (no output)",
        "1 missing tool result added",
        "1 repeated tool result dropped",
        "1 tool result without its call dropped",
        "1 tool result moved behind its call",
        "1 tool call renamed",
    )


def test_nothing_at_all_is_a_fault(history) -> None:
    """A model cannot be sent nothing, and the history has something."""
    given_ = history(user("u"))

    with pytest.raises(InvalidResult, match="no messages, of a history of 1"):
        check([], given_)


def test_loose_results_alone_are_a_fault(history) -> None:
    """Nothing is left of them once they are dropped, while the history has something to send."""
    given_ = history(CustomMessage(content="note"), result("x"))

    with pytest.raises(InvalidResult, match="tool results without their calls alone"):
        check([given_[1]], given_)


def test_empty_messages_alone_are_a_fault(history) -> None:
    """Nothing is left of them, while the history has something to send."""
    given_ = history(CustomMessage(content="note"), AssistantMessage(stop_reason="error"))

    with pytest.raises(InvalidResult, match="empty messages alone, of a history of 2"):
        check([given_[1]], given_)


def test_a_history_of_which_nothing_can_be_sent_is_no_fault(history) -> None:
    """No engine could do better; the legacy one answers with what is left, which is nothing."""
    given_ = history(AssistantMessage(stop_reason="error"), result("x"), CustomMessage(content=" "))

    checked = check(given_, given_)

    assert (list(checked.messages), checked.estimated_tokens) == ([], 0)
    assert checked.repairs == ("2 empty message left out", "1 tool result without its call dropped")


def test_nothing_of_nothing_is_nothing() -> None:
    """An empty session may be assembled."""
    assert check([], []) == CheckedPrompt(messages=[], estimated_tokens=0)


def test_the_users_message_is_put_back(history) -> None:
    """The engine dropped the question: it goes where the history has it, and that is reported."""
    given_ = history(user("old"), AssistantMessage(content="answer"), user("the question"), calls("a"), result("a"))

    checked = check([given_[1], given_[3], given_[4]], given_)

    assert [m.entry_id for m in checked.messages] == [given_[i].entry_id for i in (1, 2, 3, 4)]
    assert checked.repairs == ("the turn's user message restored",)
    assert checked.estimated_tokens == 4


def test_a_slice_of_the_history_without_the_question_gets_it_back(history) -> None:
    """Being the host's own sequence does not make it complete."""
    given_ = history(user("the question"), calls("a"), result("a"), AssistantMessage(content="so"))

    checked = check(given_[1:], given_)

    assert checked.messages == (given_[0], *given_[1:])
    assert checked.repairs == ("the turn's user message restored",)


def test_the_question_goes_to_the_end_where_nothing_follows_it(history) -> None:
    """Nothing of what the engine kept came later."""
    given_ = history(AssistantMessage(content="before"), user("the question"))

    checked = check([given_[0], CustomMessage(content="retrieved")], given_)

    assert [m.text for m in checked.messages] == ["before", "retrieved", "the question"]


def test_putting_the_question_back_parts_no_pair(history) -> None:
    """The user spoke while a tool ran: the question goes behind the results, not between call and result."""
    given_ = history(user("first"), calls("a"), user("meanwhile"), result("a"), AssistantMessage(content="so"))

    checked = check([given_[0], given_[1], given_[3], given_[4]], given_)

    assert pairs_are_whole(checked.messages)
    assert [m.text for m in checked.messages] == ["first", "", "r", "meanwhile", "so"]


def test_an_older_message_of_the_same_words_is_not_the_question(history) -> None:
    """Two messages say "go on"; keeping the older one does not answer for the newer one."""
    given_ = history(user("go on"), AssistantMessage(content="done"), user("go on"))

    checked = check(given_[:2], given_)

    assert [m.entry_id for m in checked.messages] == given_.entry_ids
    assert checked.repairs == ("the turn's user message restored",)


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(lambda asked: asked, id="itself"),
        pytest.param(lambda asked: user("what?\n\nRetrieved: ...", asked.entry_id), id="with-something-added"),
        pytest.param(lambda _: user("what?"), id="written-anew-without-an-id"),
    ],
)
def test_a_question_that_is_there_is_not_repeated(history, kept: Any) -> None:
    """The same entry, whatever an engine made of it, or the same words in a message of its own."""
    given_ = history(user("old"), user("what?"))

    checked = check([kept(given_[1])], given_)

    assert len(checked.messages) == 1
    assert checked.repairs == ()


def test_messages_without_ids_are_told_apart_by_their_words() -> None:
    """A history that is in no transcript yet: another user's message is not the question."""
    history = [user("old"), user("the question")]

    assert [m.text for m in check([user("old")], history).messages] == ["old", "the question"]


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(lambda asked: asked, id="itself"),
        pytest.param(lambda asked: user("what?\n\nRetrieved: ...", asked.entry_id), id="with-something-added"),
        pytest.param(lambda _: UserMessage(content=[]), id="written-anew-without-an-id"),
    ],
)
def test_a_blank_question_that_is_there_is_not_repeated(history, kept: Any) -> None:
    """B72: it goes out as ``(continue)``, once, whatever an engine made of it."""
    given_ = history(user("old"), AssistantMessage(content="well"), user(" \n"))

    checked = check([given_[0], given_[1], kept(given_[2])], given_)

    assert [m.text for m in checked.messages[:2]] == ["old", "well"]
    assert [m.text for m in checked.messages[2:]] in (["(continue)"], ["what?\n\nRetrieved: ..."])


def test_a_blank_question_is_put_back_as_one_that_can_be_sent(history) -> None:
    """An engine that drops what is blank loses no turn: the question goes where the history has it, with words."""
    given_ = history(user("old"), user(""), calls("a"), result("a"))

    checked = check([given_[0], given_[2], given_[3]], given_)

    assert [(m.entry_id, m.text) for m in checked.messages[:2]] == [
        (given_[0].entry_id, "old"),
        (given_[1].entry_id, "(continue)"),
    ]
    assert checked.messages[2:] == (given_[2], given_[3])
    assert checked.repairs == ("the turn's user message restored",)


def test_a_question_without_an_id_is_known_without_its_blanks() -> None:
    """A history that is in no transcript yet: what was removed from the question does not make it another."""
    asked = UserMessage(content=[TextBlock(text=""), TextBlock(text="what?")])

    checked = check([UserMessage(content=list(asked.content))], [asked])

    assert [m.text for m in checked.messages] == ["what?"]
    assert checked.repairs == ("1 blank text block removed",)


def test_tokens_are_those_of_what_is_sent(history) -> None:
    """B02: counted behind every repair, of the messages that are left."""
    given_ = history(user("go"), AssistantMessage(content=[ThinkingBlock(thinking="long " * 99)]), result("x"))

    checked = check_prompt(AssembleResult(messages=given_), given_, count=estimate_tokens)

    assert checked.estimated_tokens == estimate_tokens(user("go"))


def test_a_history_without_a_user_needs_none(history) -> None:
    """There is no question to restore."""
    given_ = history(AssistantMessage(content="hello"), CustomMessage(content="note"))

    assert check([given_[0]], given_).repairs == ()


_PARTS = st.lists(
    st.sampled_from(
        [
            user("u"),
            user("v"),
            calls("a"),
            calls("b"),
            result("a"),
            result("b"),
            AssistantMessage(content="t"),
            CustomMessage(content="c"),
            user(""),
            AssistantMessage(),
            CustomMessage(content=" "),
            UserMessage(content=[TextBlock(text=" "), TextBlock(text="w")]),
            ToolResultMessage(tool_call_id="a", tool_name="read"),
        ]
    ),
    max_size=8,
)


def _says_nothing(message: Message) -> bool:
    return isinstance(message, AssistantMessage | CustomMessage) and not (message.text.strip() or _calls_of(message))


def _calls_of(message: Message) -> tuple[ToolCallBlock, ...]:
    return message.tool_calls if isinstance(message, AssistantMessage) else ()


@settings(max_examples=300, deadline=None)
@given(_PARTS, st.lists(st.integers(0, 7), max_size=8), _PARTS)
def test_any_answer_becomes_a_prompt_that_can_be_sent(
    said: list[Any], picked: list[int], made_up: list[Message]
) -> None:
    """Whatever an engine picked and made up: pairs whole, the last user's message there, the count right."""
    history = [type(m)(**_fields(m), entry_id=EntryId(f"e{i}")) for i, m in enumerate(said)]
    messages = [*(history[i] for i in picked if i < len(history)), *made_up]
    if not messages:
        return

    try:
        checked = check(messages, history)
    except InvalidResult:
        assert all(isinstance(message, ToolResultMessage) or _says_nothing(message) for message in messages)
        return

    asked = [m for m in history if isinstance(m, UserMessage)][-1:]
    assert pairs_are_whole(checked.messages)
    assert checked.estimated_tokens == len(checked.messages)
    assert all(
        any(m.entry_id == a.entry_id or (m.entry_id is None and m.text == _sent(a)) for m in checked.messages)
        for a in asked
    )
    assert all(message.text.strip() or _calls_of(message) for message in checked.messages)
    if checked.messages:
        again = check(checked.messages, history)
        assert (again.messages, again.repairs) == (checked.messages, ())
    else:
        assert all(isinstance(message, ToolResultMessage) or _says_nothing(message) for message in history)


def _sent(asked: UserMessage) -> str:
    return "\n".join(b.text for b in asked.content if isinstance(b, TextBlock) and b.text.strip()) or "(continue)"


def _fields(message: Message) -> dict[str, Any]:
    if isinstance(message, ToolResultMessage):
        return {"content": message.content, "tool_call_id": message.tool_call_id, "tool_name": message.tool_name}
    assert isinstance(message, UserMessage | AssistantMessage | CustomMessage)
    return {"content": message.content}


def test_a_history_that_the_engine_made_is_a_fault():
    """What reads its messages is the engine's code, and would run in whoever looks at them."""
    entries = [Entry(type="message", id=EntryId("a"))]
    own = History(entries, lambda _: UserMessage(content="mine"), 0, 1)
    forged = History(entries, lambda _: UserMessage(content="forged"), 0, 1)

    with pytest.raises(InvalidResult, match="did not make"):
        check_prompt(AssembleResult(messages=forged), own, count=lambda _: 1)

    assert check_prompt(AssembleResult(messages=own[:1]), own, count=lambda _: 1).estimated_tokens == 1
