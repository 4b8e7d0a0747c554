"""Everything that can be done to a store of sessions, done to it and to its model."""

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from openclaw_ctx.contract import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CustomMessage,
    EntryId,
    Message,
    Replacement,
    SessionKey,
    SystemMessage,
    ToolCallBlock,
    ToolResultMessage,
    UnknownMessage,
    UserMessage,
)
from openclaw_ctx.errors import EntryNotFoundError, SessionBusyError, SessionExistsError, SessionNotFoundError
from openclaw_ctx.transcript import (
    History,
    SessionInfo,
    SessionStore,
    Transcript,
    rewrite,
)
from tests.transcript.stores.store_model import (
    BOUNDARIES,
    Model,
    carried_over,
    check_rotation,
    context,
    expected,
    labels,
    name,
    record,
    rename_in,
    shown,
    summarised,
    way,
    written_again,
)

__all__ = ["KEYS", "MAYBE", "PICKS", "Machine", "pick"]

_T = TypeVar("_T")

KEYS = [SessionKey("agent:main:main"), SessionKey("A"), SessionKey("a")]
TIME = 1_763_681_630_805

PICKS = st.integers(0, 11)
MAYBE = st.none() | PICKS
TEXTS = st.sampled_from(["yes", "no"])
OTHERS: list[tuple[str, Message]] = [
    ("message", AssistantMessage(content="well", stop_reason="stop")),
    ("message", AssistantMessage(content=[ToolCallBlock(id="c", name="look", arguments={"at": 1})])),
    ("message", ToolResultMessage(content="found", tool_call_id="c", tool_name="look")),
    ("message", BashExecutionMessage(command="ls", output="a")),
    ("message", BashExecutionMessage(command="pwd", output="/", exclude_from_context=True)),
    ("message", SystemMessage(content="Be brief.")),
    ("message", UnknownMessage(data={"role": "narrator", "content": "Meanwhile"})),
    ("custom_message", CustomMessage(content="seen", custom_type="note", timestamp=TIME)),
    ("branch_summary", BranchSummaryMessage(summary="They tried.", timestamp=TIME)),
    ("branch_summary", BranchSummaryMessage(summary="", timestamp=TIME)),
]
ASPECTS = ["record", "labels", "name", "count", "entry", "after"]


def pick(found: Sequence[_T], number: int) -> _T:
    """Return one of what there is."""
    return found[number % len(found)]


