"""Every engine is told every message of the turns that ended, once and in order, whatever happened in between."""
# ruff: noqa: D102 -- what a hook does is in the contract; what an engine under test does, in its class

import pytest

from openclaw_ctx import (
    AssistantMessage,
    BootstrapResult,
    Compaction,
    CompactResult,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.host import QuarantineMirror
from tests.assembly.recording import ByTurn, InBatches, OneByOne, Record, engine_of, open_host, take_turn
from tests.assembly.transcripts import write_transcript

KINDS = [pytest.param(kind, id=kind.__doc__.split(".")[0].lower()) for kind in (OneByOne, InBatches, ByTurn)]


# -- one turn ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_each_message_of_a_turn_is_told_once_in_order(tmp_path, kind):
    """Whatever hook an engine takes a turn by, it gets the turn's messages and no others."""
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")
        await take_turn(talk, "three", "four", "five")

    assert record.seen == ["one", "two", "three", "four", "five"]
    assert record.reasons == ["new"]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_heartbeat_flag_reaches_every_kind_of_engine(tmp_path, kind):
    """B70: true for each message of a heartbeat turn, false again on the user's next one."""
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await take_turn(talk, "tick", "ok", is_heartbeat=True)
        await take_turn(talk, "hello", "hi")

    assert list(zip(record.seen, record.flags, strict=True)) == [
        ("tick", True),
        ("ok", True),
        ("hello", False),
        ("hi", False),
    ]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_loop_is_one_turn(tmp_path, kind):
    """B32: three rounds of tools with a prompt for each: the turn's messages, each once, at its end."""
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="do it"))
        for number in range(3):
            await talk.assemble()
            call = ToolCallBlock(id=f"c{number}", name="run")
            await talk.append(AssistantMessage(content=(TextBlock(text=f"call {number}"), call)))
            await talk.append(ToolResultMessage(tool_call_id=f"c{number}", content=f"result {number}"))
        await talk.assemble()
        await talk.append(AssistantMessage(content="done"))
        ended = await talk.end_turn()

    rounds = [text for number in range(3) for text in (f"call {number}", f"result {number}")]
    assert record.seen == ["do it", *rounds, "done"]
    assert (ended.handed_over, ended.engine, ended.substitution) == (8, "recorder", None)


class Compacting(ByTurn):
    """Folds everything before the newest message into a summary."""

    @hookimpl
    def compact(self, session_file):
        return CompactResult(ok=True, compacted=True, result=Compaction(summary="so far", first_kept_entry_id=None))


@pytest.mark.parametrize("kind", [*KINDS, pytest.param(Compacting, id="its own compaction")])
@pytest.mark.parametrize("engine", ["recorder", "legacy"], ids=["by the engine", "by legacy"])
async def test_a_turn_with_a_compaction_in_it_is_told_whole(tmp_path, kind, engine):
    """B32's kind: what a compaction folded in the middle of a turn still belongs to the turn."""
    record = Record()

    class Delegating(kind):  # type: ignore[misc, valid-type]
        @hookimpl
        async def compact(self, session_key, force):
            if kind is Compacting:
                return Compacting.compact(self, None)
            return await self.services.delegate_compaction(session_key, token_budget=2000, force=force)

    def make(context):
        built = Delegating(record)
        built.services = context.services
        return built

    async with open_host(tmp_path, engines={"recorder": make}) as host, host.session("talk") as talk:
        await take_turn(talk, "first " * 400, "answer")
        told = len(record.seen)
        await talk.append(UserMessage(content="long " * 4000))
        await talk.append(AssistantMessage(content="looking " * 400))
        if engine == "legacy":
            record.failing = {"assemble"}
            await talk.assemble()
            record.failing = set()
        compacted = await talk.compact(budget=2000)
        await talk.append(AssistantMessage(content="done"))
        if engine == "legacy":
            QuarantineMirror(tmp_path / "quarantine").release("recorder")
        await talk.end_turn()

        assert compacted.result.compacted, compacted.result.reason
        assert compacted.engine == engine
        assert len(talk.history) < 5
    assert [text.split()[0] for text in record.seen[told:]] == ["long", "looking", "done"]
    assert len(record.seen) == 5


async def test_the_turn_s_place_in_the_messages_is_told(tmp_path):
    """An engine that takes turns gets the context with the turn at its end, and where the turn begins."""
    places = []

    class Looking(OneByOne):
        @hookimpl
        def after_turn(self, messages, pre_prompt_message_count, session_id, session_key, session_file):
            places.append(([message.text for message in messages], pre_prompt_message_count))

    engines = {"recorder": engine_of(Looking, Record())}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")
        await take_turn(talk, "three", "four")

    assert places == [(["one", "two"], 0), (["one", "two", "three", "four"], 2)]


async def test_a_turn_of_nothing_hands_nothing_over(tmp_path):
    """Ending a turn twice tells nothing twice."""
    record = Record()
    engines = {"recorder": engine_of(ByTurn, record)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")

        again = await talk.end_turn()

    assert again.handed_over == 0
    assert record.seen == ["one", "two"]


# -- meeting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_new_session_is_met_as_new(tmp_path, kind):
    """``new``: nothing to import, no other transcript before it."""
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="hello"))
        await talk.assemble()

    assert record.meetings == [("new", None)]
    assert record.seen == [], "the running turn is not history yet"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_transcript_that_exists_is_imported(tmp_path, kind):
    """``import``: an engine that never met the session is told all of it, before the running turn."""
    write_transcript(tmp_path, "one", "two", "three", "four")
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="five"))
        await talk.assemble()
        imported = list(record.seen)
        await talk.end_turn()

    assert record.meetings == [("import", None)]
    assert imported == ["one", "two", "three", "four"]
    assert record.seen == ["one", "two", "three", "four", "five"]
    assert not any(record.flags)


