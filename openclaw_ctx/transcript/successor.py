"""
The lines of a transcript that goes on from another: after a rotation, or as a fork.

Plans only: nothing is written here, and the transcript that is planned from
stays as it is. Entries keep their ids, and lines that need no change their bytes.
"""

import contextlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, TypeAlias

import attrs

from openclaw_ctx.contract import (
    JSON,
    AssistantMessage,
    EntryId,
    Message,
    ToolResultMessage,
    UserMessage,
    message_from_wire,
)

from .entry import Entry, encode_json, message_of, read_entry
from .pairing import pairs_are_whole
from .tree import instructions, parents_of

__all__ = ["NO_COMPACTION", "Successor", "plan_fork", "plan_successor"]

NO_COMPACTION: Final = "no compaction on the active branch"

_Data: TypeAlias = Callable[[Entry], JSON]
_Line: TypeAlias = Callable[[Entry], bytes]

_STATES: Final = frozenset({"model_change", "thinking_level_change", "session_info"})
# Of these the newest counts, whatever branch it is on.
_TOLD: Final = frozenset({"label", "session_info"})
_BESIDE: Final = frozenset({"custom_message", "branch_summary"})
_KEPT: Final = "firstKeptEntryId"
_NAMING_KEYS: Final = {"label": "targetId", "branch_summary": "fromId", "compaction": _KEPT, "reset": _KEPT}
_SIGNATURE: Final = "thinkingSignature"
# How many lines of one write follow: of no use in a file that is written whole.
_MORE: Final = "more"
_MORE_KEY: Final = b'"more"'
_NO_PAIR: Final = UserMessage()

SHORT_REPLY: Final = 2_000
"""Bytes of a reply and its results that come back over a rotation, however short the summary is."""


@attrs.frozen(kw_only=True)
class Successor:
    """
    What is carried over a rotation.

    Attributes:
        lines: Every line but the header, without line ends: parents before children, the leaf last.
        compaction_entry_id: The compaction that the context begins at.
        leaf_id: The entry on the last line.
        left: How many entries are not carried over.
        renamed: By the id of a message that was said twice, the id of the one that stays.
    """

    lines: Sequence[bytes]
    compaction_entry_id: EntryId
    leaf_id: EntryId
    left: int
    renamed: Mapping[EntryId, EntryId]


def plan_successor(entries: Sequence[Entry], path: Sequence[Entry], *, data: _Data, line: _Line) -> Successor | str:
    """
    Return what is carried over when a session goes on in a new file, or a sentence that says why nothing is.

    What the last compaction stands for is left out, but for the last reply
    before what it keeps; see :class:`_Rotation`. Other branches are carried over
    and follow what is left of their ancestors. Of the messages that are left out
    only those from that reply on are read.

    Args:
        entries: All of the file, in its order, each with an id.
        path: The active branch: some of these very objects, root first.
        data: Returns all that is on an entry's line.
        line: Returns the line as it is.
    """
    at = next((p for p in range(len(path) - 1, -1, -1) if path[p].type == "compaction"), None)
    if at is None:
        return NO_COMPACTION
    rotation = _Rotation(path, at, data)
    place_of = {id(entry): place for place, entry in enumerate(entries)}
    branch = [place_of[id(entry)] for entry in path]
    kept = [place for position, place in enumerate(branch) if position not in rotation.gone]
    told = _newest_told(entries, {*kept, *_others(entries, branch)}, data)
    stays = _labelled_within(entries, told, rotation.renamed, data)
    parents = parents_of(entries)
    for place, parent in zip(branch, [None, *branch], strict=False):
        parents[place] = parent
    order, follows = _ordered(stays, [place for place in kept if place in stays], parents)
    ids = {entries[place].id for place in order}
    renamed = {old: new for old, new in rotation.renamed.items() if old not in ids}
    changes = {branch[position]: change for position, change in rotation.changes.items()}
    before = stays.difference(order[-1:])  # what others can still stand behind
    lines = []
    for place in order:
        entry, parent = entries[place], follows[place]
        change = _renaming(entry, renamed, data) if renamed else {}
        if entry.is_boundary and not change:
            change = _keeping(place, entries, parents, before)
        change |= changes.get(place, {})
        lines.append(_written(entry, None if parent is None else entries[parent].id, change, data=data, line=line))
    return Successor(
        lines=lines,
        compaction_entry_id=EntryId(path[at].id or ""),
        leaf_id=EntryId(entries[order[-1]].id or ""),
        left=len(entries) - len(lines),
        renamed=renamed,
    )


