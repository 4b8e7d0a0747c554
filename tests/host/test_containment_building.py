"""An engine that can't be imported, built or believed is refused by name, and the turn is answered without it."""

import pytest

from openclaw_ctx import UserMessage

ENGINES = {
    "good": "class Engine(Plain): ...",
    "import-error": "import acme_nowhere\nclass Engine(Plain): ...",
    "own-typo": "from acme_base import Plian\nclass Engine(Plain): ...",
    "syntax-error": "class Engine(Plain) ...",
    "exits-at-import": "sys.exit('no licence for this machine')",
    "exits-quietly": "sys.exit(0)",
    "hangs-at-import": "gate.wait()\nclass Engine(Plain): ...",
    "recurses-at-import": "def again(): again()\nagain()",
    "factory-raises": "def make(context): raise RuntimeError('no index at hand')",
    "factory-exits": "def make(context): sys.exit(3)",
    "factory-none": "def make(context): return None",
    "factory-number": "def make(context): return 3",
    "factory-class": "def make(context): return Plain",
    "factory-takes-nothing": "def make(): return Plain(None)",
    "factory-cancels": "async def make(context): raise asyncio.CancelledError",
    "factory-blocks": "def make(context):\n    gate.wait()\n    log.append('built')\n    return Plain(context)",
    "factory-hangs": "async def make(context):\n    await asyncio.Event().wait()",
    "factory-is-async": "async def make(context):\n    await asyncio.sleep(0)\n    return Plain(context)",
    "no-methods": "class Engine:\n    info = Plain.info\n    def __init__(self, context): ...",
    "nothing-right": "class Engine:\n    def __init__(self, context): ...\n    @hookimpl\n    def assembel(self): ...",
    "no-info": "class Engine(Plain):\n    info = None",
    "blank-name": "class Engine(Plain):\n    info = EngineInfo(id='acme', name='  ')",
    "blank-id": "class Engine(Plain):\n    info = EngineInfo(id='', name='Acme')",
    "info-raises": "class Engine(Plain):\n    @property\n    def info(self): raise OSError('manifest.json is gone')",
    "info-is-dict": "class Engine(Plain):\n    info = {'id': 'acme', 'name': 'Acme', 'owns_compaction': True}",
    "info-has-typo": "class Engine(Plain):\n    info = {'id': 'acme', 'name': 'Acme', 'ownsCompaction': True}",
    "info-is-wrong": "class Engine(Plain):\n    info = EngineInfo(id='acme', name='Acme', owns_compaction='yes')",
    "needs-are-wrong": "class Engine(Plain):\n    info = EngineInfo(id='a', name='A', host_requirements={'x': 5})",
    "other-spec": "class Engine(Plain):\n    @hookimpl\n    def assemble(self, messages, token_buget): ...",
    "other-spec-default": "class Engine(Plain):\n    @hookimpl\n    def assemble(self, messages, tokens=None): ...",
    "keyword-only": "class Engine(Plain):\n    @hookimpl\n    def assemble(self, *, messages): ...",
    "star-args": "class Engine(Plain):\n    @hookimpl\n    def ingest(self, *args): ...",
    "star-kwargs": "class Engine(Plain):\n    @hookimpl\n    def compact(self, **kwargs): ...",
    "known-default": "class Engine(Plain):\n    @hookimpl\n    def assemble(self, messages, token_budget=8000): ...",
    "misspelt-hook": "class Engine(Plain):\n    @hookimpl\n    def after_trun(self, messages): ...",
    "undecorated": "class Engine(Plain):\n    async def assemble(self, messages): ...",
    "undecorated-extra": "class Engine(Plain):\n    def after_turn(self, messages): ...",
    "wrapper": "class Engine(Plain):\n    @hookimpl(wrapper=True)\n    def assemble(self, messages): return (yield)",
    "twice": "class Engine(Plain):\n    @hookimpl(specname='assemble')\n    def choose(self, messages): ...",
}


@pytest.mark.parametrize(
    "engine_id,operation,reason",
    [
        pytest.param("import-error", "factory", "No module named 'acme_nowhere'", id="a module that is not there"),
        pytest.param("own-typo", "factory", "cannot import name 'Plian'", id="a typo in its own import"),
        pytest.param("syntax-error", "factory", "SyntaxError", id="a syntax error"),
        pytest.param("exits-at-import", "factory", "SystemExit: no licence", id="sys.exit at import"),
        pytest.param("exits-quietly", "factory", "SystemExit: 0", id="sys.exit at import as if all were well"),
        pytest.param("recurses-at-import", "factory", "RecursionError", id="endless recursion at import"),
        pytest.param("factory-raises", "factory", "RuntimeError: no index at hand", id="the factory raises"),
        pytest.param("factory-exits", "factory", "SystemExit: 3", id="the factory exits"),
        pytest.param("factory-takes-nothing", "factory", "TypeError", id="the factory takes no context"),
        pytest.param("factory-cancels", "factory", "CancelledError", id="the factory cancels itself"),
        pytest.param("factory-none", "contract-validation", "the factory returned None", id="None"),
        pytest.param("factory-number", "contract-validation", "the factory returned int", id="a number"),
        pytest.param("factory-class", "contract-validation", "the factory returned the class", id="a class"),
        pytest.param("no-info", "contract-validation", "missing info", id="no info"),
        pytest.param("blank-name", "contract-validation", "missing info.name", id="a blank name"),
        pytest.param("blank-id", "contract-validation", "missing info.id", id="a blank id"),
        pytest.param("info-raises", "contract-validation", "manifest.json is gone", id="info raises"),
        pytest.param("info-has-typo", "contract-validation", "'ownsCompaction'", id="an unknown key in info"),
        pytest.param("info-is-wrong", "contract-validation", "EngineInfo.owns_compaction", id="a wrong type in info"),
        pytest.param("needs-are-wrong", "contract-validation", "host_requirements", id="wrong host requirements"),
        pytest.param("undecorated", "contract-validation", "assemble() is not marked", id="an unmarked hook"),
        pytest.param("undecorated-extra", "contract-validation", "after_turn() is not marked", id="an unmarked extra"),
    ],
)
async def test_an_engine_that_cannot_be_built_is_refused_and_legacy_answers(open_host, engine_id, operation, reason):
    """What the engine did, and in which step, is on record; the turn that met it is answered within the same call."""
    async with open_host(engine_id) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble()

        (row,) = host.quarantines()
    assert prompt.engine == "legacy"
    assert [message.text for message in prompt.messages] == ["Hello"]
    assert reason in prompt.substitution
    assert (row.record.engine_id, row.record.owner) == (engine_id, f"plugin:acme-{engine_id}")
    assert row.record.operation == operation
    assert reason in row.record.reason


