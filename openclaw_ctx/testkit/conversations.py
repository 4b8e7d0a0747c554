"""Conversations to store: a message of every kind, keys that break file names, and short ways to say things."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Final

from openclaw_ctx.contract import (
    JSON,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CustomMessage,
    EntryId,
    ImageBlock,
    Message,
    SessionKey,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownBlock,
    UnknownMessage,
    UserMessage,
)
from openclaw_ctx.transcript import SessionInfo, SessionStore, Transcript

__all__ = [
    "KEY",
    "KEYS",
    "MESSAGES",
    "OTHER",
    "answer",
    "appended",
    "info_of",
    "line",
    "opened",
    "say",
    "say_in",
    "texts",
    "told",
]

KEY: Final = SessionKey("agent:main:main")
OTHER: Final = SessionKey("other")

KEYS: Final[Mapping[str, SessionKey]] = {
    "colons": KEY,
    "a slash": SessionKey("a/b"),
    "a way up": SessionKey("..\\x"),
    "a way up and a slash": SessionKey("../x"),
    "a device of Windows": SessionKey("CON"),
    "a device with an ending": SessionKey("nul.jsonl"),
    "a dot at the end": SessionKey("name."),
    "without the dot": SessionKey("name"),
    "upper case": SessionKey("A"),
    "lower case": SessionKey("a"),
    "300 characters": SessionKey("x" * 300),
    "300 other characters": SessionKey("x" * 299 + "y"),
    "spaces": SessionKey("  "),
    "no width": SessionKey("\u200b"),
    "a line end": SessionKey("a\nb"),
    "a separator of lines": SessionKey("a\u2028b"),
    "composed": SessionKey("caf\u00e9"),
    "decomposed": SessionKey("cafe\u0301"),
    "beyond the basic plane": SessionKey("\U0001f600"),
    "an option": SessionKey("-rf"),
    "wildcards": SessionKey("%_*?"),
    "quotes": SessionKey('\'; DROP TABLE "sessions"; --'),
}
"""Session keys by what is odd about them; no two are one session."""

_TIME: Final = 1_763_681_630_805
_ODD_TEXT: Final = 'a\u2028b\x00c\x85d\ud800e "\\\r\n\U0001f600'

MESSAGES: Final[Mapping[str, Message]] = {
    "user": UserMessage(content="Good morning."),
    "user with blocks": UserMessage(
        content=[
            TextBlock(text="Look:", extra={"textSignature": "s"}),
            ImageBlock(data="aGVsbG8=", mime_type="image/png"),
            UnknownBlock(data={"type": "video", "url": "x:y"}),
        ],
        timestamp=_TIME,
        extra={"channel": "kitchen", "nothing": None},
    ),
    "nothing": UserMessage(),
    "odd text": UserMessage(content=_ODD_TEXT),
    "a megabyte": UserMessage(content="0123456789abcdef" * (1 << 16)),
    "assistant": AssistantMessage(
        content=[
            ThinkingBlock(thinking="Hm.", signature="c2ln"),
            TextBlock(text="I look it up."),
            ToolCallBlock(id="call_1", name="look_up", arguments={"what": ["x", 1.5, True, None]}),
        ],
        provider="somebody",
        model="some-model",
        usage={"input": 2**70, "output": 0, "cost": {"total": 1e-9}},
        stop_reason="toolUse",
        timestamp=_TIME + 0.25,
    ),
    "a failure": AssistantMessage(stop_reason="error", error_message="overloaded"),
    "toolResult": ToolResultMessage(
        content="42",
        tool_call_id="call_1",
        tool_name="look_up",
        is_error=False,
        details={"endless": float("inf"), "nested": {"a": [{"b": {}}]}},
    ),
    "system": SystemMessage(content="Be brief."),
    # On a line of its own a message has the line's time.
    "custom": CustomMessage(
        content="remember", custom_type="note", display=False, details={"n": 1}, timestamp=_TIME, extra={"x": 1}
    ),
    "custom with a line's keys": CustomMessage(content="mine", custom_type="note", extra={"id": "x", "type": "y"}),
    "branchSummary": BranchSummaryMessage(summary="They tried.", from_id=EntryId("2caf218a"), timestamp=_TIME),
    "bashExecution": BashExecutionMessage(command="ls", output="a\nb", exit_code=0),
    "unseen": BashExecutionMessage(command="pwd", output="/", exit_code=1, exclude_from_context=True),
    "unknown": UnknownMessage(data={"role": "narrator", "content": "Meanwhile", "more": 3}),
}
"""A message of every kind that can be appended, with what encoders and line readers stumble over."""


def say(text: str) -> UserMessage:
    """Return a user's message."""
    return UserMessage(content=text)


def answer(text: str) -> AssistantMessage:
    """Return a model's message."""
    return AssistantMessage(content=[TextBlock(text=text)])


def appended(transcript: Transcript, *texts: str) -> list[EntryId]:
    """Append what users said and models answered, in turns; return the entries' ids."""
    messages = (answer(text) if number % 2 else say(text) for number, text in enumerate(texts))
    return [EntryId(transcript.append(message).entry_id or "") for message in messages]


def told(messages: Iterable[Message]) -> list[str]:
    """Return what messages say."""
    return [message.text for message in messages]


def opened(store: SessionStore, key: SessionKey = KEY) -> contextlib.closing[Transcript]:
    """Open a session for writing, for a ``with`` statement."""
    return contextlib.closing(store.open(key))


def line(entry_id: str, parent_id: str | None, text: str) -> dict[str, JSON]:
    """Return a ready line with a user's message."""
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent_id,
        "timestamp": "2025-11-20T23:34:00.000Z",
        "message": {"role": "user", "content": text},
    }


def say_in(store: SessionStore, key: SessionKey, text: str) -> None:
    """Open a session, say something in it, and close it."""
    with opened(store, key) as transcript:
        appended(transcript, text)


def texts(store: SessionStore, key: SessionKey) -> list[str]:
    """Return what a session says, to a reader."""
    with contextlib.closing(store.read(key)) as reader:
        return told(reader.record())


def info_of(store: SessionStore, key: SessionKey = KEY) -> SessionInfo:
    """Return what a list says of a session."""
    (info,) = (info for info in store.sessions() if info.key == key)
    return info
