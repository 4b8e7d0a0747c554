"""What goes into the transcript that follows another: a rotation's successor, and a fork."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from openclaw_ctx.contract import AssistantMessage, EntryId, Message, ToolResultMessage
from openclaw_ctx.transcript import Entry, decode_json, encode_json, pairs_are_whole
from openclaw_ctx.transcript.entry import message_of, read_entry
from openclaw_ctx.transcript.successor import NO_COMPACTION, Successor, plan_fork, plan_successor
from openclaw_ctx.transcript.tree import Branch, walk

Line = dict[str, Any]


class Session:
    """A transcript in memory, which remembers whose lines were decoded."""

    def __init__(self, lines: Iterable[Line | bytes], leaf: str | None = None) -> None:
        self.lines = [line if isinstance(line, bytes) else encode_json(line) for line in lines]
        self.entries = [read_entry(line) for line in self.lines]
        self.leaf = EntryId(leaf) if leaf else self.entries[-1].id
        self.path = walk(self.entries, self.leaf)
        self.decoded: set[str] = set()
        self._place_of = {id(entry): place for place, entry in enumerate(self.entries)}

    def line(self, entry: Entry) -> bytes:
        """Return an entry's bytes."""
        return self.lines[self._place_of[id(entry)]]

    def data(self, entry: Entry) -> Line:
        """Return what is on an entry's line."""
        self.decoded.add(str(entry.id))
        line: Line = decode_json(self.line(entry))
        return line

    @property
    def ids(self) -> list[str | None]:
        """All ids, in the order of the lines."""
        return [entry.id for entry in self.entries]

    @property
    def branch(self) -> Branch:
        """What a model sees."""
        return Branch(list(self.path), lambda entry: message_of(decode_json(self.line(entry)), entry.id))

    @property
    def seen(self) -> list[str | None]:
        """The ids of what a model sees, the last summary first."""
        return [entry.id for entry in self.branch.context]

    @property
    def messages(self) -> list[Message]:
        """The messages that a model sees, without the summary of a compaction."""
        return self.told(entry for entry in self.branch.context if not entry.is_boundary)

    def told(self, entries: Iterable[Entry]) -> list[Message]:
        """Return the messages of entries."""
        return [message_of(decode_json(self.line(entry)), entry.id) for entry in entries]

    def line_of(self, entry_id: str) -> Line:
        """Return the line of this id."""
        line: Line = decode_json(self.lines[self.ids.index(entry_id)])
        return line


def rotated(session: Session) -> tuple[Successor, Session]:
    """Return the plan of a rotation, and the session that it makes."""
    plan = plan_successor(session.entries, session.path, data=session.data, line=session.line)
    assert isinstance(plan, Successor), plan
    return plan, Session(plan.lines, plan.leaf_id)


def forked(session: Session) -> Session:
    """Return the fork of a session's branch."""
    return Session(plan_fork(session.entries, session.path, data=session.data, line=session.line), session.leaf)


# -- lines ------------------------------------------------------------------------------------------


def other(kind: str, entry_id: str, **fields: Any) -> Line:
    """Return a line of any type."""
    return {"type": kind, "id": entry_id, "parentId": None, "timestamp": "2025-11-20T23:34:00Z", **fields}


def said(entry_id: str, text: str = "", **fields: Any) -> Line:
    """Return a line with a user's message, which says its id where it says nothing else."""
    return other("message", entry_id, message={"role": "user", "content": text or entry_id, **fields})


def thought(text: str, **fields: Any) -> Line:
    """Return a block of signed thinking."""
    return {"type": "thinking", "thinking": text, "thinkingSignature": "c2lnbmVk", **fields}


def replied(entry_id: str, *blocks: Line, calls: str = "", stop: str = "stop") -> Line:
    """Return a line with a reply: these blocks, or a text, and a call for each letter."""
    content = [*blocks] or [{"type": "text", "text": entry_id}]
    content += [{"type": "toolCall", "id": call, "name": "read", "arguments": {"of": call}} for call in calls]
    return other("message", entry_id, message={"role": "assistant", "content": content, "stopReason": stop})


def result(entry_id: str, call: str) -> Line:
    """Return a line with a tool's answer."""
    body = {"role": "toolResult", "toolCallId": call, "toolName": "read", "content": entry_id}
    return other("message", entry_id, message=body)


def note(entry_id: str) -> Line:
    """Return a line with a program's message."""
    return other("custom_message", entry_id, customType="n", content=entry_id, display=True)


def label(entry_id: str, target: str, text: str = "here") -> Line:
    """Return a label."""
    return other("label", entry_id, targetId=target, label=text)


def compaction(entry_id: str, kept: str | None = None) -> Line:
    """Return a compaction that keeps from this entry on; nothing by default."""
    return other("compaction", entry_id, summary="so far", firstKeptEntryId=kept or entry_id, tokensBefore=9)


def chained(*lines: Line, behind: str | None = None) -> list[Line]:
    """Return the lines, each behind the one before."""
    parents = [behind, *(line["id"] for line in lines)]
    return [line | {"parentId": parent} for line, parent in zip(lines, parents, strict=False)]


# -- what is left out -------------------------------------------------------------------------------


def test_without_a_compaction_there_is_nothing_to_rotate() -> None:
    """On the active branch, that is; one on another branch is none."""
    lines = [*chained(said("u1"), compaction("c")), *chained(said("u2"), behind="u1")]
    session = Session(lines)

    for entries, path in (session.entries, session.path), ([], []):
        assert plan_successor(entries, path, data=session.data, line=session.line) == NO_COMPACTION


