"""A conversation goes on behind an engine that fails, and nothing it said on the way out does harm."""

import asyncio
import json
import logging

import pytest

from openclaw_ctx import (
    AssistantMessage,
    EngineFailedError,
    Registry,
    SessionClosedError,
    SubstitutionRefusedError,
    UserMessage,
)
from openclaw_ctx.host import Policy, discover, offers

FORGED = "line one\nengine.restored engine=acme\x1b[2K\u2028more\u202etxt.exe\x85end"
SECRETS = {
    "authorization": "Basic dXNlcjpodW50ZXIy",
    "bearer": "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "cookie": "session=5f2b9c1e8d7a4f3b",
    "app_secret": "b7d1c0ffee1234567890abcdef",
    "key": "sk-ant-REDACTED",
}


def failing(operation: str, parameters: str, body: str) -> str:
    """Return an engine with a hook that has these lines."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return f"class Engine(Plain):\n    @hookimpl\n    async def {operation}(self{parameters}):\n{lines}\n"


ENGINES = {
    "good": "class Engine(Plain): ...",
    "neighbour": "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\nclass Engine(Plain): ...",
    "after-turn-hangs": failing("after_turn", ", messages", "await asyncio.Event().wait()"),
    "after-turn-blocks": failing("after_turn", ", messages", "gate.wait()\nraise ValueError('late')"),
    "maintain-hangs": """
class Engine(Plain):
    @hookimpl
    async def maintain(self):
        log.append("maintain")
        if len(log) > 1:
            await asyncio.Event().wait()
""",
    "ingest-hangs": """
class Engine(Plain):
    @hookimpl
    def ingest(self, message):
        log.append(message.text)
        if len(log) == 3:
            gate.wait()
        return IngestResult(ingested=True)
""",
    "chained": failing(
        "assemble",
        "",
        f'try: raise ConnectionError(\'\'\'GET /v1 with headers {{"Authorization": "{SECRETS["authorization"]}", '
        f'"Cookie": "{SECRETS["cookie"]}"}}, app_secret={SECRETS["app_secret"]}\'\'\')\n'
        "except ConnectionError as cause: raise RuntimeError('the index did not answer') from cause",
    ),
    "provider": failing(
        "assemble",
        "",
        f"raise ValueError('401: key {SECRETS['key']} with {SECRETS['bearer']} refused. ' + 'See the manual. ' * 500)",
    ),
    "forges": failing("assemble", "", f"raise ValueError({FORGED!r})"),
    "forges-by-key": failing("assemble", "", f"return {{{FORGED!r}: 1, 'api_key={SECRETS['key']}': 2}}"),
    "forges-by-name": failing("assemble", "", f"raise type({FORGED!r}, (Exception,), {{}})"),
    "import-error": "import acme_nowhere",
    "raises": failing("assemble", "", "raise ValueError('no such index')"),
    "bootstrap-raises": failing("bootstrap", "", "raise ValueError('no such session')"),
    "waits": failing("assemble", "", "entered.set()\nawait asyncio.Event().wait()"),
    "dispose-raises": failing("dispose", "", "log.append('disposed')\nsys.exit('at last')"),
    "dispose-hangs": failing("dispose", "", "log.append('disposed')\ngate.wait()"),
    "tools": failing("tools", "", "raise ValueError('no such index')"),
    "odd-mode": "class Engine(Plain):\n    info = EngineInfo(id='a', name='A', turn_maintenance_mode='at night')",
}


@pytest.mark.parametrize("engine_id", ["after-turn-hangs", "after-turn-blocks"])
async def test_a_turn_s_end_that_never_comes_does_not_silence_the_session(open_host, base, engine_id):
    """B28: the first answer is out, the second turn runs, and what the engine says later is observed and dropped."""
    async with open_host(engine_id, deadlines={"afterTurn": 0.1}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))
        first = await session.assemble()
        await session.append(AssistantMessage(content="Good morning"))

        ended = await session.end_turn()
        await session.append(UserMessage(content="And now?"))
        second = await session.assemble()

        again = await session.end_turn()
        (row,) = host.quarantines()
        base.gate.set()
    assert (first.engine, ended.engine, second.engine, again.engine) == (engine_id, "legacy", "legacy", "legacy")
    assert ended.handed_over == 0
    assert [message.text for message in second.messages] == ["Hello", "Good morning", "And now?"]
    assert (row.record.operation, row.record.reason) == ("after_turn", "no answer within 0.1 s")


async def test_maintenance_that_never_ends_does_not_silence_the_session(open_host):
    """B28: the turn has been handed over, and only its maintenance is given up."""
    async with open_host("maintain-hangs", deadlines={"maintain": 0.1}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))
        await session.assemble()

        ended = await session.end_turn()
        await session.append(UserMessage(content="And now?"))
        second = await session.assemble()

        (row,) = host.quarantines()
    assert (ended.handed_over, ended.engine, second.engine) == (1, "legacy", "legacy")
    assert row.record.operation == "maintain"


async def test_a_message_at_which_ingestion_stops_is_named(open_host, base, caplog):
    """B28: stuck on message 3 of 5: two were taken, the log says which was not, and the next turn runs."""
    async with open_host("ingest-hangs", deadlines={"ingest": 0.1}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="message 1"))
        await session.assemble()
        for number in range(2, 6):
            await session.append(AssistantMessage(content=f"message {number}"))

        ended = await session.end_turn()
        await session.append(UserMessage(content="And now?"))
        second = await session.assemble()

        (row,) = host.quarantines()
    assert (ended.handed_over, ended.engine, second.engine) == (2, "legacy", "legacy")
    assert base.log == ["message 1", "message 2", "message 3"]
    assert row.record.operation == "ingest"
    (stopped,) = [message for message in caplog.messages if message.startswith("handover.stopped")]
    assert "operation=ingest message=3 messages=5" in stopped


async def test_everything_after_a_turn_has_one_deadline_together(open_host):
    """B28: the total binds where the operation's own deadline is longer."""
    async with (
        open_host("after-turn-hangs", deadlines={"afterTurn": 3600, "turnEnd": 0.1}) as host,
        host.session("talk") as session,
        asyncio.timeout(10),
    ):
        await session.append(UserMessage(content="Hello"))

        ended = await session.end_turn()
    assert ended.engine == "legacy"


