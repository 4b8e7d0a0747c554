"""Heartbeats: marked for good, and gone from later prompts where nothing came of them."""

import contextlib

import attrs
import pytest

from openclaw_ctx.contract import (
    AssistantMessage,
    CustomMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.runtime import heartbeat as rules
from openclaw_ctx.runtime.heartbeat import filter_heartbeats, is_heartbeat, mark_heartbeat
from openclaw_ctx.transcript import Transcript

BEAT = mark_heartbeat(UserMessage(content="Anything to do?"))
U = UserMessage(content="hello")


def answered(*blocks):
    """Return an answer of these blocks, or of a text."""
    return AssistantMessage(content=blocks[0] if isinstance(blocks[0], str) else blocks)


def test_the_tokens_are_the_reference_systems():
    """Models are told of them in these words."""
    assert (rules.HEARTBEAT_OK, rules.SILENT_REPLY) == ("HEARTBEAT_OK", "NO_REPLY")


def test_a_mark_is_read_again_from_the_file(tmp_path):
    """It is on the message's line, beside whatever else is there."""
    path = tmp_path / "session.jsonl"
    with contextlib.closing(Transcript.open(path)) as transcript:
        written = transcript.append(mark_heartbeat(UserMessage(content="tick", extra={"channel": "clock"})))
        transcript.append(U)

    with contextlib.closing(Transcript.read(path)) as again:
        beat, said = again.history
        assert beat == written
        assert beat.extra == {"channel": "clock", "isHeartbeat": True}
        assert [is_heartbeat(message) for message in (beat, said)] == [True, False]


@pytest.mark.parametrize("mark", [False, None, 1, "true"])
def test_only_true_is_a_mark(mark):
    """What somebody else means by such a field is not known."""
    assert not is_heartbeat(attrs.evolve(U, extra={"isHeartbeat": mark}))


def test_no_other_role_is_a_heartbeat():
    """It opens a turn, and only the user's message does."""
    assert not is_heartbeat(CustomMessage(content="tick", extra={"isHeartbeat": True}))


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param([answered("HEARTBEAT_OK")], id="acknowledged"),
        pytest.param([answered(" **HEARTBEAT_OK.**\n")], id="with punctuation"),
        pytest.param([answered("NO_REPLY")], id="silent"),
        pytest.param([answered(" " * 99)], id="blank"),
        pytest.param([AssistantMessage(stop_reason="error")], id="failed"),
        pytest.param([], id="missing"),
        pytest.param([answered(ThinkingBlock(thinking="hm"), TextBlock(text="HEARTBEAT_OK"))], id="with a thought"),
        pytest.param([answered("HEARTBEAT_OK"), answered("NO_REPLY")], id="said twice"),
    ],
)
def test_an_idle_heartbeat_goes_with_its_reply(reply):
    """What was before and what comes behind stays, as the same objects."""
    before, after = [U, answered("hi")], [U, answered("bye")]

    kept = filter_heartbeats([*before, BEAT, *reply, *after])

    assert [id(message) for message in kept] == [id(message) for message in (*before, *after)]


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param([answered("Your train is late.")], id="it says something"),
        pytest.param([answered("HEARTBEAT_OK, but your train is late.")], id="it says something beside"),
        pytest.param([answered("HEARTBEAT_OK" + "!" * 99)], id="more than a little punctuation"),
        pytest.param([answered(ToolCallBlock(id="1", name="look"))], id="it called a tool"),
        pytest.param(
            [
                answered(ToolCallBlock(id="1", name="look")),
                ToolResultMessage(tool_call_id="1", content="nothing"),
                answered("HEARTBEAT_OK"),
            ],
            id="a tool ran",
        ),
        pytest.param([ToolResultMessage(tool_call_id="1"), answered("HEARTBEAT_OK")], id="a result without its call"),
        pytest.param([answered(ImageBlock(data="aGk=", mime_type="image/png"))], id="it drew something"),
    ],
)
def test_a_heartbeat_that_came_to_something_stays(reply):
    """The same sequence comes back."""
    messages = [BEAT, *reply, U]

    assert filter_heartbeats(messages) is messages


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([U, BEAT], id="unanswered"),
        pytest.param([U, BEAT, answered("HEARTBEAT_OK")], id="answered"),
        pytest.param([attrs.evolve(BEAT, extra={}), answered("HEARTBEAT_OK"), U], id="unmarked"),
        pytest.param([], id="nothing"),
    ],
)
def test_the_last_turn_and_the_users_own_stay(messages):
    """The last one is running, and must see what it is asked."""
    assert filter_heartbeats(messages) is messages


def test_what_others_put_in_between_stays():
    """It may be of use to whoever reads on."""
    note = CustomMessage(content="The door was opened.")

    assert filter_heartbeats([BEAT, note, answered("HEARTBEAT_OK"), U]) == (note, U)
