"""How long a quarantine's mirrors, its looks at the disk and its counts of failures last."""

import asyncio
import shutil
from pathlib import Path

from openclaw_ctx import BootstrapResult, Host, Registry, UserMessage
from openclaw_ctx.host import Quarantine, QuarantineMirror, QuarantinePolicy
from tests.assembly.plain import Plain, engine
from tests.assembly.recording import open_host
from tests.host.guarded import call, guard_of
from tests.host.quarantined import Clock, fail, mirrored


def _explode(self, messages):
    message = "broke"
    raise RuntimeError(message)


def _rows(state_dir: Path) -> list[Path]:
    return list((state_dir / "quarantine").glob("*.json"))


async def _fail_in(host: Host) -> None:
    async with host.session("talk") as session:
        await session.append(UserMessage(content="hello"))
        await session.assemble()


# -- mirrors ---------------------------------------------------------------------------------------------------------


async def test_a_closed_host_s_folder_is_written_no_more(tmp_path):
    """A program that opens a host for each job does not write every record into every folder that it ever had."""
    registry = Registry()
    async with open_host(tmp_path / "first", registry=registry):
        pass
    shutil.rmtree(tmp_path / "first", ignore_errors=True)

    async with open_host(
        tmp_path / "second", engines={"recorder": engine(assemble=_explode)}, registry=registry
    ) as host:
        await _fail_in(host)
        rows = _rows(tmp_path / "second")

    assert len(rows) == 1
    assert not (tmp_path / "first").exists()


async def test_two_hosts_share_a_folder_until_the_second_has_closed(tmp_path):
    """One of them closing does not take the mirror from the other."""
    registry = Registry()
    other = await open_host(tmp_path, registry=registry)
    async with open_host(tmp_path, engines={"recorder": engine(assemble=_explode)}, registry=registry) as host:
        await other.close()
        await _fail_in(host)

        assert len(_rows(tmp_path)) == 1


def test_a_folder_that_goes_lifts_no_quarantine(tmp_path):
    """To release removes a row; a whole folder that is gone, as of a closed host's, says nothing."""
    folder = tmp_path / "quarantine"
    quarantine = mirrored(folder)
    fail(quarantine)

    shutil.rmtree(folder)
    after_folder = quarantine.barred("window")
    folder.mkdir()
    after_row = quarantine.barred("window")

    assert after_folder is not None
    assert after_row is None


def test_a_row_in_a_detached_folder_can_still_be_lifted(tmp_path):
    """The quarantine is the process's, and goes on when the host closes: so does the way to lift it by hand."""
    folder = tmp_path / "quarantine"
    quarantine = mirrored(folder)
    fail(quarantine)
    quarantine.detach(QuarantineMirror(folder))
    before = quarantine.barred("window")

    QuarantineMirror(folder).release("window")

    assert before is not None
    assert quarantine.barred("window") is None


# -- looks at the disk -----------------------------------------------------------------------------------------------


async def test_an_engine_that_is_not_installed_is_looked_for_once_in_each_probation():
    """Looking walks all metadata: of however many calls one has the try, and its failure puts off the next."""
    clock, looks = Clock(), []
    registry = Registry(quarantine=Quarantine(clock=clock))
    guard = guard_of(registry=registry, policy=QuarantinePolicy(probation_seconds=10))
    look = guard._select
    guard._select = lambda: looks.append(clock.now) or look()

    for seconds in (0, 5, 5, 5, 20, 1):
        clock.now += seconds
        for _ in range(5):
            await call(guard, "assemble")
    await guard.close()

    assert looks == [1000, 1010, 1035]


async def test_an_engine_that_is_installed_meanwhile_is_found_at_the_next_look():
    """The look is the try: it finds the engine, lifts the record that nobody is there, and builds it."""
    clock = Clock()
    registry = Registry(quarantine=Quarantine(clock=clock))
    guard = guard_of(registry=registry, policy=QuarantinePolicy(probation_seconds=10))
    await call(guard, "assemble")
    found = guard_of(Plain2, registry=Registry())._select()
    guard._select = lambda: found

    before = await call(guard, "assemble")
    clock.now += 10
    after = await call(guard, "assemble")
    await guard.close()

    assert (before.serving.engine_id, after.serving.engine_id) == ("legacy", "engine")
    assert registry.quarantine.records() == []


class Plain2(Plain):
    """A plain engine for a guard, whose context is none."""

    def __init__(self, context):
        self.context = context


# -- jobs in a row ---------------------------------------------------------------------------------------------------


def test_a_job_that_ends_well_ends_its_failures_in_a_row():
    """Jobs are one operation: of several allowed failures only those without a good end in between count."""
    quarantine, policy = Quarantine(), QuarantinePolicy(failures=2)

    fail(quarantine, operation="background", policy=policy)
    quarantine.job_succeeded("window", "background")
    fail(quarantine, operation="background", policy=policy)
    before = quarantine.barred("window")
    fail(quarantine, operation="background", policy=policy)

    assert before is None
    assert quarantine.barred("window") is not None


def test_a_job_that_ends_well_is_no_try():
    """An engine on probation is restored by the hook that has the try, and by no job behind it."""
    clock = Clock()
    quarantine, policy = Quarantine(clock=clock), QuarantinePolicy(probation_seconds=10)
    fail(quarantine, policy=policy)
    clock.now += 10
    quarantine.begin("window")

    quarantine.job_succeeded("window", "background")

    assert len(quarantine.records()) == 1


async def test_jobs_count_as_they_end(tmp_path):
    """From the engine's own jobs: good, bad, good, bad bars nobody where two in a row are needed; two in a row do."""
    registry, ends = Registry(), asyncio.Queue()
    here = asyncio.get_running_loop()
    services = []

    def bootstrap(self):
        services.append(self.services)
        return BootstrapResult(bootstrapped=True, imported_messages=0)

    async def ingest_batch(self, messages):
        async def job(text):
            here.call_soon_threadsafe(ends.put_nowait, text)
            if text == "bad":
                message = "the job broke"
                raise RuntimeError(message)

        for message in messages:
            self.services.background(job(message.text), name="job")

    async def end(session, *words):
        for word in words:
            await session.append(UserMessage(content=word))
            await session.end_turn()
            await ends.get()
            while host.background_jobs:  # noqa: ASYNC110 -- it ends in the engine's thread, unannounced
                await asyncio.sleep(0)
            await asyncio.sleep(0)  # what it came to crosses behind it
        return registry.quarantine.records()

    async with (
        open_host(
            tmp_path,
            engines={"recorder": engine(bootstrap=bootstrap, ingest_batch=ingest_batch)},
            registry=registry,
            plugins={"quarantine": {"failures": 2}},
        ) as host,
        host.session("talk") as session,
        asyncio.timeout(10),
    ):
        await session.assemble()
        mixed = await end(session, "bad", "good", "bad", "good")
        in_a_row = await end(session, "bad", "bad")

    assert mixed == []
    assert [record.operation for record in in_a_row] == ["background"]