def plan_fork(entries: Sequence[Entry], path: Sequence[Entry], *, data: _Data, line: _Line) -> Sequence[bytes]:
    """
    Return the lines of a session that has the branch *path* alone: one chain, whose last line is the branch's.

    The newest label of each entry on the branch comes along, wherever in the
    file it stands; it is put before the leaf, so that this stays the last line.
    """
    newest: dict[str | None, Entry] = {}
    for entry in [*entries, *path[-1:]]:  # as the last line of the fork, a leaf that is a label is the newest
        if entry.type == "label":
            target = _target(entry, data)
            newest.pop(target, None)
            newest[target] = entry
    taken = {entry.id for entry in path}
    labels = {entry.id: entry for target, entry in newest.items() if target in taken and entry.id not in taken}
    chain = [*path[:-1], *labels.values(), *path[-1:]]
    parents = [None, *(entry.id for entry in chain)]
    return [_written(entry, parent, {}, data=data, line=line) for entry, parent in zip(chain, parents, strict=False)]


class _Rotation:
    """
    What a rotation does to the active branch, whose last compaction is at *at*; all by position on the branch.

    Left out are the messages that the compaction stands for, states that a
    newer one replaced before it, and a user's message that is said again before
    any reply. The reply before what is kept stays, with its tool results, unless
    nothing is kept, or pairs that are whole would not be whole with it, or it is
    long and longer than the summary: that would undo the compaction. What was
    thought before the compaction loses its signatures.

    Attributes:
        gone: What is left out, labels aside.
        changes: By position, the keys of a line that change.
        renamed: By the id of a repetition, the id of what it repeats.
    """

    def __init__(self, path: Sequence[Entry], at: int, data: _Data) -> None:
        self._path, self._at, self._data = path, at, data
        self.gone: set[int] = set()
        self.changes: dict[int, dict[str, JSON]] = {}
        self.renamed: dict[EntryId, EntryId] = {}
        kept = _kept_from(path, at)
        # A reset behind the compaction hides it, and what the reset keeps may be older than what the compaction keeps.
        live = next((p for p in range(len(path) - 1, at, -1) if path[p].is_boundary), at)
        shown = _kept_from(path, live)
        first = min(kept, shown)
        stay = instructions(path[:first], lambda entry: message_of(data(entry), entry.id))
        self.gone.update(p for p in range(first) if path[p].type == "message" and p not in stay)
        self._leave_stale_states()
        reply = self._last_reply(kept) if live == at and kept < at else []
        pairs = self._take_messages(first, shown)
        if reply and self._is_short(reply) and self._is_welcome(reply, pairs):
            self.gone.difference_update(reply)
            self.gone.update(p for p in range(reply[0], kept) if path[p].type in _BESIDE)
            self._strip(reply[0], self._data(path[reply[0]]))
            self.changes[at] = {_KEPT: path[reply[0]].id}

    def _leave_stale_states(self) -> None:
        newer: set[str] = set()
        for position in range(self._at - 1, -1, -1):
            kind = self._path[position].type
            if kind in newer:
                self.gone.add(position)
            elif kind in _STATES:
                newer.add(kind)

    def _last_reply(self, kept: int) -> list[int]:
        """Return where the last reply that the model saw before *kept* is, and its results; none that says nothing."""
        path = self._path
        before = next((p for p in range(self._at - 1, -1, -1) if path[p].is_boundary), None)
        start = 0 if before is None else _kept_from(path, before)
        answers: dict[str, int] = {}
        for position in range(kept - 1, start - 1, -1):
            entry = path[position]
            if entry.type != "message" or not entry.in_context:
                continue
            data = self._data(entry)
            message = _paired(data)
            if isinstance(message, ToolResultMessage):
                answers[message.tool_call_id] = position  # of several results the first is the one
            elif isinstance(message, AssistantMessage) and (_unsigned(data["message"]) or {}).get("content"):
                if any(path[p].id == entry.id for p in range(position + 1, self._at + 1)):
                    return []  # a boundary cannot name it
                return sorted({position, *(answers[call.id] for call in message.tool_calls if call.id in answers)})
        return []

    def _take_messages(self, first: int, shown: int) -> list[Message]:
        """Go through the messages that stay, from *first* on; return those from *shown* on, without what they say."""
        path = self._path
        pairs: list[Message] = []
        said: dict[bytes, EntryId] = {}
        for position in range(first, len(path)):
            entry = path[position]
            if entry.type != "message":
                pairs += [_NO_PAIR] if entry.in_context and position >= shown else []
                continue
            data = self._data(entry)
            if position < self._at and not self._strip(position, data):
                self.gone.add(position)
                continue
            if position < shown:
                continue
            body = data.get("message")
            if isinstance(body, dict) and body.get("role") == UserMessage.role:
                key, entry_id = encode_json(body), EntryId(entry.id or "")
                if key in said:
                    self.gone.add(position)
                    self.renamed[entry_id] = said[key]
                    continue
                said[key] = entry_id
            else:
                # What is said again after a reply is no repetition: people say "yes" more than once.
                said.clear()
            pairs += [_paired(data)] if entry.in_context else []
        return pairs

    def _strip(self, position: int, data: JSON) -> bool:
        """Take the signatures off a message; return whether anything is left of it."""
        body = data.get("message")
        unsigned = _unsigned(body)
        if unsigned is body:
            return True
        if unsigned is not None:
            self.changes[position] = {"message": unsigned}
        return unsigned is not None

    def _is_short(self, reply: Sequence[int]) -> bool:
        """Return whether the reply takes no more room than the compaction took for all that it stands for."""
        bodies = [_unsigned(self._data(self._path[position])["message"]) for position in reply]
        size = sum(len(encode_json(body.get("content"))) for body in bodies)
        return size <= max(SHORT_REPLY, len(encode_json(self._data(self._path[self._at]).get("summary"))))

    def _is_welcome(self, reply: Sequence[int], pairs: Sequence[Message]) -> bool:
        """Return whether pairs are as whole with the reply before *pairs* as they are without it."""
        group = [_paired(self._data(self._path[position])) for position in reply]
        if pairs_are_whole([*group, *pairs]):
            return True
        # Results that lost their call to the cut may be the reply's own.
        results = takewhile(lambda message: isinstance(message, ToolResultMessage), pairs)
        return not pairs_are_whole(pairs) and pairs_are_whole([*group, *results])


