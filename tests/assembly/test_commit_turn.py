"""Engines that declare durable advancement are told of each accepted turn by one hook, with one key."""
# ruff: noqa: D102 -- what a hook does is in the contract; what an engine under test does, in its class

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import (
    AbortError,
    AbortSignal,
    AssistantMessage,
    BootstrapResult,
    CommitTurnResult,
    EngineInfo,
    EngineTool,
    ModelRejectedError,
    RewriteResult,
    ScriptedAnswer,
    ScriptedModel,
    TextDelta,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.assembly.courier import accepted_turns
from openclaw_ctx.runtime import ModelAsked
from openclaw_ctx.transcript import CUT_OFF
from tests.assembly.plain import texts
from tests.assembly.recording import ByTurn, Record, engine_of, open_host
from tests.assembly.transcripts import write_transcript

REFUSED = ModelRejectedError("scripted", "scripted-1", "no")


@attrs.define
class Ledger(Record):
    """
    A record with an index of turns.

    Attributes:
        keys: Of each commit that came, in order.
        turns: What was committed, by key: nothing twice.
        files: ``(allows rewriting, allows deferred compaction)`` of each commit.
    """

    keys: list[str] = attrs.field(factory=list)
    turns: dict[str, list[str]] = attrs.field(factory=dict)
    files: list[tuple[bool, bool]] = attrs.field(factory=list)

    @property
    def committed(self) -> list[list[str]]:
        """What was committed, in the order of its coming."""
        return list(self.turns.values())


class Durable(ByTurn):
    """Takes a turn whole, once for each key."""

    info = EngineInfo(id="recorder", name="Recorder", turn_advancement="atomic-idempotent-v1")

    @hookimpl
    def commit_turn(self, advancement_key, messages, runtime_context):
        self.record.note("commit_turn", messages)
        self.record.keys.append(advancement_key)
        context = runtime_context
        self.record.files.append(
            (context.rewrite_transcript_entries is not None, context.allow_deferred_compaction_execution)
        )
        if advancement_key in self.record.turns:
            return CommitTurnResult(status="duplicate")
        self.record.turns[advancement_key] = texts(messages)
        return CommitTurnResult(status="committed")


class Forgetful(Durable):
    """Commits, and dies before the host hears of it."""

    @hookimpl
    def commit_turn(self, advancement_key, messages, runtime_context):
        super().commit_turn(advancement_key, messages, runtime_context)
        raise RuntimeError


def durable_host(folder, ledger, script=(), *, kind=Durable, **options):
    """Return a host with such an engine in its slot, and a model that answers from *script*."""
    return open_host(folder, engines={"recorder": engine_of(kind, ledger)}, model=ScriptedModel(script), **options)


def weather():
    """Return a tool that answers, and the answer that calls it."""
    call = ToolCallBlock(id="call-1", name="weather", arguments={})
    tool = EngineTool(name="weather", description="", parameters={}, call=lambda arguments: "rain")
    return tool, ScriptedAnswer(tool_calls=(call,))


async def test_each_accepted_turn_is_committed_once_by_a_key_of_its_own(tmp_path):
    """From what the user said to the answer, tools between them included; no other hook is told of it."""
    ledger = Ledger()
    tool, call = weather()
    async with durable_host(tmp_path, ledger, ["hello", call, "take a coat"]) as host, host.session("talk") as talk:
        await talk.run("hi")
        await talk.run("and outside?", tools=[tool])
        await talk.settle()
        ends = [message.entry_id for message in talk.transcript.record()]

    session_id = talk.session_id
    assert ledger.committed == [["hi", "hello"], ["and outside?", "", "rain", "take a coat"]]
    assert ledger.keys == [f"{session_id}:{ends[0]}:{ends[1]}", f"{session_id}:{ends[2]}:{ends[5]}"]
    assert {operation for operation, _ in ledger.calls} == {"bootstrap", "assemble", "commit_turn"}


async def test_a_commit_comes_behind_the_turn_and_defers_nothing(tmp_path):
    """The transcript may be rewritten from it, as from every hook behind a turn."""
    ledger = Ledger()
    async with durable_host(tmp_path, ledger, ["hello"]) as host, host.session("talk") as talk:
        await talk.run("hi")
        await talk.settle()

    assert ledger.files == [(True, False)]


async def test_a_commit_that_the_host_did_not_hear_of_comes_again_with_its_key(tmp_path):
    """The engine had it before it died: the next host commits with the same key, and goes on behind a duplicate."""
    ledger = Ledger()
    async with durable_host(tmp_path, ledger, ["hello"], kind=Forgetful) as host, host.session("talk") as talk:
        await talk.run("hi")
        await talk.settle()
        assert [row.record.operation for row in host.quarantines()] == ["commit_turn"]
    async with durable_host(tmp_path, ledger, ["again"]) as host, host.session("talk") as talk:
        await talk.run("still there?")
        await talk.settle()

    assert ledger.committed == [["hi", "hello"], ["still there?", "again"]]
    assert ledger.keys[0] == ledger.keys[1]
    assert len(ledger.keys) == 3


async def test_a_mark_that_was_not_written_brings_the_same_key(tmp_path):
    """A crash between commit and mark: what is told again is what was told, with nothing of the next turn in it."""
    ledger = Ledger()
    async with durable_host(tmp_path, ledger, ["one", "two"]) as host, host.session("talk") as talk:
        await talk.run("1")
        await talk.settle()
        note = talk.transcript.note()
        await talk.run("2")
        await talk.settle()
        talk.transcript.set_note(note)
    async with durable_host(tmp_path, ledger, ["three"]) as host, host.session("talk") as talk:
        await talk.run("3")
        await talk.settle()

    assert ledger.committed == [["1", "one"], ["2", "two"], ["3", "three"]]
    assert ledger.keys[1] == ledger.keys[2]


async def test_a_turn_that_failed_is_not_committed(tmp_path):
    """Nor when the session is opened again; once it is answered, the turn is what was said and the answer."""
    ledger = Ledger()
    async with durable_host(tmp_path, ledger, ["fine", REFUSED]) as host, host.session("talk") as talk:
        await talk.run("hi")
        with pytest.raises(ModelRejectedError):
            await talk.run("and?")
        await talk.settle()
    async with durable_host(tmp_path, ledger, ["well"]) as host, host.session("talk") as talk:
        await talk.tools()
        assert ledger.committed == [["hi", "fine"]]

        await talk.run(None)
        await talk.settle()

    assert ledger.committed == [["hi", "fine"], ["and?", "well"]]


async def test_a_turn_that_was_cancelled_in_its_answer_is_never_committed(tmp_path):
    """What the user says behind it begins the next one."""
    ledger = Ledger()
    abort = AbortSignal()
    script = ["half an answer", "whole"]
    async with durable_host(tmp_path, ledger, script) as host, host.session("talk") as talk:

        def stop(event):
            if isinstance(event, TextDelta):
                abort.fire("enough")

        with pytest.raises(AbortError):
            await talk.run("first", on_event=stop, abort=abort)
        assert talk.history[-1].stop_reason == "aborted"
        await talk.run("second")
        await talk.settle()

    assert ledger.committed == [["second", "whole"]]


async def test_a_turn_that_was_cancelled_among_its_tools_is_never_committed(tmp_path):
    """Though pairs are whole in it, and nothing says that it broke off but that the user speaks again."""
    ledger = Ledger()
    abort = AbortSignal()
    _, call = weather()

    def stop(arguments):
        abort.fire("enough")
        return "rain"

    tool = EngineTool(name="weather", description="", parameters={}, call=stop)
    async with durable_host(tmp_path, ledger, ["fine", call, "whole", "and on"]) as host, host.session("talk") as talk:
        await talk.run("hi")
        with pytest.raises(AbortError):
            await talk.run("first", tools=[tool], abort=abort)
        assert isinstance(talk.history[-1], ToolResultMessage)
        await talk.run("second")
        await talk.run("third")
        await talk.settle()

    assert ledger.committed == [["hi", "fine"], ["second", "whole"], ["third", "and on"]]


async def test_a_question_that_failed_unanswered_is_not_committed_with_the_next(tmp_path):
    """Nor later: the mark has moved past it."""
    ledger = Ledger()
    async with durable_host(tmp_path, ledger, [REFUSED, "well"]) as host, host.session("talk") as talk:
        with pytest.raises(ModelRejectedError):
            await talk.run("first")
        await talk.run("second")
        await talk.settle()
    async with durable_host(tmp_path, ledger, ["on"]) as host, host.session("talk") as talk:
        await talk.run("third")
        await talk.settle()

    assert ledger.committed == [["second", "well"], ["third", "on"]]


async def test_a_long_transcript_is_imported_in_its_turns(tmp_path):
    """Each with a key, which is the same on the next import; a question without an answer waits for it."""
    said = [f"line {number}" for number in range(1_401)]
    write_transcript(tmp_path, *said)
    ledger, other = Ledger(), Ledger()
    async with durable_host(tmp_path, ledger, ["late"]) as host, host.session("talk") as talk:
        await talk.tools()
        assert ledger.seen == said[:1_400]
        await talk.run(None)
        await talk.settle()
        keys = list(ledger.keys)
        talk.transcript.set_note(b"{}")
    async with durable_host(tmp_path, other) as host, host.session("talk") as talk:
        await talk.tools()

    assert ledger.seen == [*said, "late"]
    assert len(set(keys)) == len(keys) == 701
    assert other.keys == keys


async def test_an_engine_that_took_the_history_upon_itself_commits_only_what_follows(tmp_path):
    """``imported_messages`` as for every engine."""
    write_transcript(tmp_path, "old question", "old answer")
    ledger = Ledger(imported=2)
    async with durable_host(tmp_path, ledger, ["new answer"]) as host, host.session("talk") as talk:
        await talk.run("new question")
        await talk.settle()

    assert ledger.committed == [["new question", "new answer"]]


async def test_an_engine_that_fails_a_commit_is_told_the_turn_when_it_is_back(tmp_path):
    """Nothing is told twice, nothing left out, and the turns keep their bounds."""
    ledger = Ledger(failing={"commit_turn"})
    async with durable_host(tmp_path, ledger, ["one", "two", "three"]) as host, host.session("talk") as talk:
        await talk.run("1")
        await talk.settle()
        assert [row.record.operation for row in host.quarantines()] == ["commit_turn"]
        await talk.run("2")
        ledger.failing.clear()
        host.register_engine("recorder", engine_of(Durable, ledger), refresh=True)
        await talk.run("3")
        await talk.settle()

    assert ledger.committed == [["1", "one"], ["2", "two"], ["3", "three"]]


async def test_an_import_that_fails_in_the_middle_goes_on_there(tmp_path):
    """What was committed before the failure is marked."""
    write_transcript(tmp_path, "1", "one", "2", "two", "3", "three")
    ledger = Ledger()

    class Stumbling(Durable):
        @hookimpl
        def commit_turn(self, advancement_key, messages, runtime_context):
            if messages[0].text == "2" and not self.record.failing:
                self.record.failing.add("nothing")
                raise RuntimeError
            return super().commit_turn(advancement_key, messages, runtime_context)

    async with durable_host(tmp_path, ledger, kind=Stumbling) as host, host.session("talk") as talk:
        await talk.tools()
        assert ledger.committed == [["1", "one"]]
        host.register_engine("recorder", engine_of(Stumbling, ledger), refresh=True)
        await talk.tools()

    assert ledger.committed == [["1", "one"], ["2", "two"], ["3", "three"]]
    assert len(ledger.keys) == 3


async def test_turns_that_the_time_does_not_suffice_for_wait_and_bar_nobody(tmp_path):
    """What is left of ``deadlines.turnEnd`` bounds them together; the rest is told before the next prompt."""
    ledger = Ledger()
    config = {"deadlines": {"turnEnd": 0.05}}
    async with durable_host(tmp_path, ledger, ["three"], config=config) as host, host.session("talk") as talk:
        await talk.tools()
        for number, answer in enumerate(["one", "two"], start=1):
            await talk.append(UserMessage(content=str(number)))
            await talk.append(AssistantMessage(content=answer))
        ended = await talk.end_turn()
        assert ended.handed_over == 0
        assert not host.quarantines()
        await talk.tools()

    assert ledger.committed == [["1", "one"], ["2", "two"]]


async def test_without_the_declaration_the_hook_is_not_called(tmp_path):
    """An engine that has it and does not declare it is told as before."""
    ledger = Ledger()

    class Undeclared(Durable):
        info = EngineInfo(id="recorder", name="Recorder")

    async with durable_host(tmp_path, ledger, ["hello"], kind=Undeclared) as host, host.session("talk") as talk:
        await talk.run("hi")
        await talk.settle()

    assert ledger.committed == []
    assert ledger.seen == ["hi", "hello"]


async def test_a_declaration_without_the_hook_changes_nothing(tmp_path):
    """The engine is told by the hooks that it has."""
    ledger = Ledger()

    class Hookless(ByTurn):
        info = Durable.info

    async with durable_host(tmp_path, ledger, ["hello"], kind=Hookless) as host, host.session("talk") as talk:
        await talk.run("hi")
        await talk.settle()

    assert ledger.seen == ["hi", "hello"]


async def test_maintenance_follows_a_commit(tmp_path):
    """As it follows ``after_turn``."""
    ledger = Ledger()

    class Tidy(Durable):
        @hookimpl
        def maintain(self):
            self.record.note("maintain")
            return RewriteResult(changed=False)

    async with durable_host(tmp_path, ledger, ["hello"], kind=Tidy) as host, host.session("talk") as talk:
        await talk.run("hi")
        await talk.settle()

    assert [operation for operation, _ in ledger.calls] == [
        "bootstrap",
        "maintain",
        "assemble",
        "commit_turn",
        "maintain",
    ]


async def test_a_prompt_of_the_next_turn_waits_for_the_commit(tmp_path):
    """The engine has the turn before it assembles the next."""
    ledger = Ledger()
    seen = []

    def note(event):
        if isinstance(event, ModelAsked):
            seen.append(len(ledger.keys))

    async with durable_host(tmp_path, ledger, ["one", "two"]) as host, host.session("talk") as talk:
        await talk.run("1", on_event=note)
        await talk.run("2", on_event=note)

    assert seen == [0, 1]


def _message(kind):
    """Return a message of a kind."""
    match kind:
        case "user":
            return UserMessage(content="?")
        case "calls":
            return AssistantMessage(content=(ToolCallBlock(id="1", name="t", arguments={}),), stop_reason="toolUse")
        case "result":
            return ToolResultMessage(tool_call_id="1", tool_name="t", content="!")
        case "cut off":
            return AssistantMessage(content="hal", stop_reason="aborted")
        case _:
            return AssistantMessage(content="half", stop_reason="stop")


KINDS = st.sampled_from(["user", "calls", "result", "cut off", "answer"])


@given(st.lists(KINDS, max_size=10))
def test_accepted_turns_are_apart_in_order_and_whole(kinds):
    """Each begins with what a user said and ends with an answer that was not cut off, and holds no other of either."""
    messages = [_message(kind) for kind in kinds]
    turns = accepted_turns(messages)

    bounds = [bound for turn in turns for bound in turn]
    assert bounds == sorted(bounds)
    for start, stop in turns:
        assert kinds[start] == "user"
        assert kinds[stop - 1] == "answer"
        assert not {"user", "answer"}.intersection(kinds[start + 1 : stop - 1])


@given(st.lists(KINDS, max_size=10))
def test_every_answer_to_a_user_ends_a_turn(kinds):
    """And nothing else does: one for each answer that has a user's message between it and the one before."""
    messages = [_message(kind) for kind in kinds]

    expected = 0
    asked = False
    for kind in kinds:
        asked = asked or kind == "user"
        if kind == "answer" and asked:
            expected += 1
            asked = False
    assert len(accepted_turns(messages)) == expected


@given(st.lists(KINDS, max_size=8), st.lists(KINDS, max_size=4))
def test_what_comes_later_changes_no_turn(kinds, more):
    """So a key that was given stays the same, however much is said before it is asked for again."""
    early = accepted_turns([_message(kind) for kind in kinds])
    late = accepted_turns([_message(kind) for kind in kinds + more])

    assert late[: len(early)] == early


@given(st.lists(KINDS, max_size=10), st.integers(0, 3))
def test_turns_are_the_same_from_a_mark_on(kinds, place):
    """Behind the end of a turn, which is where a mark is, the rest comes to the same turns."""
    messages = [_message(kind) for kind in kinds]
    turns = accepted_turns(messages)
    if place < len(turns):
        end = turns[place][1]
        rest = [(start + end, stop + end) for start, stop in accepted_turns(messages[end:])]

        assert rest == turns[place + 1 :]


@pytest.mark.parametrize("reason", sorted(CUT_OFF))
def test_what_was_cut_off_belongs_to_no_turn_of_the_next_question(reason):
    """A retry of it does: the user asked once."""
    asked, half, answer = (
        UserMessage(content="?"),
        AssistantMessage(content="h", stop_reason=reason),
        _message("answer"),
    )

    assert accepted_turns([asked, half]) == []
    assert accepted_turns([asked, half, asked, answer]) == [(2, 4)]
    assert accepted_turns([asked, half, answer]) == [(0, 3)]


async def test_a_bootstrap_that_says_nothing_of_the_history_is_given_it(tmp_path):
    """``BootstrapResult`` without a number, as for every engine; an empty session commits nothing."""
    ledger = Ledger()
    assert BootstrapResult(bootstrapped=True).imported_messages is None
    async with durable_host(tmp_path, ledger) as host, host.session("talk") as talk:
        await talk.tools()

    assert ledger.reasons == ["new"]
    assert ledger.keys == []
