"""What the slot comes to, and why; nothing is imported or built to find out."""

import logging
from typing import Any

import pytest

from openclaw_ctx import Host, Registry, UserMessage
from openclaw_ctx.config import settings_from
from openclaw_ctx.host import ENGINES_GROUP, Candidate, Discovery, Policy, discover, offers, select
from tests.assembly.recording import OneByOne, Record, engine_of, open_host
from tests.host.distributions import build_wheel, install_wheels


def candidate(engine_id: str, distribution: str) -> Candidate:
    """Return an installed engine, which can't be imported."""
    return Candidate(
        engine_id=engine_id, distribution=distribution, version="1.0", value="nowhere:make", location=f"/{distribution}"
    )


def installed(*pairs: tuple[str, str]) -> Discovery:
    """Return what discovery would find of ``(engine id, distribution)``."""
    return Discovery(candidates=tuple(candidate(*pair) for pair in pairs))


def never(context: object) -> Any:
    """Refuse to be called: selecting builds nothing."""
    raise AssertionError


def registered(engine_id: str = "window", owner: str = "public") -> Registry:
    """Return a registry that has one engine."""
    registry = Registry()
    registry.register(engine_id, never, owner=owner)
    return registry


OFF = [
    pytest.param({"enabled": False}, "plugins.enabled is false", id="all plugins off"),
    pytest.param({"deny": ["window"]}, "'window' is in plugins.deny", id="denied"),
    pytest.param({"deny": [" WINDOW "]}, "'window' is in plugins.deny", id="denied in capitals"),
    pytest.param(
        {"entries": {"window": {"enabled": False}}}, "plugins.entries.window.enabled is false", id="entry disabled"
    ),
    pytest.param(
        {"deny": ["window"], "allow": ["window"], "entries": {"window": {"enabled": True}}},
        "'window' is in plugins.deny",
        id="deny wins over allow and enabled",
    ),
]


@pytest.mark.parametrize("plugins,reason", OFF)
@pytest.mark.parametrize("there", [True, False], ids=["registered", "absent"])
async def test_what_is_switched_off_is_replaced_in_silence(tmp_path, caplog, plugins, reason, there):
    """SE1: legacy answers, core's; no factory is called, nothing logged above info, nothing quarantined, slot kept."""
    registry = registered() if there else Registry()
    async with open_host(tmp_path, "window", registry=registry, plugins=plugins) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="hello"))

        prompt = await talk.assemble()

        selection = host.selection()
        assert host.quarantines() == []
    assert (selection.outcome, selection.engine_id, selection.owner) == ("switched_off", "legacy", "core")
    assert (selection.source, selection.asked, selection.reason) == (None, "window", reason)
    assert (prompt.engine, prompt.substitution) == ("legacy", reason)
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize("slot", [None, "", "  ", "none", "None", "legacy", " Legacy "], ids=repr)
def test_no_engine_in_the_slot_is_legacy(slot):
    """SE2: an absent or blank slot, ``none`` and ``legacy`` are the built-in engine, which needs no reason."""
    selection = select(Policy(slot=slot), registered(), installed(("window", "acme")))

    assert (selection.engine_id, selection.outcome, selection.reason) == ("legacy", "default", None)


async def test_an_enabled_engine_serves_under_its_own_id_and_is_built_once(tmp_path):
    """SE3: the engine's id stays distinct from its owner, and the factory is called once for all sessions."""
    built = []
    registry = Registry()
    registry.register(
        "recorder", lambda context: built.append(1) or OneByOne(Record()), owner="plugin:some-distribution"
    )
    async with open_host(tmp_path, registry=registry) as host, host.session("a") as one, host.session("b") as other:
        for session in (one, other, one):
            await session.append(UserMessage(content="hello"))
            assert (await session.assemble()).engine == "recorder"

        selection = host.selection()
    assert (selection.engine_id, selection.owner) == ("recorder", "plugin:some-distribution")
    assert built == [1]


def _explode(context: object) -> Any:
    message = "the factory is out of order"
    raise RuntimeError(message)