def _kept_from(path: Sequence[Entry], boundary: int) -> int:
    """Return where what a boundary keeps begins; its own position where it keeps nothing."""
    wanted = path[boundary].first_kept_id
    if wanted is None or wanted == path[boundary].id:
        return boundary
    return next((p for p in range(boundary - 1, -1, -1) if path[p].id == wanted), boundary)


def _paired(data: JSON) -> Message:
    """Return the message of a line without what it says, which pairing has no use for: a context may be long."""
    body = data.get("message")
    if not isinstance(body, dict):
        return _NO_PAIR
    content = body.get("content")
    blocks = content if isinstance(content, list) else []
    calls = [
        {key: block.get(key) for key in ("type", "id", "name")}
        for block in blocks
        if isinstance(block, dict) and block.get("type") == "toolCall"
    ]
    return message_from_wire({key: body.get(key) for key in ("role", "toolCallId", "stopReason")} | {"content": calls})


def _unsigned(body: JSON) -> JSON:
    """Return a message without the signatures of its thinking; itself where it has none, ``None`` if that was all."""
    content = body.get("content") if isinstance(body, dict) and body.get("role") == AssistantMessage.role else None
    if not isinstance(content, list):
        return body
    left, signed = [], False
    for block in content:
        if not isinstance(block, dict) or block.get("type") != "thinking" or _SIGNATURE not in block:
            left.append(block)
            continue
        signed = True
        # Of redacted thinking the signature is all there is; a text beside it is a placeholder.
        if block.get("thinking") and not block.get("redacted"):
            left.append({key: value for key, value in block.items() if key != _SIGNATURE})
    if not signed:
        return body
    return {**body, "content": left} if left else None


def _target(label: Entry, data: _Data) -> str | None:
    target = data(label).get("targetId")
    return target if isinstance(target, str) else None


def _labelled_within(
    entries: Sequence[Entry], stays: set[int], renamed: Mapping[EntryId, EntryId], data: _Data
) -> set[int]:
    """Return *stays* without the labels of what is not among them; a label can have a label."""
    ids: set[str | None] = {entries[place].id for place in stays}
    labels = {place: _target(entries[place], data) for place in stays if entries[place].type == "label"}
    while gone := {
        place
        for place, target in labels.items()
        if target is None or (target not in ids and renamed.get(EntryId(target)) not in ids)
    }:
        stays = stays - gone
        ids.difference_update(entries[place].id for place in gone)
        labels = {place: target for place, target in labels.items() if place not in gone}
    return stays


def _newest_told(entries: Sequence[Entry], stays: set[int], data: _Data) -> set[int]:
    """Return *stays* with the newest label of each entry and the newest title alone: lines change their order."""
    newest: dict[str | None, int] = {}
    told: set[int] = set()
    for place in sorted(stays):
        if entries[place].type in _TOLD:
            told.add(place)
            newest[_target(entries[place], data) if entries[place].type == "label" else None] = place
    return stays - told | set(newest.values())


