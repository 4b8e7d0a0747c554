"""Blocks of a message, out of the parts that chat APIs and the programs around them write."""

import re

from openclaw_ctx.contract import JSON, Block, ImageBlock, TextBlock, UnknownBlock, freeze
from openclaw_ctx.transcript.entry import encode_json

from .records import decode

__all__ = ["arguments_of", "block_of", "blocks_of", "readable", "text_or_none"]

_DATA_URL = re.compile(r"data:(image/[^;,]+);base64,(.*)", re.DOTALL)


def text_or_none(value: JSON) -> str | None:
    """Return a string that says something, or nothing."""
    return value if isinstance(value, str) and value else None


def readable(value: JSON) -> str:
    """Return a text as it is, and any other value as JSON; nothing for nothing."""
    if value is None or isinstance(value, str):
        return value or ""
    return encode_json(value).decode()


def arguments_of(value: JSON) -> JSON:
    """Return a call's arguments; out of a string that holds a JSON object, the object."""
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            parsed, _problem = decode(value.encode())
        except ValueError:  # a lone surrogate cannot be encoded, and that is a ValueError too
            return value
        return parsed if isinstance(parsed, dict) else value
    return value


def blocks_of(content: JSON) -> str | tuple[Block, ...]:
    """Return the content of a message; items of a list that are neither text nor object are dropped."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return tuple(block_of(part) for part in parts if isinstance(part, dict | str))


def block_of(part: JSON) -> Block:
    """Return what a part is: text, a picture that came along with it, or itself where neither is known."""
    if isinstance(part, str):
        return TextBlock(text=part)
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str(text), **rest}:
            return TextBlock(text=text, extra=freeze(rest))
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            return ImageBlock(data=data, mime_type=mime_type)
        case {"image_url": {"url": str(url)} | str(url)} | {"imageUrl": {"url": str(url)}}:
            picture = _DATA_URL.fullmatch(url)
            return ImageBlock(data=picture[2], mime_type=picture[1]) if picture else UnknownBlock(data=part)
        case _:
            return UnknownBlock(data=part)
