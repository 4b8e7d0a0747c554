"""A damaged session file has a copy that nobody finds fault with, and in it everything that was said."""

import json
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import Message, ToolResultMessage
from openclaw_ctx.errors import TranscriptFormatError
from openclaw_ctx.transcript import repair_pairs
from openclaw_ctx.transcript.checks.mend import mend_file
from openclaw_ctx.transcript.checks.verify import verify_file
from tests.transcript import test_crash
from tests.transcript.damaged import calls, mended, message, result, talk, text
from tests.transcript.sessions import HEADER, as_bytes, chain, line, new_file, opened, say, texts

# -- laws -------------------------------------------------------------------------------------------


def spoken(messages: Iterable[Message]) -> list[str]:
    """Return what messages say, without blanks; those that say nothing, and tool results, are left out."""
    said = ["".join(one.text.split()) for one in messages if not isinstance(one, ToolResultMessage)]
    return [one for one in said if one]


def answers(messages: Iterable[Message]) -> list[str]:
    """Return the texts of the tool results that have a call, in their order; none whose id is another's too."""
    record = list(messages)
    often = Counter(one.entry_id for one in record)
    kept = {one.entry_id for one in repair_pairs(record).messages if isinstance(one, ToolResultMessage)}
    return [
        one.text
        for one in record
        if isinstance(one, ToolResultMessage) and one.entry_id in kept and often[one.entry_id] == 1
    ]


def is_part(few: Sequence[str], many: Sequence[str]) -> bool:
    """Return whether *many* has all of *few*, in their order."""
    rest = iter(many)
    return all(one in rest for one in few)


_IDS = st.sampled_from(["e1", "e2", "e3", "", None, 7, "s-1"])
_MESSAGES = st.sampled_from(
    [
        message("user"),
        message("user", " "),
        {"role": "user"},
        message("user", text("", "hi")),
        message("assistant", [], stopReason="error"),
        message("assistant", text("ok"), stopReason="stop"),
        calls("a"),
        calls("a", "b"),
        calls("a", stop="aborted"),
        result("a"),
        result("b", ""),
        message("hookMessage"),
        message("user", excludeFromContext=True),
        {"content": "no role"},
        [],
    ]
)
_FIELDS = st.one_of(
    _MESSAGES.map(lambda body: {"type": "message", "message": body}),
    _MESSAGES.map(lambda body: {"type": "message", "message": body}),
    st.fixed_dictionaries(
        {"type": st.just("compaction"), "summary": st.sampled_from(["sum", 5])},
        optional={"firstKeptEntryId": _IDS, "firstKeptEntryIndex": st.integers(-1, 4)},
    ),
    st.fixed_dictionaries({"type": st.just("reset")}, optional={"firstKeptEntryId": _IDS}),
    st.fixed_dictionaries({"type": st.just("label"), "targetId": _IDS}),
    st.fixed_dictionaries(
        {"type": st.just("branch_summary"), "summary": st.sampled_from(["left", None]), "fromId": _IDS}
    ),
    st.fixed_dictionaries({"type": st.just("session"), "id": _IDS}, optional={"version": st.sampled_from([1, 2, "x"])}),
)
_ODD = st.builds(
    lambda fields, more: as_bytes([{key: value for key, value in (fields | more).items() if value != "absent"}]),
    _FIELDS,
    st.fixed_dictionaries(
        {"id": st.just("absent") | _IDS, "parentId": st.just("absent") | _IDS},
        optional={"more": st.integers(0, 3)},
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.booleans(), st.lists(_ODD | _ODD | test_crash._DAMAGE, max_size=8), st.integers(0, 12))
def test_any_bytes_have_a_copy_that_is_whole(begins: bool, parts: list[bytes], cut: int) -> None:  # noqa: FBT001 -- drawn
    """Nobody finds fault with it, what was said is there in its order, and it says what was done or is the same."""
    content = b"".join([as_bytes([HEADER])] * begins + parts)
    holds(content[: max(0, len(content) - cut)])


_OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["delete", "repeat", "move", "cut", "flip"]), st.integers(0, 12), st.integers(0, 300)),
    max_size=3,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_FIELDS, min_size=2, max_size=9), st.lists(st.integers(0, 2), max_size=9), _OPERATIONS)