def test_what_the_summary_stands_for_is_left_out() -> None:
    """What is kept goes on under its ids and with its bytes; the first of it has lost its parent."""
    session = Session(chained(said("u1"), said("u2"), said("u3"), said("u4"), compaction("c", "u3"), said("u5")))

    plan, successor = rotated(session)

    assert successor.ids == ["u3", "u4", "c", "u5"]
    assert (plan.compaction_entry_id, plan.leaf_id, plan.left, plan.renamed) == ("c", "u5", 2, {})
    assert successor.line_of("u3") == session.line_of("u3") | {"parentId": None}
    assert successor.lines[1:] == session.lines[3:]
    assert successor.seen == session.seen


def test_the_last_reply_before_what_is_kept_stays_with_its_results() -> None:
    """The compaction keeps from there on, so the model sees it again."""
    lines = chained(said("u1"), replied("a1"), replied("a2", calls="xy"), result("y2", "y"), result("x2", "x"))
    lines += chained(said("u2"), said("u3"), compaction("c", "u3"), behind="x2")

    _, successor = rotated(Session(lines))

    assert successor.ids == ["a2", "y2", "x2", "u3", "c"]
    assert successor.line_of("c")["firstKeptEntryId"] == "a2"
    assert successor.seen == ["c", "a2", "y2", "x2", "u3"]