@pytest.mark.parametrize(
    "engines,operation,reason",
    [
        pytest.param({}, "resolve", "context engine 'window' is not registered", id="missing"),
        pytest.param({"window": _explode}, "factory", "the factory is out of order", id="factory raises"),
    ],
)
async def test_an_enabled_engine_that_cannot_be_had_is_quarantined(tmp_path, engines, operation, reason):
    """SE4: legacy answers, and the record names the operation and the reason."""
    async with open_host(tmp_path, "window", engines=engines) as host, host.session("talk") as session:
        await session.append(UserMessage(content="hello"))

        prompt = await session.assemble()

        (row,) = host.quarantines()
    assert prompt.engine == "legacy"
    assert reason in str(prompt.substitution)
    assert (row.record.engine_id, row.record.operation) == ("window", operation)
    assert reason in row.record.reason


async def test_switching_off_and_on_again_needs_no_registration(tmp_path):
    """SE5: the same registry serves an engine that was switched off in between."""
    registry, record = Registry(), Record()
    registry.register("recorder", engine_of(OneByOne, record), owner="public")
    served = []
    for enabled in (True, False, True):
        plugins = {"entries": {"recorder": {"enabled": enabled}}}
        async with open_host(tmp_path, registry=registry, plugins=plugins) as host, host.session("talk") as session:
            await session.append(UserMessage(content="hello"))
            served.append((await session.assemble()).engine)
            await session.end_turn()

    assert served == ["recorder", "legacy", "recorder"]
    assert registry.quarantine.records() == []


async def test_turns_after_a_switch_off_are_ordinary_turns(tmp_path, caplog):
    """SE6: many turns in a row: each says why legacy answers, none warns, none is degraded."""
    modes = []
    async with (
        open_host(tmp_path, "window", registry=registered(), plugins={"deny": ["window"]}) as host,
        host.session("talk") as session,
    ):
        for number in range(3):
            await session.append(UserMessage(content=f"question {number}"))
            modes.append((await session.assemble()).substitution)
            await session.end_turn()

    assert modes == ["'window' is in plugins.deny"] * 3
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


# -- two distributions, one id ------------------------------------------------------------------------------------


TWO = installed(("window", "acme-window"), ("window", "best-window"))


def test_of_two_distributions_with_one_id_neither_serves_and_both_are_named():
    """Decision 3: legacy answers until the user settles it, and the reason says between whom and how."""
    selection = select(Policy(slot="window"), Registry(), TWO)

    assert (selection.engine_id, selection.outcome, selection.source) == ("legacy", "refused", None)
    assert selection.reason == (
        "it is offered by 'acme-window' and 'best-window': list one of them in plugins.deny or plugins.allow"
    )


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"deny": ["best-window"]}, id="the other is denied"),
        pytest.param({"allow": ["acme-window"]}, id="it is allowed"),
        pytest.param({"allow": ["Acme_Window"]}, id="spelled as on the index"),
        pytest.param({"deny": ["Best.Window"]}, id="denied with a dot"),
        pytest.param({"allow": ["acme-window", "best-window"], "deny": ["best-window"]}, id="deny wins over allow"),
    ],
)
def test_allow_or_deny_leaves_one_of_two(policy):
    """Decision 3: either key settles it, by the distribution's name in any spelling."""
    selection = select(Policy(slot="window", **policy), Registry(), TWO)

    assert (selection.outcome, selection.owner) == ("selected", "plugin:acme-window")


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"allow": ["acme-window", "best-window"]}, id="both allowed"),
        pytest.param({"allow": ["window"]}, id="the id allowed"),
        pytest.param({"allow": ["somebody-else"]}, id="a third allowed"),
        pytest.param({"deny": ["somebody-else"]}, id="a third denied"),
    ],
)
def test_what_settles_nothing_leaves_both_refused(policy):
    """Decision 3: as long as two may serve, neither does."""
    selection = select(Policy(slot="window", **policy), Registry(), TWO)

    assert selection.outcome == "refused"
    assert "'acme-window' and 'best-window'" in str(selection.reason)


def test_both_denied_is_switched_off():
    """Denying every owner is the user's wish, and no fault."""
    selection = select(Policy(slot="window", deny=["acme-window", "best-window"]), Registry(), TWO)

    assert selection.outcome == "switched_off"


