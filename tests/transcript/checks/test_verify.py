"""What a check of a session file finds: every kind of damage by its name, and nothing in a file that is whole."""

import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CustomMessage,
    EntryId,
    Message,
    Replacement,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    message_to_wire,
)
from openclaw_ctx.errors import TranscriptFormatError
from openclaw_ctx.transcript import Transcript, pairs_are_whole, rewrite
from openclaw_ctx.transcript.checks.verify import CODES, Finding, verify_file, verify_messages
from tests.transcript.sessions import HEADER, as_bytes, chain, line, new_file, opened, say


def reply(*calls: str, stop_reason: str = "toolUse") -> AssistantMessage:
    """Return an assistant's message with tool calls of the given ids."""
    blocks = [ToolCallBlock(id=call, name="read", arguments={}) for call in calls]
    return AssistantMessage(content=[TextBlock(text="Well."), *blocks], stop_reason=stop_reason)


def result(call: str) -> ToolResultMessage:
    """Return a tool's result."""
    return ToolResultMessage(tool_call_id=call, tool_name="read", content="done")


def conversation(*messages: Message) -> list[dict[str, Any]]:
    """Return the lines of a chain of messages, from line 2 on."""
    return [HEADER, *(line(f"e{i}", f"e{i - 1}" if i > 1 else None, "") | {"message": message_to_wire(message)}
                      for i, message in enumerate(messages, 1))]  # fmt: skip


def entry(kind: str, entry_id: str, parent_id: str | None, **fields: Any) -> dict[str, Any]:
    """Return a line of any type."""
    return {"type": kind, "id": entry_id, "parentId": parent_id, "timestamp": "2025-11-20T23:34:00Z", **fields}


def boundary(kept: object, **fields: Any) -> dict[str, Any]:
    """Return a compaction behind ``e2``."""
    return entry("compaction", "c", "e2", **{"summary": "s", "firstKeptEntryId": kept, "tokensBefore": 1} | fields)


def found(findings: Iterable[Finding]) -> list[tuple[int | None, str]]:
    """Return lines and codes."""
    return [(finding.line, finding.code) for finding in findings]


ONE, TWO = chain("one", "two")
OLD = {key: HEADER[key] for key in HEADER if key != "version"}
FRAGMENT = b'{"type":"message","id":"e1","par'
RECORD = as_bytes([TWO | {"parentId": None}]).replace(b": ", b":").rstrip(b"\n")
ASKS = say("Go on.")

