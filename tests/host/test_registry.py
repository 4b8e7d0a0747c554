"""Who may offer an engine under which id, and that an announcement never serves."""

import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_ctx import (
    EngineIdReservedError,
    EngineIdTakenError,
    InvalidOwnerError,
    Registry,
    RegistryError,
    UserMessage,
)
from openclaw_ctx.host import QuarantinePolicy, default_registry
from tests.assembly.recording import OneByOne, Record, engine_of, open_host


def make(context):
    """Build nothing: these factories are held, not called."""
    raise AssertionError


def test_another_owner_is_refused_and_told_who_holds_the_id():
    """CT7: an id that is held stays its owner's; the refusal names both, and nothing is replaced."""
    registry = Registry()
    held = registry.register("window", make, owner="plugin:acme")

    with pytest.raises(EngineIdTakenError) as caught:
        registry.register("window", make, owner="plugin:other", refresh=True)

    assert (caught.value.owner, caught.value.challenger) == ("plugin:acme", "plugin:other")
    assert "'plugin:acme'" in str(caught.value)
    assert registry.get("window") is held


@pytest.mark.parametrize("owner", ["public", "plugin:acme", " plugin:core "])
def test_legacy_belongs_to_core_even_in_an_empty_registry(owner):
    """CT8: another owner cannot take the id, and nothing is registered."""
    registry = Registry()

    with pytest.raises(EngineIdReservedError):
        registry.register(" legacy ", make, owner=owner)

    assert registry.registrations() == []
    registry.register("legacy", make, owner="core")


async def test_the_public_door_cannot_take_core_s_id(tmp_path):
    """CT8: what an embedding program registers is owned by ``public``."""
    async with open_host(tmp_path) as host:
        with pytest.raises(EngineIdReservedError):
            host.register_engine("legacy", make)

        registration = host.register_engine("mine", make)

    assert registration.owner == "public"


async def test_what_is_announced_is_never_built_nor_quarantined(tmp_path, caplog):
    """CT16: a discovery registration in the slot: legacy answers, one warning, the factory is not called."""
    registry = Registry()
    registry.register("announced", make, owner="public", lifecycle="discovery")
    async with open_host(tmp_path, "announced", registry=registry) as host, host.session("talk") as session:
        await session.append(UserMessage(content="hello"))

        prompts = [await session.assemble() for _ in range(3)]

        assert host.quarantines() == []
    assert [prompt.engine for prompt in prompts] == ["legacy"] * 3
    assert {prompt.substitution for prompt in prompts} == {"context engine 'announced' is available for discovery only"}
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "announced" in warnings[0].getMessage()


async def test_a_runtime_registration_supersedes_the_announcement_and_stays(tmp_path):
    """CT16: the real engine takes over in the running session; announcing it again changes nothing."""
    registry, record = Registry(), Record()
    registry.register("recorder", make, owner="public", lifecycle="discovery")
    async with open_host(tmp_path, registry=registry) as host, host.session("talk") as session:
        await session.append(UserMessage(content="hello"))
        announced = await session.assemble()

        host.register_engine("recorder", engine_of(OneByOne, record))
        served = await session.assemble()
        again = registry.register("recorder", make, owner="public", lifecycle="discovery")
        still = await session.assemble()

    assert [announced.engine, served.engine, still.engine] == ["legacy", "recorder", "recorder"]
    assert again.lifecycle == "runtime"


async def test_a_late_registration_lifts_the_quarantine_of_a_missing_engine(tmp_path):
    """CT22: the slot names nobody, then somebody registers: the next call is the engine's."""
    record = Record()
    async with open_host(tmp_path, "recorder") as host, host.session("talk") as session:
        await session.append(UserMessage(content="hello"))
        missing = await session.assemble()
        (row,) = host.quarantines()

        host.register_engine("recorder", engine_of(OneByOne, record))
        found = await session.assemble()

        assert host.quarantines() == []
    assert (row.record.operation, row.record.reason) == ("resolve", "context engine 'recorder' is not registered")
    assert (missing.engine, found.engine) == ("legacy", "recorder")
    assert found.substitution is None


def test_an_unknown_id_is_nothing():
    """RT2: asking for what nobody registered gives None, and registers nothing."""
    registry = Registry()

    assert registry.get("nobody") is None
    assert registry.registrations() == []


def test_each_list_is_a_new_one():
    """RT3: whoever changes a list of registrations changes only that."""
    registry = Registry()
    registry.register("b", make, owner="public")
    registry.register("a", make, owner="public")

    first = registry.registrations()
    first.clear()

    assert [registration.engine_id for registration in registry.registrations()] == ["a", "b"]


