"""Whose thinking a provider takes back."""

import pytest

from openclaw_ctx.contract import AssistantMessage, TextBlock, ThinkingBlock, UnknownBlock
from openclaw_ctx.runtime.rules import PromptRules
from openclaw_ctx.runtime.thinking import (
    has_signed_thinking,
    is_thinking,
    is_trusted,
    refuses_signature,
    without_signature,
)

SIGNED = ThinkingBlock(thinking="hm", signature="c2ln")
PLAIN = ThinkingBlock(thinking="hm")
OWN = UnknownBlock(data={"type": "thinking", "thinking": "hm"})
WORDS = TextBlock(text="words")


@pytest.mark.parametrize(
    "made_by,asked,settled,running",
    [
        pytest.param(("here", "big"), ("here", "big"), True, True, id="the same"),
        pytest.param(("there", "big"), ("here", "big"), False, False, id="another provider"),
        pytest.param(("here", "small"), ("here", "big"), False, True, id="another model"),
        pytest.param((None, "big"), ("here", "big"), True, True, id="a provider that is not told"),
        pytest.param((None, "small"), ("here", "big"), False, True, id="another model of nobody's"),
        pytest.param((None, None), ("here", "big"), True, True, id="nobody says"),
        pytest.param(("there", "small"), (None, None), True, True, id="nobody asks"),
        pytest.param(("here", "big-20250514"), ("here", "big"), True, True, id="the version of a name"),
        pytest.param(("here", "big-2025-05-14"), ("here", "big-latest"), True, True, id="the version of the latest"),
        pytest.param(("here", "Big"), ("here", "here/big"), True, True, id="a provider before the name"),
        pytest.param(("here", "big-2"), ("here", "big"), False, True, id="a name that goes on"),
    ],
)
def test_who_is_trusted(made_by, asked, settled, running):
    """The same provider's same model; in the running turn the provider's is enough."""
    message = AssistantMessage(provider=made_by[0], model=made_by[1])
    rules = PromptRules(provider=asked[0], model=asked[1])

    assert is_trusted(message, rules, running=False) is settled
    assert is_trusted(message, rules, running=True) is running


def test_what_is_thinking():
    """Of the contract's kind or a provider's own."""
    assert [is_thinking(block) for block in (SIGNED, PLAIN, OWN, WORDS)] == [True, True, True, False]
    assert not is_thinking(UnknownBlock(data="thinking"))
    assert not is_thinking(UnknownBlock(data={"type": "video"}))


def test_which_thinking_is_signed():
    """A provider's own block is its own to read."""
    signed = [has_signed_thinking(AssistantMessage(content=[WORDS, block])) for block in (SIGNED, PLAIN, OWN, WORDS)]

    assert signed == [True, False, True, False]


def test_without_a_signature_the_thought_is_left():
    """The same object where there was none; nothing where nothing can be read."""
    assert without_signature(SIGNED) == PLAIN
    assert without_signature(PLAIN) is PLAIN
    assert without_signature(ThinkingBlock(thinking="[hidden]", signature="x", extra={"redacted": True})) is None
    assert without_signature(OWN) is None


@pytest.mark.parametrize(
    "said",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.3.content.0: Invalid signature in thinking block",
        "messages.3.content.1: Invalid `signature` in `redacted_thinking` block",
        "messages.5.content.0.thinking.signature: Field required",
        "ValidationException: messages.1.content.0.thinking.signature: Input should be a valid string",
        (
            "messages.7.content.1: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
            "modified. These blocks must remain as they were in the original response."
        ),
        "Corrupted thought signature.",
        "Invalid thought signature.",
        "Unable to submit request because Thought signature is not valid.. Learn more: https://cloud.google.com",
        'Provider returned error {"error": {"code": 400, "message": "Corrupted thought signature."}}',
    ],
)
def test_how_a_signature_is_refused(said):
    """In the words of Anthropic, Bedrock, Google, and of routers that hand them on."""
    assert refuses_signature(said)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "messages.129.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`.",
        "Function call is missing a thought_signature in functionCall parts.",
        "The request signature we calculated does not match the signature you provided.",
        "Invalid signature for this webhook",
        "messages.0.content.0.text: Field required",
    ],
)
def test_what_refuses_no_signature(said):
    """Taking one away would not help, or there is none."""
    assert not refuses_signature(said)