DAMAGE = [
    pytest.param([HEADER, b'{"type":', ONE], [(2, "line-unparsable")], id="a-line-that-is-no-json"),
    pytest.param([HEADER, b"[" * 100_000, ONE], [(2, "line-unparsable")], id="a-line-that-nests-too-deeply"),
    pytest.param([HEADER, b'{"id":"x"}', b"5", ONE], [(2, "line-no-entry"), (3, "line-no-entry")], id="no-type"),
    pytest.param([HEADER, FRAGMENT + RECORD], [(2, "line-fragment")], id="a-record-behind-a-torn-one"),
    pytest.param([HEADER, b"", ONE, b" \t"], [(2, "line-blank")], id="empty-lines-are-told-once"),
    pytest.param([HEADER, b"\x00" * 9, ONE], [(2, "nul-bytes")], id="a-zeroed-block"),
    pytest.param([HEADER, b"\x00" * 9 + RECORD], [(2, "nul-bytes")], id="a-zeroed-block-before-a-record"),
    pytest.param([HEADER, RECORD.replace(b"two", b"t\xffo")], [(2, "not-utf8")], id="a-byte-of-no-character"),
    pytest.param([HEADER, RECORD.replace(b"two", b"t\x01o")], [(2, "control-characters")], id="a-raw-control"),
    pytest.param([b"\xef\xbb\xbf" + as_bytes([HEADER]).rstrip()], [(1, "byte-order-mark")], id="a-byte-order-mark"),
    pytest.param([HEADER, RECORD + b"\r", b"\r"], [(2, "carriage-returns"), (3, "line-blank")], id="cr-lf"),
    pytest.param([HEADER, ONE | {"timestamp": "noon"}], [(2, "timestamp-unparsable")], id="a-time-that-is-none"),
    pytest.param([HEADER | {"timestamp": [1]}], [(1, "timestamp-unparsable")], id="a-header-of-no-time"),
    pytest.param([ONE], [(None, "header-missing")], id="no-header"),
    pytest.param([ONE, HEADER], [(2, "header-misplaced")], id="a-header-behind"),
    pytest.param([HEADER, ONE, HEADER], [(3, "header-repeated")], id="two-headers"),
    pytest.param([HEADER | {"id": 5}, ONE], [(1, "header-id-missing")], id="a-header-without-an-id"),
    pytest.param([HEADER | {"version": "3"}, ONE], [(1, "version-unknown")], id="a-version-in-quotes"),
    pytest.param([HEADER | {"version": True}, ONE], [(1, "version-unknown")], id="a-version-that-is-true"),
    pytest.param([HEADER | {"version": 0}, ONE], [(1, "version-unknown")], id="version-0"),
    pytest.param([HEADER | {"version": 2}, ONE], [(1, "version-old")], id="version-2"),
    pytest.param([HEADER | {"version": 10**4000}, ONE], [(1, "version-new")], id="a-newer-version"),
    pytest.param([OLD, {"type": "message", "message": {"role": "user", "content": "hi"}}] * 1, [(1, "version-old")],
                 id="version-1-has-no-ids"),
    pytest.param([HEADER, ONE | {"id": ""}, {k: TWO[k] for k in TWO if k != "id"}], [(2, "id-missing")], id="no-ids"),
    pytest.param([HEADER, ONE, TWO, TWO], [(4, "id-repeated")], id="an-id-used-twice"),
    pytest.param([HEADER, TWO], [(2, "parent-missing")], id="a-parent-that-is-nowhere"),
    pytest.param([HEADER, ONE | {"parentId": {}}], [(2, "parent-missing")], id="a-parent-that-is-no-text"),
    pytest.param([HEADER, ONE | {"parentId": "s-1"}], [(2, "parent-is-header")], id="a-parent-that-is-the-session"),
    pytest.param([HEADER, TWO, ONE], [(2, "parent-behind")], id="a-parent-that-stands-behind"),
    pytest.param([HEADER, ONE | {"parentId": "e1"}], [(2, "parent-self")], id="its-own-parent"),
    pytest.param([HEADER, ONE | {"parentId": "e2"}, TWO], [(2, "parent-behind"), (2, "parent-ring")], id="a-ring"),
    pytest.param([HEADER, ONE | {"parentId": "e2"}, TWO | {"parentId": "e2"}],
                 [(2, "parent-behind"), (3, "parent-self")], id="a-parent-that-is-its-own"),
    pytest.param([HEADER, line("x", None, "x"), ONE | {"parentId": "e2"}, TWO, boundary("x")],
                 [(3, "parent-behind"), (3, "parent-ring"), (5, "boundary-unresolved")], id="a-boundary-on-a-ring"),
    pytest.param([HEADER, ONE | {"message": "hi"}], [(2, "message-missing")], id="a-message-that-is-text"),
    pytest.param([HEADER, ONE | {"message": {"role": 5}}], [(2, "message-missing")], id="a-message-without-a-role"),
    pytest.param([HEADER, ONE, TWO, boundary("e9")], [(4, "boundary-unresolved")], id="a-boundary-to-nowhere"),
    pytest.param([HEADER, ONE, TWO, boundary(None)], [(4, "boundary-unresolved")], id="a-boundary-that-names-nothing"),
    pytest.param([HEADER, ONE, TWO, boundary(["e1"])], [(4, "boundary-unresolved")], id="a-boundary-to-no-text"),
    pytest.param([HEADER, ONE, line("f", "e1", "x"), TWO, boundary("f")], [(5, "boundary-unresolved")],
                 id="a-boundary-to-another-branch"),
    pytest.param([HEADER, ONE, TWO, boundary("e3"), line("e3", "c", "x")], [(4, "boundary-unresolved")],
                 id="a-boundary-to-what-follows-it"),
    pytest.param([HEADER, ONE, TWO, boundary("e1", summary=["s"])], [(4, "summary-missing")], id="no-summary"),
    pytest.param([HEADER, ONE, entry("branch_summary", "b", "e1", fromId="e1")], [(3, "summary-missing")],
                 id="a-branch-without-a-summary"),
    pytest.param([HEADER, ONE, entry("branch_summary", "b", "e1", fromId=["e1"], summary="s")],
                 [(3, "origin-unresolved")], id="a-branch-from-nowhere"),
    pytest.param([HEADER, ONE, entry("label", "l", "e1", targetId="e9")], [(3, "label-unresolved")], id="a-lost-label"),
    pytest.param([HEADER, ONE, TWO | {"more": 2}], [(3, "batch-unfinished")], id="a-rewrite-that-was-cut-off"),
    pytest.param([HEADER, ONE | {"more": 2}, TWO], [(3, "batch-broken")], id="a-rewrite-with-a-gap"),
    pytest.param([HEADER, ONE | {"more": 2}, b"garbage", TWO], [(3, "line-unparsable")], id="a-rewrite-and-a-bad-line"),
    pytest.param(conversation(ASKS, reply("a"), ASKS), [(3, "turn-unfinished")], id="a-turn-that-was-cut-off"),
    pytest.param(conversation(reply("a", "b"), result("b"), reply()), [(2, "result-missing")], id="a-missing-result"),
    pytest.param(conversation(reply("a", stop_reason="aborted"), ASKS), [(2, "call-cut-off")], id="an-aborted-reply"),
    pytest.param(conversation(ASKS, result("a")), [(3, "result-orphaned")], id="a-result-without-a-call"),
    pytest.param(conversation(reply("a"), result("a"), result("a")), [(4, "result-duplicate")], id="two-results"),
    pytest.param(conversation(reply("a"), ASKS, result("a")), [(4, "result-moved")], id="a-result-that-came-late"),
    pytest.param(conversation(reply("a"), result("a"), reply("a"), result("a")), [(4, "call-id-repeated")],
                 id="an-id-that-was-used-again"),
    pytest.param(conversation(reply(""), result("")), [(2, "call-id-unusable")], id="a-call-with-an-empty-id"),
]  # fmt: skip
AT_THE_END = [
    pytest.param(as_bytes([HEADER, ONE])[:-9], [(2, "tail-torn")], id="a-torn-tail"),
    pytest.param(as_bytes(conversation(reply("a"))).partition(b', "stopReason"')[0][:-1], [(2, "tail-torn")],
                 id="a-tail-torn-behind-a-tool-call"),
    pytest.param(as_bytes([HEADER])[:-9], [(1, "tail-torn")], id="a-torn-header"),
    pytest.param(as_bytes([HEADER, ONE]) + b"\x00" * 50, [(3, "tail-torn")], id="a-zeroed-tail"),
    pytest.param(as_bytes([HEADER, ONE])[:-1], [(2, "newline-missing")], id="no-newline"),
    pytest.param(as_bytes([HEADER, ONE, TWO | {"more": 1}]) + FRAGMENT, [(3, "batch-unfinished"), (4, "tail-torn")],
                 id="a-rewrite-that-was-torn"),
]  # fmt: skip


