"""Parts of the Gemini API, which Gemini CLI and Qwen Code write into their sessions."""

from collections.abc import Sequence

from openclaw_ctx.contract import (
    JSON,
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    UnknownBlock,
    freeze,
)

from .blocks import arguments_of, readable, text_or_none
from .calls import CallLedger

__all__ = ["Part", "answer_of", "block_of_part", "parts_of"]

Part = dict[str, JSON]


def parts_of(content: JSON) -> list[Part]:
    """Return the parts of a content: one text, one part, or a list of both; what is neither is dropped."""
    items = content if isinstance(content, list) else [content]
    return [{"text": item} if isinstance(item, str) else item for item in items if isinstance(item, dict | str)]


def block_of_part(part: Part, calls: CallLedger, *, place: str) -> Block:
    """Return what a part is; a call is noted in *calls*, under its *place* where it has no id."""
    match part:
        case {"text": str(text), "thought": True, **rest}:
            return ThinkingBlock(thinking=text, signature=text_or_none(rest.get("thoughtSignature")))
        case {"text": str(text), **rest}:
            return TextBlock(text=text, extra=freeze({key: rest[key] for key in rest if key != "thought"}))
        case {"functionCall": {"name": str(name), **call}, **rest}:
            call_id = calls.open(call.get("id"), name, place=place)
            return ToolCallBlock(id=call_id, name=name, arguments=arguments_of(call.get("args")), extra=freeze(rest))
        case {"inlineData": {"mimeType": str(mime_type), "data": str(data)}} if mime_type.startswith("image/"):
            return ImageBlock(data=data, mime_type=mime_type)
        case _:
            return UnknownBlock(data=part)


def answer_of(response: Part, beside: Sequence[Part] = ()) -> tuple[str | tuple[Block, ...], bool | None]:
    """
    Return what a function gave back, and whether that is an error where it says so.

    Args:
        response: The value of a ``functionResponse``.
        beside: Parts of the same answer, as a picture that was read.
    """
    value = response.get("response")
    is_error = None
    if isinstance(value, dict) and len(value) == 1:
        ((key, inner),) = value.items()
        if key in ("output", "error"):
            value, is_error = inner, True if key == "error" else None
    more = [*parts_of(response.get("parts")), *beside]
    if not more:
        return readable(value), is_error
    # What stands beside an answer calls nothing, so nothing is noted.
    shown = tuple(block_of_part(part, CallLedger(), place="") for part in more)
    return (TextBlock(text=readable(value)), *shown), is_error