async def test_an_engine_that_is_not_selected_runs_no_code(open_host, installed):
    """B26: neither a turn nor a listing imports it, and it is not quarantined for being there."""
    async with open_host("good") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))
        prompt = await session.assemble()
        selection = host.selection()

        assert host.quarantines() == []
    assert (prompt.engine, selection.engine_id) == ("good", "good")
    assert (installed / "acme_neighbour.py").exists()
    assert not (installed / "acme_neighbour.ran").exists()


async def test_asking_who_would_serve_runs_no_code_of_the_engine_either(open_host, installed):
    """B26: neither a listing nor an open session imports it; the turn does, and uses it."""
    async with open_host("neighbour") as host, host.session("talk") as session:
        listed = offers(Policy(slot="neighbour"), Registry(), discover([str(installed)]))
        assert {offer.engine_id for offer in listed if offer.refusal is None} == set(ENGINES)
        assert (host.selection().engine_id, host.quarantines()) == ("neighbour", [])
        assert not (installed / "acme_neighbour.ran").exists()

        prompt = await session.assemble()
    assert prompt.engine == "neighbour"
    (installed / "acme_neighbour.ran").unlink()


@pytest.mark.parametrize(
    "engine_id,readable",
    [
        pytest.param("chained", ["RuntimeError: the index did not answer", "ConnectionError"], id="in a chained error"),
        pytest.param("provider", ["ValueError", "401", "refused"], id="before a long tail"),
        pytest.param("forges-by-key", ["a dict with"], id="in a key of the answer"),
    ],
)
async def test_no_secret_in_an_engine_s_error_is_kept_anywhere(open_host, tmp_path, caplog, engine_id, readable):
    """B62, B65: not in the log, the record, its mirror on disk, the prompt or the transcript; the rest can be read."""
    caplog.set_level(logging.DEBUG)
    async with open_host(engine_id) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble()
        again = await session.assemble()

        (row,) = host.quarantines()
    files = {path: path.read_text() for path in tmp_path.rglob("*") if path.suffix in {".json", ".jsonl", ".handover"}}
    assert any(row.record.reason in json.loads(text).values() for path, text in files.items() if path.suffix == ".json")
    for told in (caplog.text, row.record.reason, prompt.substitution, again.substitution, repr(row), *files.values()):
        for secret in SECRETS.values():
            assert secret.split("=")[-1].split()[-1] not in told
    for words in readable:
        assert words in row.record.reason
    assert len(row.record.reason) <= 500