@pytest.mark.parametrize("lines,expected", DAMAGE)
def test_damage_is_found_by_name_and_line(save, lines: list[object], expected: list[tuple[int | None, str]]) -> None:
    """Each fault is told where it is, and nothing else is told beside it."""
    path = save(*lines)

    verification = verify_file(path)

    assert found(verification.findings) == expected
    assert verification.ok == all(CODES[code][0] == "warning" for _, code in expected)


@pytest.mark.parametrize("content,expected", AT_THE_END)
def test_what_a_crash_leaves_at_the_end_is_a_warning(content: bytes, expected: list[tuple[int | None, str]]) -> None:
    """What the next append mends by itself is no error."""
    with new_file(content) as path:
        verification = verify_file(path)

    assert found(verification.findings) == expected
    assert verification.ok


def test_every_finding_there_can_be_is_shown_by_an_example() -> None:
    """A code that nothing leads to would be a promise that nobody keeps."""
    shown = {code for example in (*DAMAGE, *AT_THE_END) for _, code in example.values[1]}

    assert shown == set(CODES)


def test_a_finding_says_nothing_of_the_session(save) -> None:
    """Findings are logged and sent around: no id, no text, no name of the session is in them."""
    path = save(
        HEADER | {"id": "secret"}, line("secret", "secret2", "secret"), entry("label", "x", None, targetId="secret3")
    )

    findings = verify_file(path).findings

    assert len(findings) == 2
    assert "secret" not in repr(findings)
    assert pickle.loads(pickle.dumps(findings)) == findings  # noqa: S301 -- what was just pickled


