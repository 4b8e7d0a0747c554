"""A program ends when it wants to, whatever its engine is still doing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ENGINES = {
    "blocks": """
class Engine(Plain):
    @hookimpl
    def assemble(self):
        while True:
            gate.wait()
""",
    "blocks-in-thread": """
class Engine(Plain):
    @hookimpl
    async def assemble(self):
        await asyncio.to_thread(gate.wait)
""",
    "will-not-stop": """
class Engine(Plain):
    @hookimpl
    async def assemble(self):
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
""",
    "has-stubborn-task": """
async def job():
    while True:
        with contextlib.suppress(BaseException):
            await asyncio.sleep(3600)
class Engine(Plain):
    @hookimpl
    async def assemble(self, messages):
        self.job = asyncio.create_task(job())
        return AssembleResult(messages=messages)
""",
    "has-thread": """
class Engine(Plain):
    @hookimpl
    async def assemble(self, messages):
        threading.Thread(target=gate.wait).start()
        return AssembleResult(messages=messages)
""",
    "imports-for-ever": "gate.wait()\nclass Engine(Plain): ...",
}

PROGRAM = """
import asyncio, sys
from openclaw_ctx import Host, Registry, UserMessage

site, engine_id, state_dir, closing = sys.argv[1:]

async def main():
    host = await Host.open(
        {"plugins": {"slots": {"contextEngine": engine_id}}, "deadlines": {"assemble": 0.1, "factory": 0.1}},
        engine_path=[site], state_dir=state_dir, registry=Registry(),
    )
    session = await host.session("talk")
    await session.append(UserMessage(content="Hello"))
    prompt = await session.assemble()
    print(len(prompt.messages))
    if closing == "close":
        await host.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("closing", [pytest.param("close", id="closed"), pytest.param("leave", id="left open")])
@pytest.mark.parametrize(
    "engine_id",
    [
        pytest.param("blocks", id="a hook that blocks"),
        pytest.param("blocks-in-thread", id="blocked in to_thread"),
        pytest.param("will-not-stop", id="a hook that swallows cancellation"),
        pytest.param("has-stubborn-task", id="a task that swallows everything"),
        pytest.param("has-thread", id="a thread of its own"),
        pytest.param("imports-for-ever", id="an import that blocks"),
    ],
)
def test_the_process_ends_although_its_engine_does_not(installed, tmp_path, engine_id, closing):
    """With exit code 0 and not a word on stderr but the record, whether the host was closed or not."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)])}

    # It would never end: the time limit only keeps a failure from hanging.
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, installed, engine_id, tmp_path / "state", closing],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    said = [line for line in ended.stderr.splitlines() if not line.startswith("engine.quarantined")]
    assert (ended.returncode, ended.stdout, said) == (0, "1\n", [])