@pytest.mark.parametrize("engine_id", ["forges", "forges-by-key", "forges-by-name"])
async def test_an_engine_s_error_is_one_physical_line_everywhere(open_host, caplog, engine_id):
    """B64: no forged line in the log, and nothing that moves a terminal's cursor."""
    async with open_host(engine_id) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble()
        again = await session.assemble()

        (row,) = host.quarantines()
    (logged,) = [message for message in caplog.messages if message.startswith("engine.quarantined")]
    assert not any(message.startswith("engine.restored") for message in caplog.messages)
    for told in (logged, row.record.reason, prompt.substitution, again.substitution):
        assert told.isprintable()
        assert r"\n" in told
        assert "engine.restored" in told


@pytest.mark.parametrize("engine_id", ["import-error", "odd-mode"])
async def test_a_strict_host_refuses_to_answer_for_an_engine_that_cannot_be_built(open_host, engine_id):
    """Each turn fails with the engine's id and the reason, and is never answered by legacy."""
    async with open_host(engine_id, slotPolicy="strict") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))
        for _ in range(2):
            with pytest.raises(SubstitutionRefusedError) as caught:
                await session.assemble()
            assert caught.value.engine_id == engine_id
            with pytest.raises(SubstitutionRefusedError):
                await session.end_turn()
            with pytest.raises(SubstitutionRefusedError):
                await session.compact()

        (row,) = host.quarantines()
    assert row.record.reason in caught.value.reason


@pytest.mark.parametrize("engine_id,operation", [("raises", "assemble"), ("bootstrap-raises", "bootstrap")])
async def test_a_strict_host_refuses_to_answer_for_an_engine_that_fails(open_host, engine_id, operation):
    """The turn that met the failure ends with it; every later one is refused, and says why."""
    async with open_host(engine_id, slotPolicy="strict") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        with pytest.raises(EngineFailedError) as failed:
            await session.assemble()
        with pytest.raises(SubstitutionRefusedError) as refused:
            await session.assemble()

        (row,) = host.quarantines()
    assert (failed.value.engine_id, failed.value.operation) == (engine_id, operation)
    assert row.record.operation == operation
    assert f"quarantined during {operation}" in refused.value.reason


async def test_a_strict_host_refuses_an_engine_that_is_not_there(open_host):
    """An id that nobody offers is refused by name."""
    async with open_host("nowhere", slotPolicy="strict") as host, host.session("talk") as session:
        with pytest.raises(SubstitutionRefusedError, match="nowhere"):
            await session.assemble()


async def test_tools_of_an_engine_that_fails_are_none(open_host):
    """The agent goes on without them."""
    async with open_host("tools") as host, host.session("talk") as session:
        assert await session.tools() == ()

        (row,) = host.quarantines()
    assert (row.record.operation, row.record.reason) == ("tools", "ValueError: no such index")


async def test_closing_the_host_while_a_hook_runs_is_no_fault_of_the_engine(open_host, base):
    """The call ends with the host, at once, and nobody is barred."""
    async with open_host("waits") as host, host.session("talk") as session, asyncio.timeout(10):
        call = asyncio.ensure_future(session.assemble())
        await asyncio.to_thread(base.entered.wait, 10)

        await host.close()

        with pytest.raises(SessionClosedError):
            await call
        assert host.quarantines() == []


@pytest.mark.parametrize("engine_id", ["dispose-raises", "dispose-hangs"])
async def test_an_engine_that_will_not_go_does_not_keep_the_host_open(open_host, base, engine_id):
    """Closing returns within the deadline, and raises nothing for the engine's sake."""
    async with asyncio.timeout(10):
        async with open_host(engine_id, deadlines={"dispose": 0.1}) as host, host.session("talk") as session:
            await session.assemble()

        assert base.log == ["disposed"]
