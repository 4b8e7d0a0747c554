"""Faults that people met in the field, through a host."""

import asyncio
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from openclaw_ctx import (
    AbortError,
    AbortSignal,
    AssistantMessage,
    CompactResult,
    EngineFailedError,
    EngineInfo,
    Host,
    Registry,
    UserMessage,
    hookimpl,
)
from openclaw_ctx.transcript import Transcript
from tests.assembly.recording import ByTurn, Record, engine_of, open_host
from tests.assembly.transcripts import transcript_path

_DIE_AFTER_ASKING = textwrap.dedent("""
    import asyncio, os, signal, sys
    from openclaw_ctx import Host, UserMessage

    async def main():
        async with Host.open({}, state_dir=sys.argv[1]) as host:
            talk = await host.session("talk")
            await talk.append(UserMessage(content="U1"))
            await talk.assemble(budget=8_000)
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())
""")


async def test_a_message_that_a_crash_interrupted_is_there_once(tmp_path: Path) -> None:
    """B34: killed between question and answer; the recovery turn has it once, and so has the turn after that."""
    died = await asyncio.create_subprocess_exec(sys.executable, "-c", _DIE_AFTER_ASKING, tmp_path)
    assert await died.wait() == -9
    record = Record()
    async with (
        open_host(tmp_path, engines={"recorder": engine_of(ByTurn, record)}) as host,
        host.session("talk") as talk,
    ):
        recovery = await talk.assemble(budget=8_000)
        await talk.append(AssistantMessage(content="A1"))
        await talk.end_turn()
        await talk.append(UserMessage(content="U2"))
        after = await talk.assemble(budget=8_000)
        await talk.append(AssistantMessage(content="A2"))
        await talk.end_turn()
        said = [message.text for message in talk.transcript.record()]

    assert [message.text for message in recovery.messages] == ["U1"]
    assert [message.text for message in after.messages] == ["U1", "A1", "U2"]
    assert said == record.seen == ["U1", "A1", "U2", "A2"]


async def test_a_model_that_is_asked_again_finds_the_question_once(tmp_path: Path) -> None:
    """B34, its variant: the call fails over twice; each prompt holds the question once, and so does the record."""
    async with open_host(tmp_path) as host, host.session("talk") as talk:
        await talk.append(UserMessage(content="U1"))
        prompts = [await talk.assemble(budget=8_000) for _ in range(3)]
        await talk.append(AssistantMessage(content="A1"))
        await talk.end_turn()

        assert [[message.text for message in prompt.messages] for prompt in prompts] == [["U1"]] * 3
        assert [message.text for message in talk.transcript.record()] == ["U1", "A1"]


@pytest.mark.parametrize("first", ["compact", "assemble", "end_turn", "tools"])
async def test_the_very_first_thing_a_process_does_finds_the_built_in_engine(tmp_path: Path, first: str) -> None:
    """B47: a registry that nobody has filled, and no turn before it: ``legacy`` answers, whatever is asked first."""
    async with Host.open({}, state_dir=tmp_path, registry=Registry()) as host, host.session("talk") as talk:
        answer = await getattr(talk, first)()

    assert getattr(answer, "engine", "legacy") == "legacy"


class _Slow:
    """Compacts until it is stopped, or fails."""

    info = EngineInfo(id="slow", name="Slow")
    fails = False

    def __init__(self, context):
        pass

    @hookimpl
    def ingest(self, message):
        return None

    @hookimpl
    async def assemble(self, messages):
        return {"messages": messages, "estimated_tokens": 0}

    @hookimpl
    async def compact(self):
        if self.fails:
            message = "in the middle of it"
            raise RuntimeError(message)
        await asyncio.Event().wait()
        return CompactResult(ok=True, compacted=False)


@pytest.mark.parametrize(
    "end,error",
    [
        ("deadline", EngineFailedError),
        ("abort", AbortError),
        ("cancel", asyncio.CancelledError),
        ("failure", EngineFailedError),
    ],
)
async def test_a_compaction_that_is_cut_off_leaves_no_lock_and_a_whole_transcript(
    tmp_path: Path, end: str, error: type[BaseException]
) -> None:
    """B30: whatever ends it, the next append goes through at once, and another process can write when we are done."""
    engine = type("Engine", (_Slow,), {"fails": end == "failure"})
    config = {
        "plugins": {"slots": {"contextEngine": "slow"}},
        "deadlines": {"compact": 0.2 if end == "deadline" else 60},
    }
    async with Host.open(config, state_dir=tmp_path, registry=Registry()) as host:
        host.register_engine("slow", engine)
        async with host.session("talk") as talk:
            await talk.append(UserMessage(content="one"))
            before = transcript_path(tmp_path).read_bytes()
            abort = AbortSignal()
            compaction = asyncio.ensure_future(talk.compact(abort=abort))
            await asyncio.sleep(0)
            await talk.append(UserMessage(content="while it runs"))
            if end == "abort":
                abort.fire("enough")
            if end == "cancel":
                compaction.cancel()
            with pytest.raises(error):
                await compaction

            await talk.append(UserMessage(content="after it"))
            after = transcript_path(tmp_path).read_bytes()
            refused = await asyncio.to_thread(_append_elsewhere, transcript_path(tmp_path))

    assert after.startswith(before)
    assert "SessionBusyError" in refused
    assert await asyncio.to_thread(_append_elsewhere, transcript_path(tmp_path)) == ""
    with_all = Transcript.read(transcript_path(tmp_path))
    assert [message.text for message in with_all.record()] == ["one", "while it runs", "after it", "elsewhere"]
    assert with_all.take_warnings() == []
    with_all.close()


def _append_elsewhere(path: Path) -> str:
    code = textwrap.dedent("""
        import sys
        from pathlib import Path
        from openclaw_ctx.contract import UserMessage
        from openclaw_ctx.transcript import Transcript
        transcript = Transcript.open(Path(sys.argv[1]))
        transcript.append(UserMessage(content="elsewhere"))
        transcript.close()
    """)
    command = [sys.executable, "-c", code, path]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60).stderr