def test_naming_an_id_approves_its_only_owner():
    """Decision 3: an allowlist of other names keeps the slot's engine from nothing."""
    selection = select(Policy(slot="window", allow=["rag"]), Registry(), installed(("window", "acme-window")))

    assert selection.outcome == "selected"


def test_what_the_program_registers_comes_before_what_is_installed():
    """The embedding program knows better than the index; both are listed, and the installed one says why not."""
    registry = registered()

    selection = select(Policy(slot="window"), registry, TWO)
    listed = offers(Policy(slot="window"), registry, TWO)

    assert selection.source is registry.get("window")
    assert [(offer.owner, offer.selected, offer.refusal) for offer in listed] == [
        ("plugin:acme-window", False, "the program has registered an engine of this id itself"),
        ("plugin:best-window", False, "the program has registered an engine of this id itself"),
        ("public", True, None),
    ]


def test_an_announced_engine_gives_way_to_an_installed_one():
    """A discovery registration serves nobody: the distribution's engine does."""
    registry = Registry()
    registry.register("window", never, owner="public", lifecycle="discovery")
    discovery = installed(("window", "acme-window"))

    selection = select(Policy(slot="window"), registry, discovery)
    listed = offers(Policy(slot="window"), registry, discovery)

    assert selection.source is discovery.candidates[0]
    assert {offer.owner: (offer.selected, offer.refusal) for offer in listed} == {
        "plugin:acme-window": (True, None),
        "public": (False, "it is available for discovery only"),
    }


def test_refusals_are_listed_beside_what_serves():
    """Every engine that is there is listed with why it could not be selected, denied ones too."""
    policy = Policy(
        slot="window", deny=["best"], entries_enabled={"rag": False}, unset_variables={"tiered": ["x: ${Y}"]}
    )
    discovery = installed(
        ("legacy", "evil"), ("rag", "acme"), ("tiered", "acme"), ("window", "acme"), ("window", "best")
    )

    listed = {(o.engine_id, o.owner): (o.selected, o.refusal) for o in offers(policy, Registry(), discovery)}

    assert listed == {
        ("legacy", "plugin:evil"): (False, "the id 'legacy' belongs to core"),
        ("rag", "plugin:acme"): (False, "plugins.entries.rag.enabled is false"),
        ("tiered", "plugin:acme"): (False, "its configuration names unset variables: x: ${Y}"),
        ("window", "plugin:acme"): (True, None),
        ("window", "plugin:best"): (False, "its distribution 'best' is in plugins.deny"),
    }


async def test_two_installed_distributions_with_one_id(tmp_path, monkeypatch):
    """Decision 3, with real wheels: legacy answers and names both; one key later the wanted one serves."""
    source = (
        "from openclaw_ctx import *\n"
        "class Engine:\n"
        "    info = EngineInfo(id='twin', name='{name}')\n"
        "    def __init__(self, context): pass\n"
        "    @hookimpl\n"
        "    def ingest(self): return IngestResult(ingested=True)\n"
        "    @hookimpl\n"
        "    def assemble(self, messages):\n"
        "        return AssembleResult(messages=messages, system_prompt_addition='{name}')\n"
        "    @hookimpl\n"
        "    def compact(self): return CompactResult(ok=True, compacted=False)\n"
    )
    wheels = [
        build_wheel(
            tmp_path / "wheels",
            name,
            "1.0",
            {f"{name}_twin.py": source.format(name=name)},
            {ENGINES_GROUP: {"twin": f"{name}_twin:Engine"}},
        )
        for name in ("acme", "best")
    ]
    site = str(install_wheels(wheels, tmp_path / "site"))
    monkeypatch.syspath_prepend(site)
    answers = []
    for allow in ([], ["best"]):
        config = {"plugins": {"slots": {"contextEngine": "twin"}, "allow": allow}}
        async with (
            Host.open(config, state_dir=tmp_path / "state", registry=Registry(), engine_path=[site]) as host,
            host.session("talk") as session,
        ):
            await session.append(UserMessage(content="hello"))
            answers.append(await session.assemble())

    tied, settled = answers
    assert tied.engine == "legacy"
    assert "'acme' and 'best'" in str(tied.substitution)
    assert (settled.engine, settled.system_prompt, settled.substitution) == ("twin", "best", None)
    assert [c.owner for c in discover([site]).candidates] == ["plugin:acme", "plugin:best"]


