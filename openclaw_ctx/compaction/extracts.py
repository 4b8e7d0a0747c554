"""Interim: what is copied out of folded history."""
# ruff: noqa: ARG001, D103 -- the simplest that does, until the thorough one takes its place

from collections.abc import Sequence

from openclaw_ctx.contract import AssistantMessage, Message, UserMessage


def recent_turns_text(messages: Sequence[Message], *, turns: int = 3, max_chars: int = 8_000) -> str:
    return ""


def tool_failures_text(messages: Sequence[Message]) -> str:
    return ""


def file_operations(messages: Sequence[Message]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    read: list[str] = []
    modified: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                path = call.arguments.get("path") if isinstance(call.arguments, dict) else None
                if isinstance(path, str):
                    (modified if call.name in {"write", "edit"} else read).append(path)
    return tuple(dict.fromkeys(read)), tuple(dict.fromkeys(modified))


def files_text(read: Sequence[str], modified: Sequence[str]) -> str:
    parts = [("read-files", read), ("modified-files", modified)]
    return "".join(f"\n\n<{tag}>\n" + "\n".join(names) + f"\n</{tag}>" for tag, names in parts if names)


def latest_unresolved_request(messages: Sequence[Message]) -> str | None:
    last: str | None = None
    for message in messages:
        if isinstance(message, UserMessage) and message.text.strip():
            last = message.text.strip()
        elif isinstance(message, AssistantMessage) and not message.tool_calls:
            last = None
    return last
