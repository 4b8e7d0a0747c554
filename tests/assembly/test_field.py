"""Faults that people met in the field, through a host."""

import asyncio
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import structlog

from openclaw_ctx import (
    AbortError,
    AbortSignal,
    AssistantMessage,
    CompactResult,
    EngineFailedError,
    EngineInfo,
    Host,
    Registry,
    SystemMessage,
    ToolResultMessage,
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


@pytest.mark.parametrize("engine", ["legacy", "window"])
async def test_standing_instructions_are_first_and_once_whatever_is_folded(tmp_path: Path, engine: str) -> None:
    """B73: a system message that opens the record survives trimming, compaction, rotation and a new opening."""
    config = {"plugins": {"slots": {"contextEngine": engine}}}
    said = "why and how, and since when? " * 40
    async with Host.open(config, state_dir=tmp_path, registry=Registry()) as host:
        async with host.session("talk") as talk:
            await talk.append(SystemMessage(content="You are a lighthouse."))
            for number in range(20):
                await talk.append(UserMessage(content=f"U{number} {said}"))
                await talk.append(AssistantMessage(content=f"A{number} {said}"))
                await talk.end_turn()
            prompts = [await talk.assemble(budget=budget) for budget in (20_000, 2_000, 700, 1)]
            kept = talk.history[-4].entry_id
            for first_kept in (kept, None):
                talk.transcript.append_compaction(
                    summary="They talked.", first_kept_entry_id=first_kept, tokens_before=9
                )
                prompts.append(await talk.assemble(budget=2_000))
                assert talk.transcript.summarised_count == (36 if first_kept else 40)
            rotation = await talk.rotate()
            prompts.append(await talk.assemble(budget=2_000))
        async with host.session("talk") as talk:
            prompts.append(await talk.assemble(budget=2_000))

    assert rotation.rotated
    for prompt in prompts:
        roles = [message.role for message in prompt.messages]
        assert roles[0] == "system"
        assert roles.count("system") == 1
        assert roles[1:2] != ["toolResult"]


async def test_a_native_compaction_leaves_the_instructions_out_of_its_summary(tmp_path: Path) -> None:
    """B73: they stay as they are, and are counted among what stays."""
    async with open_host(tmp_path) as host, host.session("talk") as talk:
        await talk.append(SystemMessage(content="You are a lighthouse."))
        for number in range(20):
            await talk.append(UserMessage(content=f"U{number} " + "why and how? " * 60))
            await talk.append(AssistantMessage(content=f"A{number} " + "because. " * 60))

        compacted = await talk.compact(budget=2_000)
        prompt = await talk.assemble(budget=2_000)

        assert compacted.result.compacted
        assert [message.role for message in prompt.messages[:2]] == ["system", "compactionSummary"]
        assert "lighthouse" not in prompt.messages[1].text
        assert compacted.result.result.tokens_after == prompt.estimated_tokens


async def test_a_hole_in_the_history_is_mended_at_every_prompt_and_told_once(tmp_path: Path) -> None:
    """B02: the orphan is dropped from what the model sees, with one line in the log."""
    structlog.reset_defaults()  # a command that ran before shows warnings alone
    with structlog.testing.capture_logs() as events:
        async with open_host(tmp_path) as host, host.session("talk") as talk:
            await talk.append(UserMessage(content="one"))
            await talk.append(ToolResultMessage(tool_call_id="gone", tool_name="bash", content="orphan"))
            prompts = [await talk.assemble() for _ in range(3)]

    assert [prompt.repairs for prompt in prompts] == [("1 tool result without its call dropped",)] * 3
    (told,) = [entry for entry in events if entry["event"] == "prompt.repaired"]
    assert told["repairs"] == ["1 tool result without its call dropped"]