def test_a_file_that_was_damaged_has_a_copy_that_is_whole(
    fields: list[dict[str, Any]], back: list[int], operations: list[tuple[str, int, int]]
) -> None:
    """The same of a conversation with branches, whose lines were lost, doubled, moved, cut or overwritten."""
    lines = [HEADER]
    for number, of in enumerate(fields, 1):
        parent = number - 1 - (back[number - 1] if number <= len(back) else 0)
        lines.append({"id": f"e{number}", "parentId": f"e{parent}" if parent > 0 else None} | of)
    content = [json.dumps(one).encode() for one in lines]
    for kind, at, value in operations:
        damage(content, kind, at % len(content), value)
        content = content or [b""]

    holds(b"\n".join(content) + b"\n")


def damage(content: list[bytes], kind: str, at: int, value: int) -> None:
    """Do one thing to a file's lines that disks and programs do."""
    one = content.pop(at)
    if kind == "repeat":
        content[at:at] = [one, one]
    elif kind == "move":
        content.insert(value % (len(content) + 1), one)
    elif kind == "cut":
        content.insert(at, one[: value % (len(one) + 1)])
    elif kind == "flip" and one:
        content.insert(
            at, one[: value % len(one)] + b'\x00"{}[]:\xff\n '[value % 10 :][:1] + one[value % len(one) + 1 :]
        )


def holds(content: bytes) -> None:
    """Check all that is promised of a copy."""
    with new_file(content) as path:
        copy = path.with_name("copy.jsonl")

        found = mend_file(path)
        found.write(copy)

        assert path.read_bytes() == content
        assert (found.done == ()) == (copy.read_bytes() == content)
        assert verify_file(copy).ok, verify_file(copy).findings
        assert mend_file(copy).done == ()
        with opened(path) as transcript:
            record, context = [*transcript.record()], [*transcript.history]
        with opened(copy) as transcript:
            assert transcript.take_warnings() == []
            assert is_part(spoken(record), spoken(transcript.record()))
            assert is_part(spoken(context), spoken(transcript.history))
            assert is_part(answers(record), answers(transcript.record()))


# -- what stays -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="an-empty-file"),
        pytest.param(as_bytes([HEADER]), id="a-header-alone"),
        pytest.param(as_bytes([HEADER, *chain("one", "two")]), id="a-conversation"),
        pytest.param(as_bytes([HEADER, *chain("one", "two")]).replace(b"\n", b"\r\n"), id="foreign-line-ends"),
        pytest.param(
            as_bytes([HEADER, b'{ "type":"message","id":"a" , "message":{"role":"user","content":"x","n":1e3}}']),
            id="another-program's-spelling",
        ),
        pytest.param(
            as_bytes([HEADER, b'{"type":"message","id":"a","message":{"role":"user","content":"\\ud800","n":NaN}}']),
            id="what-strict-decoders-refuse",
        ),
        pytest.param(as_bytes([HEADER, *talk(message("user"), calls("a"))]), id="a-tool-that-may-still-be-run"),
        pytest.param(as_bytes([HEADER, *talk(calls("a", stop="error"), message("user"))]), id="a-reply-cut-off"),
        pytest.param(as_bytes([HEADER, *talk(calls("a"), result("a", ""))]), id="an-empty-result"),
        pytest.param(as_bytes([HEADER, *talk(message("assistant", [], stopReason="stop"))]), id="a-clean-empty-stop"),
        pytest.param(as_bytes([{**HEADER, "version": 4}, *chain("one")]), id="a-newer-version"),
        pytest.param(
            as_bytes([HEADER, *(entry | {"more": 2 - n} for n, entry in enumerate(chain("one", "two")))])
            + as_bytes([line("e3", "e2", "three")]),
            id="a-rewrite-that-is-whole",
        ),
        pytest.param(
            as_bytes(
                [HEADER, *talk(message("user"), {"type": "compaction", "summary": "s", "firstKeptEntryId": "e1"})]
            ),
            id="a-compaction",
        ),
    ],
)
def test_a_clean_file_keeps_every_byte(content: bytes, tmp_path: Path) -> None:
    """Nothing is done, nothing is told."""
    path, copy = tmp_path / "s.jsonl", tmp_path / "copy.jsonl"
    path.write_bytes(content)

    found = mend_file(path)
    found.write(copy)

    assert copy.read_bytes() == content
    assert found.done == ()
    assert found.entries == max(0, content.count(b"\n") - 1)