def test_a_whole_file_has_no_findings_and_its_counts_are_told(save) -> None:
    """Branches, boundaries that keep all or nothing, labels, clocks that step back: nothing of it is a fault."""
    path = save(
        HEADER,
        ONE | {"timestamp": "2025-11-20T23:34:00+09:00"},
        TWO | {"timestamp": "2020-01-01T00:00:00.000Z"},
        boundary("e1"),
        line("e3", "c", "three"),
        entry("label", "l", "e3", targetId="e1", label="here"),
        line("f1", "e2", "other"),
        entry("branch_summary", "b", "f1", fromId="e3", summary=""),
        entry("reset", "r", "b"),
        entry("compaction", "c2", "r", summary="", firstKeptEntryId="c2"),
        entry("branch_summary", "b2", None, fromId="root", summary="s"),
        entry("custom_message", "m", "c2", customType="x", content="y"),
        entry("message", "z", "m", message={"role": "user", "content": "\ud800", "n": float("nan")}),
        as_bytes([line("zz", "z", "x")]).replace(b'"x"', b"9" * 5000).rstrip(),
    )

    verification = verify_file(path)

    assert verification.findings == ()
    assert verification.ok
    assert (verification.session_id, verification.version) == ("s-1", 3)
    assert (verification.lines, verification.entries, verification.size) == (14, 13, path.stat().st_size)
    assert (verification.messages, verification.branches, verification.compactions) == (7, 3, 2)


def test_an_old_boundary_is_resolved_by_its_number(save) -> None:
    """Version 1 numbers its lines, the header being 0: a boundary keeps from a line before it or is not resolved."""
    said = {"type": "message", "message": {"role": "user", "content": "hi"}}
    cuts = [{"type": "compaction", "summary": "s", "firstKeptEntryIndex": index} for index in (1, 2, 0, 5)]
    path = save(OLD, said, *cuts)

    verification = verify_file(path)

    assert verification.version == 1
    assert found(verification.findings) == [(1, "version-old"), (5, "boundary-unresolved"), (6, "boundary-unresolved")]


def test_what_a_rewrite_left_unfinished_is_not_on_the_active_branch(save) -> None:
    """The next append removes it, so that the branch before it is what counts."""
    path = save(HEADER, *chain("1", "2", "3"), line("f1", None, "x") | {"more": 2}, line("f2", "f1", "y") | {"more": 1})

    assert verify_file(path).messages == 3


def test_the_branch_goes_on_across_a_line_that_nobody_can_read(save) -> None:
    """One bad line costs one message, as it does at opening, and is not told of again by each check."""
    path = save(
        HEADER, ONE, b"garbage", line("e3", "e2", "three"), FRAGMENT + as_bytes([line("e5", "e4", "five")]).strip()
    )

    verification = verify_file(path)

    assert verification.messages == 3
    assert found(verification.findings)[:2] == [(3, "line-unparsable"), (4, "parent-missing")]
    assert found(verification.findings)[2:] == [(5, "line-fragment"), (5, "parent-missing")]


def test_errors_are_kept_before_warnings_and_the_rest_is_counted(save) -> None:
    """A file with no end of warnings still says that it has an error."""
    warnings = [entry("label", f"l{i}", None, targetId="e9") for i in range(130)]
    path = save(HEADER, *warnings, line("z", "e9", "x"))

    verification = verify_file(path)

    assert len(verification.findings) == 100
    assert verification.unnamed == 31
    assert found(verification.findings)[-1] == (132, "parent-missing")
    assert not verification.ok


def test_an_empty_file_is_a_session_that_has_not_begun(save) -> None:
    """It is what opening a new session leaves until something is said."""
    verification = verify_file(save())

    assert (verification.session_id, verification.version, verification.lines) == (None, 3, 0)
    assert verification.findings == ()


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    """A link may lead anywhere, and a pipe would be waited for."""
    (tmp_path / "real.jsonl").write_bytes(as_bytes([HEADER]))
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")

    for path in (tmp_path / "link.jsonl", tmp_path / "pipe.jsonl", tmp_path):
        with pytest.raises(TranscriptFormatError):
            verify_file(path)
    with pytest.raises(FileNotFoundError):
        verify_file(tmp_path / "none.jsonl")


