"""
Sessions of OpenClaw and pi: JSONL, versions 1 to 3.

From version 2 on the lines are a tree; the last one is the leaf of the active
branch, and the session is the way from it up to its root. Compactions are
passed over and what they folded stays, since a replay wants the raw history.
"""

from collections.abc import Sequence
from pathlib import Path

import attrs

from openclaw_ctx.contract import (
    JSON,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    EntryId,
    Message,
    message_from_wire,
)
from openclaw_ctx.errors import TranscriptFormatError

from .records import Notes, Record, milliseconds, peek, read_records
from .session import ImportedSession

__all__ = ["NAME", "read", "sniff"]

NAME = "pi"

_NEWEST_VERSION = 3


def sniff(head: bytes, path: Path) -> bool:  # noqa: ARG001 -- a name says nothing about this format
    """Tell whether the first record is a session header."""
    return _is_header(next(peek(head), {}))


def read(path: Path) -> ImportedSession:
    """Return the active branch of a session file; where the header is gone, of what is left."""
    records, notes = read_records(path)
    header = next((record for record in records if _is_header(record.data)), None)
    entries = [record for record in records if isinstance(record.data.get("type"), str) and record is not header]
    data = header.data if header else {}
    version = data.get("version")
    if header is None:
        notes.add(0, "no session header")
    elif isinstance(version, int) and version > _NEWEST_VERSION:
        notes.add(header.line, f"version {version} is newer than {_NEWEST_VERSION}")
    messages = [
        message
        for record in _active_branch(entries, data.get("id"), notes)
        if (message := _message(record, notes)) is not None
    ]
    if header is None and not messages:
        raise TranscriptFormatError(str(path), "it holds no OpenClaw or pi session.")
    return ImportedSession(
        format=NAME,
        messages=tuple(messages),
        session_id=_text(data.get("id")),
        cwd=_text(data.get("cwd")),
        skipped=notes.sentences(),
    )


def _is_header(data: dict[str, JSON]) -> bool:
    return data.get("type") == "session" and isinstance(data.get("id"), str)


def _text(value: JSON) -> str | None:
    return value if isinstance(value, str) else None


def _active_branch(entries: Sequence[Record], session_id: JSON, notes: Notes) -> Sequence[Record]:
    by_id = {record.data["id"]: record for record in entries if _text(record.data.get("id"))}
    if not by_id:
        return entries  # version 1: the file is the branch
    for record in entries:
        if not _text(record.data.get("id")):
            notes.add(record.line, "no id, so it is on no branch")
    owner_of_call = _owners_of_calls(by_id)
    # Of several lines with one id the last counts, as in the system that wrote them.
    step: Record | None = max(by_id.values(), key=lambda record: record.line)
    branch: list[Record] = []
    while step is not None:
        branch.append(step)
        del by_id[step.data["id"]]  # a ring of parents ends where it closes
        parent = _text(step.data.get("parentId"))
        if parent is None or parent == session_id:
            break
        above = by_id.get(parent)
        if above is None and parent in owner_of_call:
            above = by_id.get(owner_of_call[parent])
            notes.add(step.line, "its parent is a tool call, taken for the message that made it")
        if above is None:
            notes.add(step.line, "its parent cannot be found, so the branch begins here")
        step = above
    return branch[::-1]


def _owners_of_calls(by_id: dict[str, Record]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for entry_id, record in by_id.items():
        message = record.data.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "toolCall" and _text(block.get("id")):
                owners.setdefault(block["id"], entry_id)
    return owners


def _message(record: Record, notes: Notes) -> Message | None:
    entry_id = EntryId(record.data["id"]) if _text(record.data.get("id")) else None
    match record.data["type"]:
        case "message":
            message = _recorded_message(record, entry_id, notes)
        case "custom_message":
            message = _custom_message(record, entry_id, notes)
        case "branch_summary":
            message = _branch_summary(record, entry_id)
        case _:  # a change of state
            return None
    if message is not None and message.timestamp is None:
        return attrs.evolve(message, timestamp=milliseconds(record.data.get("timestamp")))
    return message


def _recorded_message(record: Record, entry_id: EntryId | None, notes: Notes) -> Message | None:
    wire = record.data.get("message")
    if not isinstance(wire, dict) or not _text(wire.get("role")):
        notes.add(record.line, "its message has no role")
        return None
    if wire["role"] == "hookMessage":  # version 2's word
        wire = {**wire, "role": CustomMessage.role}
    return None if wire["role"] == CompactionSummaryMessage.role else message_from_wire(wire, entry_id=entry_id)


def _custom_message(record: Record, entry_id: EntryId | None, notes: Notes) -> Message | None:
    if not isinstance(record.data.get("content"), str | list):
        notes.add(record.line, "its message has no content")
        return None
    wire = {key: record.data[key] for key in ("customType", "content", "display", "details") if key in record.data}
    return message_from_wire({**wire, "role": CustomMessage.role}, entry_id=entry_id)


def _branch_summary(record: Record, entry_id: EntryId | None) -> Message | None:
    summary, from_id = record.data.get("summary"), _text(record.data.get("fromId"))
    if not isinstance(summary, str) or not summary:
        return None
    return BranchSummaryMessage(entry_id=entry_id, summary=summary, from_id=EntryId(from_id) if from_id else None)