def test_an_answer_at_the_end_is_history() -> None:
    """Unlike in the reference system, answers that end a session stay: it opens again with what was said last."""
    _, lines = mended([HEADER, *talk(message("user"), message("assistant", text("one")), message("assistant"))])

    assert [one["id"] for one in lines[1:]] == ["e1", "e2", "e3"]


def test_an_untouched_line_beside_a_mended_one_keeps_its_bytes(tmp_path: Path) -> None:
    """And of a line whose parent changes, all but that: arguments come back letter for letter (B81)."""
    arguments = rb'{ "code" : "if x:\n\tbody", "path":"C:\\new\\file", "n": 1e3}'
    odd = rb'{ "type":"message" , "id":"e1","message":{"role":"user","content":"caf\u00e9" } }'
    call = (
        b'{"type":"message","id":"e2","parentId":"lost","message":{"role":"assistant","stopReason":"error",'
        b'"content":[{"type":"toolCall","id":"c","name":"n","arguments":' + arguments + b"}]}}"
    )
    path, copy = tmp_path / "s.jsonl", tmp_path / "copy.jsonl"
    path.write_bytes(as_bytes([HEADER, odd, call]))

    mend_file(path).write(copy)

    header, first, second = copy.read_bytes().split(b"\n")[:-1]
    assert (json.loads(header), first) == (HEADER, odd)
    assert arguments in second
    assert json.loads(second) == json.loads(call) | {"parentId": "e1"}


def test_the_account_names_kinds_and_lines_and_no_text() -> None:
    """One phrase a kind, with how often and where first, that may be logged and sent around."""
    found, _ = mended([HEADER, *talk(*[message("user", text("", f"secret {n}")) for n in range(9)]), b"secret"])

    assert found.done == (
        "lines that are no entries left out: 1 (line 11)",
        "messages rid of blank text: 9 (lines 2, 3, 4, 5, 6 and more)",
    )
    assert "secret" not in repr(found)


# -- writing ----------------------------------------------------------------------------------------


def test_a_copy_is_private_and_replaces_nothing(tmp_path: Path) -> None:
    """A new file that its owner alone may read."""
    path, copy = tmp_path / "s.jsonl", tmp_path / "copy.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("one")]))
    found = mend_file(path)

    found.write(copy)

    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        found.write(copy)


def test_a_file_that_has_changed_since_is_not_copied(tmp_path: Path) -> None:
    """What was found out about it may hold no more."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER, *chain("one")]))
    found = mend_file(path)
    with opened(path) as transcript:
        transcript.append(say("two"))

    with pytest.raises(TranscriptFormatError, match="changed while it was being repaired"):
        found.write(tmp_path / "copy.jsonl")

    assert not (tmp_path / "copy.jsonl").exists()


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    """As nowhere else."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(as_bytes([HEADER]))
    (tmp_path / "link.jsonl").symlink_to(path)

    with pytest.raises(TranscriptFormatError, match="symbolic link"):
        mend_file(tmp_path / "link.jsonl")


def test_a_long_file_is_copied_in_pieces_and_whole(tmp_path: Path) -> None:
    """Untouched stretches of more than a piece, mended lines between them, and a last line without its end."""
    lines = chain(*("word " * 2000 for _ in range(400)))
    lines[200]["message"]["content"] = ""
    path, copy = tmp_path / "s.jsonl", tmp_path / "copy.jsonl"
    path.write_bytes(as_bytes([HEADER, *lines])[:-1])

    found = mend_file(path)
    found.write(copy)

    lines[200]["message"]["content"] = "(continue)"
    assert [json.loads(one) for one in copy.read_bytes().split(b"\n")[:-1]] == [HEADER, *lines]
    assert len(found.done) == 2
    with opened(copy) as transcript:
        assert len(texts(transcript.record())) == 400