def test_checking_takes_no_lock_and_changes_nothing(tmp_path: Path) -> None:
    """A session can be checked while somebody writes it."""
    path = tmp_path / "s.jsonl"
    with opened(path) as transcript:
        transcript.append(say("one"))
        before = path.read_bytes(), sorted(tmp_path.iterdir())

        assert verify_file(path).ok

        assert (path.read_bytes(), sorted(tmp_path.iterdir())) == before


# -- laws -------------------------------------------------------------------------------------------

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["say", "tool", "note", "state", "label", "compact", "empty", "branch", "root", "rewrite", "reopen"]
        ),
        st.integers(0, 7),
    ),
    max_size=20,
)


def _written(path: Path, steps: list[tuple[str, int]]) -> int:  # noqa: C901, PLR0912 -- one case a step, in one place
    """Do *steps* to a session; return how many messages it says are on its active branch."""
    transcript = Transcript.open(path)
    ends: list[EntryId] = []  # where a turn may end: no call waits for its result
    try:
        for number, (step, choice) in enumerate(steps):
            record = transcript.record()
            match step:
                case "say":
                    transcript.append(say(f"Words {choice}"))
                case "tool":
                    calls = [f"call{number}-{i}" for i in range(choice % 3)]
                    transcript.append(reply(*calls))
                    for call in reversed(calls):
                        transcript.append(result(call))
                case "note":
                    transcript.append(CustomMessage(custom_type="note", content="seen"))
                    transcript.append(BashExecutionMessage(command="ls", exclude_from_context=bool(choice % 2)))
                case "state" if ends:
                    transcript.append(BranchSummaryMessage(summary="Left.", from_id=ends[choice % len(ends)]))
                case "label" if ends:
                    transcript.append_label(ends[choice % len(ends)], "here")
                case "compact" if record:
                    kept = record[choice % len(record)].entry_id
                    transcript.append_compaction(summary="s", first_kept_entry_id=kept, tokens_before=1)
                case "empty":
                    transcript.append_compaction(summary="s", first_kept_entry_id=None, tokens_before=1)
                case "branch" if ends:
                    transcript.branch(ends[choice % len(ends)])
                case "root":
                    transcript.branch(None)
                case "rewrite":
                    # Not across a boundary that keeps nothing: its copy would name the boundary that it is a copy of.
                    branch = transcript.active_branch()
                    start = max((i for i, e in enumerate(branch) if e.first_kept_id == e.id), default=-1)
                    suffix = {e.id for e in branch[start + 1 :]}
                    users = [m for m in record if isinstance(m, UserMessage) and m.entry_id in suffix]
                    for message in users[choice : choice + 2]:
                        fresh = Replacement(entry_id=message.entry_id, message=say(f"Others {number}"))
                        rewrite(transcript, [fresh])
                case "reopen":
                    transcript.close()
                    transcript = Transcript.open(path)
            if transcript.leaf_id is not None:
                ends.append(transcript.leaf_id)
        transcript.close()
        transcript = Transcript.open(path)  # the leaf is the last line now, whatever was branched to without a word
        return len(transcript.record())
    finally:
        transcript.close()


@settings(max_examples=60)
@given(_STEPS)
def test_what_we_write_is_always_whole(steps: list[tuple[str, int]]) -> None:
    """Appends, compactions, branches and rewrites in any order leave a file without a finding, not even a warning."""
    with new_file() as path:
        messages = _written(path, steps)

        verification = verify_file(path)

    assert verification.findings == ()
    assert verification.messages == messages


@settings(max_examples=60)
@given(_STEPS, st.data())
def test_a_file_cut_anywhere_has_no_error(steps: list[tuple[str, int]], data: st.DataObject) -> None:
    """A kill at any byte costs what was being written, which is a warning at most."""
    with new_file() as path:
        _written(path, steps)
        content = path.read_bytes()
        path.write_bytes(content[: data.draw(st.integers(0, len(content)))])

        assert verify_file(path).ok


@settings(max_examples=150)
@given(_STEPS, st.data())
def test_any_byte_may_be_any_other(steps: list[tuple[str, int]], data: st.DataObject) -> None:
    """A file is checked to its end whatever became of it, and stays as it is."""
    with new_file() as path:
        _written(path, [("tool", 2), *steps])
        content = bytearray(path.read_bytes())
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(
            st.sampled_from([*b'\n\r\x00"{}[]:,\\0e\xff\xed'])
        )
        path.write_bytes(content)

        verification = verify_file(path)

        assert path.read_bytes() == content
    assert verification.size == len(content)
    assert verification.lines == content.count(b"\n") + (not content.endswith(b"\n"))


