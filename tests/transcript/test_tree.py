"""The branch of a transcript's lines that is active."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx.contract import EntryId, Message
from openclaw_ctx.transcript import Entry
from openclaw_ctx.transcript.entry import message_of, read_entry
from openclaw_ctx.transcript.tree import Branch, walk
from tests.transcript.sessions import as_bytes, line

KINDS = st.sampled_from(["said", "said", "hidden", "answered", "did", "note", "label", "compaction", "reset"])


def _read(entry: Entry) -> Message:
    """Return the message of an entry, which ``_path`` has put there."""
    message: Message = entry.message
    return message


def _path(kinds: list[tuple[str, int]]) -> list[Entry]:
    """Return a chain of these kinds; a boundary keeps what begins so many entries before it, if there is such a one."""
    path = []
    for number, (kind, kept) in enumerate(kinds):
        data: dict[str, Any] = line(f"e{number}", f"e{number - 1}" if number else None, kind)
        roles = {"answered": "assistant", "did": "bashExecution"}
        if kind in {"compaction", "reset", "label"}:
            data |= {"type": kind, "summary": "so far", "firstKeptEntryId": f"e{number - kept}"}
            del data["message"]
        elif kind == "note":
            data |= {"type": "custom_message", "customType": "n", "content": "note", "display": True}
            del data["message"]
        else:
            data["message"] |= {"role": roles.get(kind, "user"), "excludeFromContext": kind == "hidden"}
        entry = read_entry(as_bytes([data]).strip())
        entry.message = message_of(data, entry.id)
        path.append(entry)
    return path


def _shown(branch: Branch) -> dict[str, Any]:
    """Return all that a branch says, by entry id."""
    lists = {name: [entry.id for entry in getattr(branch, name)] for name in ("path", "messages", "context")}
    return {**lists, "boundary": branch.boundary and branch.boundary.id, "summarised": branch.summarised}


@given(st.lists(st.tuples(KINDS, st.integers(0, 6)), max_size=9), st.integers(0, 9), st.integers(0, 9))
def test_a_branch_is_the_same_whole_grown_or_cut_back(kinds: list[tuple[str, int]], cut: int, begin: int) -> None:
    """However it came about; and what was cut back and grown again left the branch that it was cut from as it was."""
    path = _path(kinds)
    whole = Branch(list(path), _read)
    before = _shown(whole)
    grown = Branch(path[:begin], _read)
    for entry in path[begin:]:
        grown.grow(entry)

    shorter, other = whole.up_to(min(cut, len(path))), whole.up_to(min(cut, len(path)))
    other.grow(_path([("said", 0)])[0])

    assert _shown(grown) == _shown(whole) == before
    assert _shown(shorter) == _shown(Branch(path[:cut], _read))
    for entry in path[cut:]:
        shorter.grow(entry)
    assert _shown(shorter) == _shown(whole) == before


@given(st.lists(st.tuples(KINDS, st.integers(0, 6)), max_size=9))
def test_a_summary_stands_for_what_the_model_saw_before_what_it_keeps(kinds: list[tuple[str, int]]) -> None:
    """Counted one by one; a reset stands for nothing."""
    path = _path(kinds)

    branch = Branch(path, _read)

    last = branch.boundary
    if last is None or last.type == "reset":
        assert branch.summarised == 0
    else:
        kept = [entry.id for entry in path].index(last.first_kept_id) if last.first_kept_id in _ids(path) else None
        until = path.index(last) if kept is None else min(kept, path.index(last))
        assert branch.summarised == sum(entry.in_context for entry in path[:until])


def _ids(path: list[Entry]) -> set[EntryId | None]:
    return {entry.id for entry in path}


def test_a_walk_that_ends_in_a_circle_ends() -> None:
    """Each entry once, whatever the parents say."""
    entries = [read_entry(as_bytes([line(*ids, "x")]).strip()) for ids in (("a", "b"), ("b", "a"), ("c", "b"))]

    assert [entry.id for entry in walk(entries, EntryId("c"))] == ["a", "b", "c"]
