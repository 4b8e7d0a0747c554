"""An engine's answer is looked at whatever the engine has done to it before."""

import attrs
import pytest

from openclaw_ctx.contract import AssembleResult, AssistantMessage, TextBlock, UserMessage
from openclaw_ctx.host import InvalidResult, structure_result
from openclaw_ctx.tokens import TokenCounter, estimate_tokens
from openclaw_ctx.transcript import Transcript


def _assembled(*messages):
    return structure_result("assemble", AssembleResult(messages=messages))


@pytest.mark.parametrize("count", [estimate_tokens, TokenCounter(len)], ids=["the-hosts-counter", "one-of-its-own"])
def test_a_message_that_the_engine_has_counted_is_looked_at_all_the_same(count):
    """Counting is the engine's to do, so it proves nothing."""
    odd = AssistantMessage(content=(TextBlock(text="fine"),), entry_id=7, stop_reason=3)
    count(odd)

    with pytest.raises(InvalidResult, match=r"AssistantMessage\.entry_id: expected str, not 7"):
        _assembled(UserMessage(content="Hello"), odd)


def test_a_changed_copy_of_a_message_that_passed_is_looked_at_anew():
    """What was found of one value says nothing of another."""
    message = UserMessage(content="Hello")
    _assembled(message)

    with pytest.raises(InvalidResult, match=r"UserMessage\.timestamp"):
        _assembled(attrs.evolve(message, timestamp="now"))


class _Watched(tuple):  # noqa: SLOT001 -- counts on itself
    """Content that knows how often it has been walked."""

    def __iter__(self):
        self.walks = getattr(self, "walks", 0) + 1
        return super().__iter__()


def test_a_message_is_looked_at_once():
    """A long history costs its first look; afterwards each message costs a comparison."""
    content = _Watched([TextBlock(text="Hello")])
    message = UserMessage()
    object.__setattr__(message, "content", content)

    for _ in range(3):
        _assembled(message)

    assert content.walks == 1


def test_what_a_transcript_holds_passes(tmp_path):
    """Its messages, copied into a list of the engine's."""
    transcript = Transcript.open(tmp_path / "s.jsonl")
    transcript.append(UserMessage(content="Hello"))

    result = structure_result("assemble", AssembleResult(messages=list(transcript.history)))

    transcript.close()

    assert [message.text for message in result.messages] == ["Hello"]