@pytest.mark.parametrize(
    "reply, summary, stays",
    [
        pytest.param(1_900, 10, True, id="a-short-reply"),
        pytest.param(2_100, 10, False, id="longer-than-the-summary"),
        pytest.param(2_100, 2_200, True, id="shorter-than-the-summary"),
    ],
)
def test_a_reply_that_would_undo_the_compaction_stays_away(reply: int, summary: int, *, stays: bool) -> None:
    """A context that was folded because that reply fills it would be full again, and folded again, for ever."""
    lines = chained(
        said("u1"), replied("a", {"type": "text", "text": "a" * (reply // 2)}, calls="x"), result("x1", "x")
    )
    lines[2]["message"]["content"] = "x" * (reply // 2)
    lines += chained(said("u2"), compaction("c", "u2"), behind="x1")
    lines[-1]["summary"] = "s" * summary

    _, successor = rotated(Session(lines))

    assert successor.seen == (["c", "a", "x1", "u2"] if stays else ["c", "u2"])


def test_a_reply_that_says_nothing_is_not_the_one() -> None:
    """Such as the error that a provider's refusal of a long prompt leaves, or thinking of which only a signature is."""
    refused = other("message", "a2", message={"role": "assistant", "content": [], "stopReason": "error"})
    redacted = replied("a3", thought("[redacted]", redacted=True))
    hidden = said("a4", role="assistant", excludeFromContext=True)
    lines = chained(said("u1"), replied("a1"), refused, redacted, hidden, said("u2"), compaction("c", "u2"))

    assert rotated(Session(lines))[1].ids == ["a1", "u2", "c"]


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param("c", id="its-own-id"),
        pytest.param("nobody", id="an-unknown-id"),
        pytest.param("u9", id="behind-it"),
    ],
)
def test_a_hardened_boundary_keeps_nothing_and_stays_as_it_is(kept: str) -> None:
    """No reply is brought back, and its line keeps its bytes but for the parent."""
    lines = chained(said("u1"), replied("a1"), other("custom", "s"), compaction("c", kept), said("u9"))
    session = Session(lines)

    _, successor = rotated(session)

    assert successor.seen == ["c", "u9"]
    assert successor.ids == ["s", "c", "u9"]
    assert successor.lines[1:] == session.lines[3:]


def test_what_stands_between_the_reply_and_the_kept_is_left_out() -> None:
    """A note or the summary of a branch would be seen again; before the reply they are not."""
    lines = chained(note("n1"), replied("a1"), note("n2"), said("u1"), said("u2"), compaction("c", "u2"))
    branch = chained(other("branch_summary", "b2", fromId="x", summary="over there"), said("u3"), behind="n2")
    lines = [*lines[:3], *branch, *chained(*lines[4:], behind="u3")]

    _, successor = rotated(Session(lines))

    assert successor.ids == ["n1", "a1", "u2", "c"]
    assert successor.seen == ["c", "a1", "u2"]


def test_without_a_reply_such_entries_stay_out_of_sight() -> None:
    """Nothing that the compaction keeps reaches back to them."""
    _, successor = rotated(Session(chained(note("n1"), said("u1"), said("u2"), compaction("c", "u2"))))

    assert successor.ids == ["n1", "u2", "c"]
    assert successor.seen == ["c", "u2"]


@pytest.mark.parametrize(
    "before,kept,stays",
    [
        pytest.param([replied("a", calls="x")], [said("u")], False, id="an-unanswered-call"),
        pytest.param([replied("a", calls="x", stop="aborted")], [said("u")], True, id="a-call-that-was-cut-off"),
        pytest.param([replied("a", calls="xy"), result("rx", "x")], [result("ry", "y")], True, id="results-cut-in-two"),
        pytest.param([replied("a", calls="x")], [result("rx", "x")], True, id="results-cut-off"),
        pytest.param([replied("a", calls="xy")], [result("rx", "x"), said("u")], False, id="half-of-the-results"),
        pytest.param([replied("a", calls="x")], [said("u"), result("rx", "x")], False, id="results-somewhere-else"),
        pytest.param(
            [replied("a", calls="x")], [note("n"), result("rx", "x")], False, id="results-behind-a-program's-message"
        ),
        pytest.param(
            [replied("a", calls="x")],
            [said("h", excludeFromContext=True), result("rx", "x")],
            True,
            id="results-behind-what-the-model-does-not-see",
        ),
        pytest.param(
            [replied("a", calls="x"), result("rx", "x")],
            [replied("a2", calls="x"), result("rx2", "x")],
            False,
            id="an-id-that-is-used-again",
        ),
        pytest.param(
            [replied("a", calls="x"), result("rx", "x")],
            [replied("a2", calls="y")],
            True,
            id="calls-without-results-among-the-kept",
        ),
    ],
)
def test_the_reply_stays_only_where_pairs_are_whole_with_it(
    before: list[Line],
    kept: list[Line],
    stays: bool,  # noqa: FBT001 -- a column of the table
) -> None:
    """B01, B02: with its own results, which may be the first of those kept; never where whole pairs would break."""
    session = Session(chained(*before, *kept, compaction("c", kept[0]["id"]), said("next")))

    _, successor = rotated(session)

    assert ("a" in successor.ids) == stays
    assert successor.seen[1 + stays * len(before) :] == session.seen[1:]
    assert pairs_are_whole(successor.messages) >= pairs_are_whole(session.messages)


def test_of_two_results_of_a_call_the_first_stays() -> None:
    """And no result of another call."""
    lines = chained(replied("a", calls="x"), result("r1", "x"), result("r2", "x"), result("r3", "z"), said("u"))
    session = Session([*lines, *chained(compaction("c", "u"), behind="u")])

    assert rotated(session)[1].ids == ["a", "r1", "u", "c"]


def test_a_reply_that_an_earlier_boundary_kept_is_brought_back() -> None:
    """The model saw it until it was compacted again."""
    for kind in "compaction", "reset":
        first = other(kind, "c1", summary="first", firstKeptEntryId="a2")
        lines = chained(replied("a1"), replied("a2"), first, said("u1"), said("u2"), compaction("c2", "u2"))

        assert rotated(Session(lines))[1].seen == ["c2", "a2", "u2"]


def test_a_reply_that_an_earlier_summary_stands_for_is_not_brought_back() -> None:
    """Nor one from before a reset: the model did not see it any more when it was compacted."""
    for kind in "compaction", "reset":
        first = other(kind, "c1", summary="first", firstKeptEntryId="c1")
        lines = chained(replied("a"), first, said("u1"), said("u2"), compaction("c2", "u2"))

        _, successor = rotated(Session(lines))

        assert successor.ids == ["c1", "u2", "c2"]
        assert successor.seen == ["c2", "u2"]


def test_of_each_state_the_newest_before_the_compaction_stays() -> None:
    """Those behind it all stay, but for a title that a newer one replaced."""
    states = [
        *(other("model_change", f"m{n}", provider="p", modelId=str(n)) for n in (1, 2)),
        *(other("thinking_level_change", f"t{n}", thinkingLevel="low") for n in (1, 2)),
        *(other("session_info", f"i{n}", name=str(n)) for n in (1, 2)),
    ]
    later = [line | {"id": "later-" + line["id"]} for line in states]

    _, successor = rotated(Session(chained(*states, compaction("c"), *later)))

    behind = [line["id"] for line in later if line["id"] != "later-i1"]
    assert successor.ids == ["m2", "t2", "c", *behind]


def test_a_newer_label_or_title_on_a_branch_that_was_left_stays_the_newest() -> None:
    """Lines change their order in a rotation, and of several labels or titles the last line counts."""
    first, tip = said("a"), said("b")
    old = [label("l1", "a", "old"), other("session_info", "i1", name="old")]
    aside = [label("l2", "a", "new"), other("session_info", "i2", name="new")]
    lines = [*chained(first, *old, tip), *chained(*aside, behind="a"), *chained(compaction("c", "a"), behind="b")]

    _, successor = rotated(Session(lines, "c"))

    assert [entry_id for entry_id in successor.ids if entry_id[0] in "li"] == ["l2", "i2"]


def test_a_boundary_that_names_what_is_left_out_names_what_follows_that() -> None:
    """A state that a newer one replaced, or a label; the boundary that the model sees, be it a reset."""
    states = [other("model_change", f"m{n}", provider="p", modelId=str(n)) for n in (1, 2)]
    session = Session(chained(said("u1"), states[0], said("u2"), states[1], said("u3"), compaction("c", "m1")))

    _, successor = rotated(session)

    assert successor.line_of("c")["firstKeptEntryId"] == "u2"
    assert successor.seen == session.seen == ["c", "u2", "u3"]

    reset = other("reset", "r", firstKeptEntryId="m1")
    lines = chained(said("u1"), states[0], said("u2"), states[1], compaction("c"), said("u3"), reset)
    assert rotated(Session(lines))[1].seen == Session(lines).seen == ["u2", "u3"]

    lines = chained(said("u1"), label("l", "u1"), said("u2"), compaction("c", "l"))
    assert rotated(Session(lines))[1].seen == Session(lines).seen == ["c", "u2"]


def test_where_nothing_of_the_kept_stays_the_boundary_keeps_nothing() -> None:
    """It then names itself."""
    lines = chained(said("u1"), replied("a1", thought("", redacted=True)), compaction("c", "a1"))

    _, successor = rotated(Session(lines))

    assert successor.line_of("c")["firstKeptEntryId"] == "c"
    assert successor.ids == ["c"]


def test_a_message_that_is_said_again_before_any_reply_is_said_once() -> None:
    """On both sides of the compaction; what named the repetition names the one that stays."""
    lines = chained(said("u1", "hm"), said("u2", "yes"), note("n"), said("u3", "yes"), compaction("c", "u2"))
    lines += chained(said("u4", "yes"), label("l", "u4"), replied("a"), said("u5", "yes"), behind="c")

    plan, successor = rotated(Session(lines))

    assert successor.ids == ["u2", "n", "c", "l", "a", "u5"]
    assert plan.renamed == {"u3": "u2", "u4": "u2"}
    assert successor.line_of("l")["targetId"] == "u2"
    assert successor.line_of("n")["parentId"] == "u2"
    assert successor.line_of("c")["parentId"] == "n"


def test_what_names_a_repetition_names_the_one_that_stays() -> None:
    """On all branches; the end of the branch too, where the repetition was its last line."""
    elsewhere = other("branch_summary", "b", fromId="u2", summary="over there")
    lines = chained(compaction("c"), said("u1", "x"), elsewhere, said("u2", "x"), compaction("d", "u2"))

    plan, successor = rotated(Session(lines, "u2"))

    assert successor.line_of("b")["fromId"] == "u1"
    assert successor.line_of("d")["firstKeptEntryId"] == "u1"
    assert plan.leaf_id == successor.ids[-1] == "b"


def test_labels_of_what_is_left_out_go_with_it() -> None:
    """On all branches; labels of labels too, and those that mark nothing."""
    lines = chained(said("u1"), said("u2"), label("l1", "u1"), label("l2", "u2"), label("l3", "l1"), label("l4", "?"))
    lines += chained(compaction("c", "u2"), label("l5", "u1"), behind="l4")
    lines += [label("l6", "u1") | {"parentId": "u1"}, other("label", "l7"), said("u3") | {"parentId": "l5"}]

    plan, successor = rotated(Session(lines))

    assert successor.ids == ["u2", "l2", "c", "u3"]
    assert plan.left == 7


def test_the_end_of_a_branch_may_be_left_out() -> None:
    """Then what it followed is the end."""
    plan, successor = rotated(Session(chained(said("u1"), compaction("c"), label("l", "u1"))))

    assert plan.leaf_id == "c"
    assert successor.ids == ["c"]


def test_older_boundaries_and_the_states_of_programs_stay() -> None:
    """They show nothing; and lines of a type that nobody knows stay too, with their bytes."""
    stay = [compaction("c1"), other("reset", "r1"), other("custom", "s", customType="x"), other("new", "n")]

    _, successor = rotated(Session(chained(said("u"), *stay, compaction("c2"))))

    assert successor.ids == ["c1", "r1", "s", "n", "c2"]


def test_older_boundaries_name_what_is_left_of_what_they_kept() -> None:
    """On all branches, so that going back to them shows it; or themselves where nothing is. Unknown names stay."""
    lines = [
        *chained(said("u1"), compaction("c1", "u1"), said("u2"), said("u3"), compaction("c2", "u2")),
        *chained(said("x1"), compaction("x2", "u1"), compaction("x3", "x1"), compaction("x4", "?"), behind="u3"),
        *chained(compaction("c3", "u3"), said("u4"), said("u5"), compaction("y", "u4"), behind="c2"),
    ]

    _, successor = rotated(Session(lines, "u4"))

    kept = {i: successor.line_of(i)["firstKeptEntryId"] for i in ("c1", "c2", "x2", "x3", "x4", "c3", "y")}
    assert kept == {"c1": "c1", "c2": "u3", "x2": "c1", "x3": "x1", "x4": "?", "c3": "u3", "y": "u5"}
    assert successor.seen == ["c3", "u3", "u4"]


def test_what_a_later_reset_keeps_stays() -> None:
    """Though the compaction before it stands for that: the model sees it."""
    lines = chained(said("u1"), replied("a1"), said("u2"), replied("a2"), said("u3"), compaction("c", "u3"), said("u4"))
    session = Session([*lines, *chained(other("reset", "r", firstKeptEntryId="u2"), said("u5"), behind="u4")])

    _, successor = rotated(session)

    assert successor.seen == session.seen == ["u2", "a2", "u3", "u4", "u5"]
    assert successor.ids == ["u2", "a2", "u3", "c", "u4", "r", "u5"]


def test_a_reply_out_of_the_sight_of_a_reset_is_not_brought_back() -> None:
    """The reset hides the compaction, and what that keeps with it."""
    lines = chained(replied("a"), said("u1"), compaction("c", "u1"), other("reset", "r"), said("u2"))

    _, successor = rotated(Session(lines))

    assert successor.ids == ["u1", "c", "r", "u2"]
    assert successor.seen == ["u2"]


def test_what_is_out_of_sight_repeats_nothing() -> None:
    """What the model sees of it would be gone."""
    lines = chained(compaction("c"), said("u1", "yes"), other("reset", "r"), said("u2", "yes"), said("u3", "yes"))

    plan, successor = rotated(Session(lines))

    assert successor.seen == ["u2"]
    assert plan.renamed == {"u3": "u2"}


# -- signatures -------------------------------------------------------------------------------------


def test_signatures_from_before_the_compaction_are_taken_off() -> None:
    """What was thought stays; redacted thinking, which is nothing but its signature, goes; later ones stay."""
    text = {"type": "text", "text": "t", "textSignature": "its own"}
    lines = chained(
        said("u1"),
        replied("a1", thought("why"), text),
        said("u2"),
        replied("a2", thought("[redacted]", redacted=True), thought(""), text),
        compaction("c", "u2"),
        replied("a3", thought("later")),
    )
    session = Session(lines)

    _, successor = rotated(session)

    assert successor.ids == ["a1", "u2", "a2", "c", "a3"]
    assert successor.line_of("a1")["message"]["content"] == [{"type": "thinking", "thinking": "why"}, text]
    assert successor.line_of("a2")["message"] == session.line_of("a2")["message"] | {"content": [text]}
    assert successor.lines[-1] == session.lines[-1]


def test_a_message_of_nothing_but_signatures_is_left_out() -> None:
    """With a call it stays, as its result needs it; and what was empty before stays as it was."""
    redacted = thought("", redacted=True)
    empty = other("message", "a3", message={"role": "assistant", "content": []})
    lines = chained(said("u"), replied("a1", redacted), replied("a2", redacted, calls="x"), result("r", "x"), empty)
    session = Session([*lines, *chained(compaction("c", "u"), behind="a3")])

    _, successor = rotated(session)

    assert successor.ids == ["u", "a2", "r", "a3", "c"]
    assert [block["type"] for block in successor.line_of("a2")["message"]["content"]] == ["toolCall"]


def test_what_is_no_block_of_a_reply_is_let_be() -> None:
    """Text in place of blocks, blocks that are none, messages that are none."""
    odd = [
        other("message", "o1"),
        other("message", "o2", message="text"),
        other("message", "o3", message={"role": "assistant", "content": "text"}),
        other("message", "o4", message={"role": "assistant", "content": [1, None, {"type": 2}, {"type": "thinking"}]}),
        other("message", "o5", message={"role": "user", "content": [thought("a user's")]}),
        other("message", "o6", message={"role": ["user"], "toolCallId": 3, "stopReason": {}}),
    ]
    session = Session(chained(replied("a"), *odd, compaction("c", "o1")))

    _, successor = rotated(session)

    assert successor.ids == session.ids
    assert successor.lines[:-1] == session.lines[:-1]


# -- other branches ---------------------------------------------------------------------------------


def test_other_branches_are_carried_and_follow_what_is_left_of_their_ancestors() -> None:
    """The active branch is written last, as far as parents stand before their children."""
    lines = [
        *chained(other("custom", "s"), said("u1"), said("u2"), said("u3")),
        *chained(said("x1"), said("x2"), behind="u1"),
        *chained(compaction("c", "u3"), said("u4"), behind="u3"),
        *chained(said("y1"), behind="u3"),
        *chained(said("z1"), said("z2")),
    ]
    session = Session(lines, "u4")

    plan, successor = rotated(session)

    assert successor.ids == ["z1", "z2", "s", "x1", "x2", "u3", "y1", "c", "u4"]
    assert [successor.line_of(i)["parentId"] for i in ("z1", "x1", "x2", "u3", "y1")] == [None, "s", "x1", "s", "u3"]
    assert plan.leaf_id == "u4"
    assert plan.left == 2


def test_what_was_left_behind_by_a_rewrite_is_carried() -> None:
    """It has no ancestor left, so it is a tree of its own."""
    lines = [*chained(said("u1"), said("old2"), said("old3")), *chained(said("u2"), compaction("c", "u2"), behind="u1")]

    _, successor = rotated(Session(lines))

    assert successor.ids == ["old2", "old3", "u2", "c"]
    assert successor.line_of("old2")["parentId"] is None


def test_what_stands_behind_the_leaf_follows_what_the_leaf_follows() -> None:
    """Somebody went back and has said nothing yet: the last line has to be the leaf."""
    session = Session(chained(said("u1"), compaction("c"), said("u2"), said("u3"), label("l", "u1"), said("u4")), "u2")

    plan, successor = rotated(session)

    assert plan.leaf_id == "u2"
    assert successor.ids == ["c", "u3", "u4", "u2"]
    assert [successor.line_of(i)["parentId"] for i in ("u3", "u4", "u2")] == ["c", "u3", "c"]


# -- lines and reading ------------------------------------------------------------------------------


def test_the_mark_of_a_batch_is_dropped_and_nothing_else_of_that_name() -> None:
    """A whole file has no unfinished batch; other keys of that name are somebody's."""
    lines = chained(
        compaction("c") | {"more": 0},
        said("u1", more=1) | {"more": 2},
        said("u2", more=1),
        other("custom", "s", more="text"),
        said("u3", '"more": 1') | {"more": 1},
    )
    dead = said("x") | {"parentId": "c", "more": 1}
    session = Session([lines[0], dead, *lines[1:]])

    for made in rotated(session)[1], forked(session):
        assert [made.line_of(i).get("more") for i in ("c", "u1", "u2", "s", "u3")] == [None, None, None, "text", None]
        assert made.line_of("u1")["message"]["more"] == 1
        assert made.lines[-3:-1] == session.lines[-3:-1]
    assert "more" not in rotated(session)[1].line_of("x")


def test_lines_keep_their_bytes() -> None:
    """However they are spelled, as long as nothing changes; what changes keeps all its other keys."""
    odd = b'{ "type":"message","id":"u1","parentId":null, "more":"x","message":{"role":"user","content":"\\ud800"}}\r'
    session = Session(
        [b'{"type":"custom","id":"s","parentId":"u1"}', odd, *chained(compaction("c", "u1"), behind="u1")]
    )

    _, successor = rotated(session)

    assert successor.lines == session.lines[1:2] + session.lines[:1] + session.lines[2:]
    assert forked(session).lines == session.lines[1:]


def test_ids_and_parents_that_were_given_at_reading_are_written() -> None:
    """Those of old versions, and of an entry whose parent was unreadable: in the new file nobody could tell."""
    session = Session([{"type": "message", "message": {"role": "user", "content": "x"}}, said("u"), compaction("c")])
    for entry, (entry_id, parent_id) in zip(session.entries, [("g", None), ("u", "g"), ("c", "u")], strict=True):
        entry.id, entry.parent_id = EntryId(entry_id), parent_id and EntryId(parent_id)
    old = {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 2}
    session.lines[2] = encode_json(old)
    session.entries[2].first_kept_index, session.entries[2].first_kept_id = 2, EntryId("u")
    session.path = list(session.entries)

    fork = forked(session)

    assert [(entry.id, entry.parent_id, entry.first_kept_id) for entry in fork.entries] == [
        ("g", None, None),
        ("u", "g", None),
        ("c", "u", "u"),
    ]
    assert "firstKeptEntryIndex" not in fork.line_of("c")
    assert rotated(session)[1].ids == ["u", "c"]


def test_what_is_left_out_is_not_read() -> None:
    """But the first message, and those from the last reply before the kept on; other branches are copied unread."""
    lines = [
        *chained(*(said(f"u{n}") for n in range(5)), replied("a"), said("v1"), said("v2"), compaction("c", "v2")),
        *chained(said("x1"), said("x2"), behind="v2"),
    ]
    session = Session(lines, "c")

    rotated(session)

    assert session.decoded == {"u0", "a", "v1", "v2", "c"}


def test_order_is_that_of_lines_and_parents_whatever_the_clock_says() -> None:
    """B77: the clock steps back before each line, and nothing is taken for older than it is."""
    lines = chained(said("u1"), replied("a1"), label("l1", "u2"), said("u2"), compaction("c", "u2"), said("u3"))
    lines += [label("l2", "u2") | {"parentId": "a1"}, said("u4") | {"parentId": "u3"}]
    late = [line | {"timestamp": f"2025-11-20T23:{59 - n}:00Z"} for n, line in enumerate(lines)]

    for make in (lambda session: rotated(session)[1]), forked:
        usual, odd = make(Session(lines)), make(Session(late))

        assert odd.ids == usual.ids
        assert odd.seen == usual.seen
    assert rotated(Session(late))[1].seen == ["c", "a1", "u2", "u3", "u4"]


# -- damage -----------------------------------------------------------------------------------------


def test_an_id_that_was_used_twice_costs_nothing_of_the_branch() -> None:
    """The branch's own lines all stay; of the others, what the branch has taken the id of goes."""
    lines = [
        *chained(said("u1"), said("u2")),
        *chained(said("u1", "again"), said("u2", "too"), compaction("c", "u1"), said("u3")),
        *(said("y") | {"parentId": "u3"}, said("x", "first") | {"parentId": "u1"}, said("x", "last")),
        *chained(said("u3", "third"), said("u4"), behind="u3"),
    ]

    _, successor = rotated(Session(lines))

    assert successor.ids == ["x", "u1", "u2", "c", "u3", "y", "u3", "u4"]
    assert successor.line_of("x")["message"]["content"] == "last"
    assert [message.text for message in successor.messages] == ["again", "too", "u3", "third", "u4"]


def test_a_boundary_keeps_from_the_nearest_entry_of_the_id_that_it_names() -> None:
    """And no reply is brought back by an id that is another's too: what is kept would begin at that."""
    named = chained(said("u1"), said("u2"), said("u1", "again"), compaction("c", "u1"))
    replied_to = chained(replied("a"), said("u1"), said("a", "again"), compaction("c", "u1"))

    assert rotated(Session(named))[1].ids == ["u1", "c"]
    assert rotated(Session(replied_to))[1].seen == ["c", "u1", "a"]
    assert rotated(Session(chained(said("c"), compaction("c"))))[1].ids == ["c"]


def test_what_has_the_id_of_a_repetition_keeps_its_name() -> None:
    """The name is still somebody's, so nothing is renamed."""
    lines = chained(compaction("c"), said("u1", "x"), said("u2", "x"), replied("a"), said("u2"), label("l", "u2"))

    plan, successor = rotated(Session(lines))

    assert successor.ids == ["c", "u1", "a", "u2", "l"]
    assert plan.renamed == {}
    assert successor.line_of("l")["targetId"] == "u2"


def test_unknown_parents_end_the_branch_and_rings_are_opened() -> None:
    """The branch begins where the walk ends; a ring elsewhere is opened and carried."""
    lines = [
        *chained(said("x1"), said("x2"), said("x3"), behind="x3"),
        said("x0") | {"parentId": "x2"},
        *chained(said("u1"), compaction("c", "u1"), said("u2"), behind="nobody"),
    ]
    ring = [said("u1") | {"parentId": "u2"}, *chained(compaction("c", "u1"), said("u2"), behind="u1")]

    labels = [
        label("l1", "?") | {"parentId": "l2"},
        label("l2", "?") | {"parentId": "l1"},
        said("x4") | {"parentId": "l1"},
    ]

    assert rotated(Session([*labels, *lines]))[1].ids == ["x4", "x1", "x2", "x3", "x0", "u1", "c", "u2"]
    assert rotated(Session(ring))[1].seen == ["c", "u1", "u2"]
    assert rotated(Session(ring))[1].line_of("u1")["parentId"] is None


def test_a_file_whose_lines_were_sorted_is_put_in_order() -> None:
    """Parents before children again."""
    lines = [*chained(said("u1"), compaction("c", "u1"), said("u2")), *chained(said("x1"), said("x2"), behind="u1")]

    plan, successor = rotated(Session(reversed(lines), "u2"))

    assert successor.ids == ["u1", "x1", "x2", "c", "u2"]
    assert plan.leaf_id == "u2"


# -- forks ------------------------------------------------------------------------------------------


def test_a_fork_has_the_branch_alone() -> None:
    """As it is, summarised messages too, and byte for byte."""
    lines = [*chained(said("u1"), said("u2"), compaction("c", "u2")), *chained(said("x"), behind="u1")]
    session = Session([*lines, *chained(replied("a", thought("why")), behind="c")])

    assert forked(session).lines == [*session.lines[:3], session.lines[4]]
    assert forked(Session(lines, "u1")).ids == ["u1"]
    assert plan_fork([], [], data=session.data, line=session.line) == []


def test_the_newest_label_of_each_entry_on_the_branch_comes_along() -> None:
    """Wherever it stands; the leaf stays the leaf, and the chain is whole."""
    lines = [
        *chained(said("u1"), label("l1", "u1", "old"), label("l2", "x1"), said("u2"), said("u3")),
        *chained(said("x1"), label("l3", "u1", "new"), label("l4", "x1"), label("l5", "u2"), behind="u1"),
        *chained(label("l6", "u2", ""), label("l7", "u3"), label("l8", "u1", "newest"), behind="u3"),
    ]
    session = Session(lines, "u2")

    fork = forked(session)

    assert fork.ids == ["u1", "l1", "l2", "l6", "l8", "u2"]
    assert [entry.parent_id for entry in fork.entries] == [None, "u1", "l1", "l2", "l6", "l8"]
    assert fork.path == fork.entries


def test_a_leaf_that_is_a_label_is_the_newest_of_its_target() -> None:
    """Whatever was said of that later elsewhere: it is the last line."""
    session = Session(chained(said("u1"), label("l1", "u1", "this"), label("l2", "u1", "that")), "l1")

    assert forked(session).ids == ["u1", "l1"]


# -- laws -------------------------------------------------------------------------------------------

_SAYING = ["said", "said", "replied", "called", "called", "result", "result", "signed", "redacted", "hidden"]
_KINDS = st.sampled_from(
    [*_SAYING, "note", "branch_summary", "custom", "label", "model_change", "session_info", "compaction", "reset"]
)
_BACK, _PARENT, _LETTER = st.integers(0, 6), st.sampled_from([0] * 12 + [1, 2, 4]), st.sampled_from("xyz")


def _line(kind: str, entry_id: str, back: str, letter: str) -> Line:
    """Return a line of a kind; *back* names an entry, *letter* tells apart."""
    lines: dict[str, Callable[[], Line]] = {
        "said": lambda: said(entry_id, letter),
        "hidden": lambda: said(entry_id, letter, excludeFromContext=True),
        "replied": lambda: replied(entry_id),
        "called": lambda: replied(entry_id, thought(letter), calls=letter, stop="error" if letter == "z" else "stop"),
        "signed": lambda: replied(entry_id, thought("why"), thought("", redacted=True)),
        "redacted": lambda: replied(entry_id, thought("", redacted=True)),
        "result": lambda: result(entry_id, letter),
        "note": lambda: note(entry_id),
        "label": lambda: label(entry_id, back),
        "compaction": lambda: compaction(entry_id, back),
    }
    make = lines.get(kind, lambda: other(kind, entry_id, summary="s", fromId=back, firstKeptEntryId=back, name=letter))
    return make()


def _grown(
    before: list[tuple[str, int, int, str]], kept: int, behind: list[tuple[str, int, int, str]], leaf_back: int
) -> Session:
    """Return a tree with a compaction: of each line its kind, and what it names and what it follows, so far back."""
    lines: list[Line] = []
    for number, (kind, back, parent, letter) in enumerate([*before, ("compaction", kept, 0, "x"), *behind]):
        follows = lines[max(0, number - 1 - parent)]["id"] if lines else None
        named = lines[max(0, number - back)]["id"] if lines and back else f"e{number}"
        lines.append(_line(kind, f"e{number}", named, letter) | {"parentId": follows, "more": number % 3})
    return Session(lines, lines[max(0, len(lines) - 1 - leaf_back)]["id"])


def _sessions(kinds: st.SearchStrategy[str]) -> st.SearchStrategy[Session]:
    """Return sessions of such lines, whose active branch has been compacted."""
    rows = st.tuples(kinds, _BACK, _PARENT, _LETTER)
    grown = st.builds(
        _grown, st.lists(rows, max_size=14), _BACK, st.lists(rows, max_size=5), st.sampled_from([0, 0, 0, 1, 3])
    )
    return grown.filter(lambda session: any(entry.type == "compaction" for entry in session.path))


SESSIONS = _sessions(_KINDS)


def _plain(session: Session) -> list[Line]:
    """Return what a model sees, by id: bodies, and other lines where there is none; a compaction's summary aside."""
    lines = [decode_json(session.line(entry)) for entry in session.branch.context if not entry.is_boundary]
    return [{"id": line["id"], "body": line.get("message", line["type"])} for line in lines]


def _expected(session: Session) -> list[Line]:
    """Return what a model shall see after a rotation, but for the reply that is brought back."""
    before = {entry.id for entry in session.path[: _compaction(session)]}
    shown = {line["id"]: line for line in _plain(session)}
    start = next((n for n, entry in enumerate(session.path) if entry.id in shown), len(session.path))
    bodies: list[Line] = []
    expected = []
    for entry in session.path[start:]:
        body = decode_json(session.line(entry)).get("message")
        if body is not None:
            if entry.id in before and body["role"] == "assistant":
                blocks = [b for b in body["content"] if "redacted" not in b]
                body = body | {"content": [{k: b[k] for k in b if k != "thinkingSignature"} for b in blocks]}
                if not blocks:
                    continue
            bodies = bodies if body["role"] == "user" else []
            if body in bodies:
                continue
            bodies.append(body)
        if entry.id in shown:
            expected.append(shown[entry.id] if body is None else {"id": entry.id, "body": body})
    return expected


def _compaction(session: Session) -> int:
    return max(n for n, entry in enumerate(session.path) if entry.type == "compaction")


@settings(max_examples=400, deadline=None)
@given(SESSIONS)
def test_the_model_sees_what_it_saw_and_the_reply_before_it(session: Session) -> None:
    """Repetitions collapsed and signatures off; the reply stands first, with results of its own and nothing else."""
    _, successor = rotated(session)

    shown, expected = _plain(successor), _expected(session)
    reply = shown[: len(shown) - len(expected)]
    assert shown[len(reply) :] == expected
    assert [entry.id for entry in successor.branch.context if entry.is_boundary] == [
        entry.id for entry in session.branch.context if entry.is_boundary
    ]
    if reply:
        calls = {block["id"] for block in reply[0]["body"]["content"] if block["type"] == "toolCall"}
        assert reply[0]["body"]["role"] == "assistant"
        assert {line["body"]["toolCallId"] for line in reply[1:]} <= calls
        assert b"ignature" not in encode_json(reply)
        behind = [entry.id for entry in session.path[: _compaction(session)]]
        assert [line["id"] for line in reply] == [i for i in behind if i in {line["id"] for line in reply}]


@settings(max_examples=400, deadline=None)
@given(_sessions(st.sampled_from(_SAYING)))
def test_the_reply_before_what_is_kept_is_there_where_pairs_allow_it(session: Session) -> None:
    """The last that says anything, unless nothing is kept."""
    at = _compaction(session)
    path = [entry.id for entry in session.path]
    kept = path.index(session.path[at].first_kept_id) if session.path[at].first_kept_id in path[:at] else 0
    told = [m for e, m in zip(session.path[:kept], session.told(session.path[:kept]), strict=True) if e.in_context]
    replies = [m for m in told if isinstance(m, AssistantMessage) and "'redacted'" not in str(m.content[0])]
    if not replies:
        return
    last = replies[-1]
    results = [m for m in told[told.index(last) :] if isinstance(m, ToolResultMessage)]
    answers = {m.tool_call_id: m for m in reversed(results)}
    group = [last, *(answers[call.id] for call in last.tool_calls if call.id in answers)]

    _, successor = rotated(session)

    assert (last.entry_id in successor.seen) >= pairs_are_whole([*group, *session.messages])


@settings(max_examples=400, deadline=None)
@given(SESSIONS)
def test_pairs_that_were_whole_are_whole(session: Session) -> None:
    """B01, B02: a rotation parts no result from its call."""
    assume(pairs_are_whole(session.messages))

    assert pairs_are_whole(rotated(session)[1].messages)


@settings(max_examples=400, deadline=None)
@given(SESSIONS)
def test_a_successor_is_a_tree_in_order(session: Session) -> None:
    """Every id once, parents before children, the leaf last, its own branch and no other entries."""
    plan, successor = rotated(session)

    ids = successor.ids
    assert len(set(ids)) == len(ids) == len(session.entries) - plan.left
    assert set(ids) <= set(session.ids)
    assert plan.leaf_id == ids[-1]
    assert all(entry.parent_id in {None, *ids[:n]} for n, entry in enumerate(successor.entries))
    on_path = [entry.id for entry in session.path if entry.id in ids]
    assert [entry.id for entry in successor.path] == on_path
    for boundary in (entry for entry in successor.entries if entry.is_boundary):
        old = [entry.id for entry in walk(session.entries, boundary.id)]
        new = [entry.id for entry in walk(successor.entries, boundary.id)]
        assert boundary.first_kept_id in new or boundary.first_kept_id not in old
    off_path = set(session.ids) - {entry.id for entry in session.path}
    assert {i for i in off_path if session.line_of(str(i))["type"] not in {"label", "session_info"}} <= set(ids)
    assert set(plan.renamed) & set(ids) == set()
    assert set(plan.renamed.values()) <= set(ids)


@settings(max_examples=400, deadline=None)
@given(SESSIONS)
def test_a_line_changes_only_where_it_must(session: Session) -> None:
    """Its parent, the mark of a batch, the names of repetitions, signatures, and what the boundary keeps."""
    plan, successor = rotated(session)

    for entry in successor.entries:
        old, new = session.line_of(str(entry.id)), successor.line_of(str(entry.id))
        assert "more" not in new
        for key in {key for key in old | new if old.get(key) != new.get(key)} - {"more", "parentId"}:
            if key == "message":
                assert b"ignature" in encode_json(old)
                assert b"ignature" not in encode_json(new)
            elif key == "firstKeptEntryId":
                assert entry.id == plan.compaction_entry_id or old[key] not in successor.ids or old[key] == plan.leaf_id
            else:
                assert (old["type"], key) in {("label", "targetId"), ("branch_summary", "fromId")}
                assert new[key] == plan.renamed[old[key]]


@settings(max_examples=400, deadline=None)
@given(SESSIONS)
def test_a_second_rotation_shows_a_model_nothing_new(session: Session) -> None:
    """Nor does it change a byte."""
    plan, successor = rotated(session)

    again, _ = rotated(successor)

    assert again.lines == plan.lines
    assert (again.left, again.renamed) == (0, {})


@settings(max_examples=300, deadline=None)
@given(SESSIONS)
def test_a_fork_is_one_chain_that_says_the_same(session: Session) -> None:
    """The branch, labels that mark it, and the same leaf."""
    fork = forked(session)

    assert fork.path == fork.entries
    assert fork.ids[-1] == session.leaf
    path = [entry.id for entry in session.path]
    assert [i for i in fork.ids if i in path] == path
    assert all(fork.line_of(str(i))["targetId"] in path for i in set(fork.ids) - set(path))
    assert _plain(fork) == _plain(session)
    assert len(set(fork.ids)) == len(fork.ids)


_NAMES, _FOLLOWED = st.sampled_from("abcdef?"), st.sampled_from([None, *"abcdef?"])


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(_KINDS, st.sampled_from("abcdef"), _FOLLOWED, _NAMES), max_size=12),
    st.tuples(st.just("compaction"), st.sampled_from("abcdef"), _FOLLOWED, _NAMES),
    st.lists(st.tuples(_KINDS, _NAMES), max_size=2),
)
def test_damage_costs_nothing_of_the_branch(before: list[Any], boundary: Any, behind: list[Any]) -> None:
    """Ids used twice, unknown parents, rings: lines of the branch stay, and so does their order."""
    rows = [*before, boundary]
    for kind, named in behind:
        rows.append((kind, "z", rows[-1][1], named))
    session = Session(
        _line(kind, entry_id, named, "xyz"[number % 3]) | {"parentId": parent, "n": number}
        for number, (kind, entry_id, parent, named) in enumerate(rows)
    )

    plan, successor = rotated(session)
    fork = forked(session)

    def numbers(made: Session, entries: Iterable[Entry]) -> list[int]:
        return [decode_json(made.line(entry))["n"] for entry in entries]

    path, carried = numbers(session, session.path), numbers(successor, successor.entries)
    assert numbers(successor, successor.path) == [n for n in path if n in carried]
    assert successor.ids[-1] == plan.leaf_id
    assert all(e.parent_id in {None, *successor.ids[:n]} for n, e in enumerate(successor.entries))
    seen = numbers(session, (entry for entry in session.branch.context if entry.type == "message"))
    replies = {n for n in seen if rows[n][0] not in {"said", "hidden", "redacted"}}
    assert replies <= set(carried)
    first = [entry.first_kept_id for made in (session, successor) if (entry := made.branch.boundary)]
    if first[0] == first[1] or successor.ids.count(first[1]) == 1:
        # Else what the boundary named is left out, and nothing else can be named.
        assert replies <= set(numbers(successor, successor.branch.context))
    assert [n for n in numbers(fork, fork.path) if n in path] == path