_MESSAGES = st.lists(
    st.one_of(
        st.just(say("x")),
        st.sampled_from("abc").map(result),
        st.builds(
            lambda calls, reason: reply(*calls, stop_reason=reason),
            st.lists(st.sampled_from(["a", "b", "c", "", "long" * 20]), max_size=2),
            st.sampled_from(["toolUse", "stop", "error", "aborted"]),
        ),
    ),
    max_size=7,
)


@settings(max_examples=400)
@given(_MESSAGES)
def test_pairs_without_a_finding_are_whole(messages: list[Message]) -> None:
    """The check and the mending of pairs agree: what one leaves alone the other does not name."""
    findings = [finding for finding in verify_messages(messages) if finding.code != "call-cut-off"]

    assert (not findings) == pairs_are_whole(messages)


@settings(max_examples=100)
@given(_MESSAGES)
def test_a_file_and_its_messages_have_the_same_findings(messages: list[Message]) -> None:
    """A conversation is judged alike before it is imported and after; lines count the header."""
    with new_file(as_bytes(conversation(*messages))) as path:
        on_disk = found(verify_file(path).findings)

    assert on_disk == [(at + 1, code) for at, code in found(verify_messages(messages)) if at is not None]


def test_ids_of_messages_are_there_once() -> None:
    """Two messages that claim one entry are told of, and messages without an entry are not."""
    first, second = UserMessage(content="a", entry_id=EntryId("e")), UserMessage(content="b", entry_id=EntryId("e"))

    assert found(verify_messages([first, say("x"), say("x"), second])) == [(4, "id-repeated")]


def test_a_message_that_no_model_sees_parts_no_pair(save) -> None:
    """A command kept out of the context stands between call and result, and a provider never knows."""
    messages = [reply("a"), BashExecutionMessage(command="ls", exclude_from_context=True), result("a")]
    lines = conversation(*messages)
    lines[-1:] = [entry("branch_summary", "b", "e2", summary=""), lines[-1] | {"parentId": "b"}]

    assert verify_messages([*messages[:2], BranchSummaryMessage(summary=""), messages[2]]) == []
    assert verify_file(save(*lines)).findings == ()


def test_fields_of_any_type_are_judged_and_none_stops_the_check(save) -> None:
    """What is no tool call waits for no result, and a result that names no text answers nothing."""
    call = {"type": "toolCall", "name": "read"}
    asks = {"role": "assistant", "stopReason": [], "content": [5, call, call | {"id": 7}, call | {"id": "a"}]}
    first, second = conversation(ASKS, ASKS)[1:]
    path = save(HEADER, first | {"message": asks}, second | {"message": {"role": "toolResult", "toolCallId": ["a"]}})

    assert found(verify_file(path).findings) == [(2, "turn-unfinished"), (3, "result-orphaned")]


# -- recorded sessions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name,counts,expected",
    [
        pytest.param("agentsessions__pi_small.jsonl", (9, 8, 4, 1, 2), [], id="two-compactions"),
        pytest.param(
            "agentsessions__openclaw_large.jsonl",
            (11, 10, 1, 5, 0),
            [
                (2, "parent-is-header"),
                (6, "parent-is-header"),
                (8, "parent-missing"),  # the parents of results are tool calls there
                (11, "parent-missing"),
                (11, "result-orphaned"),
            ],
            id="parents-that-are-no-entries",
        ),
        pytest.param(
            "pi__large-session.jsonl",
            (1019, 1018, 914, 1, 0),
            [(1, "version-old"), (33, "call-cut-off"), (234, "call-cut-off"), (843, "call-cut-off")],
            id="a-long-session-of-version-1",
        ),
    ],
)
def test_recorded_sessions_are_judged_as_people_judged_them(
    recorded_transcripts: Path, name: str, counts: tuple[int, ...], expected: list[tuple[int | None, str]]
) -> None:
    """Sessions of the reference system and its relatives: lines, entries, messages, branches and compactions."""
    found_here = verify_file(recorded_transcripts / name)

    assert found(found_here.findings) == expected
    assert counts == (
        found_here.lines,
        found_here.entries,
        found_here.messages,
        found_here.branches,
        found_here.compactions,
    )