def _others(entries: Sequence[Entry], branch: Sequence[int]) -> Iterator[int]:
    """Yield what is not on the branch; of an id that was used twice, one: the branch's, or the last."""
    ids = {None, *(entries[place].id for place in branch)}
    for place in range(len(entries) - 1, -1, -1):
        if entries[place].id not in ids:
            ids.add(entries[place].id)
            yield place


def _ordered(
    stays: set[int], active: Sequence[int], parents: Sequence[int | None]
) -> tuple[list[int], dict[int, int | None]]:
    """Return what stays, parents first and the end of *active* last, and what each of these follows from now on."""
    follows = _nearest(stays, parents)
    on_branch = set(active)
    others = [place for place in sorted(stays) if place not in on_branch]
    for place in others:
        if follows[place] == active[-1]:
            follows[place] = follows[active[-1]]  # nothing can follow what is to be the last line
    children: dict[int | None, list[int]] = {}
    for place in [*others, *active]:
        children.setdefault(follows[place], []).append(place)
    order: dict[int, None] = {}

    def take(root: int) -> None:
        waiting = [root]
        while waiting:
            place = waiting.pop()
            order[place] = None
            waiting.extend(child for child in reversed(children.get(place, [])) if child not in order)

    for place in children[None][:-1]:  # the last root is that of the branch
        take(place)
    for place in _rings(others, follows):
        follows[place] = None
        take(place)
    take(active[0])
    return list(order), follows


def _nearest(stays: set[int], parents: Sequence[int | None]) -> dict[int, int | None]:
    """Return for each entry that stays the nearest one before it that does; none where only a ring is."""
    follows: dict[int, int | None] = {}
    known: dict[int, int | None] = {}
    for first in stays:
        at, trail = parents[first], []
        while at is not None and at not in stays and at not in known:
            known[at] = None
            trail.append(at)
            at = parents[at]
        found = known[at] if at is not None and at not in stays else at
        known.update(dict.fromkeys(trail, found))
        follows[first] = found
    return follows


def _rings(others: Sequence[int], follows: Mapping[int, int | None]) -> Iterator[int]:
    """Yield one entry of each ring, to which no root leads."""
    seen: dict[int, int] = {}
    for first in others:
        at: int | None = first
        while at is not None and at not in seen:
            seen[at] = first
            at = follows[at]
        if at is not None and seen[at] == first:
            yield at


def _renaming(entry: Entry, renamed: Mapping[EntryId, EntryId], data: _Data) -> dict[str, JSON]:
    """Return what changes on a line that names a repetition."""
    key = _NAMING_KEYS.get(entry.type)
    if key is None:
        return {}
    named = entry.first_kept_id if key == _KEPT else data(entry).get(key)
    return {key: renamed[EntryId(named)]} if isinstance(named, str) and named in renamed else {}


def _keeping(
    boundary: int, entries: Sequence[Entry], parents: Sequence[int | None], stays: Container[int]
) -> dict[str, JSON]:
    """Return what changes on a boundary that names what is left out: it names what follows that, or itself."""
    entry = entries[boundary]
    if entry.first_kept_id in {None, entry.id}:
        return {}
    at, first = parents[boundary], boundary
    seen: set[int] = set()
    while at is not None and at not in seen:
        if entries[at].id == entry.first_kept_id:
            return {} if at in stays else {_KEPT: entries[first].id}
        first = at if at in stays else first
        seen.add(at)
        at = parents[at]
    return {}


def _written(entry: Entry, parent_id: EntryId | None, change: Mapping[str, JSON], *, data: _Data, line: _Line) -> bytes:
    """Return the line of an entry as it shall be: its own bytes where they say that."""
    text = line(entry).strip(b"\x00")  # zeroed blocks before a record are damage, and none of its bytes
    if not change and _MORE_KEY not in text:
        with contextlib.suppress(ValueError):
            head = read_entry(text)
            said = (head.id, head.parent_id, head.first_kept_id, head.first_kept_index)
            if said == (entry.id, parent_id, entry.first_kept_id, None):
                return text
    whole = data(entry)
    fresh = {**whole, "id": entry.id, "parentId": parent_id}
    if entry.first_kept_id is not None:
        fresh[_KEPT] = entry.first_kept_id
    fresh |= change
    fresh.pop("firstKeptEntryIndex", None)
    if type(fresh.get(_MORE)) is int:
        del fresh[_MORE]
    return text if fresh == whole else encode_json(fresh)