class Machine(RuleBasedStateMachine):
    """Does everything to a store and to its model."""

    store: SessionStore
    reads_all = True
    """A live transcript has all lines from the start."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = self.new_store()
        self.sessions: dict[SessionKey, Model] = {}
        self.open: dict[SessionKey, Transcript] = {}
        self.views: dict[SessionKey, list[tuple[History, list[Any]]]] = {}
        self.archives: dict[str, tuple[SessionKey, Model]] = {}
        self.notes: dict[SessionKey, bytes] = {}
        self.touched: SessionKey | None = None

    def new_store(self) -> SessionStore:
        """Return a store over the same data."""
        raise NotImplementedError

    def teardown(self) -> None:
        """Look at everything once more, closed."""
        try:
            if sys.exc_info()[0] is None:  # else it has failed, and the model may lack what the store has
                self.close(None)
                for key in self.sessions:
                    self.check_reader(key)
                    self.check_file(key)
        finally:
            for transcript in self.open.values():
                transcript.close()
            shutil.rmtree(self.folder)

    # -- what is written --------------------------------------------------------------------------

    def writer(self, number: int) -> tuple[SessionKey, Transcript, Model]:
        """Return an open session."""
        self.touched = key = pick(sorted(self.open), number)
        return key, self.open[key], self.sessions[key]

    @initialize(said=st.lists(TEXTS, max_size=4), keep=MAYBE, compacts=st.booleans())
    def begin(self, said: list[str], keep: int | None, *, compacts: bool) -> None:
        """Begin with a conversation, since little can be done without one; with one that was closed and compacted."""
        self.open_session(0)
        for text in said:
            self.told(KEYS[0], UserMessage(content=text))
            self.told(KEYS[0], AssistantMessage(content="well"))
        if compacts:
            self.append_compaction(0, keep, "yes")
            self.close(None)
            self.open_session(0)

    @rule(number=PICKS)
    def open_session(self, number: int) -> None:
        """Open a session; one that is open is busy."""
        self.touched = key = pick(KEYS, number)
        if key in self.open:
            with pytest.raises(SessionBusyError):
                self.store.open(key)
            return
        transcript = self.open[key] = self.store.open(key)
        model = self.sessions.setdefault(key, Model(session_id=transcript.session_id))
        if not model.lines:
            model.session_id = transcript.session_id
        model.is_open, model.leaf, model.known, model.disturbed = True, model.last, len(model.lines), False
        self.views[key] = []

    def told(self, key: SessionKey, message: Message, kind: str = "message") -> None:
        """Append a message to both."""
        transcript, model = self.open[key], self.sessions[key]
        kept = transcript.append(message)
        model.catch_up()
        assert kept == attrs.evolve(message, entry_id=kept.entry_id)
        model.write({"type": kind, "id": kept.entry_id, "message": message})

    @precondition(lambda self: self.open)
    @rule(number=PICKS, said=st.lists(TEXTS, min_size=1, max_size=3))
    def say(self, number: int, said: list[str]) -> None:
        """Say something; often the same."""
        key, _, _ = self.writer(number)
        for text in said:
            self.told(key, UserMessage(content=text))

    @precondition(lambda self: self.open)
    @rule(number=PICKS, others=st.lists(st.none() | st.integers(0, len(OTHERS) - 1), min_size=1, max_size=3))
    def append(self, number: int, others: list[int | None]) -> None:
        """Append messages of any kind, and states of somebody's own."""
        key, transcript, model = self.writer(number)
        for other in others:
            if other is not None:
                kind, message = OTHERS[other]
                if isinstance(message, SystemMessage) and not self.reads_all:
                    continue  # of another root than the first, the end of a file does not tell it
                self.told(key, message, kind)
                continue
            entry_id = transcript.append_custom("mark", {"n": number})
            model.catch_up()
            model.write({"type": "custom", "id": entry_id})

    @precondition(lambda self: self.open)
    @rule(number=PICKS, which=PICKS, label=st.none() | TEXTS, detour=MAYBE)
    def append_label(self, number: int, which: int, label: str | None, detour: int | None) -> None:
        """Name any entry, or take its name away; maybe on another branch."""
        key, transcript, model = self.writer(number)
        if not model.known:
            with pytest.raises(EntryNotFoundError):
                transcript.append_label(EntryId("nobody"), label)
            return
        target = pick(model.lines[: model.known], which)["id"]
        with self.elsewhere(key, detour):
            entry_id = transcript.append_label(target, label)
            model.catch_up()
            model.write({"type": "label", "id": entry_id, "target": target, "label": label})

    @precondition(lambda self: self.open)
    @rule(number=PICKS, title=TEXTS | st.just(""), detour=MAYBE)
    def append_session_info(self, number: int, title: str, detour: int | None) -> None:
        """Give the session a title, or take it away; maybe on another branch."""
        key, transcript, model = self.writer(number)
        with self.elsewhere(key, detour):
            entry_id = transcript.append_session_info(name=title)
            model.catch_up()
            model.write({"type": "session_info", "id": entry_id, "name": title})

    @contextlib.contextmanager
    def elsewhere(self, key: SessionKey, detour: int | None) -> Iterator[None]:
        """Go to another entry for a while, if that is wanted."""
        model = self.sessions[key]
        leaf = model.leaf
        if detour is not None and model.known:
            self.go_to(key, pick(model.lines[: model.known], detour)["id"])
        yield
        if detour is not None and leaf is not None:
            self.go_to(key, leaf)

    def go_to(self, key: SessionKey, leaf: EntryId | None) -> None:
        """Go on from any entry, or from none."""
        self.open[key].branch(leaf)
        self.sessions[key].leaf = leaf

    @precondition(lambda self: self.open)
    @rule(number=PICKS, keep=MAYBE, summary=TEXTS)
    def append_compaction(self, number: int, keep: int | None, summary: str) -> None:
        """Compact the branch, and keep it from any entry on, or nothing of it."""
        _, transcript, model = self.writer(number)
        live = model.live
        keeps = pick(live, keep)["id"] if keep is not None and live else None
        entry_id = transcript.append_compaction(summary=summary, first_kept_entry_id=keeps, tokens_before=1)
        model.catch_up()
        model.write({"type": "compaction", "id": entry_id, "keeps": keeps or entry_id, "summary": summary})

    @precondition(lambda self: self.open)
    @rule(number=PICKS, which=MAYBE)
    def branch(self, number: int, which: int | None) -> None:
        """Go on from any entry, or from none."""
        key, _, model = self.writer(number)
        known = model.lines[: model.known]
        self.go_to(key, pick(known, which)["id"] if which is not None and known else None)

    @precondition(lambda self: self.open)
    @rule(number=PICKS, which=PICKS, text=TEXTS)
    def rewrite(self, number: int, which: int, text: str) -> None:
        """Replace any message."""
        key, transcript, model = self.writer(number)
        targets = [line for line in model.lines[: model.known] if line["type"] == "message"]
        if not targets:
            return
        target = pick(targets, which)
        result = rewrite(transcript, [Replacement(entry_id=target["id"], message=UserMessage(content=text))])
        model.catch_up()
        path = model.live
        assert result.changed == (target in path)
        if not result.changed:
            return
        at = path.index(target)
        fresh, renamed = written_again(path[at:], UserMessage(content=text))
        ids = [data["id"] for data in self.raw(key)[-len(fresh) :]]
        assert not {*ids} & {line["id"] for line in model.lines}
        model.leaf = path[at - 1]["id"] if at else None
        for line, entry_id in zip(fresh, ids, strict=True):
            model.write(rename_in(line, dict(enumerate(ids))) | {"id": entry_id})
        assert {old: transcript.newest_of(EntryId(old)) for old in renamed} == {
            old: ids[n] for old, n in renamed.items()
        }

    # -- what is looked at ------------------------------------------------------------------------

    @precondition(lambda self: self.open)
    @rule(number=PICKS, which=PICKS, aspect=st.sampled_from(ASPECTS))
    def look(self, number: int, which: int, aspect: str) -> None:
        """Look at one thing of an open session, which may be the first that needs all of it."""
        _, transcript, model = self.writer(number)
        live = model.live
        # What others wrote meanwhile may have been read, or not.
        seen = [model.lines[: model.known], model.lines]
        match aspect:
            case "record":
                assert shown(transcript.record()) == expected(record(live))
            case "labels":
                assert transcript.labels in [labels(lines) for lines in seen]
            case "name":
                assert transcript.name in [name(lines) for lines in seen]
            case "count":
                assert transcript.summarised_count == summarised(live)
            case "entry" if model.known:
                line = pick(model.lines[: model.known], which)
                nearest = [one["id"] for one in record(way(model.lines, line["id"])) if one in live]
                assert transcript.has_entry(line["id"]) == (line in live)
                assert transcript.nearest_on_branch(line["id"]) == (nearest or [None])[-1]
            case "after" if live:
                line = pick(live, which)
                rest = record(live[live.index(line) + 1 :])
                assert shown(transcript.record(after=line["id"], limit=2)) == expected(rest[:2])
        assert transcript.leaf_id == model.leaf

    @precondition(lambda self: self.open)
    @rule(number=PICKS, what=st.sampled_from(["views", "note", "others"]))
    def keep(self, number: int, what: str) -> None:
        """Hold on to what is shown now, keep what a host keeps, or see what others wrote."""
        key, transcript, model = self.writer(number)
        match what:
            case "views":
                self.views[key].append((transcript.history, expected(context(model.live))))
                self.views[key].append((transcript.record(), expected(record(model.live))))
            case "note":
                self.notes[key] = bytes([number])
                transcript.set_note(self.notes[key])
                if model.lines:
                    self.store.note_tokens(key, number)
                    model.tokens = {number}
            case _:
                transcript.refresh()
                model.catch_up()

    # -- what becomes of sessions -----------------------------------------------------------------

    @rule(number=MAYBE, reopens=st.booleans())
    def close(self, number: int | None, *, reopens: bool = False) -> None:
        """Close a session and maybe open it again; or close all, and go on with another store object."""
        for _ in range(len(self.open) if number is None else min(1, len(self.open))):
            key, transcript, model = self.writer(number or 0)
            del self.open[key], self.views[key]
            transcript.close()
            model.is_open = False
            if number is not None and reopens:
                self.open_session(KEYS.index(key))
        if number is None:
            self.store.close()
            self.store = self.new_store()

    @rule(number=PICKS, new=PICKS, at=MAYBE)
    def fork(self, number: int, new: int, at: int | None) -> None:
        """Fork a session at any of its entries, or make one of all that it holds."""
        key, new_key = pick(KEYS, number), pick(KEYS, new)
        model = self.sessions.get(key)
        if model is None or not model.lines:
            return
        self.touched = new_key
        if at is None:
            ready = self.raw(key)
            header = {"timestamp": "2025-11-20T23:33:50.805Z"}
            make = lambda: self.store.create(new_key, ready, header=header)  # noqa: E731 -- as short as it gets
            made = Model(lines=list(model.lines))
        else:
            line = pick(model.lines if at < len(KEYS) else model.path, at)
            make = lambda: self.store.fork(key, new_key, at=line["id"])  # noqa: E731 -- as above
            made = Model(lines=model.forked(line["id"]), parent=key, damaged=model.damaged)
        if self.is_taken(new_key):
            with pytest.raises((SessionBusyError, SessionExistsError)):
                make()
            return
        info = make()
        made.session_id = info.session_id
        self.sessions[new_key] = made
        self.check_info(info)

    @precondition(lambda self: self.open)
    @rule(number=PICKS, compacts=st.booleans(), keep=MAYBE)
    def rotate(self, number: int, keep: int | None, *, compacts: bool) -> None:
        """Go on in another transcript."""
        if compacts:
            self.append_compaction(number, keep, "yes")
        key, transcript, model = self.writer(number)
        rotation = self.store.rotate(transcript)
        model.catch_up()
        path = model.live
        assert rotation.rotated == any(line["type"] == "compaction" for line in path)
        if not rotation.rotated:
            return
        raw = self.raw(key)
        lines = carried_over(model.lines, raw)
        check_rotation(model.lines, path, lines)
        assert (rotation.entries_written, rotation.entries_left) == (len(raw), len(model.lines) - len(raw))
        assert (rotation.leaf_id, rotation.session_id) == (lines[-1]["id"], transcript.session_id)
        model.former.append(attrs.evolve(model, former=[], is_open=False, tokens={None}))
        # A line is carried over as it is, with the bytes around it that nobody reads.
        model.lines, model.session_id, model.end = lines, transcript.session_id, "whole"
        model.leaf, model.known = model.last, len(lines)

    @rule(number=PICKS, reason=st.sampled_from(["bak", "reset", "deleted"]))
    def archive(self, number: int, reason: Any) -> None:
        """Put a session aside."""
        self.touched = key = pick(KEYS, number)
        model = self.sessions.get(key)
        if key in self.open or model is None or not model.lines:
            with pytest.raises(SessionBusyError if key in self.open else SessionNotFoundError):
                self.store.archive(key, reason)
            return
        archive = self.store.archive(key, reason)
        del self.sessions[key]
        assert (archive.key, archive.session_id, archive.reason) == (key, model.session_id, reason)
        for one in (*model.former, model):
            self.archives[one.session_id] = key, attrs.evolve(one, former=[], tokens={None})
        self.check_archives()

    @precondition(lambda self: self.archives)
    @rule(number=PICKS, new=MAYBE)
    def restore(self, number: int, new: int | None) -> None:
        """Bring one back, or destroy it."""
        session_id = pick(sorted(self.archives), number)
        key, model = self.archives[session_id]
        wanted = key if new is None else pick(KEYS, new)
        self.touched = wanted
        (found,) = (archive.name for archive in self.store.archives() if archive.session_id == session_id)
        if number > len(KEYS) * 3:
            self.store.remove(found)
            del self.archives[session_id]
            self.check_archives()
            return
        if self.is_taken(wanted):
            with pytest.raises((SessionBusyError, SessionExistsError)):
                self.store.restore(found, key=wanted)
            return
        info = self.store.restore(found, key=wanted if new is not None else None)
        del self.archives[session_id]
        if wanted != key and model.end != "whole":  # lines are copied, each with an end
            model.damaged, model.end = model.damaged or model.end == "torn", "whole"
        self.sessions[wanted] = model
        self.check_info(info)
        self.check_archives()

    def is_taken(self, key: SessionKey) -> bool:
        """Return whether no session can be made under a key."""
        return key in self.open or bool(key in self.sessions and self.sessions[key].lines)

    # -- what must be so --------------------------------------------------------------------------

    def check_info(self, info: SessionInfo) -> None:
        """Compare what a list says of a session."""
        model = self.sessions[info.key]
        assert info.session_id == model.session_id
        assert (info.name, info.parent) == (name(model.lines), model.parent)
        assert info.messages == len(record(model.path))
        assert info.compactions == sum(line["type"] in BOUNDARIES for line in model.path)
        assert info.context_tokens in model.tokens

    def check_archives(self) -> None:
        """Compare what was put aside."""
        archives = {archive.session_id: archive for archive in self.store.archives()}
        assert archives.keys() == self.archives.keys()
        assert all(archive.key == self.archives[session_id][0] for session_id, archive in archives.items())

    @invariant()
    def sessions_are_listed(self) -> None:
        """Every session, and nothing else."""
        infos = self.store.sessions()
        assert {info.key for info in infos} == {key for key, model in self.sessions.items() if model.lines}
        assert len(infos) == len({info.key for info in infos})
        for info in infos:
            self.check_info(info)

    @invariant()
    def what_was_touched_is_as_it_should_be(self) -> None:
        """To its writer, and to others."""
        key, self.touched = self.touched, None
        if key not in self.sessions:
            return
        self.check_reader(key)
        if key in self.open:
            self.check_writer(key)

    def check_writer(self, key: SessionKey) -> None:
        """Compare an open session, without reading more of it than it has read."""
        transcript, model = self.open[key], self.sessions[key]
        live = model.live
        assert transcript.leaf_id == model.leaf
        assert shown(transcript.history) == expected(context(live))
        assert (transcript.session_id, transcript.key) == (model.session_id, key)
        assert transcript.note() == self.notes.get(key)
        if self.reads_all:
            known = model.lines[: model.known]
            assert shown(transcript.record()) == expected(record(live))
            assert (transcript.labels, transcript.name) == (labels(known), name(known))
            assert transcript.summarised_count == summarised(live)
        for view, told in self.views[key]:
            assert shown(view) == told

    def check_reader(self, key: SessionKey) -> None:
        """Compare what somebody finds who comes now: first the context, then what may need all of it."""
        model = self.sessions[key]
        path = model.path
        with contextlib.closing(self.store.read(key)) as reader:
            assert shown(reader.history) == expected(context(path))
            assert reader.leaf_id == model.last
            assert reader.boundary_id == ([line["id"] for line in path if line["type"] in BOUNDARIES] or [None])[-1]
            assert reader.name == name(model.lines)
            assert reader.labels == labels(model.lines)
            assert shown(reader.record()) == expected(record(path))
            assert shown(reader.history) == expected(context(path))
            assert reader.summarised_count == summarised(path)
            assert [entry.id for entry, _ in reader.entries()] == [line["id"] for line in model.lines]
            assert reader.note() == self.notes.get(key)
        if model.lines:
            assert self.store.find(model.session_id) == key

    def raw(self, key: SessionKey) -> list[dict[str, Any]]:
        """Return all lines but the header, as the store's own reader gives them."""
        with contextlib.closing(self.store.read(key)) as reader:
            return [data for _, data in reader.entries()]

    def check_file(self, key: SessionKey) -> None:
        """Look at what there is on a disk."""