@pytest.mark.parametrize(
    "engine_id,named",
    [
        pytest.param("other-spec", ["assemble(token_buget)", "did you mean 'token_budget'?"], id="unknown parameter"),
        pytest.param("other-spec-default", ["assemble(tokens)", "no such parameter"], id="unknown, with a default"),
        pytest.param("keyword-only", ["assemble(messages)", "keyword-only"], id="keyword-only"),
        pytest.param("star-args", ["ingest(*args)", "never passed"], id="star args"),
        pytest.param("star-kwargs", ["compact(**kwargs)", "never passed"], id="star kwargs"),
        pytest.param("known-default", ["assemble(token_budget)", "drop the default"], id="known, with a default"),
        pytest.param("misspelt-hook", ["after_trun()", "did you mean 'after_turn'?"], id="misspelt hook"),
        pytest.param("wrapper", ["assemble()", "hook wrapper"], id="hook wrapper"),
        pytest.param("twice", ["assemble()", "choose()"], id="two methods for one hook"),
    ],
)
async def test_a_hook_for_another_contract_is_refused_with_hook_and_argument_named(open_host, engine_id, named):
    """B55: what pluggy would let pass, or never pass on, is told to the author at once."""
    async with open_host(engine_id) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble()

        (row,) = host.quarantines()
    assert prompt.engine == "legacy"
    assert row.record.operation == "contract-validation"
    for words in named:
        assert words in row.record.reason
        assert words in prompt.substitution


async def test_the_id_of_a_refused_engine_can_be_used_again(open_host, base, installed):
    """B55: nothing is left half-registered: the program's own engine takes the id, and another engine works."""
    async with open_host("other-spec") as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))
        assert (await session.assemble()).engine == "legacy"
        good = base.Plain

        host.register_engine("other-spec", good)
        prompt = await session.assemble()

        assert host.quarantines() == []
    assert (prompt.engine, prompt.substitution) == ("other-spec", None)
    async with open_host("good") as host, host.session("talk") as session:
        assert (await session.assemble()).engine == "good"


@pytest.mark.parametrize(
    "engine_id",
    [
        pytest.param("hangs-at-import", id="the import blocks"),
        pytest.param("factory-blocks", id="the factory blocks"),
        pytest.param("factory-hangs", id="the factory waits for ever"),
    ],
)
async def test_an_engine_that_is_never_built_is_left_behind_at_its_deadline(open_host, base, engine_id):
    """The turn is answered while the engine is still being built, and what comes of it later is thrown away."""
    async with open_host(engine_id, deadlines={"factory": 0.1}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble()

        (row,) = host.quarantines()
        assert not base.gate.is_set()
        base.gate.set()
        later = await session.assemble()
    assert prompt.engine == later.engine == "legacy"
    assert (row.record.operation, row.record.reason) == ("factory", "no answer within 0.1 s")
    assert prompt.substitution == later.substitution == "quarantined during factory: no answer within 0.1 s"


async def test_everything_that_is_missing_is_named_at_once(open_host):
    """An author mends one version, not one after the other."""
    async with open_host("no-methods") as host, host.session("talk") as session:
        await session.assemble()

        (missing,) = host.quarantines()
    async with open_host("nothing-right") as host, host.session("talk") as session:
        await session.assemble()

        _, wrong = host.quarantines()
    assert "missing ingest(), missing assemble(), missing compact()" in missing.record.reason
    for words in ("missing info", "did you mean 'assemble'?", "missing ingest()", "missing compact()"):
        assert words in wrong.record.reason


@pytest.mark.parametrize("engine_id", ["good", "factory-is-async", "info-is-dict"])
async def test_an_engine_that_keeps_the_contract_serves(open_host, engine_id):
    """A class or a function, async or not, with its info as a plain dict or not: all are engines."""
    async with open_host(engine_id) as host, host.session("talk") as session:
        await session.append(UserMessage(content="Hello"))

        prompt = await session.assemble()

        assert host.quarantines() == []
    assert (prompt.engine, prompt.substitution) == (engine_id, None)
