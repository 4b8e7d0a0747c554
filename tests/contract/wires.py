"""Hypothesis strategies for messages: as a wire object spells them, and as values."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from openclaw_ctx import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UnknownBlock,
    UnknownMessage,
    UserMessage,
)

__all__ = ["JSON_VALUES", "MESSAGES", "WIRE_MESSAGES", "WIRE_MESSAGES_WITH_GAPS"]

# Small, so that values collide; with what breaks lines, encoders and paths.
_TEXT = st.text(alphabet='aé漢\u2028\u0085\x0b\x00\n\\/"\ud800', max_size=4)
_NUMBERS = st.integers(-2, 2**70) | st.sampled_from([0.0, 1.0, 1.5, -1e300])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_JSON_BUT_NULL = JSON_VALUES.filter(lambda value: value is not None)

# By role: the fields that it requires and those that it may have, each with what is right there.
_TIME = {"timestamp": _NUMBERS}
_BLOCK_FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "text": ({"text": _TEXT}, {"textSignature": _TEXT}),
    "thinking": ({"thinking": _TEXT}, {"thinkingSignature": _TEXT, "redacted": st.booleans()}),
    "toolCall": ({"id": _TEXT, "name": _TEXT, "arguments": JSON_VALUES}, {"thoughtSignature": _TEXT}),
    "image": ({"data": _TEXT, "mimeType": _TEXT}, {}),
}


def _object(
    kind: dict[str, Any], required: dict[str, Any], optional: dict[str, Any], *, gaps: bool
) -> st.SearchStrategy[dict[str, Any]]:
    """Every field right or of any other type, optional ones there or not, and foreign keys beside them."""
    anything = JSON_VALUES
    known = {name: right | anything for name, right in required.items()}
    maybe = {name: right | anything for name, right in optional.items()}
    foreign = st.dictionaries(st.sampled_from(["x", "usage", "summary", "stopReason", "id", "exitCode"]), anything)
    fields = st.fixed_dictionaries({}, optional={**known, **maybe}) if gaps else _fixed(known, maybe)
    return st.builds(lambda extra, named: {**extra, **kind, **named}, foreign, fields)


def _fixed(known: dict[str, Any], maybe: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(known, optional=maybe)


def _wire_messages(*, gaps: bool) -> st.SearchStrategy[Any]:
    blocks = st.one_of(
        *(_object({"type": name}, req, opt, gaps=gaps) for name, (req, opt) in _BLOCK_FIELDS.items()),
        _object({"type": "video"}, {}, {"url": _TEXT}, gaps=gaps),
        JSON_VALUES,
    )
    content = _TEXT | st.lists(blocks, max_size=3)
    told = {"details": JSON_VALUES, **_TIME}
    roles: dict[Any, tuple[dict[str, Any], dict[str, Any]]] = {
        "user": ({"content": content}, _TIME),
        "system": ({"content": content}, _TIME),
        "assistant": (
            {"content": content},
            {
                "provider": _TEXT,
                "model": _TEXT,
                "usage": JSON_VALUES,
                "stopReason": _TEXT,
                "errorMessage": _TEXT,
                **_TIME,
            },
        ),
        "toolResult": (
            {"toolCallId": _TEXT, "content": content},
            {"toolName": _TEXT, "isError": st.booleans(), **told},
        ),
        "custom": ({"customType": _TEXT, "content": content}, {"display": st.booleans(), **told}),
        "bashExecution": (
            {"command": _TEXT, "output": _TEXT},
            {"exitCode": st.integers(0, 2), "excludeFromContext": st.booleans(), **_TIME},
        ),
        "branchSummary": ({"summary": _TEXT}, {"fromId": _TEXT, **_TIME}),
        "compactionSummary": ({"summary": _TEXT}, {"tokensBefore": st.integers(0, 2), **_TIME}),
        "hookMessage": ({}, {"content": content}),
        "unknown": ({}, {"content": content}),
        None: ({}, {"content": content}),
    }
    return st.one_of(*(_object({"role": role}, req, opt, gaps=gaps) for role, (req, opt) in roles.items()))


WIRE_MESSAGES = _wire_messages(gaps=False)
"""Objects that have what their role requires, right or wrong; and objects of roles that nobody knows."""

WIRE_MESSAGES_WITH_GAPS = _wire_messages(gaps=True) | JSON_VALUES
"""Anything at all."""

# Keys that no class names: a named field's key in ``extra`` would be read back into the field.
_EXTRA = st.dictionaries(st.sampled_from(["x", "y", "zeta"]), JSON_VALUES, max_size=2)
_BLOCKS = st.one_of(
    st.builds(TextBlock, text=_TEXT, extra=_EXTRA, bare=st.booleans()),
    st.builds(ThinkingBlock, thinking=_TEXT, signature=st.none() | _TEXT, extra=_EXTRA),
    st.builds(ToolCallBlock, id=_TEXT, name=_TEXT, arguments=_JSON_BUT_NULL, extra=_EXTRA),
    st.builds(ImageBlock, data=_TEXT, mime_type=_TEXT, extra=_EXTRA),
    st.builds(UnknownBlock, data=st.fixed_dictionaries({"type": st.just("video"), "url": _TEXT}) | st.none() | _TEXT),
)
_CONTENT = _TEXT | st.lists(_BLOCKS, max_size=3)
_BASE = {"entry_id": st.none() | _TEXT, "timestamp": st.none() | _NUMBERS, "extra": _EXTRA}


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def _builds(cls: Callable[..., Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(cls, **_BASE, **fields)


MESSAGES = st.one_of(
    _builds(UserMessage, content=_CONTENT),
    _builds(SystemMessage, content=_CONTENT),
    _builds(
        AssistantMessage,
        content=_CONTENT,
        provider=_maybe(_TEXT),
        model=_maybe(_TEXT),
        usage=JSON_VALUES,
        stop_reason=_maybe(_TEXT),
        error_message=_maybe(_TEXT),
    ),
    _builds(
        ToolResultMessage,
        content=_CONTENT,
        tool_call_id=_TEXT,
        tool_name=_maybe(_TEXT),
        is_error=_maybe(st.booleans()),
        details=JSON_VALUES,
    ),
    _builds(CustomMessage, content=_CONTENT, custom_type=_TEXT, display=_maybe(st.booleans()), details=JSON_VALUES),
    _builds(
        BashExecutionMessage,
        command=_TEXT,
        output=_TEXT,
        exit_code=_maybe(st.integers(0, 2)),
        exclude_from_context=_maybe(st.booleans()),
    ),
    _builds(BranchSummaryMessage, summary=_TEXT, from_id=_maybe(_TEXT)),
    _builds(CompactionSummaryMessage, summary=_TEXT, tokens_before=_maybe(st.integers(0, 2))),
    st.builds(
        UnknownMessage,
        entry_id=st.none() | _TEXT,
        data=st.fixed_dictionaries({"role": st.sampled_from(["hookMessage", "unknown"]), "x": JSON_VALUES}),
    ),
)
"""Messages of every class, with blocks of every class."""