# -- unset variables ----------------------------------------------------------------------------------------------


def _plugins(engine_id: str) -> dict[str, Any]:
    return {"entries": {engine_id: {"config": {"key": "${ACME_NOPE}"}}}}


@pytest.mark.parametrize("value", [None, ""], ids=["unset", "set but empty"])
async def test_an_unset_variable_of_an_unrelated_entry_stops_nobody(tmp_path, monkeypatch, value):
    """B59: the turn runs on the selected engine; a finding names path and variable; only that entry is off."""
    _set(monkeypatch, value)
    engines = {"recorder": engine_of(OneByOne, Record()), "other": never}
    async with (
        open_host(tmp_path, engines=engines, plugins=_plugins("other")) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))

        prompt = await session.assemble()

        (finding,) = host.findings
        policy = Policy(
            slot="recorder",
            unset_variables={
                name: entry.unset_variables
                for name, entry in settings_from({"plugins": _plugins("other")}).settings.plugins.entries.items()
            },
        )
        assert host.quarantines() == []
    assert (prompt.engine, prompt.substitution) == ("recorder", None)
    assert "plugins.entries.other.config.key" in finding
    assert "ACME_NOPE" in finding
    registry = Registry()
    for engine_id, factory in engines.items():
        registry.register(engine_id, factory, owner="public")
    refusals = {offer.engine_id: offer.refusal for offer in offers(policy, registry, Discovery())}
    assert refusals["recorder"] is None
    assert "ACME_NOPE" in str(refusals["other"])


@pytest.mark.parametrize("value", [None, ""], ids=["unset", "set but empty"])
async def test_an_unset_variable_of_the_selected_entry_is_that_engine_s_error(tmp_path, monkeypatch, value):
    """B59: the engine is not built with a text that should have been a value; legacy answers, and the name is told."""
    _set(monkeypatch, value)
    async with (
        open_host(tmp_path, "other", engines={"other": never}, plugins=_plugins("other")) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))

        prompt = await session.assemble()

        (row,) = host.quarantines()
    assert prompt.engine == "legacy"
    assert "ACME_NOPE" in str(prompt.substitution)
    assert row.record.operation == "resolve"


def test_an_unset_variable_of_an_installed_engine_is_its_error_too():
    """B59: whether registered or installed, an entry that cannot be filled in keeps its engine from serving."""
    policy = Policy(slot="window", unset_variables={"window": ["$.key: ${ACME_NOPE}"]})

    selection = select(policy, Registry(), installed(("window", "acme")))

    assert (selection.outcome, selection.engine_id) == ("refused", "legacy")
    assert "ACME_NOPE" in str(selection.reason)


async def test_once_the_variable_is_set_the_next_host_of_the_process_has_the_engine(tmp_path, monkeypatch):
    """B59: "nobody is there" is no verdict on an engine: the registry's record goes as soon as somebody is."""
    _set(monkeypatch, None)
    registry, record = Registry(), Record()
    registry.register("recorder", engine_of(OneByOne, record), owner="public")
    served = []
    for value in (None, "a value"):
        _set(monkeypatch, value)
        async with (
            open_host(tmp_path, registry=registry, plugins=_plugins("recorder")) as host,
            host.session("talk") as session,
        ):
            await session.append(UserMessage(content="hello"))
            served.append((await session.assemble()).engine)
            await session.end_turn()

    assert served == ["legacy", "recorder"]
    assert registry.quarantine.records() == []


def _set(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv("ACME_NOPE", raising=False)
    else:
        monkeypatch.setenv("ACME_NOPE", value)


async def test_a_missing_engine_is_looked_for_once(tmp_path):
    """Looking reads the disk: a session whose engine is missing does not do so at every call."""
    looked = []

    class Counting(list):
        def __iter__(self):
            looked.append(1)
            return super().__iter__()

    config = {"plugins": {"slots": {"contextEngine": "nobody"}}}
    async with (
        Host.open(config, state_dir=tmp_path, registry=Registry(), engine_path=Counting()) as host,
        host.session("talk") as session,
    ):
        await session.append(UserMessage(content="hello"))
        await session.assemble()
        after_one = len(looked)
        for _ in range(5):
            await session.assemble()

    assert len(looked) == after_one > 0
