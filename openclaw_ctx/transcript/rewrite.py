"""
Replacing messages by branching and appending again.

The first entry to be replaced is left behind on a dead branch; it and all that
follows it are written again under new ids, so the record keeps what was said.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from openclaw_ctx.contract import JSON, EntryId, Replacement, RewriteResult, SystemMessage, message_to_wire

from .entry import Entry, encode_json
from .transcript import Transcript

__all__ = ["rewrite"]

_COMPACTION_KEYS: Final = ("firstKeptEntryId", "summary", "details", "fromHook", "tokensBefore")
_USER: Final = b"user"
_NAMING_KEYS: Final = ("firstKeptEntryId", "targetId", "fromId")


def rewrite(
    transcript: Transcript,
    replacements: Sequence[Replacement],
    *,
    allowed_suffix_ids: Collection[EntryId] | None = None,
) -> RewriteResult:
    """
    Replace messages on the active branch; nothing is changed where a reason is returned, or where it raises.

    Args:
        transcript: Open for writing.
        replacements: Entries of type ``message`` and what shall stand in their place.
        allowed_suffix_ids: Where given, every entry that would be written again must be among them.
    """
    if not replacements:
        return RewriteResult(changed=False, reason="no replacements requested")
    transcript.refresh()
    wanted: dict[str, JSON] = {item.entry_id: message_to_wire(item.message) for item in replacements}
    first = transcript.first_message_of(wanted)
    if first is None:
        reason = "no matching message entries" if transcript.leaf_id else "empty session"
        return RewriteResult(changed=False, reason=reason)
    steps = transcript.rewind_steps(first)
    if allowed_suffix_ids is not None and any(entry.id not in allowed_suffix_ids for entry, _ in steps):
        return RewriteResult(changed=False, reason="rewrite suffix guard failed")
    root = transcript.parent_on_branch(first)
    lines: list[dict[str, JSON]] = []
    renamed: dict[EntryId, EntryId] = {}
    written: dict[bytes, EntryId] = {}
    freed = rewritten = 0
    instructs = any(isinstance(item.message, SystemMessage) for item in replacements)
    taken: set[str] = set()
    for entry, data in steps:
        old = EntryId(entry.id or "")
        line = _remapped(data, renamed, instructs=instructs and entry.is_boundary)
        if old in wanted and entry.type == "message":
            line["message"] = wanted[old]
            freed += max(0, len(encode_json(data.get("message"))) - len(encode_json(wanted[old])))
            rewritten += 1
        key = _collapse_key(entry, line)
        if key is None and entry.type == "message":
            # What is said again after a reply is no repetition: people say "yes" more than once.
            written = {said: at for said, at in written.items() if not said.startswith(_USER)}
        if key is not None and key in written:
            # What named the repetition names the one that stays.
            renamed[old] = written[key]
            continue
        fresh = renamed[old] = line["id"] = transcript.new_id(taken)
        if line.get("firstKeptEntryId") == old:  # a compaction that keeps nothing names itself
            line["firstKeptEntryId"] = fresh
        taken.add(fresh)
        line["parentId"] = lines[-1]["id"] if lines else root
        if key is not None:
            written[key] = fresh
        lines.append(line)
    transcript.append_branch(root, lines, renamed)
    return RewriteResult(changed=True, bytes_freed=freed, rewritten_entries=rewritten)


def _collapse_key(entry: Entry, line: JSON) -> bytes | None:
    """Return what makes a line a repetition of one since the last reply: its bytes; ``None`` where it never is one."""
    body = line.get("message")
    if entry.type == "message" and isinstance(body, dict) and body.get("role") == "user":
        return _USER + encode_json(body)
    if entry.type == "compaction":
        return b"compaction" + encode_json([line.get(key) for key in _COMPACTION_KEYS])
    return None


def _remapped(data: JSON, renamed: Mapping[EntryId, EntryId], *, instructs: bool) -> dict[str, JSON]:
    line: dict[str, JSON] = dict(data)
    if instructs:
        line["instructions"] = True  # as an appended compaction says, for whoever reads from the end
    for key in _NAMING_KEYS:
        if line.get(key) in renamed:
            line[key] = renamed[line[key]]
    return line