@pytest.mark.parametrize("slot", ["recorder", "  recorder\n"])
async def test_the_slot_s_value_is_trimmed(tmp_path, slot):
    """RT4: blanks around the id in the configuration select the engine all the same."""
    engines = {" recorder ": engine_of(OneByOne, Record())}
    async with open_host(tmp_path, slot, engines=engines) as host, host.session("talk") as session:
        await session.append(UserMessage(content="hello"))

        assert (await session.assemble()).engine == "recorder"


async def test_an_async_factory_is_awaited(tmp_path):
    """RT5: a coroutine function builds an engine as a function does."""

    async def build(context):
        return OneByOne(Record())

    async with open_host(tmp_path, engines={"recorder": build}) as host, host.session("talk") as session:
        await session.append(UserMessage(content="hello"))

        assert (await session.assemble()).engine == "recorder"


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param("", id="empty"),
        pytest.param(" \t", id="blank"),
        pytest.param(None, id="none"),
        pytest.param(7, id="a number"),
    ],
)
def test_an_owner_is_a_text_that_says_something(owner):
    """A blank owner, or no text, is refused and registers nothing."""
    registry = Registry()

    with pytest.raises(InvalidOwnerError):
        registry.register("window", make, owner=owner)

    assert registry.registrations() == []


def test_the_same_owner_needs_leave_to_register_again():
    """Registering twice is refused by default; ``refresh`` replaces the registration."""
    registry = Registry()
    first = registry.register("window", make, owner="plugin:acme")

    with pytest.raises(EngineIdTakenError, match="refresh=True"):
        registry.register("window", make, owner="plugin:acme")
    held = registry.get("window")
    second = registry.register(" window ", make, owner=" plugin:acme ", refresh=True)

    assert held is first
    assert registry.get("window") is second
    assert (second.engine_id, second.owner) == ("window", "plugin:acme")


def test_a_registration_lifts_the_quarantine_and_a_refused_one_does_not():
    """Success clears the id's record; a refusal and an announcement leave it."""
    registry = Registry()
    registry.register("window", make, owner="plugin:acme")
    facts = {"owner": "plugin:acme", "operation": "assemble", "reason": "broke", "policy": QuarantinePolicy()}
    registry.quarantine.record("window", **facts)

    with pytest.raises(RegistryError):
        registry.register("window", make, owner="plugin:other")
    registry.register("window", make, owner="plugin:acme", lifecycle="discovery")
    kept = registry.quarantine.barred("window")
    registry.register("window", make, owner="plugin:acme", refresh=True)

    assert kept is not None
    assert registry.quarantine.barred("window") is None


async def test_a_refreshed_registration_is_built_in_a_session_that_runs(tmp_path):
    """A barred engine whose mended successor is registered answers the next call of the same session."""
    broken, mended = Record(failing={"assemble"}), Record()
    engines = {"recorder": engine_of(OneByOne, broken)}
    async with open_host(tmp_path, engines=engines) as host, host.session("talk") as session:
        await session.append(UserMessage(content="hello"))
        failed = await session.assemble()

        host.register_engine("recorder", engine_of(OneByOne, mended), refresh=True)
        served = await session.assemble()

    assert (failed.engine, served.engine) == ("legacy", "recorder")
    assert mended.calls.count(("assemble", 0)) == 1
    assert broken.calls.count(("assemble", 0)) == 1


@given(
    attempts=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y"]), st.booleans(), st.booleans()), max_size=8
    )
)
def test_the_owner_of_an_id_never_changes(attempts):
    """Whatever is tried, who came first keeps the id, and nothing that serves turns into an announcement."""
    registry = Registry()
    owners: dict[str, str] = {}
    runtime: set[str] = set()

    for engine_id, owner, refresh, real in attempts:
        lifecycle = "runtime" if real else "discovery"
        refused = False
        try:
            registry.register(engine_id, make, owner=owner, refresh=refresh, lifecycle=lifecycle)
        except EngineIdTakenError:
            refused = True
        foreign = owners.setdefault(engine_id, owner) != owner
        assert refused is (foreign or (real and engine_id in runtime and not refresh))
        if real and not refused:
            runtime.add(engine_id)

    assert {r.engine_id: r.owner for r in registry.registrations()} == owners
    assert {r.engine_id for r in registry.registrations() if r.lifecycle == "runtime"} == runtime


def test_of_many_threads_one_registers():
    """Threads that register one id at once: one succeeds, the others are refused, the winner is who is held."""
    registry = Registry()
    won: list[str] = []
    gate = threading.Barrier(16)

    def register(owner: str) -> None:
        gate.wait()
        try:
            registry.register("window", make, owner=owner)
        except EngineIdTakenError:
            return
        won.append(owner)

    threads = [threading.Thread(target=register, args=(f"owner-{number}",)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (winner,) = won
    assert registry.get("window").owner == winner


def test_the_process_has_one_registry():
    """The default registry is made once, and is nobody's own."""
    assert default_registry() is default_registry()
    assert Registry() is not default_registry()