@pytest.mark.parametrize("kind", [InBatches, ByTurn], ids=["batches", "turns"])
async def test_a_long_import_comes_in_slices(tmp_path, kind):
    """Each slice has a deadline of its own; together they are the whole history, in order."""
    texts = [f"message {number}" for number in range(1203)]
    write_transcript(tmp_path, *texts)
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await talk.assemble()

    assert record.seen == texts
    assert [size for operation, size in record.calls if operation == "ingest_batch"] == [500, 500, 203]


@pytest.mark.parametrize("imported", [0, 4])
async def test_an_engine_that_takes_the_history_upon_itself_gets_nothing_old(tmp_path, imported):
    """``imported_messages`` a number, 0 too: nothing old is handed over, then or at any later meeting."""
    write_transcript(tmp_path, "one", "two", "three", "four")
    record = Record(imported=imported)
    for text in ("five", "six"):
        async with (
            open_host(tmp_path, engines={"recorder": engine_of(InBatches, record)}) as host,
            host.session("talk") as talk,
        ):
            await take_turn(talk, text)

    assert record.seen == ["five", "six"]
    assert record.reasons == ["import", "resume"]


async def test_an_engine_reads_the_history_itself_through_its_services(tmp_path):
    """An engine that imports by ``services.transcript.read`` sees summarised messages too, and none twice."""
    record = Record()

    class Reading(InBatches):
        @hookimpl
        async def bootstrap(self, session_key, reason):
            self.record.meetings.append((reason, None))
            past = await self.services.transcript.read(session_key)
            self.record.note("read", past)
            return BootstrapResult(bootstrapped=True, imported_messages=len(past))

    def make(context):
        built = Reading(record)
        built.services = context.services
        return built

    write_transcript(tmp_path, "one", "two")
    async with open_host(tmp_path, engines={"recorder": make}) as host, host.session("talk") as talk:
        await talk.assemble()
        await take_turn(talk, "three")

    assert record.seen == ["one", "two", "three"]


# -- switching, quarantine, restart --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_switch_to_another_engine_and_back(tmp_path, kind):
    """Decision 7, A to B to A: A is told exactly what it missed, once and in order, and so is B."""
    a, b = Record(), Record()
    engines = {"a": engine_of(kind, a), "b": engine_of(kind, b)}
    for slot, texts in [("a", ("one", "two")), ("b", ("three", "four")), ("a", ("five", "six")), ("b", ("seven",))]:
        async with open_host(tmp_path, slot, engines=engines) as host, host.session("talk") as talk:
            await take_turn(talk, *texts)

    assert a.seen == ["one", "two", "three", "four", "five", "six"]
    assert b.seen == ["one", "two", "three", "four", "five", "six", "seven"]
    assert a.reasons == ["new", "catch_up"]
    assert b.reasons == ["import", "catch_up"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_quarantine_in_the_middle_and_a_registration_after_it(tmp_path, kind):
    """Decision 7: legacy serves two turns; the engine is registered again and told both, then goes on."""
    record = Record()
    async with open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host, host.session("talk") as talk:
        await take_turn(talk, "one", "two")
        record.failing = {"assemble"}
        await take_turn(talk, "three", "four")
        await take_turn(talk, "five", "six")
        missed = list(record.seen)

        record.failing = set()
        host.register_engine("recorder", engine_of(kind, record), refresh=True)
        await take_turn(talk, "seven", "eight")

    assert missed == ["one", "two"]
    assert record.seen == ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    assert record.reasons == ["new", "catch_up"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_restart_that_missed_nothing_is_a_resume(tmp_path, kind):
    """A new host on the same state: reason ``resume``, and nothing is told again."""
    record = Record()
    for text in ("one", "two", "three"):
        async with (
            open_host(tmp_path, engines={"recorder": engine_of(kind, record)}) as host,
            host.session("talk") as talk,
        ):
            await take_turn(talk, text)

    assert record.reasons == ["new", "resume", "resume"]
    assert record.seen == ["one", "two", "three"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_turn_that_a_crash_left_unfinished_is_told_at_the_next_opening(tmp_path, kind):
    """Nobody called end_turn, and the process is gone: what was appended is told when the session is opened again."""
    record = Record()
    engines = {"recorder": engine_of(kind, record)}
    async with open_host(tmp_path, engines=engines) as host:
        talk = await host.session("talk")
        await take_turn(talk, "one", "two")
        await talk.append(UserMessage(content="three"))
        await talk.assemble()
        await talk.append(AssistantMessage(content="four"))
        talk.transcript.close()  # as a crash leaves it: no end_turn, no close
        host._sessions.clear()
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as talk:
        await take_turn(talk, "five")

    assert record.seen == ["one", "two", "three", "four", "five"]
    assert record.reasons == ["new", "catch_up"]
