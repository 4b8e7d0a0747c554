"""
Replacing messages by branching and appending again.

The first entry to be replaced is left behind on a dead branch; it and all that
follows it are written again under new ids, so the record keeps what was said.
"""

from collections.abc import Collection, Sequence
from typing import Final

from openclaw_ctx.contract import JSON, EntryId, Replacement, RewriteResult, message_to_wire

from .entry import Entry, encode_json
from .file_store import Transcript

__all__ = ["rewrite"]

_COMPACTION_KEYS: Final = ("firstKeptEntryId", "summary", "details", "fromHook", "tokensBefore")


def rewrite(
    transcript: Transcript,
    replacements: Sequence[Replacement],
    *,
    allowed_suffix_ids: Collection[EntryId] | None = None,
) -> RewriteResult:
    """
    Replace messages on the active branch; nothing is changed where a reason is returned.

    Args:
        transcript: Open for writing.
        replacements: Entries of type ``message`` and what shall stand in their place.
        allowed_suffix_ids: Where given, every entry that would be written again must be among them.
    """
    if not replacements:
        return RewriteResult(changed=False, reason="no replacements requested")
    wanted = {replacement.entry_id: replacement.message for replacement in replacements}
    first = next((m.entry_id for m in transcript.record() if m.entry_id in wanted), None)
    if first is None:
        reason = "no matching message entries" if transcript.leaf_id else "empty session"
        return RewriteResult(changed=False, reason=reason)
    steps = transcript.rewind_steps(first)
    if allowed_suffix_ids is not None and any(entry.id not in allowed_suffix_ids for entry, _ in steps):
        return RewriteResult(changed=False, reason="rewrite suffix guard failed")
    transcript.branch(steps[0][0].parent_id)
    renamed: dict[str, EntryId] = {}
    freed = rewritten = 0
    seen: set[bytes] = set()
    for entry, data in steps:
        key = _collapse_key(entry, data)
        if key is not None and key in seen:
            continue
        if key is not None:
            seen.add(key)
        line = _remapped(data, renamed)
        message = wanted.get(EntryId(entry.id or ""))
        if message is not None and entry.type == "message":
            line = line | {"message": message_to_wire(message)}
            freed += max(0, len(encode_json(data.get("message"))) - len(encode_json(line["message"])))
            rewritten += 1
        renamed[entry.id or ""] = transcript.append_raw(line)
    return RewriteResult(changed=True, bytes_freed=freed, rewritten_entries=rewritten)


def _collapse_key(entry: Entry, data: JSON) -> bytes | None:
    """Return what makes a line a repetition: user messages and compactions that are equal to the byte."""
    body = data.get("message")
    if entry.type == "message" and isinstance(body, dict) and body.get("role") == "user":
        return encode_json(body)
    if entry.type == "compaction":
        return encode_json(
            [data.get(k) for k in ("firstKeptEntryId", "summary", "details", "fromHook", "tokensBefore")]
        )
    return None


def _remapped(data: JSON, renamed: dict[str, EntryId]) -> dict[str, JSON]:
    line: dict[str, JSON] = dict(data)
    for key in ("firstKeptEntryId", "targetId", "fromId"):
        if line.get(key) in renamed:
            line[key] = renamed[line[key]]
    return line
